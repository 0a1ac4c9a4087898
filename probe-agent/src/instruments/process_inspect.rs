//! Agent side of `process_inspect`.
//!
//! Counters at both ends of the window, and in between samples of what the threads wait in.

mod cgroup_levels;
mod end;
mod report;
mod samples;
mod threads;
mod used;

use crate::{
    call::Context,
    instruments::{Collect, identity, process_files::ProcessFiles},
    proc::{KeptFile, pid_stat},
};
use cgroup_levels::CgroupLevels;
use end::{End, Line};
use protocol::{
    error::AgentError,
    instruments::process_inspect::{ProcessInspect, Report, Request},
    message::Meta,
    observed::Feature,
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
        life.pass(&mut sampler, window)?;
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

/// The files of the process, or of a thread that lives where the first one has ended.
fn alive<'c, 's>(files: &ProcessFiles<'c, 's>) -> ProcessFiles<'c, 's> {
    let find = |text: &[u8]| Ok(files.of_a_living_thread(&pid_stat::parse(text)?));
    files.parsed("stat", Feature::Field, find).ok().flatten().unwrap_or(*files)
}

/// Whether the process that is measured still lives.
struct Life<'c, 's> {
    files: ProcessFiles<'c, 's>,
    began: Duration,
    /// Its line, kept open: the kernel reads no later process's through it.
    line: Option<KeptFile>,
    /// It had ended before the window; what is measured is what is left of it.
    was_over: bool,
}

impl<'c, 's> Life<'c, 's> {
    fn of(line: &Line, files: &ProcessFiles<'c, 's>, began: Duration) -> Self {
        let kept = files.context.root.keep_proc(&format!("{}/stat", files.pid)).ok();
        Self { files: *files, began, line: kept, was_over: line.is_over() }
    }

    /// Lets the window pass, and looks at the threads as often as it can.
    ///
    /// # Errors
    ///
    /// As for [`Life::wait`].
    fn pass(&self, sampler: &mut Sampler<'_, '_>, window: Duration) -> Result<(), AgentError> {
        let context = self.files.context;
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
            self.wait(started, at, window)?;
            sampler.look();
        }
        self.wait(started, window, window)
    }

    /// Lets time pass until `end` after `started`, or until the process ends.
    ///
    /// # Errors
    ///
    /// That it ended, or as for [`Context::check`].
    fn wait(&self, started: Instant, end: Duration, window: Duration) -> Result<(), AgentError> {
        /// A process that ends is noticed so late, at most.
        const STEP: Duration = Duration::from_millis(50);
        while started.elapsed() < end {
            let next = end.min(started.elapsed() + STEP);
            self.files.context.wait_until(started, next, window)?;
            if self.is_over() {
                return Err(self.ended());
            }
        }
        Ok(())
    }

    /// Whether it ended, also if its parent has not waited for it yet.
    fn is_over(&self) -> bool {
        let Some(line) = &self.line else { return false };
        let mut room = [0; 2048];
        match line.read(&mut room) {
            Ok(text) => {
                let stat = pid_stat::parse(text);
                !self.was_over
                    && stat.is_ok_and(|stat| Line::of(&stat, self.files.context.root).is_over())
            }
            Err(error) => error.is_gone(),
        }
    }

    fn ended(&self) -> AgentError {
        let after = self.files.context.root.monotonic().saturating_sub(self.began).as_millis();
        let after_ms = u64::try_from(after).unwrap_or(u64::MAX);
        AgentError::EndedInWindow { pid: self.files.pid, after_ms }
    }
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
