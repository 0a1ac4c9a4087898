//! Where the cgroups of a process are, from its own up to the top.

use super::per_level::PerLevel;
use crate::{
    instruments::cgroup_files::{CgroupFiles, mounts_of},
    proc::{
        Root,
        cgroup::{Controller, Membership, membership},
        mountinfo::CgroupMount,
    },
};
use protocol::observed::{OutOfSight, Reason};

/// The cgroups of one controller from the process's own up to the top that can be seen.
#[derive(Clone, Debug)]
pub(super) struct Hierarchy {
    /// The process's own first. Relative to the root.
    folders: Vec<String>,
    files: CgroupFiles,
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
        root: &Root,
    ) -> Result<Self, Reason> {
        let membership =
            membership(memberships, controller).ok_or(Reason::KernelLacks(controller.feature()))?;
        let mounts = mounts_of(mounts, controller, membership.is_v2())?;
        let mut shown =
            mounts.into_iter().filter_map(|mount| Some((mount, mount.folder_of(membership.path)?)));
        let Some((mount, own)) = shown.next() else {
            return Err(Reason::OutOfSight(if membership.is_elsewhere() {
                OutOfSight::CgroupElsewhere
            } else {
                OutOfSight::CgroupNotMounted
            }));
        };
        let files = CgroupFiles::below(mount, controller, root);
        Ok(Self { folders: folders(&own, &mount.mount_point), files })
    }

    /// Does the same at every level.
    pub(super) fn each<T>(
        &self,
        read: impl Fn(&CgroupFiles, &str) -> Result<T, Reason>,
    ) -> PerLevel<T> {
        PerLevel {
            levels: self.folders.iter().map(|folder| read(&self.files, folder)).collect(),
            is_cut: self.files.is_cut(),
        }
    }

    /// Does it in the process's own cgroup.
    pub(super) fn own<T>(
        &self,
        read: impl Fn(&CgroupFiles, &str) -> Result<T, Reason>,
    ) -> Result<T, Reason> {
        self.folders.first().ok_or(Reason::Gone).and_then(|folder| read(&self.files, folder))
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
