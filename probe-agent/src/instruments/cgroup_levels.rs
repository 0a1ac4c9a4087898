//! The cgroups of a process from its own up to the top, and what they count and limit.
//!
//! A quota or a limit of any ancestor holds for the process, so every level is read; and from
//! within a container there are ancestors that nobody can read.

mod hierarchy;
mod per_level;

use crate::{
    call::Context,
    instruments::{cgroup_files::CgroupFiles, process_files::ProcessFiles},
    proc::{
        Root,
        cgroup::{self, Controller},
        mountinfo,
    },
};
use hierarchy::Hierarchy;
use per_level::PerLevel;
use protocol::{
    host_text::HostText,
    instruments::process_inspect::Throttling,
    observed::{Feature, Observed, Reason},
    units::Bytes,
};

/// Where the files of a process's cgroups are.
#[derive(Debug)]
pub(super) struct CgroupLevels {
    path: Observed<HostText>,
    cpu: Result<Hierarchy, Reason>,
    memory: Result<Hierarchy, Reason>,
}

/// The memory of a process's cgroups at one end of a window.
#[derive(Debug)]
pub(super) struct MemoryEnd {
    /// Charged to its own.
    pub(super) memory: Observed<Bytes>,
    /// Of it, what cannot simply be dropped.
    pub(super) working_set: Observed<Bytes>,
    /// The tightest limit of all levels.
    pub(super) limit: Observed<Bytes>,
    /// The least that a level has left below its limit, without what can be dropped.
    pub(super) left: Observed<Bytes>,
    /// Swapped out of its own.
    pub(super) swap: Observed<Bytes>,
    limit_hits: Result<PerLevel<u64>, Reason>,
    /// Killed in its own.
    pub(super) oom_kills: Observed<u64>,
}

/// What is read at one end of the window.
#[derive(Debug)]
pub(super) struct CgroupEnd {
    pub(super) path: Observed<HostText>,
    /// The tightest quota of all levels, in processors.
    pub(super) quota_cores: Observed<f64>,
    throttling: Result<PerLevel<Throttling>, Reason>,
    pub(super) memory: Observed<Bytes>,
    pub(super) inactive_file: Observed<Bytes>,
    pub(super) memory_limit: Observed<Bytes>,
    limit_hits: Result<PerLevel<u64>, Reason>,
    pub(super) oom_kills: Observed<u64>,
}

impl CgroupLevels {
    /// Finds the cgroups of a process.
    pub(super) fn of(files: &ProcessFiles<'_, '_>) -> Self {
        let context = files.context;
        let text = match files.whole("cgroup", Feature::Cgroups) {
            Ok(text) => text,
            Err(reason) => {
                let path = Observed::Unknown(reason.clone());
                return Self { path, cpu: Err(reason.clone()), memory: Err(reason) };
            }
        };
        let memberships = cgroup::parse_memberships(&text);
        let mut mounts = Vec::new();
        let mounts = context
            .root
            .read_proc("self/mountinfo", &mut mounts)
            .map(|()| mountinfo::parse_cgroup_mounts(&mounts))
            .map_err(|error| error.reason_of_file(Feature::Field));
        let find = |controller| {
            Hierarchy::find(
                &memberships,
                mounts.as_ref().map_err(Clone::clone)?,
                controller,
                context.root,
            )
        };
        let path = cgroup::membership(&memberships, Controller::Cpu)
            .map(|membership| HostText::new(membership.path))
            .ok_or(Reason::KernelLacks(Feature::CgroupCpuController));
        Self { path: path.into(), cpu: find(Controller::Cpu), memory: find(Controller::Memory) }
    }

