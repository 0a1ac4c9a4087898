//! The start-up script, and what it says.

use super::{
    processor::{self, Processor},
    refusal::{NoPlace, Refusal},
};
use crate::transport::local::SNAPSHOT_VARIABLE;
use protocol::{
    handshake::{Sha256, Token},
    sweep::Order,
};
use std::time::Duration;

const SOURCE: &str = include_str!("bootstrap.sh");

/// What the agent is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A session about the machine it runs on.
    Machine,
    /// A session about the folder in [`SNAPSHOT_VARIABLE`].
    Snapshot,
    /// To find and remove what sessions left on the machine.
    Sweep(Order),
}

/// What stands in the agent's command line around its token. Only this decides what it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words {
    /// Before the token.
    pub role: &'static str,
    /// Behind it, each a word for a shell.
    pub asked: String,
}

impl Task {
    /// Its words in the agent's command line.
    pub fn words(self) -> Words {
        match self {
            Self::Machine => Words { role: "serve", asked: String::new() },
            Self::Snapshot => {
                Words { role: "serve", asked: format!("--snapshot \"${SNAPSHOT_VARIABLE}\"") }
            }
            Self::Sweep(order) => Words { role: "sweep", asked: order.words() },
        }
    }
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

/// What the script is to do.
#[derive(Clone, Copy, Debug)]
pub struct Instructions {
    /// Bytes for which there must be room.
    pub room_bytes: usize,
    /// How long it waits for what is sent.
    pub patience: Duration,
    /// What the agent is started for.
    pub task: Task,
    /// Whether it may start the agent from memory where no folder lets files run.
    pub in_memory: bool,
}

/// The script as one line, for one session.
pub fn for_session(token: &Token, instructions: Instructions) -> String {
    let Instructions { room_bytes, patience, task, in_memory } = instructions;
    let Words { role, asked } = task.words();
    one_line(SOURCE)
        .replace("TOKEN", token.as_str())
        .replace("ROOM", &room_bytes.to_string())
        .replace("PATIENCE", &patience.as_secs().to_string())
        .replace("HEADER", &HEADER_BYTES.to_string())
        .replace("MEMORY", if in_memory { "yes" } else { "no" })
        .replace("ROLE", role)
        .replace("ASKED", &asked)
}

/// A script's code as one line, without its comments.
pub(super) fn one_line(source: &str) -> String {
    let lines = source.lines().map(str::trim).filter(|line| !line.is_empty());
    let code: Vec<&str> = lines.filter(|line| !line.starts_with('#')).collect();
    code.join(" ")
}

/// The command that has a login shell of any kind run the script: it is only asked to become /bin/sh.
pub fn for_login_shell(script: &str) -> String {
    format!("exec /bin/sh -c '{script}'")
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
    /// A place was found; the payload may come. The start of a program of the target's own is the
    /// next line.
    Ready {
        /// What it runs on.
        processor: Processor,
        /// Whether the target can unpack gzip.
        unpacks: bool,
    },
    /// It will not start the agent.
    Refused(Refusal),
}

impl Line {
    /// Reads a line, without its mark.
    pub fn parse(line: &str) -> Option<Self> {
        let (word, rest) = line.split_once([' ', '|']).unwrap_or((line, ""));
        match word {
            "READY" => ready(rest),
            "NOPLACE" => Some(Self::Refused(Refusal::NoPlace(NoPlace::parse(rest)))),
            "NOPROC" => Some(Self::Refused(Refusal::NoProc)),
            "NOCHECK" => Some(Self::Refused(Refusal::NoCheck)),
            "ALTERED" => Some(Self::Refused(Refusal::Altered)),
            "LACKS" => Some(Self::Refused(Refusal::lacks(rest))),
            "LIMITED" => Some(Self::Refused(Refusal::limited(rest)?)),
            _ => None,
        }
    }
}

fn ready(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [machine, between @ .., form, digits] = words.as_slice() else { return None };
    // What it is does not decide.
    let is_name = between.is_empty() && processor::is_name(machine);
    let machine = if is_name { *machine } else { "unknown" }.to_owned();
    let address_digits = digits.parse().ok()?;
    Some(Line::Ready { processor: Processor { machine, address_digits }, unpacks: *form == "gzip" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::sweep;

    const USUAL: Instructions = Instructions {
        room_bytes: 1_200_000,
        patience: Duration::from_secs(60),
        task: Task::Machine,
        in_memory: false,
    };

    fn script() -> String {
        for_session(&Token::new([0xab; 16]), USUAL)
    }

    #[test]
    fn it_survives_any_login_shell() {
        // Between single quotes, sh, bash, zsh, fish, csh and tcsh all pass on what has none of these.
        // A backslash would be doubled on its way to sudo, which not all of them pass on.
        for forbidden in ["'", "\n", "!", "\\"] {
            assert!(!script().contains(forbidden), "{forbidden:?}");
        }
        for placeholder in ["TOKEN", "ROOM", "PATIENCE", "HEADER", "ROLE", "ASKED", "MEMORY"] {
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
        let asked = for_session(&token, Instructions { task: Task::Snapshot, ..USUAL });
        assert!(asked.contains("--snapshot \"$SYSMCP_SNAPSHOT_FOLDER\""), "{asked}");
        assert!(!script().contains("SNAPSHOT"), "a variable of a target's login decides nothing");
    }

    #[test]
    fn a_sweep_is_asked_for_by_the_agents_command_line() {
        let token = Token::new([0xab; 16]);
        let order = Order { dry_run: true, live: false };
        let script = for_session(&token, Instructions { task: Task::Sweep(order), ..USUAL });
        assert!(script.ends_with("exec \"$file\" sweep $token --dry-run 4<&4;"), "{script}");
        assert!(self::script().ends_with("exec \"$file\" serve $token  4<&4;"));
    }

    #[test]
    fn a_sweep_finds_the_script_and_what_it_starts_and_its_folder() {
        let script = script();
        let token = Token::new([0xab; 16]);
        let (before, behind) = sweep::SCRIPT;
        assert!(script.starts_with(&format!("{before}{}{behind}", token.as_str())), "{script}");
        assert!(script.contains(&format!("export {}=$token;", sweep::MARK)), "{script}");
        assert!(script.contains(&format!("{}60\"", sweep::SCRIPT_PATIENCE)), "{script}");
        assert!(script.contains(&format!("made=$place/{}$token;", sweep::FOLDER)), "{script}");
        let (_, places) = script.split_once("for place in ").unwrap();
        let (places, _) = places.split_once("; do").unwrap();
        for place in places.split(' ') {
            let is_variable = ["\"$XDG_RUNTIME_DIR\"", "\"$HOME\""].contains(&place);
            assert!(is_variable || sweep::PLACES.contains(&place), "{place} is not swept");
        }
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
    fn only_a_setting_starts_the_agent_from_memory() {
        assert!(script().contains("test no = yes"), "{}", script());
        let allowed =
            for_session(&Token::new([0xab; 16]), Instructions { in_memory: true, ..USUAL });
        assert!(allowed.contains("test yes = yes"), "{allowed}");
    }

    #[test]
    fn its_lines_are_read() {
        let processor = Processor { machine: "x86_64".to_owned(), address_digits: 16 };
        let ready = Line::Ready { processor, unpacks: true };
        assert_eq!(Line::parse("READY x86_64 gzip 16"), Some(ready));
        for odd in ["READY \u{1b}[2J gzip 16", "READY x86_64 READY sparc raw gzip 16"] {
            let processor = Processor { machine: "unknown".to_owned(), address_digits: 16 };
            let ready = Line::Ready { processor, unpacks: true };
            assert_eq!(Line::parse(odd), Some(ready), "{odd}");
        }
        let no_place = NoPlace::parse("full=/a b|noexec=/dev/shm");
        let no_place = Line::Refused(Refusal::NoPlace(no_place));
        assert_eq!(Line::parse("NOPLACE|full=/a b|noexec=/dev/shm"), Some(no_place));
        assert_eq!(Line::parse("NOPROC"), Some(Line::Refused(Refusal::NoProc)));
        let wrong = ["", "READY", "READY x86_64", "READY x86_64 gzip", "READY x86_64 gzip x"];
        let wrong = wrong.into_iter().chain(["LIMITED", "LIMITED files x", "SOMETHING else"]);
        for wrong in wrong {
            assert_eq!(Line::parse(wrong), None, "{wrong}");
        }
    }
}
