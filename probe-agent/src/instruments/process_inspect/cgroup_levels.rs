//! The cgroups of a process from its own up to the top, and what they count and limit.
//!
//! A quota or a limit of any ancestor holds for the process, so every level is read.

use crate::{
    call::Context,
    instruments::process_files::ProcessFiles,
    proc::{
        cgroup::{self, Membership},
        mountinfo::{self, CgroupMount},
        parse::{ParseError, only_number},
    },
};
use protocol::{
    host_text::HostText,
    instruments::process_inspect::Throttling,
    observed::{Feature, Nature, Observed, Reason},
    units::Bytes,
};

/// Where the files of a process's cgroups are.
#[derive(Debug)]
pub(super) struct CgroupLevels {
    path: Observed<HostText>,
    cpu: Result<Levels, Reason>,
    memory: Result<Levels, Reason>,
}

/// The folders of one hierarchy, the process's own cgroup first. Relative to the root.
#[derive(Clone, Debug)]
struct Levels {
    folders: Vec<String>,
    is_v2: bool,
}

/// What is read at one end of the window.
#[derive(Debug)]
pub(super) struct CgroupEnd {
    pub(super) path: Observed<HostText>,
    /// The tightest quota of all levels, in processors.
    pub(super) quota_cores: Observed<f64>,
    /// For each level.
    pub(super) throttling: Observed<Vec<Option<Throttling>>>,
    pub(super) memory: Observed<Bytes>,
    pub(super) inactive_file: Observed<Bytes>,
    pub(super) memory_limit: Observed<Bytes>,
    pub(super) limit_hits: Observed<u64>,
    pub(super) oom_kills: Observed<u64>,
}

impl CgroupLevels {
    /// Finds the cgroups of a process.
    pub(super) fn of(files: &ProcessFiles<'_, '_>) -> Self {
        let mut mounts = Vec::new();
        let _ = files.context.root.read_proc("self/mountinfo", &mut mounts);
        let mounts = mountinfo::parse_cgroup_mounts(&mounts);
        match files.whole("cgroup", Feature::CgroupCpuController) {
            Ok(text) => {
                let memberships = cgroup::parse_memberships(&text);
                let find = |controller: &[u8], feature| {
                    find(&memberships, &mounts, controller).ok_or(Reason::KernelLacks(feature))
                };
                let cpu = find(b"cpu", Feature::CgroupCpuController);
                Self {
                    path: cpu.clone().map(|(path, _)| path).into(),
                    cpu: cpu.map(|(_, levels)| levels),
                    memory: find(b"memory", Feature::CgroupMemoryController)
                        .map(|(_, levels)| levels),
                }
            }
            Err(reason) => Self {
                path: Observed::Unknown(reason.clone()),
                cpu: Err(reason.clone()),
                memory: Err(reason),
            },
        }
    }

    /// Reads all levels.
    pub(super) fn read(&self, context: &Context<'_>) -> CgroupEnd {
        let cpu = self.cpu.as_ref().map_err(Clone::clone);
        let memory = self.memory.as_ref().map_err(Clone::clone);
        CgroupEnd {
            path: self.path.clone(),
            quota_cores: cpu.clone().and_then(|levels| levels.quota(context)).into(),
            throttling: cpu.and_then(|levels| levels.throttling(context)).into(),
            memory: memory
                .clone()
                .and_then(|levels| {
                    levels.own("memory.usage_in_bytes", "memory.current", context, only_number)
                })
                .map(Bytes)
                .into(),
            inactive_file: memory
                .clone()
                .and_then(|levels| {
                    levels.own("memory.stat", "memory.stat", context, cgroup::parse_inactive_file)
                })
                .into(),
            memory_limit: memory.clone().and_then(|levels| levels.memory_limit(context)).into(),
            limit_hits: memory.clone().and_then(|levels| levels.limit_hits(context)).into(),
            oom_kills: memory
                .and_then(|levels| {
                    let (v1, v2) = ("memory.oom_control", "memory.events");
                    levels.own(v1, v2, context, cgroup::parse_oom_kills)
                })
                .into(),
        }
    }
}

