//! A value, or the reason there is none.
//!
//! Zero, "not permitted", "not in this kernel" and "timed out" are different answers, and a reader
//! who cannot tell them apart concludes wrongly. In JSON an unknown value is `null`, and
//! `meta.not_measured` gives the reason and the remedy (see [`crate::view::json`]).

mod permission;
mod words;

pub use permission::Permission;

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a measurement came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observed<T> {
    /// It was measured.
    Known(T),
    /// It was not, and this is why.
    Unknown(Reason),
}

impl<T> Observed<T> {
    /// The value, if there is one.
    pub const fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// Applies `change` to the value; a reason stays as it is.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Observed<U> {
        match self {
            Self::Known(value) => Observed::Known(change(value)),
            Self::Unknown(reason) => Observed::Unknown(reason),
        }
    }

    /// Computes something from the value that may itself have no value.
    pub fn and_then<U>(self, compute: impl FnOnce(T) -> Result<U, Reason>) -> Observed<U> {
        match self {
            Self::Known(value) => compute(value).into(),
            Self::Unknown(reason) => Observed::Unknown(reason),
        }
    }

    /// Combines two values; the first reason wins, because it is the one to mend first.
    pub fn zip<U>(self, other: Observed<U>) -> Observed<(T, U)> {
        match (self, other) {
            (Self::Known(left), Observed::Known(right)) => Observed::Known((left, right)),
            (Self::Unknown(reason), Observed::Known(_) | Observed::Unknown(_))
            | (Self::Known(_), Observed::Unknown(reason)) => Observed::Unknown(reason),
        }
    }
}

impl<T> From<Result<T, Reason>> for Observed<T> {
    fn from(result: Result<T, Reason>) -> Self {
        match result {
            Ok(value) => Self::Known(value),
            Err(reason) => Self::Unknown(reason),
        }
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Observed<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        Option::<T>::schema_name()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        Option::<T>::json_schema(generator)
    }
}

/// Why a value is unknown.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Reason {
    /// The kernel refused the read.
    NotPermitted(Permission),
    /// This kernel was built without it.
    KernelLacks(Feature),
    /// The kernel has it, switched off.
    SwitchedOff(Switch),
    /// Nobody set such a limit. Not the same as a limit of zero, nor as an unread one.
    NoLimitSet,
    /// The process, or the thread, ended while it was being read.
    Gone,
    /// The process does not have such a thing, by its nature.
    DoesNotApply(Nature),
    /// Reading it would have cost the target too much.
    TooCostly {
        /// How many there are to read.
        count: u64,
        /// How many are read at most.
        limit: u64,
    },
    /// It was not read at the start of the window, so no difference can be formed.
    NoBaseline,
    /// Threads ended, and the kernel forgets a thread's account with it.
    ThreadsEnded,
    /// The kernel's count grew by the whole lives of children that ended.
    ChildrenReaped,
    /// The kernel's counter is smaller than it was.
    SteppedBack,
    /// The thread was not looked at: there are more than are looked at, or it came too late.
    NotSampled,
    /// A system call of a 32-bit program, whose numbers are others, or one that has no name here.
    ForeignSyscall,
    /// The stored result holds what was read for every process, not what was read for the rows
    /// that were shown.
    NotStored,
    /// The file is longer than what is read of one; its end may say anything.
    TooLong,
    /// The read failed with this error number.
    Failed {
        /// `errno` as the kernel gave it.
        errno: i32,
    },
    /// The kernel's text was not understood.
    NotUnderstood(crate::host_text::HostText),
    /// The window was too short for a rate.
    EmptyWindow,
    /// Nothing was sampled, so there is nothing to have a share of.
    NoSamples,
    /// The agent has as many files open as it may.
    OpenFilesLimit {
        /// How many that is.
        limit: u64,
    },
    /// It is there, and cannot be seen from where the agent runs.
    OutOfSight(OutOfSight),
    /// It was asked for, and nothing came before the end of the window.
    NoAnswer,
    /// The read did not return in time, and goes on out of the way: itself a finding.
    DidNotReturn {
        /// How long it was waited for.
        after_ms: u32,
        /// What such a read waits for.
        lock: Lock,
    },
    /// It was not read: as many reads hang already as may.
    TooManyHang,
    /// Nobody took it along when the snapshot was made that is looked at.
    NotInSnapshot,
    /// The snapshot that is looked at holds one instant, and this takes two.
    OneInstant,
    /// It was not asked for.
    NotAskedFor,
    /// Reading it would keep the process from mapping memory for too long to do so unasked.
    WouldPause {
        /// For about how long.
        estimated_ms: u32,
        /// The longest that is risked unasked.
        limit_ms: u32,
    },
    /// It went one way only, or nowhere: there is no time between turns.
    NoTurns,
    /// Nothing could be sampled; the answer says why beside it.
    NotSampling,
    /// The processor has no counter for it, or the machine shows none.
    NoCounter {
        /// Whether this is a virtual machine, whose hypervisor decides.
        is_guest: bool,
    },
    /// The counters of the processor were in use by others all the time.
    CountersInUse,
    /// The engine that was used does not measure it.
    NotByEngine,
    /// It began before the window, and nobody saw when.
    BegunBefore,
}

