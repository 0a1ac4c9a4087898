//! Where the cgroups of one controller are, and why one of their files is not there.

use super::per_level::PerLevel;
use crate::{
    call::Context,
    proc::{
        cgroup::{self, Controller, Membership},
        mountinfo::CgroupMount,
        parse::ParseError,
    },
};
use protocol::observed::{Feature, Nature, OutOfSight, Reason};

/// The cgroups of one controller from the process's own up to the top that can be seen.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    /// The process's own first. Relative to the root.
    folders: Vec<String>,
    controller: Controller,
    is_v2: bool,
    /// Whether there may be levels above the last folder.
    is_cut: bool,
}

/// The line that says in which cgroup of a controller a process is. One that version 1 has is not
/// in version 2.
pub(super) fn membership<'m, 't>(
    memberships: &'m [Membership<'t>],
    controller: Controller,
) -> Option<&'m Membership<'t>> {
    let v1 = memberships.iter().find(|membership| membership.has(controller));
    v1.or_else(|| memberships.iter().find(|membership| membership.is_v2()))
}

impl Hierarchy {
    /// Finds the cgroups of a controller.
    ///
    /// # Errors
    ///
    /// Why they are not to be seen.
    pub(super) fn find(
        memberships: &[Membership<'_>],
        mounts: &[CgroupMount],
        controller: Controller,
        context: &Context<'_>,
    ) -> Result<Self, Reason> {
        let membership =
            membership(memberships, controller).ok_or(Reason::KernelLacks(controller.feature()))?;
        let is_v2 = membership.is_v2();
        let is_of_it = |mount: &&CgroupMount| {
            if is_v2 { mount.controllers.is_none() } else { mount.has(controller) }
        };
        if !mounts.iter().any(|mount| is_of_it(&mount)) {
            return Err(Reason::OutOfSight(OutOfSight::HierarchyNotMounted));
        }
        // A hierarchy may be mounted more than once, each time from another cgroup on.
        let mut shown: Vec<_> = mounts
            .iter()
            .filter(is_of_it)
            .filter_map(|mount| Some((mount, mount.folder_of(membership.path)?)))
            .collect();
        shown.sort_by_key(|(mount, _)| !mount.is_whole());
        let Some((mount, own)) = shown.first() else {
            return Err(Reason::OutOfSight(if membership.is_elsewhere() {
                OutOfSight::CgroupElsewhere
            } else {
                OutOfSight::CgroupNotMounted
            }));
        };
        Ok(Self {
            folders: folders(own, &mount.mount_point),
            controller,
            is_v2,
            is_cut: !mount.is_whole() || context.root.is_in_cgroup_namespace(),
        })
    }

    /// The name of a file, which differs by version.
    pub(super) const fn name<'n>(&self, v1: &'n str, v2: &'n str) -> &'n str {
        if self.is_v2 { v2 } else { v1 }
    }

    pub(super) const fn is_v2(&self) -> bool {
        self.is_v2
    }

    /// Does the same at every level.
    pub(super) fn each<T>(&self, read: impl Fn(&str) -> Result<T, Reason>) -> PerLevel<T> {
        PerLevel {
            levels: self.folders.iter().map(|folder| read(folder)).collect(),
            is_cut: self.is_cut,
        }
    }

    /// Does it in the process's own cgroup.
    pub(super) fn own<T>(&self, read: impl Fn(&str) -> Result<T, Reason>) -> Result<T, Reason> {
        self.folders.first().ok_or(Reason::Gone).and_then(|folder| read(folder))
    }

    /// Reads and parses a file of one level. Where the level has the controller and not the file,
    /// the kernel lacks `feature`.
    pub(super) fn parsed<T>(
        &self,
        folder: &str,
        file: &str,
        feature: Feature,
        context: &Context<'_>,
        parse: impl FnOnce(&[u8]) -> Result<T, ParseError>,
    ) -> Result<T, Reason> {
        let mut text = Vec::new();
        match context.root.read(&format!("{folder}/{file}"), &mut text) {
            Ok(()) => match parse(&text) {
                // `cpu.stat` is there without the controller too, with fewer lines.
                Err(ParseError::MissingLine { .. }) => {
                    Err(self.reason_without(folder, feature, context))
                }
                parsed => parsed.map_err(|error| Reason::NotUnderstood(error.shown())),
            },
            Err(error) if error.is_gone() => Err(self.reason_without(folder, feature, context)),
            Err(error) => Err(error.reason_of_file(feature)),
        }
    }

    /// Why a level does not have a file, or not the line in it.
    fn reason_without(&self, folder: &str, feature: Feature, context: &Context<'_>) -> Reason {
        if !self.is_v2 {
            // Every cgroup of version 1 has every controller of its hierarchy.
            let is_there = context.root.holds(&format!("{folder}/cgroup.procs"));
            return if is_there { Reason::KernelLacks(feature) } else { Reason::Gone };
        }
        let is_top = !self.is_cut && self.folders.last().is_some_and(|top| top == folder);
        match self.is_enabled(folder, context) {
            Err(reason) => reason,
            Ok(true) if is_top => Reason::DoesNotApply(Nature::RootCgroup),
            Ok(true) => Reason::KernelLacks(feature),
            Ok(false) if self.is_in_kernel(context) => {
                Reason::DoesNotApply(Nature::ControllerNotEnabled)
            }
            Ok(false) => Reason::KernelLacks(self.controller.feature()),
        }
    }

    /// Whether the controller is enabled for a cgroup of version 2.
    fn is_enabled(&self, folder: &str, context: &Context<'_>) -> Result<bool, Reason> {
        let mut text = Vec::new();
        match context.root.read(&format!("{folder}/cgroup.controllers"), &mut text) {
            Ok(()) => Ok(cgroup::is_enabled(&text, self.controller)),
            // Every cgroup has this file: the cgroup itself is gone.
            Err(error) if error.is_gone() => Err(Reason::Gone),
            Err(error) => Err(error.reason_of_file(Feature::CgroupFile)),
        }
    }

    /// Whether the kernel has the controller at all, which the root cgroup tells. Where that is not
    /// shown, only that it is not enabled is known.
    fn is_in_kernel(&self, context: &Context<'_>) -> bool {
        let top = self.folders.last().filter(|_| !self.is_cut);
        top.is_none_or(|top| self.is_enabled(top, context).unwrap_or(true))
    }
}

/// The folders from a cgroup's own up to where the hierarchy is mounted.
fn folders(own: &str, mount_point: &str) -> Vec<String> {
    let top = mount_point.trim_end_matches('/');
    let mut folders = Vec::new();
    let mut folder = own.trim_end_matches('/');
    loop {
        folders.push(folder.to_owned());
        match folder.rsplit_once('/') {
            Some((parent, _)) if folder != top && parent.len() >= top.len() => folder = parent,
            Some(_) | None => return folders,
        }
    }
}
