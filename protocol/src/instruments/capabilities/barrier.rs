//! What stands in the way of a check: one layer, with what was found of it.

use super::Capability;
use crate::host_text::HostText;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A layer that has to be lifted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Barrier {
    /// The sysctl `kernel.perf_event_paranoid`, which does not bind whoever has a capability.
    PerfEventParanoid {
        /// What it is.
        found: i64,
        /// What it must be at most.
        needs: i64,
        /// The capability that stands above it.
        without: Capability,
    },
    /// The sysctl `kernel.kptr_restrict`.
    KptrRestrict {
        /// What it is.
        found: i64,
        /// What it must be at most.
        needs: i64,
    },
    /// The sysctl `kernel.unprivileged_bpf_disabled`.
    UnprivilegedBpfDisabled {
        /// What it is: 1 cannot be taken back before the next boot.
        found: i64,
    },
    /// The security module Yama, `kernel.yama.ptrace_scope`.
    Yama {
        /// What it is: 3 cannot be taken back before the next boot.
        found: i64,
        /// What it must be at most.
        needs: i64,
    },
    /// Capabilities that the kernel asks for.
    Capabilities {
        /// Those that are missing.
        missing: Vec<Capability>,
    },
    /// Capabilities that the process tried has and the agent lacks, for which it may not be
    /// inspected.
    CapabilitiesOfTheOther {
        /// Those.
        missing: Vec<Capability>,
        /// The process.
        pid: u32,
    },
    /// The file's mode: it is for another user, mostly root.
    FileMode,
    /// Capabilities are in effect only within the agent's user namespace.
    UserNamespace,
    /// Processes outside of the agent's pid namespace cannot be named.
    PidNamespace,
    /// `/proc` is mounted with `hidepid`.
    HidePid,
    /// The kernel is locked down.
    Lockdown(Lockdown),
    /// A filter of system calls, as container engines and services put one on.
    Seccomp {
        /// Which call it answers itself.
        syscall: Syscall,
    },
    /// A security module, by the context that the agent runs in.
    SecurityModule {
        /// Which module.
        module: SecurityModule,
        /// The context.
        label: HostText,
    },
    /// The limit of locked memory, beyond what every user may have for samples.
    MemlockLimit {
        /// The limit in KiB; `None` where there is none.
        limit_kib: Option<u64>,
        /// What would have to be allowed for each processor, in KiB.
        needs_kib: u32,
    },
    /// The limit of open files.
    OpenFilesLimit {
        /// What it is.
        limit: u64,
        /// What is wanted.
        wanted: u64,
    },
    /// It is not mounted where it belongs.
    TracefsNotMounted,
    /// The kernel was built without it.
    Kernel(Lacking),
    /// The processor shows no counters.
    NoCounters {
        /// Whether this is a virtual machine, whose hypervisor decides.
        is_guest: bool,
    },
    /// It is switched off.
    Off(Switch),
    /// The program is in none of the folders where programs are.
    NotInstalled,
    /// The program ran, and ended with an error.
    ProgramFailed {
        /// Its exit code; `None` where a signal ended it or it could not be started.
        code: Option<i32>,
    },
    /// A refusal that none of the layers known here explains.
    Unexplained {
        /// The kernel's error number.
        errno: i32,
    },
    /// The kernel's verifier, or what fits a program to the kernel, did not take one of the agent's.
    ProgramNotTaken {
        /// The end of what was said of it.
        said: HostText,
    },
    /// The limit of locked memory, which counts for eBPF until Linux 5.11.
    MemlockOfBpf {
        /// The limit in KiB; `None` where there is none.
        limit_kib: Option<u64>,
    },
    /// What is asked about is not the machine that the agent runs on.
    NotThisMachine,
    /// Another tracer holds the process, and there is room for one.
    HeldByTracer {
        /// The tracer.
        pid: u32,
        /// Its name.
        name: HostText,
    },
}

/// How far the kernel is locked down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Lockdown {
    /// Not at all.
    None,
    /// Nobody may change the running kernel.
    Integrity,
    /// Nobody may read the kernel's memory either.
    Confidentiality,
}