    /// Reads all levels.
    pub(super) fn read(&self, context: &Context<'_>) -> CgroupEnd {
        let root = context.root;
        let cpu = self.cpu.as_ref().map_err(Clone::clone);
        let memory = self.memory.as_ref().map_err(Clone::clone);
        let quota = cpu.clone().map(|levels| levels.each(|files, at| files.quota(at, root)));
        let limit =
            memory.clone().map(|levels| levels.each(|files, at| files.memory_limit(at, root)));
        let own = |read: fn(&CgroupFiles, &str, &Root) -> Result<Bytes, Reason>| {
            let own = memory.clone();
            own.and_then(|levels| levels.own(|files, at| read(files, at, root))).into()
        };
        CgroupEnd {
            path: self.path.clone(),
            quota_cores: quota.map_or_else(Observed::Unknown, |levels| levels.tightest()),
            throttling: cpu.map(|levels| levels.each(|files, at| files.throttling(at, root))),
            memory: own(CgroupFiles::memory),
            inactive_file: own(CgroupFiles::inactive_file),
            memory_limit: limit.map_or_else(Observed::Unknown, |levels| levels.tightest()),
            limit_hits: (memory.clone())
                .map(|levels| levels.each(|files, at| files.limit_hits(at, root))),
            oom_kills: memory
                .and_then(|levels| levels.own(|files, at| files.oom_kills(at, root)))
                .into(),
        }
    }
}

/// What a cgroup uses without what can be dropped.
fn working_set(files: &CgroupFiles, at: &str, root: &Root) -> Result<Bytes, Reason> {
    let (all, inactive) = (files.memory(at, root)?, files.inactive_file(at, root)?);
    Ok(Bytes(all.0.saturating_sub(inactive.0)))
}

/// What a cgroup may still use; `None` without a limit.
fn left(files: &CgroupFiles, at: &str, root: &Root) -> Result<Option<Bytes>, Reason> {
    let Some(limit) = files.memory_limit(at, root)? else { return Ok(None) };
    let used = working_set(files, at, root)?;
    Ok(Some(Bytes(limit.0.saturating_sub(used.0))))
}

impl CgroupLevels {
    /// Reads the memory of all levels.
    pub(super) fn read_memory(&self, context: &Context<'_>) -> MemoryEnd {
        let root = context.root;
        let memory = self.memory.as_ref().map_err(Clone::clone);
        let own = |read: fn(&CgroupFiles, &str, &Root) -> Result<Bytes, Reason>| {
            let own = memory.clone();
            own.and_then(|levels| levels.own(|files, at| read(files, at, root))).into()
        };
        let tightest = |read: fn(&CgroupFiles, &str, &Root) -> Result<Option<Bytes>, Reason>| {
            let levels =
                memory.clone().map(|levels| levels.each(|files, at| read(files, at, root)));
            levels.map_or_else(Observed::Unknown, |levels| levels.tightest())
        };
        MemoryEnd {
            memory: own(CgroupFiles::memory),
            working_set: own(working_set),
            limit: tightest(CgroupFiles::memory_limit),
            left: tightest(left),
            swap: own(CgroupFiles::swap),
            limit_hits: (memory.clone())
                .map(|levels| levels.each(|files, at| files.limit_hits(at, root))),
            oom_kills: memory
                .and_then(|levels| levels.own(|files, at| files.oom_kills(at, root)))
                .into(),
        }
    }
}

impl MemoryEnd {
    /// Times a limit of any level was hit since an earlier end.
    pub(super) fn limit_hits_since(&self, earlier: &Self) -> Observed<u64> {
        hits_since(&self.limit_hits, &earlier.limit_hits)
    }
}

/// Times a limit of any level was hit between two reads.
fn hits_since(
    now: &Result<PerLevel<u64>, Reason>,
    earlier: &Result<PerLevel<u64>, Reason>,
) -> Observed<u64> {
    let grown = |now: &u64, before: &u64| now.saturating_sub(*before);
    now.clone()
        .and_then(|now| Ok((now, earlier.clone()?)))
        .map(|(now, before)| now.since(&before, grown, u64::saturating_add, |hits| *hits > 0))
        .unwrap_or_else(Observed::Unknown)
}

impl CgroupEnd {
    /// Forgets what a difference is formed from.
    pub(super) fn forget_counters(&mut self, reason: &Reason) {
        self.throttling = Err(reason.clone());
        self.limit_hits = Err(reason.clone());
        self.oom_kills = Observed::Unknown(reason.clone());
    }

