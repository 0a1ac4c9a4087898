//! The requests of `ptrace` that following takes, of threads that stand still.

#![expect(unsafe_code, reason = "ptrace has no safe form")]

use super::Outcome;
use crate::os::stopper::{Request, request};
use rustix::io::Errno;

/// A thread's number as the kernel takes it.
pub(super) type Tid = libc::pid_t;

/// Who is born is followed too, and who runs another program says so.
const OPTIONS: i32 = libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC;

fn number(value: i32) -> *mut libc::c_void {
    std::ptr::without_provenance_mut(value.unsigned_abs() as usize)
}

/// One that was launched to be traced is not to be without its tracer, and may have a filter that stops some
/// of its calls.
const OPTIONS_OF_LAUNCHED: i32 = OPTIONS | libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACESECCOMP;

/// Makes the calling thread a thread's tracer.
pub(super) fn seize(tid: Tid) -> Result<(), Errno> {
    request(libc::PTRACE_SEIZE, tid, 0, number(OPTIONS))
}

/// The same of a process that was launched: it ends when the tracer does.
pub(super) fn seize_launched(tid: Tid) -> Result<(), Errno> {
    request(libc::PTRACE_SEIZE, tid, 0, number(OPTIONS_OF_LAUNCHED))
}

/// Asks a thread to stop.
pub(super) fn interrupt(tid: Tid) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT, tid, 0, number(0))
}

/// Lets a thread go on to its next call, or out of the one that it is in, with a signal or 0.
pub(super) fn go_on(tid: Tid, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_SYSCALL, tid, 0, number(signal))
}

/// Lets a thread go on to the next call that its filter stops, with a signal or 0.
pub(super) fn go_on_to_filter(tid: Tid, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_CONT, tid, 0, number(signal))
}

/// Leaves a thread stopped that a signal stopped with its process, until it is continued.
pub(super) fn leave_stopped(tid: Tid) -> Result<(), Errno> {
    request(libc::PTRACE_LISTEN, tid, 0, number(0))
}

/// Lets a thread go for good, with a signal or 0.
pub(super) fn detach(tid: Tid, signal: i32) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH, tid, 0, number(signal))
}

/// What an event is told with: the number that a thread had before it ran another program.
pub(super) fn message(tid: Tid) -> Result<u64, Errno> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, tid, 0, (&raw mut message).cast())?;
    Ok(message)
}

/// `struct ptrace_syscall_info` in `include/uapi/linux/ptrace.h`, without what a filter tells.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Info {
    op: u8,
    pad: [u8; 3],
    arch: u32,
    instruction_pointer: u64,
    stack_pointer: u64,
    /// The number and six arguments; or what was answered, and whether that is an error.
    values: [u64; 7],
}

const GET_SYSCALL_INFO: Request = 0x420e;

/// `AUDIT_ARCH_*` of the agent's own processor.
#[cfg(target_arch = "x86_64")]
const OWN_ARCH: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN_ARCH: u32 = 0xc000_00b7;

/// At which end of a call a thread stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum At {
    /// It is about to make it.
    Entry { is_foreign: bool, number: u64, arguments: [u64; 6] },
    /// It was answered.
    Exit { answer: i64 },
    /// Neither.
    Neither,
}

/// At which end of a call a thread stands that stopped for one. `EIO` before Linux 5.3.
pub(super) fn at(tid: Tid) -> Result<At, Errno> {
    let mut info = Info::default();
    request(GET_SYSCALL_INFO, tid, size_of::<Info>(), (&raw mut info).cast())?;
    let [first, arguments @ ..] = info.values;
    Ok(match info.op {
        // At a filter's stop its thread is about to make the call, too.
        1 | 3 => {
            // On x86_64, calls of programs with 32-bit pointers have a bit of their own.
            let is_foreign = info.arch != OWN_ARCH || first & 0x4000_0000 != 0;
            At::Entry { is_foreign, number: first, arguments }
        }
        2 => At::Exit { answer: first.cast_signed() },
        _ => At::Neither,
    })
}

/// What a wait came back with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// A thread stands still.
    Stopped(Tid, Stop),
    /// A thread has ended, with this status.
    Ended(Tid, i32),
    /// A signal of our own ended the wait.
    Woken,
    /// There is nobody to wait for.
    Nobody,
}

/// Why a thread stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// At one end of a call.
    Call,
    /// At the beginning of a call that its filter stops.
    Filtered,
    /// It was asked to, or was just born.
    Asked,
    /// A signal stopped its process.
    WithItsProcess,
    /// It has run another program.
    Ran,
    /// Another event.
    Event,
    /// Before it gets this signal.
    Signal(i32),
}

/// Waits until a thread that the calling thread traces does anything.
pub(super) fn wait() -> Waited {
    let mut status = 0;
    // SAFETY: the status is a number of ours.
    let tid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
    if tid == -1 {
        let errno = crate::os::answer::last_errno();
        return if errno == Errno::INTR { Waited::Woken } else { Waited::Nobody };
    }
    if libc::WIFSTOPPED(status) {
        Waited::Stopped(tid, stop(status))
    } else {
        Waited::Ended(tid, status)
    }
}

fn stop(status: i32) -> Stop {
    let signal = libc::WSTOPSIG(status);
    match status >> 16 {
        0 if signal == libc::SIGTRAP | 0x80 => Stop::Call,
        0 => Stop::Signal(signal),
        libc::PTRACE_EVENT_STOP => match signal {
            libc::SIGSTOP | libc::SIGTSTP | libc::SIGTTIN | libc::SIGTTOU => Stop::WithItsProcess,
            _ => Stop::Asked,
        },
        libc::PTRACE_EVENT_EXEC => Stop::Ran,
        libc::PTRACE_EVENT_SECCOMP => Stop::Filtered,
        _ => Stop::Event,
    }
}

/// How a process ended, by its status.
pub(super) fn outcome(status: i32) -> Outcome {
    if libc::WIFSIGNALED(status) {
        Outcome::Signal(libc::WTERMSIG(status))
    } else {
        Outcome::Code(libc::WEXITSTATUS(status))
    }
}

/// What ends a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It is asked to; one that a signal has stopped goes on for that.
    Asked,
    /// It is not asked.
    Killed,
}

/// Ends a process that is traced.
pub(super) fn end(pid: u32, how: Ending) {
    let signals: &[libc::c_int] = match how {
        Ending::Asked => &[libc::SIGTERM, libc::SIGCONT],
        Ending::Killed => &[libc::SIGKILL],
    };
    for signal in signals {
        // SAFETY: a call with numbers only. A process that is traced by this one keeps its number until
        // this one has waited for it.
        unsafe { libc::kill(pid.cast_signed(), *signal) };
    }
}

/// What wakes the tracer from a wait. Nobody else uses it, and without a handler it does nothing.
const WAKE: i32 = libc::SIGURG;

/// Lets [`wake`] end a wait of any thread of this process.
pub(super) fn be_wakeable() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: the structure is zero but for the handler, which does nothing at all; without SA_RESTART
    // a wait that it interrupts ends.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int) = nothing;
        action.sa_sigaction = handler as *const () as usize;
        libc::sigaction(WAKE, &raw const action, std::ptr::null_mut());
    }
}

/// Ends the wait of a thread of this process. One that waits a moment later is not woken, so this is done
/// again and again.
pub(super) fn wake(tid: Tid) {
    // SAFETY: a call with numbers only.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, WAKE) };
}

/// The calling thread's number.
pub(super) fn own_tid() -> Tid {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::gettid() }
}
