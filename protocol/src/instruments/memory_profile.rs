//! `memory_profile`: how the memory of one process grows, what it consists of, and who asks for it.
//!
//! Small reads over the window say how each kind of memory went. Sizes by mapping say where it is;
//! the kernel keeps the process from mapping memory while they are read, so they are not read of a
//! huge process unasked. Stacks of page faults, where they are asked for, say which code touched new
//! memory first: not every `malloc`, and not only what is kept.

mod example;
mod table;

use crate::{
    host_text::HostText,
    instruments::{
        Exchange, Instrument, NoItems, capabilities::Refusal, process_inspect::Identity,
    },
    observed::Observed,
    parameter::{InvalidParameter, in_range},
    recording::Function,
    units::{Bytes, Percent},
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct MemoryProfile;

impl Instrument for MemoryProfile {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        in_range("pid", request.pid, &(1..=4_194_304))?;
        in_range("window_ms", request.window_ms, &(1_000..=240_000))?;
        in_range("mappings", request.mappings, &(0..=100))
    }

    fn window_ms(request: &Request) -> u32 {
        request.window_ms
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        let request = Request {
            pid: 4711,
            start_ticks: 0,
            window_ms: 5_000,
            mappings: 10,
            with_smaps: WithSmaps::Auto,
            sites: true,
        };
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
    /// The process's `start_ticks`: a reused pid is refused then. Default 0: whatever has the pid.
    #[serde(default)]
    pub start_ticks: u64,
    /// Length of the window in milliseconds: 1000-240000, default 5000. A slow leak takes a long one.
    #[serde(default = "default_window_ms")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1_000, max = 240_000)))]
    pub window_ms: u32,
    /// Mappings to show, the largest first: 0-100, default 10.
    #[serde(default = "default_mappings")]
    #[cfg_attr(feature = "schema", schemars(range(max = 100)))]
    pub mappings: u32,
    /// Whether to read sizes by mapping, which keeps the process from mapping memory meanwhile. `auto`:
    /// unless that is estimated to take more than 50 ms.
    #[serde(default)]
    pub with_smaps: WithSmaps,
    /// Whether to find the code that touches new memory, by stacks of page faults. Default false.
    #[serde(default)]
    pub sites: bool,
}

const fn default_window_ms() -> u32 {
    5_000
}

const fn default_mappings() -> u32 {
    10
}

/// Whether sizes by mapping are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WithSmaps {
    /// Unless it is estimated to take long.
    #[default]
    Auto,
    /// Not at all.
    Never,
    /// However long it takes.
    Always,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// Which process.
    pub process: Identity,
    /// How its memory went in the window.
    pub growth: Box<Growth>,
    /// How much it has at the end of the window.
    pub totals: Totals,
    /// What that consists of.
    pub composition: Composition,
    /// What reading sizes by mapping takes, and took.
    pub smaps: Smaps,
    /// Mappings, those with most resident and swapped memory first. Those of one file with the same
    /// rights are one row.
    pub mappings: Observed<Vec<Mapping>>,
    /// Its cgroup, and what that allows.
    pub cgroup: Cgroup,
    /// Memory of the machine at the end of the window.
    pub host: Host,
    /// Who touched new memory in the window.
    pub sites: Observed<Sites>,
    /// What was wanted for `sites` and refused, with the remedy. Empty where nothing was.
    pub refused: Vec<Refusal>,
}

/// How memory went in the window, by kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Growth {
    /// Times it was looked at.
    pub samples: u32,
    /// How far the kernel's counters may be behind: they are summed up for each processor apart.
    pub resolution_bytes: Bytes,
    /// Memory of its own, resident or swapped: heap, stacks, private pages of files.
    #[doc(alias = "RssAnon, VmSwap")]
    pub own: Observed<Trend>,
    /// Resident pages of files. The kernel can drop them.
    #[doc(alias = "RssFile")]
    pub file: Observed<Trend>,
    /// Resident shared memory: tmpfs, `/dev/shm`, memfd. It is not dropped.
    #[doc(alias = "RssShmem")]
    pub shared: Observed<Trend>,
    /// Swapped out.
    #[doc(alias = "VmSwap")]
    pub swap: Observed<Trend>,
}

/// How one kind of memory went.
///
/// The window is divided into ten parts. Samples of a level are not independent of each other, and a
/// fit through them would seem far surer than it is; what was gained in each part nearly is
/// independent, and says how sure the rate is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trend {
    /// At the first sample.
    pub first_bytes: Bytes,
    /// At the last sample.
    pub last_bytes: Bytes,
    /// The least of all.
    pub least_bytes: Bytes,
    /// The most of all.
    pub most_bytes: Bytes,
    /// How fast it grew.
    pub rate: Observed<Rate>,
    /// Of the ten parts of the window, those in which it grew.
    pub parts_grown: u32,
    /// Of the ten parts of the window, those in which it shrank.
    pub parts_shrunk: u32,
    /// How often it fell, by more than a tenth of the difference between most and least.
    pub falls: u32,
    /// Of the time between its turns, the share in which it rose, in percent; 50 is a noise, and a
    /// tooth of a saw has more.
    pub rising_pct: Observed<Percent>,
    /// The least in the last third of the window, without the least in its first third.
    pub floor_growth_bytes: i64,
}

/// A rate with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rate {
    /// Bytes in a second; negative where it shrank.
    pub bytes_per_s: i64,
    /// The least that it may be: the lower end of the interval of 95 %.
    pub low_bytes_per_s: i64,
    /// The most that it may be.
    pub high_bytes_per_s: i64,
}

