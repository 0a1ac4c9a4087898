//! Agent side of `capabilities`.
//!
//! The situation is read once; then everything is tried, side by side; then each refusal is held
//! against the situation. What was found is kept for the session, because it costs something and
//! seldom changes.

mod decide;
pub mod refusals;
mod situation;
mod trials;

use crate::{
    artifacts::Kind,
    call::Context,
    instruments::Collect,
    order,
    os::{clock, spawner},
};
use protocol::{
    error::AgentError,
    instruments::{
        Report as AnyReport,
        capabilities::{Capabilities, Check, CheckId, Found, Report, Request, State},
    },
    loss::{CutBy, Lost, Overhead, Truncation},
    message::{Engine, Meta},
    view::json,
};
use situation::Situation;
use std::{sync::Arc, time::Duration};

impl Collect for Capabilities {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if context.root.is_snapshot() {
            return Err(AgentError::OnlyOfTheMachine);
        }
        let remembered = if request.refresh { None } else { recall(context) };
        let (mut found, engine, cpu) = match remembered {
            Some(found) => (found, Engine::Stored, Duration::ZERO),
            None => {
                let (found, cpu) = look(context);
                remember(&found, context);
                (found, Engine::Trials, cpu)
            }
        };
        context.check()?;
        found.shows_all = request.all;
        let overhead = context.overhead();
        let others_ms = cpu.as_micros() as f64 / 1000.0;
        let overhead = Overhead { agent_cpu_ms: overhead.agent_cpu_ms + others_ms, ..overhead };
        Ok(fitted(found, engine, overhead, context))
    }
}

/// Tries everything. Gives the processor time too that other threads and children of the agent
/// needed for it.
fn look(context: &Context<'_>) -> (Found, Duration) {
    let of_others = || clock::children_cpu() + spawner::programs_cpu();
    let (started, before) = (clock::monotonic(), of_others());
    let situation = Arc::new(Situation::read(context.root));
    let mut tried = trials::run(context.root, &situation);
    explain(&mut tried.checks);
    order::by_key(&mut tried.checks, |check| (rank(check.state), check.id));
    let took = clock::monotonic().saturating_sub(started);
    let found = Found {
        shows_all: false,
        age_ms: 0,
        took_ms: u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
        here: situation.here,
        surroundings: situation.surroundings(),
        checks: tried.checks,
    };
    (found, tried.cpu + of_others().saturating_sub(before))
}

/// A program that failed for what the agent is refused too, failed for that.
fn explain(checks: &mut [Check]) {
    for (program, own) in [
        (CheckId::ToolPerf, CheckId::PerfOwnUser),
        (CheckId::ToolStrace, CheckId::PtraceChild),
        (CheckId::ToolBpftrace, CheckId::BpfTracepoint),
    ] {
        let refused = |check: &&Check| check.id == own && check.state == State::Refused;
        let Some(barriers) = checks.iter().find(refused).map(|check| check.barriers.clone()) else {
            continue;
        };
        for check in checks.iter_mut() {
            if check.id == program && check.state == State::Refused {
                check.barriers.clone_from(&barriers);
            }
        }
    }
}

/// What does not work comes first; what was not wanted, or could not be tried, after what was
/// refused.
const fn rank(state: State) -> u8 {
    match state {
        State::Refused
        | State::InPart
        | State::NotInKernel
        | State::SwitchedOff
        | State::TimedOut { .. } => 0,
        State::NotInstalled | State::NotTried => 1,
        State::Works => 2,
    }
}

/// Keeps what was found, with the time, for the next call of the session.
fn remember(found: &Found, context: &Context<'_>) {
    if let Ok(bytes) = postcard::to_stdvec(&(clock::monotonic(), found)) {
        context.artifacts().replace(Kind::Capabilities, bytes);
    }
}

/// What was found before in this session, with its age.
fn recall(context: &Context<'_>) -> Option<Found> {
    let bytes = context.artifacts().find_kind(Kind::Capabilities)?;
    let (at, found): (Duration, Found) = postcard::from_bytes(&bytes).ok()?;
    let age = clock::monotonic().saturating_sub(at).as_millis();
    // What is 0 milliseconds old is of this very call.
    let age_ms = u64::try_from(age).unwrap_or(u64::MAX).max(1);
    Some(Found { age_ms, ..found })
}

/// The answer with as many checks as its budget has room for; what works goes first.
fn fitted(
    mut found: Found,
    engine: Engine,
    overhead: Overhead,
    context: &Context<'_>,
) -> (Report, Meta) {
    let total = found.checks.len() as u64;
    loop {
        let shown = found.checks.len() as u64;
        let meta = Meta {
            engine,
            window_ms: None,
            truncation: Truncation {
                shown,
                total,
                weight_cut_pct: None,
                cut_by: if shown < total { CutBy::AnswerBytes } else { CutBy::Nothing },
            },
            artifact: None,
            lost: Lost::default(),
            overhead,
            redacted: 0,
        };
        let report = Report { found: found.clone() };
        let answer = AnyReport::Capabilities(report.clone());
        let fits = json::bytes(&answer, &meta) <= context.budget.answer_bytes as usize;
        if fits || found.checks.is_empty() {
            return (report, meta);
        }
        let last: Option<Check> = found.checks.pop();
        drop(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::FakeMachine;
    use protocol::instruments::capabilities::Barrier;

    #[test]
    fn a_program_fails_for_what_the_agent_is_refused_too() {
        let refused =
            |id, barrier| Check { barriers: vec![barrier], ..Check::new(id, State::Refused) };
        let failed = || Barrier::ProgramFailed { code: Some(255) };
        let mut checks = [
            refused(CheckId::PerfOwnUser, Barrier::UserNamespace),
            refused(CheckId::ToolPerf, failed()),
            Check::new(CheckId::PtraceChild, State::Works),
            refused(CheckId::ToolStrace, failed()),
            refused(CheckId::BpfTracepoint, Barrier::UserNamespace),
            Check::new(CheckId::ToolBpftrace, State::Works),
        ];
        explain(&mut checks);
        let barriers = checks.each_ref().map(|check| check.barriers.clone());
        assert_eq!(barriers[1], [Barrier::UserNamespace]);
        assert_eq!(barriers[3], [failed()]);
        assert!(barriers[5].is_empty());
    }

    #[test]
    fn what_does_not_work_comes_first_and_the_answer_keeps_to_its_budget() {
        let machine = FakeMachine::live();
        let mut context = machine.context();
        let (report, meta) = Capabilities::collect(Request::default(), &context).unwrap();
        let checks = &report.found.checks;
        assert_eq!(checks.len(), CheckId::ALL.len());
        assert!(checks.is_sorted_by_key(|check| (rank(check.state), check.id)));
        assert_eq!((meta.engine, meta.truncation.cut_by), (Engine::Trials, CutBy::Nothing));
        // What is left is what matters most.
        context.budget.answer_bytes = 2_600;
        let (cut, meta) = Capabilities::collect(Request::default(), &context).unwrap();
        let shown = cut.found.checks.len();
        assert!(shown < checks.len() && checks.starts_with(&cut.found.checks), "{shown}");
        assert_eq!((meta.engine, meta.truncation.cut_by), (Engine::Stored, CutBy::AnswerBytes));
        assert_eq!(meta.truncation.total, checks.len() as u64);
    }
}
