//! What host and guest say to each other: a line of JSON each way.

use serde::{Deserialize, Serialize};

/// What the guest is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The user it runs as, and the group of the same number.
    pub uid: u32,
    /// The program and its arguments.
    pub words: Vec<String>,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The exit code; none where a signal ended it, or where it could not be started.
    pub code: Option<i32>,
    /// What it printed; what is not UTF-8 is replaced.
    pub stdout: String,
    /// What it complained about, or why it could not be started.
    pub stderr: String,
}

/// What the guest says once, before its first order: the release of its kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// As `uname -r` has it.
    pub release: String,
}
