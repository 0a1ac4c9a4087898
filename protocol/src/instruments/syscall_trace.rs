//! `syscall_trace`: which system calls a process, a service or a machine makes, how long they take,
//! how they fail, and on what.
//!
//! Calls are added up where they happen; no list of single calls leaves the target. A call that
//! sleeps by nature is told apart from one that works, because five seconds in `epoll_wait` are a
//! program without work and five seconds in `fsync` are not.

mod call_names;
mod example;
mod rows;
mod table;

pub use call_names::{CallName, MOST_NAMES};
pub use rows::{
    CallCount, CallRow, ErrorRow, LostOn, Subject, SubjectKind, SubjectRow, Timing, Unfinished,
};

use crate::{
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems, capabilities::Refusal},
    loss::Truncation,
    observed::Observed,
    parameter::{InvalidParameter, in_range},
    recording::{ProcessRow, Scope},
    scope::{self, Of},
    units::{Micros, PerSecond},
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct SyscallTrace;

/// The longest that a tracer which stops threads is attached, in milliseconds.
pub const LONGEST_STOPPING_MS: u32 = 2_000;

impl Instrument for SyscallTrace {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        scope::check(request.scope, request.pid)?;
        in_range("window_ms", request.window_ms, &(100..=60_000))?;
        in_range("limit", request.limit, &(1..=100))?;
        if request.calls.len() > MOST_NAMES {
            return Err(InvalidParameter {
                name: "calls".into(),
                value: format!("{} names", request.calls.len()).into(),
                expected: format!("{MOST_NAMES} at most").into(),
            });
        }
        let stops = matches!(request.engine, AskedEngine::Ptrace | AskedEngine::Strace);
        if stops && request.of() != Of::Process {
            return Err(InvalidParameter {
                name: "engine".into(),
                value: crate::parameter::spelled(&request.engine).into(),
                expected: "another for a control group or the machine: it stops every thread at \
                           every call, so it is for one process"
                    .into(),
            });
        }
        request.calls.iter().try_for_each(CallName::check)
    }

    fn window_ms(request: &Request) -> u32 {
        match request.engine {
            AskedEngine::Ptrace | AskedEngine::Strace => request.window_ms.min(LONGEST_STOPPING_MS),
            AskedEngine::Auto
            | AskedEngine::Ebpf
            | AskedEngine::Tracepoints
            | AskedEngine::Looks
            | AskedEngine::Perf
            | AskedEngine::Bpftrace => request.window_ms,
        }
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        let request = Request { pid: Some(4711), mode: Mode::Detailed, ..Request::default() };
        Exchange { request, item: None, report: example::report() }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Process id, from process_list: 1-4194304. Without one, the whole machine.
    #[cfg_attr(feature = "schema", schemars(with = "u32", range(min = 1, max = 4_194_304)))]
    pub pid: Option<u32>,
    /// The process's `start_ticks` from process_list. With it, a reused pid is refused. Default 0:
    /// whatever process has the pid now.
    pub start_ticks: u64,
    /// What is traced. Default: the process with a pid, the whole machine without.
    #[cfg_attr(feature = "schema", schemars(with = "Of"))]
    pub scope: Option<Of>,
    /// Whether the descendants of the process are traced too, also those born meanwhile. Default: true.
    pub descendants: bool,
    /// summary (default): by system call. detailed: also by subject, the file, peer, pipe, lock or
    /// child that a call is about.
    pub mode: Mode,
    /// Only these system calls, by name (`openat`, `futex`). Default: all.
    pub calls: Vec<CallName>,
    /// How it is measured. Default auto: the first of ebpf, tracepoints and looks that works here.
    /// ptrace and strace stop every thread at every call, for 2 s at most; strace, perf and bpftrace
    /// have to be installed on the target. A program of nothing but short calls takes with looks 1.0
    /// times its time, with ebpf 1.5 (detailed 1.8), bpftrace 2, tracepoints 3, ptrace 50, perf 200,
    /// strace 300.
    pub engine: AskedEngine,
    /// Length of the window in milliseconds: 100-60000, default 3000.
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 60_000)))]
    pub window_ms: u32,
    /// What rows are ranked by. Default: total, the time spent.
    pub sort: Sort,
    /// Rows of each list: 1-100, default 10.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub limit: u32,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            pid: None,
            start_ticks: 0,
            scope: None,
            descendants: true,
            mode: Mode::Summary,
            calls: Vec::new(),
            engine: AskedEngine::Auto,
            window_ms: 3_000,
            sort: Sort::Total,
            limit: 10,
        }
    }
}

impl Request {
    /// What is traced.
    pub const fn of(&self) -> Of {
        Of::asked(self.scope, self.pid)
    }
}

/// How much is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// By system call.
    Summary,
    /// By system call, and by what the calls are about.
    Detailed,
}

