//! What an engine is asked, and what it may answer.

use super::{call::Call, seen::Trace};
use crate::{call::Context, instruments::sampling::Subject};
use protocol::{
    error::AgentError,
    instruments::{
        Instrument as _,
        capabilities::Refusal,
        syscall_trace::{Mode, Request, SyscallTrace},
    },
};
use std::time::Duration;

/// Watches system calls through a window and adds them up.
pub(super) type Run = fn(&Asked<'_>, &Context<'_>) -> Result<Trace, NoTrace>;

/// What an engine is asked.
pub(super) struct Asked<'r> {
    /// The question.
    pub(super) request: &'r Request,
    /// Of what.
    pub(super) subject: &'r Subject,
    /// Only these calls; all where it is empty.
    pub(super) calls: Vec<Call>,
}

impl<'r> Asked<'r> {
    pub(super) fn new(request: &'r Request, subject: &'r Subject) -> Self {
        Self { request, subject, calls: Self::calls_of(request) }
    }

    /// The calls that a question names.
    pub(super) fn calls_of(request: &Request) -> Vec<Call> {
        request.calls.iter().flat_map(|name| Call::all_named(name.as_str())).collect()
    }

    /// How long is watched.
    pub(super) fn window(&self) -> Duration {
        Duration::from_millis(SyscallTrace::window_ms(self.request).into())
    }

    /// Whether subjects are wanted.
    pub(super) fn wants_subjects(&self) -> bool {
        self.request.mode == Mode::Detailed
    }

    /// Whether a call is one of those that were asked for.
    pub(super) fn wants(&self, call: Call) -> bool {
        self.request.calls.is_empty() || self.calls.contains(&call)
    }
}

/// Why an engine gave no trace.
#[derive(Debug)]
pub(super) enum NoTrace {
    /// It cannot run here: the next one is tried.
    Refused(Box<Refusal>),
    /// The call is over.
    Ended(AgentError),
}

impl From<AgentError> for NoTrace {
    fn from(error: AgentError) -> Self {
        Self::Ended(error)
    }
}

impl From<Refusal> for NoTrace {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::instruments::syscall_trace::AskedEngine;

    #[test]
    fn only_calls_that_were_asked_for_are_wanted() {
        let subject = Subject::host();
        let call = |name: &str| Call::all_named(name).into_iter().next().unwrap();
        let all = Request { mode: Mode::Detailed, ..Request::default() };
        let some = Request {
            calls: vec!["openat".into()],
            engine: AskedEngine::Ptrace,
            window_ms: 9_000,
            ..Request::default()
        };
        let (all, some) = (Asked::new(&all, &subject), Asked::new(&some, &subject));
        assert!(all.wants(call("close")) && all.wants_subjects());
        assert!(some.wants(call("openat")) && !some.wants(call("close")));
        assert_eq!(some.window(), Duration::from_millis(2_000));
    }
}
