//! The cgroups of a machine: which were stopped by a CPU quota, which are near a memory limit.

use crate::{
    host_text::HostText,
    observed::Observed,
    units::{Bytes, Percent},
};
use serde::{Deserialize, Serialize};

/// The cgroups of a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cgroups {
    /// Which versions are mounted.
    pub version: Observed<CgroupVersion>,
    /// Cgroups that were found where the controllers for processors and memory are; under version 1
    /// each controller has its own. Only in a full answer.
    pub found: u32,
    /// Of them, those that were not looked at, because there are too many. There may be more below
    /// them. `detail: full` looks at ten times as many or more.
    pub not_looked_at: u32,
    /// How many were stopped in the window because they had used up their CPU quota. 0 is a
    /// measurement, of those that were looked at.
    pub throttled_total: Observed<u32>,
    /// Those, the one that was stopped longest first.
    pub throttled: Vec<ThrottledCgroup>,
    /// How many have a memory limit of their own.
    pub limited_total: Observed<u32>,
    /// Those: where a process was killed first, then the nearest to its limit.
    pub limited: Vec<LimitedCgroup>,
}

/// Versions of cgroups, by what is mounted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CgroupVersion {
    /// Version 1 alone.
    V1,
    /// Version 2 alone.
    V2,
    /// Both.
    Hybrid,
}

/// A cgroup that was stopped by its own CPU quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThrottledCgroup {
    /// Its path from the top that is mounted, escaped.
    pub path: HostText,
    /// Processors that its quota allows on average.
    pub quota_cores: f64,
    /// Enforcement periods in which it wanted to run.
    #[doc(alias = "nr_periods")]
    pub periods: u64,
    /// Of them, the share in which it used up its quota and was stopped.
    #[doc(alias = "nr_throttled")]
    pub throttled_pct: Percent,
    /// Time for which its run queues were stopped, in milliseconds, summed over processors.
    pub throttled_ms: u64,
}

/// A cgroup with a memory limit of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LimitedCgroup {
    /// Its path from the top that is mounted, escaped.
    pub path: HostText,
    /// What it may not exceed.
    pub limit_bytes: Observed<Bytes>,
    /// What it is slowed down above. Version 2 only.
    #[doc(alias = "memory.high")]
    pub high_bytes: Observed<Bytes>,
    /// Memory that the kernel cannot simply drop: all but inactive file cache.
    pub working_set_bytes: Observed<Bytes>,
    /// Inactive file cache.
    pub cache_bytes: Observed<Bytes>,
    /// The working set's share of the lower of the two limits.
    pub used_pct: Observed<Percent>,
    /// Times in the window that it wanted more than `limit_bytes`; the kernel then drops cache
    /// first.
    pub limit_hits: Observed<u64>,
    /// Times in the window that it was slowed down above `high_bytes`.
    pub high_hits: Observed<u64>,
    /// Processes the kernel killed in it for lack of memory in the window.
    pub oom_kills: Observed<u64>,
}
