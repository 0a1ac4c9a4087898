//! A tree of calls, cut to its heaviest branches, and how it reads.

use crate::{
    host_text::HostText,
    parameter::{InvalidParameter, in_range},
    recording::{Function, Kind},
    units::Percent,
    view::{quantity::percent, table::Table},
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How a tree is cut, as the caller says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cuts {
    /// Branches below this share of all weight are cut, in percent.
    pub min_pct: u32,
    /// Calls from the root, at most.
    pub depth: u32,
    /// Branches, at most.
    pub limit: u32,
}

impl Cuts {
    /// Unless the caller says otherwise.
    pub const USUAL: Self = Self { min_pct: 1, depth: 40, limit: 60 };

    /// Checks each against its limits.
    ///
    /// # Errors
    ///
    /// The first that is out of them.
    pub fn check(self) -> Result<(), InvalidParameter> {
        in_range("min_pct", self.min_pct, &(0..=50))?;
        in_range("depth", self.depth, &(1..=128))?;
        in_range("limit", self.limit, &(10..=500))
    }
}

/// A call tree. Shares are of the weight of all its stacks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CallTree {
    /// Whether it grows from where stacks end, with callers below, instead of from where they begin.
    pub is_reversed: bool,
    /// Its branches, each before those below it; of those below the same one, the heaviest first.
    pub branches: Vec<Branch>,
    /// What was cut, each with everything below it.
    pub pruned: Pruned,
}

/// A function in a place of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Branch {
    /// How many are above it.
    pub depth: u32,
    /// Which function.
    pub function: Function,
    /// Share of stacks that lead here and no further, in percent.
    pub self_pct: Percent,
    /// Share of stacks that lead here, in percent.
    pub total_pct: Percent,
    /// The same in the baseline; only where one was given.
    pub before: Option<Before>,
}

/// A branch in the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Before {
    /// As `self_pct` of the branch.
    pub self_pct: Percent,
    /// As `total_pct` of the branch.
    pub total_pct: Percent,
}

/// Branches that are not in a tree, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Pruned {
    /// Lighter than `min_pct`.
    pub by_min_pct: Cut,
    /// Deeper than `depth`.
    pub by_depth: Cut,
    /// Beyond `limit`, or the room that there was in the answer.
    pub by_limit: Cut,
    /// Share of stacks that have no frame at all, in percent.
    pub without_frames_pct: Percent,
}

/// Branches that were cut for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cut {
    /// How many.
    pub branches: u64,
    /// Share of stacks that lead into them, in percent; of the baseline, where that is more.
    pub pct: Percent,
}

impl CallTree {
    /// Takes out of its JSON what only a difference has.
    pub fn shorten(&self, fields: &mut Map<String, Value>) {
        if self.is_difference() {
            return;
        }
        let branches = fields.get_mut("branches").and_then(Value::as_array_mut);
        for branch in branches.into_iter().flatten().filter_map(Value::as_object_mut) {
            branch.remove("before");
        }
    }

    fn is_difference(&self) -> bool {
        self.branches.iter().any(|branch| branch.before.is_some())
    }

    /// The tree as a person reads it.
    pub fn tables(&self) -> [Table; 2] {
        let is_difference = self.is_difference();
        let headings: &[&'static str] = if is_difference {
            &["%TOTAL", "%BEFORE", "%SELF", "%SELF BEFORE", "<KIND", "<CALL"]
        } else {
            &["%TOTAL", "%SELF", "<KIND", "<CALL"]
        };
        let title = if self.is_reversed {
            "where stacks end, and below each who calls it"
        } else {
            "calls, and below each what it calls"
        };
        let mut tree = Table::with_columns(title, headings);
        tree.dispensable = vec!["KIND", "%SELF BEFORE"];
        for branch in &self.branches {
            let Branch { depth, function, self_pct, total_pct, before } = branch;
            let mut row = vec![percent(*total_pct)];
            if is_difference {
                let before = before.map_or(Percent::default(), |before| before.total_pct);
                row.push(percent(before));
            }
            row.push(percent(*self_pct));
            if is_difference {
                let before = before.map_or(Percent::default(), |before| before.self_pct);
                row.push(percent(before));
            }
            row.push(function.kind.to_string());
            row.push(format!("{}{}", indentation(*depth), named(function)));
            tree.rows.push(row);
        }
        [tree, self.pruned.table()]
    }
}

/// What shows how deep a row is. A depth of more than a line has room for is written as a number.
fn indentation(depth: u32) -> String {
    const MOST: u32 = 30;
    if depth > MOST {
        return format!("{}[{depth}] ", " ".repeat(MOST as usize));
    }
    " ".repeat(depth as usize)
}

fn named(function: &Function) -> String {
    match &function.module {
        Some(module) => format!("{} ({module})", function.name),
        None => function.name.to_string(),
    }
}

impl Pruned {
    fn table(&self) -> Table {
        let shown = |cut: &Cut| format!("{} branches, {} %", cut.branches, percent(cut.pct));
        Table::facts(
            "not shown",
            [
                ("lighter than min_pct", shown(&self.by_min_pct)),
                ("deeper than depth", shown(&self.by_depth)),
                ("beyond limit or room", shown(&self.by_limit)),
                ("stacks without frames", format!("{} %", percent(self.without_frames_pct))),
            ],
        )
    }
}

/// A tree as examples have it.
pub fn example() -> CallTree {
    let percent = |part| Percent::of(part, 100.0).unwrap_or_default();
    let branch = |depth, (name, module, kind): (&str, &str, Kind), own, total| Branch {
        depth,
        function: Function {
            name: HostText::new(name.as_bytes()),
            module: Some(HostText::new(module.as_bytes())),
            kind,
        },
        self_pct: percent(own),
        total_pct: percent(total),
        before: None,
    };
    CallTree {
        is_reversed: false,
        branches: vec![
            branch(0, ("main", "web", Kind::User), 0.4, 99.0),
            branch(1, ("serve", "web", Kind::User), 1.5, 90.2),
            branch(2, ("hash", "web", Kind::Inlined), 62.0, 62.0),
            branch(2, ("vfs_read", "[kernel]", Kind::Kernel), 24.1, 25.3),
            branch(1, ("idle", "web", Kind::User), 8.4, 8.4),
        ],
        pruned: Pruned { by_min_pct: Cut { branches: 14, pct: percent(2.6) }, ..Pruned::default() },
    }
}
