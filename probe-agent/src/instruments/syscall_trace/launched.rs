//! Engine: the agent as a tracer, of a command that it launched for the person who asks.
//!
//! The same tracer and the same pairing as of [`super::ptrace`], from the command's first call on and until
//! its end. Who launches a command waits for it, so neither the two seconds hold for it nor the care for a
//! service. Only the agent's own command line leads here.

use super::{
    engine::Asked,
    ptrace::{Traced, trace},
    report,
};
use crate::{
    call::Context,
    instruments::{
        capabilities::refusals,
        sampling::{Passing, Subject},
    },
    launch::Launch,
    os::{
        launcher::{self, Interrupt},
        tracer::{self, Sight},
    },
    perf::sampler,
    stack::record::Window as _,
};
use protocol::{
    error::{AgentError, NoTracer},
    instruments::syscall_trace::{Report, Request},
    message::Meta,
    recording::Scope,
};
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// For how long a command may end by itself that a terminal has asked to.
const PATIENCE: Duration = Duration::from_secs(2);

/// Since when the command is waited for that was asked to end.
#[derive(Debug, Default)]
struct Patience(Option<Instant>);

impl Patience {
    fn is_over(&mut self, interrupt: Interrupt) -> bool {
        match interrupt {
            Interrupt::None => false,
            Interrupt::OfAll => self.0.get_or_insert_with(Instant::now).elapsed() > PATIENCE,
            Interrupt::OfAgent => true,
        }
    }
}

/// Lets the command run, and answers when it has ended.
///
/// # Errors
///
/// That it could not be traced, or that it was not run at all: why is told to `launch`.
pub(super) fn answer(
    request: &Request,
    launch: &Launch,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    let root = context.root;
    let subject = Subject {
        scope: Scope::Process,
        pid: Some(launch.pid),
        name: Some(launch.name()),
        sampled: sampler::Scope::Process(launch.pid),
    };
    let asked = Asked::new(request, &subject);
    let mut traced = Traced::new(launch.pid, &asked, root);
    let mut window = Passing::new(context, asked.window());
    let (mut withdrawn, mut patience) = (None, Patience::default());
    // The tracer ends it at the end of the window, and says when that was.
    let mut goes_on = || match window.pass(Duration::ZERO) {
        Ok(_) => !patience.is_over(launcher::interrupt()),
        Err(error) => {
            withdrawn = Some(error);
            false
        }
    };
    let mut was_run = false;
    let mut take = |sight| {
        let is_run = !was_run && matches!(sight, Sight::Ran { pid, .. } if pid == launch.pid);
        traced.take(sight);
        if is_run {
            was_run = true;
            traced.pairing.launched(launch.pid);
        }
    };
    let end = tracer::follow_launched(asked.window(), &mut take, &mut goes_on)
        .map_err(AgentError::NoTracer)?;
    let not_traced = |errno: i32| {
        let errno = Errno::from_raw_os_error(errno);
        AgentError::NotTraced(vec![refusals::of_launching(root, errno)])
    };
    // It may be held and its calls not be told, before Linux 5.3: then it was not run either.
    if let Some((_, errno)) = end.refused.first() {
        return Err(not_traced(*errno));
    }
    let Some(launched) = end.launched.clone() else {
        return Err(not_traced(Errno::SRCH.raw_os_error()));
    };
    let (began_ns, ended_ns) = launched.watched_ns;
    let could_not_run = launched.not_run.is_some();
    launch.note(launched);
    if let Some(error) = withdrawn {
        return Err(error);
    }
    if could_not_run {
        // Who launched it says why.
        return Err(AgentError::NoTracer(NoTracer::Missing));
    }
    let paired = traced.pairing.finish(root, ended_ns, &[]);
    let took = Duration::from_nanos(ended_ns.saturating_sub(began_ns));
    report::answer(&asked, trace(paired, &end, took), Vec::new(), context)
}
