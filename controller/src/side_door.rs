//! The side door of a server: the socket at which a person asks it for a recording that one of its
//! sessions holds.
//!
//! A recording is on the target for as long as the session, and the session belongs to the server that
//! an AI agent's client started. So whoever wants it in a file asks that server. Nothing else can be
//! asked here, and only by the same user: the socket is in a folder of that user alone, and the kernel
//! says who is at the other end.

#[cfg(unix)]
#[path = "side_door/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "side_door/windows.rs"]
mod system;
#[cfg(unix)]
mod words;

pub use system::{Door, ask};

use crate::{exit, profile::ProfileError};
use protocol::artifact::ArtifactId;
use std::path::{Path, PathBuf};

/// Why a server cannot be asked for recordings.
#[derive(Debug, thiserror::Error)]
pub enum NoDoor {
    /// No folder for the socket.
    #[error("there is no folder for its socket: neither XDG_RUNTIME_DIR nor HOME is set")]
    NoFolder,
    /// The folder is not only ours.
    #[error("{} is not used for its socket: {why}", .folder.display())]
    NotAlone {
        /// The folder.
        folder: PathBuf,
        /// Why.
        why: &'static str,
    },
    /// The socket could not be made.
    #[error("its socket could not be made in {}: {error}", .folder.display())]
    Listen {
        /// The folder.
        folder: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// Not on this system.
    #[error("servers have no socket on this system")]
    NotHere,
}

/// Why there is no recording.
#[derive(Debug, thiserror::Error)]
pub enum NoRecording {
    /// Nobody to ask.
    #[error(
        "no `sysmcp serve` of this user runs on this machine, so there is nobody to ask for {id}"
    )]
    NoServer {
        /// What was asked for.
        id: ArtifactId,
    },
    /// Nobody has it.
    #[error("no server that runs here has {id}; asked: {}", .asked.join("; "))]
    NotThere {
        /// What was asked for.
        id: ArtifactId,
        /// Each server, and what it said.
        asked: Vec<String>,
    },
    /// The server that has it could not get it.
    #[error("{reason}")]
    Refused {
        /// Why, with what to do next.
        reason: String,
        /// The exit code for it.
        exit_code: u8,
    },
    /// What came is no recording.
    #[error("{0}")]
    Profile(#[from] ProfileError),
    /// The server ended meanwhile.
    #[error("the server with pid {server} stopped in the middle of its answer")]
    Broken {
        /// Its pid, as its socket is called.
        server: String,
    },
    /// Not on this system.
    #[error("a server that runs cannot be asked for a recording on this system")]
    NotHere,
}

impl NoRecording {
    /// What to do next.
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoServer { .. } | Self::NotThere { .. } => Some(
                "a recording lives as long as the session that made it, in the server that an AI \
                 agent's client started: have the call that made it repeated there, and export the \
                 handle that its answer names",
            ),
            Self::Broken { .. } => Some("try again"),
            Self::NotHere => Some("use sysmcp on Linux or macOS, or in WSL"),
            Self::Refused { .. } | Self::Profile(_) => None,
        }
    }

    /// The exit code for it.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Refused { exit_code, .. } => *exit_code,
            Self::NoServer { .. }
            | Self::NotThere { .. }
            | Self::Profile(_)
            | Self::Broken { .. }
            | Self::NotHere => exit::NO_ANSWER,
        }
    }
}

/// The pid in a socket's name.
#[cfg(unix)]
fn server_of(socket: &Path) -> String {
    let name = socket.file_stem().unwrap_or_default().to_string_lossy();
    name.split('-').next().unwrap_or_default().to_owned()
}
