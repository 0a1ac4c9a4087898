//! Why `ssh` could not log in, read off what it wrote to stderr.

use crate::{
    target::SshTarget,
    transport::failure::{Failure, by_hand, forget, known_hosts_name, user_name},
    words,
};
use protocol::host_text::HostText;
use std::path::Path;

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
    let mut host = known_hosts_name(target);
    let by_hand = by_hand(target, config);
    if text.contains("REVOKED HOST KEY") || text.contains("marked as revoked") {
        return Some(Failure::HostKeyRevoked { host });
    }
    if text.contains("HOST IDENTIFICATION HAS CHANGED") {
        let host = changed_host(&text).unwrap_or(host);
        let remedy = forget(offending_file(&text), &host);
        return Some(Failure::HostKeyChanged { host, remedy });
    }
    if text.contains("Host key verification failed") || text.contains("host key is known for") {
        if text.contains(BEFORE_ANY_KEY) {
            host = format!("a host on the way to {host}");
        }
        return Some(Failure::HostKeyUnknown { host, fingerprint: None, remedy: by_hand });
    }
    if text.contains("Permission denied") || text.contains("Too many authentication failures") {
        let (user, said) = (user_name(target), last_line(&text).unwrap_or_default());
        return Some(Failure::LoginRefused { host, user, said, by_hand });
    }
    if let Some((_, why)) = text.split_once("channel 0: open failed: ") {
        // In clientloop.c of OpenSSH: the reason's name, and the server's words.
        let (user, said) = (user_name(target), words::of_others(first_line(why), 200));
        return Some(Failure::NoSession { host, user, said });
    }
    if is_closed_early(&text) {
        return Some(Failure::closed_early(host, ""));
    }
    if let Some(said) = other_service(&text) {
        return Some(Failure::not_ssh(host, said));
    }
    if is_closed_at_login(&text) {
        let (user, said) = (user_name(target), HostText::default());
        return Some(Failure::ClosedAtLogin { host, user, said });
    }
    // At our `LogLevel` it is silent where it gives up at the key exchange (`sshlogdie` in OpenSSH's
    // log.c).
    let said = last_line(&text).unwrap_or_else(|| {
        let said = format!(
            "ssh ended without a word, as it does where the host closes the connection during the \
             login, or has no algorithm that ssh may use (KexAlgorithms, Ciphers, MACs and \
             HostKeyAlgorithms in your configuration allow more); it says more by hand: {by_hand}"
        );
        HostText::capped(said.as_bytes(), 600)
    });
    Some(Failure::Unreachable { host, said })
}

/// How `ssh` says that the other end closed before it said what it is (`kex_exchange_identification` in
/// OpenSSH's kex.c). A host whose key is looked at has said it: where the check of a key failed and
/// then this is said, the key was that of a host on the way, which an `ssh` of its own connects to.
const BEFORE_ANY_KEY: &str = "kex_exchange_identification: ";

/// Whether the other end closed before it said what it is, and nothing that stands in the place of TCP
/// knows more about it. "Connection closed by" is what `ssh` adds to it (`sshpkt_vfatal` in OpenSSH's
/// packet.c).
fn is_closed_early(text: &str) -> bool {
    let closes =
        |line: &str| line.contains("Connection closed") || line.contains("Connection reset");
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    lines.peek().is_some_and(|first| first.starts_with(BEFORE_ANY_KEY))
        && lines.all(|line| {
            let is_first = line.starts_with(BEFORE_ANY_KEY);
            let is_added = line.starts_with("Connection closed by ")
                || line.starts_with("Connection reset by ");
            closes(line) && (is_first || is_added)
        })
}

/// What the other end said that is no SSH server of version 2: `banner line 0: HTTP/1.1 400`
/// (`kex_exchange_identification` in OpenSSH's kex.c).
fn other_service(text: &str) -> Option<&str> {
    let line = text.lines().find(|line| line.starts_with(BEFORE_ANY_KEY))?;
    let (_, said) = line.split_once("banner line 0: ")?;
    said.starts_with("HTTP/").then_some(said)
}

/// Whether the other end closed once it was known, and `ssh` knows no more of it (`sshpkt_vfatal` in
/// OpenSSH's packet.c).
fn is_closed_at_login(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.next().is_some_and(|line| line.starts_with("Connection closed by "))
        && lines.next().is_none()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// Whom a login that was refused would have had to ask, where a key is not among what is left: as
/// `ssh` lists the methods, behind `Permission denied`.
pub fn wants_answers(said: &str) -> Option<&'static str> {
    let (_, methods) = said.rsplit_once("Permission denied (")?;
    let methods: Vec<&str> = methods.split(')').next()?.split(',').collect();
    let is_asked = |method: &&str| ["password", "keyboard-interactive"].contains(method);
    match methods.iter().all(is_asked) {
        true if methods == ["password"] => Some("a password"),
        true => Some("an answer, such as a password or a code"),
        false => None,
    }
}

/// The host whose key has changed, as `check_host_key` in OpenSSH's sshconnect.c names it: the
/// configuration, or a jump host, may make it another than the target's.
fn changed_host(text: &str) -> Option<String> {
    let named = |line: &str| {
        let (_, rest) = line.trim_end().split_once("ost key for ")?;
        let host = rest.strip_suffix(" has changed and you have requested strict checking.")?;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]%".contains(&byte);
        (host.len() <= 300 && host.bytes().all(is_plain)).then(|| host.to_owned())
    };
    text.lines().find_map(named)
}

