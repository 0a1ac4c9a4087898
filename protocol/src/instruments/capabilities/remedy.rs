//! What lifts a barrier: a sentence, and the command where there is one. All of it is fixed text of
//! ours, with numbers; nothing that a target said gets into a command.

use super::{Barrier, Capability, CheckId, Lacking, Lockdown, Switch};
use serde::{Deserialize, Serialize};

/// Who asks and from where: what a remedy depends on beside the barrier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Here {
    /// The effective user of the agent.
    pub uid: u32,
    /// The container that the agent runs in.
    pub container: Option<Container>,
    /// Whether the agent is in another user namespace than the machine's own. Then it has no
    /// capability that counts, and cannot be given one.
    pub in_user_namespace: bool,
    /// What installs programs here.
    pub packages: Option<PackageManager>,
}

/// What made the container that the agent runs in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Container {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// Kubernetes, with whatever engine.
    Kubernetes,
    /// LXC, LXD, Incus.
    Lxc,
    /// systemd-nspawn.
    Nspawn,
    /// Something else.
    Other,
}

impl Container {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Kubernetes => "kubernetes",
            Self::Lxc => "lxc",
            Self::Nspawn => "systemd-nspawn",
            Self::Other => "other",
        }
    }
}

/// What installs programs on a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PackageManager {
    /// Debian.
    AptDebian,
    /// Ubuntu, where perf is in another package.
    AptUbuntu,
    /// Fedora, RHEL and what descends from them.
    Dnf,
    /// Alpine.
    Apk,
    /// SUSE.
    Zypper,
    /// Arch.
    Pacman,
}

/// What to do about a check that does not work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    /// What to do, in a sentence.
    pub sentence: String,
    /// The commands to run on the target as root, in their order; on the host of a container. A
    /// setting holds until the next boot.
    pub commands: Vec<String>,
}

impl Remedy {
    /// What lifts these barriers of a check, all of them and in their order. `None` where nothing
    /// can.
    pub fn of(id: CheckId, barriers: &[Barrier], here: Here) -> Option<Self> {
        let mut remedy = Self::default();
        let mut sentences: Vec<String> = Vec::new();
        let takes_root =
            here.container.is_none() && here.uid != 0 && barriers.iter().any(Barrier::takes_root);
        for barrier in barriers {
            // A setting that does not bind root need not be changed where root is needed anyway.
            if takes_root && !barrier.binds_root() {
                continue;
            }
            let Some((sentence, commands)) = lift(id, barrier, here) else { continue };
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
            let new = commands.into_iter().filter(|command| !remedy.commands.contains(command));
            remedy.commands.extend(new.collect::<Vec<_>>());
        }
        remedy.commands = in_one_run(remedy.commands, here);
        remedy.sentence = sentences.join("; then ");
        (!sentences.is_empty()).then_some(remedy)
    }
}

/// A container is started once: all that it is to be started with is one command, the last.
fn in_one_run(commands: Vec<String>, here: Here) -> Vec<String> {
    let Some(run) = here.container.and_then(run_command) else { return commands };
    let (mut others, mut flags) = (Vec::new(), Vec::new());
    for command in commands {
        match command.strip_prefix(run).and_then(|rest| rest.strip_suffix(REST)) {
            Some(more) => flags.push(more.to_owned()),
            None => others.push(command),
        }
    }
    if !flags.is_empty() {
        others.push(format!("{run}{}{REST}", flags.concat()));
    }
    others
}

/// Stands for what a container is started with otherwise.
const REST: &str = " …";

const AS_ROOT: &str = "connect as root (ssh:root@HOST)";

const TO_THE_HOST: &str = "connect to the machine itself, as root, instead of a container on it";

/// What helps where another tracer holds a process.
const WITHOUT_ANOTHER: &str = "end that tracer, or take an engine that stops nobody";

