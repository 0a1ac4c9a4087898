//! All cgroups of the machine: which were stopped by a quota, which are near a memory limit.
//!
//! There may be thousands, and each file of one costs some microseconds. So only those that have a
//! limit are read again at the end of the window, and the walk that finds them stops when it has
//! used up its share of processor time. It begins at the top and goes down level by level, because
//! services and containers are near the top.

mod walk;

use crate::{
    instruments::{cgroup_files::CgroupFiles, window},
    order,
    proc::{
        Root,
        cgroup::{Controller, MemoryEvents},
        mountinfo::{self, CgroupMount},
    },
};
use protocol::{
    host_text::HostText,
    instruments::{
        host_snapshot::{CgroupVersion, Cgroups, LimitedCgroup, ThrottledCgroup},
        process_inspect::Throttling,
    },
    observed::{Feature, Observed, OutOfSight, Reason},
    units::{Bytes, Percent},
};
use std::time::Duration;
use walk::Walk;

/// What was found at the start of the window.
pub(super) struct Look {
    version: Observed<CgroupVersion>,
    found: u32,
    not_looked_at: u32,
    cpu: Result<Hierarchy<Quota>, Reason>,
    memory: Result<Hierarchy<Limits>, Reason>,
}

/// The cgroups of one controller that have a limit of their own.
struct Hierarchy<T> {
    files: CgroupFiles,
    top: String,
    limited: Vec<(String, T)>,
    /// Why nothing can be said of any cgroup, where none said anything.
    silent: Option<Reason>,
}

struct Quota {
    cores: f64,
    before: Throttling,
}

struct Limits {
    limit: Option<Bytes>,
    high: Option<Bytes>,
    before: Result<MemoryEvents, Reason>,
}

/// Looks at all cgroups, with so much processor time at most.
pub(super) fn look(root: &Root, most_cpu: Duration) -> Look {
    let mut text = Vec::new();
    let mounts = root
        .read_proc("self/mountinfo", &mut text)
        .map(|()| mountinfo::parse_cgroup_mounts(&text))
        .map_err(|error| error.reason_of_file(Feature::Field));
    let mut walk = Walk::new(root, most_cpu);
    let cpu = mounts.clone().and_then(|mounts| {
        walk.hierarchy(&mounts, Controller::Cpu, |files, folder| {
            let Some(cores) = files.quota(folder, root)? else { return Ok(None) };
            Ok(Some(Quota { cores, before: files.throttling(folder, root)? }))
        })
    });
    let memory = mounts.clone().and_then(|mounts| {
        walk.hierarchy(&mounts, Controller::Memory, |files, folder| {
            let limit = files.memory_limit(folder, root)?;
            let high = files.high_limit(folder, root).unwrap_or_default();
            let limits = || Limits { limit, high, before: files.memory_events(folder, root) };
            Ok((limit.is_some() || high.is_some()).then(limits))
        })
    });
    Look {
        version: mounts.and_then(|mounts| version(&mounts)).into(),
        found: walk.found(),
        not_looked_at: walk.not_looked_at(),
        cpu,
        memory,
    }
}

/// Which versions are mounted. A hierarchy of version 1 without a controller only groups processes;
/// systemd has one beside version 2.
fn version(mounts: &[CgroupMount]) -> Result<CgroupVersion, Reason> {
    let is_v2 = mounts.iter().any(|mount| mount.controllers.is_none());
    let has_controller = |options: &Vec<u8>| {
        options
            .split(|byte| *byte == b',')
            .any(|word| !matches!(word, b"rw" | b"ro" | b"none" | b"xattr") && !is_named(word))
    };
    let is_v1 = mounts.iter().filter_map(|mount| mount.controllers.as_ref()).any(has_controller);
    match (is_v1, is_v2) {
        (true, true) => Ok(CgroupVersion::Hybrid),
        (true, false) => Ok(CgroupVersion::V1),
        (false, true) => Ok(CgroupVersion::V2),
        (false, false) => Err(Reason::OutOfSight(OutOfSight::HierarchyNotMounted)),
    }
}

