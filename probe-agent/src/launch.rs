//! A command that a person launches to see its system calls: where its program is, and what came of it, in
//! words.
//!
//! It stands beside the question, not in it: what crosses the wire has no place for a command.

use crate::os::{
    launcher::{Step, Wanted},
    tracer::{Ended, Launched, Outcome},
};
use protocol::{host_text::HostText, view::table::Table};
use rustix::{
    fs::{Access, AtFlags, CWD, FileType, Mode},
    io::Errno,
};
use serde_json::{Value, json};
use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// A command whose program was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    words: Vec<OsString>,
    program: PathBuf,
    /// Whether its program would run with the rights of another user or group.
    is_set_id: bool,
}

impl Command {
    /// Finds the program as a shell does: in the folders of `path` where its name has no slash.
    ///
    /// # Errors
    ///
    /// That there is none, or that it may not be run.
    pub fn find(words: &[OsString], path: Option<&OsStr>) -> Result<Self, NotFound> {
        let Some(name) = words.first() else { return Err(NotFound::Nowhere(HostText::new(b""))) };
        let text = HostText::new(name.as_bytes());
        let mut refused = None;
        for program in places(name, path) {
            match is_program(&program) {
                Ok(is_set_id) => return Ok(Self { words: words.to_vec(), program, is_set_id }),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => refused = refused.or(Some(errno)),
            }
        }
        Err(match refused {
            Some(errno) => NotFound::Refused(text, errno.raw_os_error()),
            None if name.as_bytes().contains(&b'/') => NotFound::NoFile(text),
            None => NotFound::Nowhere(text),
        })
    }

    /// The same for the launcher.
    ///
    /// # Errors
    ///
    /// A zero in a word, which no command line has.
    pub fn wanted(&self) -> Result<Wanted, std::ffi::NulError> {
        Wanted::new(self.program.clone(), self.words.clone())
    }
}

/// Where a program of this name may be.
fn places(name: &OsStr, path: Option<&OsStr>) -> Vec<PathBuf> {
    /// Where there is no `PATH`, as `execvp` has it.
    const USUAL: &str = "/bin:/usr/bin";
    if name.as_bytes().contains(&b'/') {
        return vec![PathBuf::from(name)];
    }
    if name.is_empty() {
        return Vec::new();
    }
    let path = path.unwrap_or_else(|| OsStr::new(USUAL));
    // An empty folder is the working one.
    let folders = path.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
    folders.map(|folder| Path::new(folder).join(name)).collect()
}

/// Whether its owner's or its group's rights are to be had, of a file that may be run.
fn is_program(path: &Path) -> Result<bool, Errno> {
    let stat = rustix::fs::stat(path)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Err(Errno::ISDIR);
    }
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::empty())?;
    Ok(Mode::from_raw_mode(stat.st_mode).intersects(Mode::SUID | Mode::SGID))
}

/// Why there is nothing to launch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// In no folder.
    #[error("`{0}` is not found in any folder of PATH; give its path, or see `echo $PATH`")]
    Nowhere(HostText),
    /// Not where its path says.
    #[error("`{0}` is not there")]
    NoFile(HostText),
    /// There, and refused.
    #[error("`{0}` cannot be run: {error}", error = reason(*.1))]
    Refused(HostText, i32),
}

fn reason(errno: i32) -> String {
    std::io::Error::from_raw_os_error(errno).to_string()
}

/// A command that waits, runs, or has ended.
#[derive(Debug)]
pub struct Launch {
    /// Its first process.
    pub pid: u32,
    command: Command,
    is_filtered: bool,
    came: OnceLock<Launched>,
}

impl Launch {
    /// One that waits under this pid, with a filter or without.
    pub const fn new(pid: u32, command: Command, is_filtered: bool) -> Self {
        Self { pid, command, is_filtered, came: OnceLock::new() }
    }

    /// The name of its program.
    pub fn name(&self) -> HostText {
        let name = self.command.program.file_name().unwrap_or_default();
        HostText::new(name.as_bytes())
    }

    /// Takes note of what came of it.
    pub fn note(&self, came: Launched) {
        let _ = self.came.set(came);
    }

    /// Why it was not run, where it was not.
    pub fn not_run(&self) -> Option<String> {
        let (step, errno) = self.came.get()?.not_run?;
        let name = HostText::new(self.command.program.as_os_str().as_bytes());
        let why = reason(errno);
        Some(match (step, errno) {
            (Step::Filter, _) => format!(
                "the kernel takes no filter that stops some calls alone: {why}\nleave `calls` out \
                 of the parameters: then all are stopped, without a filter"
            ),
            (Step::Run, libc::ENOEXEC) => format!(
                "`{name}` cannot be run: {why}\nname what runs it first, as in `sh {name}`: no \
                 shell is asked"
            ),
            (Step::Run, libc::ENOENT) => {
                format!("`{name}` cannot be run: what it names to run it with is not there")
            }
            (Step::Run, _) => format!("`{name}` cannot be run: {why}"),
        })
    }

    fn words(&self) -> Vec<HostText> {
        self.command.words.iter().map(|word| HostText::new(word.as_bytes())).collect()
    }

