//! The processes of a machine, as a sweep looks at them.
//!
//! Source: `/proc/PID/{stat,environ,cmdline,status,cgroup}`. Kernel reference: `fs/proc/base.c`,
//! `kernel/pid.c`, `man 2 pidfd_send_signal`.
//!
//! Everything about a process is read through one handle of its folder below `/proc`, and that very
//! handle takes the signal (Linux 5.1): it names this process for good, whoever gets its number later.

use super::belongs::{self, Belongs, Environment};
use crate::{
    abandonable::{Crew, Outcome},
    os::clock,
    proc::pid_stat,
};
use protocol::sweep::{Left, SUPERVISOR};
use rustix::{
    fd::OwnedFd,
    fs::{Dir, Mode, OFlags},
    io::Errno,
    process::{Pid, Signal},
};
use std::{sync::Arc, time::Duration};

/// A process that was looked at.
#[derive(Debug)]
pub struct Seen {
    /// Its pid.
    pub pid: u32,
    /// Its parent's.
    pub parent: u32,
    /// Its name, raw.
    pub name: Vec<u8>,
    /// Its state, one letter.
    pub state: u8,
    /// Whether its cgroup is frozen. Only looked at for a supervisor.
    pub is_frozen: bool,
    /// Its start, in clock ticks after boot.
    pub start_ticks: u64,
    /// What it belongs to, and the handle of its folder.
    pub of: Option<(Belongs, Arc<OwnedFd>)>,
}

/// All processes at one time.
#[derive(Debug, Default)]
pub struct Scan {
    /// Those that could be looked at.
    pub seen: Vec<Seen>,
    /// How many could not be looked into.
    pub unread: u32,
}

/// What came of looking at one.
enum Looked {
    Seen(Box<Seen>),
    /// A zombie, a thread of the kernel, or gone.
    Nothing,
    Unread,
}

/// For how long one process is looked at: one that holds its own memory's lock never answers.
const PATIENCE: Duration = Duration::from_millis(300);

/// What is read of an environment or of arguments. The kernel takes three quarters of 8 MiB for both
/// (`bprm_set_stack_limit` in `fs/exec.c`).
const MOST_BYTES: usize = 8 << 20;

/// Looks at processes.
pub struct Scanner {
    proc: Arc<OwnedFd>,
    crew: Crew<u32, Looked>,
}

impl Scanner {
    /// For the processes of this machine.
    ///
    /// # Errors
    ///
    /// When there is no `/proc`.
    pub fn new() -> Result<Self, Errno> {
        let proc = Arc::new(rustix::fs::open("/proc", FOLDER, Mode::empty())?);
        // Without a folder of its own it is an empty place, and no file system of processes.
        rustix::fs::openat(&*proc, "self/stat", FILE, Mode::empty())?;
        let own = Arc::clone(&proc);
        let crew = Crew::new(PATIENCE, move |pid: &u32| look(&own, *pid));
        Ok(Self { proc, crew })
    }

    /// Whether this user is shown only some processes: the first one is always there.
    pub fn is_hidden(&self) -> bool {
        let first = rustix::fs::openat(&*self.proc, "1", FOLDER, Mode::empty());
        matches!(first, Err(Errno::NOENT))
    }

    /// Looks at every process but this one.
    pub fn scan(&self) -> Scan {
        let mut scan = Scan::default();
        for outcome in self.crew.each(self.pids()).outcomes {
            match outcome {
                Outcome::Returned(Looked::Seen(seen)) => scan.seen.push(*seen),
                Outcome::Returned(Looked::Nothing) => {}
                Outcome::Returned(Looked::Unread) | Outcome::Hangs | Outcome::NotTried => {
                    scan.unread += 1;
                }
            }
        }
        scan
    }

    fn pids(&self) -> Vec<u32> {
        let own = std::process::id();
        let Ok(entries) = Dir::read_from(&*self.proc) else { return Vec::new() };
        let number = |name: &[u8]| std::str::from_utf8(name).ok()?.parse().ok();
        entries
            .filter_map(|entry| number(entry.ok()?.file_name().to_bytes()))
            .filter(|pid| *pid != own)
            .collect()
    }
}

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
const FILE: OFlags = OFlags::CLOEXEC;

fn look(proc: &OwnedFd, pid: u32) -> Looked {
    match rustix::fs::openat(proc, pid.to_string(), FOLDER, Mode::empty()) {
        Ok(folder) => look_through(&Arc::new(folder), pid),
        Err(Errno::NOENT | Errno::SRCH) => Looked::Nothing,
        Err(_) => Looked::Unread,
    }
}

fn look_through(folder: &Arc<OwnedFd>, pid: u32) -> Looked {
    let line = match read(folder, "stat") {
        Ok(line) => line,
        Err(Errno::NOENT | Errno::SRCH) => return Looked::Nothing,
        Err(_) => return Looked::Unread,
    };
    let Ok(stat) = pid_stat::parse(&line) else { return Looked::Unread };
    if stat.is_kernel_thread() || matches!(stat.state, b'Z' | b'X' | b'x') {
        return Looked::Nothing;
    }
    let environment = match read(folder, "environ") {
        Ok(bytes) => Some(bytes),
        Err(Errno::NOENT | Errno::SRCH) => return Looked::Nothing,
        Err(_) => None,
    };
    let how = match &environment {
        Some(bytes) => Environment::Read(bytes),
        None if is_for_this_user(folder) => Environment::Shielded,
        None => Environment::OfOthers,
    };
    let command_line = read(folder, "cmdline").unwrap_or_default();
    let belongs = belongs::of(how, &command_line);
    if belongs.is_none() && environment.is_none() {
        return Looked::Unread;
    }
    let is_frozen = belongs.is_some() && stat.name == SUPERVISOR.to_bytes() && is_frozen(folder);
    Looked::Seen(Box::new(Seen {
        pid,
        parent: stat.parent_pid,
        name: stat.name.to_vec(),
        state: stat.state,
        is_frozen,
        start_ticks: stat.start_ticks,
        of: belongs.map(|belongs| (belongs, Arc::clone(folder))),
    }))
}

