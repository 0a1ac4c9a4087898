//! Agent side of `flamegraph_from_folded`: the call tree of stacks that were given as text, which are
//! kept like a recording.

use crate::{
    call::Context,
    instruments::{Collect, call_tree},
    stack::{
        profile::{FoldedError, FoldedLimits, FoldedLoss, Growth, Kind, Profile},
        stored::Stored,
    },
};
use protocol::{
    error::{AgentError, NotFolded},
    instruments::{
        Report as AnyReport,
        flamegraph_from_folded::{FlamegraphFromFolded, PassedOver, Report, Request},
    },
    loss::{Lost, Truncation},
    message::{Engine, Meta},
    observed::Reason,
    recording::{Kernel, Recording},
    units::Percent,
};

impl Collect for FlamegraphFromFolded {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let growth = Growth { is_reversed: request.is_reversed, tid: None, cuts: request.cuts() };
        let folded = request.folded.as_bytes();
        let (profile, loss) =
            Profile::from_folded(folded, &FoldedLimits::USUAL).map_err(not_folded)?;
        context.check()?;
        let stored = Stored { recording: recording(&profile), profile, lines: Vec::new() };
        if stored.recording.events == 0 {
            return Err(AgentError::NotFolded(NotFolded::NoWeight));
        }
        let tree = call_tree::grow(&stored.profile, None, growth, context)?;
        let mut report = Report {
            recording: stored.recording.clone(),
            tree: call_tree::empty(growth),
            passed_over: passed_over(loss, stored.recording.events),
        };
        let mut meta = Meta {
            engine: Engine::Given,
            window_ms: None,
            truncation: Truncation::none(0),
            artifact: stored.keep(context),
            lost: Lost::default(),
            overhead: context.overhead(),
            redacted: 0,
        };
        let shown = call_tree::that_fit(&tree, growth, context, |shown, truncation| {
            report.tree = shown;
            meta.truncation = truncation;
            protocol::view::json::bytes(&AnyReport::FlamegraphFromFolded(report.clone()), &meta)
        });
        (report.tree, meta.truncation) = shown;
        meta.overhead = context.overhead();
        Ok((report, meta))
    }
}

fn not_folded(error: FoldedError) -> AgentError {
    AgentError::NotFolded(match error {
        FoldedError::TooLong { bytes, limit } => {
            NotFolded::TooLong { bytes: bytes as u64, limit: limit as u64 }
        }
        FoldedError::Empty => NotFolded::Empty,
        FoldedError::NoStack { first } => NotFolded::NoStack { first },
        FoldedError::Difference => NotFolded::Difference,
    })
}

fn passed_over(loss: FoldedLoss, weight: u64) -> PassedOver {
    PassedOver {
        lines: loss.lines,
        cut_stacks: loss.cut_stacks,
        cut_pct: Percent::of(loss.cut_weight as f64, weight as f64).unwrap_or_default(),
    }
}

/// What is known of stacks that were given.
fn recording(profile: &Profile) -> Recording {
    let weight = profile.weight();
    let unnamed = Percent::of(profile.unnamed_weight() as f64, weight as f64);
    let kernel = if profile.has(Kind::Kernel) { Kernel::Named } else { Kernel::NotAsked };
    Recording::given(weight, unnamed.ok_or(Reason::NoSamples).into(), kernel)
}

#[cfg(test)]
mod tests;
