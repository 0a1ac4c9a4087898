//! Rows: who waited, for what, and who had it.

use super::{Open, Waits};
use crate::{
    histogram::Log2,
    host_text::HostText,
    observed::{Nature, Observed, Reason},
    units::{Bytes, Micros, Percent},
};
use serde::{Deserialize, Serialize};

/// A process whose threads waited for a processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Queued {
    /// Process id.
    pub pid: u32,
    /// Its name, as it was when it was first met.
    pub name: HostText,
    /// The waits of all its threads.
    pub waits: Waits,
    /// Those that were not over at the end.
    pub open: Observed<Open>,
}

/// A process that had a processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ran {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub name: HostText,
    /// How long all its threads had one, in percent of one processor.
    pub cpu_pct: Percent,
}

/// What a request is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Make what was written before durable.
    Flush,
    /// Say that blocks are not used any more.
    Discard,
    /// Write zeroes without sending them.
    WriteZeroes,
    /// Something else: zones, commands of the driver.
    Other,
}

/// Requests of one operation to one device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockDevice {
    /// The device's name; its numbers where it has none any more.
    pub device: HostText,
    /// What was to be done.
    pub operation: Operation,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Requests that ended with an error.
    pub errors: Observed<u64>,
    /// Time in the queue. A request that went to the driver at once waited 0.
    pub queue: Waits,
    /// Time in the device; of `device_counters`, time in the queue and in the device.
    pub device_time: Waits,
}

/// Who handed requests to the kernel's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Submitter {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub name: HostText,
    /// Whether it is the one that wants it done.
    pub kind: SubmitterKind,
    /// The device's name.
    pub device: HostText,
    /// What was to be done.
    pub operation: Operation,
    /// Bytes moved.
    pub bytes: Bytes,
    /// From the queue to the end.
    pub waits: Waits,
}

/// Whether whoever hands a request to the queue is the one that wants it done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum SubmitterKind {
    /// A process, in a system call or a page fault of its own.
    Process,
    /// A kernel thread, on behalf of processes that are not known here: what they wrote before is
    /// written back, a journal is committed.
    KernelWorker,
}

/// A process that was off the processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sleeper {
    /// Process id.
    pub pid: u32,
    /// Its name.
    pub name: HostText,
    /// Uninterruptible waits of all its threads.
    pub uninterruptible: Waits,
    /// Those that were not over at the end.
    pub open: Observed<Open>,
    /// Other sleep of all its threads, which may be by choice.
    pub asleep: Waits,
}

/// What became of an attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No answer yet, at the end of the window.
    Pending,
    /// No answer; the kernel gave up (ETIMEDOUT).
    TimedOut,
    /// No way there (EHOSTUNREACH, ENETUNREACH).
    Unreachable,
    /// Nobody listens, or somebody on the way says so (ECONNREFUSED).
    Refused,
    /// The program closed it before there was an answer.
    GivenUp,
    /// Another error.
    Failed,
    /// It came about.
    Connected,
}

/// Attempts of a process to connect to a peer, with one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Connect {
    /// The address and port that was to be reached.
    pub peer: HostText,
    /// Process id; `null` where it is not known.
    pub pid: Option<u32>,
    /// Its name; `null` where it is not known.
    pub name: Option<HostText>,
    /// What became of them.
    pub outcome: Outcome,
    /// From the first SYN to that; for `pending`, to the end of the window.
    pub waits: Waits,
}

/// A connection on which segments were sent again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resent {
    /// The peer's address and port.
    pub peer: HostText,
    /// The port on this side.
    pub local_port: u16,
    /// Whether it was the SYN: the connection did not exist yet.
    pub is_handshake: bool,
    /// How often a segment was sent again.
    pub count: u64,
}

impl Waits {
    /// What was counted of each wait.
    pub fn of(counted: &Log2, total_ns: u64, max_ns: u64) -> Self {
        let none = || Reason::DoesNotApply(Nature::NoWaits);
        Self {
            count: Observed::Known(counted.count()),
            total_us: Observed::Known(Micros::from_ns(total_ns)),
            max_us: match counted.count() {
                0 => Observed::Unknown(none()),
                _ => Observed::Known(Micros::from_ns(max_ns)),
            },
            percentiles: counted.percentiles(max_ns).ok_or_else(none).into(),
            latency: Observed::Known(counted.histogram()),
        }
    }

    /// What sums say: how many and how long together, and nothing of each.
    pub fn sums(count: Observed<u64>, total_ns: Observed<u64>) -> Self {
        Self {
            count,
            total_us: total_ns.map(Micros::from_ns),
            max_us: Observed::Unknown(Reason::NotByEngine),
            percentiles: Observed::Unknown(Reason::NotByEngine),
            latency: Observed::Unknown(Reason::NotByEngine),
        }
    }

    /// What is not known, for one reason.
    pub fn unknown(reason: &Reason) -> Self {
        Self {
            count: Observed::Unknown(reason.clone()),
            total_us: Observed::Unknown(reason.clone()),
            max_us: Observed::Unknown(reason.clone()),
            percentiles: Observed::Unknown(reason.clone()),
            latency: Observed::Unknown(reason.clone()),
        }
    }

    /// How long they took on average, in microseconds.
    pub fn mean_us(&self) -> Option<f64> {
        let (count, total) = (*self.count.known()?, self.total_us.known()?.get());
        (count > 0).then(|| total / count as f64)
    }
}
