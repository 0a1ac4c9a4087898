//! What one call may cost: time, answer, and the target's processor.

use serde::{Deserialize, Serialize};

/// Bytes that count as one token. Models differ; this is the usual estimate for JSON and English.
pub const BYTES_PER_TOKEN: u32 = 4;

/// Threads of one process that are read whole, one by one. Of more, the scheduler's account still
/// is.
pub const MOST_THREADS: u64 = 512;

/// The limits of one call, set before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Milliseconds after which the agent gives up and says so.
    pub deadline_ms: u32,
    /// Bytes of the answer's JSON at most. Rows are cut to fit, and the answer says how many.
    pub answer_bytes: u32,
    /// Milliseconds of processor time that the call may use on the target.
    pub cpu_ms: u32,
}

impl Budget {
    /// Tokens of an answer, unless the caller asks for less or more.
    pub const DEFAULT_TOKENS: u32 = 8_000;
    /// The most tokens a caller may ask for: some clients cut a result at 40,000 characters, and
    /// do not say what they cut.
    pub const MAX_TOKENS: u32 = 9_500;
    /// The fewest tokens in which an answer can still name its parts.
    pub const MIN_TOKENS: u32 = 400;
    /// Processor time on the target, unless the caller says otherwise.
    pub const DEFAULT_CPU_MS: u32 = 2_000;
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            deadline_ms: 30_000,
            answer_bytes: Self::DEFAULT_TOKENS * BYTES_PER_TOKEN,
            cpu_ms: Self::DEFAULT_CPU_MS,
        }
    }
}
