//! Why another instrument was refused what it wanted, decided as `capabilities` does.

use super::{decide, situation::Situation, trials::programs};
use crate::{
    bpf::{NoBpf, trial},
    os::{observer::Observer, ptrace},
    perf::event,
    proc::{Root, parse, pid_credentials},
};
use protocol::{
    host_text::HostText,
    instruments::capabilities::{Barrier, Capability, CheckId, Lacking, Refusal},
};
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

/// What programs that trace take.
pub(in crate::instruments) const TRACING: [Capability; 2] = [Capability::BPF, Capability::PERFMON];

/// Why an engine of eBPF is not there. `id` is the check that tries what it needs: `BpfTpBtf` or
/// `BpfIter`.
pub fn of_bpf(root: &Root, id: CheckId, why: &NoBpf) -> Refusal {
    let situation = Situation::read(root);
    let kernel = |lacking| (None, vec![Barrier::Kernel(lacking)]);
    let unexplained = |errno: Errno| {
        let barriers = vec![Barrier::Unexplained { errno: errno.raw_os_error() }];
        (Some(errno), barriers)
    };
    let (errno, barriers) = match why {
        NoBpf::NotThisMachine => (None, vec![Barrier::NotThisMachine]),
        NoBpf::PidNamespace => (None, vec![Barrier::PidNamespace]),
        NoBpf::NotPermitted { errno } => {
            let is_filtered = is_bpf_filtered(&situation);
            let barriers = decide::bpf(&situation, &TRACING, false, is_filtered, *errno);
            (Some(*errno), barriers)
        }
        NoBpf::NotInKernel => (Some(Errno::NOSYS), vec![Barrier::Kernel(Lacking::Bpf)]),
        NoBpf::NoTypes { errno: errno @ (Errno::PERM | Errno::ACCESS) } => {
            (Some(*errno), vec![Barrier::FileMode])
        }
        NoBpf::NoTypes { .. } | NoBpf::TypesNotUnderstood => kernel(Lacking::Btf),
        NoBpf::NoHook { .. } => kernel(Lacking::BpfProgramType),
        NoBpf::Verifier { errno, said, .. } => {
            (Some(*errno), vec![Barrier::ProgramNotTaken { said: said.clone() }])
        }
        NoBpf::Object { why } => {
            (None, vec![Barrier::ProgramNotTaken { said: HostText::new(why.as_bytes()) }])
        }
        NoBpf::LockedMemory { limit_kib } => {
            (Some(Errno::PERM), vec![Barrier::MemlockOfBpf { limit_kib: *limit_kib }])
        }
        NoBpf::NoMemory => unexplained(Errno::NOMEM),
        NoBpf::Failed { errno } => unexplained(*errno),
    };
    refusal(&situation, id, errno, barriers)
}

/// Whether something answers to `bpf` before the kernel does. Kernels before 5.11 refuse whoever may
/// not load programs before they look at the command: where a filter is on such a login it may be
/// either, and is taken for the filter. The capabilities that are missing are named in any case.
pub(super) fn is_bpf_filtered(situation: &Situation) -> bool {
    let may_load = situation.has(Capability::BPF) || situation.has(Capability::SYS_ADMIN);
    match trial::no_command() {
        Err(Errno::PERM) => may_load || situation.has_seccomp_filter,
        Err(Errno::NOSYS | Errno::ACCESS) => situation.has_seccomp_filter,
        Ok(()) | Err(_) => false,
    }
}

/// What no layer that is known explains.
pub(in crate::instruments) fn unexplained(root: &Root, wanted: Wanted, errno: Errno) -> Refusal {
    let barriers = vec![Barrier::Unexplained { errno: errno.raw_os_error() }];
    refusal(&Situation::read(root), wanted.id(), Some(errno), barriers)
}

