//! `perf_report`: further questions about a recording that `perf_record` made. None samples anything.

mod example;
mod table;

use crate::{
    artifact::ArtifactId,
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems},
    parameter::{InvalidParameter, in_range, spelled},
    recording::{FunctionRow, Recording},
    units::Percent,
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct PerfReport;

impl Instrument for PerfReport {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        in_range("limit", request.limit, &(1..=200))?;
        in_range("offset", request.offset, &(0..=1_000_000))?;
        in_range("depth", request.depth, &(1..=64))?;
        let mode = spelled(&request.mode);
        let needs = |name: &'static str, expected: &str| {
            let expected = format!("{expected} in mode {mode}");
            Err(InvalidParameter {
                name: name.into(),
                value: "missing".into(),
                expected: expected.into(),
            })
        };
        let is_named = request.function.as_ref().is_some_and(|name| !name.as_str().is_empty());
        match request.mode {
            Mode::Callees if !is_named => {
                needs("function", "a function's name, from mode functions,")
            }
            Mode::Diff if request.baseline.is_none() => {
                needs("baseline", "the handle of an earlier recording")
            }
            Mode::Functions
            | Mode::Threads
            | Mode::Modules
            | Mode::Callers
            | Mode::Callees
            | Mode::Lines
            | Mode::Diff => Ok(()),
        }
    }

    fn window_ms(_: &Request) -> u32 {
        0
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        let request = Request {
            function: Some(HostText::new(b"hash_block")),
            mode: Mode::Callers,
            ..Request::of(ArtifactId(0x0bad_cafe))
        };
        Exchange { request, item: None, report: example::report() }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The recording: `meta.artifact` of perf_record's answer. Required.
    pub artifact: ArtifactId,
    /// What is asked of it. Default: functions.
    #[serde(default)]
    pub mode: Mode,
    /// For callers and callees: a function's name as mode functions has it, or a part that only one
    /// name has; callers without it are those of the heaviest function. For lines: only those of this
    /// function.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub function: Option<HostText>,
    /// For diff: the recording from before, to compare with.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "ArtifactId"))]
    pub baseline: Option<ArtifactId>,
    /// What functions and modules are ranked by. Default: self.
    #[serde(default)]
    pub sort: Sort,
    /// For callers and callees: calls that are followed from the function: 1-64, default 16.
    #[serde(default = "default_depth")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 64)))]
    pub depth: u32,
    /// Rows to return: 1-200, default 20.
    #[serde(default = "default_limit")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 200)))]
    pub limit: u32,
    /// Rows to skip from the top: 0-1000000, default 0.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(range(max = 1_000_000)))]
    pub offset: u32,
}

const fn default_depth() -> u32 {
    16
}

const fn default_limit() -> u32 {
    20
}

impl Request {
    /// The question that asks for functions.
    pub const fn of(artifact: ArtifactId) -> Self {
        Self {
            artifact,
            mode: Mode::Functions,
            function: None,
            baseline: None,
            sort: Sort::SelfWeight,
            depth: default_depth(),
            limit: default_limit(),
            offset: 0,
        }
    }
}

/// What is asked of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Which functions are heaviest.
    #[default]
    Functions,
    /// Which threads.
    Threads,
    /// Which programs and libraries.
    Modules,
    /// Through which calls a function is reached, with shares.
    Callers,
    /// Which calls a function makes, with shares.
    Callees,
    /// Which source lines of the heaviest functions.
    Lines,
    /// What changed since `baseline`, and whether that is more than chance.
    Diff,
}

/// What functions and modules are ranked by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Samples in it.
    #[default]
    #[serde(rename = "self")]
    SelfWeight,
    /// Samples in it, or in what it called.
    Total,
}

/// What is answered. Of the lists, the one that the mode is about has rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Of what the recording is, and how far it can be relied on.
    pub recording: Recording,
    /// What was asked of it.
    pub mode: Mode,
    /// For functions.
    pub functions: Vec<FunctionRow>,
    /// For threads.
    pub threads: Vec<ThreadRow>,
    /// For modules.
    pub modules: Vec<ModuleRow>,
    /// For callers and callees; `null` otherwise.
    pub chains: Option<Chains>,
    /// For lines.
    pub lines: Vec<LineRow>,
    /// For diff; `null` otherwise.
    pub difference: Option<Difference>,
}

/// A thread, and what it weighs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRow {
    /// Its process.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The kernel's name for it, escaped.
    pub name: HostText,
    /// Its share of samples, in percent.
    pub pct: Percent,
}

/// A program, a library or another piece of code, and what it weighs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ModuleRow {
    /// Its name, escaped; `null` for code in none that is known.
    pub name: Option<HostText>,
    /// Share of samples in its code, in percent.
    pub self_pct: Percent,
    /// Share of samples in its code or in what that called, in percent.
    pub total_pct: Percent,
}

/// Ways into a function, or out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Chains {
    /// The function, or those that have its name in several files; five at most.
    pub functions: Vec<HostText>,
    /// Share of all samples in it or in what it called, in percent.
    pub total_pct: Percent,
    /// The ways, the heaviest first. Together they are all of the function's samples.
    pub rows: Vec<ChainRow>,
}

/// One way into a function, or out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChainRow {
    /// Share of the function's samples, in percent.
    pub of_function_pct: Percent,
    /// Share of all samples, in percent.
    pub pct: Percent,
    /// Functions with their files, from the nearest on. Empty: nobody called it, or it called nobody.
    pub calls: Vec<HostText>,
    /// Whether the way goes on behind the last of them.
    pub goes_on: bool,
}

/// A source line, and what was executed there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LineRow {
    /// The source's path, as the compiler was given it, escaped.
    pub file: HostText,
    /// Counted from 1.
    pub line: u32,
    /// The function, escaped.
    pub function: HostText,
    /// Share of samples on this line, in percent.
    pub pct: Percent,
}

/// What changed from one recording to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Difference {
    /// Samples of the baseline.
    pub baseline_samples: u64,
    /// How long it took, in milliseconds.
    pub baseline_window_ms: u64,
    /// A share near a half must change by so many points of percent to be told from chance; other
    /// shares by less.
    pub least_significant_pct: Percent,
    /// Functions whose change is more than chance would make, in all.
    pub significant_total: u32,
    /// Functions: those that changed significantly first, those that changed most first.
    pub rows: Vec<ChangeRow>,
}

/// A function, before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ChangeRow {
    /// Its name with its file, escaped.
    pub function: HostText,
    /// Share of samples in it or in what it called, in percent: in the baseline.
    pub before_total_pct: Percent,
    /// The same in the recording.
    pub after_total_pct: Percent,
    /// Share of samples in the function itself, in percent: in the baseline.
    pub before_self_pct: Percent,
    /// The same in the recording.
    pub after_self_pct: Percent,
    /// Whether its total share changed by more than chance would make.
    pub is_significant: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_that_needs_more_says_what() {
        let of = |mode| Request { mode, ..Request::of(ArtifactId(1)) };
        let cases = [
            (of(Mode::Callees), "function is missing: expected a function's name"),
            (of(Mode::Diff), "baseline is missing: expected the handle of an earlier recording"),
            (Request { limit: 201, ..of(Mode::Functions) }, "limit is 201: expected 1 to 200"),
            (Request { depth: 0, ..of(Mode::Functions) }, "depth is 0: expected 1 to 64"),
        ];
        for (request, want) in cases {
            let error = PerfReport::check(&request).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
        let named = Request { function: Some(HostText::new(b"f")), ..of(Mode::Callers) };
        assert_eq!(PerfReport::check(&named), Ok(()));
    }
}
