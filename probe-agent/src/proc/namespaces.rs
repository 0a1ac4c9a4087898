//! What the agent is shown of the machine: all of it, or what a container sees.

use super::Root;

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
