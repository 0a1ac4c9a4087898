//! Of what something is measured: one process, its control group, or the whole machine.

use crate::parameter::{InvalidParameter, in_range};
use serde::{Deserialize, Serialize};

/// What is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Of {
    /// The process, its threads, and the children born meanwhile.
    Process,
    /// The control group of the process: all of its service or container.
    Cgroup,
    /// Everything that runs.
    Host,
}

impl Of {
    /// What is meant where a scope may be left out: a process with a pid, the machine without.
    pub const fn asked(scope: Option<Self>, pid: Option<u32>) -> Self {
        match (scope, pid) {
            (Some(of), _) => of,
            (None, Some(_)) => Self::Process,
            (None, None) => Self::Host,
        }
    }
}

/// Checks that a scope and a pid go together.
///
/// # Errors
///
/// That a pid is missing, out of its range, or given for the whole machine.
pub fn check(scope: Option<Of>, pid: Option<u32>) -> Result<(), InvalidParameter> {
    let wrong = |value: String, expected: &'static str| {
        Err(InvalidParameter { name: "pid".into(), value: value.into(), expected: expected.into() })
    };
    match (scope, pid) {
        (_, Some(pid)) => in_range("pid", pid, &(1..=4_194_304))?,
        (Some(Of::Process | Of::Cgroup), None) => {
            return wrong("missing".to_owned(), "one, whose process or control group");
        }
        (Some(Of::Host) | None, None) => {}
    }
    match (scope, pid) {
        (Some(Of::Host), Some(pid)) => wrong(pid.to_string(), "none with scope host"),
        (Some(Of::Process | Of::Cgroup | Of::Host) | None, _) => Ok(()),
    }
}
