//! `inspect_source`: the lines of a program's source, with what was sampled on each.
//!
//! Which lines a function has is said by the information for debuggers of the file that is mapped; what
//! stands on them, by the source itself, where it is on the target at the path that the compiler was
//! given. It is read as the process sees it. Usually it is elsewhere: then the numbers of the lines
//! and their weights are the answer.

mod table;

use crate::{
    artifact::ArtifactId,
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems},
    parameter::{InvalidParameter, in_range},
    recording::{self, Function, Kind, Recording},
    units::Percent,
    view::table::Table,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Marker for this instrument.
pub struct InspectSource;

/// The longest name of a function that is looked for, in bytes.
pub const MOST_NAME_BYTES: usize = 512;

/// The longest path that is opened, in bytes.
pub const MOST_PATH_BYTES: usize = 1024;

impl Instrument for InspectSource {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        if let Some(pid) = request.pid {
            in_range("pid", pid, &(1..=4_194_304))?;
        }
        if let Some(line) = request.line {
            in_range("line", line, &(1..=10_000_000))?;
        }
        in_range("context", request.context, &(1..=100))?;
        in_range("limit", request.limit, &(1..=400))?;
        check_text("function", request.function.as_ref(), MOST_NAME_BYTES)?;
        check_text("file", request.file.as_ref(), MOST_PATH_BYTES)?;
        request.check_together()
    }

    fn window_ms(_: &Request) -> u32 {
        0
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        let request = Request {
            artifact: Some(ArtifactId(0x0bad_cafe)),
            function: Some(HostText::new(b"hash")),
            ..Request::default()
        };
        Exchange { request, item: None, report: example_report() }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Handle of a recording: lines get their share of its samples. Either this or `pid`.
    #[cfg_attr(feature = "schema", schemars(with = "ArtifactId"))]
    pub artifact: Option<ArtifactId>,
    /// Process id: 1-4194304. Its files for debuggers are searched for `function`, or `file` is read
    /// as it sees it.
    #[cfg_attr(feature = "schema", schemars(with = "u32", range(min = 1, max = 4_194_304)))]
    pub pid: Option<u32>,
    /// Name of a function, or a part of it that no other has. With `artifact`, the function whose
    /// lines weigh most if left out.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub function: Option<HostText>,
    /// Absolute path of a source file, with `pid` and `line`; instead of `function`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub file: Option<HostText>,
    /// A line of `file`: 1-10000000.
    #[cfg_attr(feature = "schema", schemars(with = "u32", range(min = 1, max = 10_000_000)))]
    pub line: Option<u32>,
    /// Lines to show around each that matters: 1-100, default 10.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub context: u32,
    /// Lines to show at most, those with most samples first, then those nearest to them: 1-400,
    /// default 60.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 400)))]
    pub limit: u32,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            artifact: None,
            pid: None,
            function: None,
            file: None,
            line: None,
            context: 10,
            limit: 60,
        }
    }
}

impl Request {
    /// Checks that what is given belongs together.
    fn check_together(&self) -> Result<(), InvalidParameter> {
        let refused = |name: &'static str, value: &'static str, expected: &'static str| {
            Err(InvalidParameter {
                name: name.into(),
                value: value.into(),
                expected: expected.into(),
            })
        };
        let has_place = self.file.is_some() || self.line.is_some();
        match (self.artifact, self.pid) {
            (None, None) => refused("artifact", "missing", "it, or `pid`"),
            (Some(_), Some(_)) => refused("pid", "given", "it or `artifact`, not both"),
            (Some(_), None) if has_place => {
                refused("artifact", "given", "`pid` with `file` and `line`, or `function` with it")
            }
            (Some(_), None) => Ok(()),
            (None, Some(_)) => match (&self.function, &self.file, self.line) {
                (Some(_), None, None) | (None, Some(_), Some(_)) => Ok(()),
                (None, Some(_), None) => refused("line", "missing", "it, with `file`"),
                (None, None, Some(_)) => refused("file", "missing", "it, with `line`"),
                (None, None, None) => {
                    refused("function", "missing", "it, or `file` and `line`, with `pid`")
                }
                (Some(_), _, _) => {
                    refused("function", "given", "it, or `file` and `line`, not both")
                }
            },
        }
    }
}

