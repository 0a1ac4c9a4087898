//! What the user's SSH configuration means for one target, as far as we can be true to it ourselves.
//!
//! The configuration is not interpreted here where there is an `ssh` to ask: `ssh -G` says what it
//! comes to. Every setting it names has to be one that we know, with a value that we can honour;
//! anything else is [`Outside`], and the user's own `ssh` is the way in.

mod account;
mod asked;
mod harmless;
mod jumps;
mod read;
mod settings;
mod tokens;
mod values;

pub use account::Account;
pub use jumps::Place;
pub use read::{Sources, algorithms::Defaults};

use crate::target::SshTarget;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// Settings in the order in which they were said: names in lower case, with their values.
pub type Settings = Vec<(String, String)>;

/// A login, with nothing left to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meaning {
    /// The name or address to connect to.
    pub host: String,
    /// The port to connect to.
    pub port: u16,
    /// The user to log in as.
    pub user: String,
    /// The name under which known_hosts keeps the host, where the configuration gives it another.
    pub host_key_alias: Option<String>,
    /// Private keys (or their public halves, for an ssh-agent to find them by), best first. They
    /// need not exist.
    pub identity_files: Vec<PathBuf>,
    /// Certificates for those keys. They need not exist.
    pub certificate_files: Vec<PathBuf>,
    /// Whether only keys of `identity_files` and `certificate_files` may be offered.
    pub identities_only: bool,
    /// The socket of the ssh-agent; none where there is none, or none is to be asked.
    pub agent_socket: Option<PathBuf>,
    /// Login methods in the order to try them, without those that are switched off.
    pub methods: Vec<Method>,
    /// Methods that the configuration allows and only `ssh` itself knows, by their names on the wire.
    pub methods_of_ssh_alone: Vec<String>,
    /// The user's known_hosts files, in order; the first is where a new key is written.
    pub user_known_hosts: Vec<PathBuf>,
    /// The machine's known_hosts files, in order.
    pub global_known_hosts: Vec<PathBuf>,
    /// What to do about a host key that is not known.
    pub unknown_host_key: UnknownHostKey,
    /// Whether the address has to be known with the same key too, if it is known at all. `ssh`
    /// does not check an address of this machine, or one that was given instead of a name
    /// (`check_host_key` in OpenSSH's sshconnect.c); that is left to whoever knows the address.
    pub checks_address: bool,
    /// Whether names are written to known_hosts as hashes.
    pub hashes_known_hosts: bool,
    /// How the connection is made.
    pub route: Route,
    /// Which addresses of the host may be connected to.
    pub addresses: Addresses,
    /// How long connecting may take, if the configuration says.
    pub connect_timeout: Option<Duration>,
    /// After how long a silence to ask whether the server is still there.
    pub alive_interval: Option<Duration>,
    /// How many such questions may stay without an answer.
    pub alive_count: usize,
    /// Which algorithms the configuration allows, by their names on the wire.
    pub algorithms: Algorithms,
    /// The smallest RSA key that is accepted, in bits.
    pub rsa_bits: usize,
    /// When to agree on new keys during a connection.
    pub rekey: Rekey,
    /// How often to ask for a password.
    pub password_prompts: usize,
    /// Whether the configuration forbids asking anything (`BatchMode`). The methods that ask are
    /// then not among `methods`.
    pub is_batch: bool,
    /// Where the master of shared connections would listen, if the configuration has one.
    pub control_path: Option<PathBuf>,
}

impl Meaning {
    /// The hosts that are logged in to, each with its port: this one, and those on the way.
    pub fn hosts(&self) -> Vec<(&str, u16)> {
        let mut hosts = match &self.route {
            Route::Direct | Route::Command(_) => Vec::new(),
            Route::Jump(jump) => jump.hosts(),
        };
        hosts.push((&self.host, self.port));
        hosts
    }
}

/// Which addresses of a host may be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// All.
    Any,
    /// Those of version 4.
    V4,
    /// Those of version 6.
    V6,
}

/// When to agree on new keys during a connection, beyond what the cipher itself demands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rekey {
    /// After how many bytes.
    pub bytes: Option<u64>,
    /// After how long.
    pub time: Option<Duration>,
}

/// A login method that we know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A key or a certificate.
    PublicKey,
    /// Questions of the server, as for a second factor.
    KeyboardInteractive,
    /// A password.
    Password,
}

/// What to do about a host key that is not known. One that has changed is always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownHostKey {
    /// Refuse it.
    Refuse,
    /// Write it down and go on, as the user asked for.
    Accept,
}

/// How a connection is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// By TCP.
    Direct,
    /// Through another host, which has a meaning of its own.
    Jump(Box<Meaning>),
    /// Through a program, with every token replaced. `ssh` puts `exec` before it and gives it to the
    /// user's shell: `$SHELL -c "exec …"`, with `/bin/sh` where there is no `$SHELL`
    /// (`ssh_proxy_connect` in OpenSSH's sshconnect.c).
    Command(String),
}

