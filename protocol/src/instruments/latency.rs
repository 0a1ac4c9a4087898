//! `latency`: how long is waited for a processor, for storage, off the processor, and for TCP.
//!
//! Each kind is measured on its own, by the best mechanism that is permitted for it: a kind that may
//! not be measured is unknown with its reason, and the others are answered. Waits are counted where
//! they end; what had not ended when the window did is counted apart.

mod example;
mod request;
mod rows;
mod table;

pub use request::{Kind, Request};
pub use rows::{
    BlockDevice, Connect, Operation, Outcome, Queued, Ran, Resent, Sleeper, Submitter,
    SubmitterKind,
};

use crate::{
    histogram::{Histogram, Percentiles},
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems, capabilities::Refusal},
    observed::Observed,
    parameter::InvalidParameter,
    recording::Scope,
    units::{Micros, Percent},
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct Latency;

impl Instrument for Latency {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        request.check()
    }

    fn window_ms(request: &Request) -> u32 {
        request.window_ms
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        let request = Request { pid: Some(4711), limit: 5, ..Request::default() };
        Exchange { request, item: None, report: example::report() }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Whose waits were measured.
    pub scope: Scope,
    /// The process that was asked for; `null` for the whole host.
    pub pid: Option<u32>,
    /// The name of that process, or of its control group; `null` for the whole host.
    pub name: Option<HostText>,
    /// Waits of runnable threads for a processor.
    pub run_queue: Observed<RunQueue>,
    /// Requests to block devices.
    pub block: Observed<Block>,
    /// Waits off the processor that are not for a processor.
    pub off_cpu: Observed<OffCpu>,
    /// TCP: how long connecting takes, and what is sent again.
    pub tcp: Observed<Tcp>,
    /// Whether the process ended meanwhile.
    pub has_ended: bool,
    /// Why no better mechanism was used, with the remedy. Empty where the best one was.
    pub refused: Vec<Refusal>,
}

/// By which mechanism a kind was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mechanism {
    /// Each wait, by eBPF programs at the kernel's tracepoints.
    Ebpf,
    /// Sums of each thread: `/proc/PID/task/TID/schedstat` and `status`.
    ThreadAccounts,
    /// Sums of each device: `/proc/diskstats`.
    DeviceCounters,
    /// Sums of a network namespace, `/proc/net/snmp`, and its connections, `/proc/net/tcp`.
    ProtocolCounters,
}

/// Waits that ended in the window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Waits {
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

/// Waits that had not ended when the window did, of those that began in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Open {
    /// How many.
    pub count: u64,
    /// How long they had lasted together, in microseconds.
    pub total_us: Micros,
}

/// Waits of runnable threads for a processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RunQueue {
    /// How it was measured.
    pub measured_by: Mechanism,
    /// All waits.
    pub all: Waits,
    /// Waits that were not over at the end.
    pub open: Observed<Open>,
    /// Who waited, the longest together first.
    pub processes: Vec<Queued>,
    /// Who had the processors meanwhile, on the whole host; five at most.
    pub ran: Vec<Ran>,
}

/// Requests to block devices. Time in the queue is from the kernel's queue of requests to the driver;
/// time in the device from there to the end of the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Block {
    /// How it was measured.
    pub measured_by: Mechanism,
    /// All requests, from the queue to their end.
    pub all: Waits,
    /// Requests that were under way at the end.
    pub open: Observed<Open>,
    /// Each device and operation, the longest together first.
    pub devices: Vec<BlockDevice>,
    /// Who handed requests to the kernel's queue, the longest together first.
    pub submitters: Vec<Submitter>,
    /// Share of the window in which some task of the host waited for storage, in percent.
    pub pressure_some_pct: Observed<Percent>,
}

/// Waits off the processor. Uninterruptible ones are for storage, memory or locks of the kernel; who is
/// asleep otherwise may be so by choice, and is not ranked by it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OffCpu {
    /// How it was measured.
    pub measured_by: Mechanism,
    /// Uninterruptible waits.
    pub uninterruptible: Waits,
    /// Uninterruptible waits that were not over at the end.
    pub open: Observed<Open>,
    /// Other sleep: for work, a timer, an answer, a lock of a program.
    pub asleep: Waits,
    /// Who waited, by uninterruptible waits, the longest together first.
    pub processes: Vec<Sleeper>,
}

/// TCP.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tcp {
    /// How it was measured.
    pub measured_by: Mechanism,
    /// From the first SYN to the end of the handshake, of connections that came about.
    pub connected: Waits,
    /// Attempts that failed, were given up, or wait for an answer still.
    pub not_connected: Observed<u64>,
    /// Attempts by process, peer and outcome: what did not come about first.
    pub connects: Vec<Connect>,
    /// Segments that were sent again.
    pub resent_total: Observed<u64>,
    /// Of which connections, the most first.
    pub resent: Vec<Resent>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Of;

    #[test]
    fn parameters_that_do_not_go_together_are_refused_by_name() {
        let of = |scope, pid| Request { scope, pid, ..Request::default() };
        let kinds = |kinds: &[Kind]| Request { kinds: kinds.to_vec(), ..Request::default() };
        let cases = [
            (of(Some(Of::Cgroup), None), "pid is missing: expected one"),
            (of(Some(Of::Host), Some(7)), "pid is 7: expected none with scope host"),
            (of(None, Some(0)), "pid is 0: expected 1 to 4194304"),
            (kinds(&[]), "kinds is []: expected at least one"),
            (kinds(&[Kind::Tcp, Kind::Tcp]), "kinds is tcp twice: expected each once"),
            (Request { window_ms: 99, ..Request::default() }, "window_ms is 99: expected"),
            (Request { limit: 0, ..Request::default() }, "limit is 0: expected 1 to 50"),
        ];
        for (request, want) in cases {
            let error = Latency::check(&request).unwrap_err().to_string();
            assert!(error.starts_with(want), "{error}");
        }
        assert_eq!(Latency::check(&Request::default()), Ok(()));
    }
}
