//! The few foreign programs that the agent may start, with words that `argv.rs` has admitted.
//!
//! No shell, no text from a caller, nothing on stdin, an environment of no more than the session's
//! mark, a process group of its own that is killed at the deadline, and an end of its own when the
//! agent's comes first. A program is a file of root's in a standard folder that nobody else may write
//! to. It is the spawner that starts them; this is the only file that can.

#![expect(unsafe_code, reason = "what happens between fork and exec has no safe form")]

mod watched;

pub use watched::{MOST_CALLS, MOST_SPARED, MOST_WATCHED, Watched};

use super::argv::{self, Admitted};
use crate::external::bpftrace;
use protocol::{handshake::Token, sweep::MARK};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, waitid},
};
use std::{
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{fs::MetadataExt as _, process::CommandExt as _},
    },
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::OnceLock,
    time::{Duration, Instant},
};

/// A program that observes others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observer {
    /// `perf`.
    Perf,
    /// `strace`.
    Strace,
    /// `bpftrace`.
    Bpftrace,
}

/// What it is started for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Its version.
    Version,
    /// A harmless piece of its work: it observes a program that does nothing, or nothing at all.
    Trial,
}

/// How it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ran {
    /// How.
    pub end: End,
    /// The start of what it wrote to stdout and stderr.
    pub output: Vec<u8>,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// With this exit code.
    Code(i32),
    /// By a signal.
    Signal,
    /// It was killed at the deadline.
    TimedOut,
    /// It could not be started.
    NotStarted,
}

/// Where programs are, whatever `PATH` says.
const FOLDERS: [&str; 6] =
    ["/usr/bin", "/usr/local/bin", "/bin", "/usr/sbin", "/usr/local/sbin", "/sbin"];

/// The same, for programs that start others.
const PATH: &str = "/usr/bin:/usr/local/bin:/bin:/usr/sbin:/usr/local/sbin:/sbin";

/// Bytes of output that are kept.
pub(super) const MOST_OUTPUT: usize = 2048;

/// The session that the programs belong to.
static SESSION: OnceLock<Token> = OnceLock::new();

/// Says which session the programs belong to; none where there are no random bytes to name one.
pub fn mark(session: Option<Token>) {
    if let Some(session) = session {
        let _ = SESSION.set(session);
    }
}

/// Gives a program the environment that it may have: none of the login's, and the session's mark, by
/// which a sweep finds what it may start itself.
fn clear_environment(command: &mut Command) {
    command.env_clear().env("PATH", PATH).env("LC_ALL", "C");
    // How many sums bpftrace makes; the second is what versions from 0.20 on call it.
    let keys = bpftrace::MOST_KEYS.to_string();
    command.env("BPFTRACE_MAP_KEYS_MAX", &keys).env("BPFTRACE_MAX_MAP_KEYS", &keys);
    if let Some(session) = SESSION.get() {
        command.env(MARK, session.as_str());
    }
}

/// Where a program is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// There.
    At(PathBuf),
    /// There, and others than root could have changed it: it is not run.
    Untrusted(PathBuf),
    /// Nowhere.
    Nowhere,
}

/// Looks for a program: the first file of its name that may be run and has something in it.
fn find(name: &str) -> Found {
    let paths = FOLDERS.iter().map(|folder| Path::new(folder).join(name));
    let Some(path) = paths.into_iter().find(|path| is_program(path)) else { return Found::Nowhere };
    let is_roots = std::fs::metadata(&path).is_ok_and(|file| is_roots(file.uid(), file.mode()));
    if is_roots { Found::At(path) } else { Found::Untrusted(path) }
}

