//! Trials of foreign programs: found in the standard folders, their version, and one harmless run.

use super::PATIENCE_WITH_PROGRAMS;
use crate::{
    instruments::capabilities::situation::Situation,
    os::{
        observer::{End, Errand, Found, Observer, Ran},
        spawner,
    },
    proc::Root,
};
use protocol::{
    host_text::HostText,
    instruments::capabilities::{Barrier, Check, CheckId, Measure, State},
};
use std::time::Instant;

/// Bytes of what a program said that are told.
const SAID_BYTES: usize = 200;

/// Bytes of a version that are told.
const VERSION_BYTES: usize = 60;

pub(super) fn run(observer: Observer, _: &Root, _: &Situation, checks: &mut Vec<Check>) {
    let id = check_of(observer);
    if let Some((barrier, said)) = barred(&observer.find()) {
        let is_there = barrier != Barrier::NotInstalled;
        let state = if is_there { State::Refused } else { State::NotInstalled };
        checks.push(Check { barriers: vec![barrier], said, ..Check::new(id, state) });
        return;
    }
    let deadline = Instant::now() + PATIENCE_WITH_PROGRAMS;
    let version = spawner::run(observer, Errand::Version, deadline);
    let version = first_line(&version.output).map(|line| HostText::capped(line, VERSION_BYTES));
    let Ran { end, output } = spawner::run(observer, Errand::Trial, deadline);
    checks.push(outcome(id, end, &output, version.map(Measure::Version)));
}

/// The check that tries a program.
pub(in crate::instruments::capabilities) const fn check_of(observer: Observer) -> CheckId {
    match observer {
        Observer::Perf => CheckId::ToolPerf,
        Observer::Strace => CheckId::ToolStrace,
        Observer::Bpftrace => CheckId::ToolBpftrace,
    }
}

/// Why a program is not run at all, and what there is to say of it; `None` where it can be.
pub(in crate::instruments::capabilities) fn barred(
    found: &Found,
) -> Option<(Barrier, Option<HostText>)> {
    match found {
        Found::At(_) => None,
        Found::Nowhere => Some((Barrier::NotInstalled, None)),
        // It is somebody's who may not be trusted with what this login may.
        Found::Untrusted(path) => {
            let said = format!("not run: others than root may change {}", path.display());
            let said = HostText::capped(said.as_bytes(), SAID_BYTES);
            Some((Barrier::ProgramFailed { code: None }, Some(said)))
        }
    }
}

fn outcome(id: CheckId, end: End, output: &[u8], measure: Option<Measure>) -> Check {
    let check = |state| Check { measure: measure.clone(), ..Check::new(id, state) };
    let code = match end {
        End::Code(0) => return check(State::Works),
        End::TimedOut => {
            let after_ms = crate::call::millis(PATIENCE_WITH_PROGRAMS);
            return check(State::TimedOut { after_ms });
        }
        End::Code(code) => Some(code),
        End::Signal | End::NotStarted => None,
    };
    Check {
        barriers: vec![Barrier::ProgramFailed { code }],
        said: what_it_said(output),
        ..check(State::Refused)
    }
}

fn first_line(output: &[u8]) -> Option<&[u8]> {
    output.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).find(|line| !line.is_empty())
}

/// What a program said, as one line; `None` where it was silent.
pub(in crate::instruments::capabilities) fn what_it_said(output: &[u8]) -> Option<HostText> {
    let lines = output.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let said = lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(&b' ');
    (!said.is_empty()).then(|| HostText::capped(&said, SAID_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_a_program_ended_is_what_its_trial_came_to() {
        let version = || Some(Measure::Version(HostText::new(b"perf version 6.1")));
        let ended = |end, output: &[u8]| outcome(CheckId::ToolPerf, end, output, version());
        assert_eq!(ended(End::Code(0), b"").state, State::Works);
        assert!(matches!(ended(End::TimedOut, b"").state, State::TimedOut { .. }));
        let failed = ended(End::Code(255), b"Error:\n  Access \x1b[31mlimited\n");
        assert_eq!(failed.state, State::Refused);
        assert_eq!(failed.said.unwrap().as_str(), "Error: Access \\x1b[31mlimited");
        assert_eq!(failed.barriers, [Barrier::ProgramFailed { code: Some(255) }]);
        assert_eq!(ended(End::NotStarted, b"").said, None);
    }
}
