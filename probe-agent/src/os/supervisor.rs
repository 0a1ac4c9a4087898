//! The process that owns every descendant.
//!
//! The agent forks before it starts a thread. The parent becomes the supervisor: the kernel gives
//! it every orphaned descendant (`PR_SET_CHILD_SUBREAPER`, Linux 3.4), also one that made a session
//! of its own or forked twice. The child is the worker and does the measuring; another child is the
//! spawner, which alone may start programs. However the worker ends, the supervisor kills and reaps
//! all that is left, then ends too. It holds no memory of what was read and runs no code that reads
//! it.
//!
//! What this does not cover: `SIGKILL` of the supervisor itself takes the worker and the spawner with
//! it, but not their children.

#![expect(unsafe_code, reason = "fork and signal masks have no safe form")]

use super::spawner;
use protocol::{
    frame,
    message::{DESCENDANTS_LEFT, FromAgent, Receipt},
    sweep::SUPERVISOR,
};
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitOptions, WaitStatus},
};
use std::{
    io,
    mem::MaybeUninit,
    time::{Duration, Instant},
};

/// What this process is after the fork.
#[derive(Clone, Copy, Debug)]
pub struct Worker {
    /// The supervisor's pid.
    pub supervisor_pid: u32,
}

/// How long descendants are killed before those left are given up.
///
/// A process in an uninterruptible sleep does not end on `SIGKILL` before it wakes up.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a signal is waited for before the worker is asked after all the same.
///
/// A signal that gets lost must not make the supervisor outlive the worker. Woken once in this
/// time, it costs the target some microseconds.
static LOOK_EVERY: libc::timespec = libc::timespec { tv_sec: 1, tv_nsec: 0 };

/// Splits into supervisor and worker. Returns in the worker only.
///
/// # Errors
///
/// When the process cannot be forked; nothing was started then.
pub fn supervise(is_folder_gone: impl FnOnce() -> bool) -> io::Result<Worker> {
    let parent = rustix::process::getppid();
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let signals = Signals::block();
    // A parent in another process namespace is a container's runtime, which ends as soon as it has
    // started the agent (`runc exec --detach`): its end means nothing.
    if parent.is_some() {
        // SIGTERM and not SIGKILL: the supervisor has something to do before it goes.
        let _ = rustix::process::set_parent_process_death_signal(Some(Signal::TERM));
    }
    if rustix::process::getppid() != parent {
        // The parent ended before the kernel was asked to tell.
        exit(crate::exit::ORPHANED);
    }
    let supervisor = rustix::process::getpid();
    let pairs = spawner::Pairs::new().ok();
    // SAFETY: no thread exists yet, so the child inherits no lock in an unknown state.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
            if rustix::process::getppid() != Some(supervisor) {
                exit(crate::exit::ORPHANED);
            }
            signals.restore();
            if let Some(pairs) = pairs {
                pairs.keep_for_worker();
            }
            Ok(Worker { supervisor_pid: supervisor.as_raw_nonzero().get().unsigned_abs() })
        }
        worker => {
            let _ = rustix::thread::set_name(SUPERVISOR);
            let worker = Pid::from_raw(worker).unwrap_or(supervisor);
            // These two after the worker, which has more to do before its first word.
            let mut strangers = Strangers(children());
            strangers.forget(worker);
            let spawner = pairs.and_then(|pairs| pairs.fork(|| signals.restore()).ok());
            let end = signals.wait_for_end_of(worker, &mut strangers);
            let reaped = end_descendants(spawner, &mut strangers);
            if matches!(end, End::Exited(crate::exit::STOPPED)) {
                send_receipt(worker, supervisor, reaped, is_folder_gone());
            }
            let is_all_ended = reaped.left == 0;
            exit(if is_all_ended { end.exit_code() } else { DESCENDANTS_LEFT });
        }
    }
}

/// Children that this process had before it was the agent: the shell that became it may have started
/// some, for a start-up file of the login. They are not ours to end.
struct Strangers(Vec<Pid>);

impl Strangers {
    fn has(&self, pid: Pid) -> bool {
        self.0.contains(&pid)
    }

    /// One has ended: its pid may be another's from now on.
    fn forget(&mut self, pid: Pid) {
        self.0.retain(|stranger| *stranger != pid);
    }
}

/// How the worker ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal, or because the supervisor got it.
    Signalled(i32),
}

impl End {
    /// As a shell gives it.
    const fn exit_code(self) -> i32 {
        match self {
            Self::Exited(code) => code,
            Self::Signalled(signal) => 128 + signal,
        }
    }
}

/// The signals that the supervisor waits for, blocked so that none is missed.
struct Signals {
    awaited: libc::sigset_t,
    before: libc::sigset_t,
}