/// A lock of the kernel that a read of a process's file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Lock {
    /// `mmap_lock`. Held, among others, by a thread that changes the memory's map while a page
    /// does not arrive.
    Memory,
    /// `exec_update_lock`, `cred_guard_mutex` before Linux 5.8. Held by a thread that starts a
    /// program, for as long as that takes.
    Exec,
}

/// A part of the kernel that may be left out when it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Feature {
    /// `/proc/PID/schedstat`, `CONFIG_SCHED_INFO`.
    SchedulerStatistics,
    /// `/proc/PID/io`, `CONFIG_TASK_IO_ACCOUNTING`.
    IoAccounting,
    /// `/proc/PID/syscall`, `CONFIG_HAVE_ARCH_TRACEHOOK`.
    SyscallFile,
    /// `/proc/PID/wchan`, `CONFIG_KALLSYMS`.
    WaitChannel,
    /// `/proc/pressure`, `CONFIG_PSI`.
    Pressure,
    /// `/proc/PID/cgroup`, `CONFIG_CGROUPS`.
    Cgroups,
    /// The CPU controller, `CONFIG_CGROUP_SCHED`.
    CgroupCpuController,
    /// The memory controller, `CONFIG_MEMCG`; also without it after `cgroup_disable=memory`.
    CgroupMemoryController,
    /// CPU quotas, `CONFIG_CFS_BANDWIDTH`.
    CgroupCpuQuota,
    /// A file of a controller that is there.
    CgroupFile,
    /// A field that this kernel's file does not have.
    Field,
    /// `/proc/PID/smaps`, `CONFIG_PROC_PAGE_MONITOR`.
    MappingSizes,
}

/// Something an administrator can switch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Switch {
    /// `kernel.task_delayacct`.
    DelayAccounting,
    /// Pressure stall information, `psi=1` at boot.
    Pressure,
}

/// Why a process cannot have a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Nature {
    /// A kernel thread has no command line, no memory and no limits of its own.
    KernelThread,
    /// A zombie has released everything but its entry.
    Zombie,
    /// The process is in the root cgroup, which nothing limits and which counts nothing.
    RootCgroup,
    /// The controller is not enabled for the process's cgroup, which therefore has no limit and no
    /// count of its own.
    ControllerNotEnabled,
    /// The process runs in no container.
    NotInContainer,
    /// The process belongs to no service of an init system.
    NotInService,
    /// No request completed in the window, so none took any time.
    NoRequests,
    /// Nothing waited in the window, so no wait took any time.
    NoWaits,
    /// What was counted is no processor time.
    NotProcessorTime,
    /// Stacks were given as text, which does not say it.
    GivenStacks,
    /// Of a whole machine it would be the time that passed on all processors.
    WholeMachine,
}

/// What cannot be seen from where the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum OutOfSight {
    /// Cgroups above the agent's cgroup namespace, or above the top that is mounted here. What they
    /// limit holds all the same.
    CgroupsAbove,
    /// The process's cgroup: it is outside of the agent's cgroup namespace.
    CgroupElsewhere,
    /// The process's cgroup: no mount here shows it.
    CgroupNotMounted,
    /// All cgroups of a controller: its hierarchy is not mounted here.
    HierarchyNotMounted,
}

/// What helps where a container, or its namespaces, are in the way.
const AT_THE_HOST: &str = "connect to the host itself instead of a container on it";