/// The file that has the old key: `Offending ED25519 key in /file:3`, where the colon is the last.
fn offending_file(text: &str) -> Option<&Path> {
    text.lines().find_map(|line| {
        let (_, place) = line.trim_end().strip_prefix("Offending ")?.split_once(" key in ")?;
        let (file, number) = place.rsplit_once(':')?;
        let is_line = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        (is_line && file.starts_with('/') && !file.contains(char::is_control))
            .then(|| Path::new(file))
    })
}

/// Whether a line of `ssh` says why it gives up: it has words, and not only those that it gives up on
/// a configuration, which stand behind the reason.
pub fn says_why(line: &[u8]) -> bool {
    const GIVES_UP: &[u8] = b": terminating, ";
    !line.trim_ascii().is_empty() && !line.windows(GIVES_UP.len()).any(|part| part == GIVES_UP)
}

/// The last line that says something, secrets taken out, escaped. That the other end closed says less
/// than what a command in the place of TCP, such as the `ssh` to a jump host, has written before; and
/// that a configuration is given up, less than why.
fn last_line(text: &str) -> Option<HostText> {
    let says_more = |line: &&str| !line.starts_with(BEFORE_ANY_KEY);
    let lines = || text.lines().rev().filter(|line| says_why(line.as_bytes()));
    let line = lines().find(says_more).or_else(|| lines().next())?;
    Some(words::of_others(line.trim().trim_end_matches('.'), 200))
}

#[cfg(test)]
mod tests {
    use super::{super::tests::target, *};

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
            ("", "it says more by hand: ssh -p 2222 deploy@web"),
            (
                "channel 0: open failed: connect failed: open failed\r\n",
                "opens no session (connect failed: open failed)",
            ),
            ("Connection closed by 10.0.0.1 port 22\r\n", "closed the connection during the login"),
            (
                "/c: line 1: Bad configuration option: x\r\n\
                 /c: terminating, 1 bad configuration options\r\n",
                "Bad configuration option: x",
            ),
        ];
        for (stderr, want) in cases {
            let failure = explained(stderr).unwrap().to_string();
            assert!(failure.contains(want), "{stderr}: {failure}");
        }
    }

    #[test]
    fn the_fix_for_a_changed_key_is_for_the_name_and_the_file_that_have_it() {
        let said = |name: &str, place: &str| {
            format!(
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\r\n\
                 Offending ED25519 key in {place}\r\n  remove with:\r\n\
                 Host key for {name} has changed and you have requested strict checking.\r\n\
                 Host key verification failed.\r\n"
            )
        };
        let cases = [
            (said("[10.0.0.1]:22", "/a/b:3"), "ssh-keygen -f /a/b -R '[10.0.0.1]:22'"),
            (said("db", "/a b/it's:12"), "ssh-keygen -f \"/a b/it's\" -R db"),
            (said("db", "/a:b/c:1"), "ssh-keygen -f /a:b/c -R db"),
            // What is not as ssh writes it is not taken over.
            (said("db'; rm x '", "/a:1"), "ssh-keygen -f /a -R '[web]:2222'"),
            (said("db", "a:1"), "ssh-keygen -R db"),
            (said("db", "/a:1x"), "ssh-keygen -R db"),
        ];
        for (stderr, want) in cases {
            let failure = explained(&stderr).unwrap().to_string();
            assert!(failure.ends_with(want), "{stderr}: {failure}");
        }
    }

    #[test]
    fn a_jump_host_is_not_taken_for_the_target() {
        let end = "kex_exchange_identification: Connection closed by remote host\r\n";
        let unknown = explained(&format!("Host key verification failed.\r\n{end}")).unwrap();
        let unknown = unknown.to_string();
        assert!(unknown.starts_with("the host key of a host on the way to [web]:2222 is"));
        let refused = format!("ssh: connect to host jump port 22: Connection refused\r\n{end}");
        let refused = explained(&refused).unwrap().to_string();
        let want = "connect to host jump port 22: Connection refused. Nothing listens there";
        assert!(refused.contains(want), "{refused}");
    }

    #[test]
    fn a_host_that_closes_before_it_says_anything_is_told_from_one_that_is_not_reached() {
        let closed = "kex_exchange_identification: Connection closed by remote host\r\n";
        let reset = "kex_exchange_identification: read: Connection reset by peer\r\n";
        let cases = [
            (closed.to_owned(), true),
            (reset.to_owned(), true),
            (format!("{closed}Connection closed by 10.0.0.1 port 22\r\n"), true),
            (format!("{reset}Connection reset by 10.0.0.1 port 22\r\n"), true),
            // A jump host that closes, and the ssh behind it.
            (format!("{closed}{closed}"), true),
            (format!("ssh: connect to host jump port 22: Connection refused\r\n{closed}"), false),
            (format!("Host key verification failed.\r\n{closed}"), false),
            ("Connection closed by 10.0.0.1 port 22\r\n".to_owned(), false),
            ("kex_exchange_identification: banner line too long\r\n".to_owned(), false),
        ];
        for (stderr, want) in cases {
            let failure = explained(&stderr).unwrap();
            let is_early = matches!(failure, Failure::ClosedEarly { .. });
            assert_eq!(is_early, want, "{stderr}: {failure}");
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
    fn somebody_is_wanted_only_where_a_key_is_not() {
        let cases = [
            ("a@web: Permission denied (password).", Some("a password")),
            (
                "a@web: Permission denied (keyboard-interactive)",
                Some("an answer, such as a password or a code"),
            ),
            ("a@web: Permission denied (publickey,password).", None),
            ("Too many authentication failures", None),
        ];
        for (said, want) in cases {
            assert_eq!(wants_answers(said), want, "{said}");
        }
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
