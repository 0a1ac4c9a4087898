//! Agent side of `perf_record`.
//!
//! Sample, name, keep, and answer from what was kept, as every further question is.

mod report;

use crate::{
    call::Context,
    instruments::{
        Collect,
        sampling::{self, Passing, Subject},
    },
    perf::sampler::{Measure, Settings, UserStack},
    stack::{
        naming,
        record::{NoRecording, record},
        recording::Limits,
    },
};
use protocol::{
    error::AgentError,
    instruments::perf_record::{Analysis, Mode, Of, PerfRecord, Report, Request, Walk},
    message::Meta,
};
use std::time::Duration;

impl Collect for PerfRecord {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if context.root.is_snapshot() {
            return Err(AgentError::OnlyOfTheMachine);
        }
        let subject = subject(&request, context)?;
        match request.analysis {
            Analysis::Stacks => stacks(&request, subject, context),
        }
    }
}

fn subject(request: &Request, context: &Context<'_>) -> Result<Subject, AgentError> {
    match (request.of(), request.pid) {
        (Of::Process, Some(pid)) => Subject::process(pid, request.start_ticks, context),
        (Of::Cgroup, Some(pid)) => Subject::control_group(pid, request.start_ticks, context),
        (Of::Host, None) => Ok(Subject::host()),
        // The check of parameters lets none of these pass.
        (Of::Process | Of::Cgroup, None) | (Of::Host, Some(_)) => {
            Err(AgentError::ParametersRefused)
        }
    }
}

/// What is asked of the sampler.
fn settings(request: &Request, subject: &Subject) -> Settings {
    Settings {
        measure: match request.mode {
            Mode::Cpu => Measure::Cpu,
            Mode::PageFaults => Measure::PageFaults,
            Mode::ContextSwitches => Measure::ContextSwitches,
            Mode::CacheMisses => Measure::CacheMisses,
        },
        hertz: request.hertz.into(),
        stack: match request.stacks {
            Walk::UnwindTables => {
                UserStack::UnwindTables { dump_bytes: request.dump_kib.saturating_mul(1024) }
            }
            Walk::FramePointers => UserStack::FramePointers,
        },
        with_kernel: request.with_kernel,
        ..Settings::cpu(subject.sampled.clone())
    }
}

/// Functions and stacks.
fn stacks(
    request: &Request,
    subject: Subject,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    let settings = settings(request, &subject);
    let mut window = Passing::new(context, Duration::from_millis(request.window_ms.into()));
    let made = record(context.root, &settings, Limits::default(), &mut window);
    let made = made.map_err(|why| match why {
        NoRecording::Window(error) => error,
        NoRecording::Sampler(error) => {
            sampling::error(error, (&subject, settings.measure), context)
        }
    })?;
    let took = window.passed();
    let names = naming::name(&made, context.root, &mut || context.check().is_ok());
    context.add_cpu(names.cpu_elsewhere);
    context.check()?;
    report::answer(request, (subject, made, names, took), context)
}
