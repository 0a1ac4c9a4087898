//! `process_inspect`: the numbers that tell what one process spends its time on.
//!
//! Counters at both ends of the window say how much: time in user mode and in the kernel, time
//! runnable but waiting for a processor, and the rest, blocked. Samples of what its threads wait
//! in, taken in between, only say for what. A throttled cgroup, a busy neighbour and slow storage
//! look alike from outside and differ here.

mod example;
mod table;

use crate::{
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems, process_list::State},
    observed::Observed,
    parameter::{InvalidParameter, in_range},
    units::{Bytes, PerSecond, Percent},
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct ProcessInspect;

impl Instrument for ProcessInspect {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        in_range("pid", request.pid, &(1..=4_194_304))?;
        in_range("window_ms", request.window_ms, &(100..=60_000))?;
        in_range("threads", request.threads, &(0..=100))
    }

    fn window_ms(request: &Request) -> u32 {
        request.window_ms
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        let request = Request { pid: 4711, start_ticks: 0, window_ms: 1000, threads: 5 };
        Exchange { request, item: None, report: example::report() }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Process id, from process_list: 1-4194304. Required.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 4_194_304)))]
    pub pid: u32,
    /// The process's `start_ticks` from process_list. With it, a reused pid is refused instead of
    /// answered. Default 0: whatever process has the pid now.
    #[serde(default)]
    pub start_ticks: u64,
    /// Length of the measuring window in milliseconds: 100-60000, default 1000.
    #[serde(default = "default_window_ms")]
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 60_000)))]
    pub window_ms: u32,
    /// Threads to show, the busiest first: 0-100, default 5.
    #[serde(default = "default_threads")]
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub threads: u32,
}

const fn default_window_ms() -> u32 {
    1000
}

const fn default_threads() -> u32 {
    5
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Which process.
    pub process: Identity,
    /// Where its processor time went.
    pub cpu: Cpu,
    /// What its threads were found in, between the two ends of the window.
    pub waits: Waits,
    /// The threads, those that wanted a processor most first.
    pub threads: Vec<ThreadRow>,
    /// Its memory.
    pub memory: Memory,
    /// Its input and output.
    pub io: Io,
    /// Its open files.
    pub descriptors: Descriptors,
    /// Its cgroup and what that limits.
    pub cgroup: Cgroup,
    /// The machine in the same window.
    pub host: HostContext,
}

/// Which process this is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Identity {
    /// Process id.
    pub pid: u32,
    /// When it started, in clock ticks after boot.
    pub start_ticks: u64,
    /// Its parent.
    pub parent_pid: u32,
    /// The kernel's name for it, escaped.
    pub name: HostText,
    /// Its arguments, escaped, secrets taken out.
    pub command: Observed<HostText>,
    /// Its user.
    pub user: Observed<HostText>,
    /// Its service, by its cgroup.
    pub service: Observed<HostText>,
    /// Its container, by its cgroup.
    pub container: Observed<HostText>,
    /// Whether it is a thread of the kernel.
    pub is_kernel_thread: bool,
    /// State at the end of the window.
    pub state: State,
    /// Threads at the end of the window.
    pub threads: u32,
    /// Seconds since it started.
    pub age_s: Observed<u64>,
}

/// Processor time of the whole process in the window. 100 % is one processor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// In user mode. Resolution: one clock tick, 10 ms.
    pub user_pct: Observed<Percent>,
    /// In the kernel. Resolution: one clock tick, 10 ms.
    pub system_pct: Observed<Percent>,
    /// On a processor, summed over threads, by the scheduler's own clock.
    pub running_pct: Observed<Percent>,
    /// Runnable and waiting for a processor, summed over threads. A throttled cgroup counts here
    /// too; see `cgroup`.
    pub run_delay_pct: Observed<Percent>,
    /// Of it, that of the threads whose account is known. Where threads ended in the window and
    /// left the whole unknown, it was at least this much.
    pub run_delay_at_least_pct: Observed<Percent>,
    /// Of the thread that wanted a processor most: on a processor.
    pub busiest_thread_running_pct: Observed<Percent>,
    /// Of the same thread: neither running nor waiting for a processor.
    pub busiest_thread_blocked_pct: Observed<Percent>,
    /// Children that ended in the window and were waited for: at most this much, because the kernel
    /// adds a child's whole life. Unknown where that exceeds what all processors did.
    pub children_at_most_pct: Observed<Percent>,
    /// Context switches because a thread waited for something.
    pub voluntary_switches_per_s: Observed<PerSecond>,
    /// Context switches because a thread's time was up or another was preferred.
    pub involuntary_switches_per_s: Observed<PerSecond>,
    /// Waiting for block storage or swap, by delay accounting, summed over threads.
    pub block_delay_pct: Observed<Percent>,
}