/// Whether a process runs as this user; for root, any does.
fn is_for_this_user(folder: &OwnedFd) -> bool {
    let own = rustix::process::geteuid();
    let status = read(folder, "status").unwrap_or_default();
    own.is_root() || effective_uid(&status) == Some(own.as_raw())
}

/// The second number of the line `Uid`: real, effective, saved, and of the file system.
fn effective_uid(status: &[u8]) -> Option<u32> {
    let status = std::str::from_utf8(status).ok();
    let line = status?.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Whether a process is frozen with its cgroup (version 2, Linux 5.2). Version 1 shows that nowhere
/// that is the same on all machines.
fn is_frozen(folder: &OwnedFd) -> bool {
    let lines = read(folder, "cgroup").unwrap_or_default();
    let lines = String::from_utf8_lossy(&lines).into_owned();
    let Some(path) = lines.lines().find_map(|line| line.strip_prefix("0::")) else { return false };
    let events = format!("/sys/fs/cgroup{path}/cgroup.events");
    std::fs::read_to_string(events).is_ok_and(|text| text.lines().any(|line| line == "frozen 1"))
}

fn read(folder: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
    let file = rustix::fs::openat(folder, name, FILE, Mode::empty())?;
    let mut bytes = Vec::new();
    let mut piece = vec![0; 16 << 10];
    while bytes.len() < MOST_BYTES {
        match rustix::io::read(&file, &mut piece) {
            Ok(0) => break,
            Ok(length) => bytes.extend_from_slice(piece.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(bytes)
}

impl Seen {
    /// Whether it does not run because somebody stopped it or froze it.
    pub const fn is_halted(&self) -> bool {
        matches!(self.state, b'T' | b't') || self.is_frozen
    }

    /// How long ago it started.
    pub fn age(&self) -> Duration {
        clock::since_boot().saturating_sub(clock::ticks(self.start_ticks))
    }

    /// Sends it a signal, if it still belongs to the same session.
    ///
    /// # Errors
    ///
    /// What the kernel answered; nothing where there is no such process any more.
    pub fn signal(&self, signal: Signal) -> Result<(), Errno> {
        let Some((belongs, folder)) = &self.of else { return Ok(()) };
        // It may have become another program meanwhile, which keeps the process.
        let Looked::Seen(now) = look_through(folder, self.pid) else { return Ok(()) };
        if now.of.as_ref().is_none_or(|(now, _)| now.token != belongs.token) {
            return Ok(());
        }
        match rustix::process::pidfd_send_signal(&**folder, signal) {
            Ok(()) | Err(Errno::SRCH) => Ok(()),
            // Before Linux 5.1 a number is all there is. It was this process a moment ago.
            Err(Errno::NOSYS) => {
                let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
                match pid.map(|pid| rustix::process::kill_process(pid, signal)) {
                    None | Some(Ok(()) | Err(Errno::SRCH)) => Ok(()),
                    Some(Err(errno)) => Err(errno),
                }
            }
            Err(errno) => Err(errno),
        }
    }

    /// Why it is there still, though it was killed.
    pub const fn why_left(&self) -> Left {
        if self.state == b'D' { Left::Uninterruptible } else { Left::NotEnded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::process::ExitStatusExt as _,
        process::{Child, Command, Stdio},
    };

    const TOKEN: &str = "abcdef0123456789abcdef0123456789";

    fn sleeper(marked: bool) -> Child {
        let mut sleep = Command::new("sleep");
        sleep.arg("3600").env_remove("SYSMCP_SESSION").stdin(Stdio::null());
        if marked {
            sleep.env("SYSMCP_SESSION", TOKEN);
        }
        sleep.spawn().unwrap()
    }

    /// What is seen of a child, once it is the program that it was started as.
    fn seen(child: &Child) -> Seen {
        let scanner = Scanner::new().unwrap();
        for _ in 0..500 {
            let found = scanner.scan().seen.into_iter().find(|seen| seen.pid == child.id());
            if let Some(seen) = found.filter(|seen| seen.name == b"sleep") {
                return seen;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it is not seen");
    }

    #[test]
    fn a_marked_process_takes_the_signal_and_another_does_not() {
        let (mut marked, mut plain) = (sleeper(true), sleeper(false));
        let (of_session, innocent) = (seen(&marked), seen(&plain));
        assert_eq!(of_session.of.as_ref().unwrap().0.token.as_str(), TOKEN);
        assert!(innocent.of.is_none());
        of_session.signal(Signal::KILL).unwrap();
        assert_eq!(marked.wait().unwrap().signal(), Some(9));
        // Its handle is nobody else's, ever.
        of_session.signal(Signal::KILL).unwrap();
        innocent.signal(Signal::KILL).unwrap();
        assert_eq!(plain.try_wait().unwrap(), None);
        plain.kill().unwrap();
        plain.wait().unwrap();
    }

    #[test]
    fn the_effective_user_is_the_second_number() {
        assert_eq!(effective_uid(b"Name:\tx\nUid:\t1\t2\t3\t4\nGid:\t5\n"), Some(2));
        assert_eq!(effective_uid(b"Name:\tx\n"), None);
    }
}
