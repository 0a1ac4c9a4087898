//! Refusals as they are met, and the layers that must be named for them.

use super::*;
use protocol::{
    host_text::HostText,
    instruments::capabilities::{CheckId, Container, Here, Remedy, SecurityModule},
};

const ALL: u64 = (1 << 41) - 1;
const PERFMON: Capability = Capability::PERFMON;
const BPF: Capability = Capability::BPF;
const TRACING: [Capability; 2] = [BPF, PERFMON];
const INSPECTING: [Capability; 2] = [Capability::SYS_PTRACE, Capability::DAC_READ_SEARCH];

/// A user without rights on a machine as distributions set it up, with this `perf_event_paranoid`.
fn user(paranoid: i64) -> Situation {
    Situation {
        here: Here { uid: 1000, ..Here::default() },
        paranoid: Some(paranoid),
        kptr_restrict: Some(0),
        unprivileged_bpf_disabled: Some(2),
        ..Situation::default()
    }
}

fn root() -> Situation {
    Situation { here: Here::default(), effective: ALL, ..user(2) }
}

fn only(capabilities: &[Capability]) -> Situation {
    let effective = capabilities.iter().fold(0, |set, capability| set | 1 << capability.0);
    Situation { effective, ..user(2) }
}

fn without(capability: Capability) -> Situation {
    Situation { effective: ALL & !(1 << capability.0), ..root() }
}

fn docker() -> Situation {
    // What docker leaves to root.
    let here = Here { container: Some(Container::Docker), ..Here::default() };
    Situation {
        here,
        effective: 0xa804_25fb,
        has_seccomp_filter: true,
        in_pid_namespace: true,
        label: HostText::new(b"docker-default (enforce)"),
        confined_by: Some(SecurityModule::AppArmor),
        ..user(2)
    }
}

fn in_user_namespace() -> Situation {
    let here = Here { in_user_namespace: true, ..Here::default() };
    Situation { here, ..root() }
}

/// The layers' names, and the commands that lift them.
fn named(situation: &Situation, barriers: &[Barrier]) -> (String, String) {
    let layers: Vec<&str> = barriers.iter().map(Barrier::layer).collect();
    let remedy = Remedy::of(CheckId::PerfOwnUser, barriers, situation.here);
    (layers.join(" "), remedy.unwrap_or_default().commands.join("; "))
}

fn check(name: &str, situation: &Situation, barriers: &[Barrier], want: (&str, &str)) {
    let (layers, commands) = named(situation, barriers);
    assert_eq!((layers.as_str(), commands.as_str()), want, "{name}");
}

#[test]
fn perf_event_open_by_the_sysctl() {
    const SYSCTL: &str = "perf_event_paranoid";
    let cases = [
        ("own kernel frames at 2", user(2), 1, "sysctl kernel.perf_event_paranoid=1"),
        ("own kernel frames at 3", user(3), 1, "sysctl kernel.perf_event_paranoid=1"),
        ("the whole machine at 2", user(2), 0, "sysctl kernel.perf_event_paranoid=0"),
        ("the whole machine at 1", user(1), 0, "sysctl kernel.perf_event_paranoid=0"),
        ("fields of a tracepoint at 0", user(0), -1, "sysctl kernel.perf_event_paranoid=-1"),
        ("anything at Debian's 3", user(3), 2, "sysctl kernel.perf_event_paranoid=2"),
        ("anything at Ubuntu's 4", user(4), 2, "sysctl kernel.perf_event_paranoid=2"),
        (
            "CAP_PERFMON, which that patch does not know",
            Situation { paranoid: Some(3), ..only(&[PERFMON]) },
            2,
            "sysctl kernel.perf_event_paranoid=2",
        ),
    ];
    for (name, situation, needs, command) in cases {
        let barriers = perf(&situation, needs, false, Errno::ACCESS);
        check(name, &situation, &barriers, (SYSCTL, command));
    }
}

#[test]
fn perf_event_open_by_anything_else() {
    let confined = Situation {
        label: HostText::new(b"system_u:system_r:sshd_t:s0"),
        confined_by: Some(SecurityModule::SeLinux),
        ..root()
    };
    let unconfined = "docker run --security-opt seccomp=unconfined …";
    let cases = [
        ("the sysctl does not bind CAP_PERFMON", only(&[PERFMON]), 1, false, "unknown", ""),
        ("nor CAP_SYS_ADMIN", only(&[Capability::SYS_ADMIN]), -1, false, "unknown", ""),
        ("nor root", root(), -1, false, "unknown", ""),
        ("a filter, for root", root(), 1, true, "seccomp", ""),
        (
            "a filter and the sysctl behind it",
            docker(),
            1,
            true,
            "seccomp perf_event_paranoid",
            "sysctl kernel.perf_event_paranoid=1; docker run --security-opt seccomp=unconfined …",
        ),
        (
            "a filter, with CAP_PERFMON",
            Situation { effective: ALL, ..docker() },
            1,
            true,
            "seccomp",
            unconfined,
        ),
        ("a security module", confined, 1, false, "security_module", ""),
        (
            "root of a user namespace",
            in_user_namespace(),
            1,
            false,
            "perf_event_paranoid",
            "sysctl kernel.perf_event_paranoid=1",
        ),
    ];
    for (name, situation, needs, is_filtered, layers, commands) in cases {
        let errno = if is_filtered { Errno::PERM } else { Errno::ACCESS };
        let barriers = perf(&situation, needs, is_filtered, errno);
        check(name, &situation, &barriers, (layers, commands));
    }
}

