//! `host_snapshot`: whether the machine itself is short of something.
//!
//! Every rate and share is over one window, between two reads of the kernel's counters. The share of
//! time in which a disk did anything is left out on purpose: a disk that serves many requests at once
//! is not full when it is never idle. Latency and queue length are given instead.

mod brief;
mod cgroups;
mod example;
mod mounts;
mod table;

pub use brief::{BRIEF_BYTES, CONCLUSION_BYTES};
pub use cgroups::{CgroupVersion, Cgroups, LimitedCgroup, ThrottledCgroup};
pub use mounts::{Mount, MountAnswer, Mounts};

use crate::{
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems},
    observed::Observed,
    parameter::{InvalidParameter, in_range},
    units::{Bytes, PerSecond, Percent},
    view::{nulls::Nulls, table::Table},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Marker for this instrument.
pub struct HostSnapshot;

impl Instrument for HostSnapshot {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        in_range("window_ms", request.window_ms, &(100..=60_000))?;
        in_range("limit", request.limit, &(1..=100))
    }

    fn window_ms(request: &Request) -> u32 {
        request.window_ms
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn shorten(report: &Report, fields: &mut Map<String, Value>, nulls: &mut Nulls) {
        brief::shorten(report, fields, nulls);
    }

    fn example() -> Exchange<Self> {
        Exchange { request: Request::default(), item: None, report: example::report() }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Length of the measuring window in milliseconds: 100-60000, default 1000.
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 60_000)))]
    pub window_ms: u32,
    /// Rows to show of each: disks, network interfaces, cgroups, mounts, groups of blocked tasks.
    /// 1-100, default 2.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 100)))]
    pub limit: u32,
    /// How much to show. `brief` leaves out what is 0, rows that did nothing, and what there is none
    /// of; `full` shows all, and looks at more cgroups. Default: brief.
    pub detail: Detail,
}

/// How much is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// What says something.
    #[default]
    Brief,
    /// All.
    Full,
}

impl Default for Request {
    fn default() -> Self {
        Self { window_ms: 1000, limit: 2, detail: Detail::Brief }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Its processors, and what they did.
    pub cpu: Cpu,
    /// For how much of the window tasks waited for a resource.
    pub pressure: Pressure,
    /// Its memory.
    pub memory: Memory,
    /// Its disks, those with the longest queue first.
    pub disks: Vec<Disk>,
    /// Disks that were ever used, partitions not counted. Only in a full answer.
    pub disks_total: Observed<u32>,
    /// Its network interfaces, those that moved most first. Of the agent's network namespace.
    pub interfaces: Vec<Interface>,
    /// Interfaces that were ever used. Only in a full answer.
    pub interfaces_total: Observed<u32>,
    /// TCP. Of the agent's network namespace.
    pub tcp: Tcp,
    /// Tasks that waited deaf to signals, looked at once within the window.
    pub blocked: Blocked,
    /// Its cgroups.
    pub cgroups: Cgroups,
    /// Its mounted file systems. Of the agent's mount namespace.
    pub mounts: Mounts,
    /// How far the wall clock was set during the window, in milliseconds; 0 when it was not.
    pub clock_step_ms: Observed<i64>,
    /// How much is shown: in a `brief` answer a number that is not there is 0.
    pub detail: Detail,
}

/// Processors, in percent of the time of all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cpu {
    /// Processors online, as the scheduler counts them: hardware threads.
    pub online: Observed<u32>,
    /// Cores that they are threads of.
    pub cores: Observed<u32>,
    /// Sockets that the cores are in.
    pub sockets: Observed<u32>,
    /// In user mode, at any priority, guests included.
    pub user_pct: Observed<Percent>,
    /// In the kernel.
    pub system_pct: Observed<Percent>,
    /// In interrupts and what they put off.
    pub interrupts_pct: Observed<Percent>,
    /// Taken by the hypervisor for other machines.
    pub steal_pct: Observed<Percent>,
    /// Idle while a task waited for storage. Idle all the same.
    pub iowait_pct: Observed<Percent>,
    /// Counters of single processors that were smaller at the end of the window than at its start,
    /// because idle time was corrected or a processor was switched off; they count as 0.
    pub set_back: Observed<u32>,
    /// Tasks on a processor or waiting for one at the end of the window, the agent among them.
    #[doc(alias = "procs_running")]
    pub runnable: Observed<u32>,
    /// Context switches. Only in a full answer.
    pub switches_per_s: Observed<PerSecond>,
    /// The load average of the last minute: tasks runnable or deaf to signals.
    pub load_1m: Observed<f64>,
}

