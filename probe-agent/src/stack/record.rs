//! One recording, from opening to closing.

use super::{
    fold::Fold,
    recording::{Limits, Recording},
};
use crate::{
    perf::sampler::{Sampler, SamplerError, Scope, Settings},
    proc::Root,
};
use std::time::Duration;

/// What goes on while samples are taken.
pub trait Window {
    /// Why it ends before its time.
    type End;

    /// Lets so much time pass, or less. False when the window is over.
    ///
    /// # Errors
    ///
    /// Why nothing is to come of it.
    fn pass(&mut self, time: Duration) -> Result<bool, Self::End>;

    /// Counts processor time that other threads spent on it.
    fn add_cpu(&mut self, _spent: Duration) {}
}

/// Why there is no recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRecording<E> {
    /// Nothing could be sampled.
    Sampler(SamplerError),
    /// The window ended before its time.
    Window(E),
}

/// Samples as long as the window goes on. Nothing is attached to any process after it.
///
/// # Errors
///
/// Why there is nothing.
pub fn record<W: Window>(
    root: &Root,
    settings: &Settings,
    limits: Limits,
    window: &mut W,
) -> Result<Recording, NoRecording<W::End>> {
    let mut sampler = Sampler::open(root, settings).map_err(NoRecording::Sampler)?;
    let mut fold = Fold::new(root, settings.stack, limits);
    match &settings.scope {
        Scope::Process(pid) => fold.meet(*pid),
        // Read at the first sample: of many, few run.
        Scope::Processes(_) | Scope::Cgroup(_) | Scope::Host => {}
    }
    sampler.start().map_err(NoRecording::Sampler)?;
    let mut told = Duration::ZERO;
    loop {
        let goes_on = window.pass(sampler.pace()).map_err(NoRecording::Window)?;
        let elsewhere = fold.cpu_elsewhere();
        window.add_cpu(elsewhere.saturating_sub(told));
        told = elsewhere;
        if !goes_on {
            return Ok(fold.finish(sampler));
        }
        sampler.drain(&mut |record| fold.take(record));
    }
}