fn is_program(path: &Path) -> bool {
    let has_content = std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
    has_content && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Whether a file is root's and nobody else may write to it.
const fn is_roots(uid: u32, mode: u32) -> bool {
    const OTHERS_WRITE: u32 = 0o022;
    uid == 0 && mode & OTHERS_WRITE == 0
}

/// What a program reads and writes.
struct Ends {
    out: Stdio,
    error: Stdio,
}

/// Starts what was admitted. In the spawner only: the worker may not.
fn start(admitted: &Admitted, ends: Ends) -> io::Result<Child> {
    let mut words = Vec::new();
    for (place, word) in admitted.words().iter().enumerate() {
        words.push(match (admitted.is_program(place), find(word)) {
            (false, _) => word.into(),
            (true, Found::At(path)) => path.into_os_string(),
            (true, Found::Untrusted(_)) => return Err(io::ErrorKind::PermissionDenied.into()),
            (true, Found::Nowhere) => return Err(io::ErrorKind::NotFound.into()),
        });
    }
    let (program, arguments) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(ends.out)
        .stderr(ends.error)
        .process_group(0);
    clear_environment(&mut command);
    let spawner = rustix::process::getpid();
    // SAFETY: between fork and exec it makes three calls to the kernel, which allocate nothing.
    unsafe {
        command.pre_exec(move || {
            // Who started the agent may have ignored it, which is inherited.
            libc::signal(libc::SIGINT, libc::SIG_DFL);
            rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
            // It may have ended before the kernel was asked to tell.
            let is_there = rustix::process::getppid() == Some(spawner);
            if is_there { Ok(()) } else { Err(Errno::SRCH.into()) }
        });
    }
    command.spawn()
}

/// Runs words no longer than until the deadline, if they are admitted.
pub(super) fn run_words(words: &[&str], deadline: Instant) -> Ran {
    let not_started = |said: String| Ran { end: End::NotStarted, output: said.into_bytes() };
    let admitted = match argv::judge(words) {
        Ok(admitted) => admitted,
        Err(refused) => return not_started(refused.to_string()),
    };
    match start(&admitted, Ends { out: Stdio::piped(), error: Stdio::piped() }) {
        Ok(mut child) => watch(&mut child, deadline),
        Err(_) => not_started(String::new()),
    }
}

impl Observer {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Perf, Self::Strace, Self::Bpftrace];

    const fn file_name(self) -> &'static str {
        match self {
            Self::Perf => "perf",
            Self::Strace => "strace",
            Self::Bpftrace => "bpftrace",
        }
    }

    const fn words(self, errand: Errand) -> &'static [&'static str] {
        match (self, errand) {
            (Self::Perf, Errand::Version) => &["perf", "--version"],
            (Self::Bpftrace, Errand::Version) => &["bpftrace", "--version"],
            (Self::Strace, Errand::Version) => &["strace", "-V"],
            (Self::Perf, Errand::Trial) => &["perf", "stat", "-x", ",", "-e", "task-clock", "true"],
            (Self::Strace, Errand::Trial) => {
                &["strace", "-o", "/dev/null", "-e", "trace=exit_group", "true"]
            }
            (Self::Bpftrace, Errand::Trial) => &["bpftrace", "-e", bpftrace::NOTHING],
        }
    }

    /// Where it is.
    pub fn find(self) -> Found {
        find(self.file_name())
    }

    /// Runs it, no longer than until the deadline. In the spawner only: the worker may not.
    pub(super) fn run(self, errand: Errand, deadline: Instant) -> Ran {
        run_words(self.words(errand), deadline)
    }
}

