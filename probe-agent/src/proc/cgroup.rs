//! The cgroups of a process, and what they count and limit.
//!
//! Sources: `/proc/PID/cgroup` (Linux 2.6.24), and the files of a cgroup: `cpu.stat`,
//! `cpu.cfs_quota_us`, `memory.*` in version 1, `cpu.max`, `cpu.stat`, `memory.*` in version 2.
//! Kernel reference: `Documentation/admin-guide/cgroup-v1/`, `Documentation/admin-guide/cgroup-v2.rst`,
//! `Documentation/scheduler/sched-bwc.rst`.
//! A hierarchy may be mounted without the controller one is after, and version 2 may be mounted
//! beside version 1 with no controller at all.

use super::parse::{ParseError, fields, lines, number, number_of};
use protocol::{instruments::process_inspect::Throttling, observed::Feature, units::Bytes};

/// A controller that limits and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Controller {
    /// Processor time.
    Cpu,
    /// Memory.
    Memory,
    /// Samples of what its processes do. In version 2 every cgroup has it, and no file says so.
    PerfEvent,
}

impl Controller {
    /// The kernel's name for it.
    pub const fn name(self) -> &'static [u8] {
        match self {
            Self::Cpu => b"cpu",
            Self::Memory => b"memory",
            Self::PerfEvent => b"perf_event",
        }
    }

    /// The part of a kernel that it is.
    pub const fn feature(self) -> Feature {
        match self {
            Self::Cpu => Feature::CgroupCpuController,
            Self::Memory => Feature::CgroupMemoryController,
            Self::PerfEvent => Feature::Cgroups,
        }
    }
}

/// Whether a controller is in the text of `cgroup.controllers`.
pub fn is_enabled(text: &[u8], controller: Controller) -> bool {
    fields(text.trim_ascii()).any(|name| name == controller.name())
}

/// One line of `/proc/PID/cgroup`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership<'t> {
    /// The controllers of a hierarchy of version 1, separated by commas; empty for version 2.
    pub controllers: &'t [u8],
    /// The path within the hierarchy, as seen from the reader's cgroup namespace.
    pub path: &'t [u8],
}

impl Membership<'_> {
    /// Whether this is the hierarchy of version 2.
    pub const fn is_v2(&self) -> bool {
        self.controllers.is_empty()
    }

    /// Whether a controller of version 1 is in this hierarchy.
    pub fn has(&self, controller: Controller) -> bool {
        self.controllers.split(|byte| *byte == b',').any(|name| name == controller.name())
    }

    /// Whether the cgroup is outside of the reader's namespace: the path then leads up first.
    pub fn is_elsewhere(&self) -> bool {
        self.path.starts_with(b"/..")
    }
}

/// Parses `/proc/PID/cgroup`. Lines that are not of the form `id:controllers:path` are skipped.
pub fn parse_memberships(text: &[u8]) -> Vec<Membership<'_>> {
    lines(text)
        .filter_map(|(_, line)| {
            let mut parts = line.splitn(3, |byte| *byte == b':');
            parts.next()?;
            Some(Membership { controllers: parts.next()?, path: parts.next()? })
        })
        .collect()
}

/// The line that says in which cgroup of a controller a process is. One that version 1 has is not
/// in version 2.
pub fn membership<'m, 't>(
    memberships: &'m [Membership<'t>],
    controller: Controller,
) -> Option<&'m Membership<'t>> {
    let v1 = memberships.iter().find(|membership| membership.has(controller));
    v1.or_else(|| memberships.iter().find(|membership| membership.is_v2()))
}

/// How a CPU quota acted since the cgroup was made.
///
/// # Errors
///
/// Without the lines, which is so where no quota can be set.
pub fn parse_throttling(text: &[u8]) -> Result<Throttling, ParseError> {
    // Version 2 counts microseconds, version 1 nanoseconds, each under a name of its own.
    let throttled_us = number_of(text, "throttled_usec")
        .or_else(|_| number_of(text, "throttled_time").map(|ns| ns / 1000))?;
    Ok(Throttling {
        periods: number_of(text, "nr_periods")?,
        throttled_periods: number_of(text, "nr_throttled")?,
        throttled_ms: throttled_us / 1000,
    })
}

/// Processors that `cpu.max` allows on average; `None` is no limit.
///
/// # Errors
///
/// When it holds neither `max` nor a number, or no period.
pub fn parse_cpu_max(text: &[u8]) -> Result<Option<f64>, ParseError> {
    let mut values = fields(text.trim_ascii());
    let missing = |expected| ParseError::MissingField { line_number: 1, expected };
    let quota = values.next().ok_or_else(|| missing("quota"))?;
    if quota == b"max" {
        return Ok(None);
    }
    let period = values.next().ok_or_else(|| missing("period"))?;
    Ok(cores(number(quota, 1)?, number(period, 1)?))
}

/// Processors that version 1's quota and period allow on average; `None` is no limit.
///
/// # Errors
///
/// When one of the files holds no number.
pub fn parse_cfs_quota(quota: &[u8], period: &[u8]) -> Result<Option<f64>, ParseError> {
    if quota.trim_ascii().starts_with(b"-") {
        return Ok(None);
    }
    Ok(cores(number(quota.trim_ascii(), 1)?, number(period.trim_ascii(), 1)?))
}

fn cores(quota_us: u64, period_us: u64) -> Option<f64> {
    (period_us > 0).then(|| quota_us as f64 / period_us as f64)
}

