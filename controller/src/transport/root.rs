//! The agent as root's, whoever logs in: the start-up script is started by the login's `sudo` or
//! `doas`.
//!
//! Where somebody sits at a terminal, sudo is asked to prompt with a mark of our own on stderr (`-p`),
//! to read the password from stdin (`-S`), and to ask whatever was typed before (`-k`). Only that mark
//! is answered: without a password to be asked for, what is typed would go to the script instead.
//! Elsewhere sudo is told that nobody can be asked (`-n`). doas asks only at a terminal of its own, so
//! it is always told so.

use super::{
    Carrier, Prompts,
    carrier::Said,
    terminal::{Echo, ask},
};
use crate::{exit, push::script::new_token, target::Target, words};
use protocol::host_text::HostText;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// Starts the script as root. Travels as the start-up script does, so the same characters are
/// forbidden. Whoever is root already needs no sudo. The messages are wanted in English, to be told
/// apart.
const SCRIPT: &str = "\
export LC_ALL=C; script=\"SCRIPT\"; ASKED\
if test \"`id -u`\" = 0; then exec /bin/sh -c \"$script\"; fi; \
if command -v sudo >/dev/null 2>&1; then exec sudo OPTIONS -- /bin/sh -c \"$script\"; fi; \
if command -v doas >/dev/null 2>&1; then exec doas -n /bin/sh -c \"$script\"; fi; \
echo MISSING >&2; exit 90;";

/// What stands on stderr where there is neither.
const MISSING: &str = "sysmcp-no-sudo";

/// How root is become.
#[derive(Clone, Debug)]
pub struct Rise {
    /// The mark that sudo prompts with; none where nobody can be asked.
    mark: Option<String>,
    /// Where, for questions and errors.
    place: String,
}

impl Rise {
    /// For a target whose script is to be started as root; none where that is not wanted, or done by
    /// what starts it, as an engine does for a container.
    ///
    /// # Errors
    ///
    /// When there are no random bytes.
    pub fn of(
        target: &Target,
        as_root: bool,
        prompts: Prompts,
    ) -> Result<Option<Self>, std::io::Error> {
        let is_ours = match target {
            Target::Local | Target::Ssh(_) => as_root,
            Target::Container(_) | Target::Wsl(_) | Target::Snapshot(_) => false,
        };
        if !is_ours {
            return Ok(None);
        }
        let mark = match prompts {
            Prompts::Forbidden => None,
            Prompts::Allowed => Some(new_token()?.as_str().to_owned()),
        };
        Ok(Some(Self { mark, place: target.to_string() }))
    }

    /// The script that starts the other one as root.
    pub fn wrap(&self, script: &str) -> String {
        // It stands between double quotes there; a backslash of its own would be doubled, which not
        // every login shell passes on.
        let mut quoted = String::with_capacity(script.len() + 64);
        for character in script.chars() {
            if matches!(character, '"' | '$' | '`' | '\\') {
                quoted.push('\\');
            }
            quoted.push(character);
        }
        // In two parts, so that an echo of this text is no prompt.
        let (asked, options) = match &self.mark {
            None => (String::new(), "-n"),
            Some(mark) => {
                (format!("asked=sysmcp-asks-; asked=${{asked}}{mark}; "), "-k -S -p \"$asked\"")
            }
        };
        SCRIPT
            .replace("ASKED", &asked)
            .replace("OPTIONS", options)
            .replace("MISSING", MISSING)
            .replace("SCRIPT", &quoted)
    }

    /// Answers each prompt of sudo with what is typed at the terminal, for as long as it is polled.
    /// Returns only when that cannot be done.
    pub async fn answer(
        &self,
        carrier: Option<&Carrier>,
        writer: &mut (impl AsyncWrite + Unpin),
    ) -> std::io::Error {
        let (Some(mark), Some(carrier)) = (&self.mark, carrier) else {
            return std::future::pending().await;
        };
        let prompt = format!("sysmcp-asks-{mark}");
        let said = carrier.said();
        for answered in 0.. {
            until_asked(&said, prompt.as_bytes(), answered).await;
            let again = if answered == 0 { "" } else { "that was not it; " };
            let question = format!("{again}password for sudo on {}: ", self.place);
            if let Err(error) = answer(&question, writer).await {
                return error;
            }
        }
        std::future::pending().await
    }

