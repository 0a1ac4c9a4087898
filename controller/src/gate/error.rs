//! Why a call has no answer.

use crate::{
    audit::{AuditError, bounded},
    exit,
    push::PushError,
    session::CallError,
    targets::NoTarget,
};
use protocol::{
    artifact::ArtifactId,
    error::AgentError,
    host_text::{self, HostText},
    question::BadArguments,
};

/// Why a call has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GateError {
    /// No such tool is offered.
    #[error("no tool is called `{name}`; there are {offered}")]
    UnknownTool {
        /// The name, escaped.
        name: HostText,
        /// The tools that are offered.
        offered: String,
    },
    /// The arguments were not understood.
    #[error("{tool}: {problem}")]
    Arguments {
        /// The tool.
        tool: &'static str,
        /// What is wrong.
        problem: BadArguments,
    },
    /// It is not known which target is meant.
    #[error("{tool}: {problem}")]
    Target {
        /// The tool.
        tool: &'static str,
        /// What is wrong.
        problem: NoTarget,
    },
    /// A stored result is asked for where it is not.
    #[error("{id} is stored on {stored}, not on {asked}")]
    Elsewhere {
        /// Its handle.
        id: ArtifactId,
        /// The target that was asked.
        asked: String,
        /// The one that has it.
        stored: String,
    },
    /// A stored result had to make room.
    #[error(
        "what was stored as {id} is not there any more: its session ended, or newer results took \
         its room"
    )]
    GaveWay {
        /// Its handle.
        id: ArtifactId,
        /// The call that made it.
        call: String,
    },
    /// There was never such a result there, as far as is remembered.
    #[error("no result is stored as {id}")]
    NotStored {
        /// What was asked for.
        id: ArtifactId,
        /// Those that were stored last, with the calls that made them.
        newest: Vec<(ArtifactId, String)>,
    },
    /// No target has stored such a result.
    #[error("no result is stored as {id}")]
    StoredNowhere {
        /// Its handle.
        id: ArtifactId,
    },
    /// The session that had a result is over.
    #[error("the session with {target} is over, and with it what was stored as {id}")]
    SessionOver {
        /// Its handle.
        id: ArtifactId,
        /// The target.
        target: String,
    },
    /// As many calls as are allowed are running on the target.
    #[error("busy: {running} calls are running, which is the limit")]
    Busy {
        /// How many run.
        running: usize,
        /// When the first of them should end.
        retry_after_ms: u64,
    },
    /// What would be done cannot be written down.
    #[error("{0}")]
    Audit(#[from] AuditError),
    /// What was done cannot be written down.
    #[error("{done}, but that could not be written down: {error}")]
    Unwritten {
        /// What was done.
        done: String,
        /// Why it is not in the log.
        error: AuditError,
    },
    /// There is no agent on the target.
    #[error("{0}")]
    Push(Box<PushError>),
    /// The agent gave no answer.
    #[error("{0}")]
    Call(CallError),
    /// What is to be swept is no machine.
    #[error(
        "{target} is no machine: nothing of a session is left in files; sweep the machine itself"
    )]
    NoMachine {
        /// The target.
        target: String,
    },
    /// A defect of sysmcp, or of the agent.
    #[error("a defect: {0}")]
    Defect(String),
}

const ANOTHER_LOG: &str = "name another with --audit-log or SYSMCP_AUDIT_LOG";

impl GateError {
    /// What the caller can do next.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Busy { retry_after_ms, .. } => Some(format!("retry in {retry_after_ms} ms")),
            Self::Call(CallError::Agent(error)) => error.remedy(),
            Self::Call(CallError::Lost(_)) => {
                Some("call again: the next call connects anew".to_owned())
            }
            Self::Call(CallError::Overdue { .. }) => {
                Some("ask for a shorter window; the target may be too busy to answer".to_owned())
            }
            Self::StoredNowhere { id } | Self::SessionOver { id, .. } => {
                AgentError::NoSuchArtifact { id: *id }.remedy()
            }
            Self::GaveWay { call, .. } => Some(format!("repeat the call that made it: {call}")),
            Self::NotStored { id, newest } if newest.is_empty() => {
                AgentError::NoSuchArtifact { id: *id }.remedy()
            }
            Self::NotStored { newest, .. } => {
                let told = newest.iter().map(|(id, call)| format!("{id} ({call})"));
                Some(format!("stored are: {}", told.collect::<Vec<_>>().join(", ")))
            }
            Self::Audit(_) => Some(format!("nothing is done without one; {ANOTHER_LOG}")),
            Self::Unwritten { .. } => Some(ANOTHER_LOG.to_owned()),
            Self::Elsewhere { stored, .. } => Some(format!("call again, with the target {stored}")),
            Self::UnknownTool { .. }
            | Self::Arguments { .. }
            | Self::Target { .. }
            | Self::Push(_)
            | Self::NoMachine { .. }
            | Self::Defect(_) => None,
        }
    }

    /// The error and the remedy as one text, short enough for every client.
    pub fn text(&self) -> String {
        const MOST_BYTES: usize = 2000;
        // Each part is escaped where it comes from, but an error repeats the value that was wrong,
        // and that may be anything.
        let remedy = self.remedy().map(|remedy| format!(". {remedy}")).unwrap_or_default();
        let room = MOST_BYTES.saturating_sub(remedy.len());
        let text = bounded::sentence(&self.to_string(), room) + &remedy;
        host_text::printable(&text).into_owned()
    }

    /// Whether the same call may succeed if it is made again.
    pub const fn is_transient(&self) -> bool {
        matches!(
            self,
            Self::Busy { .. }
                | Self::Call(
                    CallError::Lost(_)
                        | CallError::Overdue { .. }
                        | CallError::Agent(AgentError::Busy { .. })
                )
        )
    }

    /// The exit code for a command that ends with this.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::UnknownTool { .. } | Self::Arguments { .. } | Self::Target { .. } => exit::USAGE,
            Self::Elsewhere { .. }
            | Self::GaveWay { .. }
            | Self::NotStored { .. }
            | Self::StoredNowhere { .. }
            | Self::SessionOver { .. }
            | Self::Busy { .. } => exit::NO_ANSWER,
            Self::Audit(_) | Self::Unwritten { .. } => exit::NO_AUDIT,
            Self::Push(error) => error.exit_code(),
            Self::NoMachine { .. } => exit::BAD_TARGET,
            Self::Call(CallError::Agent(AgentError::IsThread { .. })) => exit::USAGE,
            Self::Call(CallError::Agent(_)) => exit::NO_ANSWER,
            Self::Call(CallError::Lost(_) | CallError::Overdue { .. }) => exit::LOST,
            Self::Defect(_) => exit::DEFECT,
        }
    }
}