/// The number of a tracepoint, from tracefs; or why there is none.
pub(in crate::instruments) fn tracepoint(
    root: &Root,
    group: &str,
    name: &str,
) -> Result<u64, Refusal> {
    let situation = Situation::read(root);
    let id = CheckId::Tracefs;
    let Some(mount) = situation.tracefs else {
        let barriers = decide::tracefs(&situation, None);
        return Err(refusal(&situation, id, None, barriers));
    };
    let mut text = Vec::new();
    match root.read(&format!("{mount}/events/{group}/{name}/id"), &mut text) {
        Ok(()) => {
            let missing = || vec![Barrier::Kernel(Lacking::Tracepoint)];
            parse::only_number(&text)
                .map_err(|_| refusal(&situation, CheckId::PerfTracepoint, None, missing()))
        }
        Err(error) if error.errno == Errno::NOENT => {
            let missing = vec![Barrier::Kernel(Lacking::Tracepoint)];
            Err(refusal(&situation, CheckId::PerfTracepoint, Some(error.errno), missing))
        }
        Err(error) => {
            let barriers = decide::tracefs(&situation, Some(error.errno));
            Err(refusal(&situation, id, Some(error.errno), barriers))
        }
    }
}

/// Why tracepoints with their fields were refused; `needs` is the highest `perf_event_paranoid` at which
/// they are granted to everybody.
pub(in crate::instruments) fn of_tracepoints(root: &Root, needs: i64, errno: Errno) -> Refusal {
    let situation = Situation::read(root);
    let is_filtered = !event::is_answered_by_the_kernel();
    let barriers = decide::perf(&situation, needs, is_filtered, errno);
    refusal(&situation, CheckId::PerfTracepoint, Some(errno), barriers)
}

/// That another tracer holds the process.
pub(in crate::instruments) fn of_held(root: &Root, tracer: u32) -> Refusal {
    let mut room = [0; 64];
    let name = root.read_proc_once(&format!("{tracer}/comm"), &mut room);
    let name = name.map(crate::proc::host_text).unwrap_or_default();
    let barriers = vec![Barrier::HeldByTracer { pid: tracer, name }];
    refusal(&Situation::read(root), CheckId::PtraceOthers, None, barriers)
}

/// Why a process may not be traced.
pub(in crate::instruments) fn of_tracing(root: &Root, pid: u32, errno: Errno) -> Refusal {
    let situation = Situation::read(root);
    if is_own(root, pid, &situation) {
        let barriers = decide::ptrace_of_the_same_user(&situation, errno);
        return refusal(&situation, CheckId::PtraceSameUser, Some(errno), barriers);
    }
    let needs = [Capability::SYS_PTRACE];
    let barriers = decide::inspect(&situation, &needs, (pid, permitted(root, pid)), true, errno);
    refusal(&situation, CheckId::PtraceOthers, Some(errno), barriers)
}

/// Why a command that the agent starts itself may not be traced.
pub(in crate::instruments) fn of_launching(root: &Root, errno: Errno) -> Refusal {
    let situation = Situation::read(root);
    let is_filtered = !ptrace::is_answered_by_the_kernel();
    let barriers = decide::ptrace_of_a_child(&situation, is_filtered, errno);
    refusal(&situation, CheckId::PtraceChild, Some(errno), barriers)
}

/// Why what the threads of a process are in may not be read.
pub(in crate::instruments) fn of_looking(root: &Root, pid: u32, errno: Errno) -> Refusal {
    let situation = Situation::read(root);
    let needs: &[Capability] = if is_own(root, pid, &situation) {
        &[Capability::SYS_PTRACE]
    } else {
        // The files are the owner's alone.
        &[Capability::SYS_PTRACE, Capability::DAC_READ_SEARCH]
    };
    let barriers = decide::inspect(&situation, needs, (pid, permitted(root, pid)), true, errno);
    refusal(&situation, CheckId::ProcOfOthers, Some(errno), barriers)
}

