//! Why a session is over that nobody ended, and why a call gave no answer.

use protocol::error::AgentError;

/// Why a session ended that was not asked to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The channel closed.
    Closed,
    /// Nothing came for too long.
    Silent {
        /// The limit, in seconds.
        seconds: u64,
    },
    /// Nothing came for longer than heartbeats explain, and nothing when the agent was asked.
    Gone {
        /// For how long nothing had come, in seconds.
        silent_s: u64,
        /// How long a sign of life was waited for, in seconds.
        asked_s: u64,
    },
    /// What came is no message.
    Garbled(String),
    /// Calls neither ended in time nor when they were withdrawn.
    Stuck,
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("the connection to the target closed"),
            Self::Silent { seconds } => {
                write!(f, "nothing came from the target for {seconds} s")
            }
            Self::Gone { silent_s, asked_s } => write!(
                f,
                "nothing had come from the target for {silent_s} s, nor within {asked_s} s of asking: \
                 this machine slept, or the network was cut"
            ),
            Self::Garbled(why) => write!(f, "the target sent what is no message: {why}"),
            Self::Stuck => f.write_str("the agent hung in a call that it could not end"),
        }
    }
}

/// Why a call gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The agent says why.
    #[error("{0}")]
    Agent(AgentError),
    /// The session ended meanwhile.
    #[error("{0}")]
    Lost(Lost),
    /// The agent did not answer in time, not even with an error.
    #[error("the agent gave no answer within {seconds} s")]
    Overdue {
        /// The limit, in seconds.
        seconds: u64,
    },
}