/// Checks the text of a parameter, in its escaped form.
fn check_text(
    name: &'static str,
    text: Option<&HostText>,
    most_bytes: usize,
) -> Result<(), InvalidParameter> {
    let Some(text) = text.map(HostText::as_str) else { return Ok(()) };
    let (is_path, what) = match name {
        "file" => (text.starts_with('/'), "an absolute path"),
        _ => (true, "a name"),
    };
    if !text.is_empty() && text.len() <= most_bytes && is_path {
        return Ok(());
    }
    Err(InvalidParameter {
        name: name.into(),
        value: HostText::capped(text.as_bytes(), 60).to_string().into(),
        expected: format!("{what} of 1 to {most_bytes} bytes").into(),
    })
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The recording that weights are of; `null` without one.
    pub recording: Option<Recording>,
    /// The function; `null` where a file and a line were asked for.
    pub function: Option<Function>,
    /// The path of the source, as the compiler was given it, escaped; `null` where nothing says it.
    pub file: Option<HostText>,
    /// Whether what stands on the lines is shown, or why not.
    pub text: Text,
    /// The same file as the process has it: its path in the process's root, without links, escaped;
    /// `null` where it was not read.
    pub path: Option<HostText>,
    /// The process as which it was read; `null` where none was.
    pub pid: Option<u32>,
    /// Whether it was read in the agent's own root, because no process that ran the function is left:
    /// it may be another file than the compiler read.
    pub is_of_agent: bool,
    /// Lines that it has; `null` where it was not read to its end.
    pub file_lines: Option<u32>,
    /// Whether it was changed after the program's file was, so that its lines may not be those that
    /// were compiled; `null` where either time is not known.
    pub is_newer: Option<bool>,
    /// The first line of the function that is known; `null` where none is.
    pub first_line: Option<u32>,
    /// The last one.
    pub last_line: Option<u32>,
    /// Share of the recording's samples that are in the function itself, on lines of this file, in
    /// percent; `null` without a recording.
    pub weight_pct: Option<Percent>,
    /// Lines, in the order of the file.
    pub lines: Vec<Line>,
    /// Other places that were meant just as well: other files with lines of this function, and other
    /// functions with such a name; the heaviest first, five at most.
    pub others: Vec<Other>,
}

/// A line of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Line {
    /// Counted from 1.
    pub line: u32,
    /// What stands there, escaped, secrets taken out, tabs as four spaces; `null` where the text is
    /// not shown.
    pub text: Option<HostText>,
    /// Share of the recording's samples that end there, in percent; `null` without a recording.
    pub weight_pct: Option<Percent>,
    /// Whether it is known that machine code was made of it for the function: samples end there, or the
    /// information for debuggers says so.
    pub has_code: bool,
}

/// Another place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Other {
    /// The function.
    pub function: HostText,
    /// The file it is in; `null` where that is not known.
    pub module: Option<HostText>,
    /// The path of the source, as the compiler was given it; `null` where it was not looked for.
    pub file: Option<HostText>,
    /// Share of the recording's samples, in percent; `null` without a recording.
    pub weight_pct: Option<Percent>,
}

/// Whether the text of the lines is shown, or why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Text {
    /// It is.
    Shown,
    /// Nothing says which source the function is of.
    NoLines,
    /// The recording has lines of its heaviest functions only, and of this one none.
    NoLinesRecorded,
    /// The process has no such file: the sources are elsewhere.
    NotThere,
    /// The compiler was given a path that is not absolute, or is longer than any.
    NoPath,
    /// Its name is not that of a source.
    NotASource,
    /// Its name is that of a file in which secrets are kept.
    Secret,
    /// The path leads into files that the kernel makes, such as `/proc`.
    OfTheKernel,
    /// It is a folder, a pipe, a device or a socket.
    NotAFile,
    /// The path goes through more links than are followed.
    TooFar,
    /// This login may not see the files of the process, or not this one.
    NotPermitted,
    /// No process that ran the function is left.
    Gone,
    /// Its file system does not answer.
    Hangs,
    /// The kernel answered with another error.
    Failed,
}

