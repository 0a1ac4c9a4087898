//! Why another instrument was refused what it wanted, decided as `capabilities` does.

use super::{decide, situation::Situation};
use crate::{perf::event, proc::Root};
use protocol::instruments::capabilities::{Barrier, CheckId, Lacking, Refusal};
use rustix::io::Errno;

/// What was refused of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::instruments) enum Wanted {
    /// The login's own processes, in user space.
    OwnUser,
    /// The kernel's part of them.
    OwnKernel,
    /// A process of another user.
    Others,
    /// Everything that runs.
    SystemWide,
    /// Context switches.
    ContextSwitches,
}

impl Wanted {
    const fn id(self) -> CheckId {
        match self {
            Self::OwnUser => CheckId::PerfOwnUser,
            Self::OwnKernel => CheckId::PerfOwnKernel,
            Self::Others => CheckId::PerfOthers,
            Self::SystemWide => CheckId::PerfSystemWide,
            Self::ContextSwitches => CheckId::ContextSwitches,
        }
    }

    /// The highest `perf_event_paranoid` at which it is granted to everybody.
    const fn needs(self) -> i64 {
        match self {
            Self::OwnUser | Self::Others => 2,
            Self::OwnKernel | Self::ContextSwitches => 1,
            Self::SystemWide => 0,
        }
    }
}

/// Why sampling was refused.
pub(in crate::instruments) fn of_sampling(root: &Root, wanted: Wanted, errno: Errno) -> Refusal {
    let situation = Situation::read(root);
    let is_filtered = !event::is_answered_by_the_kernel();
    let barriers = match wanted {
        Wanted::Others => decide::perf_of_others(&situation, is_filtered, errno),
        Wanted::OwnUser | Wanted::OwnKernel | Wanted::SystemWide | Wanted::ContextSwitches => {
            decide::perf(&situation, wanted.needs(), is_filtered, errno)
        }
    };
    refusal(&situation, wanted.id(), Some(errno), barriers)
}

/// Why the kernel's names are hidden.
pub(in crate::instruments) fn of_kernel_names(root: &Root) -> Refusal {
    let situation = Situation::read(root);
    let barriers = decide::kernel_symbols(&situation);
    refusal(&situation, CheckId::KernelSymbols, None, barriers)
}

/// That the processor shows no counters.
pub(in crate::instruments) fn of_counters(root: &Root, errno: Errno) -> Refusal {
    let situation = Situation::read(root);
    let barrier = Barrier::NoCounters { is_guest: situation.is_guest };
    refusal(&situation, CheckId::HardwareCounters, Some(errno), vec![barrier])
}

/// That so much memory for samples cannot be had.
pub(in crate::instruments) fn of_memory(root: &Root, kib: u32, errno: Errno) -> Refusal {
    let situation = Situation::read(root);
    let barriers = decide::ring(&situation, kib, errno);
    refusal(&situation, CheckId::PerfRing, Some(errno), barriers)
}

/// That so many files may not be open.
pub(in crate::instruments) fn of_open_files(root: &Root, limit: u64, wanted: u64) -> Refusal {
    let barriers = vec![Barrier::OpenFilesLimit { limit, wanted }];
    refusal(&Situation::read(root), CheckId::OpenFiles, None, barriers)
}

/// That the kernel has no performance events.
pub(in crate::instruments) fn of_kernel(root: &Root) -> Refusal {
    let barriers = vec![Barrier::Kernel(Lacking::PerfEvents)];
    refusal(&Situation::read(root), CheckId::PerfOwnUser, Some(Errno::NOSYS), barriers)
}

/// What no layer that is known explains.
pub(in crate::instruments) fn unexplained(root: &Root, wanted: Wanted, errno: Errno) -> Refusal {
    let barriers = vec![Barrier::Unexplained { errno: errno.raw_os_error() }];
    refusal(&Situation::read(root), wanted.id(), Some(errno), barriers)
}

fn refusal(
    situation: &Situation,
    id: CheckId,
    errno: Option<Errno>,
    barriers: Vec<Barrier>,
) -> Refusal {
    Refusal { id, errno: errno.map(Errno::raw_os_error), barriers, here: situation.here }
}
