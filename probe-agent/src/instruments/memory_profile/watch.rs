//! Samples of the memory of a process over a window, small enough to be taken often.

use super::trend::{self, Sample};
use crate::{
    instruments::{one_process::Life, process_files::ProcessFiles},
    proc::{
        KeptFile,
        pid_status::{self, MemoryLines},
    },
    stack::record,
};
use protocol::{
    error::AgentError,
    instruments::memory_profile::Trend,
    observed::{Feature, Observed, Reason},
    units::Bytes,
};
use std::time::{Duration, Instant};

/// The shortest time between two samples. One costs about 15 us.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// Samples in a window, at most.
const MOST_SAMPLES: u32 = 100;

/// Room for `status`; longer with many groups, and then it is read anew each time.
const PIECE_BYTES: usize = 4096;

/// A process that is looked at again and again.
pub(super) struct Watch<'l, 'c, 's> {
    life: &'l Life<'c, 's>,
    /// The process's files, or those of a thread that lives where the first one ended.
    files: ProcessFiles<'c, 's>,
    status: Option<KeptFile>,
    started: Instant,
    window: Duration,
    next: Duration,
    /// When recording has to end, of the window.
    recorded_until: Duration,
    /// Processor time of the whole call at which recording ends.
    most_cpu: Option<Duration>,
    samples: Vec<(Duration, MemoryLines)>,
    /// Why the last look saw nothing.
    unseen: Option<Reason>,
}

impl<'l, 'c, 's> Watch<'l, 'c, 's> {
    /// Starts the window with the first sample.
    pub(super) fn start(
        life: &'l Life<'c, 's>,
        files: ProcessFiles<'c, 's>,
        window: Duration,
    ) -> Self {
        let status = files.context.root.keep_proc(&format!("{}/status", files.pid)).ok();
        let mut watch = Self {
            life,
            files,
            status,
            started: Instant::now(),
            window,
            next: Duration::ZERO,
            recorded_until: Duration::ZERO,
            most_cpu: None,
            samples: Vec::new(),
            unseen: None,
        };
        watch.look();
        watch
    }

    /// Lets the rest of the window pass.
    ///
    /// # Errors
    ///
    /// That the process ended, or as for [`crate::call::Context::check`].
    pub(super) fn pass_all(&mut self) -> Result<(), AgentError> {
        let root = self.files.context.root;
        if root.is_snapshot() {
            self.files.context.wait_until(self.started, self.window, self.window)?;
            if root.has_two_instants().is_ok() {
                self.look();
            }
            return Ok(());
        }
        self.pass_until(self.window)?;
        self.look();
        Ok(())
    }

    /// Lets time pass until so far into the window.
    ///
    /// # Errors
    ///
    /// As for [`Watch::pass_all`].
    pub(super) fn pass_until(&mut self, end: Duration) -> Result<(), AgentError> {
        while self.started.elapsed() < end.min(self.window) {
            self.step(end)?;
        }
        Ok(())
    }

    /// Lets time pass up to the next sample, but not beyond `until`.
    fn step(&mut self, until: Duration) -> Result<(), AgentError> {
        let end = until.min(self.next).min(self.window);
        self.life.wait(self.started, end, self.window)?;
        if self.started.elapsed() >= self.next {
            self.look();
        }
        Ok(())
    }

    fn look(&mut self) {
        let interval = (self.window / MOST_SAMPLES).max(LEAST_INTERVAL);
        while self.next <= self.started.elapsed() {
            self.next += interval;
        }
        match self.read() {
            Ok(lines) => self.samples.push((self.files.context.root.monotonic(), lines)),
            Err(reason) => self.unseen = Some(reason),
        }
    }

    fn read(&self) -> Result<MemoryLines, Reason> {
        let mut room = [0; PIECE_BYTES];
        if let Some(status) = &self.status
            && let Ok(text) = status.read(&mut room)
        {
            let lines = pid_status::parse_memory(text);
            return lines.map_err(|error| Reason::NotUnderstood(error.shown()));
        }
        self.files.parsed("status", Feature::Field, pid_status::parse_memory)
    }

    /// For how long it has gone on.
    pub(super) fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Sets when recording ends: so far into the window, or once the whole call has cost so much.
    pub(super) const fn record_until(&mut self, end: Duration, most_cpu: Duration) {
        self.recorded_until = end;
        self.most_cpu = Some(most_cpu);
    }

    /// How often it was looked at.
    pub(super) const fn count(&self) -> usize {
        self.samples.len()
    }

    /// How one kind of memory went.
    pub(super) fn trend(&self, kind: impl Fn(&MemoryLines) -> Option<Bytes>) -> Observed<Trend> {
        let lacks = Reason::KernelLacks(Feature::Field);
        let levels: Option<Vec<Sample>> =
            self.samples.iter().map(|(at, lines)| Some((*at, kind(lines)?.0))).collect();
        let Some(levels) = levels else { return Observed::Unknown(lacks) };
        let is_snapshot = self.files.context.root.is_snapshot();
        let too_few = if is_snapshot { Reason::NotInSnapshot } else { Reason::EmptyWindow };
        let unseen = || self.unseen.clone().unwrap_or(Reason::NoSamples);
        trend::trend(&levels, &too_few).ok_or_else(unseen).into()
    }

    /// What was there at the last look.
    pub(super) fn last(&self) -> Observed<MemoryLines> {
        let unseen = || self.unseen.clone().unwrap_or(Reason::NoSamples);
        self.samples.last().map(|(_, lines)| *lines).ok_or_else(unseen).into()
    }
}

impl record::Window for Watch<'_, '_, '_> {
    type End = AgentError;

    fn pass(&mut self, time: Duration) -> Result<bool, AgentError> {
        self.pass_until(self.started.elapsed() + time)?;
        let spent = self.files.context.cpu_spent();
        let costs_too_much = self.most_cpu.is_some_and(|most| spent >= most);
        Ok(self.started.elapsed() < self.recorded_until && !costs_too_much)
    }

    fn add_cpu(&mut self, spent: Duration) {
        self.files.context.add_cpu(spent);
    }
}