impl Text {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Shown,
        Self::NoLines,
        Self::NoLinesRecorded,
        Self::NotThere,
        Self::NoPath,
        Self::NotASource,
        Self::Secret,
        Self::OfTheKernel,
        Self::NotAFile,
        Self::TooFar,
        Self::NotPermitted,
        Self::Gone,
        Self::Hangs,
        Self::Failed,
    ];

    /// What the reader can do about it.
    pub const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Shown
            | Self::Secret
            | Self::OfTheKernel
            | Self::NotAFile
            | Self::TooFar
            | Self::Failed => None,
            Self::NoLines => Some(
                "build the program with -g, or install the package with its debug symbols (-dbgsym, \
                 -debuginfo)",
            ),
            Self::NoLinesRecorded => Some("ask with `pid` instead of `artifact`"),
            Self::NotThere | Self::NoPath => {
                Some("look at these lines where the program was built, or in its repository")
            }
            Self::NotASource => Some("ask for a source file"),
            Self::NotPermitted => Some("connect as root or as the user of the process"),
            Self::Gone => Some("ask while the process runs"),
            Self::Hangs => Some("see host_snapshot for mounts that do not answer"),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shown => "the text is shown",
            Self::NoLines => "nothing says which source the function is of",
            Self::NoLinesRecorded => {
                "the recording has lines of its heaviest functions only, and none of this one"
            }
            Self::NotThere => "the source is not on the target at the path the compiler was given",
            Self::NoPath => "the compiler was given a path that is not absolute",
            Self::NotASource => "the name is not that of a source file, and nothing else is read",
            Self::Secret => "files with such a name hold secrets, and are not read",
            Self::OfTheKernel => {
                "the path leads to files that the kernel makes, which are not read"
            }
            Self::NotAFile => "at the path is no regular file",
            Self::TooFar => "the path goes through more links than are followed",
            Self::NotPermitted => "this login may not read the file as the process sees it",
            Self::Gone => "no process that ran the function is left",
            Self::Hangs => "the file system of the source does not answer",
            Self::Failed => "the source could not be read",
        })
    }
}

fn example_report() -> Report {
    let percent = |part| Percent::of(part, 100.0);
    let line = |line, text: &str, weight, has_code| Line {
        line,
        text: Some(HostText::new(text.as_bytes())),
        weight_pct: percent(weight),
        has_code,
    };
    Report {
        recording: Some(recording::example()),
        function: Some(Function {
            name: HostText::new(b"hash"),
            module: Some(HostText::new(b"worker")),
            kind: Kind::User,
        }),
        file: Some(HostText::new(b"/srv/build/worker/hash.c")),
        text: Text::Shown,
        path: Some(HostText::new(b"/srv/build/worker/hash.c")),
        pid: Some(4711),
        is_of_agent: false,
        file_lines: Some(212),
        is_newer: Some(false),
        first_line: Some(41),
        last_line: Some(42),
        weight_pct: percent(63.4),
        lines: vec![
            line(40, "    for (size_t i = 0; i < length; i++) {", 0.0, false),
            line(41, "        state ^= bytes[i];", 21.2, true),
            line(42, "        state *= 1099511628211u;", 42.2, true),
            line(43, "    }", 0.0, false),
        ],
        others: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut Request)) -> Result<(), String> {
        let mut request = Request::default();
        change(&mut request);
        InspectSource::check(&request).map_err(|error| error.to_string())
    }

    #[test]
    fn what_belongs_together_is_asked_together() {
        let artifact = Some(ArtifactId(1));
        let text = |text: &str| Some(HostText::new(text.as_bytes()));
        let refused = [
            (check(|_| ()), "artifact is missing: expected it, or `pid`"),
            (check(|it| it.pid = Some(7)), "function is missing"),
            (check(|it| (it.pid, it.line) = (Some(7), Some(3))), "file is missing"),
            (check(|it| (it.pid, it.file) = (Some(7), text("/a.c"))), "line is missing"),
            (check(|it| (it.artifact, it.pid) = (artifact, Some(7))), "not both"),
            (check(|it| (it.artifact, it.line) = (artifact, Some(7))), "`pid` with `file`"),
            (
                check(|it| {
                    (it.pid, it.function) = (Some(7), text("f"));
                    (it.file, it.line) = (text("/a.c"), Some(1));
                }),
                "not both",
            ),
            (
                check(|it| (it.pid, it.file, it.line) = (Some(7), text("a.c"), Some(1))),
                "file is a.c: expected an absolute path of 1 to 1024 bytes",
            ),
            (check(|it| (it.pid, it.function) = (Some(7), text(""))), "expected a name"),
            (check(|it| it.limit = 401), "limit is 401"),
            (check(|it| it.context = 0), "context is 0"),
        ];
        for (found, want) in refused {
            let found = found.unwrap_err();
            assert!(found.contains(want), "{found}: {want}");
        }
        for accepted in [
            check(|it| it.artifact = artifact),
            check(|it| (it.artifact, it.function) = (artifact, text("f"))),
            check(|it| (it.pid, it.function) = (Some(7), text("operator new(unsigned long)"))),
            check(|it| (it.pid, it.file, it.line) = (Some(7), text("/a/b.c"), Some(1))),
        ] {
            assert_eq!(accepted, Ok(()));
        }
    }
}
