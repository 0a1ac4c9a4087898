//! Agent side of `flamegraph`: the call tree of a stored recording.

use crate::{
    call::Context,
    instruments::{Collect, call_tree},
    stack::{profile::Growth, stored::Stored},
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::{
        Report as AnyReport,
        flamegraph::{Baseline, Flamegraph, Report, Request, Thread},
    },
    loss::{Lost, Truncation},
    message::{Engine, Meta},
    recording::Recording,
    units::Percent,
};

impl Collect for Flamegraph {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let stored = Stored::load(request.artifact, context)?;
        let baseline = request.baseline.map(|id| Stored::load(id, context)).transpose()?;
        let growth =
            Growth { is_reversed: request.is_reversed, tid: request.tid, cuts: request.cuts() };
        let before = baseline.as_ref().map(|baseline| &baseline.profile);
        let tree = call_tree::grow(&stored.profile, before, growth, context)?;
        let thread = request.tid.map(|tid| thread(tid, &request, &stored)).transpose()?;
        let mut report = Report {
            recording: stored.recording,
            baseline: baseline.map(|baseline| {
                let Recording { counted, samples, window_ms, .. } = baseline.recording;
                Baseline { counted, samples, window_ms }
            }),
            thread,
            tree: call_tree::empty(growth),
        };
        let mut meta = Meta {
            engine: Engine::Stored,
            window_ms: None,
            truncation: Truncation::none(0),
            artifact: Some(request.artifact),
            lost: lost(&report.recording),
            overhead: context.overhead(),
            redacted: 0,
        };
        let shown = call_tree::that_fit(&tree, growth, context, |shown, truncation| {
            report.tree = shown;
            meta.truncation = truncation;
            protocol::view::json::bytes(&AnyReport::Flamegraph(report.clone()), &meta)
        });
        (report.tree, meta.truncation) = shown;
        meta.overhead = context.overhead();
        Ok((report, meta))
    }
}

fn lost(recording: &Recording) -> Lost {
    Lost { samples: recording.quality.lost_samples, ..Lost::default() }
}

/// The thread of a recording, and its part of that.
fn thread(tid: u32, request: &Request, stored: &Stored) -> Result<Thread, AgentError> {
    let (found, weight) = stored
        .profile
        .thread(tid)
        .ok_or(AgentError::ThreadNotRecorded { tid, id: request.artifact })?;
    Ok(Thread {
        pid: found.pid,
        tid,
        name: HostText::escaped(found.name.clone()),
        pct: Percent::of(weight as f64, stored.profile.weight() as f64).unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests;
