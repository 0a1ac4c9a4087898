//! Stopping a thread of another process for as long as it takes to copy its registers and the top of
//! its stack.
//!
//! The thread is seized, not attached to: it gets no `SIGSTOP`, and the kernel lets it go when the
//! tracer ends, however it ends (`exit_ptrace` in `kernel/ptrace.c`; `PTRACE_O_EXITKILL` is not set). The tracer is a
//! thread that is made for this and ends with it, so that one that never stops is let go too. Nothing
//! is written to the process, and a signal that comes meanwhile is handed on to it.
//!
//! What it may change: a few system calls end with `EINTR` where they are interrupted in their sleep, as
//! `epoll_wait`, also without a signal (`man 2 ptrace`, BUGS). Programs that are ever stopped and continued
//! expect that. So who sleeps is better read without.
//!
//! Linux 3.4 for `PTRACE_SEIZE`, 3.2 for `process_vm_readv`. Kernel reference: `man 2 ptrace`,
//! `man 2 process_vm_readv`, `arch/*/include/uapi/asm/ptrace.h`. The worker's filter lets it trace nobody:
//! it asks the spawner.

#![expect(unsafe_code, reason = "ptrace and process_vm_readv have no safe form")]

use super::{answer::last_errno, sandbox, spawner};
use crate::perf::records::REGISTERS;
use protocol::instruments::capabilities::Filtering;
use rustix::io::Errno;
use std::time::{Duration, Instant};

/// What was copied of a thread while it stood still.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// In ascending order of the bits in [`crate::perf::attr::USER_REGISTERS`].
    pub registers: [u64; REGISTERS],
    /// From the stack pointer on, as much as could be read.
    pub stack: Vec<u8>,
    /// Whether it has all bytes that were asked for, so that the stack may go on.
    pub is_full: bool,
    /// For how long it stood still, at most.
    pub pause: Duration,
}

/// Threads that are stopped at one request, one after another.
pub const MOST_AT_ONCE: usize = 32;

/// The most that is copied of a stack.
pub const MOST_STACK_BYTES: u32 = 32 << 10;

/// For how long a thread is waited for that does not stop: in an uninterruptible sleep it does not, and
/// without a processor not before it gets one.
const PATIENCE: Duration = Duration::from_millis(100);

/// Copies of each thread in turn, by its number in our namespace. `ETIMEDOUT` for one that did not stop
/// in 100 ms and for those after it, `EOPNOTSUPP` for a program of 32 bits, `ESRCH` for one that has
/// ended, `EPERM` for one that may not be traced or is already.
pub fn copy_each(tids: &[u32], stack_bytes: u32) -> Vec<Result<Moment, Errno>> {
    let stack_bytes = stack_bytes.min(MOST_STACK_BYTES);
    let mut copied = Vec::with_capacity(tids.len());
    for tids in tids.chunks(MOST_AT_ONCE) {
        if sandbox::enforced().filtering == Filtering::Enforced {
            copied.extend(spawner::stop_each(tids, stack_bytes));
        } else {
            copied.extend(copy_each_here(tids, stack_bytes));
        }
    }
    copied
}

/// The same in this process, on a thread of its own.
pub(super) fn copy_each_here(tids: &[u32], stack_bytes: u32) -> Vec<Result<Moment, Errno>> {
    let work = || {
        let mut did_all_stop = true;
        let copy = |tid: &u32| {
            let moment = if did_all_stop { copy(*tid, stack_bytes) } else { Err(Errno::TIMEDOUT) };
            did_all_stop &= moment != Err(Errno::TIMEDOUT);
            moment
        };
        tids.iter().map(copy).collect()
    };
    std::thread::scope(|scope| {
        let tracer = std::thread::Builder::new().name("tracer".to_owned());
        let ended = tracer.spawn_scoped(scope, work).map(std::thread::ScopedJoinHandle::join);
        match ended {
            Ok(Ok(copied)) => copied,
            Ok(Err(_)) | Err(_) => tids.iter().map(|_| Err(Errno::AGAIN)).collect(),
        }
    })
}