fn lift(id: CheckId, barrier: &Barrier, here: Here) -> Option<(String, Vec<String>)> {
    if let Some((command, instead)) = command(barrier, here) {
        return Some((by_command(here, &instead), vec![command]));
    }
    if let (Barrier::TracefsNotMounted, Some(container)) = (barrier, here.container) {
        return Some(show_tracefs(container));
    }
    let is_root = here.uid == 0;
    let said = |sentence: &str| Some((sentence.to_owned(), Vec::new()));
    match barrier {
        // To let everybody load programs would be a high price for maps and socket filters alone.
        Barrier::UnprivilegedBpfDisabled { .. } => {
            Some(with_capabilities(here, &[Capability::BPF]))
        }
        Barrier::Capabilities { missing } | Barrier::CapabilitiesOfTheOther { missing, .. } => {
            Some(with_capabilities(here, missing))
        }
        Barrier::HeldByTracer { .. } => said(WITHOUT_ANOTHER),
        Barrier::FileMode if is_root => {
            Some(with_capabilities(here, &[Capability::DAC_READ_SEARCH]))
        }
        Barrier::FileMode => said(AS_ROOT),
        Barrier::UserNamespace => said(TO_THE_HOST),
        Barrier::PidNamespace => Some(match here.container.and_then(run_command) {
            Some(run) => (
                format!("{TO_THE_HOST}; or start it with the host's processes"),
                vec![format!("{run} --pid=host{REST}")],
            ),
            None => (TO_THE_HOST.to_owned(), Vec::new()),
        }),
        Barrier::Lockdown(level) => Some((lift_lockdown(*level), Vec::new())),
        Barrier::Seccomp { .. } => Some(lift_seccomp(here)),
        Barrier::SecurityModule { .. } => said(
            "look into the kernel's log for what the security module denied (journalctl -k | grep \
             -i denied), and allow it there; or connect in another way",
        ),
        Barrier::OpenFilesLimit { wanted, .. } => said(&format!(
            "add the line `* hard nofile {wanted}` to /etc/security/limits.conf (for root: `root \
             hard nofile {wanted}`) and log in anew"
        )),
        Barrier::Kernel(lacking) => lift_lack(*lacking),
        Barrier::NoCounters { is_guest: true } => said(
            "switch the virtual PMU on at the hypervisor (KVM: -cpu host,pmu=on; VMware: \
             vpmc.enable), or measure on the bare machine",
        ),
        Barrier::Off(switch) => Some(switch_on(*switch, here)),
        Barrier::NotInstalled => Some(install(id, here.packages)),
        Barrier::ProgramFailed { .. } => said("see what it said"),
        Barrier::Unexplained { .. } => said(if is_root {
            "look into the kernel's log (dmesg) for what denied it"
        } else {
            AS_ROOT
        }),
        Barrier::Yama { .. } => said(
            "remove kernel.yama.ptrace_scope=3 from /etc/sysctl.conf and /etc/sysctl.d and reboot: \
             it cannot be lowered before",
        ),
        Barrier::ProgramNotTaken { .. } => {
            said("report it, with what `uname -r` says: the program is the agent's own")
        }
        Barrier::MemlockOfBpf { .. } => said(
            "add the line `* hard memlock unlimited` to /etc/security/limits.conf (for root: `root \
             hard memlock unlimited`) and log in anew",
        ),
        Barrier::NoCounters { is_guest: false }
        | Barrier::NotThisMachine
        | Barrier::PerfEventParanoid { .. }
        | Barrier::KptrRestrict { .. }
        | Barrier::HidePid
        | Barrier::MemlockLimit { .. }
        | Barrier::TracefsNotMounted => None,
    }
}

