//! Why `ssh` could not log in, read off what it wrote to stderr.

use crate::target::SshTarget;
use protocol::{host_text::HostText, redact};
use shlex::try_quote as quote;
use std::path::Path;

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
        "the host key of {host} is not known. Compare its fingerprint and record it by logging in \
         once: {remedy}"
    )]
    HostKeyUnknown {
        /// The host.
        host: String,
        /// The command.
        remedy: String,
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
    #[error("{host} does not let {user} in: {said}. Try by hand: {by_hand}")]
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
    #[error("{host} does not answer: {said}")]
    Unreachable {
        /// The host.
        host: String,
        /// What ssh said.
        said: HostText,
    },
    /// There is no `ssh` on this machine.
    #[error("there is no ssh on this machine; install an OpenSSH client")]
    NoSsh,
}

/// Reads the cause off stderr. `None` when ssh itself did not fail.
pub fn explain(
    target: &SshTarget,
    config: Option<&Path>,
    code: Option<i32>,
    stderr: &[u8],
) -> Option<Failure> {
    let text = String::from_utf8_lossy(stderr);
    if code == Some(127) && text.contains("ssh") {
        return Some(Failure::NoSsh);
    }
    // ssh exits with 255 when it fails itself, and with the command's code otherwise.
    if code != Some(255) {
        return None;
    }
    let host = known_hosts_name(target);
    let by_hand = by_hand(target, config);
    if text.contains("REVOKED HOST KEY") || text.contains("marked as revoked") {
        return Some(Failure::HostKeyRevoked { host });
    }
    if text.contains("HOST IDENTIFICATION HAS CHANGED") {
        let remedy = format!("ssh-keygen -R '{host}'");
        return Some(Failure::HostKeyChanged { host, remedy });
    }
    if text.contains("Host key verification failed") || text.contains("host key is known for") {
        return Some(Failure::HostKeyUnknown { host, remedy: by_hand });
    }
    if text.contains("Permission denied") || text.contains("Too many authentication failures") {
        let user = target.user.clone().unwrap_or_else(|| "the configured user".to_owned());
        return Some(Failure::LoginRefused { host, user, said: last_line(&text), by_hand });
    }
    Some(Failure::Unreachable { host, said: last_line(&text) })
}

/// The last line that says something, secrets taken out, escaped.
fn last_line(text: &str) -> HostText {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("ssh ended");
    let (line, _) = redact::text(line.trim().trim_end_matches('.'));
    HostText::capped(line.as_bytes(), 200)
}

/// The name under which known_hosts keeps the host.
fn known_hosts_name(target: &SshTarget) -> String {
    match target.port {
        Some(port) if port != 22 => format!("[{}]:{port}", target.host),
        Some(_) | None => target.host.clone(),
    }
}

/// What one would type to see the same; words from a configuration are quoted for a shell.
fn by_hand(target: &SshTarget, config: Option<&Path>) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Target;

    fn target(text: &str) -> SshTarget {
        match text.parse() {
            Ok(Target::Ssh(target)) => target,
            other => panic!("{other:?}"),
        }
    }

    fn explained(stderr: &str) -> Option<Failure> {
        explain(&target("ssh:deploy@web:2222"), None, Some(255), stderr.as_bytes())
    }

    #[test]
    fn each_cause_has_its_fix() {
        let changed = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\nHost key \
                       verification failed.\r\n";
        let cases = [
            (changed, "ssh-keygen -R '[web]:2222'"),
            (
                "@ WARNING: REVOKED HOST KEY DETECTED! @\r\nThe ED25519 host key for web is marked \
                 as revoked.\r\nHost key verification failed.\r\n",
                "Do not connect",
            ),
            ("Host key verification failed.\r\n", "ssh -p 2222 deploy@web"),
            (
                "No ED25519 host key is known for [web]:2222 and you have requested strict \
                 checking.\r\nHost key verification failed.\r\n",
                "is not known",
            ),
            ("deploy@web: Permission denied (publickey).\r\n", "does not let deploy in"),
            ("ssh: connect to host web port 2222: Connection refused\r\n", "Connection refused"),
            ("ssh: Could not resolve hostname web: nope\r\n", "Could not resolve hostname"),
            ("kex_exchange_identification: read: Connection reset by peer\r\n", "does not answer"),
            ("", "ssh ended"),
        ];
        for (stderr, want) in cases {
            let failure = explained(stderr).unwrap().to_string();
            assert!(failure.contains(want), "{stderr}: {failure}");
        }
    }

    #[test]
    fn what_to_type_names_the_configuration_that_was_used() {
        let denied = b"deploy@web: Permission denied (publickey).";
        let config = Some(Path::new("/a b/config"));
        let failure = explain(&target("ssh:deploy@web"), config, Some(255), denied).unwrap();
        assert!(failure.to_string().ends_with("ssh -F '/a b/config' deploy@web"), "{failure}");
    }

    #[test]
    fn a_command_that_failed_on_the_host_is_not_a_failure_of_ssh() {
        assert_eq!(explain(&target("ssh:web"), None, Some(1), b"Permission denied"), None);
    }

    #[test]
    fn what_ssh_says_is_escaped_and_holds_no_secret() {
        let failure = explained("ssh: \x1b[31mconnect to http://a:hunter2@b: refused\r\n").unwrap();
        let text = failure.to_string();
        assert!(!text.contains('\x1b') && !text.contains("hunter2"), "{text}");
    }
}