    /// How the quota acted since an earlier end: at the level that was throttled longest.
    pub(super) fn throttled_since(&self, earlier: &Self) -> Observed<Throttling> {
        let longer = |left: Throttling, right: Throttling| {
            let weight = |throttling: &Throttling| (throttling.throttled_ms, throttling.periods);
            if weight(&right) > weight(&left) { right } else { left }
        };
        let is_something = |throttling: &Throttling| throttling.throttled_periods > 0;
        self.throttling
            .clone()
            .and_then(|now| Ok((now, earlier.throttling.clone()?)))
            .map(|(now, before)| now.since(&before, difference, longer, is_something))
            .unwrap_or_else(Observed::Unknown)
    }

    /// Times a limit of any level was hit since an earlier end.
    pub(super) fn limit_hits_since(&self, earlier: &Self) -> Observed<u64> {
        hits_since(&self.limit_hits, &earlier.limit_hits)
    }
}

fn difference(now: &Throttling, before: &Throttling) -> Throttling {
    Throttling {
        periods: now.periods.saturating_sub(before.periods),
        throttled_periods: now.throttled_periods.saturating_sub(before.throttled_periods),
        throttled_ms: now.throttled_ms.saturating_sub(before.throttled_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::{FIRST, OF_A_CONTAINER, PID, machine};
    use protocol::observed::{Nature, OutOfSight};

    /// The cgroups of the one process of a machine that consists of these files.
    fn levels_of<T>(
        files: &[(&str, &str)],
        namespace: &str,
        look: impl FnOnce(&CgroupEnd) -> T,
    ) -> T {
        machine(files, namespace, |context| {
            let levels = CgroupLevels::of(&ProcessFiles { pid: PID, context });
            let end = levels.read(context);
            look(&end)
        })
    }

    const V2: (&str, &str) =
        ("proc/self/mountinfo", "31 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");

    fn unknown<T>(reason: Reason) -> Observed<T> {
        Observed::Unknown(reason)
    }

    #[test]
    fn from_within_a_container_no_limit_is_not_claimed() {
        let files = [
            V2,
            ("proc/7/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/cpu.stat", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"),
            ("sys/fs/cgroup/memory.max", "max\n"),
            ("sys/fs/cgroup/memory.current", "4096\n"),
            ("sys/fs/cgroup/memory.events", "high 0\nmax 0\noom_kill 0\n"),
        ];
        let above = Reason::OutOfSight(OutOfSight::CgroupsAbove);
        levels_of(&files, OF_A_CONTAINER, |end| {
            assert_eq!(end.path, Observed::Known(HostText::new(b"/")));
            assert_eq!(end.quota_cores, unknown(above.clone()));
            assert_eq!(end.memory_limit, unknown(above.clone()));
            assert_eq!(end.throttled_since(end), unknown(above.clone()));
            assert_eq!(end.limit_hits_since(end), unknown(above));
            assert_eq!(end.memory, Observed::Known(Bytes(4096)));
        });
        // A limit that is seen is one, whatever is above.
        let mut limited = files;
        limited[3].1 = "50000 100000\n";
        limited[5].1 = "8192\n";
        levels_of(&limited, OF_A_CONTAINER, |end| {
            assert_eq!(end.quota_cores, Observed::Known(0.5));
            assert_eq!(end.memory_limit, Observed::Known(Bytes(8192)));
        });
        // Without a namespace of its own, a container sees its cgroup's mount only.
        let mut bound = files;
        bound[0].1 = "31 22 0:27 /docker/a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        bound[1].1 = "0::/docker/a\n";
        levels_of(&bound, FIRST, |end| {
            let above = Reason::OutOfSight(OutOfSight::CgroupsAbove);
            assert_eq!(end.quota_cores, unknown(above.clone()));
            assert_eq!(end.memory_limit, unknown(above));
        });
    }

    #[test]
    fn what_is_out_of_sight_says_why() {
        let v1 = ("proc/self/mountinfo", "30 22 0:26 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
        let cases = [
            (vec![V2, ("proc/7/cgroup", "0::/../../b\n")], OutOfSight::CgroupElsewhere),
            (vec![V2, ("proc/7/cgroup", "4:memory:/a\n0::/a\n")], OutOfSight::HierarchyNotMounted),
            (
                vec![v1, ("proc/7/cgroup", "4:memory:/a\n3:cpu:/\n")],
                OutOfSight::HierarchyNotMounted,
            ),
            (vec![v1, ("proc/7/cgroup", "0::/a\n")], OutOfSight::HierarchyNotMounted),
            (
                vec![
                    ("proc/self/mountinfo", "3 2 0:2 /other /cg rw - cgroup2 cgroup2 rw\n"),
                    ("proc/7/cgroup", "0::/a\n"),
                ],
                OutOfSight::CgroupNotMounted,
            ),
        ];
        for (files, want) in cases {
            levels_of(&files, OF_A_CONTAINER, |end| {
                assert_eq!(end.memory_limit, unknown(Reason::OutOfSight(want)), "{files:?}");
                assert_eq!(end.oom_kills, unknown(Reason::OutOfSight(want)), "{files:?}");
            });
        }
        // The mount that shows the whole is taken, wherever it stands.
        let twice =
            "3 2 0:2 /a /part rw - cgroup2 cgroup2 rw\n4 2 0:2 / /cg rw - cgroup2 cgroup2 rw\n";
        let files = [
            ("proc/self/mountinfo", twice),
            ("proc/7/cgroup", "0::/a\n"),
            ("cg/cgroup.controllers", "memory\n"),
            ("cg/a/cgroup.controllers", "memory\n"),
            ("cg/a/memory.max", "max\n"),
        ];
        levels_of(&files, FIRST, |end| {
            assert_eq!(end.memory_limit, unknown(Reason::NoLimitSet));
        });
    }

    #[test]
    fn what_is_missing_in_version_two_has_its_own_reason() {
        let not_enabled = Reason::DoesNotApply(Nature::ControllerNotEnabled);
        let files = [
            V2,
            ("proc/7/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/a/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/a/memory.max", "8192\n"),
            // The CPU controller is enabled here, and the kernel has no quotas.
            ("sys/fs/cgroup/a/b/cgroup.controllers", "cpu\n"),
            ("sys/fs/cgroup/a/b/cpu.stat", "usage_usec 5\n"),
        ];
        levels_of(&files, FIRST, |end| {
            let no_quota = Reason::KernelLacks(Feature::CgroupCpuQuota);
            assert_eq!(end.quota_cores, unknown(no_quota.clone()));
            assert_eq!(end.throttled_since(end), unknown(no_quota));
            assert_eq!(end.memory, unknown(not_enabled.clone()));
            assert_eq!(end.oom_kills, unknown(not_enabled));
            assert_eq!(end.memory_limit, Observed::Known(Bytes(8192)));
        });
        let root = [V2, ("proc/7/cgroup", "0::/\n"), files[2]];
        levels_of(&root, FIRST, |end| {
            let root = Reason::DoesNotApply(Nature::RootCgroup);
            assert_eq!(end.quota_cores, unknown(root.clone()));
            assert_eq!(end.memory, unknown(root));
        });
        let lacking = [V2, files[1], (files[2].0, "cpu\n"), (files[3].0, "cpu\n"), files[5]];
        levels_of(&lacking, FIRST, |end| {
            let lacks = Reason::KernelLacks(Feature::CgroupMemoryController);
            assert_eq!(end.memory, unknown(lacks.clone()));
            assert_eq!(end.memory_limit, unknown(lacks));
        });
        let gone = [V2, ("proc/7/cgroup", "0::/a/b (deleted)\n")];
        levels_of(&gone, FIRST, |end| assert_eq!(end.memory, unknown(Reason::Gone)));
        levels_of(&[V2], FIRST, |end| {
            assert_eq!(end.memory, unknown(Reason::KernelLacks(Feature::Cgroups)));
        });
    }

    #[test]
    fn what_is_missing_in_version_one_has_its_own_reason() {
        let mounts = "30 22 0:26 / /cpu rw - cgroup cgroup rw,cpu\n\
                      31 22 0:27 / /mem rw - cgroup cgroup rw,memory\n";
        let files = [
            ("proc/self/mountinfo", mounts),
            ("proc/7/cgroup", "4:memory:/a\n3:cpu:/a\n"),
            ("cpu/cgroup.procs", ""),
            ("cpu/a/cgroup.procs", ""),
            ("mem/cgroup.procs", ""),
            ("mem/a/cgroup.procs", ""),
            ("mem/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\n"),
            ("mem/a/memory.limit_in_bytes", "9223372036854771712\n"),
            ("mem/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        levels_of(&files, FIRST, |end| {
            assert_eq!(end.quota_cores, unknown(Reason::KernelLacks(Feature::CgroupCpuQuota)));
            // Linux 4.13 and later have the line.
            assert_eq!(end.oom_kills, unknown(Reason::KernelLacks(Feature::Field)));
            assert_eq!(end.memory_limit, unknown(Reason::NoLimitSet));
        });
        let without = [files[0], ("proc/7/cgroup", "3:cpu:/a\n")];
        levels_of(&without, FIRST, |end| {
            let lacks = Reason::KernelLacks(Feature::CgroupMemoryController);
            assert_eq!(end.memory, unknown(lacks));
        });
    }

    #[test]
    fn events_are_of_the_cgroup_alone() {
        let both = [
            V2,
            ("proc/7/cgroup", "0::/a\n"),
            ("sys/fs/cgroup/cgroup.controllers", "memory\n"),
            ("sys/fs/cgroup/a/cgroup.controllers", "memory\n"),
            ("sys/fs/cgroup/a/memory.events", "high 1\nmax 20\noom_kill 9\n"),
            ("sys/fs/cgroup/a/memory.events.local", "high 1\nmax 2\noom_kill 3\n"),
        ];
        levels_of(&both, FIRST, |end| {
            assert_eq!(end.oom_kills, Observed::Known(3));
            let hits = end.limit_hits.as_ref().unwrap();
            assert_eq!(hits.levels.first(), Some(&Ok(3)));
        });
        levels_of(&both[..5], FIRST, |end| assert_eq!(end.oom_kills, Observed::Known(9)));
    }

    #[test]
    fn levels_run_from_the_process_to_the_top() {
        let mounts = "30 22 0:26 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
                      32 22 0:27 / /unified rw - cgroup2 cgroup2 rw\n\
                      31 22 0:28 / /mem rw - cgroup cgroup rw,memory\n";
        let files = [
            ("proc/self/mountinfo", mounts),
            ("proc/7/cgroup", "4:memory:/a/b\n3:cpu,cpuacct:/x\n0::/\n"),
            ("mem/a/b/memory.limit_in_bytes", "9000\n"),
            ("mem/a/memory.limit_in_bytes", "7000\n"),
            ("mem/memory.limit_in_bytes", "8000\n"),
            ("mem/a/b/memory.usage_in_bytes", "6000\n"),
        ];
        levels_of(&files, FIRST, |end| {
            assert_eq!(end.path, Observed::Known(HostText::new(b"/x")));
            assert_eq!(end.memory_limit, Observed::Known(Bytes(7000)));
            assert_eq!(end.memory, Observed::Known(Bytes(6000)));
        });
    }

    #[test]
    fn the_level_that_was_throttled_longest_is_reported() {
        let end = |times: [u64; 2]| {
            let throttling =
                |throttled_ms| Ok(Throttling { periods: 10, throttled_periods: 1, throttled_ms });
            CgroupEnd {
                path: Observed::Known(HostText::new(b"/a")),
                throttling: Ok(PerLevel { levels: times.map(throttling).to_vec(), is_cut: false }),
                quota_cores: unknown(Reason::NoLimitSet),
                memory: unknown(Reason::NoLimitSet),
                inactive_file: unknown(Reason::NoLimitSet),
                memory_limit: unknown(Reason::NoLimitSet),
                limit_hits: Err(Reason::NoLimitSet),
                oom_kills: Observed::Known(0),
            }
        };
        // The periods are the same at both ends, so nothing tells that it was stopped.
        let mut last = end([5, 900]);
        for level in last.throttling.as_mut().unwrap().levels.iter_mut().flatten() {
            level.throttled_periods = 2;
        }
        let found = last.throttled_since(&end([4, 100]));
        assert_eq!(found.known().unwrap().throttled_ms, 800);
    }
}