/// The command that lifts a barrier at once, where there is one, and the capabilities that would do
/// instead of it.
fn command(barrier: &Barrier, here: Here) -> Option<(String, Vec<Capability>)> {
    Some(match barrier {
        Barrier::PerfEventParanoid { needs, without, .. } => {
            (format!("sysctl kernel.perf_event_paranoid={needs}"), vec![*without])
        }
        Barrier::KptrRestrict { needs, .. } => {
            (format!("sysctl kernel.kptr_restrict={needs}"), Vec::new())
        }
        // 3 cannot be taken back.
        Barrier::Yama { found: ..=2, needs } => {
            (format!("sysctl kernel.yama.ptrace_scope={needs}"), vec![Capability::SYS_PTRACE])
        }
        Barrier::HidePid => ("mount -o remount,hidepid=0 /proc".to_owned(), Vec::new()),
        Barrier::MemlockLimit { needs_kib, .. } => {
            (format!("sysctl kernel.perf_event_mlock_kb={needs_kib}"), vec![Capability::IPC_LOCK])
        }
        Barrier::TracefsNotMounted if here.container.is_none() => {
            ("mount -t tracefs tracefs /sys/kernel/tracing".to_owned(), Vec::new())
        }
        Barrier::TracefsNotMounted
        | Barrier::Yama { .. }
        | Barrier::UnprivilegedBpfDisabled { .. }
        | Barrier::Capabilities { .. }
        | Barrier::CapabilitiesOfTheOther { .. }
        | Barrier::HeldByTracer { .. }
        | Barrier::FileMode
        | Barrier::UserNamespace
        | Barrier::PidNamespace
        | Barrier::Lockdown(_)
        | Barrier::Seccomp { .. }
        | Barrier::SecurityModule { .. }
        | Barrier::OpenFilesLimit { .. }
        | Barrier::Kernel(_)
        | Barrier::NoCounters { .. }
        | Barrier::Off(_)
        | Barrier::NotInstalled
        | Barrier::ProgramFailed { .. }
        | Barrier::Unexplained { .. }
        | Barrier::ProgramNotTaken { .. }
        | Barrier::MemlockOfBpf { .. }
        | Barrier::NotThisMachine => return None,
    })
}

/// Who may run a command that changes a setting, and what would do instead of it.
fn by_command(here: Here, instead: &[Capability]) -> String {
    if here.in_user_namespace {
        return "run this as root of the machine itself, outside of the user namespace".to_owned();
    }
    match (here.container, here.uid) {
        (Some(container), _) => {
            let (sentence, flags) = with_capabilities(here, instead);
            match (instead, flags.first()) {
                ([], _) => "run this on the host, as root".to_owned(),
                (_, Some(command)) => format!("run this on the host, as root; or {command}"),
                (_, None) if container == Container::Kubernetes => {
                    format!("run this on the node, as root; or {sentence}")
                }
                (_, None) => format!("run this on the host, as root; or {sentence}"),
            }
        }
        (None, 0) => "run this".to_owned(),
        (None, _) if instead.is_empty() => "run this as root".to_owned(),
        (None, _) => format!("run this as root, or {AS_ROOT}"),
    }
}

/// How the agent gets capabilities.
fn with_capabilities(here: Here, missing: &[Capability]) -> (String, Vec<String>) {
    if here.in_user_namespace {
        return (TO_THE_HOST.to_owned(), Vec::new());
    }
    if let Some(container) = here.container {
        let names: Vec<String> = missing.iter().map(|capability| capability.short_name()).collect();
        if let Some(run) = run_command(container) {
            let mut command = run.to_owned();
            for name in &names {
                command.push_str(&format!(" --cap-add={name}"));
            }
            command.push_str(REST);
            return (
                "start the container with these capabilities, as root in it".to_owned(),
                vec![command],
            );
        }
        let names = names.join(", ");
        return (
            match container {
                Container::Kubernetes => {
                    format!("add {names} to securityContext.capabilities.add of the pod")
                }
                Container::Lxc
                | Container::Nspawn
                | Container::Other
                | Container::Docker
                | Container::Podman => TO_THE_HOST.to_owned(),
            },
            Vec::new(),
        );
    }
    if here.uid == 0 {
        return (
            "root's login was started without it: look for CapabilityBoundingSet= in the unit of \
             the ssh service and for pam_cap, or log in another way"
                .to_owned(),
            Vec::new(),
        );
    }
    (AS_ROOT.to_owned(), Vec::new())
}

