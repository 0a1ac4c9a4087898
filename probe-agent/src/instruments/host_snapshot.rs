//! Agent side of `host_snapshot`.
//!
//! Counters at both ends of the window; in the middle of it, one look at every task for those that
//! wait deaf to signals. That look takes longer the more tasks there are, so it fills the window
//! instead of lengthening it.

mod blocked;
mod end;
mod report;

use crate::{call::Context, instruments::Collect};
use end::End;
use protocol::{
    error::AgentError,
    instruments::host_snapshot::{HostSnapshot, Report, Request},
    message::Meta,
};
use std::time::{Duration, Instant};

impl Collect for HostSnapshot {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let window = Duration::from_millis(request.window_ms.into());
        let started = Instant::now();
        let first = End::read(context.root);
        context.wait_until(started, window / 2, window)?;
        let blocked = blocked::look(context)?;
        context.wait_until(started, window, window)?;
        let last = End::read(context.root);
        context.check()?;
        Ok(report::assemble(&request, &first, &last, blocked, context))
    }
}
