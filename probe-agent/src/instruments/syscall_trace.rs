//! Agent side of `syscall_trace`.
//!
//! Engines differ in how they see system calls and in what it costs; each adds up what it saw to the
//! same rows, and what is made of these exists once.

mod call;
mod ebpf;
mod engine;
mod report;
mod seen;

use crate::{
    call::Context,
    instruments::{Collect, sampling::Subject},
};
use engine::{Asked, NoTrace, Run};
use protocol::{
    error::AgentError,
    instruments::syscall_trace::{AskedEngine, Report, Request, SyscallTrace},
    message::Meta,
};

/// Engines that are taken without being asked for by name, the best first.
const UNASKED: [Run; 1] = [ebpf::trace];

/// The engine of a name, where there is one.
const fn named(engine: AskedEngine) -> Option<Run> {
    match engine {
        AskedEngine::Ebpf => Some(ebpf::trace),
        AskedEngine::Auto
        | AskedEngine::Tracepoints
        | AskedEngine::Looks
        | AskedEngine::Ptrace
        | AskedEngine::Strace
        | AskedEngine::Perf
        | AskedEngine::Bpftrace => None,
    }
}

impl Collect for SyscallTrace {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if context.root.is_snapshot() {
            return Err(AgentError::OnlyOfTheMachine);
        }
        let subject = Subject::of(request.of(), (request.pid, request.start_ticks), context)?;
        let asked = Asked::new(&request, &subject);
        let named = named(request.engine);
        let engines: &[Run] = match (request.engine, &named) {
            (AskedEngine::Auto, _) => &UNASKED,
            (_, Some(run)) => std::slice::from_ref(run),
            (_, None) => &[],
        };
        let mut refused = Vec::new();
        for run in engines {
            match run(&asked, context) {
                Ok(trace) => return report::answer(&asked, trace, refused, context),
                Err(NoTrace::Refused(refusal)) => refused.push(*refusal),
                Err(NoTrace::Ended(error)) => return Err(error),
            }
        }
        Err(AgentError::NotTraced(refused))
    }
}