/// Why a program of others is not run; `None` where it can be.
pub(in crate::instruments) fn of_missing_program(
    root: &Root,
    observer: Observer,
) -> Option<Refusal> {
    let (barrier, said) = programs::barred(&observer.find())?;
    let id = programs::check_of(observer);
    Some(Refusal { said, ..refusal(&Situation::read(root), id, None, vec![barrier]) })
}

/// That a program of others did not do what it was started for.
///
/// `code` is how it ended, `None` by a signal or not started; `said` is what it wrote to stderr.
pub(in crate::instruments) fn of_program(
    root: &Root,
    observer: Observer,
    code: Option<i32>,
    said: &[u8],
) -> Refusal {
    let id = programs::check_of(observer);
    let barriers = vec![Barrier::ProgramFailed { code }];
    let said = programs::what_it_said(said);
    Refusal { said, ..refusal(&Situation::read(root), id, None, barriers) }
}

fn is_own(root: &Root, pid: u32, situation: &Situation) -> bool {
    root.owner_uid(&pid.to_string()).is_ok_and(|owner| owner == situation.here.uid)
}

/// What a process may put into effect.
fn permitted(root: &Root, pid: u32) -> u64 {
    let mut text = Vec::new();
    let read = root.read_proc(&format!("{pid}/status"), &mut text);
    read.ok().and_then(|()| pid_credentials::parse(&text).ok()).map_or(0, |found| found.permitted)
}

fn refusal(
    situation: &Situation,
    id: CheckId,
    errno: Option<Errno>,
    barriers: Vec<Barrier>,
) -> Refusal {
    let errno = errno.map(Errno::raw_os_error);
    Refusal { id, errno, barriers, here: situation.here, said: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_without_ebpf_has_a_layer_and_all_that_can_be_lifted_a_remedy() {
        let root = Root::live().unwrap();
        let said = HostText::new(b"R1 invalid mem access 'scalar'");
        let cases = [
            (NoBpf::NotThisMachine, "snapshot", false),
            (NoBpf::PidNamespace, "pid_namespace", true),
            (NoBpf::NotInKernel, "kernel", false),
            (NoBpf::NoTypes { errno: Errno::NOENT }, "kernel", true),
            (NoBpf::NoTypes { errno: Errno::ACCESS }, "file_mode", true),
            (NoBpf::TypesNotUnderstood, "kernel", true),
            (NoBpf::NoHook { hook: "tp_btf/none".to_owned() }, "kernel", false),
            (
                NoBpf::Verifier { program: "each_task".to_owned(), errno: Errno::INVAL, said },
                "verifier",
                true,
            ),
            (NoBpf::Object { why: "no such field".to_owned() }, "verifier", true),
            (NoBpf::LockedMemory { limit_kib: Some(64) }, "rlimit", true),
            (NoBpf::NoMemory, "unknown", true),
            (NoBpf::Failed { errno: Errno::MFILE }, "unknown", true),
        ];
        for (why, layer, has_remedy) in cases {
            let refusal = of_bpf(&root, CheckId::BpfIter, &why);
            let layers: Vec<&str> = refusal.barriers.iter().map(Barrier::layer).collect();
            assert_eq!(layers, [layer], "{why:?}");
            assert_eq!(refusal.remedy().is_some(), has_remedy, "{why:?}: {refusal:?}");
        }
    }

    #[test]
    fn a_login_without_the_capabilities_is_told_which() {
        let situation = Situation { unprivileged_bpf_disabled: Some(2), ..Situation::default() };
        let barriers = decide::bpf(&situation, &TRACING, false, false, Errno::PERM);
        assert_eq!(barriers, [Barrier::Capabilities { missing: TRACING.to_vec() }]);
        let filtered = decide::bpf(&situation, &TRACING, false, true, Errno::PERM);
        assert_eq!(filtered.first().map(Barrier::layer), Some("seccomp"));
    }
}
