//! What decides about a refusal: who the agent is, what surrounds it, how the kernel is set.

use crate::{
    os::sandbox,
    proc::{Root, mountinfo, os_release, parse, pid_credentials},
};
use protocol::{
    host_text::HostText,
    instruments::capabilities::{
        Capability, Container, Here, Lockdown, PackageManager, SecurityModule, Setting,
        Surroundings,
    },
};
use rustix::process::Resource;

/// The facts, read once before anything is tried.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Situation {
    pub(super) here: Here,
    /// Capabilities in effect, within whatever user namespace.
    pub(super) effective: u64,
    pub(super) in_pid_namespace: bool,
    pub(super) has_seccomp_filter: bool,
    pub(super) label: HostText,
    /// The module that may deny something to the agent; `None` for one that confines nothing.
    pub(super) confined_by: Option<SecurityModule>,
    pub(super) lockdown: Option<Lockdown>,
    pub(super) paranoid: Option<i64>,
    pub(super) mlock_kib: Option<i64>,
    pub(super) kptr_restrict: Option<i64>,
    pub(super) unprivileged_bpf_disabled: Option<i64>,
    pub(super) ptrace_scope: Option<i64>,
    pub(super) delay_accounting: Option<i64>,
    pub(super) open_files: Option<u64>,
    pub(super) memlock_kib: Option<u64>,
    pub(super) hides_processes: bool,
    pub(super) tracefs: Option<&'static str>,
    pub(super) is_guest: bool,
}

impl Situation {
    /// Reads them. What cannot be read decides nothing.
    pub(super) fn read(root: &Root) -> Self {
        let mut text = Vec::new();
        let mut credentials = pid_credentials::Credentials::default();
        if root.read_proc("self/status", &mut text).is_ok() {
            credentials = pid_credentials::parse(&text).unwrap_or_default();
        }
        // What the agent gave up by itself is no limit of the login.
        if let Some(login) = sandbox::login() {
            credentials.effective = login.effective;
            credentials.has_seccomp_filter = login.has_seccomp_filter;
        }
        let mut mounts = mountinfo::KernelMounts::default();
        if root.read_proc("self/mountinfo", &mut text).is_ok() {
            mounts = mountinfo::parse_kernel_mounts(&text);
        }
        let (label, confined_by) = label(root);
        let sysctl = |name: &str| sysctl(root, name);
        let in_pid_namespace = root.is_in_namespace("pid", 4_026_531_836);
        let in_user_namespace = root.is_in_namespace("user", 4_026_531_837);
        let is_apart = in_pid_namespace
            || root.is_in_namespace("uts", 4_026_531_838)
            || root.is_in_namespace("ipc", 4_026_531_839);
        Self {
            here: Here {
                uid: rustix::process::geteuid().as_raw(),
                container: if is_apart { container(root, in_pid_namespace) } else { None },
                in_user_namespace,
                packages: packages(&os_release::read(root)),
            },
            effective: credentials.effective,
            in_pid_namespace,
            has_seccomp_filter: credentials.has_seccomp_filter,
            label,
            confined_by,
            lockdown: lockdown(root),
            paranoid: sysctl("kernel/perf_event_paranoid"),
            mlock_kib: sysctl("kernel/perf_event_mlock_kb"),
            kptr_restrict: sysctl("kernel/kptr_restrict"),
            unprivileged_bpf_disabled: sysctl("kernel/unprivileged_bpf_disabled"),
            ptrace_scope: sysctl("kernel/yama/ptrace_scope"),
            delay_accounting: sysctl("kernel/task_delayacct"),
            open_files: rustix::process::getrlimit(Resource::Nofile).current,
            memlock_kib: rustix::process::getrlimit(Resource::Memlock)
                .current
                .map(|bytes| bytes / 1024),
            hides_processes: mounts.hides_processes,
            tracefs: mounts.tracefs,
            is_guest: is_guest(root),
        }
    }

    /// Whether a capability is in effect beyond the agent's own namespace.
    pub(super) const fn has(&self, capability: Capability) -> bool {
        capability.is_in(self.effective) && !self.here.in_user_namespace
    }

