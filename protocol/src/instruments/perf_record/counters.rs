//! What was counted in a window, each time, with no sample taken.

use crate::{
    host_text::HostText,
    observed::Observed,
    parameter::spelled,
    units::{PerSecond, Percent, Ratio},
    view::{
        quantity::{or_unknown, percent},
        table::Table,
    },
};
use serde::{Deserialize, Serialize};

/// Counts, and what follows from two of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Counters {
    /// Threads that were counted at from the start, or processors where a control group or the whole
    /// machine was asked for. Threads and children born meanwhile count too.
    pub counted_at: u32,
    /// Each counter; those of the processor once for each kind of core.
    pub counts: Vec<CounterRow>,
    /// For each kind of core, what its counters say of each other.
    pub quotients: Vec<Quotients>,
}

/// A counter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CounterRow {
    /// What was counted.
    pub counter: Counter,
    /// The kind of core, where there are several; `null` where there is one.
    pub core: Option<HostText>,
    /// How often it happened in the window; `task_clock` in nanoseconds. Where `counted_pct` is less
    /// than 100, reckoned from that part.
    pub count: Observed<u64>,
    /// How often in a second of the window.
    pub per_s: Observed<PerSecond>,
    /// For which part of the time it was counted, in percent: less than 100 where counters took turns.
    pub counted_pct: Observed<Percent>,
    /// Whether what the kernel does is in it.
    pub with_kernel: bool,
}

/// What counters of one kind of core say of each other. Both of a pair were counted at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Quotients {
    /// The kind of core, where there are several; `null` where there is one.
    pub core: Option<HostText>,
    /// Instructions for each cycle.
    pub instructions_per_cycle: Observed<Ratio>,
    /// Misses of the last cache, in percent of its uses.
    pub cache_misses_pct: Observed<Percent>,
    /// Branches that were guessed wrongly, in percent of all.
    pub branch_misses_pct: Observed<Percent>,
}

/// What can be counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Processor time, in nanoseconds. Of a whole machine there is none: it would be the time that
    /// passed.
    TaskClock,
    /// Context switches.
    ContextSwitches,
    /// How often a thread went to another processor.
    CpuMigrations,
    /// Page faults for which nothing had to be read.
    MinorFaults,
    /// Page faults for which something had to be read.
    MajorFaults,
    /// Cycles of the processor.
    Cycles,
    /// Instructions that were completed.
    Instructions,
    /// Uses of the last cache.
    CacheReferences,
    /// Misses of the last cache.
    CacheMisses,
    /// Branches.
    Branches,
    /// Branches that were guessed wrongly.
    BranchMisses,
}

impl Counter {
    /// All of them: those of the kernel, then those of the processor.
    pub const ALL: [Self; 11] = [
        Self::TaskClock,
        Self::ContextSwitches,
        Self::CpuMigrations,
        Self::MinorFaults,
        Self::MajorFaults,
        Self::Cycles,
        Self::Instructions,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::Branches,
        Self::BranchMisses,
    ];

    /// Whether the processor counts it, rather than the kernel.
    pub const fn is_of_the_processor(self) -> bool {
        match self {
            Self::TaskClock
            | Self::ContextSwitches
            | Self::CpuMigrations
            | Self::MinorFaults
            | Self::MajorFaults => false,
            Self::Cycles
            | Self::Instructions
            | Self::CacheReferences
            | Self::CacheMisses
            | Self::Branches
            | Self::BranchMisses => true,
        }
    }
}

/// Counts as a table, and quotients as lines of facts.
pub(super) fn tables(counters: &Counters) -> Vec<Table> {
    let mut table =
        Table::with_columns("", &["COUNT", "PER_S", "%COUNTED", "<COUNTER", "<CORE", "<KERNEL"]);
    table.dispensable = vec!["KERNEL", "CORE"];
    for row in &counters.counts {
        table.rows.push(vec![
            or_unknown(&row.count, u64::to_string),
            or_unknown(&row.per_s, |rate| format!("{}", rate.get())),
            or_unknown(&row.counted_pct, |part| percent(*part)),
            spelled(&row.counter),
            row.core.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            if row.with_kernel { "yes" } else { "no" }.to_owned(),
        ]);
    }
    let quotients = counters.quotients.iter().map(|of| {
        let core = of.core.as_ref().map_or_else(String::new, |core| format!("{core}: "));
        let line = format!(
            "{core}{} instructions for each cycle, {} % of cache uses missed, {} % of branches",
            or_unknown(&of.instructions_per_cycle, |ratio| format!("{}", ratio.get())),
            or_unknown(&of.cache_misses_pct, |part| percent(*part)),
            or_unknown(&of.branch_misses_pct, |part| percent(*part))
        );
        ("processor", line)
    });
    let mut facts = vec![("counted at", format!("{} threads or processors", counters.counted_at))];
    facts.extend(quotients);
    vec![Table::facts("", facts), table]
}
