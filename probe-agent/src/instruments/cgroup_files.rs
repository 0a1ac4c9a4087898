//! The files of the cgroups of one controller: what each counts and limits, or why it does not say.

use crate::order;
use crate::proc::{
    Root,
    cgroup::{self, Controller, MemoryEvents},
    mountinfo::CgroupMount,
    parse::{ParseError, only_number},
};
use protocol::{
    instruments::process_inspect::Throttling,
    observed::{Feature, Nature, OutOfSight, Reason},
    units::Bytes,
};

/// Room for a file of a cgroup; a longer one is read again as a whole.
const PIECE_BYTES: usize = 4096;

/// The cgroups of one controller in the hierarchy that it is in.
#[derive(Clone, Debug)]
pub(super) struct CgroupFiles {
    controller: Controller,
    is_v2: bool,
    /// The folder of the root cgroup, relative to the root; `None` where it is not shown.
    top: Option<String>,
}

/// The mounts that show a controller's hierarchy, of version 1 or of version 2, those that show it
/// from its top on first: a hierarchy may be mounted more than once, each time from another cgroup
/// on.
///
/// # Errors
///
/// That there is none.
pub(super) fn mounts_of(
    mounts: &[CgroupMount],
    controller: Controller,
    is_v2: bool,
) -> Result<Vec<&CgroupMount>, Reason> {
    let is_of_it = |mount: &&CgroupMount| {
        if is_v2 { mount.controllers.is_none() } else { mount.has(controller) }
    };
    let mut found: Vec<_> = mounts.iter().filter(is_of_it).collect();
    if found.is_empty() {
        return Err(Reason::OutOfSight(OutOfSight::HierarchyNotMounted));
    }
    order::by_key(&mut found, |mount| !mount.is_whole());
    Ok(found)
}

impl CgroupFiles {
    /// The cgroups that a mount shows.
    pub(super) fn below(mount: &CgroupMount, controller: Controller, root: &Root) -> Self {
        let is_whole = mount.is_whole() && !root.is_in_cgroup_namespace();
        let top = mount.mount_point.trim_end_matches('/').to_owned();
        let is_v2 = mount.controllers.is_none();
        Self { controller, is_v2, top: is_whole.then_some(top) }
    }

    /// Whether there may be cgroups above those that are shown.
    pub(super) const fn is_cut(&self) -> bool {
        self.top.is_none()
    }

    /// The name of a file, which differs by version.
    const fn name<'n>(&self, v1: &'n str, v2: &'n str) -> &'n str {
        if self.is_v2 { v2 } else { v1 }
    }

