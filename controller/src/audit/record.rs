//! What a line of the audit log says.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One line, without its digest.
#[derive(Clone, Debug, Serialize)]
pub struct Record<'e> {
    /// Counts the lines from 1.
    pub sequence: u64,
    /// When it was written, UTC.
    pub time: String,
    /// The run of the controller that wrote it.
    pub session: String,
    /// What happened.
    #[serde(flatten)]
    pub event: &'e Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// An agent is about to be put on a target.
    Connecting {
        /// Where.
        target: String,
    },
    /// An agent runs on a target.
    Connected {
        /// Where.
        target: String,
        /// The target's own name, escaped.
        host: String,
        /// The user it runs as.
        uid: u32,
        /// Its processes.
        pids: [u32; 2],
        /// The digest of what runs.
        agent_sha256: String,
    },
    /// No agent came to run.
    NotConnected {
        /// Where.
        target: String,
        /// Why.
        reason: String,
    },
    /// A call is about to be made.
    Intent {
        /// Names the call within the session.
        call: u64,
        /// Where.
        target: String,
        /// Which tool.
        tool: String,
        /// Its parameters, or their start, secrets taken out.
        parameters: Value,
        /// How many bytes they had, where only the start was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parameters_bytes: Option<u64>,
        /// A keyed digest of the parameters as they were given.
        parameters_digest: String,
    },
    /// A call was made.
    Outcome {
        /// Which one.
        call: u64,
        /// Whether there was an answer.
        answered: bool,
        /// The error, where there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// How long it took.
        duration_ms: u64,
        /// Bytes of the answer.
        answer_bytes: u64,
        /// Processor time it cost the target.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        agent_cpu_ms: Option<f64>,
        /// Secrets that were taken out of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redacted: Option<u32>,
    },
    /// A call was not permitted, or not understood.
    Refused {
        /// The tool that was named, escaped.
        tool: String,
        /// The parameters that were given, or their start, secrets taken out.
        parameters: Value,
        /// How many bytes they had, where only the start was kept.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parameters_bytes: Option<u64>,
        /// Why.
        reason: String,
    },
    /// A target was swept.
    Swept {
        /// By which call.
        call: u64,
        /// Where.
        target: String,
        /// Processes and folders of dead sessions that are there still.
        left: u32,
        /// What was found and done, the sum of it last.
        found: Vec<String>,
    },
    /// An agent was stopped.
    Stopped {
        /// Where.
        target: String,
        /// Whether it is certain that nothing is left.
        clean: bool,
        /// What can be said.
        receipt: String,
    },
}
