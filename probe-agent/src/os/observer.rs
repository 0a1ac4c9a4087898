//! The few foreign programs that the agent may start, each with fixed arguments.
//!
//! No shell, no text from a caller, nothing on stdin, an environment of no more than the session's
//! mark, a process group of its own that is killed at the deadline, and an end of its own when the
//! agent's comes first. It is the spawner that starts them; this is the only file that can.

#![expect(unsafe_code, reason = "what happens between fork and exec has no safe form")]

use protocol::{handshake::Token, sweep::MARK};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, waitid},
};
use std::{
    os::{fd::AsFd, unix::process::CommandExt as _},
    path::PathBuf,
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
    if let Some(session) = SESSION.get() {
        command.env(MARK, session.as_str());
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

    const fn arguments(self, errand: Errand) -> &'static [&'static str] {
        match (self, errand) {
            (Self::Perf | Self::Bpftrace, Errand::Version) => &["--version"],
            (Self::Strace, Errand::Version) => &["-V"],
            (Self::Perf, Errand::Trial) => &["stat", "-x", ",", "-e", "task-clock", "true"],
            (Self::Strace, Errand::Trial) => &["-o", "/dev/null", "-e", "trace=exit_group", "true"],
            (Self::Bpftrace, Errand::Trial) => &["-e", "BEGIN { exit(); }"],
        }
    }

    /// Where it is: the first file of its name that may be run and has something in it.
    pub fn find(self) -> Option<PathBuf> {
        FOLDERS.iter().map(|folder| PathBuf::from(folder).join(self.file_name())).find(|path| {
            let has_content =
                std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() > 0);
            has_content && rustix::fs::access(path.as_path(), rustix::fs::Access::EXEC_OK).is_ok()
        })
    }

    /// Runs it, no longer than until the deadline. In the spawner only: the worker may not.
    pub(super) fn run(self, errand: Errand, deadline: Instant) -> Ran {
        let Some(path) = self.find() else {
            return Ran { end: End::NotStarted, output: Vec::new() };
        };
        let mut command = Command::new(path);
        command
            .args(self.arguments(errand))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        clear_environment(&mut command);
        let spawner = rustix::process::getpid();
        // SAFETY: between fork and exec it makes two calls to the kernel, which allocate nothing.
        unsafe {
            command.pre_exec(move || {
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                // It may have ended before the kernel was asked to tell.
                let is_there = rustix::process::getppid() == Some(spawner);
                if is_there { Ok(()) } else { Err(Errno::SRCH.into()) }
            });
        }
        match command.spawn() {
            Ok(mut child) => watch(&mut child, deadline),
            Err(_) => Ran { end: End::NotStarted, output: Vec::new() },
        }
    }
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
