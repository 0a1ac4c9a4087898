//! Looks in place of samples, where this login may not sample.

use serde::{Deserialize, Serialize};

/// How threads were looked at. A look is at a moment of the clock on the wall, whether a thread runs or
/// waits: shares are of that time, not of processor time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Looks {
    /// Rounds in which every thread was looked at once.
    pub rounds: u64,
    /// Whether there were too many threads for one round, so that they took turns.
    pub took_turns: bool,
    /// Whether system calls, waits and stacks of threads that wait could be read; else only states.
    pub sees_waits: bool,
    /// Stops for a moment, to copy the stack of a thread that runs. 0 where `stop` was not asked for.
    pub stops: u64,
    /// Threads that could not be stopped.
    pub stops_failed: u64,
    /// All stops together, in microseconds. The longest is `meta.overhead.target_pause_us_max`.
    pub stopped_us_total: u64,
}
