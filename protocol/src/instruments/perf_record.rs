//! `perf_record`: where processor time goes, by function and by stack.
//!
//! Stacks are sampled over a window and named on the target. What was recorded stays there under a
//! handle, for `perf_report` and the flame graph: no further question samples anything.

mod counters;
mod example;
mod looks;
mod off_cpu;
mod table;

pub use crate::scope::Of;
pub use counters::{Counter, CounterRow, Counters, Quotients};
pub use looks::Looks;
pub use off_cpu::{Holder, Missed, OffCpu, WaitRow, Waker, WokenBy};

use crate::{
    instruments::{Exchange, Instrument, NoItems, capabilities::Refusal},
    observed::Observed,
    parameter::{InvalidParameter, in_range},
    recording::{FunctionRow, ProcessRow, Recording, StackRow},
    scope,
    units::Percent,
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Waits, as examples have them.
pub fn waits_as_example() -> OffCpu {
    example::waits()
}

/// Marker for this instrument.
pub struct PerfRecord;

impl Instrument for PerfRecord {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        scope::check(request.scope, request.pid)?;
        in_range("window_ms", request.window_ms, &(100..=60_000))?;
        in_range("hertz", request.hertz, &(1..=4_999))?;
        in_range("dump_kib", request.dump_kib, &(1..=32))?;
        in_range("limit", request.limit, &(1..=100))
    }

    fn window_ms(request: &Request) -> u32 {
        request.window_ms
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        let request = Request { pid: Some(4711), ..Request::default() };
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
    /// The process's `start_ticks` from process_list. With it, a reused pid is refused instead of
    /// recorded. Default 0: whatever process has the pid now.
    pub start_ticks: u64,
    /// What is recorded. Default: the process with a pid, the whole machine without.
    #[cfg_attr(feature = "schema", schemars(with = "Of"))]
    pub scope: Option<Of>,
    /// What is sampled. Default: cpu, where processor time goes.
    pub mode: Mode,
    /// What is made of it. Default: stacks.
    pub analysis: Analysis,
    /// Length of the recording in milliseconds: 100-60000, default 5000.
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 60_000)))]
    pub window_ms: u32,
    /// Samples in a second of each busy processor; for page_faults and context_switches each so many
    /// make a sample. 1-4999, default 99, which costs nothing that can be measured.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 4_999)))]
    pub hertz: u32,
    /// How stacks in user space are walked: unwind_tables (default) or frame_pointers, which is
    /// cheaper, and right only where everything was compiled for it.
    pub stacks: Walk,
    /// KiB of each stack that are copied for unwind_tables: 1-32, default 8. More is for deep stacks
    /// that were cut.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 32)))]
    pub dump_kib: u32,
    /// Whether what the kernel does is recorded. Default: true.
    pub with_kernel: bool,
    /// Where sampling is not permitted: whether threads may be stopped for a moment each, to
    /// see the stacks of those that run. It may end a sleeping system call early (EINTR), as a debugger
    /// does. Default: false.
    pub stop: bool,
    /// Functions to return: 1-100, default 15.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub limit: u32,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            pid: None,
            start_ticks: 0,
            scope: None,
            mode: Mode::Cpu,
            analysis: Analysis::Stacks,
            window_ms: 5_000,
            hertz: 99,
            stacks: Walk::UnwindTables,
            dump_kib: 8,
            with_kernel: true,
            stop: false,
            limit: 15,
        }
    }
}

impl Request {
    /// What is recorded.
    pub const fn of(&self) -> Of {
        Of::asked(self.scope, self.pid)
    }
}

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Processor time.
    Cpu,
    /// Page faults: where memory is first touched.
    PageFaults,
    /// Context switches: where a processor is given up or lost.
    ContextSwitches,
    /// Misses of the last cache. Needs a counter of the processor.
    CacheMisses,
    /// Time off the processor: where threads wait, for what, and who wakes them. `hertz` has no
    /// meaning then: each wait is followed.
    OffCpu,
}

/// How stacks in user space are walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Walk {
    /// By the tables that compilers make for exceptions.
    UnwindTables,
    /// By frame pointers only.
    FramePointers,
}

/// What is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Analysis {
    /// Functions and stacks.
    Stacks,
    /// How often things happen, and instructions for each cycle: counted, not sampled. `mode` and what
    /// is about stacks have no meaning then.
    Counters,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Of what it is, and how far it can be relied on.
    pub recording: Recording,
    /// Processor time that the samples stand for, in percent of one processor.
    pub cpu_pct: Observed<Percent>,
    /// Share of samples in the kernel, in percent.
    pub kernel_pct: Observed<Percent>,
    /// Whether the process ended meanwhile.
    pub has_ended: bool,
    /// Functions, the heaviest by their own samples first.
    pub functions: Vec<FunctionRow>,
    /// The heaviest stacks; three at most.
    pub stacks: Vec<StackRow>,
    /// The heaviest processes, where there was more than one; five at most.
    pub processes: Vec<ProcessRow>,
    /// What was wanted and refused, with the remedy. Empty where nothing was.
    pub refused: Vec<Refusal>,
    /// How threads were looked at, where they could not be sampled; `null` where they were.
    pub looks: Option<Looks>,
    /// What was counted; `null` unless `analysis` is counters.
    pub counters: Option<Counters>,
    /// Where threads waited; `null` unless `mode` is off_cpu. Functions and stacks are in its rows then.
    pub off_cpu: Option<OffCpu>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_do_not_go_together_are_refused_by_name() {
        let of = |scope, pid| Request { scope, pid, ..Request::default() };
        let cases = [
            (of(Some(Of::Cgroup), None), "pid is missing: expected one"),
            (of(Some(Of::Host), Some(7)), "pid is 7: expected none with scope host"),
            (of(None, Some(0)), "pid is 0: expected 1 to 4194304"),
            (Request { hertz: 5_000, ..Request::default() }, "hertz is 5000: expected 1 to 4999"),
            (Request { dump_kib: 0, ..Request::default() }, "dump_kib is 0: expected 1 to 32"),
        ];
        for (request, want) in cases {
            let error = PerfRecord::check(&request).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
        for (request, want) in [
            (of(None, Some(7)), Of::Process),
            (of(Some(Of::Cgroup), Some(7)), Of::Cgroup),
            (of(None, None), Of::Host),
        ] {
            assert_eq!((PerfRecord::check(&request), request.of()), (Ok(()), want));
        }
    }
}