/// Samples of what threads were found in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waits {
    /// Times the threads were looked at.
    pub samples: u32,
    /// Threads looked at each time, at most: those that wanted a processor most.
    pub threads_sampled: u32,
    /// Threads that were seen in the window, at its start or at a look.
    pub threads_total: u32,
    /// Of them, those never looked at: what they waited in is unknown.
    pub threads_never_sampled: u32,
    /// Places they were found in, before the list was cut to the answer's size.
    pub groups_total: u32,
    /// What they were found in, most often first. Samples miss waits much shorter than a
    /// millisecond, because the looking itself outlasts them; `blocked_pct` does not.
    pub groups: Vec<WaitGroup>,
}

/// Threads found in the same state and place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WaitGroup {
    /// What kind of thing they wait for.
    pub kind: WaitKind,
    /// Their state.
    pub state: State,
    /// The kernel function they wait in.
    pub channel: Observed<HostText>,
    /// The system call they are in.
    pub syscall: Observed<HostText>,
    /// Distinct threads.
    pub threads: u32,
    /// Share of all samples of all threads, in percent.
    pub share_pct: Percent,
    /// Time that its threads were blocked there, summed over threads, in percent of the window:
    /// how long by the scheduler's account, where by the samples.
    pub blocked_pct: Observed<Percent>,
}

/// What kind of thing a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// Nothing: on a processor, or runnable.
    Running,
    /// Storage: a block device, a journal, dirty pages, a network file system.
    Storage,
    /// Completions of asynchronous I/O, of storage or of anything else; with none under way, an
    /// idle worker waits there too.
    Completions,
    /// A lock that another thread holds: a contended futex, a file lock.
    Lock,
    /// A lock inside the kernel.
    KernelLock,
    /// A futex that is not known to be a contended lock: a condition variable, an idle worker.
    Futex,
    /// Readiness of descriptors: poll, select, epoll.
    Poll,
    /// A peer on a socket.
    Socket,
    /// The other end of a pipe, or a terminal.
    Pipe,
    /// The clock.
    Timer,
    /// A child.
    Child,
    /// Memory: reclaim, or a page fault.
    Memory,
    /// A signal or a tracer to go on.
    Stopped,
    /// Blocked by the scheduler's account, and found running by every sample: waits too short to
    /// be seen.
    TooShortToSee,
    /// Something else; see `channel` and `syscall`.
    Other,
}

impl WaitKind {
    /// The kind in words, for a table.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Storage => "storage",
            Self::Completions => "completions",
            Self::Lock => "lock",
            Self::KernelLock => "kernel lock",
            Self::Futex => "futex",
            Self::Poll => "poll",
            Self::Socket => "socket",
            Self::Pipe => "pipe",
            Self::Timer => "timer",
            Self::Child => "child",
            Self::Memory => "memory",
            Self::Stopped => "stopped",
            Self::TooShortToSee => "too short to see",
            Self::Other => "other",
        }
    }
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadRow {
    /// Thread id.
    pub tid: u32,
    /// Its name, escaped.
    pub name: HostText,
    /// State at the end of the window.
    pub state: State,
    /// On a processor, in percent of the window.
    pub running_pct: Observed<Percent>,
    /// Runnable and waiting for a processor, in percent of the window.
    pub run_delay_pct: Observed<Percent>,
    /// Times it was put on a processor.
    pub switches_per_s: Observed<PerSecond>,
    /// What it was found in most often.
    pub mostly: Observed<WaitKind>,
}