#[test]
fn perf_of_a_process_of_another_user() {
    let cases = [
        ("no sysctl lifts it", user(-1), "capability", ""),
        ("nor at 2", user(2), "capability", ""),
        ("Debian's 3 comes first", user(3), "perf_event_paranoid capability", ""),
        ("root of a user namespace", in_user_namespace(), "user_namespace", ""),
        ("a container", docker(), "capability", "docker run --cap-add=PERFMON …"),
        ("root", root(), "unknown", ""),
    ];
    for (name, situation, layers, commands) in cases {
        let barriers = perf_of_others(&situation, false, Errno::ACCESS);
        check(name, &situation, &barriers, (layers, commands));
    }
}

#[test]
fn bpf_by_capabilities() {
    let locked = Situation { lockdown: Some(Lockdown::Confidentiality), ..root() };
    let cases = [
        ("a user", user(2), false, "capability", ""),
        ("half of it", only(&[BPF]), false, "capability", ""),
        ("both, and refused", only(&TRACING), false, "unknown", ""),
        ("CAP_SYS_ADMIN stands for both", only(&[Capability::SYS_ADMIN]), false, "unknown", ""),
        ("a filter, for root", root(), true, "seccomp", ""),
        ("locked down", locked, false, "lockdown", ""),
        ("root of a user namespace", in_user_namespace(), false, "user_namespace", ""),
        (
            "a container",
            docker(),
            true,
            "seccomp capability",
            "docker run --security-opt seccomp=unconfined --cap-add=BPF --cap-add=PERFMON …",
        ),
    ];
    for (name, situation, is_filtered, layers, commands) in cases {
        let barriers = bpf(&situation, &TRACING, false, is_filtered, Errno::PERM);
        check(name, &situation, &barriers, (layers, commands));
    }
    let barriers = bpf(&only(&[BPF]), &TRACING, false, false, Errno::PERM);
    assert_eq!(barriers, [Barrier::Capabilities { missing: vec![PERFMON] }]);
}

#[test]
fn bpf_for_everybody() {
    let set = |value| Situation { unprivileged_bpf_disabled: Some(value), ..user(2) };
    let cases = [
        ("2", set(2), "unprivileged_bpf_disabled", ""),
        ("1", set(1), "unprivileged_bpf_disabled", ""),
        ("0 refuses nobody", set(0), "unknown", ""),
        ("CAP_BPF stands above it", only(&[BPF]), "unknown", ""),
        ("not that of a user namespace", in_user_namespace(), "user_namespace", ""),
    ];
    for (name, situation, layers, commands) in cases {
        let barriers = bpf(&situation, &[BPF], true, false, Errno::PERM);
        check(name, &situation, &barriers, (layers, commands));
    }
}

#[test]
fn ptrace_by_yama() {
    let scoped = |base: Situation, scope| Situation { ptrace_scope: Some(scope), ..base };
    let lower = |value: i64| format!("sysctl kernel.yama.ptrace_scope={value}");
    // For a child, and for a process of the same user.
    let cases = [
        (scoped(user(2), 0), ("unknown", String::new()), ("unknown", String::new())),
        (scoped(user(2), 1), ("unknown", String::new()), ("yama", lower(0))),
        (scoped(user(2), 2), ("yama", lower(1)), ("yama", lower(0))),
        (scoped(user(2), 3), ("yama", String::new()), ("yama", String::new())),
        (scoped(root(), 2), ("unknown", String::new()), ("unknown", String::new())),
        (scoped(root(), 3), ("yama", String::new()), ("yama", String::new())),
        (scoped(in_user_namespace(), 2), ("yama", lower(1)), ("yama", lower(0))),
    ];
    for (situation, child, same_user) in cases {
        let name = format!("{:?} {:?}", situation.ptrace_scope, situation.here);
        let barriers = ptrace_of_a_child(&situation, false, Errno::PERM);
        check(&name, &situation, &barriers, (child.0, &child.1));
        let barriers = ptrace_of_the_same_user(&situation, Errno::ACCESS);
        check(&name, &situation, &barriers, (same_user.0, &same_user.1));
    }
    let barriers = ptrace_of_a_child(&docker(), true, Errno::PERM);
    check(
        "docker before Linux 4.8",
        &docker(),
        &barriers,
        ("seccomp", "docker run --security-opt seccomp=unconfined …"),
    );
}

