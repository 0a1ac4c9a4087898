//! A window of a call, while samples are taken.

use crate::{call::Context, stack::record::Window};
use protocol::error::AgentError;
use std::time::{Duration, Instant};

/// The window of a call. It ends when the call is withdrawn or has used up what it may.
pub(in crate::instruments) struct Passing<'c, 's> {
    context: &'c Context<'s>,
    length: Duration,
    /// When the first samples were wanted: opening events is not part of the window.
    started: Option<Instant>,
}

impl<'c, 's> Passing<'c, 's> {
    /// One that begins when it is first waited for.
    pub(in crate::instruments) const fn new(context: &'c Context<'s>, length: Duration) -> Self {
        Self { context, length, started: None }
    }

    /// How long it has been.
    pub(in crate::instruments) fn passed(&self) -> Duration {
        self.started.map_or(Duration::ZERO, |started| started.elapsed())
    }
}

impl Window for Passing<'_, '_> {
    type End = AgentError;

    fn pass(&mut self, time: Duration) -> Result<bool, AgentError> {
        let started = *self.started.get_or_insert_with(Instant::now);
        let end = started.elapsed().saturating_add(time).min(self.length);
        self.context.wait_until(started, end, self.length)?;
        Ok(started.elapsed() < self.length)
    }

    fn add_cpu(&mut self, spent: Duration) {
        self.context.add_cpu(spent);
    }
}