/// The command that starts a container, where there is one.
const fn run_command(container: Container) -> Option<&'static str> {
    match container {
        Container::Docker => Some("docker run"),
        Container::Podman => Some("podman run"),
        Container::Kubernetes | Container::Lxc | Container::Nspawn | Container::Other => None,
    }
}

fn lift_seccomp(here: Here) -> (String, Vec<String>) {
    match here.container {
        Some(container) => match (container, run_command(container)) {
            (_, Some(run)) => (
                "start the container without its seccomp profile, or with one that allows the call"
                    .to_owned(),
                vec![format!("{run} --security-opt seccomp=unconfined{REST}")],
            ),
            (Container::Kubernetes, None) => (
                "set securityContext.seccompProfile.type of the pod to Unconfined".to_owned(),
                Vec::new(),
            ),
            (_, None) => (TO_THE_HOST.to_owned(), Vec::new()),
        },
        None => (
            "look for SystemCallFilter= in the unit of the service that the login comes through, \
             or log in another way"
                .to_owned(),
            Vec::new(),
        ),
    }
}

/// A container has a `/sys` of its own, in which the host's tracefs is not.
fn show_tracefs(container: Container) -> (String, Vec<String>) {
    let mount = "mount -t tracefs tracefs /sys/kernel/tracing".to_owned();
    match run_command(container) {
        Some(run) => (
            "on the host, mount it if it is not mounted there, and show it to the container"
                .to_owned(),
            vec![mount, format!("{run} --volume=/sys/kernel/tracing:/sys/kernel/tracing{REST}")],
        ),
        None => (TO_THE_HOST.to_owned(), Vec::new()),
    }
}

fn lift_lockdown(level: Lockdown) -> String {
    let enough = match level {
        Lockdown::Confidentiality => "lockdown=integrity",
        Lockdown::None | Lockdown::Integrity => "lockdown=none",
    };
    format!(
        "boot with {enough}, and without Secure Boot if that sets it: it cannot be lifted while the \
         kernel runs"
    )
}

fn lift_lack(lacking: Lacking) -> Option<(String, Vec<String>)> {
    let sentence = match lacking {
        Lacking::Pressure => "boot with psi=1, in case the kernel has it and leaves it off",
        Lacking::Btf => "boot a kernel with CONFIG_DEBUG_INFO_BTF, as distributions' own are",
        Lacking::PerfEvents
        | Lacking::Bpf
        | Lacking::BpfProgramType
        | Lacking::Kprobes
        | Lacking::Tracefs
        | Lacking::Tracepoint
        | Lacking::Kallsyms
        | Lacking::DelayAccounting
        | Lacking::Cgroups
        | Lacking::MemoryController => return None,
    };
    Some((sentence.to_owned(), Vec::new()))
}

fn switch_on(switch: Switch, here: Here) -> (String, Vec<String>) {
    match switch {
        Switch::Pressure => ("boot with psi=1".to_owned(), Vec::new()),
        Switch::DelayAccounting => (
            format!(
                "{}; then restart the process that is looked at: only waits of what starts \
                 afterwards are counted",
                by_command(here, &[])
            ),
            vec!["sysctl kernel.task_delayacct=1".to_owned()],
        ),
        Switch::MemoryController => ("boot without cgroup_disable=memory".to_owned(), Vec::new()),
        Switch::MemoryControllerBelow => (
            "with systemd, set MemoryAccounting=yes (DefaultMemoryAccounting=yes in \
             /etc/systemd/system.conf); else run this as root"
                .to_owned(),
            vec!["echo +memory > /sys/fs/cgroup/cgroup.subtree_control".to_owned()],
        ),
    }
}

