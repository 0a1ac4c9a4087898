//! Why nothing could be sampled, or less than was wanted.

use super::Subject;
use crate::{
    call::Context,
    instruments::capabilities::refusals::{self, Wanted},
    perf::sampler::{Basis, KernelPart, Measure, SamplerError},
    proc::Root,
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::capabilities::Refusal,
    observed::Reason,
    recording::{Kernel, Scope},
};
use rustix::io::Errno;

/// Why tracepoints could not be had; of a process that has ended, that it is refused.
pub(in crate::instruments) fn of_tracepoints(
    error: SamplerError,
    subject: &Subject,
    root: &Root,
) -> Refusal {
    // Of all that runs, their fields are told to nobody without a right of its own.
    let needs = if subject.scope == Scope::Process { 1 } else { -1 };
    match error {
        SamplerError::NotPermitted { errno, .. } => refusals::of_tracepoints(root, needs, errno),
        SamplerError::NoCounter { errno }
        | SamplerError::Cgroup { errno }
        | SamplerError::Failed { errno } => refusals::of_tracepoints(root, needs, errno),
        SamplerError::OpenFiles { limit, needed, .. } => {
            refusals::of_open_files(root, limit, needed)
        }
        SamplerError::LockedMemory { errno, kib } => refusals::of_memory(root, kib, errno),
        SamplerError::NotInKernel => refusals::of_kernel(root),
        SamplerError::NoSuchProcess { .. } | SamplerError::Processors { .. } => {
            refusals::of_tracepoints(root, needs, Errno::SRCH)
        }
    }
}

/// The error for a recording that could not be made.
pub(in crate::instruments) fn error(
    error: SamplerError,
    (subject, measure): (&Subject, Measure),
    context: &Context<'_>,
) -> AgentError {
    /// Descriptors for everything else.
    const OTHERS: u64 = 64;
    let root = context.root;
    let wanted = wanted(subject, measure, root);
    AgentError::NotSampled(match error {
        SamplerError::NotPermitted { errno, .. } => refusals::of_sampling(root, wanted, errno),
        SamplerError::NoCounter { errno } => refusals::of_counters(root, errno),
        SamplerError::OpenFiles { limit, needed, .. } => {
            refusals::of_open_files(root, limit, needed.saturating_add(OTHERS))
        }
        SamplerError::LockedMemory { errno, kib } => refusals::of_memory(root, kib, errno),
        SamplerError::NotInKernel => refusals::of_kernel(root),
        SamplerError::Cgroup { errno } | SamplerError::Failed { errno } => {
            refusals::unexplained(root, wanted, errno)
        }
        SamplerError::NoSuchProcess { pid } => {
            let agent_uid = rustix::process::geteuid().as_raw();
            return AgentError::NoSuchProcess { pid, agent_uid };
        }
        SamplerError::Processors { why } => {
            let path = HostText::new(b"/sys/devices/system/cpu/online");
            let reason = Reason::NotUnderstood(HostText::new(why.as_bytes()));
            return AgentError::Unreadable { path, reason };
        }
    })
}

/// What was wanted and refused, of a recording that was made.
pub(in crate::instruments) fn refusals(basis: &Basis, kernel: Kernel, root: &Root) -> Vec<Refusal> {
    let mut found = Vec::new();
    if let KernelPart::NotPermitted { errno, .. } = basis.kernel {
        found.push(refusals::of_sampling(root, Wanted::OwnKernel, errno));
    }
    if kernel == Kernel::NamesHidden {
        found.push(refusals::of_kernel_names(root));
    }
    if let Some(errno) = basis.no_counter {
        found.push(refusals::of_counters(root, errno));
    }
    found
}

/// What was refused of counting: the kernel's part, or others.
pub(in crate::instruments) fn of_counting(subject: &Subject, errno: Errno, root: &Root) -> Refusal {
    refusals::of_sampling(root, wanted(subject, Measure::ContextSwitches, root), errno)
}

fn wanted(subject: &Subject, measure: Measure, root: &Root) -> Wanted {
    let own_uid = rustix::process::geteuid().as_raw();
    let is_own = |pid: u32| root.owner_uid(&pid.to_string()).is_ok_and(|uid| uid == own_uid);
    match (subject.scope, subject.pid) {
        (Scope::Host | Scope::Cgroup, _) => Wanted::SystemWide,
        (Scope::Process | Scope::Given, Some(pid)) if !is_own(pid) => Wanted::Others,
        (Scope::Process | Scope::Given, _)
            if matches!(measure, Measure::ContextSwitches | Measure::Waits) =>
        {
            Wanted::ContextSwitches
        }
        (Scope::Process | Scope::Given, _) => Wanted::OwnUser,
    }
}
