//! Agent side of `process_inspect`.
//!
//! Counters at both ends of the window, and in between samples of what the threads wait in.

mod end;
mod report;
mod samples;
mod threads;
mod used;

use crate::{
    call::Context,
    instruments::{
        Collect,
        cgroup_levels::CgroupLevels,
        identity,
        one_process::{Life, alive},
        process_files::ProcessFiles,
    },
};
use end::End;
use protocol::{
    error::AgentError,
    instruments::process_inspect::{ProcessInspect, Report, Request},
    message::Meta,
};
use samples::Sampler;
use std::time::{Duration, Instant};

impl Collect for ProcessInspect {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let files = ProcessFiles { pid: request.pid, context };
        // A snapshot of one instant begins there.
        context.root.pass(false);
        identity::check(request.start_ticks, &files)?;
        let levels = CgroupLevels::of(&alive(&files));
        let window = Duration::from_millis(request.window_ms.into());
        let began = context.root.monotonic();
        let first = End::read(&files, &levels)?;
        let first = match context.root.has_two_instants() {
            Ok(()) => first,
            Err(reason) => first.without_counters(&reason),
        };
        let life = Life::of(&first.line, &files, began);
        let mut sampler = Sampler::new(files, &first.threads);
        pass(&life, &mut sampler, window)?;
        let last = End::read(&files, &levels).map_err(|error| {
            let is_gone = matches!(error, AgentError::NoSuchProcess { .. });
            if is_gone { life.ended() } else { error }
        })?;
        if last.line.start_ticks != first.line.start_ticks || life.is_over() {
            return Err(life.ended());
        }
        report::assemble(&request, &first, &last, sampler, context)
    }
}

/// Lets the window pass, and looks at the threads as often as it can.
///
/// # Errors
///
/// As for [`Life::wait`].
fn pass(
    life: &Life<'_, '_>,
    sampler: &mut Sampler<'_, '_>,
    window: Duration,
) -> Result<(), AgentError> {
    let context = life.files.context;
    // Thousands of threads take a while to read, on a busy machine longer than the window: that
    // begins behind it, or no look would fit.
    let started = Instant::now();
    if context.root.is_snapshot() || window.is_zero() {
        // Between the two ends there is nothing to be looked at.
        sampler.look();
        context.wait_until(started, window, window)?;
        if context.root.has_two_instants().is_ok() {
            sampler.look();
        }
        return Ok(());
    }
    while let Some(at) = sampler.next_at(started.elapsed(), window) {
        life.wait(started, at, window)?;
        sampler.look();
    }
    life.wait(started, window, window)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::FakeMachine;
    use std::process::Command;

    #[test]
    fn a_process_that_ends_ends_the_window_before_anyone_waits_for_it() {
        let machine = FakeMachine::live();
        let mut child = Command::new("sleep").arg("0.3").spawn().unwrap();
        let request = Request { pid: child.id(), start_ticks: 0, window_ms: 20_000, threads: 5 };
        let error = ProcessInspect::collect(request, &machine.context()).unwrap_err();
        child.wait().unwrap();
        let AgentError::EndedInWindow { pid, after_ms } = error else { panic!("{error}") };
        assert_eq!(pid, child.id());
        assert!((100..5_000).contains(&after_ms), "{after_ms}");
    }
}