    /// What is to be known beside what was counted.
    fn notes(&self) -> Vec<String> {
        let mut notes = vec![if self.is_filtered {
            "launched under a seccomp filter: the calls that were asked for stop, in mode detailed \
             also those that open and close; all others run at full speed"
                .to_owned()
        } else {
            "launched under ptrace: every call stops twice; name some in `calls`, and a seccomp \
             filter lets all others run at full speed"
                .to_owned()
        }];
        match self.came.get().map(|came| came.ended) {
            Some(Ended::Window) => notes.push(
                "the window was over before it: what was left of it was ended, by SIGTERM and \
                 after two seconds by SIGKILL; a longer one is `window_ms`, 60000 at most"
                    .to_owned(),
            ),
            Some(Ended::Asked) => notes.push(
                "the agent was asked to end, and ended what was left of it with itself".to_owned(),
            ),
            Some(Ended::Itself) | None => {}
        }
        if let Some(left) = self.came.get().map(|came| came.left).filter(|left| *left > 0) {
            notes.push(format!(
                "{left} threads of it were killed and sleep where nothing wakes them; they end when \
                 they wake up"
            ));
        }
        if self.command.is_set_id {
            notes.push(
                "its program has a set-user-id or set-group-id bit, which had no effect \
                 (no_new_privs): it ran with your own rights"
                    .to_owned(),
            );
        }
        notes
    }

    /// For a program that reads the answer.
    pub fn to_json(&self) -> Value {
        let (mut code, mut signal) = (None, None);
        match self.came.get().and_then(|came| came.outcome) {
            Some(Outcome::Code(number)) => code = Some(number),
            Some(Outcome::Signal(number)) => signal = Some(number),
            None => {}
        }
        let ended = match self.came.get().map(|came| came.ended) {
            Some(Ended::Window) => "window",
            Some(Ended::Asked) => "interrupt",
            Some(Ended::Itself) | None => "itself",
        };
        json!({
            "words": self.words(),
            "exit_code": code,
            "signal": signal,
            "ended_by": ended,
            "notes": self.notes(),
        })
    }

    /// For a person.
    pub fn table(&self) -> Table {
        let words: Vec<String> = self.words().iter().map(ToString::to_string).collect();
        let ended = match self.came.get().and_then(|came| came.outcome) {
            Some(Outcome::Code(code)) => format!("exited with {code}"),
            Some(Outcome::Signal(signal)) => format!("ended by signal {signal}"),
            None => "it is not known how it ended".to_owned(),
        };
        let mut table = Table::facts("", [("command", words.join(" ")), ("end", ended)]);
        table.rows.extend(self.notes().into_iter().map(|note| vec!["note".to_owned(), note]));
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt as _};

    fn executable(path: &Path, mode: u32) {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_program_is_found_as_a_shell_finds_it_or_why_not_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("one"), folder.path().join("other"));
        fs::create_dir_all(one.join("folder")).unwrap();
        fs::create_dir(&other).unwrap();
        executable(&one.join("text"), 0o644);
        executable(&other.join("text"), 0o755);
        executable(&one.join("only"), 0o644);
        executable(&other.join("raised"), 0o4755);
        let path = format!("/nowhere:{}:{}", one.display(), other.display());
        let find = |name: &str| {
            let found = Command::find(&[name.into(), "-l".into()], Some(OsStr::new(&path)));
            found.map(|found| (found.program, found.is_set_id)).map_err(|error| error.to_string())
        };
        let there = other.join("text").display().to_string();
        for (name, want, is_set_id) in
            [("text", "text", false), ("raised", "raised", true), (&there, "text", false)]
        {
            assert_eq!(find(name), Ok((other.join(want), is_set_id)), "{name}");
        }
        let cases = [
            ("nothing", "`nothing` is not found in any folder of PATH"),
            ("", "`` is not found"),
            ("/no/such", "`/no/such` is not there"),
            ("only", "`only` cannot be run: Permission denied"),
            ("folder", "`folder` cannot be run: Is a directory"),
        ];
        for (name, want) in cases {
            let error = find(name).unwrap_err();
            assert!(error.starts_with(want), "{name}: {error}");
        }
    }

    #[test]
    fn what_came_of_a_command_is_told_in_words() {
        let command =
            Command { words: vec!["ls".into()], program: "/bin/ls".into(), is_set_id: false };
        let came = |came: Launched| {
            let launch = Launch::new(7, command.clone(), false);
            launch.note(came);
            (launch.to_json(), launch.not_run())
        };
        let (json, not_run) =
            came(Launched { outcome: Some(Outcome::Code(3)), ..Launched::default() });
        assert_eq!((&json["exit_code"], &json["ended_by"]), (&json!(3), &json!("itself")));
        assert_eq!((json["notes"].as_array().map(Vec::len), not_run), (Some(1), None));
        let killed = Launched {
            outcome: Some(Outcome::Signal(15)),
            ended: Ended::Window,
            left: 2,
            ..Launched::default()
        };
        let (json, _) = came(killed);
        assert_eq!((&json["signal"], &json["ended_by"]), (&json!(15), &json!("window")));
        assert_eq!(json["notes"].as_array().map(Vec::len), Some(3));
        let cases = [
            ((Step::Run, libc::ENOEXEC), "`/bin/ls` cannot be run: Exec format error"),
            ((Step::Run, libc::ENOENT), "`/bin/ls` cannot be run: what it names"),
            ((Step::Filter, libc::ENOSYS), "the kernel takes no filter"),
        ];
        for (step, want) in cases {
            let (_, why) = came(Launched { not_run: Some(step), ..Launched::default() });
            assert!(why.unwrap().starts_with(want), "{step:?}");
        }
    }
}
