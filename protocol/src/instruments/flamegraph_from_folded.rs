//! `flamegraph_from_folded`: the call tree of stacks that another profiler wrote as text, one a line
//! with its count: py-spy, async-profiler, perf with a collapser, bcc.
//!
//! The text is kept like a recording, so that every question about one can be asked about it too.

use super::flamegraph::{usual_depth, usual_limit, usual_min_pct};
use crate::{
    call_tree::{self, CallTree, Cuts},
    instruments::{Exchange, Instrument, NoItems},
    observed::Observed,
    parameter::InvalidParameter,
    recording::{self, Kernel, Recording},
    units::Percent,
    view::{nulls::Nulls, quantity::percent, table::Table},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Marker for this instrument.
pub struct FlamegraphFromFolded;

/// Bytes of the text at most. It travels in one frame, whose limit it has to leave some room in.
pub const MAX_FOLDED_BYTES: usize = 1_000_000;

const _: () = assert!(MAX_FOLDED_BYTES + 4096 < crate::frame::MAX_FRAME_BYTES);

impl Instrument for FlamegraphFromFolded {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        let bytes = request.folded.len();
        if bytes == 0 || bytes > MAX_FOLDED_BYTES {
            return Err(InvalidParameter {
                name: "folded".into(),
                value: format!("a text of {bytes} bytes").into(),
                expected: format!(
                    "1 to {MAX_FOLDED_BYTES} bytes; of a longer one give the heaviest stacks: each \
                     line ends with its count"
                )
                .into(),
            });
        }
        request.cuts().check()
    }

    fn window_ms(_: &Request) -> u32 {
        0
    }

    fn tables(report: &Report) -> Vec<Table> {
        let facts = recording::facts("", &report.recording);
        let mut tables: Vec<Table> = std::iter::once(facts).chain(report.tree.tables()).collect();
        let PassedOver { lines, cut_stacks, cut_pct } = &report.passed_over;
        if lines + cut_stacks > 0 {
            tables.push(Table::facts(
                "not taken in",
                [
                    ("lines that are no stacks", lines.to_string()),
                    ("stacks cut at their end", format!("{cut_stacks}, {} %", percent(*cut_pct))),
                ],
            ));
        }
        tables
    }

    fn shorten(report: &Report, fields: &mut Map<String, Value>, _: &mut Nulls) {
        if let Some(tree) = fields.get_mut("tree").and_then(Value::as_object_mut) {
            report.tree.shorten(tree);
        }
    }

    fn example() -> Exchange<Self> {
        let zero = Percent::default();
        Exchange {
            request: Request::of("main;serve;hash 62\nmain;idle 8\n".to_owned()),
            item: None,
            report: Report {
                recording: Recording::given(70, Observed::Known(zero), Kernel::Named),
                tree: call_tree::example(),
                passed_over: PassedOver { lines: 1, cut_stacks: 0, cut_pct: zero },
            },
        }
    }
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// Stacks as text, one a line: `main;work;hash 12`, the root first, the count last. At most
    /// 1000000 bytes. Required.
    pub folded: String,
    /// Grow the tree from where stacks end, each with its callers below. Default: false.
    #[serde(default)]
    pub is_reversed: bool,
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

impl Request {
    /// For the whole tree of a text, cut as usual.
    pub const fn of(folded: String) -> Self {
        let Cuts { min_pct, depth, limit } = Cuts::USUAL;
        Self { folded, is_reversed: false, min_pct, depth, limit }
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
    /// What the text came to.
    pub recording: Recording,
    /// The tree.
    pub tree: CallTree,
    /// What of the text is not in the tree.
    pub passed_over: PassedOver,
}

/// What of a text was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PassedOver {
    /// Lines that are no stacks with a count.
    pub lines: u64,
    /// Stacks of which only the part next to the root was kept: they are too deep, or too many.
    pub cut_stacks: u64,
    /// Their share, in percent.
    pub cut_pct: Percent,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_told_by_its_bytes_and_the_limit() {
        for bytes in [0, MAX_FOLDED_BYTES + 1] {
            let request = Request::of("x".repeat(bytes));
            let error = FlamegraphFromFolded::check(&request).unwrap_err().to_string();
            let want = format!("folded is a text of {bytes} bytes: expected 1 to 1000000 bytes");
            assert!(error.starts_with(&want), "{error}");
        }
        assert_eq!(FlamegraphFromFolded::check(&Request::of("a 1".to_owned())), Ok(()));
    }
}
