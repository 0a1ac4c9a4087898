//! What answers where a shell should, told by what it says.
//!
//! The sentences are those of nologin (util-linux and shadow), of the restricted modes of bash, zsh and
//! ksh, of git-shell, and of OpenSSH's session.c and auth-pam.c. They are looked for in parts that all
//! known versions have.

use super::first_of;
use protocol::{handshake::MAX_NOISE_BYTES, host_text::HostText};

/// What answered, as far as it can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoShell {
    cause: Cause,
    /// The exit code of what answered.
    status: Option<i32>,
    /// What it said.
    said: HostText,
}

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The login shell of accounts without one.
    Nologin,
    /// A shell that runs no other program.
    Restricted,
    /// The login shell of accounts for git.
    Git,
    /// A server that does sftp only.
    Sftp,
    /// The password has to be changed first.
    Expired,
    /// A limit on processes.
    Processes,
    /// The login shell is not where it should be.
    MissingShell,
    /// There is no `/bin/sh`.
    MissingSh,
    /// It shows the command instead of running it.
    Echo,
    /// It never stops talking.
    Noise,
    /// The server gives up before it starts anything.
    Session,
    /// The start-up script found its input closed, or read by somebody else.
    NoInput,
    /// Anything else, with words or without.
    Unknown,
}

/// What is said, and who says it.
const SAID: &[(&str, Cause)] = &[
    ("This account is currently not available", Cause::Nologin),
    ("This account is not available", Cause::Nologin),
    (": restricted", Cause::Restricted),
    ("fatal: unrecognized command", Cause::Git),
    ("This service allows sftp connections only", Cause::Sftp),
    ("Password change required", Cause::Expired),
    ("password has expired", Cause::Expired),
    ("annot fork", Cause::Processes),
    ("fork: retry", Cause::Processes),
    ("fork: Resource temporarily unavailable", Cause::Processes),
    // The agent.
    ("probe-agent: cannot start a process of its own: Resource", Cause::Processes),
    ("probe-agent: cannot start a thread: Resource", Cause::Processes),
    // The start-up script itself, of which the start or the end may be missing.
    (SCRIPT[0], Cause::Echo),
    (SCRIPT[1], Cause::Echo),
];

/// What stands near the start and near the end of the start-up script.
const SCRIPT: [&str; 2] = ["umask 077; set -f; token=", "say READY ${machine:-unknown} $unpack"];

/// With which the start-up script ends where it was sent no header.
const NO_HEADER: i32 = 89;

/// With which sshd ends a session that PAM does not open (`do_child` in OpenSSH's session.c).
const NO_SESSION: i32 = 254;

impl NoShell {
    /// Reads off what came on stdout in place of a mark, and on stderr, what answered.
    pub(super) fn told_by(status: Option<i32>, noise: &[u8], stderr: &[u8]) -> Self {
        let said = first_of(if noise.trim_ascii().is_empty() { stderr } else { noise });
        Self { cause: Cause::told_by(status, noise, stderr), status, said }
    }

    /// What it is, and what helps.
    pub fn sentence(&self) -> String {
        let said = &self.said;
        match self.cause {
            Cause::Nologin => format!(
                "the account has no shell: nologin answers (`{said}`). Give it a login shell (`chsh -s \
                 /bin/sh` as root there) and no forced command, or use another account"
            ),
            Cause::Restricted => format!(
                "the account has a restricted shell, which may not run /bin/sh (`{said}`). Give it \
                 another login shell, or use another account"
            ),
            Cause::Git => "the account is for git alone: git-shell answers. Use another account"
                .to_owned(),
            Cause::Sftp => format!(
                "the account is for sftp alone (`{said}`). Use another account, or let an administrator \
                 exempt it from `ForceCommand internal-sftp` in sshd_config"
            ),
            Cause::Expired => format!(
                "the account's password has expired and must be changed before anything else \
                 (`{said}`). Log in by hand, with ssh and at a terminal, and change it"
            ),
            Cause::Processes => format!(
                "the account may start no more processes there (`{said}`). End some of its processes, \
                 or raise the limit (`ulimit -u`, `nproc` in limits.conf; of a container, \
                 `--pids-limit`)"
            ),
            Cause::MissingShell => format!(
                "the account's login shell is not there (`{said}`). Give it one that is, also inside of \
                 a `ChrootDirectory` of sshd_config if it has one"
            ),
            Cause::MissingSh => format!(
                "there is no /bin/sh that runs on the target (`{said}`). The agent needs one to start, \
                 also inside of a `ChrootDirectory` of sshd_config if it has one"
            ),
            Cause::Echo => "what answers shows the command instead of running it: a forced command, an \
                            alias of exec, or a login shell that is none. The account needs a login \
                            shell and no forced command"
                .to_owned(),
            Cause::Noise => format!(
                "what answers wrote more than {} kB before the start-up script's first word. Let the \
                 account's start-up files, such as .bashrc, print only at a terminal",
                MAX_NOISE_BYTES >> 10
            ),
            Cause::Session => "the server lets the user in and opens no session (exit code 254, without \
                               a word): PAM refuses it. The server's log says why"
                .to_owned(),
            Cause::NoInput => "what is sent does not reach the start-up script: a start-up file of the \
                               account, such as .bashrc, reads or closes its input. Let it do that only \
                               at a terminal"
                .to_owned(),
            Cause::Unknown => self.any(),
        }
    }

