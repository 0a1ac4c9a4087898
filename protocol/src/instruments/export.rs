//! `export`: sends a whole recording home, to be written in a format that another program reads.
//!
//! Nothing is measured: the recording is one that was stored before. Its parts are streamed in the
//! order of [`Item`], each part in pieces; a number in one part counts the entries of another from 0,
//! and is below what was sent of it by then.

use crate::{
    artifact::ArtifactId,
    host_text::HostText,
    instruments::{Exchange, Instrument},
    parameter::InvalidParameter,
    recording::{self, Kind, Recording},
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct Export;

/// Bytes of names in a piece, about: one of a slow line takes seconds, and a heartbeat comes through.
pub const PIECE_BYTES: usize = 64 << 10;

/// Entries in a piece, where each is some numbers.
pub const PIECE_ENTRIES: usize = 8 << 10;

impl Instrument for Export {
    type Request = Request;
    type Item = Item;
    type Report = Report;

    fn check(_: &Request) -> Result<(), InvalidParameter> {
        Ok(())
    }

    fn window_ms(_: &Request) -> u32 {
        0
    }

    fn tables(report: &Report) -> Vec<Table> {
        let Parts { modules, functions, threads, calls, stacks, lines } = report.parts;
        let samples = report.recording.samples;
        vec![Table::facts(
            "export",
            [
                ("samples", samples.to_string()),
                ("stacks", format!("{stacks} of {threads} threads")),
                ("calls", format!("{calls} of {functions} functions in {modules} modules")),
                ("source lines", lines.to_string()),
            ],
        )]
    }

    fn example() -> Exchange<Self> {
        Exchange {
            request: Request { artifact: ArtifactId(0x0bad_cafe) },
            item: Some(Item::Functions(vec![Function {
                name: HostText::new(b"hash"),
                module: Some(0),
                kind: Kind::User,
            }])),
            report: Report {
                recording: recording::example(),
                parts: Parts {
                    modules: 3,
                    functions: 120,
                    threads: 4,
                    calls: 311,
                    stacks: 209,
                    lines: 20,
                },
            },
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Handle of a recording.
    pub artifact: ArtifactId,
}

/// A piece of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// Files with code, or what stands in the place of one.
    Modules(Vec<HostText>),
    /// Functions.
    Functions(Vec<Function>),
    /// Threads that were sampled.
    Threads(Vec<Thread>),
    /// Places in the tree of calls, each behind its caller.
    Calls(Vec<Call>),
    /// Stacks with their weights.
    Stacks(Vec<Stack>),
    /// Source lines of the heaviest functions.
    Lines(Vec<Line>),
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// Its name.
    pub name: HostText,
    /// The number of its module; none where that is not known.
    pub module: Option<u32>,
    /// What kind of code it is.
    pub kind: Kind,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its process; 0 for text that was given.
    pub pid: u32,
    /// Itself; the same as `pid` for the main thread.
    pub tid: u32,
    /// Its name.
    pub name: HostText,
}

/// A function in a place of the tree of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The number of the call that it was made in; none for one that nobody made.
    pub parent: Option<u32>,
    /// The number of the function.
    pub function: u32,
}

/// How often a thread was seen in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stack {
    /// The number of the thread.
    pub thread: u32,
    /// The number of the innermost call; none for a stack without any frame.
    pub call: Option<u32>,
    /// Events that it stands for, in the unit of what was counted.
    pub weight: u64,
}

/// A source line that was executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The number of the function.
    pub function: u32,
    /// The path of the source, as the compiler was given it.
    pub file: HostText,
    /// Counted from 1.
    pub line: u32,
    /// The weight of stacks that end there.
    pub weight: u64,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Of what the recording is, and how far it can be relied on.
    pub recording: Recording,
    /// What was sent.
    pub parts: Parts,
}

/// How many of each part there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Parts {
    /// Files with code.
    pub modules: u32,
    /// Functions.
    pub functions: u32,
    /// Threads.
    pub threads: u32,
    /// Places in the tree of calls.
    pub calls: u32,
    /// Different stacks, each of a thread.
    pub stacks: u32,
    /// Source lines.
    pub lines: u32,
}