/// An option that takes a value is no controller.
fn is_named(word: &[u8]) -> bool {
    word.contains(&b'=')
}

impl Look {
    /// What happened since: all rows, ranked; the caller cuts.
    pub(super) fn finish(self, root: &Root, keep: usize) -> Cgroups {
        let throttled = self.cpu.and_then(|cpu| cpu.throttled(root));
        let limited = self.memory.and_then(|memory| memory.limited(root, keep));
        let count = |rows: usize| u32::try_from(rows).unwrap_or(u32::MAX);
        Cgroups {
            version: self.version,
            found: self.found,
            not_looked_at: self.not_looked_at,
            throttled_total: throttled
                .as_ref()
                .map(Vec::len)
                .map_err(Clone::clone)
                .map(count)
                .into(),
            throttled: throttled.unwrap_or_default(),
            limited_total: (limited.as_ref())
                .map(|(total, _)| count(*total))
                .map_err(Clone::clone)
                .into(),
            limited: limited.map(|(_, rows)| rows).unwrap_or_default(),
        }
    }
}

impl<T> Hierarchy<T> {
    /// The path of a cgroup from the top that is mounted.
    fn path(&self, folder: &str) -> HostText {
        let below = folder.strip_prefix(&self.top).unwrap_or(folder);
        HostText::new(if below.is_empty() { b"/" } else { below.as_bytes() })
    }
}

impl Hierarchy<Quota> {
    /// The cgroups that were stopped, the one that was stopped longest first.
    fn throttled(self, root: &Root) -> Result<Vec<ThrottledCgroup>, Reason> {
        if let Some(reason) = self.silent {
            return Err(reason);
        }
        let mut rows: Vec<ThrottledCgroup> = self
            .limited
            .iter()
            .filter_map(|(folder, quota)| self.row(folder, quota, root))
            .collect();
        order::by_key(&mut rows, |row| std::cmp::Reverse((row.throttled_ms, row.throttled_pct)));
        Ok(rows)
    }

    /// `None` for one that was not stopped, that is gone, or that is another one of the same name:
    /// then its counts are smaller.
    fn row(&self, folder: &str, quota: &Quota, root: &Root) -> Option<ThrottledCgroup> {
        let now = self.files.throttling(folder, root).ok()?;
        let before = quota.before;
        let periods = now.periods.checked_sub(before.periods)?;
        let throttled = now.throttled_periods.checked_sub(before.throttled_periods)?;
        (throttled > 0).then(|| ThrottledCgroup {
            path: self.path(folder),
            quota_cores: quota.cores,
            periods,
            // A period that ends between the two counts is in one of them only.
            throttled_pct: Percent::of(throttled as f64, periods.max(throttled) as f64)
                .unwrap_or_default(),
            throttled_ms: now.throttled_ms.saturating_sub(before.throttled_ms),
        })
    }
}

/// A cgroup with a memory limit, before its cache is known.
struct Candidate {
    folder: String,
    usage: Bytes,
    /// The lower limit.
    lowest: Bytes,
    row: LimitedCgroup,
}

impl Candidate {
    fn share(&self, used: Bytes) -> f64 {
        used.0 as f64 / self.lowest.0.max(1) as f64
    }

    /// Processes that were killed come before everything else.
    fn killed(&self) -> u64 {
        self.row.oom_kills.known().copied().unwrap_or(0)
    }
}

impl Hierarchy<Limits> {
    /// How many have a limit, and the `keep` nearest to it.
    fn limited(self, root: &Root, keep: usize) -> Result<(usize, Vec<LimitedCgroup>), Reason> {
        if let Some(reason) = self.silent {
            return Err(reason);
        }
        let all = self.limited.iter();
        let candidates: Vec<Candidate> =
            all.filter_map(|(folder, limits)| self.candidate(folder, limits, root)).collect();
        let total = candidates.len();
        Ok((total, nearest(candidates, keep, |folder| self.files.inactive_file(folder, root))))
    }