/// Lets a program watch others until it is told to stop, or for as long as it may. What it writes goes
/// into the pipes, which others read; nothing of it is seen here.
pub(super) fn watch_others(
    watched: &Watched,
    (out, error): (&OwnedFd, &OwnedFd),
    stop: &OwnedFd,
    patience: Duration,
) -> End {
    let Ok(admitted) = argv::judge(&watched.words()) else { return End::NotStarted };
    let (Ok(out), Ok(error)) = (out.try_clone(), error.try_clone()) else {
        return End::NotStarted;
    };
    // The reader may be behind, and whoever writes waits then, and those that it has stopped with it.
    let _ = rustix::pipe::fcntl_setpipe_size(&out, PIPE_BYTES);
    let Ok(mut child) = start(&admitted, Ends { out: out.into(), error: error.into() }) else {
        return End::NotStarted;
    };
    let mut to_end = Instant::now() + patience.min(watched.longest());
    let mut was_asked = false;
    loop {
        if has_ended(&child) {
            end_group(&child);
            return child.wait().map_or(End::NotStarted, end_of);
        }
        let now = Instant::now();
        let is_over = now >= to_end;
        if is_over && was_asked {
            end_group(&child);
            let _ = child.wait();
            return End::TimedOut;
        }
        if is_over || (!was_asked && is_told_to_stop(stop, to_end - now)) {
            // So that it lets go of what it has stopped, and says what it has counted.
            if let Some(pid) = pid_of(&child) {
                let _ = rustix::process::kill_process(pid, Signal::INT);
            }
            was_asked = true;
            to_end = Instant::now() + watched.patience_with_end();
        } else if was_asked {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// How often it is looked whether a program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Room for what a program has written and nobody has read.
const PIPE_BYTES: usize = 1 << 20;

/// Waits a moment for a word to stop. It is one too that nobody is there any more.
fn is_told_to_stop(stop: &OwnedFd, left: Duration) -> bool {
    let patience = left.min(LOOK_EVERY);
    let time = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    let mut waiting = [PollFd::new(stop, PollFlags::IN)];
    poll(&mut waiting, Some(&time)).is_ok_and(|ready| ready > 0)
}

/// Starts what stays behind when a session ends badly: a child in a session of its own, or a child
/// of one that has ended.
#[cfg(feature = "fault-injection")]
pub(super) fn plant(is_grandchild: bool) {
    let script = if is_grandchild { "setsid sleep 3600 & exit" } else { "exec setsid sleep 3600" };
    let mut shell = Command::new("/bin/sh");
    clear_environment(&mut shell);
    shell.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = shell.spawn()
        && is_grandchild
    {
        let _ = child.wait();
    }
}

/// Whether a child has ended. It keeps its number until it is waited for.
fn has_ended(child: &Child) -> bool {
    let Some(pid) = pid_of(child) else { return true };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    matches!(waitid(WaitId::Pid(pid), options), Ok(Some(_)) | Err(Errno::CHILD))
}

fn pid_of(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Takes what a child writes, until it ends or the deadline comes.
fn watch(child: &mut Child, deadline: Instant) -> Ran {
    let mut output = Vec::new();
    loop {
        if has_ended(child) {
            take_output(child, &mut output, Duration::ZERO);
            end_group(child);
            let end = child.wait().map_or(End::NotStarted, end_of);
            return Ran { end, output };
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            end_group(child);
            let _ = child.wait();
            return Ran { end: End::TimedOut, output };
        }
        // The end of a child is not told by its pipes: a child of its own may hold them.
        take_output(child, &mut output, left.min(Duration::from_millis(10)));
    }
}

/// Reads what is there, and waits no longer than `patience` for something to come.
fn take_output(child: &mut Child, output: &mut Vec<u8>, patience: Duration) {
    let time = Timespec { tv_sec: 0, tv_nsec: patience.subsec_nanos().into() };
    let (mut out, mut error) = (child.stdout.take(), child.stderr.take());
    let mut wait = Some(time);
    loop {
        let mut open = Vec::new();
        open.extend(out.as_ref().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)));
        open.extend(
            error.as_ref().map(|pipe| PollFd::from_borrowed_fd(pipe.as_fd(), PollFlags::IN)),
        );
        if open.is_empty() {
            if let Some(time) = wait {
                std::thread::sleep(Duration::from_nanos(time.tv_nsec.unsigned_abs()));
            }
            break;
        }
        let ready = poll(&mut open, wait.as_ref()).unwrap_or(0);
        let has_news: Vec<bool> = open.iter().map(|pipe| !pipe.revents().is_empty()).collect();
        drop(open);
        if ready == 0 {
            break;
        }
        wait = Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        let mut has_news = has_news.into_iter();
        if out.is_some() && has_news.next() == Some(true) && is_over(out.as_ref(), output) {
            out = None;
        }
        if error.is_some() && has_news.next() == Some(true) && is_over(error.as_ref(), output) {
            error = None;
        }
    }
    (child.stdout, child.stderr) = (out, error);
}

/// Reads once from a pipe. Whether nothing will come any more.
fn is_over(pipe: Option<impl AsFd>, output: &mut Vec<u8>) -> bool {
    let mut bytes = [0; 4096];
    let Some(pipe) = pipe else { return true };
    match rustix::io::read(pipe, &mut bytes) {
        Ok(0) => true,
        Ok(length) => {
            let room = MOST_OUTPUT.saturating_sub(output.len());
            output.extend(bytes.iter().take(length.min(room)));
            false
        }
        Err(Errno::INTR) => false,
        Err(_) => true,
    }
}

/// Kills the child's process group, before the child is waited for: until then nobody else has the
/// number.
fn end_group(child: &Child) {
    if let Some(group) = pid_of(child) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
}

fn end_of(status: ExitStatus) -> End {
    status.code().map_or(End::Signal, End::Code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(program: &str, arguments: &[&str], patience: Duration) -> (Ran, Duration) {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).process_group(0).spawn().unwrap();
        let started = Instant::now();
        let ran = watch(&mut child, started + patience);
        (ran, started.elapsed())
    }

    #[test]
    fn a_program_ends_by_itself_or_at_the_deadline() {
        let second = Duration::from_secs(10);
        let (ran, _) = run("/bin/sh", &["-c", "echo out; echo err >&2; exit 3"], second);
        assert_eq!(ran.end, End::Code(3));
        let text = String::from_utf8(ran.output).unwrap();
        assert!(text.contains("out\n") && text.contains("err\n"), "{text}");
        let (ran, took) = run("/bin/sleep", &["60"], Duration::from_millis(50));
        assert_eq!(ran.end, End::TimedOut);
        assert!(took < Duration::from_secs(20), "{took:?}");
    }

    /// The same way that all programs are started by.
    #[test]
    fn what_is_not_admitted_is_no_process() {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mark = std::env::temp_dir().join(format!("sysmcp-not-admitted-{}", std::process::id()));
        let script = format!("echo > {}", mark.display());
        let refused: [&[&str]; 5] = [
            &["timeout", "5", "sh", "-c", &script],
            &["sh", "-c", &script],
            &["nice", "-n", "5", "env", "timeout", "5", "sh", "-c", &script],
            &["busybox", "sh", "-c", &script],
            &["strace", "-o", "/dev/null", "sh", "-c", &script],
        ];
        for words in refused {
            let ran = run_words(words, deadline);
            assert_eq!(ran.end, End::NotStarted, "{words:?}");
            let said = String::from_utf8(ran.output).unwrap();
            assert_eq!(said, "sh is not on the list of programs", "{words:?}");
        }
        assert!(!mark.exists());
        // Around what is admitted, the same wrapper runs.
        if let Found::At(_) = Observer::Strace.find() {
            let ran = run_words(&["timeout", "5", "strace", "-V"], deadline);
            assert_eq!(ran.end, End::Code(0));
            assert!(ran.output.starts_with(b"strace -- version"), "{ran:?}");
        }
    }

    #[test]
    fn only_a_file_that_nobody_but_root_can_change_is_a_program() {
        for (uid, mode, want) in [
            (0, 0o755, true),
            (0, 0o4755, true),
            (1000, 0o755, false),
            (0, 0o775, false),
            (0, 0o757, false),
        ] {
            assert_eq!(is_roots(uid, mode), want, "{uid} {mode:o}");
        }
        assert_eq!(find("sysmcp-no-such-program"), Found::Nowhere);
    }

    #[test]
    fn a_child_of_the_program_that_holds_its_pipes_keeps_nobody_waiting() {
        let script = "sleep 60 & exit 0";
        let (ran, took) = run("/bin/sh", &["-c", script], Duration::from_secs(40));
        assert_eq!(ran.end, End::Code(0));
        assert!(took < Duration::from_secs(20), "{took:?}");
    }

    #[test]
    fn much_output_is_taken_and_little_of_it_kept() {
        let script = "head -c 1000000 /dev/zero";
        let (ran, _) = run("/bin/sh", &["-c", script], Duration::from_secs(20));
        assert_eq!((ran.end, ran.output.len()), (End::Code(0), MOST_OUTPUT));
    }
}