    /// Reads off what was written why there is no root. `None` where it was not for that.
    pub fn explain(&self, said: &[u8]) -> Option<Problem> {
        let text = String::from_utf8_lossy(said);
        let has = |words: &str| text.contains(words);
        let place = self.place.clone();
        if has(MISSING) {
            return Some(Problem::Missing { place });
        }
        if has("must have a tty") {
            return Some(Problem::WantsTerminal { place });
        }
        if has("incorrect password attempt") {
            return Some(Problem::WrongPassword { place });
        }
        if has("sudo: a password is required") || has("sudo: a terminal is required") {
            return Some(Problem::WantsPassword { place, program: "sudo" });
        }
        if has("doas: Authorization required") || has("doas: Authentication required") {
            return Some(Problem::WantsPassword { place, program: "doas" });
        }
        if has("is owned by uid") || has("is world writable") || has("no valid sudoers sources") {
            let said = words::of_others(text.lines().next().unwrap_or_default(), 200);
            return Some(Problem::Broken { place, said });
        }
        let refused = ["sudoers", "not allowed to", "may not run sudo", "doas: Operation not perm"];
        if refused.into_iter().any(has) {
            return Some(Problem::NotAllowed { place });
        }
        let line = text.lines().rev().find(|line| {
            ["sudo: ", "doas: "].iter().any(|program| line.trim_start().starts_with(program))
        })?;
        Some(Problem::Other { place, said: words::of_others(line, 200) })
    }
}

/// Waits until a prompt was written more often than it was answered.
async fn until_asked(said: &Said, prompt: &[u8], answered: usize) {
    let times = || said.bytes().windows(prompt.len()).filter(|window| *window == prompt).count();
    while times() <= answered {
        said.more().await;
    }
}

async fn answer(question: &str, writer: &mut (impl AsyncWrite + Unpin)) -> std::io::Result<()> {
    let typed = ask(question, Echo::Off).await?;
    writer.write_all(typed.as_bytes()).await?;
    writer.write_all(b"\n").await?;
    writer.flush().await
}

/// Why the agent is not root's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A password is wanted, and nobody can be asked.
    #[error(
        "{program} on {place} wants a password, and there is nobody to ask for it. Give the user a \
         rule without one ({}); or call from a terminal, where sudo's is asked for; or log in as \
         root", rule(.program)
    )]
    WantsPassword {
        /// Where.
        place: String,
        /// Which program.
        program: &'static str,
    },
    /// What was typed was wrong, each time.
    #[error("sudo on {place} does not accept the password")]
    WrongPassword {
        /// Where.
        place: String,
    },
    /// The user has no right to it.
    #[error(
        "the user on {place} may not become root: sudo or doas has no rule for it. Let an \
         administrator add one, use another user, or leave --sudo out"
    )]
    NotAllowed {
        /// Where.
        place: String,
    },
    /// A setting of sudo's wants a terminal there.
    #[error(
        "sudo on {place} starts nothing without a terminal there (`requiretty` in sudoers). Let an \
         administrator exempt the user: `Defaults:USER !requiretty`; or log in as root"
    )]
    WantsTerminal {
        /// Where.
        place: String,
    },
    /// Neither program is there.
    #[error("there is neither sudo nor doas on {place}. Log in as root there, or leave --sudo out")]
    Missing {
        /// Where.
        place: String,
    },
    /// sudo has a configuration that it does not take.
    #[error(
        "sudo on {place} does not take its own configuration (`{said}`). Let an administrator mend it \
         (`visudo -c` checks it), log in as root, or leave --sudo out"
    )]
    Broken {
        /// Where.
        place: String,
        /// What it said.
        said: HostText,
    },
    /// Nobody could be asked after all.
    #[error("sudo on {place} wants a password, and the terminal gave none: {why}")]
    NoAnswer {
        /// Where.
        place: String,
        /// Why.
        why: String,
    },
    /// Anything else that sudo or doas says.
    #[error(
        "there is no root on {place}: it said `{said}`. Try `sudo -n true` there by hand, log in as \
         root, or leave --sudo out"
    )]
    Other {
        /// Where.
        place: String,
        /// What it said.
        said: HostText,
    },
}

/// The rule that asks for no password.
fn rule(program: &str) -> &'static str {
    if program == "doas" {
        "`permit nopass USER` in doas.conf"
    } else {
        // Not written as sudoers has it: what stands behind such a word and a colon is taken for a secret.
        "in sudoers, with the tag NOPASSWD for /bin/sh, which is all of root"
    }
}

impl Rise {
    /// The error for a question that nobody answered.
    pub fn no_answer(&self, error: &std::io::Error) -> Problem {
        Problem::NoAnswer { place: self.place.clone(), why: error.to_string() }
    }
}

impl Problem {
    /// The exit code for a command that ends with this.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::WantsPassword { .. } | Self::NoAnswer { .. } => exit::PASSPHRASE,
            Self::WrongPassword { .. }
            | Self::NotAllowed { .. }
            | Self::WantsTerminal { .. }
            | Self::Missing { .. }
            | Self::Broken { .. }
            | Self::Other { .. } => exit::REFUSED_LOGIN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::script::{self, Instructions, Task};
    use protocol::handshake::Token;
    use std::{process::Command, time::Duration};

    fn rise(mark: Option<&str>) -> Rise {
        Rise { mark: mark.map(str::to_owned), place: "ssh:web".to_owned() }
    }

    fn start_up() -> String {
        let token = Token::new([0xab; 16]);
        let patience = Duration::from_secs(60);
        let task = Task::Machine;
        let instructions = Instructions { room_bytes: 1_200_000, patience, task, in_memory: true };
        script::for_session(&token, instructions)
    }