impl Reason {
    /// Whether there is no such value, which is an answer, unlike a value that could not be read.
    pub const fn is_absence(&self) -> bool {
        matches!(self, Self::NoLimitSet | Self::DoesNotApply(_) | Self::NoTurns)
    }

    /// What the reader can do about it, where something can be done.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::NotPermitted(permission) => Some(permission.remedy()),
            Self::NoCounter { is_guest: true } => Some(
                "switch the virtual PMU on at the hypervisor (KVM: -cpu host,pmu=on; VMware: \
                 vpmc.enable), or measure on the bare machine"
                    .to_owned(),
            ),
            Self::CountersInUse => Some(
                "end what else counts (another perf; the watchdog: `sysctl kernel.nmi_watchdog=0` as \
                 root), and measure again"
                    .to_owned(),
            ),
            Self::OutOfSight(_) => Some(AT_THE_HOST.to_owned()),
            Self::SwitchedOff(Switch::DelayAccounting) => Some(
                "run `sysctl kernel.task_delayacct=1` as root and restart the process: only waits \
                 of processes started afterwards are counted"
                    .to_owned(),
            ),
            Self::SwitchedOff(Switch::Pressure) => Some("boot with psi=1".to_owned()),
            // Newer kernels do not make the files where it is off by default.
            Self::KernelLacks(Feature::Pressure) => {
                Some("boot with psi=1, in case the kernel has it and leaves it off".to_owned())
            }
            // What a list leaves out of each process, a look at one of them may afford.
            Self::TooCostly { limit, .. } if *limit < crate::budget::MOST_THREADS => {
                Some("ask process_inspect about the one process".to_owned())
            }
            Self::NotStored | Self::NoBaseline => Some("measure again".to_owned()),
            Self::ThreadsEnded => {
                Some("ask for a shorter window, in which fewer threads end".to_owned())
            }
            Self::EmptyWindow => Some("ask for a longer window".to_owned()),
            Self::OpenFilesLimit { .. } => {
                Some("raise the hard limit of open files of this login (`ulimit -Hn`)".to_owned())
            }
            Self::DidNotReturn { .. } => {
                Some("see what the threads of the process wait in: process_inspect".to_owned())
            }
            Self::TooManyHang => Some(
                "end the processes whose values did not return, or what they wait for".to_owned(),
            ),
            Self::NotInSnapshot | Self::OneInstant => {
                Some("ask the machine itself, or make a snapshot with `sysmcp capture`".to_owned())
            }
            Self::WouldPause { .. } => Some("ask again with `with_smaps` always".to_owned()),
            Self::NotByEngine => {
                Some("see `refused` for what a better engine takes".to_owned())
            }
            Self::NotSampling
            | Self::BegunBefore
            | Self::NotAskedFor
            | Self::NoTurns
            | Self::TooCostly { .. }
            | Self::KernelLacks(_)
            | Self::NoLimitSet
            | Self::Gone
            | Self::ChildrenReaped
            | Self::SteppedBack
            | Self::NotSampled
            | Self::ForeignSyscall
            | Self::DoesNotApply(_)
            | Self::TooLong
            | Self::Failed { .. }
            | Self::NoAnswer
            | Self::NoSamples
            | Self::NoCounter { is_guest: false }
            | Self::NotUnderstood(_) => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted(permission) => write!(f, "not permitted: {permission}"),
            Self::KernelLacks(feature) => write!(f, "not in this kernel: {feature}"),
            Self::SwitchedOff(switch) => write!(f, "switched off: {switch}"),
            Self::NoLimitSet => f.write_str("no limit is set"),
            Self::Gone => f.write_str("it ended while it was being read"),
            Self::DoesNotApply(nature) => write!(f, "does not apply: {nature}"),
            Self::TooCostly { count, limit } => {
                write!(f, "too costly: {count} to read, at most {limit} are read here")
            }
            Self::NoBaseline => f.write_str("not read at the start of the window"),
            Self::ThreadsEnded => {
                f.write_str("threads ended in the window and took their account with them")
            }
            Self::ChildrenReaped => f.write_str(
                "children ended in the window, and the kernel's count has their whole lives in it",
            ),
            Self::SteppedBack => f.write_str("the kernel's counter is smaller than it was"),
            Self::NotSampled => f.write_str(
                "not looked at: there are more threads than are looked at, or it came too late",
            ),
            Self::ForeignSyscall => {
                f.write_str("a system call of a 32-bit program, or one that has no name here")
            }
            Self::NotStored => f.write_str("not part of the stored result"),
            Self::TooLong => f.write_str("the file is longer than what is read of one"),
            Self::Failed { errno } => write!(f, "the read failed with error number {errno}"),
            Self::NotUnderstood(text) => write!(f, "the kernel's text was not understood: {text}"),
            Self::EmptyWindow => f.write_str("the window was too short for a rate"),
            Self::NoSamples => f.write_str("nothing was sampled"),
            Self::OpenFilesLimit { limit } => {
                write!(f, "the agent may have no more than {limit} files open at once")
            }
            Self::OutOfSight(what) => write!(f, "not visible from here: {what}"),
            Self::NoAnswer => f.write_str("asked for, and no answer came in the window"),
            Self::DidNotReturn { after_ms, lock } => {
                write!(f, "the read did not return within {after_ms} ms: something holds {lock}")
            }
            Self::TooManyHang => {
                f.write_str("not read, because too many reads of other processes hang already")
            }
            Self::NotInSnapshot => f.write_str("not in the snapshot"),
            Self::OneInstant => f.write_str("the snapshot holds one instant, and this takes two"),
            Self::NotAskedFor => f.write_str("not asked for"),
            Self::WouldPause { estimated_ms, limit_ms } => write!(
                f,
                "not read unasked: it would keep the process from mapping memory for up to about \
                 {estimated_ms} ms, and {limit_ms} ms is the most that is risked"
            ),
            Self::NoTurns => f.write_str("it did not turn in the window"),
            Self::NotSampling => f.write_str("nothing could be sampled: see `refused`"),
            Self::NoCounter { is_guest: true } => f.write_str(
                "no hardware counter here: this virtual machine is shown none of the processor's",
            ),
            Self::NoCounter { is_guest: false } => f.write_str(
                "no hardware counter here: the kernel knows none of this processor for it",
            ),
            Self::NotByEngine => f.write_str("not measured by the engine that was used"),
            Self::BegunBefore => f.write_str("it began before the window"),
            Self::CountersInUse => {
                f.write_str("the processor's counters were in use by others all the time")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_both_users_and_what_lifts_it() {
        let owner = |agent_uid| {
            Reason::NotPermitted(Permission::InspectProcess { owner_uid: 33, agent_uid })
        };
        assert_eq!(
            owner(1000).to_string(),
            "not permitted: the process belongs to uid 33 and the agent runs as uid 1000; needs \
             the same user, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
        );
        assert_eq!(owner(1000).remedy().unwrap(), "connect as root or as uid 33");
        // ssh-agent, for one, is of the same user and not to be inspected.
        assert!(owner(33).to_string().contains("uid 33, but protected"));
        assert_eq!(owner(33).remedy().unwrap(), "connect as root");
        assert!(owner(0).to_string().contains("holds a capability"));
        assert!(owner(0).remedy().unwrap().contains("the host itself"));
    }

    #[test]
    fn a_refusal_of_yama_names_the_setting_and_what_lifts_it() {
        let yama = |scope| Reason::NotPermitted(Permission::Yama { scope });
        assert!(yama(1).to_string().contains("kernel.yama.ptrace_scope is 1: only root"));
        assert!(yama(2).remedy().unwrap().contains("sysctl kernel.yama.ptrace_scope=0"));
        // Nothing that an administrator runs lifts this one.
        assert!(yama(3).to_string().contains("nobody"));
        assert!(!yama(3).remedy().unwrap().contains("sysctl"));
    }

    #[test]
    fn zip_keeps_the_first_reason() {
        let known: Observed<u8> = Observed::Known(1);
        let gone: Observed<u8> = Observed::Unknown(Reason::Gone);
        let late: Observed<u8> = Observed::Unknown(Reason::NoBaseline);
        assert_eq!(known.clone().zip(known.clone()), Observed::Known((1, 1)));
        assert_eq!(known.zip(late.clone()), Observed::Unknown(Reason::NoBaseline));
        assert_eq!(gone.zip(late), Observed::Unknown(Reason::Gone));
    }
}
