//! What sessions left on a machine, and what became of it: the mark by which it is found, the report
//! of a sweep, and its lines for a person.
//!
//! A session leaves nothing where it can end in order. Where its supervisor is killed, stopped or
//! cut off, something may stay; a sweep finds it by the session's own mark and by nothing else.

use crate::{handshake::Token, host_text::HostText};
use serde::{Deserialize, Serialize};
use std::{ffi::CStr, fmt};

/// The variable with the session's token, in the environment of every process of a session. The
/// kernel shows the environment that a program was started with, also of whoever was forked from it.
pub const MARK: &str = "SYSMCP_SESSION";

/// How the name of a session's folder starts; the token follows.
pub const FOLDER: &str = ".sysmcp-";

/// The only file that a session has in its folder.
pub const FILE: &str = "a";

/// Folders in which a session may put its own, beside `$XDG_RUNTIME_DIR` and `$HOME` of the login. The
/// root is for containers without a shell.
pub const PLACES: [&str; 5] = ["/dev/shm", "/tmp", "/var/tmp", "/run", "/"];

/// How the start-up script begins, before the token, and what follows the token.
pub const SCRIPT: (&str, &str) = ("umask 077; set -f; token=", "; room=");

/// Of that script: what stands before the seconds that it waits at most.
pub const SCRIPT_PATIENCE: &str = "limit=\"timeout ";

/// The name of the process that owns what a session started.
pub const SUPERVISOR: &CStr = c"sysmcp-super";

/// The name of the process that starts programs.
pub const SPAWNER: &CStr = c"sysmcp-spawn";

/// What a sweep may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Nothing: only say what it would do.
    pub dry_run: bool,
    /// End sessions that are alive, too.
    pub live: bool,
}

impl Order {
    /// As words of the agent's command line.
    pub fn words(self) -> String {
        let dry_run = if self.dry_run { "--dry-run" } else { "" };
        let live = if self.live { "--live" } else { "" };
        [dry_run, live].join(" ").trim().to_owned()
    }
}

/// The name of a session's folder.
pub fn folder_of(token: &Token) -> String {
    format!("{FOLDER}{}", token.as_str())
}

/// The token in the name of a session's folder, if that is what it is.
pub fn token_of_folder(name: &[u8]) -> Option<Token> {
    let name = std::str::from_utf8(name).ok()?;
    Token::parse(name.strip_prefix(FOLDER)?).ok()
}

/// What a sweep found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swept {
    /// Whether it only looked.
    pub is_dry_run: bool,
    /// The sessions of which there was anything, by their tokens.
    pub sessions: Vec<Session>,
    /// The folders that are named like a session's.
    pub folders: Vec<Folder>,
    /// Processes that could not be looked into: of other users, or not answering.
    pub unread_processes: u32,
    /// Whether this user is not shown all processes (`hidepid`).
    pub is_proc_hidden: bool,
    /// Whether there is no `/proc`, so that no process could be looked for.
    pub has_no_proc: bool,
    /// Processes and folders that were found and are not in the lists, which have a limit.
    pub unlisted: u32,
    /// Processes and folders of dead sessions that are there still.
    pub left: u32,
}

/// The processes of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its token.
    pub token: HostText,
    /// Whether it was alive: somebody was there who would end by itself all that it had started.
    pub is_alive: bool,
    /// Its processes.
    pub processes: Vec<Process>,
}

/// A process of a session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    /// Its pid.
    pub pid: u32,
    /// Its name.
    pub name: HostText,
    /// What became of it.
    pub became: Became,
}

/// What became of a process or a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Became {
    /// It is gone.
    Removed,
    /// It would be, in a run that is not dry.
    WouldRemove,
    /// It was to be left alone.
    Spared(Spared),
    /// It should be gone, and is there still.
    Left(Left),
}

