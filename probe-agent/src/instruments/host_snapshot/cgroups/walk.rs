//! From the top of a hierarchy down, level by level, within limits.

use super::Hierarchy;
use crate::{
    instruments::cgroup_files::{CgroupFiles, mounts_of},
    os::clock,
    proc::{Root, cgroup::Controller, mountinfo::CgroupMount},
};
use protocol::observed::Reason;
use std::{collections::VecDeque, time::Duration};

/// Cgroups whose names are kept. A name takes some hundred bytes.
const MOST_FOUND: usize = 10_000;

/// One walk over the cgroups of both controllers.
pub(super) struct Walk<'r> {
    root: &'r Root,
    /// Processor time for each hierarchy.
    most_cpu: Duration,
    found: u32,
    not_looked_at: u32,
}

impl<'r> Walk<'r> {
    /// A walk that may use so much processor time.
    pub(super) fn new(root: &'r Root, most_cpu: Duration) -> Self {
        Self { root, most_cpu: most_cpu / 2, found: 0, not_looked_at: 0 }
    }

    /// Cgroups that were found.
    pub(super) const fn found(&self) -> u32 {
        self.found
    }

    /// Of them, those that were not looked at.
    pub(super) const fn not_looked_at(&self) -> u32 {
        self.not_looked_at
    }

    /// Looks at the cgroups of one controller, and keeps those of which `look` says something.
    ///
    /// # Errors
    ///
    /// Why they are not to be seen.
    pub(super) fn hierarchy<T>(
        &mut self,
        mounts: &[CgroupMount],
        controller: Controller,
        look: impl Fn(&CgroupFiles, &str) -> Result<Option<T>, Reason>,
    ) -> Result<Hierarchy<T>, Reason> {
        let shown = mounts_of(mounts, controller, false)
            .or_else(|_| mounts_of(mounts, controller, true))?;
        let mount = shown.first().ok_or(Reason::Gone)?;
        let files = CgroupFiles::below(mount, controller, self.root);
        let top = mount.mount_point.trim_end_matches('/').to_owned();
        let mut limited = Vec::new();
        let (mut is_any_read, mut silent) = (false, None);
        self.each(&files, &top, |folder| match look(&files, folder) {
            Ok(found) => {
                is_any_read = true;
                limited.extend(found.map(|found| (folder.to_owned(), found)));
            }
            // It cannot have one, or it ended.
            Err(reason) if reason.is_absence() || reason == Reason::Gone => is_any_read = true,
            Err(reason) => silent = Some(reason),
        });
        let silent = if is_any_read { None } else { silent };
        Ok(Hierarchy { files, top, limited, silent })
    }

    fn each(&mut self, files: &CgroupFiles, top: &str, mut visit: impl FnMut(&str)) {
        let ends_at = clock::thread_cpu().saturating_add(self.most_cpu);
        let mut waiting = VecDeque::from([top.to_owned()]);
        self.found = self.found.saturating_add(1);
        while let Some(folder) = waiting.pop_front() {
            if clock::thread_cpu() >= ends_at {
                let left = u32::try_from(waiting.len() + 1).unwrap_or(u32::MAX);
                self.not_looked_at = self.not_looked_at.saturating_add(left);
                return;
            }
            visit(&folder);
            if files.is_handed_on(&folder, self.root) {
                self.list(&folder, &mut waiting);
            }
        }
    }

    fn list(&mut self, folder: &str, waiting: &mut VecDeque<String>) {
        // One that ended meanwhile has none.
        let _ = self.root.list_folders(folder, |name| {
            self.found = self.found.saturating_add(1);
            match std::str::from_utf8(name) {
                Ok(name) if waiting.len() < MOST_FOUND => {
                    waiting.push_back(format!("{folder}/{name}"));
                }
                Ok(_) | Err(_) => self.not_looked_at = self.not_looked_at.saturating_add(1),
            }
        });
    }
}
