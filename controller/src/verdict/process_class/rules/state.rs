//! Rules about what a process is, rather than what it waits for.

use super::{Facts, Finding, WORTH_NAMING_PCT, cannot_tell, fails};
use protocol::{
    instruments::{process_inspect::WaitKind, process_list::State},
    observed::Observed,
};

pub(super) fn zombie(facts: &Facts<'_>) -> Finding {
    let process = &facts.report.process;
    // A leader that ended before its threads looks like one, and is not.
    if process.state != State::Zombie || process.threads > 1 {
        return fails();
    }
    Finding::Holds {
        weight: 100.0,
        evidence: format!(
            "it has ended; its parent, pid {}, has not waited for it",
            process.parent_pid
        ),
    }
}

pub(super) fn stopped(facts: &Facts<'_>) -> Finding {
    let stopped = facts.blocked_pct(&[WaitKind::Stopped]);
    if stopped < WORTH_NAMING_PCT {
        return fails();
    }
    let by_whom = match facts.report.process.state {
        State::Stopped => "by a signal; SIGCONT lets it go on",
        State::Traced => "by a tracer, a debugger for one",
        State::Running
        | State::Sleeping
        | State::UninterruptibleSleep
        | State::Zombie
        | State::Idle
        | State::Dead
        | State::Other => "by a signal, a tracer, or because its cgroup was frozen",
    };
    Finding::Holds {
        weight: stopped,
        evidence: format!("it was stopped for {stopped:.0} % of the window {by_whom}"),
    }
}

pub(super) fn out_of_descriptors(facts: &Facts<'_>) -> Finding {
    const NEARLY: f64 = 0.9;
    let descriptors = &facts.report.descriptors;
    match descriptors.open.clone().zip(descriptors.limit.clone()) {
        Observed::Known((open, limit)) if limit > 0 && open as f64 >= NEARLY * limit as f64 => {
            Finding::Holds {
                weight: 99.0,
                evidence: format!("{open} of {limit} file descriptors are open"),
            }
        }
        Observed::Known(_) => fails(),
        Observed::Unknown(reason) if reason.is_absence() => fails(),
        Observed::Unknown(reason) => Finding::CannotTell { reason: reason.to_string() },
    }
}

/// Wake-ups that tell a process that waits for work from one that does nothing.
const AWAKE_PER_S: f64 = 20.0;

/// Whether it was awake now and then, having run so much. How often it woke may not be known.
fn is_awake(facts: &Facts<'_>, ran_pct: f64) -> bool {
    let wakes = facts.report.cpu.voluntary_switches_per_s.known();
    ran_pct >= 1.0 || wakes.is_some_and(|rate| rate.get() >= AWAKE_PER_S)
}

fn wakes(facts: &Facts<'_>) -> String {
    match &facts.report.cpu.voluntary_switches_per_s {
        Observed::Known(rate) => format!("woke {:.0} times/s", rate.get()),
        Observed::Unknown(_) => "how often it woke was not measured".to_owned(),
    }
}

/// A class only where nothing else explains the time, so it weighs little.
pub(super) fn sleeping(facts: &Facts<'_>) -> Finding {
    let ran_pct = match facts.ran_pct() {
        Observed::Known(ran_pct) => ran_pct,
        Observed::Unknown(reason) => return cannot_tell(&reason),
    };
    if !is_awake(facts, ran_pct) || ran_pct >= WORTH_NAMING_PCT {
        return fails();
    }
    Finding::Holds {
        weight: 5.0,
        evidence: format!(
            "it ran for {ran_pct:.1} % of the window; {}; `waits` says what for",
            wakes(facts)
        ),
    }
}

pub(super) fn idle(facts: &Facts<'_>) -> Finding {
    let ran_pct = match facts.ran_pct() {
        Observed::Known(ran_pct) => ran_pct,
        Observed::Unknown(reason) => return cannot_tell(&reason),
    };
    if is_awake(facts, ran_pct) {
        return fails();
    }
    Finding::Holds {
        weight: 1.0,
        evidence: format!("it ran for {ran_pct:.1} % of the window; {}", wakes(facts)),
    }
}
