//! Where threads wait: for how long, in which calls, for what, and who ends it.

use crate::{
    host_text::HostText,
    instruments::{process_inspect::WaitKind, syscall_trace::Subject},
    observed::Observed,
    units::Percent,
};
use serde::{Deserialize, Serialize};

/// Where threads waited. Times are of all threads together, in microseconds, and of the window only: a
/// wait that began before it counts from its start, one that goes on to its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffCpu {
    /// From giving up the processor to being woken.
    pub blocked_us: Observed<u64>,
    /// Of it, waiting for work by design: see `idle`.
    pub idle_us: Observed<u64>,
    /// From being woken, or born, to getting a processor.
    pub run_queue_us: Observed<u64>,
    /// Runnable, after the processor was taken away.
    pub preempted_us: Observed<u64>,
    /// Waits that were counted.
    pub waits: Observed<u64>,
    /// Of them, those that had begun before the window.
    pub began_before: Observed<u64>,
    /// Of them, those that had not ended with it.
    pub still_waiting: Observed<u64>,
    /// Each so many microseconds of a thread's waits have a stack: a longer wait has its own, and of
    /// shorter ones the last stands for those before it. 0 where stacks were taken otherwise.
    pub stack_each_us: u32,
    /// Where threads waited, the longest together first. Shares are of all time in these rows before
    /// they were cut.
    pub rows: Vec<WaitRow>,
    /// The same of threads that wait for work by design: for a condition variable, for events or a
    /// connection, for a child, or for their own timer. They do not say why something is slow, unless
    /// the work does not come.
    pub idle: Vec<WaitRow>,
    /// What was there to be seen and had no room.
    pub missed: Missed,
}

/// Threads of one process that waited in the same calls for the same thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitRow {
    /// Share of the time of all rows of its list, in percent.
    pub pct: Percent,
    /// Time blocked, in microseconds.
    pub blocked_us: u64,
    /// Time from being woken to getting a processor, in microseconds; of preempted threads all of it.
    pub run_queue_us: Observed<u64>,
    /// Waits.
    pub waits: u64,
    /// The longest of them, in microseconds.
    pub longest_us: Observed<u64>,
    /// Of them, those that had not ended with the window.
    pub still_waiting: u32,
    /// The process.
    pub pid: u32,
    /// Its name, escaped.
    pub process: HostText,
    /// Threads that waited there.
    pub threads: u32,
    /// The one that waited longest.
    pub tid: u32,
    /// Its name, escaped.
    pub thread: HostText,
    /// What kind of thing it waits for.
    pub kind: WaitKind,
    /// Whether the processor was taken away, and nothing was waited for but another one.
    pub is_preempted: bool,
    /// The system call; `null` where it is in none, or that is not known.
    pub call: Option<HostText>,
    /// What is waited for; `null` where that is not known.
    pub subject: Option<Subject>,
    /// Who has the lock that is waited for, where that can be told.
    pub held_by: Option<Holder>,
    /// Who ended the waits, for most of their time first; three at most. Empty where none ended.
    pub wakers: Vec<Waker>,
    /// Calls in the stack that are not shown, between the outermost and the others.
    pub calls_left_out: u32,
    /// Functions with their files, the outermost first; what waits is the last.
    pub calls: Vec<HostText>,
}

/// A thread that has a lock which another waits for: the C library's mutex names its owner. Read at the
/// window's end, while it was waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Holder {
    /// Its process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name, escaped.
    pub name: HostText,
}

/// Who ended waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waker {
    /// Share of the time of its row that it ended, in percent; with what nobody ended, or not seen to,
    /// all shares are less than 100.
    pub pct: Percent,
    /// Waits that it ended.
    pub waits: u64,
    /// What it was.
    pub by: WokenBy,
    /// Its process; 0 for the kernel.
    pub pid: u32,
    /// The thread; 0 for a processor that did nothing else.
    pub tid: u32,
    /// Its name, escaped.
    pub name: HostText,
    /// The function of the kernel that it was in; `null` where that is not known.
    pub function: Option<HostText>,
}

/// What woke a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WokenBy {
    /// A thread, by what it did.
    Thread,
    /// A timer that ran out.
    Timer,
    /// An interrupt: a device or the network had something. The thread was only there.
    Interrupt,
    /// A thread, or an interrupt while it ran: the kernel's names are hidden.
    NotKnown,
}

impl WokenBy {
    /// In words, for a table.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Thread => "thread",
            Self::Timer => "timer",
            Self::Interrupt => "interrupt",
            Self::NotKnown => "not known",
        }
    }
}

/// What was there to be seen and had no room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missed {
    /// Waits that were added up without a stack, in microseconds: short ones of threads that did not
    /// wait long enough together, and those of too many different ones.
    pub without_stack_us: u64,
    /// Different waits that there was no room for.
    pub ways: u64,
    /// Copies of stacks that there was no room for: others of the same wait stand for them.
    pub copies: u64,
    /// Stacks of the kernel that there was no room for.
    pub kernel_stacks: u64,
    /// Wakers that there was no room for.
    pub wakers: u64,
    /// Threads that there was no memory for.
    pub threads: u64,
    /// Threads that waited through the window's end and whose stacks were too many to be read.
    pub open_stacks: u64,
}
