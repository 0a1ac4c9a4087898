//! Agent side of `syscall_trace`.
//!
//! Engines differ in how they see system calls and in what it costs; each adds up what it saw to the
//! same rows, and what is made of these exists once.

mod about;
mod call;
mod cost;
mod ebpf;
mod engine;
mod external;
mod launched;
mod looks;
mod naming;
mod other_end;
mod pairing;
mod ptrace;
mod report;
mod seen;
mod sockets;
mod threads;
mod tracepoints;

use crate::{
    call::Context,
    instruments::{Collect, sampling::Subject},
};
use engine::{Asked, NoTrace, Run};
use protocol::{
    error::AgentError,
    instruments::syscall_trace::{AskedEngine, Mode, Report, Request, SyscallTrace},
    message::Meta,
};

/// Engines that are taken without being asked for by name, the best first.
const UNASKED: [Run; 3] = [ebpf::trace, tracepoints::run, looks::run];

/// The engine of a name, where there is one.
fn named(engine: AskedEngine) -> Option<Run> {
    match engine {
        AskedEngine::Ebpf => Some(ebpf::trace),
        AskedEngine::Tracepoints => Some(tracepoints::run),
        AskedEngine::Looks => Some(looks::run),
        AskedEngine::Ptrace => Some(ptrace::run),
        AskedEngine::Strace => Some(external::strace),
        AskedEngine::Perf => Some(external::perf),
        AskedEngine::Bpftrace => Some(external::bpftrace),
        AskedEngine::Auto => None,
    }
}

/// The numbers of the calls that are to be seen: of this machine's own programs, and of 32-bit ones. Nothing
/// where all are. They are those that are asked for, and those by which is known what these are about.
pub(crate) fn numbers(request: &Request) -> Option<(Vec<u32>, Vec<u32>)> {
    let mut calls = Asked::calls_of(request);
    if request.mode == Mode::Detailed {
        calls.extend(about::changing_descriptors());
    }
    let numbers = |is_32_bit: bool| {
        let calls = calls.iter().filter(|call| call.is_32_bit == is_32_bit);
        calls.map(|call| call.number).collect()
    };
    (!request.calls.is_empty()).then(|| (numbers(false), numbers(true)))
}

impl Collect for SyscallTrace {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if context.root.is_snapshot() {
            return Err(AgentError::OnlyOfTheMachine);
        }
        if let Some(launch) = context.launch {
            return launched::answer(&request, launch, context);
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
                Ok(mut trace) => {
                    other_end::find(&mut trace, context.root);
                    return report::answer(&asked, trace, refused, context);
                }
                Err(NoTrace::Refused(refusal)) => refused.push(*refusal),
                Err(NoTrace::Ended(error)) => return Err(error),
            }
        }
        Err(AgentError::NotTraced(refused))
    }
}
