//! Why there is no agent at the other end.

use super::{NoShell, refusal::Refusal};
use crate::{
    agents::NoAgent,
    exit,
    snapshot::NotASnapshot,
    transport::{Failure, NotOpened, container, root, wsl},
};
use protocol::{frame::FrameError, handshake::HandshakeError, host_text::HostText};
use std::time::Duration;

/// Why there is no agent at the other end.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PushError {
    /// The folder that was named as a snapshot is none.
    #[error("{0}")]
    Snapshot(#[from] NotASnapshot),
    /// None can be sent.
    #[error("{0}")]
    NoAgent(NoAgent),
    /// The process that would carry the channel could not be started.
    #[error("could not start a connection: {0}")]
    Transport(String),
    /// ssh did not log in, or nothing answers behind the login.
    #[error("{0}")]
    Ssh(#[from] Failure),
    /// The agent is not root's, and should be.
    #[error("{0}")]
    Root(root::Problem),
    /// No way into a container.
    #[error("{0}")]
    Container(container::Problem),
    /// No way into a distribution.
    #[error("{0}")]
    Wsl(wsl::Problem),
    /// What answered is no shell that runs the script.
    #[error("{}", .0.sentence())]
    NoShell(NoShell),
    /// The script said why it would not start the agent.
    #[error("{}", .refusal.sentence(*.bytes))]
    Refused {
        /// Why.
        refusal: Refusal,
        /// Bytes that need room.
        bytes: usize,
    },
    /// The script said something it does not say.
    #[error("the target answered `{line}` where the start-up script answers")]
    Script {
        /// What it said.
        line: HostText,
    },
    /// The agent is not the one that was sent.
    #[error("{0}")]
    Handshake(#[from] HandshakeError),
    /// What came is not a frame.
    #[error("the target sent what is no message: {0}")]
    Frame(#[from] FrameError),
    /// The agent was on its way, and got no further.
    #[error(
        "the connection was lost while the agent was sent: {} of it had arrived, and for {seconds} s \
         nothing more did. Try again once the network is there", if *.sent == 0 { "none" } else { "some" }
    )]
    Stalled {
        /// Bytes that had arrived at the next machine.
        sent: usize,
        /// How long it was waited for more.
        seconds: u64,
    },
    /// It took too long.
    #[error("{doing} took longer than {seconds} s; allow more with --connect-timeout")]
    TimedOut {
        /// What took so long.
        doing: &'static str,
        /// The limit.
        seconds: u64,
    },
}

impl From<NotOpened> for PushError {
    fn from(not_opened: NotOpened) -> Self {
        match not_opened {
            NotOpened::Login(failure) => Self::Ssh(failure),
            NotOpened::Container(problem) => Self::Container(problem),
            NotOpened::Wsl(problem) => Self::Wsl(problem),
            NotOpened::Process(error) => Self::Transport(error.to_string()),
        }
    }
}

impl PushError {
    pub(super) fn late(doing: &'static str, limit: Duration) -> Self {
        Self::TimedOut { doing, seconds: limit.as_secs() }
    }

    /// The exit code for a command that ends with this.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Snapshot(_) => exit::BAD_TARGET,
            Self::NoAgent(
                NoAgent::Machine { .. }
                | NoAgent::OtherPrograms { .. }
                | NoAgent::UnknownMachine { .. },
            ) => exit::CANNOT_RUN,
            Self::NoAgent(_) => exit::NO_AGENT,
            Self::Transport(_) | Self::Stalled { .. } | Self::TimedOut { .. } => exit::UNREACHABLE,
            Self::Ssh(failure) => failure.exit_code(),
            Self::Root(problem) => problem.exit_code(),
            Self::Container(problem) => problem.exit_code(),
            Self::Wsl(problem) => problem.exit_code(),
            Self::NoShell(_) | Self::Script { .. } => exit::NO_SHELL,
            Self::Refused { refusal, .. } => refusal.exit_code(),
            Self::Handshake(_) | Self::Frame(_) => exit::ALTERED,
        }
    }
}