impl Lockdown {
    /// Its name, as the kernel writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Integrity => "integrity",
            Self::Confidentiality => "confidentiality",
        }
    }
}

/// A system call that a filter may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Syscall {
    /// `perf_event_open`.
    PerfEventOpen,
    /// `bpf`.
    Bpf,
    /// `ptrace`.
    Ptrace,
}

impl Syscall {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerfEventOpen => "perf_event_open",
            Self::Bpf => "bpf",
            Self::Ptrace => "ptrace",
        }
    }
}

/// A module that labels processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SecurityModule {
    /// AppArmor: a label is a profile's name and its mode.
    AppArmor,
    /// SELinux: a label is user, role, type and level.
    SeLinux,
    /// Any other.
    Other,
}

impl SecurityModule {
    const fn name(self) -> &'static str {
        match self {
            Self::AppArmor => "AppArmor",
            Self::SeLinux => "SELinux",
            Self::Other => "a security module",
        }
    }
}

/// A part of the kernel that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lacking {
    /// The system call itself, `CONFIG_PERF_EVENTS`.
    PerfEvents,
    /// The system call itself, `CONFIG_BPF_SYSCALL`.
    Bpf,
    /// `CONFIG_DEBUG_INFO_BTF`.
    Btf,
    /// This type of eBPF program, or this place to attach one.
    BpfProgramType,
    /// `CONFIG_KPROBES`.
    Kprobes,
    /// `CONFIG_TRACING`.
    Tracefs,
    /// `CONFIG_EVENT_TRACING`, or this tracepoint.
    Tracepoint,
    /// `CONFIG_KALLSYMS`.
    Kallsyms,
    /// `CONFIG_PSI`.
    Pressure,
    /// `CONFIG_TASK_DELAY_ACCT`.
    DelayAccounting,
    /// `CONFIG_CGROUPS`, or no hierarchy is mounted.
    Cgroups,
    /// The memory controller: not built in, or off at boot.
    MemoryController,
}

impl Lacking {
    const fn sentence(self) -> &'static str {
        match self {
            Self::PerfEvents => "perf_event_open (CONFIG_PERF_EVENTS)",
            Self::Bpf => "bpf (CONFIG_BPF_SYSCALL)",
            Self::Btf => "/sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)",
            Self::BpfProgramType => "this type of program, or the place it attaches to",
            Self::Kprobes => "kprobes (CONFIG_KPROBE_EVENTS)",
            Self::Tracefs => "tracefs (CONFIG_TRACING)",
            Self::Tracepoint => "the tracepoint (CONFIG_EVENT_TRACING)",
            Self::Kallsyms => "/proc/kallsyms (CONFIG_KALLSYMS)",
            Self::Pressure => "/proc/pressure (CONFIG_PSI)",
            Self::DelayAccounting => "kernel.task_delayacct (CONFIG_TASK_DELAY_ACCT)",
            Self::Cgroups => "a mounted cgroup hierarchy",
            Self::MemoryController => "the memory controller (CONFIG_MEMCG)",
        }
    }
}

/// Something that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Switch {
    /// Pressure stall information, at boot.
    Pressure,
    /// `kernel.task_delayacct`.
    DelayAccounting,
    /// The memory controller, with `cgroup_disable=memory` at boot.
    MemoryController,
    /// The memory controller, which the cgroups above do not hand down.
    MemoryControllerBelow,
}

impl Switch {
    const fn sentence(self) -> &'static str {
        match self {
            Self::Pressure => "the kernel has it and leaves it off",
            Self::DelayAccounting => "kernel.task_delayacct is 0",
            Self::MemoryController => "the memory controller is off at boot",
            Self::MemoryControllerBelow => {
                "the memory controller is not handed down to the agent's cgroup"
            }
        }
    }
}

