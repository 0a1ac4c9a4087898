//! sysmcp's own SSH: a connection of this process, with everything checked that `ssh` would check.
//!
//! It does what a [`Meaning`] says and nothing else. Where a host wants what it cannot do, that is a
//! [`Beyond`], and the user's own `ssh` may do it.

mod algorithms;
mod channel;
mod dial;
mod handler;
mod identities;
mod login;
mod onward;
mod signer;
mod stream;

pub use channel::Connection;

use super::{
    Channel, Failure, Login, Step, Timings, failure, known_hosts::with_port, meaning::Meaning,
};
use crate::{target::SshTarget, words};
use protocol::host_text::HostText;
use std::{fmt, path::Path, time::Duration};

/// Why there is no connection.
#[derive(Debug)]
pub enum Problem {
    /// Nobody would have one.
    Failure(Failure),
    /// The user's `ssh` might have one.
    Beyond(Beyond),
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        Self::Failure(failure)
    }
}

impl From<Beyond> for Problem {
    fn from(beyond: Beyond) -> Self {
        Self::Beyond(beyond)
    }
}

/// What a host wants and sysmcp's own SSH cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Algorithms of one kind, of which we share none that the configuration allows.
    Algorithms {
        /// The kind.
        kind: &'static str,
        /// What the host offers, capped and escaped.
        offered: String,
        /// What we offered, as far as the configuration allows it, capped.
        ours: String,
    },
    /// Algorithms of one kind, of which we have none that the configuration allows.
    NoneAllowed {
        /// The kind.
        kind: &'static str,
        /// What the configuration allows, capped and escaped.
        allowed: String,
    },
    /// A host on the way wants it.
    OnTheWay {
        /// Which.
        host: String,
        /// What.
        wanted: Box<Beyond>,
    },
    /// Text that is none.
    Unreadable,
    /// Login methods that only `ssh` has.
    Methods {
        /// Their names on the wire.
        names: Vec<String>,
    },
}

impl Beyond {
    /// We have none of the algorithms that the configuration allows.
    fn none_allowed(kind: &'static str, allowed: &[String]) -> Self {
        Self::NoneAllowed { kind, allowed: list(allowed) }
    }
}

/// Names as a reader is shown them.
fn list(names: &[String]) -> String {
    HostText::capped(names.join(",").as_bytes(), 250).to_string()
}

impl fmt::Display for Beyond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OnTheWay { host, wanted } => write!(f, "jump host {host}: {wanted}"),
            Self::Algorithms { kind, offered, ours } => write!(
                f,
                "the host offers no {kind} that we have and may use: it has {offered}, and we have \
                 {ours}"
            ),
            Self::NoneAllowed { kind, allowed } => {
                write!(f, "your SSH configuration allows no {kind} that we have: {allowed}")
            }
            Self::Unreadable => f.write_str(
                "the host says something during the login that is no UTF-8, such as an old banner",
            ),
            Self::Methods { names } => {
                write!(f, "the host lets nobody in but by {}", names.join(" or "))
            }
        }
    }
}

/// What each step may take at most. The whole has a limit of its own.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// For TCP.
    connection: Duration,
    /// For the key exchange.
    exchange: Duration,
    /// For any other answer of the host.
    answer: Duration,
}

/// Who is being connected to, for errors.
#[derive(Clone, Copy)]
struct Place<'a> {
    target: &'a SshTarget,
    config: Option<&'a Path>,
    meaning: &'a Meaning,
}

impl Place<'_> {
    /// The host, as known_hosts names it.
    fn host(&self) -> String {
        let Meaning { host_key_alias, host, port, .. } = self.meaning;
        host_key_alias.clone().unwrap_or_else(|| with_port(host, *port))
    }

    fn by_hand(&self) -> String {
        failure::by_hand(self.target, self.config)
    }

    fn unreachable(&self, said: &str) -> Failure {
        Failure::Unreachable { host: self.host(), said: words::of_others(said, 300) }
    }

    fn closed_at_login(&self, said: &str) -> Failure {
        let (user, said) = (self.meaning.user.clone(), words::of_others(said, 300));
        Failure::ClosedAtLogin { host: self.host(), user, said }
    }

    fn no_session(&self, said: &str) -> Failure {
        let (user, said) = (self.meaning.user.clone(), words::of_others(said, 300));
        Failure::NoSession { host: self.host(), user, said }
    }

    fn timed_out(&self, step: &'static str, limit: Duration) -> Failure {
        Failure::TimedOut { host: self.host(), step, seconds: limit.as_secs() }
    }
}

/// Connects to the host of a target and starts a command there.
///
/// # Errors
///
/// Why there is no connection.
pub async fn open(
    target: &SshTarget,
    meaning: &Meaning,
    script: &str,
    login: &Login,
    timings: &mut Timings,
) -> Result<Channel, Problem> {
    let place = Place { target, config: login.ssh_config.as_deref(), meaning };
    let connected = dial::connect(place, login, timings).await?;
    let channel = channel::start(place, connected, script, login.answer_limit).await?;
    timings.mark(Step::Channel);
    Ok(channel)
}
