//! How bytes reach an agent: a command is started somewhere, and its stdin and stdout are ours.

mod carrier;
pub mod container;
mod doors;
mod failure;
pub mod known_hosts;
pub mod local;
pub mod meaning;
pub mod native;
pub mod openssh;
mod outgoing;
pub mod process;
pub mod root;
mod terminal;
mod timings;
mod way;
pub mod wsl;

pub use carrier::{Carrier, Ended};
pub use doors::{Admitted, Doors};
pub use failure::Failure;
pub use outgoing::Outgoing;
pub use timings::{Step, Timings, Traffic};
pub use way::{Reason, Taken};

use crate::{
    reporter::{Reporter, Stage},
    target::Target,
};
use std::{path::PathBuf, sync::Arc, time::Duration};
use tokio::io::{AsyncRead, AsyncWrite};

/// A command's stdin and stdout, and how it ends.
pub struct Channel {
    /// What the command writes.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// What the command reads. Dropping it closes the command's stdin.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
    /// What carries the channel; none where nothing does, as in a test.
    pub carrier: Option<Carrier>,
    /// What has gone through.
    pub traffic: Arc<Traffic>,
    /// What carries away what is written.
    pub outgoing: Outgoing,
    /// The place that the login takes, for as long as it is not known to be over.
    pub login: Option<Admitted>,
}

impl Channel {
    /// A channel whose bytes are counted as they go through.
    pub fn new(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        carrier: Option<Carrier>,
    ) -> Self {
        let traffic = Arc::new(Traffic::default());
        Self {
            reader: Box::new(timings::count_reads(reader, &traffic)),
            writer: Box::new(timings::count_writes(writer, &traffic)),
            carrier,
            traffic,
            outgoing: Outgoing::Unknown,
            login: None,
        }
    }
}

/// How a login is made.
#[derive(Clone, Debug)]
pub struct Login {
    /// Whether somebody can be asked for a passphrase.
    pub prompts: Prompts,
    /// A configuration for ssh, instead of the user's own.
    pub ssh_config: Option<PathBuf>,
    /// Whether to believe a host whose key is not known, and to write its key down.
    pub accepts_new_hosts: bool,
    /// How long a host may take with each answer. Only for sysmcp's own SSH.
    pub answer_limit: Duration,
    /// Whether the agent is to be root's whoever logs in.
    pub as_root: bool,
    /// Where logins wait for their turn.
    pub doors: Doors,
}

impl Login {
    /// What a host gets for each answer: the slowest look names up of whoever connects.
    pub const ANSWER_LIMIT: Duration = Duration::from_secs(30);

    /// One where nobody is asked, nothing new is believed, and nobody becomes root.
    pub fn without_questions(ssh_config: Option<PathBuf>) -> Self {
        Self {
            prompts: Prompts::Forbidden,
            ssh_config,
            accepts_new_hosts: false,
            answer_limit: Self::ANSWER_LIMIT,
            as_root: false,
            doors: Doors::default(),
        }
    }
}

/// Whether somebody sits at a terminal and can be asked for a passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prompts {
    /// They may be asked at the terminal.
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
/// Why the command could not be started. Over the user's own `ssh`, only the end of the channel tells
/// why a login failed.
pub async fn open(
    target: &Target,
    script: &str,
    login: &Login,
    timings: &mut Timings,
    reporter: &dyn Reporter,
) -> Result<Channel, NotOpened> {
    let tell = || reporter.stage(&Stage::Connecting { target: target.clone(), taken: None });
    match target {
        Target::Local => {
            tell();
            Ok(local::open(script, None)?)
        }
        Target::Snapshot(folder) => {
            tell();
            Ok(local::open(script, Some(folder))?)
        }
        Target::Ssh(ssh) => way::open(ssh, script, login, timings, reporter).await,
        Target::Container(container) => {
            tell();
            Ok(container::open(container, script, login.as_root)?)
        }
        Target::Wsl(name) => {
            tell();
            Ok(wsl::open(name, script, login.as_root)?)
        }
    }
}

/// Why a command could not be started on a target.
#[derive(Debug, thiserror::Error)]
pub enum NotOpened {
    /// No login.
    #[error("{0}")]
    Login(#[from] Failure),
    /// No way into a container.
    #[error("{0}")]
    Container(#[from] container::Problem),
    /// No way into a distribution.
    #[error("{0}")]
    Wsl(#[from] wsl::Problem),
    /// The process that would carry the channel could not be started.
    #[error("{0}")]
    Process(#[from] std::io::Error),
}