    /// What an answer says of it.
    pub(super) fn surroundings(&self) -> Surroundings {
        let wanted = Capability::WANTED.iter();
        let signed = |value: Option<u64>| value.and_then(|value| i64::try_from(value).ok());
        let settings = [
            (Setting::PerfEventParanoid, self.paranoid),
            (Setting::PerfEventMlockKib, self.mlock_kib),
            (Setting::KptrRestrict, self.kptr_restrict),
            (Setting::UnprivilegedBpfDisabled, self.unprivileged_bpf_disabled),
            (Setting::PtraceScope, self.ptrace_scope),
            (Setting::DelayAccounting, self.delay_accounting),
            (Setting::OpenFiles, signed(self.open_files)),
            (Setting::MemlockKib, signed(self.memlock_kib)),
        ];
        Surroundings {
            missing: wanted.copied().filter(|capability| !self.has(*capability)).collect(),
            in_pid_namespace: self.in_pid_namespace,
            has_seccomp_filter: self.has_seccomp_filter,
            security_label: self.label.clone(),
            lockdown: self.lockdown,
            sandbox: sandbox::enforced(),
            settings: settings
                .into_iter()
                .filter_map(|(name, value)| Some((name, value?)))
                .collect(),
        }
    }
}

/// The number in a file below `/proc/sys`, which may be negative.
fn sysctl(root: &Root, name: &str) -> Option<i64> {
    let mut buffer = [0; 64];
    let text = root.read_proc_once(&format!("sys/{name}"), &mut buffer).ok()?;
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}

/// The security context, and the module that may deny something to it.
fn label(root: &Root) -> (HostText, Option<SecurityModule>) {
    let mut buffer = [0; 512];
    let Ok(text) = root.read_proc_once("self/attr/current", &mut buffer) else {
        return (HostText::default(), None);
    };
    let text = text.split(|byte| matches!(byte, 0 | b'\n')).next().unwrap_or_default();
    if text.is_empty() || text == b"unconfined" || text == b"kernel" {
        return (HostText::new(text), None);
    }
    (HostText::new(text), confined_by(text, is_enforcing(root)))
}

/// Which module a context is of, where it may deny something.
fn confined_by(label: &[u8], selinux_enforces: bool) -> Option<SecurityModule> {
    if label.ends_with(b"(enforce)") {
        return Some(SecurityModule::AppArmor);
    }
    if label.ends_with(b"(complain)") || label.ends_with(b"(unconfined)") {
        return None;
    }
    // user:role:type:level
    let fields: Vec<&[u8]> = label.splitn(4, |byte| *byte == b':').collect();
    match fields.as_slice() {
        [_, _, kind, ..] => {
            (selinux_enforces && *kind != b"unconfined_t").then_some(SecurityModule::SeLinux)
        }
        _ => Some(SecurityModule::Other),
    }
}

fn is_enforcing(root: &Root) -> bool {
    let mut text = Vec::new();
    root.read("sys/fs/selinux/enforce", &mut text).is_ok() && parse::only_number(&text) == Ok(1)
}

fn lockdown(root: &Root) -> Option<Lockdown> {
    let mut text = Vec::new();
    root.read("sys/kernel/security/lockdown", &mut text).ok()?;
    parse_lockdown(&text)
}

/// The word in brackets: `none [integrity] confidentiality`.
fn parse_lockdown(text: &[u8]) -> Option<Lockdown> {
    [Lockdown::None, Lockdown::Integrity, Lockdown::Confidentiality].into_iter().find(|level| {
        let word = format!("[{}]", level.name());
        text.windows(word.len()).any(|part| part == word.as_bytes())
    })
}

/// What made the container, by the marks that engines leave in it. A virtual machine may have them
/// too, if its disk was made from a container's image; it is in no namespace then.
fn container(root: &Root, in_pid_namespace: bool) -> Option<Container> {
    if root.holds("run/secrets/kubernetes.io") || root.holds("var/run/secrets/kubernetes.io") {
        return Some(Container::Kubernetes);
    }
    if root.holds("run/.containerenv") {
        return Some(Container::Podman);
    }
    if root.holds(".dockerenv") {
        return Some(Container::Docker);
    }
    let mut text = Vec::new();
    if root.read("run/systemd/container", &mut text).is_ok() {
        return Some(match text.trim_ascii() {
            b"docker" => Container::Docker,
            b"podman" => Container::Podman,
            b"lxc" | b"lxc-libvirt" => Container::Lxc,
            b"systemd-nspawn" => Container::Nspawn,
            _ => Container::Other,
        });
    }
    if root.holds("dev/lxd") || root.holds("dev/incus") {
        return Some(Container::Lxc);
    }
    in_pid_namespace.then_some(Container::Other)
}