impl Signals {
    fn block() -> Self {
        let mut awaited = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: sigemptyset initializes `awaited`, sigprocmask initializes `before`; both point
        // to memory of the right type, and the signal numbers are valid. The default action of a
        // signal runs no code of ours.
        unsafe {
            // Whoever started us may ignore it, which is inherited: the kernel then reaps the
            // worker itself, and tells nobody.
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::sigemptyset(awaited.as_mut_ptr());
            for signal in [libc::SIGCHLD, libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
                libc::sigaddset(awaited.as_mut_ptr(), signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, awaited.as_ptr(), before.as_mut_ptr());
            Self { awaited: awaited.assume_init(), before: before.assume_init() }
        }
    }

    fn restore(&self) {
        // SAFETY: `before` was filled by sigprocmask; the old mask is not asked for.
        unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }

    /// Waits for a signal. Returns its number, or -1 when none came in time.
    fn wait(&self) -> i32 {
        // SAFETY: `awaited` and the time are initialized, and no details of the signal are asked
        // for.
        unsafe {
            libc::sigtimedwait(&raw const self.awaited, std::ptr::null_mut(), &raw const LOOK_EVERY)
        }
    }

    /// Waits until the worker ends, or until a signal asks the supervisor to. Reaps orphans.
    fn wait_for_end_of(&self, worker: Pid, strangers: &mut Strangers) -> End {
        loop {
            let signal = self.wait();
            if signal > 0 && signal != libc::SIGCHLD {
                return End::Signalled(signal);
            }
            loop {
                match rustix::process::wait(WaitOptions::NOHANG) {
                    Ok(Some((pid, status))) if pid == worker => return end_of(status),
                    Ok(Some((pid, _))) => strangers.forget(pid),
                    Err(Errno::INTR) => {}
                    Ok(None) => break,
                    // No child is left: the worker ended, and how was told to somebody else.
                    Err(_) => return End::Exited(crate::exit::DEFECT),
                }
            }
        }
    }
}

fn end_of(status: WaitStatus) -> End {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => End::Exited(code),
        (None, Some(signal)) => End::Signalled(signal),
        (None, None) => End::Exited(crate::exit::DEFECT),
    }
}

/// How many descendants were ended, and how many would not end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Reaped {
    ended: u32,
    left: u32,
}

/// Kills every child of the agent, and every orphan that thereby becomes one, until there is none. The
/// spawner is a part of the agent, and does not count.
fn end_descendants(spawner: Option<Pid>, strangers: &mut Strangers) -> Reaped {
    let mut reaped = Reaped::default();
    let started = Instant::now();
    loop {
        let mut children = children();
        children.retain(|child| !strangers.has(*child));
        for child in &children {
            let _ = rustix::process::kill_process(*child, Signal::KILL);
        }
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, _))) => {
                    let is_ours = Some(pid) != spawner && !strangers.has(pid);
                    reaped.ended += u32::from(is_ours);
                    strangers.forget(pid);
                }
                // Strangers that go on are all there is.
                Ok(None) if children.is_empty() && !strangers.0.is_empty() => return reaped,
                Ok(None) => break,
                // No child is left, and no orphan can come: orphans come from children.
                Err(Errno::CHILD) => return reaped,
                Err(_) => break,
            }
        }
        if started.elapsed() > PATIENCE {
            reaped.left = u32::try_from(children.len()).unwrap_or(u32::MAX);
            return reaped;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The children of this process.
///
/// `/proc/thread-self/children` needs `CONFIG_PROC_CHILDREN`; without it every process is asked
/// for its parent.
fn children() -> Vec<Pid> {
    let me = rustix::process::getpid();
    if let Ok(list) = std::fs::read_to_string(format!("/proc/self/task/{me}/children")) {
        return list
            .split_whitespace()
            .filter_map(|pid| Pid::from_raw(pid.parse().ok()?))
            .collect();
    }
    let Ok(root) = crate::proc::Root::live() else { return Vec::new() };
    let mut pids = Vec::new();
    let _ = root.list_ids(".", &mut pids);
    let mut buffer = [0; 1024];
    pids.retain(|pid| {
        let Ok(text) = root.read_proc_once(&format!("{pid}/stat"), &mut buffer) else {
            return false;
        };
        crate::proc::pid_stat::parse(text)
            .is_ok_and(|stat| i32::try_from(stat.parent_pid) == Ok(me.as_raw_nonzero().get()))
    });
    pids.iter().filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)).collect()
}

/// Says what is left. The worker has ended in order, so it left no frame half written.
fn send_receipt(worker: Pid, supervisor: Pid, reaped: Reaped, is_folder_gone: bool) {
    let pid = |pid: Pid| pid.as_raw_nonzero().get().unsigned_abs();
    let receipt = FromAgent::Receipt(Receipt {
        worker_pid: pid(worker),
        supervisor_pid: pid(supervisor),
        descendants_ended: reaped.ended,
        descendants_left: reaped.left,
        files_left: u32::from(!is_folder_gone),
    });
    if let Ok(bytes) = frame::encode(&receipt) {
        let _ = crate::os::stdout::write_all(&bytes);
    }
}

/// Ends this process without running what a normal exit would: the worker shares nothing with it
/// that should be flushed twice.
fn exit(code: i32) -> ! {
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(code) }
}