/// Why something was left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spared {
    /// Its session is alive.
    Alive,
    /// The folder belongs to another user.
    OfUser {
        /// Who.
        uid: u32,
    },
    /// It is no folder: no session makes such a thing.
    NoFolder,
}

/// Why something is there still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// The kernel does not permit this user to end it.
    NotPermitted,
    /// The process is in an uninterruptible sleep, and ends when it wakes up.
    Uninterruptible,
    /// The process was killed and has not ended.
    NotEnded,
    /// The folder holds what no session puts there.
    HoldsOthers,
    /// The folder is too young: whether its session is alive cannot be seen without `/proc`.
    TooYoung,
    /// The folder could not be removed.
    NotRemoved {
        /// The kernel's error number.
        errno: i32,
    },
    /// The place is in a file system that does not answer, so it could not be looked into.
    DoesNotAnswer,
}

/// A folder that is named like a session's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Folder {
    /// Where.
    pub path: HostText,
    /// What became of it.
    pub became: Became,
}

impl Became {
    /// Whether something is there that a sweep is to remove.
    pub const fn is_left(&self) -> bool {
        match self {
            Self::Removed | Self::Spared(_) => false,
            Self::WouldRemove | Self::Left(_) => true,
        }
    }

    /// For a person, with the word for what is gone of its kind.
    fn said(&self, gone: &str) -> String {
        match self {
            Self::Removed => gone.to_owned(),
            Self::WouldRemove => format!("would be {gone}"),
            Self::Spared(why) => format!("left alone: {why}"),
            Self::Left(why) => format!("left: {why}"),
        }
    }
}

impl fmt::Display for Spared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alive => f.write_str("its session is alive"),
            Self::OfUser { uid } => write!(f, "it belongs to uid {uid}; sweep as that user"),
            Self::NoFolder => f.write_str("it is no folder, and no session makes such a thing"),
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotPermitted => f.write_str("this user may not end it; sweep as root (--sudo)"),
            Self::Uninterruptible => f.write_str(
                "it was killed and is in an uninterruptible sleep; it ends when it wakes up",
            ),
            Self::NotEnded => f.write_str("it was killed and has not ended; sweep again"),
            Self::HoldsOthers => {
                f.write_str("it holds what no session puts there; look, and remove it by hand")
            }
            Self::TooYoung => f.write_str(
                "without /proc it cannot be seen whether its session is alive; sweep again in ten \
                 minutes",
            ),
            Self::NotRemoved { errno } => {
                write!(f, "the kernel does not remove it (error {errno}); sweep as root (--sudo)")
            }
            Self::DoesNotAnswer => f.write_str(
                "its file system does not answer, so it could not be looked into; sweep again",
            ),
        }
    }
}

impl Swept {
    /// Processes that are listed in this state.
    fn processes(&self) -> impl Iterator<Item = &Process> {
        self.sessions.iter().flat_map(|session| &session.processes)
    }