fn install(id: CheckId, packages: Option<PackageManager>) -> (String, Vec<String>) {
    let program = id.what();
    let Some(packages) = packages else {
        return (format!("install {program} with the system's package manager"), Vec::new());
    };
    let (command, package) = match packages {
        PackageManager::AptDebian => {
            ("apt-get install", if program == "perf" { "linux-perf" } else { program })
        }
        PackageManager::AptUbuntu => {
            ("apt-get install", if program == "perf" { "linux-tools-generic" } else { program })
        }
        PackageManager::Dnf => ("dnf install", program),
        PackageManager::Apk => ("apk add", program),
        PackageManager::Zypper => ("zypper install", program),
        PackageManager::Pacman => ("pacman -S", program),
    };
    (
        "install it as root, if it is wanted: nothing here needs it".to_owned(),
        vec![format!("{command} {package}")],
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const USER: Here = Here {
        uid: 1000,
        container: None,
        in_user_namespace: false,
        packages: Some(PackageManager::AptDebian),
    };
    const ROOT: Here = Here { uid: 0, ..USER };
    const DOCKER: Here = Here { container: Some(Container::Docker), ..ROOT };

    fn remedy(here: Here, id: CheckId, barriers: &[Barrier]) -> (String, Vec<String>) {
        let remedy = Remedy::of(id, barriers, here).unwrap();
        (remedy.sentence, remedy.commands)
    }

    fn paranoid(needs: i64) -> Barrier {
        Barrier::PerfEventParanoid { found: 2, needs, without: Capability::PERFMON }
    }

    #[test]
    fn the_command_is_the_one_that_lifts_it() {
        use Barrier as B;
        let cases = [
            (USER, CheckId::PerfOwnKernel, paranoid(1), "sysctl kernel.perf_event_paranoid=1"),
            (USER, CheckId::PerfTracepoint, paranoid(-1), "sysctl kernel.perf_event_paranoid=-1"),
            (
                ROOT,
                CheckId::KernelSymbols,
                B::KptrRestrict { found: 2, needs: 1 },
                "sysctl kernel.kptr_restrict=1",
            ),
            (
                USER,
                CheckId::PtraceSameUser,
                B::Yama { found: 1, needs: 0 },
                "sysctl kernel.yama.ptrace_scope=0",
            ),
            (USER, CheckId::ProcessesVisible, B::HidePid, "mount -o remount,hidepid=0 /proc"),
            (
                ROOT,
                CheckId::Tracefs,
                B::TracefsNotMounted,
                "mount -t tracefs tracefs /sys/kernel/tracing",
            ),
            (
                ROOT,
                CheckId::DelayAccounting,
                B::Off(Switch::DelayAccounting),
                "sysctl kernel.task_delayacct=1",
            ),
            (USER, CheckId::ToolPerf, B::NotInstalled, "apt-get install linux-perf"),
            (USER, CheckId::ToolStrace, B::NotInstalled, "apt-get install strace"),
            (
                DOCKER,
                CheckId::BpfTpBtf,
                B::Capabilities { missing: vec![Capability::BPF, Capability::PERFMON] },
                "docker run --cap-add=BPF --cap-add=PERFMON …",
            ),
            (
                DOCKER,
                CheckId::PerfOwnUser,
                B::Seccomp { syscall: super::super::Syscall::PerfEventOpen },
                "docker run --security-opt seccomp=unconfined …",
            ),
            (DOCKER, CheckId::ProcessesVisible, B::PidNamespace, "docker run --pid=host …"),
        ];
        for (here, id, barrier, want) in cases {
            let (_, commands) = remedy(here, id, std::slice::from_ref(&barrier));
            assert_eq!(commands, [want], "{barrier:?}");
        }
    }

    #[test]
    fn what_cannot_be_lifted_by_a_command_says_so() {
        use Barrier as B;
        let cases = [
            (
                USER,
                B::Capabilities { missing: vec![Capability::BPF] },
                "connect as root (ssh:root@HOST)",
            ),
            (ROOT, B::Capabilities { missing: vec![Capability::BPF] }, "CapabilityBoundingSet="),
            (USER, B::Yama { found: 3, needs: 0 }, "cannot be lowered before"),
            (USER, B::UnprivilegedBpfDisabled { found: 1 }, "connect as root"),
            (ROOT, B::Lockdown(Lockdown::Confidentiality), "boot with lockdown=integrity"),
            (ROOT, B::Seccomp { syscall: super::super::Syscall::Bpf }, "SystemCallFilter="),
            (ROOT, B::UserNamespace, "connect to the machine itself"),
            (ROOT, B::NoCounters { is_guest: true }, "-cpu host,pmu=on"),
            (ROOT, B::Off(Switch::Pressure), "boot with psi=1"),
        ];
        for (here, barrier, want) in cases {
            let (sentence, commands) =
                remedy(here, CheckId::BpfMap, std::slice::from_ref(&barrier));
            assert!(sentence.contains(want), "{barrier:?}: {sentence}");
            assert!(commands.is_empty(), "{barrier:?}: {commands:?}");
        }
        let lacks = [B::Kernel(Lacking::Kprobes)];
        assert_eq!(Remedy::of(CheckId::BpfKprobe, &lacks, ROOT), None);
    }

    #[test]
    fn several_barriers_are_lifted_in_their_order_and_each_once() {
        let barriers = [Barrier::TracefsNotMounted, paranoid(-1), Barrier::TracefsNotMounted];
        let (sentence, commands) = remedy(USER, CheckId::PerfTracepoint, &barriers);
        assert_eq!(
            commands,
            [
                "mount -t tracefs tracefs /sys/kernel/tracing",
                "sysctl kernel.perf_event_paranoid=-1",
            ]
        );
        assert!(sentence.contains("; then "), "{sentence}");
    }

    #[test]
    fn a_container_is_started_once_with_all_that_it_takes() {
        let barriers = [
            Barrier::TracefsNotMounted,
            Barrier::Seccomp { syscall: super::super::Syscall::Bpf },
            Barrier::Capabilities { missing: vec![Capability::BPF] },
        ];
        let (_, commands) = remedy(DOCKER, CheckId::BpfTpBtf, &barriers);
        assert_eq!(
            commands,
            [
                "mount -t tracefs tracefs /sys/kernel/tracing",
                "docker run --volume=/sys/kernel/tracing:/sys/kernel/tracing --security-opt \
                 seccomp=unconfined --cap-add=BPF …",
            ]
        );
    }

    #[test]
    fn what_does_not_bind_root_stays_where_root_is_needed_anyway() {
        let barriers = [Barrier::TracefsNotMounted, Barrier::FileMode, paranoid(-1)];
        let (sentence, commands) = remedy(USER, CheckId::PerfTracepoint, &barriers);
        assert_eq!(commands, ["mount -t tracefs tracefs /sys/kernel/tracing"]);
        assert!(sentence.ends_with("then connect as root (ssh:root@HOST)"), "{sentence}");
        let barriers = [Barrier::Yama { found: 3, needs: 2 }, Barrier::FileMode];
        let (sentence, _) = remedy(USER, CheckId::PtraceOthers, &barriers);
        assert!(sentence.contains("ptrace_scope=3") && sentence.contains("as root"), "{sentence}");
    }

    #[test]
    fn nothing_is_said_of_setting_capabilities_on_a_file() {
        // The agent's file has no name by then.
        let barriers = [Barrier::Capabilities { missing: Capability::WANTED.to_vec() }];
        for here in [USER, ROOT, DOCKER] {
            let (sentence, commands) = remedy(here, CheckId::BpfMap, &barriers);
            assert!(!format!("{sentence} {commands:?}").contains("setcap"));
        }
    }
}