/// Algorithms that the configuration allows, by their names on the wire, in its order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Algorithms {
    /// Key exchange.
    pub key_exchange: Vec<String>,
    /// Ciphers.
    pub ciphers: Vec<String>,
    /// Message authentication codes.
    pub macs: Vec<String>,
    /// Keys and certificates of hosts.
    pub host_keys: Vec<String>,
    /// Keys and certificates of users.
    pub user_keys: Vec<String>,
    /// Signatures of certificate authorities.
    pub authority_signatures: Vec<String>,
}

/// Why we cannot be true to the configuration ourselves.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Outside {
    /// A setting that we do not know, or a value that we cannot honour.
    #[error("your SSH configuration says `{setting} {value}`")]
    Setting {
        /// The setting's name.
        setting: String,
        /// Its value, capped and escaped.
        value: String,
    },
    /// Without an `ssh` to ask, the file says what only `ssh` can tell.
    #[error("{file}, line {line}: {problem}, and there is no ssh on this machine to ask")]
    Line {
        /// The file.
        file: String,
        /// The line's number.
        line: usize,
        /// What is there.
        problem: String,
    },
    /// `ssh -G` refused the configuration or the target.
    #[error("ssh does not understand its configuration: {said}")]
    Refused {
        /// What it said.
        said: String,
    },
    /// `ssh -G` does not say anything, as when a `Match exec` hangs.
    #[error("`ssh -G` did not say within {seconds} s what your SSH configuration comes to")]
    Silent {
        /// How long it was waited for.
        seconds: u64,
    },
    /// The user that this program runs as is not known to the system.
    #[error("user {uid} has no home folder: getent passwd {uid} does not name one")]
    NoAccount {
        /// The user's number.
        uid: u32,
    },
    /// Jump hosts that need jump hosts.
    #[error("the way there takes more than {limit} jump hosts")]
    TooManyJumps {
        /// How many are followed.
        limit: usize,
    },
}

/// How many jump hosts are followed.
const MOST_JUMPS: usize = 8;

/// What the configuration means for a target. Asks `ssh -G`, and reads the files where there is no
/// `ssh`.
///
/// # Errors
///
/// Why we cannot be true to it.
pub async fn of(target: &SshTarget, config: Option<&Path>) -> Result<Meaning, Outside> {
    let account = Account::of_this_process().await?;
    let mut place = Place::of(target);
    let mut chain = Vec::new();
    loop {
        let Some(settings) = asked::settings(&place, config).await? else {
            return read_without_ssh(target, config, &Sources::default(), &account);
        };
        match link(&mut chain, &settings, &place, &account)? {
            Some(jump) => place = jump,
            None => return whole(chain),
        }
    }
}

/// What the configuration means for a target, without an `ssh` to ask.
///
/// # Errors
///
/// Why we cannot be true to it; among others the first line that we are not sure of.
pub fn read_without_ssh(
    target: &SshTarget,
    config: Option<&Path>,
    sources: &Sources,
    account: &Account,
) -> Result<Meaning, Outside> {
    let mut place = Place::of(target);
    let mut chain = Vec::new();
    loop {
        let settings = read::settings(&place, config, sources, account)?;
        match link(&mut chain, &settings, &place, account)? {
            Some(jump) => place = jump,
            None => return whole(chain),
        }
    }
}

/// What `ssh -G` says the configuration comes to for a target; `None` where there is no `ssh`.
///
/// # Errors
///
/// When `ssh` refuses, or does not answer.
pub async fn settings(
    target: &SshTarget,
    config: Option<&Path>,
) -> Result<Option<Settings>, Outside> {
    asked::settings(&Place::of(target), config).await
}

/// What has to be connected to first, for one host.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Next {
    /// Nothing more: the route is known.
    Nothing,
    /// A jump host, of which the configuration has to be asked in turn.
    Jump(Place),
}

/// Adds one host to the way there. Gives the jump host before it, if there is one.
fn link(
    chain: &mut Vec<Meaning>,
    settings: &Settings,
    place: &Place,
    account: &Account,
) -> Result<Option<Place>, Outside> {
    let (meaning, next) = settings::judge(settings, place, account)?;
    chain.push(meaning);
    match next {
        Next::Nothing => Ok(None),
        Next::Jump(_) if chain.len() > MOST_JUMPS => {
            Err(Outside::TooManyJumps { limit: MOST_JUMPS })
        }
        Next::Jump(place) => Ok(Some(place)),
    }
}

/// Puts the hosts of a way together: the first is the target, and each is reached through the next.
fn whole(chain: Vec<Meaning>) -> Result<Meaning, Outside> {
    let through = |jump: Meaning, mut host: Meaning| {
        host.route = Route::Jump(Box::new(jump));
        host
    };
    chain.into_iter().rev().reduce(through).ok_or(Outside::TooManyJumps { limit: MOST_JUMPS })
}
