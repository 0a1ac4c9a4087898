//! The start-up script, and what it says.

use crate::{exit, transport::local::SNAPSHOT_VARIABLE};
use protocol::{
    handshake::{Sha256, Token},
    host_text::HostText,
};
use std::time::Duration;

const SOURCE: &str = include_str!("bootstrap.sh");

/// What the agent is asked to answer from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The machine it runs on.
    Machine,
    /// The folder in [`SNAPSHOT_VARIABLE`].
    Snapshot,
}

/// What nobody can guess.
///
/// # Errors
///
/// When there are no random bytes.
pub fn new_token() -> std::io::Result<Token> {
    let mut random = [0; 16];
    getrandom::fill(&mut random).map_err(std::io::Error::other)?;
    Ok(Token::new(random))
}

/// The script as one line, for one session. It waits no longer than `patience` for what is sent.
pub fn for_session(token: &Token, room_bytes: usize, patience: Duration, source: Source) -> String {
    let lines = SOURCE.lines().map(str::trim).filter(|line| !line.is_empty());
    let code: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    code.join(" ")
        .replace("TOKEN", token.as_str())
        .replace("ROOM", &room_bytes.to_string())
        .replace("PATIENCE", &patience.as_secs().to_string())
        .replace("HEADER", &HEADER_BYTES.to_string())
        .replace("ASKED", &asked(source))
}

/// The command that has a login shell of any kind run the script: it is only asked to become /bin/sh.
pub fn for_login_shell(script: &str) -> String {
    format!("exec /bin/sh -c '{script}'")
}

fn asked(source: Source) -> String {
    match source {
        Source::Machine => String::new(),
        Source::Snapshot => format!("--snapshot \"${SNAPSHOT_VARIABLE}\""),
    }
}

/// What the script's lines begin with.
pub fn mark(token: &Token) -> String {
    format!("sysmcp-{}", token.as_str())
}

/// Bytes of the line that announces the payload: always as many, so that the script knows how many
/// to read.
const HEADER_BYTES: usize = 96;

/// The line that announces the payload.
pub fn header(payload_bytes: usize, sha256: &Sha256, is_packed: bool) -> String {
    let form = if is_packed { "gzip" } else { "raw" };
    let line = format!("{payload_bytes} {sha256} {form}");
    format!("{line:<width$}\n", width = HEADER_BYTES - 1)
}

/// A line of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// A place was found; the payload may come.
    Ready {
        /// What `uname -m` says.
        machine: String,
        /// Whether the target can unpack gzip.
        unpacks: bool,
    },
    /// It will not start the agent.
    Refused(Refusal),
}

/// Why the script does not start the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No folder serves.
    NoPlace(Vec<(Obstacle, String)>),
    /// Nothing on the target can check what arrives.
    NoCheck,
    /// What arrived is not what was sent.
    Altered,
    /// Programs are missing that the script needs.
    Lacks(Vec<String>),
    /// A limit of the login's is too low.
    Limited(Limit, u64),
}

/// What a login may have too little of (setrlimit(2)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Open files.
    Files,
    /// Bytes of a file.
    Bytes,
}

/// Why one folder does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// Not writable to this user.
    Unwritable,
    /// No room for the file.
    Full,
    /// Files may not be run there.
    NoExec,
}

impl Line {
    /// Reads a line, without its mark.
    pub fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        match words.next()? {
            "READY" => {
                let machine = words.next()?.to_owned();
                // It is repeated in an error, so it may not be just any text.
                let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
                if machine.len() > 32 || !machine.bytes().all(is_name) {
                    return None;
                }
                Some(Self::Ready { machine, unpacks: words.next()? == "gzip" })
            }
            "NOPLACE" => Some(Self::Refused(Refusal::NoPlace(words.filter_map(place).collect()))),
            "NOCHECK" => Some(Self::Refused(Refusal::NoCheck)),
            "ALTERED" => Some(Self::Refused(Refusal::Altered)),
            "LACKS" => Some(Self::Refused(Refusal::Lacks(words.take(10).map(shown).collect()))),
            "LIMITED" => {
                let limit = match words.next()? {
                    "files" => Limit::Files,
                    "bytes" => Limit::Bytes,
                    _ => return None,
                };
                Some(Self::Refused(Refusal::Limited(limit, words.next()?.parse().ok()?)))
            }
            _ => None,
        }
    }
}

fn shown(word: &str) -> String {
    HostText::capped(word.as_bytes(), 100).to_string()
}

fn place(word: &str) -> Option<(Obstacle, String)> {
    let (obstacle, place) = word.split_once('=')?;
    let obstacle = match obstacle {
        "unwritable" => Obstacle::Unwritable,
        "full" => Obstacle::Full,
        "noexec" => Obstacle::NoExec,
        _ => return None,
    };
    Some((obstacle, shown(place)))
}