    /// `None` for one that is gone.
    fn candidate(&self, folder: &str, limits: &Limits, root: &Root) -> Option<Candidate> {
        let usage = self.files.memory(folder, root).ok()?;
        let now: Observed<MemoryEvents> = self.files.memory_events(folder, root).into();
        let before: Observed<MemoryEvents> = limits.before.clone().into();
        let grown = |count: fn(&MemoryEvents) -> Option<u64>, without: Reason| {
            let of = |events: &Observed<MemoryEvents>| {
                events.clone().and_then(|events| count(&events).ok_or(without.clone()))
            };
            window::growth(&of(&now), &of(&before))
        };
        let or_none = |limit: Option<Bytes>| limit.ok_or(Reason::NoLimitSet).into();
        Some(Candidate {
            folder: folder.to_owned(),
            usage,
            lowest: limits.limit.into_iter().chain(limits.high).min()?,
            row: LimitedCgroup {
                path: self.path(folder),
                limit_bytes: or_none(limits.limit),
                high_bytes: or_none(limits.high),
                working_set_bytes: Observed::Unknown(Reason::Gone),
                cache_bytes: Observed::Unknown(Reason::Gone),
                used_pct: Observed::Unknown(Reason::Gone),
                limit_hits: grown(|events| Some(events.limit_hits), Reason::Gone),
                high_hits: grown(|events| events.high_hits, Reason::NoLimitSet),
                oom_kills: grown(|events| events.oom_kills, Reason::KernelLacks(Feature::Field)),
            },
        })
    }
}

/// The cgroups nearest to their limit by their working set.
///
/// The kernel's count of a cgroup's cache is the dearest of all reads. A working set is at most all
/// memory that is used, so whoever uses a smaller share than the last one that is kept has of its
/// working set, is not nearer, and need not be asked.
fn nearest(
    mut candidates: Vec<Candidate>,
    keep: usize,
    inactive_file: impl Fn(&str) -> Result<Bytes, Reason>,
) -> Vec<LimitedCgroup> {
    /// Where so many are full of cache, those that use most are kept.
    const MOST_ASKED: usize = 64;
    order::by(&mut candidates, |left, right| {
        let by_use = right.share(right.usage).total_cmp(&left.share(left.usage));
        right.killed().cmp(&left.killed()).then(by_use)
    });
    let mut kept: Vec<(u64, f64, LimitedCgroup)> = Vec::new();
    for (asked, candidate) in candidates.into_iter().enumerate() {
        let (killed, most) = (candidate.killed(), candidate.share(candidate.usage));
        let is_behind = |last: &(u64, f64, LimitedCgroup)| (last.0, last.1) >= (killed, most);
        let is_full = kept.len() >= keep && kept.last().is_some_and(is_behind);
        if is_full || asked >= MOST_ASKED {
            break;
        }
        let cache: Observed<Bytes> = inactive_file(&candidate.folder).into();
        let working_set = cache.clone().map(|it| Bytes(candidate.usage.0.saturating_sub(it.0)));
        let share = working_set.known().map_or(most, |used| candidate.share(*used));
        let used_pct =
            working_set.clone().and_then(|_| Percent::of(share, 1.0).ok_or(Reason::EmptyWindow));
        let row = LimitedCgroup {
            working_set_bytes: working_set,
            cache_bytes: cache,
            used_pct,
            ..candidate.row
        };
        let place = kept.partition_point(|other| (other.0, other.1) >= (killed, share));
        kept.insert(place, (killed, share, row));
        kept.truncate(keep);
    }
    kept.into_iter().map(|(_, _, row)| row).collect()
}