    fn any(&self) -> String {
        let status = self.status.map(|code| format!(" (exit code {code})")).unwrap_or_default();
        let said = match self.said.as_str() {
            "" => "it ended without a word".to_owned(),
            said => format!("it said `{said}`"),
        };
        format!(
            "what answers on the target is no shell{status}: {said}. The account needs a login shell, \
             no forced command, and start-up files (such as .bashrc) that do not end it"
        )
    }
}

impl Cause {
    fn told_by(status: Option<i32>, noise: &[u8], stderr: &[u8]) -> Self {
        if noise.len() > MAX_NOISE_BYTES {
            return Self::Noise;
        }
        let text = [noise, b"\n", stderr].concat();
        let text = String::from_utf8_lossy(&text);
        if let Some((_, cause)) = SAID.iter().find(|(words, _)| text.contains(words)) {
            return *cause;
        }
        if let Some(cause) = text.lines().find_map(missing) {
            return cause;
        }
        match (status, text.trim().is_empty()) {
            (Some(NO_HEADER), _) => Self::NoInput,
            (Some(NO_SESSION), true) => Self::Session,
            (Some(_) | None, _) => Self::Unknown,
        }
    }
}

/// A shell that is missing, as sshd says it (`do_child` in OpenSSH's session.c) or a shell does.
fn missing(line: &str) -> Option<Cause> {
    let before = line.trim_end().strip_suffix(": No such file or directory");
    let before = before.or_else(|| line.trim_end().strip_suffix(": not found"))?;
    if before.ends_with("/bin/sh") {
        return Some(Cause::MissingSh);
    }
    let is_path = before.starts_with('/') && !before.contains([' ', ':']);
    is_path.then_some(Cause::MissingShell)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_script_is_known_by_both_of_its_ends() {
        let source = include_str!("bootstrap.sh").replace('\n', " ");
        for part in SCRIPT {
            assert!(source.contains(part), "{part}");
        }
    }

    #[test]
    fn what_answers_is_told_by_what_it_says() {
        let cases: [(Option<i32>, &str, &str, &str); 19] = [
            (Some(1), "This account is currently not available.\n", "", "nologin answers"),
            (Some(1), "Welcome\n", "rbash: line 1: exec: restricted\n", "a restricted shell"),
            (Some(1), "", "zsh:exec:1: /bin/sh: restricted\n", "a restricted shell"),
            (Some(128), "", "fatal: unrecognized command 'exec /bin/sh -c …'", "git-shell answers"),
            (Some(1), "This service allows sftp connections only.\n", "", "for sftp alone"),
            (
                Some(1),
                "",
                "WARNING: Your password has expired.\nPassword change required but no TTY \
                 available.\n",
                "and change it",
            ),
            (Some(2), "", "/bin/sh: 1: Cannot fork\n", "`ulimit -u`"),
            (Some(254), "", "bash: fork: retry: Resource temporarily unavailable\n", "`ulimit -u`"),
            (Some(1), "", "/bin/zsh: No such file or directory\n", "login shell is not there"),
            (Some(127), "", "ash: /bin/sh: not found\n", "no /bin/sh that runs"),
            (Some(126), "", "bash: line 1: /bin/sh: No such file or directory", "no /bin/sh"),
            (Some(0), "exec /bin/sh -c 'umask 077; set -f; token=ab", "", "shows the command"),
            (Some(254), "", "", "PAM refuses it"),
            (Some(254), "bye", "", "it said `bye`"),
            (Some(89), "", "", "reads or closes its input"),
            (Some(1), "", "", "(exit code 1): it ended without a word"),
            (None, "", "", "is no shell: it ended without a word"),
            (Some(0), "read only mirror\n", "", "(exit code 0): it said `read only mirror`"),
            (Some(127), "", "bash: line 1: /opt/menu: No such file or directory", "is no shell"),
        ];
        for (status, noise, stderr, want) in cases {
            let told = NoShell::told_by(status, noise.as_bytes(), stderr.as_bytes()).sentence();
            assert!(told.contains(want), "{noise}{stderr}: {told}");
        }
        let noise = vec![b'x'; MAX_NOISE_BYTES + 1];
        let told = NoShell::told_by(None, &noise, b"").sentence();
        assert!(told.contains("more than 64 kB") && told.len() < 300, "{told}");
    }
}