/// What installs programs, by the first name that is known.
fn packages(names: &[String]) -> Option<PackageManager> {
    names.iter().find_map(|name| {
        Some(match name.as_str() {
            "debian" | "raspbian" => PackageManager::AptDebian,
            "ubuntu" => PackageManager::AptUbuntu,
            "fedora" | "rhel" | "centos" | "amzn" | "rocky" | "almalinux" | "ol" => {
                PackageManager::Dnf
            }
            "alpine" => PackageManager::Apk,
            "suse" | "sles" | "opensuse" | "opensuse-leap" | "opensuse-tumbleweed" => {
                PackageManager::Zypper
            }
            "arch" => PackageManager::Pacman,
            _ => return None,
        })
    })
}

/// Whether it is a virtual machine: by the processor's own flag on x86_64, else by what the
/// firmware names.
fn is_guest(root: &Root) -> bool {
    let mut buffer = [0; 8192];
    // Its end does not matter: the first processor is described at its start. One that does not fit
    // is in the buffer all the same.
    let _ = root.read_proc_once("cpuinfo", &mut buffer);
    if parse::fields(&buffer).any(|word| word.starts_with(b"hypervisor")) {
        return true;
    }
    if root.holds("sys/hypervisor/type") || root.holds("proc/device-tree/hypervisor") {
        return true;
    }
    let mut vendor = Vec::new();
    root.read("sys/class/dmi/id/sys_vendor", &mut vendor).is_ok()
        && ["QEMU", "Amazon EC2", "Google", "VMware", "Xen", "Alibaba", "OpenStack"]
            .iter()
            .any(|name| vendor.starts_with(name.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_in_brackets_is_the_one_in_effect() {
        let cases = [
            ("[none] integrity confidentiality\n", Some(Lockdown::None)),
            ("none [integrity] confidentiality\n", Some(Lockdown::Integrity)),
            ("none integrity [confidentiality]\n", Some(Lockdown::Confidentiality)),
            ("", None),
        ];
        for (text, want) in cases {
            assert_eq!(parse_lockdown(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn a_context_that_denies_nothing_confines_nobody() {
        let cases: [(&str, bool, Option<SecurityModule>); 7] = [
            ("docker-default (enforce)", false, Some(SecurityModule::AppArmor)),
            ("/usr/bin/x (complain)", false, None),
            ("system_u:system_r:container_t:s0:c1,c2", true, Some(SecurityModule::SeLinux)),
            ("system_u:system_r:container_t:s0:c1,c2", false, None),
            ("unconfined_u:unconfined_r:unconfined_t:s0-s0:c0.c1023", true, None),
            ("docker-default (unconfined)", true, None),
            ("_", false, Some(SecurityModule::Other)),
        ];
        for (label, enforces, want) in cases {
            assert_eq!(confined_by(label.as_bytes(), enforces), want, "{label}");
        }
    }

    #[test]
    fn a_capability_of_a_user_namespace_is_none_outside_of_it() {
        let whole = Situation { effective: u64::MAX, ..Situation::default() };
        assert!(whole.has(Capability::BPF));
        let here = Here { in_user_namespace: true, ..Here::default() };
        let within = Situation { here, ..whole };
        assert!(!within.has(Capability::BPF));
        assert_eq!(within.surroundings().missing.len(), Capability::WANTED.len());
    }

    #[test]
    fn what_installs_programs_is_known_by_name_or_descent() {
        let names = |list: &[&str]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            packages(&names(&["linuxmint", "ubuntu", "debian"])),
            Some(PackageManager::AptUbuntu)
        );
        assert_eq!(packages(&names(&["nixos"])), None);
    }
}
