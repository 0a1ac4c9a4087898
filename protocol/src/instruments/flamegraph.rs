//! `flamegraph`: the call tree of a recording, cut to its heaviest branches; from where stacks begin
//! or from where they end; of one recording, or compared with an earlier one.
//!
//! Nothing is measured: it is made of what `perf_record` kept. The picture of the whole tree is for
//! people, and `sysmcp export` writes it.

use crate::{
    artifact::ArtifactId,
    call_tree::{self, CallTree, Cuts},
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems},
    parameter::{InvalidParameter, in_range},
    recording::{self, Counted, Recording},
    units::Percent,
    view::{nulls::Nulls, quantity::percent, table::Table},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Marker for this instrument.
pub struct Flamegraph;

impl Instrument for Flamegraph {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        request.cuts().check()?;
        let Some(tid) = request.tid else { return Ok(()) };
        in_range("tid", tid, &(0..=4_194_304))?;
        if request.baseline.is_some() {
            return Err(InvalidParameter {
                name: "tid".into(),
                value: tid.to_string().into(),
                expected: "none beside baseline: a thread has another tid in each recording".into(),
            });
        }
        Ok(())
    }

    fn window_ms(_: &Request) -> u32 {
        0
    }

    fn tables(report: &Report) -> Vec<Table> {
        let mut facts = recording::facts("", &report.recording);
        if let Some(Baseline { samples, window_ms, .. }) = &report.baseline {
            let before = format!("{samples} samples over {window_ms} ms");
            facts.rows.push(vec!["before".to_owned(), before]);
        }
        if let Some(Thread { pid, tid, name, pct }) = &report.thread {
            let only = format!("thread {tid} {name} of process {pid}, {} % of it", percent(*pct));
            facts.rows.push(vec!["only".to_owned(), only]);
        }
        std::iter::once(facts).chain(report.tree.tables()).collect()
    }

    fn shorten(report: &Report, fields: &mut Map<String, Value>, _: &mut Nulls) {
        for (name, is_given) in
            [("baseline", report.baseline.is_some()), ("thread", report.thread.is_some())]
        {
            if !is_given {
                fields.remove(name);
            }
        }
        if let Some(tree) = fields.get_mut("tree").and_then(Value::as_object_mut) {
            report.tree.shorten(tree);
        }
    }

    fn example() -> Exchange<Self> {
        let artifact = ArtifactId(0x0bad_cafe);
        Exchange {
            request: Request { is_reversed: true, ..Request::of(artifact) },
            item: None,
            report: Report {
                recording: recording::example(),
                baseline: None,
                thread: None,
                tree: call_tree::example(),
            },
        }
    }
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Handle of a recording: `meta.artifact` of perf_record or flamegraph_from_folded. Required.
    pub artifact: ArtifactId,
    /// Handle of an earlier recording, to see what changed since. Default: none.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "ArtifactId"))]
    pub baseline: Option<ArtifactId>,
    /// Grow the tree from where stacks end, each with its callers below. Default: false.
    #[serde(default)]
    pub is_reversed: bool,
    /// Only stacks of this thread: 0-4194304. Default: of all.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(with = "u32", range(max = 4_194_304)))]
    pub tid: Option<u32>,
    /// Leave out branches lighter than this, in percent: 0-50, default 1.
    #[serde(default = "usual_min_pct")]
    #[cfg_attr(feature = "schema", schemars(range(max = 50)))]
    pub min_pct: u32,
    /// Calls from the root to show: 1-128, default 40.
    #[serde(default = "usual_depth")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 128)))]
    pub depth: u32,
    /// Branches to show, the heaviest: 10-500, default 60.
    #[serde(default = "usual_limit")]
    #[cfg_attr(feature = "schema", schemars(range(min = 10, max = 500)))]
    pub limit: u32,
}

pub(super) const fn usual_min_pct() -> u32 {
    Cuts::USUAL.min_pct
}

pub(super) const fn usual_depth() -> u32 {
    Cuts::USUAL.depth
}

pub(super) const fn usual_limit() -> u32 {
    Cuts::USUAL.limit
}

impl Request {
    /// For the whole tree of a recording, cut as usual.
    pub const fn of(artifact: ArtifactId) -> Self {
        let Cuts { min_pct, depth, limit } = Cuts::USUAL;
        Self { artifact, baseline: None, is_reversed: false, tid: None, min_pct, depth, limit }
    }

    /// How the tree is cut.
    pub const fn cuts(&self) -> Cuts {
        Cuts { min_pct: self.min_pct, depth: self.depth, limit: self.limit }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// What the tree is made of.
    pub recording: Recording,
    /// What it is compared with; only where that was asked for.
    pub baseline: Option<Baseline>,
    /// The thread that it is of; only where one was asked for.
    pub thread: Option<Thread>,
    /// The tree.
    pub tree: CallTree,
}

/// The recording that a tree is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Baseline {
    /// What was counted.
    pub counted: Counted,
    /// Samples.
    pub samples: u64,
    /// How long it took, in milliseconds.
    pub window_ms: u64,
}

/// The thread that a tree is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Itself.
    pub tid: u32,
    /// Its name.
    pub name: HostText,
    /// Its share of the weight of the whole recording, in percent. Shares in the tree are of this.
    pub pct: Percent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_of_two_recordings_is_refused() {
        let request = Request { tid: Some(7), ..Request::of(ArtifactId(1)) };
        assert_eq!(Flamegraph::check(&request), Ok(()));
        let request = Request { baseline: Some(ArtifactId(2)), ..request };
        let error = Flamegraph::check(&request).unwrap_err().to_string();
        assert!(error.starts_with("tid is 7: expected none beside baseline"), "{error}");
    }
}