    /// What was found and done, in lines for a person; the last one sums it up.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for Session { token, is_alive, processes } in &self.sessions {
            let state = if *is_alive { "alive" } else { "dead" };
            lines.push(format!("session {token}: {state}"));
            for Process { pid, name, became } in processes {
                lines.push(format!("  process {pid} ({name}): {}", became.said("ended")));
            }
        }
        for Folder { path, became } in &self.folders {
            lines.push(format!("folder {path}: {}", became.said("removed")));
        }
        if self.unlisted > 0 {
            lines.push(format!("{} more are not listed", self.unlisted));
        }
        if self.unread_processes > 0 {
            lines.push(format!(
                "{} processes could not be looked into, of other users or not answering; as root \
                 (--sudo) more can be",
                self.unread_processes
            ));
        }
        if self.is_proc_hidden {
            lines.push(
                "/proc shows this user only some processes (hidepid), and none of an agent's own; \
                 as root (--sudo) all can be looked at"
                    .to_owned(),
            );
        }
        if self.has_no_proc {
            lines.push("there is no /proc: processes could not be looked for".to_owned());
        }
        lines.push(self.summary());
        lines
    }

    fn summary(&self) -> String {
        let removed = |became: &Became| *became == Became::Removed;
        let processes = self.processes().filter(|process| removed(&process.became)).count();
        let folders = self.folders.iter().filter(|folder| removed(&folder.became)).count();
        let done = format!("ended {processes} processes, removed {folders} folders");
        let alive = self.sessions.iter().filter(|session| session.is_alive).count();
        let alive = match alive {
            0 => String::new(),
            alive => format!("; sessions that were alive: {alive}"),
        };
        match (self.is_dry_run, self.left) {
            (true, 0) => format!("nothing is left of dead sessions, as far as was seen{alive}"),
            (true, left) => {
                format!("{left} would be removed or looked at; nothing was done{alive}")
            }
            (false, 0) => format!("{done}; nothing is left, as far as was seen{alive}"),
            (false, left) => format!("{done}; {left} left{alive}"),
        }
    }

    /// A report with one of each, for tests and goldens.
    pub fn example() -> Self {
        let text = |text: &str| HostText::new(text.as_bytes());
        let process = |pid, name, became| Process { pid, name: text(name), became };
        Self {
            is_dry_run: false,
            sessions: vec![
                Session {
                    token: text("0123456789abcdef0123456789abcdef"),
                    is_alive: false,
                    processes: vec![
                        process(4711, "sleep", Became::Removed),
                        process(4712, "dd", Became::Left(Left::Uninterruptible)),
                    ],
                },
                Session {
                    token: text("fedcba9876543210fedcba9876543210"),
                    is_alive: true,
                    processes: vec![process(815, "sysmcp-super", Became::Spared(Spared::Alive))],
                },
            ],
            folders: vec![
                Folder {
                    path: text("/tmp/.sysmcp-0123456789abcdef0123456789abcdef"),
                    became: Became::Removed,
                },
                Folder {
                    path: text("/run/.sysmcp-00000000000000000000000000000000"),
                    became: Became::Left(Left::HoldsOthers),
                },
            ],
            unread_processes: 37,
            is_proc_hidden: false,
            has_no_proc: false,
            unlisted: 0,
            left: 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_sessions_only_with_a_whole_token() {
        let token = "0123456789abcdef0123456789abcdef";
        let found = token_of_folder(format!(".sysmcp-{token}").as_bytes()).unwrap();
        assert_eq!(found.as_str(), token);
        for other in [".sysmcp-notatoken", ".sysmcp-", "sysmcp-0123456789abcdef0123456789abcdef"] {
            assert_eq!(token_of_folder(other.as_bytes()), None, "{other}");
        }
        assert_eq!(token_of_folder(format!(".sysmcp-{token}0").as_bytes()), None);
    }

    #[test]
    fn a_person_is_told_each_and_the_sum() {
        let lines = Swept::example().lines();
        assert_eq!(lines[0], "session 0123456789abcdef0123456789abcdef: dead");
        assert_eq!(lines[1], "  process 4711 (sleep): ended");
        assert!(lines[2].ends_with("uninterruptible sleep; it ends when it wakes up"), "{lines:?}");
        assert_eq!(lines[4], "  process 815 (sysmcp-super): left alone: its session is alive");
        assert!(lines.iter().any(|line| line.starts_with("37 processes could not be looked into")));
        assert_eq!(
            lines.last().unwrap(),
            "ended 1 processes, removed 1 folders; 2 left; sessions that were alive: 1"
        );
        assert_eq!(
            Swept::default().lines(),
            ["ended 0 processes, removed 0 folders; nothing is left, as far as was seen"]
        );
    }

    #[test]
    fn what_may_be_done_is_said_in_words() {
        assert_eq!(Order::default().words(), "");
        assert_eq!(Order { dry_run: true, live: true }.words(), "--dry-run --live");
        assert_eq!(Order { dry_run: false, live: true }.words(), "--live");
    }
}