fn copy(tid: u32, stack_bytes: u32) -> Result<Moment, Errno> {
    let tid = libc::pid_t::try_from(tid).map_err(|_| Errno::SRCH)?;
    let mut seized = Seized::new(tid)?;
    let asked = Instant::now();
    request(libc::PTRACE_INTERRUPT, tid, 0, std::ptr::null_mut())?;
    let ran_at = seized.wait(asked)?;
    let registers = registers(tid)?;
    let (stack, is_full) = stack(tid, stack_pointer(registers), stack_bytes);
    drop(seized);
    Ok(Moment { registers, stack, is_full, pause: ran_at.elapsed() })
}

/// A thread that is traced; let go when this is dropped, if it stands still, and else at the end of the
/// tracer.
struct Seized {
    tid: libc::pid_t,
    /// The signal that it stopped for before it got it, 0 without.
    signal: i32,
    has_ended: bool,
}

impl Seized {
    fn new(tid: libc::pid_t) -> Result<Self, Errno> {
        request(libc::PTRACE_SEIZE, tid, 0, std::ptr::null_mut())?;
        Ok(Self { tid, signal: 0, has_ended: false })
    }

    /// Waits until it stands still. Gives the last time when it did not yet.
    fn wait(&mut self, asked: Instant) -> Result<Instant, Errno> {
        let mut ran_at = asked;
        loop {
            let looked = Instant::now();
            let mut status = 0;
            let flags = libc::__WALL | libc::WNOHANG;
            // SAFETY: the status is a number of ours.
            match unsafe { libc::waitpid(self.tid, &raw mut status, flags) } {
                0 => ran_at = looked,
                -1 if last_errno() == Errno::INTR => continue,
                -1 => return Err(last_errno()),
                _ if libc::WIFSTOPPED(status) => {
                    // Stopped by the request, or by a stop of the whole process: no signal is held.
                    // Else one is about to be delivered, and is given back with the thread.
                    let is_by_request = status >> 16 == libc::PTRACE_EVENT_STOP;
                    self.signal = if is_by_request { 0 } else { libc::WSTOPSIG(status) };
                    return Ok(ran_at);
                }
                _ => {
                    self.has_ended = true;
                    return Err(Errno::SRCH);
                }
            }
            let waited = asked.elapsed();
            if waited > PATIENCE {
                return Err(Errno::TIMEDOUT);
            }
            // It stops within microseconds unless it has no processor, or sleeps deeply.
            if waited < Duration::from_micros(50) {
                std::thread::yield_now();
            } else {
                std::thread::sleep(Duration::from_micros(20));
            }
        }
    }
}

impl Drop for Seized {
    fn drop(&mut self) {
        if !self.has_ended {
            let signal = std::ptr::without_provenance_mut(self.signal.unsigned_abs() as usize);
            let _ = request(libc::PTRACE_DETACH, self.tid, 0, signal);
        }
    }
}

/// A request of `ptrace`, by its number.
#[cfg(target_env = "musl")]
pub(super) type Request = libc::c_int;
/// A request of `ptrace`, by its number.
#[cfg(not(target_env = "musl"))]
pub(super) type Request = libc::c_uint;

/// Makes one request of `ptrace`.
pub(super) fn request(
    request: Request,
    tid: libc::pid_t,
    address: usize,
    data: *mut libc::c_void,
) -> Result<(), Errno> {
    let address = std::ptr::without_provenance_mut::<libc::c_void>(address);
    // SAFETY: of the requests that are made some write to memory of ours, as much as an `iovec`, the
    // request or the address says; whoever makes one gives room that lives for the call.
    match unsafe { libc::ptrace(request, tid, address, data) } {
        -1 => Err(last_errno()),
        _ => Ok(()),
    }
}

/// Words of `struct user_regs_struct`, and of `struct user_pt_regs`.
#[cfg(target_arch = "x86_64")]
const WORDS: usize = 27;
#[cfg(target_arch = "aarch64")]
const WORDS: usize = 34;

/// Where in them the registers are that unwinding begins with: `rbp`, `rsp`, `rip`.
#[cfg(target_arch = "x86_64")]
const PLACES: [usize; REGISTERS] = [4, 19, 16];
/// `x29`, `x30`, `sp`, `pc`.
#[cfg(target_arch = "aarch64")]
const PLACES: [usize; REGISTERS] = [29, 30, 31, 32];