impl Barrier {
    /// Which layer it is, in a word.
    pub const fn layer(&self) -> &'static str {
        match self {
            Self::PerfEventParanoid { .. } => "perf_event_paranoid",
            Self::KptrRestrict { .. } => "kptr_restrict",
            Self::UnprivilegedBpfDisabled { .. } => "unprivileged_bpf_disabled",
            Self::Yama { .. } => "yama",
            Self::Capabilities { .. } | Self::CapabilitiesOfTheOther { .. } => "capability",
            Self::HeldByTracer { .. } => "tracer",
            Self::FileMode => "file_mode",
            Self::UserNamespace => "user_namespace",
            Self::PidNamespace => "pid_namespace",
            Self::HidePid => "hidepid",
            Self::Lockdown(_) => "lockdown",
            Self::Seccomp { .. } => "seccomp",
            Self::SecurityModule { .. } => "security_module",
            Self::MemlockLimit { .. } | Self::OpenFilesLimit { .. } => "rlimit",
            Self::TracefsNotMounted => "not_mounted",
            Self::Kernel(_) => "kernel",
            Self::NoCounters { .. } => "processor",
            Self::Off(_) => "switch",
            Self::NotInstalled => "not_installed",
            Self::ProgramFailed { .. } => "program",
            Self::Unexplained { .. } => "unknown",
            Self::ProgramNotTaken { .. } => "verifier",
            Self::MemlockOfBpf { .. } => "rlimit",
            Self::NotThisMachine => "snapshot",
        }
    }
}

impl Barrier {
    /// Whether nothing less than root lifts it for an ordinary user.
    pub(super) const fn takes_root(&self) -> bool {
        matches!(self, Self::FileMode | Self::Capabilities { .. })
    }

    /// Whether it stays in the way of root.
    pub(super) const fn binds_root(&self) -> bool {
        !matches!(
            self,
            Self::PerfEventParanoid { .. }
                | Self::KptrRestrict { found: ..=1, .. }
                | Self::UnprivilegedBpfDisabled { .. }
                | Self::Yama { found: ..=2, .. }
                | Self::HidePid
                | Self::MemlockLimit { .. }
                | Self::MemlockOfBpf { .. }
        )
    }
}

impl fmt::Display for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PerfEventParanoid { found, needs, without } => {
                paranoid(f, *found, *needs, *without)
            }
            Self::KptrRestrict { found, needs } => {
                write!(f, "kernel.kptr_restrict is {found}, needs {needs}")
            }
            Self::UnprivilegedBpfDisabled { found } => {
                write!(f, "kernel.unprivileged_bpf_disabled is {found}, needs 0 without CAP_BPF")
            }
            Self::Yama { found, needs } => {
                let what = match found {
                    1 => "only descendants",
                    2 => "only with CAP_SYS_PTRACE",
                    _ => "nobody",
                };
                write!(f, "kernel.yama.ptrace_scope is {found} ({what}), needs {needs}")
            }
            Self::Capabilities { missing } => write!(f, "needs {}", listed(missing)),
            Self::CapabilitiesOfTheOther { missing, pid } => {
                write!(f, "process {pid} has {}, which the agent lacks", listed(missing))
            }
            Self::HeldByTracer { pid, name } => {
                write!(f, "process {pid} (`{name}`) traces it, and one tracer is all it can have")
            }
            Self::FileMode => f.write_str("only root may read it"),
            Self::UserNamespace => f.write_str(
                "the agent is in a user namespace: its capabilities do not count outside of it",
            ),
            Self::PidNamespace => f.write_str(
                "the agent is in a pid namespace and does not see what is outside of it",
            ),
            Self::HidePid => f.write_str("/proc is mounted with hidepid"),
            Self::Lockdown(level) => write!(f, "the kernel is locked down: {}", level.name()),
            Self::Seccomp { syscall } => {
                write!(f, "a seccomp filter answers {} before the kernel does", syscall.name())
            }
            Self::SecurityModule { module, label } => {
                write!(f, "{} confines the agent as `{label}`", module.name())
            }
            Self::MemlockLimit { limit_kib, .. } => memlock(f, *limit_kib),
            Self::OpenFilesLimit { limit, wanted } => {
                write!(f, "the hard limit of open files is {limit}, {wanted} are wanted")
            }
            Self::TracefsNotMounted => f.write_str("tracefs is not mounted at /sys/kernel/tracing"),
            Self::Kernel(lacking) => write!(f, "this kernel lacks {}", lacking.sentence()),
            Self::NoCounters { is_guest: true } => {
                f.write_str("this virtual machine is shown no counters of the processor")
            }
            Self::NoCounters { is_guest: false } => {
                f.write_str("the kernel knows no counters of this processor")
            }
            Self::Off(switch) => f.write_str(switch.sentence()),
            Self::NotInstalled => f.write_str("it is in none of the folders for programs"),
            Self::ProgramFailed { code: Some(code) } => write!(f, "it ended with exit code {code}"),
            Self::ProgramFailed { code: None } => f.write_str("it could not run"),
            Self::Unexplained { errno } => {
                write!(f, "{}, by no layer that is known here", errno_name(*errno))
            }
            Self::ProgramNotTaken { said } => {
                write!(f, "this kernel did not take the agent's program: `{said}`")
            }
            Self::MemlockOfBpf { limit_kib } => memlock_of_bpf(f, *limit_kib),
            Self::NotThisMachine => f.write_str("it is not the machine that the agent runs on"),
        }
    }
}

