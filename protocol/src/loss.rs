//! What an answer leaves out, and what it cost: truncation, loss, overhead.

use crate::units::Percent;
use serde::{Deserialize, Serialize};

/// What a budget cut from a ranked list.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Truncation {
    /// Entries in the answer.
    pub shown: u64,
    /// Entries there were, before the list was cut.
    pub total: u64,
    /// The share that the entries left out have in the quantity the list is ranked by, in percent.
    /// `null` where the quantity cannot be summed, or sums to nothing.
    pub weight_cut_pct: Option<Percent>,
    /// Which limit cut the list.
    pub cut_by: CutBy,
}

/// The limit that cut a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum CutBy {
    /// Nothing was cut.
    Nothing,
    /// The number of rows asked for.
    Limit,
    /// The answer's size.
    AnswerBytes,
}

impl Truncation {
    /// A list of which everything is shown.
    pub const fn none(total: u64) -> Self {
        Self { shown: total, total, weight_cut_pct: None, cut_by: CutBy::Nothing }
    }
}

/// What was there to be seen and was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lost {
    /// Processes that ended between being listed and being read.
    pub vanished: u64,
    /// Processes that were there and could not be read.
    pub refused: u64,
    /// Kernel files whose text was not understood, and records of samples.
    pub malformed: u64,
    /// Samples that there was no room for.
    pub samples: u64,
    /// Events that there was no room for, as system calls that were made and are in no count.
    pub events: u64,
}

/// What looking cost the target.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Overhead {
    /// Processor time the agent spent on this call, in milliseconds.
    pub agent_cpu_ms: f64,
    /// The longest time for which the agent stopped the process it looked at, in microseconds.
    pub target_pause_us_max: u64,
}
