//! Why there is no login, whichever SSH tried.

use super::known_hosts::with_port;
use crate::{exit, target::SshTarget, words};
use protocol::host_text::HostText;
use shlex::try_quote as quote;
use std::{path::Path, time::Duration};

/// The cause of a failed login.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The host key differs from the recorded one.
    #[error(
        "the host key of {host} has changed since it was recorded. If you know why, forget the old \
         one: {remedy}"
    )]
    HostKeyChanged {
        /// The host, as known_hosts names it.
        host: String,
        /// The command.
        remedy: String,
    },
    /// The host key is one that was revoked.
    #[error(
        "the host key of {host} is marked as revoked: whoever has it may not be that host. Do not \
         connect; ask whoever keeps the known hosts"
    )]
    HostKeyRevoked {
        /// The host, as known_hosts names it.
        host: String,
    },
    /// No host key is recorded.
    #[error(
        "the host key of {host} is not known{}. Compare its fingerprint and record it by logging in \
         once: {remedy}; or have sysmcp record it: --accept-new", shown(.fingerprint.as_deref())
    )]
    HostKeyUnknown {
        /// The host.
        host: String,
        /// The fingerprint of the key that it showed, if that was seen.
        fingerprint: Option<String>,
        /// The command.
        remedy: String,
    },
    /// A file of known hosts that could decide and cannot be read.
    #[error("whether {host} is the one it says it is cannot be told: {file}: {why}")]
    KnownHosts {
        /// The host.
        host: String,
        /// The file.
        file: String,
        /// Why it cannot be read.
        why: String,
    },
    /// A host key that gives no safety.
    #[error(
        "{host} shows an RSA key of {bits} bits, which is too small to prove anything. Give the \
         host another key: ssh-keygen -A there"
    )]
    HostKeyTooSmall {
        /// The host.
        host: String,
        /// Its bits.
        bits: usize,
    },
    /// A host's certificate that cannot be accepted.
    #[error("what {host} showed to prove who it is cannot be accepted: {why}")]
    HostCertificate {
        /// The host.
        host: String,
        /// Why.
        why: String,
    },
    /// A key is encrypted and nobody can be asked.
    #[error(
        "{key} wants a passphrase, and there is no terminal to ask at. Load it into an ssh-agent \
         first: ssh-add {key}"
    )]
    Passphrase {
        /// The key's file.
        key: String,
    },
    /// No login method was accepted.
    #[error(
        "{host} does not let {user} in: {said}. The server's own log says why; try by hand: {by_hand}"
    )]
    LoginRefused {
        /// The host.
        host: String,
        /// The user, if one was named.
        user: String,
        /// What ssh said.
        said: HostText,
        /// The command.
        by_hand: String,
    },
    /// No connection came about.
    #[error("{host} does not answer: {said}{}", what_helps(.said.as_str()))]
    Unreachable {
        /// The host.
        host: String,
        /// What ssh said.
        said: HostText,
    },
    /// The host closed the connection before it said what it is, each time.
    #[error(
        "{host} does not answer: it closed the connection before it said what it is{}{}. It turns \
         logins away while there are too many at once (`MaxStartups` in its sshd_config), or this \
         machine for a while (`PerSourcePenalties`, fail2ban): try again in a minute, or ask whoever \
         keeps it", times(*.attempts), beside(.said)
    )]
    ClosedEarly {
        /// The host.
        host: String,
        /// What it said instead, or nothing.
        said: HostText,
        /// How often it was asked.
        attempts: u32,
    },
    /// What listens is something else.
    #[error(
        "what listens at {host} is no SSH server of version 2: it says `{said}`. Name the port of one; \
         an SSH server that knows only version 1 has to be replaced"
    )]
    NotSsh {
        /// The host.
        host: String,
        /// What it says.
        said: HostText,
    },
    /// The host wants an answer that only a person can give.
    #[error(
        "{host} wants {wanted}, and there is no terminal to ask at. Use a key; or have a connection \
         shared (`ControlMaster auto`, `ControlPath ~/.ssh/%C` and `ControlPersist 1h` for it in your \
         SSH configuration) and log in by hand first: {by_hand}"
    )]
    NobodyToAsk {
        /// The host.
        host: String,
        /// What it asks for.
        wanted: &'static str,
        /// The command.
        by_hand: String,
    },
    /// A step of connecting took too long.
    #[error("{host}: {step} took longer than {seconds} s{}", more_time(.step))]
    TimedOut {
        /// The host.
        host: String,
        /// The step.
        step: &'static str,
        /// The limit.
        seconds: u64,
    },
    /// The host closed the connection during the login, without a reason.
    #[error(
        "{host} does not let {user} in: it closed the connection during the login{}. A server does \
         that where PAM refuses the account: it has expired, logins are shut (/etc/nologin), or its \
         shell is not in /etc/shells. The server's own log says which", instead(.said)
    )]
    ClosedAtLogin {
        /// The host.
        host: String,
        /// The user, if one was named.
        user: String,
        /// What it said before, or nothing.
        said: HostText,
    },
    /// The user is let in and may start nothing.
    #[error(
        "{host} lets {user} in and opens no session ({said}). The account may be for jumping only \
         (`MaxSessions 0` in sshd_config), or the server can start nothing now: its own log says \
         which. Use another account, or let an administrator allow a session"
    )]
    NoSession {
        /// The host.
        host: String,
        /// The user, if one was named.
        user: String,
        /// What was said.
        said: HostText,
    },
    /// The user is let in, and then nothing answers.
    #[error(
        "{host} lets {user} in, and no shell answers within {seconds} s{}. What the account runs first \
         (a start-up file such as .bashrc, a forced command) takes that long, waits for input, or \
         sends its output elsewhere. See what it does: {by_hand} true; allow more with \
         --connect-timeout", instead(.said)
    )]
    Silent {
        /// The host.
        host: String,
        /// The user, if one was named.
        user: String,
        /// What came instead, or nothing.
        said: HostText,
        /// The limit.
        seconds: u64,
        /// The command.
        by_hand: String,
    },
    /// What the configuration asks for is beyond sysmcp's own SSH, and that one was asked for, or
    /// there is no other.
    #[error("sysmcp's own SSH cannot do that: {why}. {remedy}")]
    Beyond {
        /// What.
        why: String,
        /// What helps.
        remedy: &'static str,
    },
    /// There is no `ssh` on this machine.
    #[error("there is no ssh on this machine; install an OpenSSH client")]
    NoSsh,
}