fn registers(tid: libc::pid_t) -> Result<[u64; REGISTERS], Errno> {
    const GENERAL: usize = 1;
    let mut words = [0_u64; WORDS];
    let mut room =
        libc::iovec { iov_base: words.as_mut_ptr().cast(), iov_len: size_of_val(&words) };
    request(libc::PTRACE_GETREGSET, tid, GENERAL, (&raw mut room).cast())?;
    // A program of 32 bits has fewer and shorter ones.
    if room.iov_len != size_of_val(&words) {
        return Err(Errno::OPNOTSUPP);
    }
    Ok(PLACES.map(|place| words.get(place).copied().unwrap_or_default()))
}

#[cfg(target_arch = "x86_64")]
const fn stack_pointer([_, sp, _]: [u64; REGISTERS]) -> u64 {
    sp
}

#[cfg(target_arch = "aarch64")]
const fn stack_pointer([_, _, sp, _]: [u64; REGISTERS]) -> u64 {
    sp
}

/// As much as there is, and whether that is all that was wanted.
fn stack(tid: libc::pid_t, start: u64, bytes: u32) -> (Vec<u8>, bool) {
    let Ok(wanted) = usize::try_from(bytes) else { return (Vec::new(), false) };
    let Ok(start) = usize::try_from(start) else { return (Vec::new(), false) };
    let mut copied = vec![0; wanted];
    let here = libc::iovec { iov_base: copied.as_mut_ptr().cast(), iov_len: wanted };
    let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: wanted };
    // SAFETY: the kernel writes no more than the length of `here`, which is that of the buffer, and
    // looks at the other address in the other process only.
    let read = unsafe { libc::process_vm_readv(tid, &raw const here, 1, &raw const there, 1, 0) };
    copied.truncate(usize::try_from(read).unwrap_or(0));
    let is_full = copied.len() == wanted;
    (copied, is_full)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::{BufRead as _, BufReader},
        process::{Child, Command, Stdio},
    };

    struct Ended(Child);

    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn shell(script: &str) -> (Ended, BufReader<std::process::ChildStdout>) {
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
        let words = BufReader::new(child.stdout.take().unwrap());
        (Ended(child), words)
    }

    fn state(pid: u32) -> char {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        text.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn tracer(pid: u32) -> String {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        text.lines().find_map(|line| line.strip_prefix("TracerPid:")).unwrap().trim().to_owned()
    }

    #[test]
    fn a_thread_is_copied_and_runs_on() {
        let (child, mut words) = shell("echo ready; while :; do :; done");
        words.read_line(&mut String::new()).unwrap();
        let pid = child.0.id();
        for _ in 0..50 {
            let [copied] = copy_each(&[pid], 8192).try_into().unwrap();
            let moment = copied.unwrap();
            // The two last are where it is, and where its stack is; a frame pointer may be anything.
            assert!(moment.registers[REGISTERS - 2..].iter().all(|register| *register > 0));
            assert!(!moment.stack.is_empty());
            assert!(moment.pause > Duration::ZERO);
            assert_eq!((state(pid), tracer(pid).as_str()), ('R', "0"));
        }
    }

    #[test]
    fn signals_that_come_meanwhile_are_delivered_each() {
        let (child, mut words) = shell("trap 'echo got' USR1; echo ready; while :; do :; done");
        words.read_line(&mut String::new()).unwrap();
        let pid = child.0.id();
        let is_done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    copy_each(&[pid], 64);
                }
            });
            for _ in 0..100 {
                let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
                rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
                let mut line = String::new();
                words.read_line(&mut line).unwrap();
                assert_eq!(line, "got\n");
            }
            is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!((state(pid), tracer(pid).as_str()), ('R', "0"));
    }

    #[test]
    fn one_that_was_stopped_stays_so_and_one_that_is_gone_is_said_to_be() {
        let (child, mut words) = shell("echo ready; while :; do :; done");
        words.read_line(&mut String::new()).unwrap();
        let pid = child.0.id();
        let raw = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        rustix::process::kill_process(raw, rustix::process::Signal::STOP).unwrap();
        while state(pid) != 'T' {}
        for copied in copy_each(&[pid], 64) {
            copied.unwrap();
        }
        // It stops again by itself.
        let started = Instant::now();
        while state(pid) != 'T' {
            assert!(started.elapsed() < Duration::from_secs(10), "{}", state(pid));
        }
        assert_eq!(tracer(pid), "0");
        drop(child);
        assert_eq!(copy_each(&[pid], 64), [Err(Errno::SRCH)]);
    }
}