/// A memory limit; `None` is no limit.
///
/// Version 2 writes `max`. Version 1 writes the largest number of pages a signed long holds, which
/// differs by page size; anything above 2^62 is that.
///
/// # Errors
///
/// When it holds neither.
pub fn parse_memory_limit(text: &[u8]) -> Result<Option<Bytes>, ParseError> {
    let text = text.trim_ascii();
    if text == b"max" {
        return Ok(None);
    }
    let limit = number(text, 1)?;
    Ok((limit < 1 << 62).then_some(Bytes(limit)))
}

/// File cache that the kernel can drop, out of `memory.stat`, the cgroup's descendants included.
///
/// # Errors
///
/// Without the line.
pub fn parse_inactive_file(text: &[u8]) -> Result<Bytes, ParseError> {
    number_of(text, "total_inactive_file").or_else(|_| number_of(text, "inactive_file")).map(Bytes)
}

/// Memory that is swapped out, out of version 1's `memory.stat`, the cgroup's descendants included.
///
/// # Errors
///
/// Without the line: the kernel does not count it.
pub fn parse_swap(text: &[u8]) -> Result<Bytes, ParseError> {
    number_of(text, "total_swap").or_else(|_| number_of(text, "swap")).map(Bytes)
}

/// Times a cgroup's memory limit was hit, the upper or the lower one, out of version 2's
/// `memory.events.local` or `memory.events`.
///
/// # Errors
///
/// Without the lines.
pub fn parse_limit_hits(text: &[u8]) -> Result<u64, ParseError> {
    Ok(number_of(text, "max")?.saturating_add(number_of(text, "high").unwrap_or(0)))
}

/// What happened to a cgroup for lack of memory, out of version 2's `memory.events.local` or
/// `memory.events`.
///
/// # Errors
///
/// Without the lines.
pub fn parse_memory_events(text: &[u8]) -> Result<MemoryEvents, ParseError> {
    Ok(MemoryEvents {
        high_hits: Some(number_of(text, "high")?),
        limit_hits: number_of(text, "max")?,
        // Linux 4.13 and later count them.
        oom_kills: number_of(text, "oom_kill").ok(),
    })
}

/// What happened to a cgroup for lack of memory since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Times it was slowed down above the limit that may be exceeded; `None` in version 1, which
    /// has no such limit.
    pub high_hits: Option<u64>,
    /// Times it wanted more than the limit that may not.
    pub limit_hits: u64,
    /// Processes that were killed; `None` where the kernel does not count them.
    pub oom_kills: Option<u64>,
}

/// Processes killed for lack of memory, out of version 2's `memory.events.local` or
/// `memory.events`, or version 1's `memory.oom_control`.
///
/// # Errors
///
/// Without the line: version 1 has it since Linux 4.13.
pub fn parse_oom_kills(text: &[u8]) -> Result<u64, ParseError> {
    number_of(text, "oom_kill")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn memberships_of_both_versions() {
        let text = b"4:memory:/docker/abc\n3:cpu,cpuacct:/a:b\n1:name=systemd:/\n0::/x.slice\n";
        let found = parse_memberships(text);
        assert_eq!(found.len(), 4);
        assert!(found[1].has(Controller::Cpu) && !found[1].has(Controller::Memory));
        assert!(!found[2].has(Controller::Cpu) && !found[3].has(Controller::Cpu));
        assert_eq!(found[1].path, b"/a:b");
        assert!(found[3].is_v2() && found[3].path == b"/x.slice");
    }

    #[test]
    fn throttling_has_one_unit_in_both_versions() {
        let want = Throttling { periods: 31, throttled_periods: 30, throttled_ms: 2090 };
        let v1 = b"nr_periods 31\nnr_throttled 30\nthrottled_time 2090000123\n";
        let v2 = b"usage_usec 1\nnr_periods 31\nnr_throttled 30\nthrottled_usec 2090000\n";
        assert_eq!(parse_throttling(v1), Ok(want));
        assert_eq!(parse_throttling(v2), Ok(want));
        assert!(parse_throttling(b"usage_usec 1\n").is_err());
    }

    #[test]
    fn no_limit_is_not_a_number() {
        assert_eq!(parse_cpu_max(b"max 100000\n"), Ok(None));
        assert_eq!(parse_cpu_max(b"20000 100000\n"), Ok(Some(0.2)));
        assert_eq!(parse_cfs_quota(b"-1\n", b"100000\n"), Ok(None));
        assert_eq!(parse_cfs_quota(b"20000\n", b"100000\n"), Ok(Some(0.2)));
        assert_eq!(parse_memory_limit(b"max\n"), Ok(None));
        assert_eq!(parse_memory_limit(b"9223372036854771712\n"), Ok(None));
        assert_eq!(parse_memory_limit(b"9223372036854710272\n"), Ok(None));
        assert_eq!(parse_memory_limit(b"67108864\n"), Ok(Some(Bytes(67_108_864))));
    }

    #[test]
    fn version_one_counts_descendants_under_another_name() {
        assert_eq!(parse_inactive_file(b"inactive_file 1\ntotal_inactive_file 7\n"), Ok(Bytes(7)));
        assert_eq!(parse_inactive_file(b"anon 3\ninactive_file 5\n"), Ok(Bytes(5)));
        assert_eq!(parse_swap(b"swap 1\ntotal_swap 7\n"), Ok(Bytes(7)));
        assert!(parse_swap(b"cache 1\n").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_file_or_an_error(text in prop::collection::vec(any::<u8>(), 0..300)) {
            parse_memberships(&text);
            let _ = parse_throttling(&text);
            let _ = parse_cpu_max(&text);
            let _ = parse_cfs_quota(&text, &text);
            let _ = parse_memory_limit(&text);
            let _ = parse_limit_hits(&text);
            let _ = parse_swap(&text);
        }
    }
}
