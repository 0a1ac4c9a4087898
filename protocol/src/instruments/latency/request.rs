//! What is asked.

use crate::{
    parameter::{InvalidParameter, in_range, spelled},
    scope::{self, Of},
};
use serde::{Deserialize, Serialize};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Process id, from process_list: 1-4194304. Without one, the whole machine.
    #[cfg_attr(feature = "schema", schemars(with = "u32", range(min = 1, max = 4_194_304)))]
    pub pid: Option<u32>,
    /// The process's `start_ticks` from process_list. With it, a reused pid is refused instead of
    /// measured. Default 0: whatever process has the pid now.
    pub start_ticks: u64,
    /// Whose waits are measured. Default: those of the process with a pid, of the whole machine
    /// without.
    #[cfg_attr(feature = "schema", schemars(with = "Of"))]
    pub scope: Option<Of>,
    /// What is measured. Default: all of it.
    pub kinds: Vec<Kind>,
    /// Length of the window in milliseconds: 100-60000, default 5000.
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 60_000)))]
    pub window_ms: u32,
    /// Rows of each list to return: 1-50, default 5.
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 50)))]
    pub limit: u32,
}

/// A kind of wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Runnable, and waiting for a processor.
    RunQueue,
    /// Requests to block devices.
    Block,
    /// Off the processor, and not waiting for one.
    OffCpu,
    /// Connections of TCP, and segments that are sent again.
    Tcp,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::RunQueue, Self::Block, Self::OffCpu, Self::Tcp];
}

impl Default for Request {
    fn default() -> Self {
        Self {
            pid: None,
            start_ticks: 0,
            scope: None,
            kinds: Kind::ALL.to_vec(),
            window_ms: 5_000,
            limit: 5,
        }
    }
}

impl Request {
    /// The most rows of each list.
    pub const MOST_ROWS: u32 = 50;

    /// Whose waits are measured.
    pub const fn of(&self) -> Of {
        Of::asked(self.scope, self.pid)
    }

    /// Whether a kind is asked for.
    pub fn asks(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Checks the parameters against their limits.
    ///
    /// # Errors
    ///
    /// The first parameter that is out of its limits.
    pub(super) fn check(&self) -> Result<(), InvalidParameter> {
        scope::check(self.scope, self.pid)?;
        let wrong = |value: String, expected: &'static str| {
            Err(InvalidParameter {
                name: "kinds".into(),
                value: value.into(),
                expected: expected.into(),
            })
        };
        if self.kinds.is_empty() {
            return wrong("[]".to_owned(), "at least one");
        }
        for kind in &self.kinds {
            if self.kinds.iter().filter(|other| *other == kind).count() > 1 {
                return wrong(format!("{} twice", spelled(kind)), "each once");
            }
        }
        in_range("window_ms", self.window_ms, &(100..=60_000))?;
        in_range("limit", self.limit, &(1..=Self::MOST_ROWS))
    }
}