    /// Processors that a cgroup may use on average; `None` is no limit.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn quota(&self, folder: &str, root: &Root) -> Result<Option<f64>, Reason> {
        let text = |text: &[u8]| Ok(text.to_vec());
        let read = |file| self.parsed(folder, file, Feature::CgroupCpuQuota, root, text);
        let quota = read(self.name("cpu.cfs_quota_us", "cpu.max"))?;
        let parsed = if self.is_v2 {
            cgroup::parse_cpu_max(&quota)
        } else {
            cgroup::parse_cfs_quota(&quota, &read("cpu.cfs_period_us")?)
        };
        parsed.map_err(|error| Reason::NotUnderstood(error.shown()))
    }

    /// How a cgroup's own quota acted since it was made.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn throttling(&self, folder: &str, root: &Root) -> Result<Throttling, Reason> {
        let (feature, parse) = (Feature::CgroupCpuQuota, cgroup::parse_throttling);
        self.parsed(folder, "cpu.stat", feature, root, parse)
    }

    /// How much memory a cgroup may use; `None` is no limit.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn memory_limit(&self, folder: &str, root: &Root) -> Result<Option<Bytes>, Reason> {
        let file = self.name("memory.limit_in_bytes", "memory.max");
        self.parsed(folder, file, Feature::CgroupFile, root, cgroup::parse_memory_limit)
    }

    /// How much memory a cgroup uses, its cache and the cgroups below it included.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn memory(&self, folder: &str, root: &Root) -> Result<Bytes, Reason> {
        let file = self.name("memory.usage_in_bytes", "memory.current");
        self.parsed(folder, file, Feature::CgroupFile, root, only_number).map(Bytes)
    }

    /// How much of it is cache that the kernel can drop. Costs more than all others: the kernel
    /// adds up its counts first.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn inactive_file(&self, folder: &str, root: &Root) -> Result<Bytes, Reason> {
        let parse = cgroup::parse_inactive_file;
        self.parsed(folder, "memory.stat", Feature::Field, root, parse)
    }

    /// How much memory of a cgroup is swapped out. Version 1 says so where it was booted with
    /// `swapaccount=1`, or was made to by default.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn swap(&self, folder: &str, root: &Root) -> Result<Bytes, Reason> {
        if self.is_v2 {
            let file = "memory.swap.current";
            return self.parsed(folder, file, Feature::CgroupFile, root, only_number).map(Bytes);
        }
        self.parsed(folder, "memory.stat", Feature::Field, root, cgroup::parse_swap)
    }

    /// Times a cgroup's own memory limit was hit.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn limit_hits(&self, folder: &str, root: &Root) -> Result<u64, Reason> {
        if self.is_v2 {
            return self.events(folder, root, cgroup::parse_limit_hits);
        }
        self.parsed(folder, "memory.failcnt", Feature::CgroupFile, root, only_number)
    }

    /// Processes that the kernel killed in a cgroup for lack of memory.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn oom_kills(&self, folder: &str, root: &Root) -> Result<u64, Reason> {
        if self.is_v2 {
            return self.events(folder, root, cgroup::parse_oom_kills);
        }
        let parse = cgroup::parse_oom_kills;
        self.parsed(folder, "memory.oom_control", Feature::Field, root, parse)
    }

    /// How much memory a cgroup may use before it is slowed down; `None` is no limit. Version 1 has
    /// no such limit.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn high_limit(&self, folder: &str, root: &Root) -> Result<Option<Bytes>, Reason> {
        if !self.is_v2 {
            return Ok(None);
        }
        let (feature, parse) = (Feature::CgroupFile, cgroup::parse_memory_limit);
        self.parsed(folder, "memory.high", feature, root, parse)
    }

    /// What happened to a cgroup for lack of memory since it was made.
    ///
    /// # Errors
    ///
    /// Why it does not say.
    pub(super) fn memory_events(&self, folder: &str, root: &Root) -> Result<MemoryEvents, Reason> {
        if self.is_v2 {
            return self.events(folder, root, cgroup::parse_memory_events);
        }
        Ok(MemoryEvents {
            high_hits: None,
            limit_hits: self.limit_hits(folder, root)?,
            oom_kills: self.oom_kills(folder, root).ok(),
        })
    }

    /// Whether the cgroups in a cgroup can have the controller. In version 2 it may be handed on, or
    /// not; in version 1 every cgroup of the hierarchy has it.
    pub(super) fn is_handed_on(&self, folder: &str, root: &Root) -> bool {
        let mut text = Vec::new();
        !self.is_v2
            || root
                .read(&format!("{folder}/cgroup.subtree_control"), &mut text)
                .is_ok_and(|()| cgroup::is_enabled(&text, self.controller))
    }

    /// Counts of version 2 of one cgroup alone.
    ///
    /// `memory.events` adds up the cgroups below too, since Linux 5.2; a kernel without the other
    /// file is mostly older than that, and its `memory.events` counts the cgroup alone.
    fn events<T>(
        &self,
        folder: &str,
        root: &Root,
        parse: impl Fn(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, Reason> {
        let file = |file| self.parsed(folder, file, Feature::CgroupFile, root, &parse);
        match file("memory.events.local") {
            Err(Reason::KernelLacks(Feature::CgroupFile)) => file("memory.events"),
            read => read,
        }
    }

    /// Reads and parses a file of one cgroup. Where the cgroup has the controller and not the file,
    /// the kernel lacks `feature`.
    fn parsed<T>(
        &self,
        folder: &str,
        file: &str,
        feature: Feature,
        root: &Root,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, Reason> {
        // There may be thousands of them: one read does, for nearly all are a line or two.
        let (mut piece, mut whole) = ([0; PIECE_BYTES], Vec::new());
        let path = format!("{folder}/{file}");
        let read = match root.read_once(&path, &mut piece) {
            Err(error) if error.is_too_long() => root.read(&path, &mut whole).map(|()| &*whole),
            read => read,
        };
        match read {
            Ok(text) => match parse(text) {
                // `cpu.stat` is there without the controller too, with fewer lines.
                Err(ParseError::MissingLine { .. }) => {
                    Err(self.reason_without(folder, feature, root))
                }
                parsed => parsed.map_err(|error| Reason::NotUnderstood(error.shown())),
            },
            Err(error) if error.is_gone() => Err(self.reason_without(folder, feature, root)),
            Err(error) => Err(error.reason_of_file(feature)),
        }
    }

    /// Why a cgroup does not have a file, or not the line in it.
    fn reason_without(&self, folder: &str, feature: Feature, root: &Root) -> Reason {
        if !self.is_v2 {
            // Every cgroup of version 1 has every controller of its hierarchy.
            let is_there = root.holds(&format!("{folder}/cgroup.procs"));
            return if is_there { Reason::KernelLacks(feature) } else { Reason::Gone };
        }
        let is_top = self.top.as_ref().is_some_and(|top| top == folder.trim_end_matches('/'));
        match self.is_enabled(folder, root) {
            Err(reason) => reason,
            Ok(true) if is_top => Reason::DoesNotApply(Nature::RootCgroup),
            Ok(true) => Reason::KernelLacks(feature),
            Ok(false) if self.is_in_kernel(root) => {
                Reason::DoesNotApply(Nature::ControllerNotEnabled)
            }
            Ok(false) => Reason::KernelLacks(self.controller.feature()),
        }
    }

    /// Whether the controller is enabled for a cgroup of version 2.
    fn is_enabled(&self, folder: &str, root: &Root) -> Result<bool, Reason> {
        let mut text = Vec::new();
        match root.read(&format!("{folder}/cgroup.controllers"), &mut text) {
            Ok(()) => Ok(cgroup::is_enabled(&text, self.controller)),
            // Every cgroup has this file: the cgroup itself is gone.
            Err(error) if error.is_gone() => Err(Reason::Gone),
            Err(error) => Err(error.reason_of_file(Feature::CgroupFile)),
        }
    }

    /// Whether the kernel has the controller at all, which the root cgroup tells. Where that is not
    /// shown, only that it is not enabled is known.
    fn is_in_kernel(&self, root: &Root) -> bool {
        self.top.as_ref().is_none_or(|top| self.is_enabled(top, root).unwrap_or(true))
    }
}