impl Refusal {
    /// What happened, and what helps.
    pub fn sentence(&self, bytes: usize) -> String {
        match self {
            Self::NoPlace(places) => {
                let listed: Vec<String> =
                    places.iter().map(|(why, place)| format!("{place} {}", why.word())).collect();
                let found =
                    if listed.is_empty() { "none exists".to_owned() } else { listed.join(", ") };
                format!(
                    "no place on the target for the agent ({found}); it needs {bytes} bytes in a \
                     folder where files may be run: {}",
                    self.remedy()
                )
            }
            Self::NoCheck => "the target has none of sha256sum, shasum, openssl and gzip, so what \
                              arrives there could not be checked"
                .to_owned(),
            Self::Altered => "the agent was altered on its way to the target; it was not run. \
                              Something between here and there changes data"
                .to_owned(),
            Self::Lacks(programs) => format!(
                "the target has no {}, which the agent needs to start. Such programs come with \
                 coreutils, or with busybox and its links",
                programs.join(" and no ")
            ),
            Self::Limited(Limit::Files, most) => format!(
                "the login may open {most} files at a time, and the agent needs more to start: raise \
                 the limit there (`ulimit -n`, `nofile` in limits.conf)"
            ),
            Self::Limited(Limit::Bytes, most) => format!(
                "the login may write files of {most} bytes at most, and the agent needs {bytes} bytes: \
                 raise \
                 the limit there (`ulimit -f`, `fsize` in limits.conf)"
            ),
        }
    }

    fn remedy(&self) -> &'static str {
        let Self::NoPlace(places) = self else { return "" };
        if places.iter().any(|(why, _)| *why == Obstacle::Full) {
            "free some room in one of them"
        } else {
            "mount one of them without noexec, or give the user a writable home"
        }
    }

    /// The exit code for a command that ends with this.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NoPlace(places) if places.iter().any(|(why, _)| *why == Obstacle::Full) => {
                exit::NO_ROOM
            }
            Self::NoPlace(_) | Self::NoCheck | Self::Lacks(_) | Self::Limited(..) => {
                exit::CANNOT_RUN
            }
            Self::Altered => exit::ALTERED,
        }
    }
}

impl Obstacle {
    const fn word(self) -> &'static str {
        match self {
            Self::Unwritable => "is not writable",
            Self::Full => "is full",
            Self::NoExec => "forbids running files",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> String {
        for_session(&Token::new([0xab; 16]), 1_200_000, Duration::from_secs(60), Source::Machine)
    }

    #[test]
    fn it_survives_any_login_shell() {
        // Between single quotes, sh, bash, zsh, fish, csh and tcsh all pass these on as they are.
        for forbidden in ["'", "\n", "!", "\\\\"] {
            assert!(!script().contains(forbidden), "{forbidden:?}");
        }
        for placeholder in ["TOKEN", "ROOM", "PATIENCE", "HEADER", "ASKED"] {
            assert!(!script().contains(placeholder), "{placeholder}");
        }
    }

    #[test]
    fn every_header_has_the_length_that_the_script_reads() {
        for bytes in [1, 99_999_999] {
            assert_eq!(header(bytes, &Sha256([0; 32]), true).len(), HEADER_BYTES);
        }
    }

    #[test]
    fn a_snapshot_is_named_only_to_the_agent_of_a_snapshot() {
        let token = Token::new([0xab; 16]);
        let asked = for_session(&token, 1, Duration::from_secs(60), Source::Snapshot);
        assert!(asked.contains("--snapshot \"$SYSMCP_SNAPSHOT_FOLDER\""), "{asked}");
        assert!(!script().contains("SNAPSHOT"), "a variable of a target's login decides nothing");
    }

    #[test]
    fn an_echo_of_it_is_no_mark() {
        assert!(!script().contains(&mark(&Token::new([0xab; 16]))));
    }

    #[test]
    fn a_shell_understands_it() {
        let status = std::process::Command::new("/bin/sh").args(["-n", "-c", &script()]).status();
        assert!(status.unwrap().success());
    }

    #[test]
    fn its_lines_are_read() {
        let ready = Line::Ready { machine: "x86_64".to_owned(), unpacks: true };
        assert_eq!(Line::parse("READY x86_64 gzip"), Some(ready));
        let Some(Line::Refused(refusal)) = Line::parse("NOPLACE full=/tmp noexec=/dev/shm") else {
            panic!("not read");
        };
        assert_eq!(refusal.exit_code(), exit::NO_ROOM);
        let sentence = refusal.sentence(10);
        assert!(sentence.contains("/tmp is full, /dev/shm forbids running files"), "{sentence}");
        let cases = [
            ("LACKS dd head", "the target has no dd and no head,"),
            ("LIMITED files 8", "may open 8 files at a time"),
            ("LIMITED bytes 512", "files of 512 bytes at most, and the agent needs 10 bytes:"),
        ];
        for (line, want) in cases {
            let Some(Line::Refused(refusal)) = Line::parse(line) else {
                panic!("not read: {line}")
            };
            assert_eq!(refusal.exit_code(), exit::CANNOT_RUN, "{line}");
            assert!(refusal.sentence(10).contains(want), "{}", refusal.sentence(10));
        }
        for wrong in [
            "",
            "READY",
            "READY x86_64",
            "LIMITED",
            "LIMITED files x",
            "SOMETHING else",
            "READY \u{1b}[2J gzip",
        ] {
            assert_eq!(Line::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_hostile_place_is_escaped() {
        let Some(Line::Refused(refusal)) = Line::parse("NOPLACE full=/\x1b[31m") else {
            panic!("not read");
        };
        assert!(!refusal.sentence(1).contains('\x1b'));
    }
}
