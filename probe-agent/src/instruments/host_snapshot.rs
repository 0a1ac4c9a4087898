//! Agent side of `host_snapshot`.
//!
//! Counters at both ends of the window. What takes longer the more there is of it fills the window
//! instead of lengthening it: file systems are asked and cgroups are looked at at its start, and in
//! the middle of it every task, for those that wait deaf to signals.

mod blocked;
#[cfg(test)]
mod cases;
mod cgroups;
mod end;
mod fit;
mod mounts;
mod report;

use crate::{call::Context, instruments::Collect};
use end::End;
use protocol::{
    error::AgentError,
    instruments::host_snapshot::{Detail, HostSnapshot, Report, Request},
    message::Meta,
};
use report::Between;
use std::time::{Duration, Instant};

/// Processor time for looking at cgroups at the start of the window; reading again those that have a
/// limit takes at most as much at its end.
const fn cgroups_cpu(detail: Detail) -> Duration {
    match detail {
        Detail::Brief => Duration::from_millis(8),
        Detail::Full => Duration::from_millis(100),
    }
}

impl Collect for HostSnapshot {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let root = context.root;
        let window = Duration::from_millis(request.window_ms.into());
        let started = Instant::now();
        let first = End::read(root);
        let mounts = mounts::ask(root);
        let (looking, cgroups) = (Instant::now(), cgroups::look(root, cgroups_cpu(request.detail)));
        // Those that have a limit are read again. That takes no longer than finding them did, and
        // ends with the window instead of after it. A snapshot has nothing before its end.
        let again =
            if root.is_snapshot() { Duration::ZERO } else { looking.elapsed().min(window / 4) };
        context.wait_until(started, window / 2, window)?;
        let blocked = blocked::look(context)?;
        context.wait_until(started, window.saturating_sub(again), window)?;
        let cgroups = cgroups.finish(root, request.limit as usize);
        context.wait_until(started, window, window)?;
        let last = End::read(root);
        let (mounts, asking) = mounts.finish();
        context.check()?;
        let between = Between { blocked, cgroups, mounts };
        Ok(report::assemble(&request, &first, &last, between, asking, context))
    }
}