/// The hierarchy that has a controller: version 1's where it is mounted, else version 2.
fn find(
    memberships: &[Membership<'_>],
    mounts: &[CgroupMount],
    controller: &[u8],
) -> Option<(HostText, Levels)> {
    let v1 = memberships.iter().find(|membership| membership.has(controller));
    let v1 = v1.and_then(|membership| {
        let mount = mounts.iter().find(|mount| mount.has(controller))?;
        Some((membership, mount))
    });
    let (membership, mount) = v1.or_else(|| {
        let membership = memberships.iter().find(|membership| membership.is_v2())?;
        let mount = mounts.iter().find(|mount| mount.controllers.is_none())?;
        Some((membership, mount))
    })?;
    let own = mount.folder_of(membership.path)?;
    let top = mount.mount_point.trim_end_matches('/');
    let mut folders = Vec::new();
    let mut folder = own.trim_end_matches('/');
    loop {
        folders.push(folder.to_owned());
        match folder.rsplit_once('/') {
            Some((parent, _)) if folder != top && parent.len() >= top.len() => folder = parent,
            Some(_) | None => break,
        }
    }
    let levels = Levels { folders, is_v2: mount.controllers.is_none() };
    Some((HostText::new(membership.path), levels))
}

impl Levels {
    /// Reads a file of the process's own cgroup.
    fn own<T>(
        &self,
        v1: &str,
        v2: &str,
        context: &Context<'_>,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, Reason> {
        let folder = self.folders.first().ok_or(Reason::Gone)?;
        let text = self.file(folder, if self.is_v2 { v2 } else { v1 }, context)?;
        parse(&text).map_err(|error| Reason::NotUnderstood(error.shown()))
    }

    fn file(&self, folder: &str, file: &str, context: &Context<'_>) -> Result<Vec<u8>, Reason> {
        let mut text = Vec::new();
        match context.root.read(&format!("{folder}/{file}"), &mut text) {
            Ok(()) => Ok(text),
            // The top of version 2 has none of the files that limit or count.
            Err(error) if error.is_gone() && self.folders.len() == 1 => {
                Err(Reason::DoesNotApply(Nature::RootCgroup))
            }
            Err(error) => Err(error.reason(Feature::CgroupCpuController, 0)),
        }
    }

    /// The tightest quota.
    fn quota(&self, context: &Context<'_>) -> Result<f64, Reason> {
        let quotas = self.folders.iter().filter_map(|folder| self.quota_of(folder, context));
        quotas.reduce(f64::min).ok_or(Reason::NoLimitSet)
    }

    fn quota_of(&self, folder: &str, context: &Context<'_>) -> Option<f64> {
        if self.is_v2 {
            return cgroup::parse_cpu_max(&self.file(folder, "cpu.max", context).ok()?).ok()?;
        }
        let quota = self.file(folder, "cpu.cfs_quota_us", context).ok()?;
        let period = self.file(folder, "cpu.cfs_period_us", context).ok()?;
        cgroup::parse_cfs_quota(&quota, &period).ok()?
    }

    fn throttling(&self, context: &Context<'_>) -> Result<Vec<Option<Throttling>>, Reason> {
        let levels: Vec<Option<Throttling>> = self
            .folders
            .iter()
            .map(|folder| {
                cgroup::parse_throttling(&self.file(folder, "cpu.stat", context).ok()?).ok()
            })
            .collect();
        if levels.iter().all(Option::is_none) {
            // Says why: the top of the hierarchy, or a hierarchy without the controller.
            self.own("cpu.stat", "cpu.max", context, |_| Ok(()))?;
            return Err(Reason::KernelLacks(Feature::CgroupCpuController));
        }
        Ok(levels)
    }

    fn memory_limit(&self, context: &Context<'_>) -> Result<Bytes, Reason> {
        let file = if self.is_v2 { "memory.max" } else { "memory.limit_in_bytes" };
        let mut limits = Vec::new();
        for folder in &self.folders {
            if let Ok(text) = self.file(folder, file, context)
                && let Ok(limit) = cgroup::parse_memory_limit(&text)
            {
                limits.push(limit);
            }
        }
        if limits.is_empty() {
            self.own(file, file, context, |_| Ok(()))?;
        }
        limits.into_iter().flatten().min().ok_or(Reason::NoLimitSet)
    }

    /// Times a limit of any level was hit.
    fn limit_hits(&self, context: &Context<'_>) -> Result<u64, Reason> {
        let mut hits = None;
        for folder in &self.folders {
            let counted = if self.is_v2 {
                self.file(folder, "memory.events", context)
                    .ok()
                    .and_then(|text| cgroup::parse_limit_hits(&text).ok())
            } else {
                self.file(folder, "memory.failcnt", context)
                    .ok()
                    .and_then(|text| only_number(&text).ok())
            };
            hits = counted.map(|counted| counted.saturating_add(hits.unwrap_or(0))).or(hits);
        }
        hits.ok_or(Reason::KernelLacks(Feature::CgroupMemoryController))
    }
}

impl CgroupEnd {
    /// How the quota acted since an earlier end: at the level that was throttled longest.
    pub(super) fn throttled_since(&self, earlier: &Self) -> Observed<Throttling> {
        let both = self.throttling.clone().zip(earlier.throttling.clone());
        both.map(|(now, before)| {
            now.into_iter()
                .zip(before)
                .filter_map(|(now, before)| Some(difference(now?, before?)))
                .max_by_key(|throttling| (throttling.throttled_ms, throttling.periods))
                .unwrap_or(Throttling { periods: 0, throttled_periods: 0, throttled_ms: 0 })
        })
    }
}

fn difference(now: Throttling, before: Throttling) -> Throttling {
    Throttling {
        periods: now.periods.saturating_sub(before.periods),
        throttled_periods: now.throttled_periods.saturating_sub(before.throttled_periods),
        throttled_ms: now.throttled_ms.saturating_sub(before.throttled_ms),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(controllers: Option<&str>, mount_point: &str) -> CgroupMount {
        CgroupMount {
            controllers: controllers.map(|names| names.as_bytes().to_vec()),
            root: b"/".to_vec(),
            mount_point: mount_point.to_owned(),
        }
    }

    #[test]
    fn levels_run_from_the_process_to_the_top() {
        let text = b"4:memory:/a/b\n3:cpu,cpuacct:/x\n0::/\n";
        let memberships = cgroup::parse_memberships(text);
        let mounts = [
            mount(Some("rw,cpu,cpuacct"), "sys/fs/cgroup/cpu"),
            mount(None, "sys/fs/cgroup/unified"),
            mount(Some("rw,memory"), "sys/fs/cgroup/memory"),
        ];
        let (path, levels) = find(&memberships, &mounts, b"memory").unwrap();
        assert_eq!(path.as_str(), "/a/b");
        assert_eq!(
            levels.folders,
            ["sys/fs/cgroup/memory/a/b", "sys/fs/cgroup/memory/a", "sys/fs/cgroup/memory"]
        );
        assert!(!levels.is_v2);
        // A controller that version 1 does not have mounted is looked for in version 2.
        let (path, levels) = find(&memberships, &mounts, b"io").unwrap();
        assert_eq!((path.as_str(), levels.is_v2), ("/", true));
        assert_eq!(levels.folders, ["sys/fs/cgroup/unified"]);
    }

    #[test]
    fn the_level_that_was_throttled_longest_is_reported() {
        let end = |times: [u64; 2]| CgroupEnd {
            path: Observed::Known(HostText::new(b"/a")),
            throttling: Observed::Known(
                times
                    .map(|throttled_ms| {
                        Some(Throttling { periods: 10, throttled_periods: 1, throttled_ms })
                    })
                    .to_vec(),
            ),
            quota_cores: Observed::Unknown(Reason::NoLimitSet),
            memory: Observed::Unknown(Reason::NoLimitSet),
            inactive_file: Observed::Unknown(Reason::NoLimitSet),
            memory_limit: Observed::Unknown(Reason::NoLimitSet),
            limit_hits: Observed::Known(0),
            oom_kills: Observed::Known(0),
        };
        let found = end([5, 900]).throttled_since(&end([4, 100]));
        assert_eq!(found.known().unwrap().throttled_ms, 800);
    }
}
