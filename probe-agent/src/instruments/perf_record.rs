//! Agent side of `perf_record`.
//!
//! Sample, name, keep, and answer from what was kept, as every further question is.

mod counting;
mod looking;
mod off_cpu;
mod report;

use crate::{
    call::Context,
    instruments::{
        Collect,
        sampling::{Passing, Subject},
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
    instruments::perf_record::{Analysis, Mode, PerfRecord, Report, Request, Walk},
    message::Meta,
};
use std::time::Duration;

impl Collect for PerfRecord {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if context.root.is_snapshot() {
            return Err(AgentError::OnlyOfTheMachine);
        }
        let whose = (request.pid, request.start_ticks);
        let subject = Subject::of(request.of(), whose, context)?;
        match request.analysis {
            Analysis::Stacks if request.mode == Mode::OffCpu => {
                off_cpu::answer(&request, subject, context)
            }
            Analysis::Stacks => stacks(&request, subject, context),
            Analysis::Counters => counting::answer(&request, subject, context),
        }
    }
}

/// What is asked of the sampler.
fn settings(request: &Request, subject: &Subject) -> Settings {
    Settings {
        measure: match request.mode {
            Mode::Cpu => Measure::Cpu,
            Mode::PageFaults => Measure::PageFaults,
            // Waits begin at a switch.
            Mode::ContextSwitches | Mode::OffCpu => Measure::ContextSwitches,
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
    let made = match made {
        Ok(made) => made,
        Err(NoRecording::Window(error)) => return Err(error),
        Err(NoRecording::Sampler(error)) => {
            let error = (error, settings.measure);
            let found = looking::instead(request, subject, error, context)?;
            return report::answer(request, found, context);
        }
    };
    let took = window.passed();
    let names = naming::name(&made, context.root, &mut || context.check().is_ok());
    context.add_cpu(names.cpu_elsewhere);
    context.check()?;
    let found = report::sampled(request, (subject, made, names, took), context);
    report::answer(request, found, context)
}