/// Memory of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// Resident memory at the end of the window.
    #[doc(alias = "VmRSS")]
    pub rss_bytes: Observed<Bytes>,
    /// Of it, memory of its own.
    #[doc(alias = "RssAnon")]
    pub anonymous_bytes: Observed<Bytes>,
    /// Of it, files.
    #[doc(alias = "RssFile")]
    pub file_bytes: Observed<Bytes>,
    /// Of it, shared memory.
    #[doc(alias = "RssShmem")]
    pub shared_bytes: Observed<Bytes>,
    /// Swapped out.
    #[doc(alias = "VmSwap")]
    pub swap_bytes: Observed<Bytes>,
    /// Growth of its own memory in the window; negative when it shrank.
    pub anonymous_growth_bytes_per_s: Observed<i64>,
    /// Page faults served from memory.
    pub minor_faults_per_s: Observed<PerSecond>,
    /// Page faults that waited for a disk.
    pub major_faults_per_s: Observed<PerSecond>,
}

/// Input and output of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Io {
    /// Bytes that read calls returned, from anywhere: cache, pipes and sockets included.
    #[doc(alias = "rchar")]
    pub read_calls_bytes_per_s: Observed<PerSecond>,
    /// Bytes that write calls took, to anywhere.
    #[doc(alias = "wchar")]
    pub write_calls_bytes_per_s: Observed<PerSecond>,
    /// Bytes that storage delivered.
    #[doc(alias = "read_bytes")]
    pub storage_read_bytes_per_s: Observed<PerSecond>,
    /// Bytes sent on their way to storage.
    #[doc(alias = "write_bytes")]
    pub storage_write_bytes_per_s: Observed<PerSecond>,
    /// Read calls.
    #[doc(alias = "syscr")]
    pub read_calls_per_s: Observed<PerSecond>,
    /// Write calls.
    #[doc(alias = "syscw")]
    pub write_calls_per_s: Observed<PerSecond>,
}

/// Open files of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Descriptors {
    /// Open at the end of the window.
    pub open: Observed<u64>,
    /// Opened minus closed in the window.
    pub growth: Observed<i64>,
    /// The limit that `open` fails at.
    #[doc(alias = "RLIMIT_NOFILE")]
    pub limit: Observed<u64>,
}

/// The cgroup of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cgroup {
    /// Its path in the hierarchy of the CPU controller, or of version 2.
    pub path: Observed<HostText>,
    /// Processors that it, or the tightest of its ancestors that can be seen, may use on average.
    /// From within a container those above the container cannot.
    pub cpu_quota_cores: Observed<f64>,
    /// How the quota acted in the window.
    pub throttling: Observed<Throttling>,
    /// Memory charged to it.
    pub memory_bytes: Observed<Bytes>,
    /// Of it, what the kernel cannot simply drop: all but inactive file cache.
    pub working_set_bytes: Observed<Bytes>,
    /// The tightest memory limit of it and its ancestors that can be seen.
    pub memory_limit_bytes: Observed<Bytes>,
    /// Times its limit, or that of an ancestor that can be seen, was hit in the window.
    pub memory_limit_hits: Observed<u64>,
    /// Processes the kernel killed in it for lack of memory in the window. Not in cgroups below it,
    /// from Linux 5.3 on.
    pub oom_kills: Observed<u64>,
}

/// How a CPU quota acted in the window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Throttling {
    /// Enforcement periods in which the cgroup wanted to run.
    #[doc(alias = "nr_periods")]
    pub periods: u64,
    /// Of them, those in which it used up its quota and was stopped.
    #[doc(alias = "nr_throttled")]
    pub throttled_periods: u64,
    /// Time for which its run queues were stopped, in milliseconds, summed over processors.
    pub throttled_ms: u64,
}

/// The machine in the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostContext {
    /// Processors online.
    pub cpus: Observed<u32>,
    /// Share of all processors' time that was not idle, in percent.
    pub cpu_busy_pct: Observed<Percent>,
    /// Share of the window in which some task waited for a processor, in percent.
    pub cpu_pressure_pct: Observed<Percent>,
    /// Share of the window in which some task waited for storage, in percent. Any process's.
    pub io_pressure_pct: Observed<Percent>,
    /// Share of the window in which some task waited for memory, in percent. Any process's.
    pub memory_pressure_pct: Observed<Percent>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pid_is_required_and_limited() {
        let request = |json| serde_json::from_value::<Request>(json);
        let error = request(serde_json::json!({})).unwrap_err();
        assert!(error.to_string().contains("missing field `pid`"));
        let zero = request(serde_json::json!({"pid": 0})).unwrap();
        assert_eq!(
            ProcessInspect::check(&zero).unwrap_err().to_string(),
            "pid is 0: expected 1 to 4194304"
        );
    }
}
