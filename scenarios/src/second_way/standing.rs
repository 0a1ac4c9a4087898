//! A second way in that stays open: one plain ssh with a shell at its end, which is asked again and
//! again. A look takes some milliseconds, so that it can come right before a kill.
//!
//! A process is known for one of a session by a mark in its environment, which the way that is
//! looked at gives to whatever it starts, and which goes down to every descendant: whatever its name
//! and whoever its parent is by now. To read it takes root.

use super::{PS, Seen};
use anyhow::{Context as _, Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, channel},
    time::Duration,
};

/// How long the shell at the other end may take with an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// The last line of each answer.
const END: &str = "that-is-all";

/// A variable that names the processes of a way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The variable's name.
    pub name: &'static str,
    /// Its value, which no other way has.
    pub value: String,
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value)
    }
}

/// What a look finds at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// All processes of the target.
    pub all: Vec<Seen>,
    /// The names of those that carry the mark, by their pid.
    pub marked: BTreeMap<u32, String>,
    /// Files and folders of sessions.
    pub files: Vec<String>,
}

impl Look {
    /// Processes that carry the mark and have not ended.
    pub fn session(&self) -> Vec<Seen> {
        let is_marked = |seen: &&Seen| self.marked.contains_key(&seen.pid) && !seen.has_ended();
        self.all.iter().filter(is_marked).cloned().collect()
    }
}

/// The way, and the shell at its end.
#[derive(Debug)]
pub struct Standing {
    ssh: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    mark: Mark,
    places: String,
    /// The shell's own pid, as the target has it.
    pub shell: u32,
}

impl Standing {
    /// Logs in. The words are those of a shell that reads what it is to do, as root; the places are
    /// words of a shell too: the folders in which a session may put its file.
    ///
    /// # Errors
    ///
    /// When it does not come about.
    pub fn open(mut ssh: Command, shell: &str, mark: &Mark, places: &str) -> Result<Self> {
        // The shell itself is none of a session, and carries no mark.
        ssh.arg(format!("exec env -u {} {shell} -s", mark.name));
        ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut ssh = ssh.spawn().context("could not run ssh; install openssh-client")?;
        let stdin = ssh.stdin.take().context("ssh has no stdin")?;
        let stdout = ssh.stdout.take().context("ssh has no stdout")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::new(stdout);
            let mut line = Vec::new();
            while reader.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned();
                line.clear();
                if sender.send(text).is_err() {
                    return;
                }
            }
        });
        let (mark, places) = (mark.clone(), places.to_owned());
        let mut standing = Self { ssh, stdin, lines, mark, places, shell: 0 };
        standing.shell = standing.run("echo $$")?.trim().parse().context("no pid of a shell")?;
        Ok(standing)
    }

    /// Lets the shell do one line, and gives what that printed.
    ///
    /// # Errors
    ///
    /// When the way has ended, or does not answer.
    pub fn run(&mut self, script: &str) -> Result<String> {
        writeln!(self.stdin, "{script}\necho {END}").context("the second way has ended")?;
        let mut printed = String::new();
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == END => return Ok(printed),
                Ok(line) => {
                    printed.push_str(&line);
                    printed.push('\n');
                }
                Err(error) => bail!("the second way does not answer ({error}): {printed}"),
            }
        }
    }

    /// Looks, with the target's own tools.
    ///
    /// # Errors
    ///
    /// When the way has ended, or does not answer.
    pub fn look(&mut self) -> Result<Look> {
        let script = format!(
            "for f in `grep -lzxF '{}' /proc/[0-9]*/environ 2>/dev/null`; do p=${{f%/environ}}; \
             {{ read -r c <$p/comm; }} 2>/dev/null && echo ${{p#/proc/}} $c; done; echo; \
             {PS}; echo; for p in {}; do for f in \"$p\"/.sysmcp-*; do \
             test -e \"$f\" && echo \"$f\"; done; done",
            self.mark, self.places
        );
        let printed = self.run(&script)?;
        let mut lines = printed.lines();
        let mut look = Look::default();
        for line in lines.by_ref().take_while(|line| !line.is_empty()) {
            let (pid, name) = line.split_once(' ').unwrap_or((line, ""));
            let _ = look.marked.insert(pid.parse().context(line.to_owned())?, name.to_owned());
        }
        look.all =
            lines.by_ref().take_while(|line| !line.is_empty()).filter_map(super::seen).collect();
        anyhow::ensure!(!look.all.is_empty(), "the second way sees no process at all");
        look.files = lines.map(str::to_owned).collect();
        Ok(look)
    }

    /// Removes the files of sessions that a look finds.
    ///
    /// # Errors
    ///
    /// When the way has ended, or does not answer.
    pub fn remove_files(&mut self) -> Result<()> {
        let script = format!("for p in {}; do rm -rf \"$p\"/.sysmcp-*; done", self.places);
        self.run(&script).map(|_| ())
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let _ = self.ssh.kill();
        let _ = self.ssh.wait();
    }
}

/// Processes of this machine that carry a mark. Zombies carry none.
///
/// # Errors
///
/// When `/proc` cannot be read.
pub fn here(mark: &Mark) -> Result<Look> {
    let word = mark.to_string();
    let mut look = Look::default();
    for entry in fs::read_dir("/proc")? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Ok(pid) = name.parse() else { continue };
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        if !environment.split(|byte| *byte == 0).any(|other| other == word.as_bytes()) {
            continue;
        }
        // It may have ended since.
        let Ok(stat) = fs::read(path.join("stat")) else { continue };
        let stat = String::from_utf8_lossy(&stat).into_owned();
        // Behind the name, which may hold anything: state, parent, and the start as the 22nd field
        // of the line (proc_pid_stat(5)).
        let fields: Vec<&str> = stat
            .rsplit_once(')')
            .map(|(_, rest)| rest.split_whitespace().collect())
            .unwrap_or_default();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        let command = fs::read(path.join("cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
        let parent = field(1).parse().unwrap_or_default();
        look.all.push(Seen { pid, parent, started: field(19).to_owned(), command });
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let _ = look.marked.insert(pid, name.trim_end().to_owned());
    }
    Ok(look)
}