/// How much memory a process has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Totals {
    /// Resident: pages in memory, shared ones whole.
    #[doc(alias = "VmRSS")]
    pub rss_bytes: Observed<Bytes>,
    /// The same, of shared pages only its part: what it costs the machine.
    #[doc(alias = "Pss")]
    pub pss_bytes: Observed<Bytes>,
    /// Pages that nobody else has: what its end would free.
    pub uss_bytes: Observed<Bytes>,
    /// Swapped out.
    #[doc(alias = "VmSwap")]
    pub swap_bytes: Observed<Bytes>,
    /// The most that was ever resident.
    #[doc(alias = "VmHWM")]
    pub peak_bytes: Observed<Bytes>,
}

/// What memory consists of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Composition {
    /// Resident memory of its own.
    #[doc(alias = "RssAnon")]
    pub anonymous_bytes: Observed<Bytes>,
    /// Of it, the heap that grows in one piece (`brk`). Large blocks, and those of other threads, are
    /// in mappings of their own.
    pub heap_bytes: Observed<Bytes>,
    /// Of it, the first thread's stack.
    pub stack_bytes: Observed<Bytes>,
    /// Resident pages of files.
    #[doc(alias = "RssFile")]
    pub file_bytes: Observed<Bytes>,
    /// Resident shared memory.
    #[doc(alias = "RssShmem")]
    pub shared_bytes: Observed<Bytes>,
    /// Of what is resident, in huge pages that the kernel made by itself.
    #[doc(alias = "AnonHugePages")]
    pub huge_pages_bytes: Observed<Bytes>,
    /// Beside what is resident: huge pages that were set aside (hugetlbfs).
    #[doc(alias = "HugetlbPages")]
    pub hugetlb_bytes: Observed<Bytes>,
    /// Page tables, which the kernel keeps for it.
    #[doc(alias = "VmPTE")]
    pub page_tables_bytes: Observed<Bytes>,
    /// Kept from being swapped.
    #[doc(alias = "VmLck")]
    pub locked_bytes: Observed<Bytes>,
}

/// What it takes to read sizes by mapping.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Smaps {
    /// Mappings there are.
    pub mappings: Observed<u64>,
    /// For how long the process may be kept from mapping memory, estimated, in milliseconds.
    pub estimated_ms: Observed<u32>,
    /// How long it took, in milliseconds.
    pub took_ms: Observed<u32>,
}

/// One mapping, or those of one file with the same rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mapping {
    /// The file, or what stands in its place, escaped; `[anonymous]` without one.
    pub name: HostText,
    /// Rights, as in `/proc/PID/maps`: `rw-p`.
    pub rights: HostText,
    /// Mappings in this row.
    pub mappings: u32,
    /// Address space.
    pub size_bytes: Bytes,
    /// Resident.
    pub rss_bytes: Bytes,
    /// Resident, of shared pages its part.
    pub pss_bytes: Bytes,
    /// Its own, and not as in the file.
    pub private_dirty_bytes: Bytes,
    /// Swapped out.
    pub swap_bytes: Bytes,
}

/// A cgroup's memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cgroup {
    /// Memory charged to the process's cgroup.
    pub memory_bytes: Observed<Bytes>,
    /// Of it, what the kernel cannot simply drop: all but inactive file cache.
    pub working_set_bytes: Observed<Bytes>,
    /// How fast the working set grew in the window.
    pub working_set_growth_bytes_per_s: Observed<i64>,
    /// The tightest limit of it and its ancestors that can be seen.
    pub limit_bytes: Observed<Bytes>,
    /// The least that is left below a limit of it or an ancestor, without what can be dropped.
    pub left_bytes: Observed<Bytes>,
    /// Times a limit was hit in the window.
    pub limit_hits: Observed<u64>,
    /// Processes killed in it for lack of memory in the window.
    pub oom_kills: Observed<u64>,
    /// Of the cgroup, swapped out.
    pub swap_bytes: Observed<Bytes>,
}

/// Memory of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Host {
    /// All there is.
    #[doc(alias = "MemTotal")]
    pub memory_bytes: Observed<Bytes>,
    /// What can be had without swapping.
    #[doc(alias = "MemAvailable")]
    pub available_bytes: Observed<Bytes>,
    /// Swap that is free.
    #[doc(alias = "SwapFree")]
    pub swap_free_bytes: Observed<Bytes>,
}

/// Who touched new memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sites {
    /// Page faults that the samples stand for.
    pub faults: u64,
    /// A sample was taken of each so many: of all where they are few.
    pub each: u32,
    /// For how long they were taken, in milliseconds: for less than the window where they cost too much
    /// of the call's processor time.
    pub sampled_ms: u64,
    /// Samples that there was no room for.
    pub lost_samples: u64,
    /// Share of stacks that are known to the outermost call, in percent.
    pub complete_pct: Observed<Percent>,
    /// Functions, the heaviest first: the innermost on each stack that is of no allocator, C library
    /// or kernel. Ten at most.
    pub functions: Vec<Site>,
    /// Functions there are.
    pub functions_total: u32,
    /// Who called the first of them most, the nearest first.
    pub called_by: Vec<Function>,
}

/// A function that touched new memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Site {
    /// Which.
    pub function: Function,
    /// Its share of all page faults, in percent.
    pub share_pct: Percent,
    /// Memory that it touched first: a page for each fault, and more where the kernel gave a huge
    /// one.
    pub at_least_bytes: Bytes,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_too_short_for_ten_parts_is_refused() {
        let request = |window_ms| {
            let json = serde_json::json!({"pid": 7, "window_ms": window_ms});
            MemoryProfile::check(&serde_json::from_value(json).unwrap())
        };
        assert_eq!(request(1_000), Ok(()));
        let error = request(999).unwrap_err();
        assert_eq!(error.to_string(), "window_ms is 999: expected 1000 to 240000");
    }
}
