//! What the agent is shown of the machine: all of it, or what a container sees.

use super::{ReadError, Root, Source, below_proc};
use rustix::io::Errno;

/// Which namespaces the agent is in, other than the first ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Namespaces {
    is_in_cgroup_namespace: bool,
    is_in_pid_namespace: bool,
}

impl Namespaces {
    /// Asks for the links below `/proc` that name them. The first ones have the same numbers in all
    /// kernels (`CGROUP_NS_INIT_INO` in `include/uapi/linux/nsfs.h`, `PROC_PID_INIT_INO` in
    /// `include/linux/proc_ns.h`). A kernel without such namespaces has no such link.
    pub(super) fn of(link: impl Fn(&str) -> Option<Vec<u8>>) -> Self {
        let is_other = |path: &str, first: &[u8]| {
            link(path).is_some_and(|namespace| namespace.trim_ascii() != first)
        };
        Self {
            is_in_cgroup_namespace: is_other("self/ns/cgroup", b"cgroup:[4026531835]"),
            is_in_pid_namespace: is_other("self/ns/pid", b"pid:[4026531836]"),
        }
    }
}

impl Root {
    /// Where a symbolic link below `/proc` leads.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn link_of_proc(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        match &self.source {
            Source::Now(tree) => {
                Ok(rustix::fs::readlinkat(&tree.proc, path, Vec::new())?.into_bytes())
            }
            Source::Taken(snapshot) => {
                snapshot.link(&below_proc(path)).ok_or_else(|| Errno::NOENT.into())
            }
        }
    }

    /// Whether this process is in another namespace of a kind than the machine's own, by that one's
    /// number, which is the same in all kernels. A kernel without namespaces has no such link.
    pub fn is_in_namespace(&self, kind: &str, first: u32) -> bool {
        let first = format!("{kind}:[{first}]");
        self.link_of_proc(&format!("self/ns/{kind}")).is_ok_and(|link| link != first.as_bytes())
    }

    /// Whether cgroups are shown as from within a container: paths begin at the namespace's top,
    /// and what is above it is not shown.
    pub const fn is_in_cgroup_namespace(&self) -> bool {
        self.namespaces.is_in_cgroup_namespace
    }

    /// Whether processes are shown as from within a container: with numbers of their own, and none
    /// from outside.
    pub const fn is_in_pid_namespace(&self) -> bool {
        self.namespaces.is_in_pid_namespace
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn a_namespace_with_the_first_number_is_the_machine_s_own() {
        let folder = tempfile::tempdir().unwrap();
        let namespaces = folder.path().join("proc/self/ns");
        fs::create_dir_all(&namespaces).unwrap();
        symlink("pid:[4026531836]", namespaces.join("pid")).unwrap();
        symlink("user:[4026532573]", namespaces.join("user")).unwrap();
        let root = Root::at(folder.path()).unwrap();
        assert!(!root.is_in_namespace("pid", 4_026_531_836));
        assert!(root.is_in_namespace("user", 4_026_531_837));
        assert!(!root.is_in_namespace("uts", 4_026_531_838));
    }
}