/// The name under which known_hosts keeps the host.
pub(super) fn known_hosts_name(target: &SshTarget) -> String {
    target.port.map_or_else(|| target.host.clone(), |port| with_port(&target.host, port))
}

/// The user, for an error.
pub(super) fn user_name(target: &SshTarget) -> String {
    target.user.clone().unwrap_or_else(|| "the configured user".to_owned())
}

/// The command that takes a host's keys out of a file, or out of the user's usual one.
pub(super) fn forget(file: Option<&Path>, host: &str) -> String {
    // An alias may hold anything but a NUL.
    let host = quote(host).unwrap_or_default();
    match file.and_then(Path::to_str).and_then(|file| quote(file).ok()) {
        Some(file) => format!("ssh-keygen -f {file} -R {host}"),
        None => format!("ssh-keygen -R {host}"),
    }
}

/// What one would type to see the same; words from a configuration are quoted for a shell.
pub(super) fn by_hand(target: &SshTarget, config: Option<&Path>) -> String {
    let mut command = String::from("ssh");
    if let Some(config) = config.and_then(Path::to_str).and_then(|path| quote(path).ok()) {
        command.push_str(&format!(" -F {config}"));
    }
    if let Some(port) = target.port {
        command.push_str(&format!(" -p {port}"));
    }
    let user = target.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
    command.push_str(&format!(" {user}{}", target.host));
    command
}

