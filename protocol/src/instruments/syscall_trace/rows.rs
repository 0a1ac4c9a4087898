//! The rows of an answer.

use crate::{
    histogram::{Histogram, Percentiles},
    host_text::HostText,
    observed::Observed,
    units::{Micros, Percent},
};
use serde::{Deserialize, Serialize};

/// One system call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallRow {
    /// Its name; `syscall_N` for a number that has none here.
    pub call: HostText,
    /// Whether programs of 32 bits made them, whose calls have numbers of their own.
    pub is_32_bit: bool,
    /// How many ended, well or not.
    pub count: Observed<u64>,
    /// Of them, those that failed.
    pub failed: Observed<u64>,
    /// Time in all of them, in microseconds.
    pub total_us: Observed<Micros>,
    /// Their share of the time of this list, in percent.
    pub share_pct: Observed<Percent>,
    /// Those that succeeded; `null` where none did.
    pub succeeded: Option<Timing>,
    /// Those that failed, by error, the commonest first; eight at most.
    pub errors: Vec<ErrorRow>,
    /// Processes that made them.
    pub processes: u32,
}

/// How long calls took.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Timing {
    /// How many.
    pub count: Observed<u64>,
    /// All of them together, in microseconds.
    pub total_us: Observed<Micros>,
    /// The longest, in microseconds.
    pub max_us: Observed<Micros>,
    /// What most of them did not exceed.
    pub percentiles: Observed<Percentiles>,
    /// Their distribution.
    pub latency: Observed<Histogram>,
}

/// Calls that failed with one error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ErrorRow {
    /// Its name: `ENOENT`; `ERESTART` stands for all by which the kernel begins a call again after a
    /// signal.
    pub error: HostText,
    /// How many.
    pub count: Observed<u64>,
    /// All of them together, in microseconds.
    pub total_us: Observed<Micros>,
    /// The longest, in microseconds.
    pub max_us: Observed<Micros>,
}

/// What kind of thing calls are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SubjectKind {
    /// A file or folder, by its path.
    Path,
    /// A socket, by its peer.
    Socket,
    /// A pipe.
    Pipe,
    /// A terminal.
    Terminal,
    /// A word in memory that threads wait on: a lock, a condition.
    Futex,
    /// Many descriptors at once: epoll, poll, select.
    Poll,
    /// A counter to wake others with.
    Eventfd,
    /// A timer, or a time to sleep.
    Timer,
    /// Signals.
    Signal,
    /// Changes of files.
    Inotify,
    /// A child that is waited for.
    Child,
    /// Memory of the process.
    Memory,
    /// Input and output that was handed in before.
    Completions,
    /// Any other descriptor.
    Other,
    /// Calls that are about nothing in particular, or whose subject was not resolved.
    Nothing,
}

/// What calls are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Subject {
    /// What kind of thing.
    pub kind: SubjectKind,
    /// The path, the peer's address, the identity, escaped: `/etc/hosts`, `tcp 10.0.0.5:443`, `unix
    /// /run/x.sock`, `pipe:[4711]`, `0x7f00deadbee0`.
    pub name: HostText,
    /// Whether the name is known in part only: a path that was cut, or begins at a folder that is not
    /// known.
    pub is_partial: bool,
    /// Who has the other end of a pipe or of a local socket, or what the child is: `4712 worker`. Three
    /// at most.
    pub other_end: Vec<HostText>,
}

/// Calls about one thing, of all processes together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SubjectRow {
    /// What they are about.
    pub subject: Subject,
    /// How many ended, well or not.
    pub count: Observed<u64>,
    /// Of them, those that failed.
    pub failed: Observed<u64>,
    /// Time in all of them, in microseconds.
    pub total_us: Observed<Micros>,
    /// The longest, in microseconds.
    pub max_us: Observed<Micros>,
    /// Their share of the time of this list, in percent.
    pub share_pct: Observed<Percent>,
    /// Which calls, the commonest first; five at most.
    pub calls: Vec<CallCount>,
    /// Those that failed, by error, the commonest first; three at most.
    pub errors: Vec<ErrorRow>,
    /// Processes that made them.
    pub processes: u32,
    /// The process, where it is one.
    pub pid: Option<u32>,
}

/// How many of one call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallCount {
    /// Its name.
    pub call: HostText,
    /// How many ended.
    pub count: Observed<u64>,
    /// Time in all of them, in microseconds.
    pub total_us: Observed<Micros>,
}

/// A call that had not ended when the window did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Unfinished {
    /// Its name.
    pub call: HostText,
    /// Whether it sleeps by nature.
    pub is_wait: bool,
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// The thread's name.
    pub name: Observed<HostText>,
    /// What it is about; `null` where it is about nothing, and in a summary.
    pub subject: Option<Subject>,
    /// How long it had taken by then, in milliseconds; unknown where it began before the window.
    pub since_ms: Observed<u64>,
    /// Whether it began before the window.
    pub is_begun_before: bool,
}

/// What was lost on one processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LostOn {
    /// The processor's number.
    pub processor: u32,
    /// Calls that were not counted.
    pub calls: u64,
}