#[test]
fn inspecting_a_process_of_another_user() {
    let scoped = |base: Situation, scope| Situation { ptrace_scope: Some(scope), ..base };
    let bounded = Situation { effective: ALL & !(1 << 24), ..root() };
    let capable_docker = Situation { effective: ALL, ..docker() };
    let cases = [
        ("a user", user(2), 0, "capability", ""),
        ("Yama does not bind whom root's rights lift", scoped(user(2), 1), 0, "capability", ""),
        ("Yama 3 binds all", scoped(user(2), 3), 0, "yama capability", ""),
        ("root under Yama 3", scoped(root(), 3), 0, "yama", ""),
        ("root under Yama 2", scoped(root(), 2), 0, "unknown", ""),
        ("one of both", only(&[Capability::SYS_PTRACE]), 0, "capability", ""),
        ("root without what the other has", bounded, ALL, "capability", ""),
        ("root with all that the other has", root(), ALL, "unknown", ""),
        ("root of a user namespace", in_user_namespace(), ALL, "user_namespace", ""),
        ("a container's security module", capable_docker, ALL, "security_module", ""),
        (
            "a container",
            docker(),
            ALL,
            "capability",
            "docker run --cap-add=SYS_PTRACE --cap-add=DAC_READ_SEARCH …",
        ),
    ];
    for (name, situation, permitted, layers, commands) in cases {
        let barriers = inspect(&situation, &INSPECTING, (1, permitted), true, Errno::ACCESS);
        check(name, &situation, &barriers, (layers, commands));
    }
    let barriers =
        inspect(&without(Capability::SYS_RESOURCE), &INSPECTING, (1, ALL), false, Errno::PERM);
    let missing = vec![Capability::SYS_RESOURCE];
    assert_eq!(barriers, [Barrier::CapabilitiesOfTheOther { missing, pid: 1 }]);
}

#[test]
fn addresses_of_the_kernel() {
    let set = |base: Situation, kptr, paranoid| Situation {
        kptr_restrict: Some(kptr),
        paranoid: Some(paranoid),
        ..base
    };
    let syslog = || only(&[Capability::SYSLOG]);
    let kptr = |value: i64| format!("sysctl kernel.kptr_restrict={value}");
    let both = format!("{}; sysctl kernel.perf_event_paranoid=1", kptr(0));
    let paranoid = "sysctl kernel.perf_event_paranoid=1".to_owned();
    let cases = [
        ("paranoid alone", set(user(2), 0, 2), "perf_event_paranoid", paranoid),
        ("1, and paranoid lets", set(user(2), 1, 1), "kptr_restrict", kptr(0)),
        ("both", set(user(2), 1, 4), "kptr_restrict perf_event_paranoid", both.clone()),
        ("2 and paranoid", set(user(2), 2, 2), "kptr_restrict perf_event_paranoid", both),
        ("2 hides them from root", set(root(), 2, 2), "kptr_restrict", kptr(1)),
        ("2, with the capability alone", set(syslog(), 2, 2), "kptr_restrict", kptr(1)),
        ("nothing explains it to root", set(root(), 1, 2), "unknown", String::new()),
        ("root of a user namespace", set(in_user_namespace(), 1, 1), "kptr_restrict", kptr(0)),
    ];
    for (name, situation, layers, commands) in cases {
        check(name, &situation, &kernel_symbols(&situation), (layers, &commands));
    }
}

#[test]
fn tracefs_by_its_mount_its_mode_and_lockdown() {
    let locked = |base: Situation| Situation { lockdown: Some(Lockdown::Confidentiality), ..base };
    let mount = "mount -t tracefs tracefs /sys/kernel/tracing";
    let cases = [
        ("not mounted, root", root(), None, "not_mounted", mount),
        ("not mounted, a user", user(2), None, "not_mounted file_mode", mount),
        ("mounted, a user", user(2), Some(Errno::ACCESS), "file_mode", ""),
        ("locked down, root", locked(root()), Some(Errno::PERM), "lockdown", ""),
        ("locked down, a user", locked(user(2)), Some(Errno::ACCESS), "lockdown file_mode", ""),
        (
            "integrity lets read",
            Situation { lockdown: Some(Lockdown::Integrity), ..root() },
            Some(Errno::PERM),
            "unknown",
            "",
        ),
    ];
    for (name, situation, errno, layers, commands) in cases {
        check(name, &situation, &tracefs(&situation, errno), (layers, commands));
    }
}

#[test]
fn processes_that_are_hidden() {
    let hiding = |base: Situation| Situation { hides_processes: true, ..base };
    let cases = [
        ("nothing hides any", user(2), "", ""),
        ("hidepid", hiding(user(2)), "hidepid", "mount -o remount,hidepid=0 /proc"),
        ("not from root", hiding(root()), "", ""),
        ("a pid namespace", docker(), "pid_namespace", "docker run --pid=host …"),
    ];
    for (name, situation, layers, commands) in cases {
        check(name, &situation, &hidden_processes(&situation), (layers, commands));
    }
}

#[test]
fn memory_for_samples() {
    let limited = Situation { memlock_kib: Some(64), ..user(2) };
    let barriers = ring(&limited, 4096, Errno::PERM);
    check("the limit", &limited, &barriers, ("rlimit", "sysctl kernel.perf_event_mlock_kb=4160"));
    check("no memory", &limited, &ring(&limited, 4096, Errno::NOMEM), ("unknown", ""));
}
