//! What locks, features, switches and natures are called in a sentence.

use super::{Feature, Lock, Nature, OutOfSight, Switch};
use std::fmt;

impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "the process's memory lock",
            Self::Exec => "the process's exec lock, as while it starts a program",
        })
    }
}

impl fmt::Display for OutOfSight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CgroupsAbove => "cgroups above those that the agent is shown",
            Self::CgroupElsewhere => {
                "the process's cgroup is outside of the agent's cgroup namespace"
            }
            Self::CgroupNotMounted => "what is mounted here does not show the process's cgroup",
            Self::HierarchyNotMounted => "the hierarchy of this controller is not mounted here",
        })
    }
}

impl fmt::Display for Feature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SchedulerStatistics => "/proc/PID/schedstat (CONFIG_SCHED_INFO)",
            Self::IoAccounting => "/proc/PID/io (CONFIG_TASK_IO_ACCOUNTING)",
            Self::SyscallFile => "/proc/PID/syscall (CONFIG_HAVE_ARCH_TRACEHOOK)",
            Self::WaitChannel => "/proc/PID/wchan (CONFIG_KALLSYMS)",
            Self::Pressure => "/proc/pressure (CONFIG_PSI)",
            Self::Cgroups => "/proc/PID/cgroup (CONFIG_CGROUPS)",
            Self::CgroupCpuController => "the CPU controller of cgroups (CONFIG_CGROUP_SCHED)",
            Self::CgroupMemoryController => {
                "the memory controller of cgroups (CONFIG_MEMCG, or cgroup_disable=memory at boot)"
            }
            Self::CgroupCpuQuota => "CPU quotas of cgroups (CONFIG_CFS_BANDWIDTH)",
            Self::CgroupFile => "this file of the cgroup's controller",
            Self::Field => "the kernel's file has no such field",
            Self::MappingSizes => "/proc/PID/smaps (CONFIG_PROC_PAGE_MONITOR)",
        })
    }
}

impl fmt::Display for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DelayAccounting => "kernel.task_delayacct is 0",
            Self::Pressure => "pressure stall information",
        })
    }
}

impl fmt::Display for Nature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::KernelThread => "a kernel thread",
            Self::Zombie => "a zombie",
            Self::RootCgroup => "the root cgroup",
            Self::ControllerNotEnabled => "the controller is not enabled for this cgroup",
            Self::NotInContainer => "not in a container",
            Self::NotInService => "not in a service",
            Self::NoRequests => "no request completed in the window",
            Self::NoWaits => "nothing waited in the window",
            Self::NotProcessorTime => "what was counted is no processor time",
            Self::GivenStacks => "the stacks were given as text, which does not say it",
            Self::WholeMachine => "of a whole machine it is the time that passed",
        })
    }
}