/// What rows are ranked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sort {
    /// Time spent.
    Total,
    /// How many.
    Count,
    /// How many failed.
    Errors,
    /// The longest.
    Max,
}

/// How it is to be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AskedEngine {
    /// The first of the next three that works here.
    Auto,
    /// eBPF programs at the kernel's tracepoints: all is added up in the kernel.
    Ebpf,
    /// Records of the kernel's tracepoints, by `perf_event_open`.
    Tracepoints,
    /// Looks at what threads are in, many times a second: shares of time, and no counts.
    Looks,
    /// The agent stops each thread at each call.
    Ptrace,
    /// strace, as it is installed.
    Strace,
    /// perf, as it is installed.
    Perf,
    /// bpftrace, as it is installed.
    Bpftrace,
}

/// What is answered.
///
/// Where the engine does not measure something, it is `null` with that reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Of what.
    pub scope: Scope,
    /// The process that was asked for; `null` for the whole host.
    pub pid: Option<u32>,
    /// The name of that process, or of its control group; `null` for the whole host.
    pub name: Option<HostText>,
    /// Calls that ended in the window.
    pub ended: Observed<u64>,
    /// The same, per second.
    pub ended_per_s: Observed<PerSecond>,
    /// Of them, those that failed.
    pub failed: Observed<u64>,
    /// Of those that ended, those that had begun before the window: they are in no row, because
    /// nobody knows when they began.
    pub begun_before: Observed<u64>,
    /// Processes that made calls.
    pub processes: u32,
    /// Time in calls that work, summed over threads, in microseconds.
    pub working_us: Observed<Micros>,
    /// Time in calls that sleep by nature, summed over threads, in microseconds.
    pub waiting_us: Observed<Micros>,
    /// Calls that work.
    pub calls: Vec<CallRow>,
    /// Calls that sleep by nature: until there is something to do, an answer, a lock, a time.
    pub waits: Vec<CallRow>,
    /// What calls that work are about; not asked for in a summary.
    pub subjects: Observed<Vec<SubjectRow>>,
    /// What is waited for; not asked for in a summary.
    pub waited_for: Observed<Vec<SubjectRow>>,
    /// Calls that had not ended when the window did: those that work first, of these the longest. Ten
    /// at most.
    pub unfinished: Vec<Unfinished>,
    /// How many those are.
    pub unfinished_total: u32,
    /// The processes with most calls, where there is more than one; five at most.
    pub most_calls_by: Vec<ProcessRow>,
    /// What each list leaves out; `meta.truncation` is that of `subjects`, in a summary of `calls`.
    pub cut: Cut,
    /// Processors on which calls were not counted for lack of room.
    pub lost_on: Vec<LostOn>,
    /// What watching added to each call, in microseconds, as it was measured beside the window.
    pub measured_us_per_call: Observed<Micros>,
    /// Better engines that could not be used, with the remedy. Empty where the best one was.
    pub refused: Vec<Refusal>,
}

/// What lists leave out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cut {
    /// Of `calls`.
    pub calls: Truncation,
    /// Of `waits`.
    pub waits: Truncation,
    /// Of `subjects`.
    pub subjects: Truncation,
    /// Of `waited_for`.
    pub waited_for: Truncation,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(json: serde_json::Value) -> Result<(), String> {
        let request = serde_json::from_value(json).map_err(|error| error.to_string())?;
        SyscallTrace::check(&request).map_err(|error| error.to_string())
    }

    #[test]
    fn parameters_that_do_not_go_together_are_refused_by_name() {
        let cases = [
            (serde_json::json!({"calls": ["openat", "futex"]}), None),
            (serde_json::json!({"calls": ["open at"]}), Some("calls is open at: expected")),
            (serde_json::json!({"calls": ["opnat"]}), Some("calls is opnat: expected")),
            (serde_json::json!({"engine": "ptrace"}), Some("engine is ptrace: expected another")),
            (serde_json::json!({"engine": "strace", "pid": 7}), None),
            (serde_json::json!({"scope": "cgroup"}), Some("pid is missing: expected one")),
            (serde_json::json!({"window_ms": 99}), Some("window_ms is 99: expected 100")),
        ];
        for (json, want) in cases {
            match (checked(json.clone()), want) {
                (Ok(()), None) => {}
                (Err(error), Some(want)) => assert!(error.starts_with(want), "{error}"),
                (found, _) => panic!("{json}: {found:?}"),
            }
        }
    }

    #[test]
    fn a_tracer_that_stops_threads_has_a_short_window() {
        let request =
            |engine| Request { pid: Some(7), engine, window_ms: 9_000, ..Request::default() };
        assert_eq!(SyscallTrace::window_ms(&request(AskedEngine::Ptrace)), LONGEST_STOPPING_MS);
        assert_eq!(SyscallTrace::window_ms(&request(AskedEngine::Ebpf)), 9_000);
    }
}
