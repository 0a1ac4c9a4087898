//! The rules, one for each class.

mod blocked;
mod processor;
mod state;

use super::Class;
use crate::verdict::finding::Finding;
use protocol::{
    instruments::process_inspect::{Report, WaitKind},
    observed::{Observed, Reason},
};

/// What a rule looks at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts<'r> {
    /// What was measured.
    pub(super) report: &'r Report,
    /// The length of the window in milliseconds.
    pub(super) window_ms: Option<u64>,
}

/// A rule looks at what was measured and says what it found.
pub(super) type Rule = fn(&Facts<'_>) -> Finding;

/// The more specific first.
pub(super) const ALL: [(Class, Rule); 12] = [
    (Class::Zombie, state::zombie),
    (Class::Stopped, state::stopped),
    (Class::OutOfDescriptors, state::out_of_descriptors),
    (Class::Throttled, processor::throttled),
    (Class::Starved, processor::starved),
    (Class::MemoryBound, blocked::memory_bound),
    (Class::BlockedOnIo, blocked::blocked_on_io),
    (Class::BlockedOnLock, blocked::blocked_on_lock),
    (Class::UserCpu, processor::user_cpu),
    (Class::SystemCpu, processor::system_cpu),
    (Class::Sleeping, state::sleeping),
    (Class::Idle, state::idle),
];

/// Share of the window that is worth a class of its own, in percent; of processor time, in percent
/// of one processor.
const WORTH_NAMING_PCT: f64 = 10.0;

/// What a rule says where what it needs was not measured.
fn cannot_tell(reason: &Reason) -> Finding {
    Finding::CannotTell { reason: reason.to_string() }
}

const fn fails() -> Finding {
    Finding::Fails { evidence: None }
}

impl Facts<'_> {
    /// Processor time of its own, in percent of one processor.
    fn ran_pct(&self) -> Observed<f64> {
        let cpu = &self.report.cpu;
        cpu.user_pct
            .clone()
            .zip(cpu.system_pct.clone())
            .map(|(user, kernel)| user.get() + kernel.get())
    }

    /// Time that threads were blocked in one of these kinds, summed over threads, at most one
    /// window, in percent. Without the scheduler's account, the samples have to do.
    fn blocked_pct(&self, kinds: &[WaitKind]) -> f64 {
        let waits = &self.report.waits;
        let blocked: f64 = waits
            .groups
            .iter()
            .filter(|group| kinds.contains(&group.kind))
            .map(|group| match &group.blocked_pct {
                Observed::Known(blocked) => blocked.get(),
                Observed::Unknown(_) => group.share_pct.get() * f64::from(waits.threads_sampled),
            })
            .sum();
        blocked.min(100.0)
    }
}