/// What helps against the usual reasons for which nothing answers, as the system and `ssh` name them.
fn what_helps(said: &str) -> &'static str {
    const REASONS: [(&str, &str); 6] = [
        (
            "connection refused",
            ". Nothing listens there: check the port, and that the SSH server runs",
        ),
        ("no route to host", ". Check the address, and the network or VPN that leads there"),
        ("network is unreachable", ". Check the address, and the network or VPN that leads there"),
        ("timed out", ". It is down, or something between drops what is sent: check the address"),
        ("name or service not known", ". Check the spelling, or write its address"),
        (
            "name resolution",
            ". Check the spelling and the DNS of this machine, or write its address",
        ),
    ];
    let said = said.to_ascii_lowercase();
    REASONS.iter().find(|(reason, _)| said.contains(reason)).map_or("", |(_, remedy)| remedy)
}

/// What a step that takes too long may mean, and what gives it more time.
fn more_time(step: &str) -> &'static str {
    match step {
        "connecting" => {
            ": nothing came back. It is down, or something between drops what is sent: check the \
             address; ConnectTimeout in your SSH configuration gives it more time"
        }
        "the key exchange" => {
            ": it accepts connections, and is too slow, or no SSH server. Check the port; \
             ConnectTimeout in your SSH configuration gives it more time"
        }
        _ => ": it is too busy, or stuck. Try again later",
    }
}

fn times(attempts: u32) -> String {
    if attempts > 1 { format!(", {attempts} times in a row") } else { String::new() }
}

fn beside(said: &HostText) -> String {
    if said.as_str().is_empty() { String::new() } else { format!(", and said: {said}") }
}

fn instead(said: &HostText) -> String {
    if said.as_str().is_empty() { String::new() } else { format!(" (it said `{said}`)") }
}

fn shown(fingerprint: Option<&str>) -> String {
    fingerprint.map(|fingerprint| format!(" (it shows {fingerprint})")).unwrap_or_default()
}

impl Failure {
    /// For a host that was asked once.
    pub(super) fn closed_early(host: String, said: &str) -> Self {
        // The first line is the reason; what follows is the same again, or for nobody.
        let said = said.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        if said.starts_with("HTTP/") {
            return Self::not_ssh(host, said);
        }
        Self::ClosedEarly { host, said: words::of_others(said, 100), attempts: 1 }
    }

    /// For a host that says something that no SSH server of version 2 says.
    pub(super) fn not_ssh(host: String, said: &str) -> Self {
        Self::NotSsh { host, said: words::of_others(said, 100) }
    }

    /// Nothing answers behind a login; `said` is what came instead.
    pub fn silent(
        target: &SshTarget,
        config: Option<&Path>,
        said: HostText,
        limit: Duration,
    ) -> Self {
        let user = user_name(target);
        let (host, by_hand) = (known_hosts_name(target), by_hand(target, config));
        Self::Silent { host, user, said, seconds: limit.as_secs(), by_hand }
    }

    /// The exit code for a command that ends with this.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::HostKeyChanged { .. }
            | Self::HostKeyRevoked { .. }
            | Self::HostKeyUnknown { .. }
            | Self::KnownHosts { .. }
            | Self::HostKeyTooSmall { .. }
            | Self::HostCertificate { .. } => exit::HOST_KEY,
            Self::Passphrase { .. } | Self::NobodyToAsk { .. } => exit::PASSPHRASE,
            Self::LoginRefused { .. } | Self::ClosedAtLogin { .. } => exit::REFUSED_LOGIN,
            Self::NoSession { .. } => exit::NO_SHELL,
            Self::Unreachable { .. }
            | Self::ClosedEarly { .. }
            | Self::NotSsh { .. }
            | Self::TimedOut { .. }
            | Self::Silent { .. }
            | Self::Beyond { .. }
            | Self::NoSsh => exit::UNREACHABLE,
        }
    }
}