fn memlock(f: &mut fmt::Formatter<'_>, limit_kib: Option<u64>) -> fmt::Result {
    match limit_kib {
        Some(limit) => write!(f, "the limit of locked memory is {limit} KiB"),
        None => f.write_str("kernel.perf_event_mlock_kb is used up"),
    }
}

fn memlock_of_bpf(f: &mut fmt::Formatter<'_>, limit_kib: Option<u64>) -> fmt::Result {
    f.write_str("locked memory counts for eBPF before Linux 5.11, and the limit is ")?;
    match limit_kib {
        Some(limit) => write!(f, "{limit} KiB"),
        None => f.write_str("that of the machine"),
    }
}

fn paranoid(
    f: &mut fmt::Formatter<'_>,
    found: i64,
    needs: i64,
    without: Capability,
) -> fmt::Result {
    let at_most = if needs < 0 { "needs -1".to_owned() } else { format!("needs {needs} or less") };
    write!(f, "kernel.perf_event_paranoid is {found}, {at_most} without {without}")?;
    // Upstream kernels know nothing above 2.
    if found > 2 && needs == 2 {
        f.write_str(" (a patch of Debian and Ubuntu)")?;
    }
    Ok(())
}

fn listed(capabilities: &[Capability]) -> String {
    let names: Vec<String> = capabilities.iter().map(ToString::to_string).collect();
    match names.as_slice() {
        [] => "a capability".to_owned(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// The name of an error number, where it is one that is met here.
pub(super) fn errno_name(errno: i32) -> String {
    // The numbers are the same on both processors.
    let name = match errno {
        1 => "EPERM",
        2 => "ENOENT",
        3 => "ESRCH",
        7 => "E2BIG",
        12 => "ENOMEM",
        13 => "EACCES",
        16 => "EBUSY",
        19 => "ENODEV",
        22 => "EINVAL",
        24 => "EMFILE",
        38 => "ENOSYS",
        95 => "EOPNOTSUPP",
        524 => "ENOTSUPP",
        other => return format!("error number {other}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_barrier_says_what_was_found_and_what_is_needed() {
        let paranoid = |found, needs| Barrier::PerfEventParanoid {
            found,
            needs,
            without: Capability::PERFMON,
        };
        let missing = vec![Capability::BPF, Capability::PERFMON];
        let cases = [
            (
                paranoid(2, 1),
                "kernel.perf_event_paranoid is 2, needs 1 or less without CAP_PERFMON",
            ),
            (paranoid(0, -1), "kernel.perf_event_paranoid is 0, needs -1 without CAP_PERFMON"),
            (
                paranoid(3, 2),
                "kernel.perf_event_paranoid is 3, needs 2 or less without CAP_PERFMON (a patch of \
                 Debian and Ubuntu)",
            ),
            (
                Barrier::Yama { found: 1, needs: 0 },
                "kernel.yama.ptrace_scope is 1 (only descendants), needs 0",
            ),
            (Barrier::Capabilities { missing }, "needs CAP_BPF and CAP_PERFMON"),
            (Barrier::Unexplained { errno: 1 }, "EPERM, by no layer that is known here"),
        ];
        for (barrier, want) in cases {
            assert_eq!(barrier.to_string(), want);
        }
    }
}
