//! Rows that answers about sampled stacks have in common. Shares are of the weight of all samples of a
//! recording, in percent.

use super::Kind;
use crate::{host_text::HostText, units::Percent};
use serde::{Deserialize, Serialize};

/// A function, and what it weighs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FunctionRow {
    /// Its name, as people write it, escaped.
    pub name: HostText,
    /// The file it is in; `null` where that is not known.
    pub module: Option<HostText>,
    /// What kind of code it is.
    pub kind: Kind,
    /// Share of samples in the function itself, in percent.
    pub self_pct: Percent,
    /// Share of samples in it or in what it called, in percent; a stack counts once.
    pub total_pct: Percent,
    /// The source line in it where most samples are; `null` where that is not known.
    pub line: Option<HostText>,
}

/// A process, and what it weighs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessRow {
    /// Process id.
    pub pid: u32,
    /// The kernel's name for it, escaped.
    pub name: HostText,
    /// Its share of samples, in percent.
    pub pct: Percent,
}

/// A stack, and what ends in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StackRow {
    /// Share of samples whose stack it is, in percent.
    pub pct: Percent,
    /// Calls in it that are not shown, between the outermost and the others.
    pub calls_left_out: u32,
    /// Functions with their files, the outermost first; what ran is the last.
    pub calls: Vec<HostText>,
}
