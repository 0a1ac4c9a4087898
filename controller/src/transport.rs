//! How bytes reach an agent: a command is started somewhere, and its stdin and stdout are ours.

pub mod known_hosts;
pub mod local;
pub mod meaning;
pub mod openssh;
pub mod process;

use crate::target::Target;
use std::path::PathBuf;
use tokio::io::{AsyncRead, AsyncWrite};

/// A command's stdin and stdout, and how it ends.
pub struct Channel {
    /// What the command writes.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What the command reads. Dropping it closes the command's stdin.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// The process that carries the channel; none where there is no process.
    pub process: Option<process::Carrier>,
}

/// How a login is made.
#[derive(Clone, Debug)]
pub struct Login {
    /// Whether somebody can be asked for a passphrase.
    pub prompts: Prompts,
    /// A configuration for ssh, instead of the user's own.
    pub ssh_config: Option<PathBuf>,
}

/// Whether somebody sits at a terminal and can be asked for a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompts {
    /// ssh may ask at the terminal.
    Allowed,
    /// Nobody can be asked: a login that would have to ask fails instead.
    Forbidden,
}

/// Starts a command on a target.
///
/// `script` is one line for a POSIX shell without single quotes; see [`crate::push::script`].
///
/// # Errors
///
/// When the process that would carry the channel cannot be started.
pub fn open(target: &Target, script: &str, login: &Login) -> std::io::Result<Channel> {
    match target {
        Target::Local => local::open(script, None),
        Target::Snapshot(folder) => local::open(script, Some(folder)),
        Target::Ssh(ssh) => openssh::open(ssh, script, login),
    }
}