    #[test]
    fn it_survives_any_login_shell() {
        for mark in [None, Some("cdcd")] {
            let wrapped = rise(mark).wrap(&start_up());
            for forbidden in ["'", "\n", "!", "\\\\"] {
                assert!(!wrapped.contains(forbidden), "{forbidden:?}");
            }
            for placeholder in ["SCRIPT", "ASKED", "OPTIONS", "MISSING"] {
                assert!(!wrapped.contains(placeholder), "{placeholder}");
            }
        }
    }

    #[test]
    fn an_echo_of_it_is_no_prompt() {
        let wrapped = rise(Some("cdcd")).wrap(&start_up());
        assert!(wrapped.contains("cdcd") && !wrapped.contains("sysmcp-asks-cdcd"));
    }

    /// Stand-ins for `id`, and for sudo or doas, which print their arguments; and what a script prints
    /// that is started with them.
    fn run(programs: &[&str], mark: Option<&str>, script: &str) -> (String, Option<i32>) {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        for program in [&["id"], programs].concat() {
            let path = folder.path().join(program);
            std::fs::write(&path, "#!/bin/sh\nprintf '<%s>' \"$@\"\n").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &rise(mark).wrap(script)]).env("PATH", folder.path());
        let output = shell.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (String::from_utf8(text).unwrap(), output.status.code())
    }

    #[test]
    fn the_script_arrives_as_it_was_written() {
        let script = "a=`b \"$c\"`; test \"$a\" = \"x\" && echo $d";
        let behind = format!("</bin/sh><-c><{script}>");
        let cases: [(&[&str], Option<&str>, String); 4] = [
            (&["sudo"], None, format!("<-n><-->{behind}")),
            (&["sudo", "doas"], None, format!("<-n><-->{behind}")),
            (&["doas"], Some("cd"), format!("<-n>{behind}")),
            (&["sudo"], Some("cd"), format!("<-k><-S><-p><sysmcp-asks-cd><-->{behind}")),
        ];
        for (programs, mark, want) in cases {
            assert_eq!(run(programs, mark, script), (want, Some(0)), "{programs:?}");
        }
    }

    #[test]
    fn without_either_program_both_are_named() {
        let (said, code) = run(&[], None, "true");
        assert_eq!(code, Some(90));
        let problem = rise(None).explain(said.as_bytes()).unwrap().to_string();
        assert!(problem.contains("neither sudo nor doas on ssh:web"), "{problem}");
    }

    #[test]
    fn each_refusal_is_told_with_its_remedy() {
        let cases = [
            ("sudo: a password is required\n", "NOPASSWD"),
            ("sudo: a terminal is required to read the password; either use…\n", "from a terminal"),
            ("doas: Authorization required\n", "permit nopass USER"),
            ("sudo: sorry, you must have a tty to run sudo\n", "!requiretty"),
            ("Sorry, try again.\nsudo: 3 incorrect password attempts\n", "does not accept"),
            ("deploy is not in the sudoers file.\n", "may not become root"),
            (
                "Sorry, user deploy is not allowed to execute '/bin/sh -c x' as root on web.\n",
                "may not become root",
            ),
            ("doas: Operation not permitted\n", "may not become root"),
            ("sudo: unable to allocate pty\n", "no root on ssh:web: it said `sudo: unable"),
            ("sudo: /etc/sudoers is owned by uid 1000, should be 0\n", "`visudo -c` checks it"),
        ];
        for (said, want) in cases {
            let problem = rise(None).explain(said.as_bytes());
            let problem = problem.unwrap_or_else(|| panic!("not explained: {said}")).to_string();
            assert!(problem.contains(want), "{said}: {problem}");
        }
        assert_eq!(rise(None).explain(b"sh: dd: not found\n"), None);
    }

    #[test]
    fn only_a_login_becomes_root_by_itself() {
        let cases = [("local", true), ("ssh:web", true), ("docker:web", false), ("wsl:a", false)];
        for (target, want) in cases {
            let target = target.parse().unwrap();
            let risen = Rise::of(&target, true, Prompts::Forbidden).unwrap();
            assert_eq!(risen.is_some(), want, "{target}");
            assert!(Rise::of(&target, false, Prompts::Allowed).unwrap().is_none(), "{target}");
        }
    }

    #[tokio::test]
    async fn nothing_but_the_own_mark_is_a_prompt() {
        let said = Said::default();
        said.push(b"[sudo] password for deploy: sysmcp-asks-abab Password: ");
        let waiting = until_asked(&said, b"sysmcp-asks-cdcd", 0);
        assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
        said.push(b"sysmcp-asks-");
        said.push(b"cdcd");
        let waiting = until_asked(&said, b"sysmcp-asks-cdcd", 0);
        assert!(tokio::time::timeout(Duration::from_secs(5), waiting).await.is_ok());
        let waiting = until_asked(&said, b"sysmcp-asks-cdcd", 1);
        assert!(tokio::time::timeout(Duration::from_millis(50), waiting).await.is_err());
    }
}