/// Shares of the window.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pressure {
    /// Some task waited for a processor.
    pub cpu_some_pct: Observed<Percent>,
    /// Some task waited for storage.
    pub io_some_pct: Observed<Percent>,
    /// All tasks that were not idle waited for storage.
    pub io_full_pct: Observed<Percent>,
    /// Some task waited for memory.
    pub memory_some_pct: Observed<Percent>,
    /// All tasks that were not idle waited for memory.
    pub memory_full_pct: Observed<Percent>,
}

/// Memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Memory {
    /// All of it.
    pub total_bytes: Observed<Bytes>,
    /// What a program could still get without swapping, by the kernel's estimate.
    pub available_bytes: Observed<Bytes>,
    /// Waiting to be written to storage. Only in a full answer.
    pub dirty_bytes: Observed<Bytes>,
    /// Swap space in use.
    pub swap_used_bytes: Observed<Bytes>,
    /// Swap space there is.
    pub swap_total_bytes: Observed<Bytes>,
    /// Read back from swap.
    pub swap_in_bytes_per_s: Observed<PerSecond>,
    /// Written to swap.
    pub swap_out_bytes_per_s: Observed<PerSecond>,
    /// Page faults that waited for storage.
    pub major_faults_per_s: Observed<PerSecond>,
    /// Looked through by tasks that had to free memory before they got some.
    #[doc(alias = "pgscan_direct")]
    pub direct_reclaim_bytes_per_s: Observed<PerSecond>,
    /// Processes the kernel killed for lack of memory, in any cgroup.
    pub oom_kills: Observed<u64>,
}

/// A block device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Disk {
    /// Its name, escaped.
    pub name: HostText,
    /// Reads that completed.
    pub reads_per_s: PerSecond,
    /// Writes that completed.
    pub writes_per_s: PerSecond,
    /// Read.
    pub read_bytes_per_s: PerSecond,
    /// Written.
    pub write_bytes_per_s: PerSecond,
    /// From request to completion, on average, queue included; unknown where none completed.
    pub read_ms: Observed<f64>,
    /// The same for writes.
    pub write_ms: Observed<f64>,
    /// Requests under way, on average over the window.
    pub queue: f64,
}

/// A network interface.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interface {
    /// Its name, escaped.
    pub name: HostText,
    /// Received.
    pub received_bytes_per_s: PerSecond,
    /// Sent.
    pub sent_bytes_per_s: PerSecond,
    /// Packets that were dropped or had errors, either way.
    pub lost_per_s: PerSecond,
}

/// TCP of both versions of IP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tcp {
    /// Connections at the end of the window.
    #[doc(alias = "CurrEstab")]
    pub established: Observed<u64>,
    /// Closed ones that are kept for late packets.
    pub time_wait: Observed<u64>,
    /// Segments sent. Only in a full answer.
    pub segments_sent_per_s: Observed<PerSecond>,
    /// Of them, sent again.
    #[doc(alias = "RetransSegs")]
    pub retransmitted_per_s: Observed<PerSecond>,
    /// Connections refused or dropped because a listener's queue was full.
    #[doc(alias = "ListenDrops")]
    pub listen_drops_per_s: Observed<PerSecond>,
    /// Segments dropped because the receiving program was too slow.
    #[doc(alias = "TCPBacklogDrop")]
    pub backlog_drops_per_s: Observed<PerSecond>,
}

/// Tasks in uninterruptible sleep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocked {
    /// How many were found.
    pub tasks: Observed<u32>,
    /// Tasks that were not looked at, because there are too many, or because `/proc` hides them.
    pub not_looked_at: u32,
    /// By what they wait in, most first.
    pub groups: Vec<BlockedGroup>,
}

/// Blocked tasks that wait in the same place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BlockedGroup {
    /// The kernel function.
    pub channel: Observed<HostText>,
    /// How many tasks.
    pub tasks: u32,
    /// The process that most of them are of.
    pub pid: u32,
    /// Its name, escaped.
    pub name: HostText,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_required_and_everything_is_limited() {
        let request = |json| serde_json::from_value::<Request>(json).unwrap();
        assert_eq!(request(serde_json::json!({})), Request::default());
        let wrong = request(serde_json::json!({"window_ms": 60_001}));
        assert_eq!(
            HostSnapshot::check(&wrong).unwrap_err().to_string(),
            "window_ms is 60001: expected 100 to 60000"
        );
        assert!(HostSnapshot::check(&request(serde_json::json!({"limit": 0}))).is_err());
    }
}
