//! What tracing a process comes to, tried on children of our own.
//!
//! Kernel reference: `man 2 ptrace`, `Documentation/admin-guide/LSM/Yama.rst`. Children are forked
//! from a process with several threads, so they only make system calls until they end.

#![expect(unsafe_code, reason = "fork and ptrace have no safe form")]

use super::answer::last_errno;
use rustix::{
    fd::{AsRawFd as _, OwnedFd},
    io::Errno,
    process::{Pid, WaitOptions},
};
use std::{ffi::CString, os::fd::RawFd};

/// Lets a child of our own be traced by us.
///
/// The child asks for it (`PTRACE_TRACEME`), for which the kernel looks at the same rights; so no
/// process has to be named, and the filter on the agent lets none be.
///
/// # Errors
///
/// What the kernel, or a filter before it, answered.
pub fn trace_a_child() -> Result<(), Errno> {
    let (reader, writer) = pipe()?;
    let _child = Child::run(Errand::BeTraced { answer: writer.as_raw_fd() })?;
    drop(writer);
    read_errno(&reader)
}

/// Asks the kernel whether a process may trace its sibling, which is of the same user and not its
/// descendant. The right is asked for and not used: it is what opening `/proc/PID/mem` takes.
///
/// # Errors
///
/// What the kernel answered.
pub fn open_memory_of_a_sibling() -> Result<(), Errno> {
    let sleeper = Child::sleeping()?;
    let path = CString::new(format!("/proc/{}/mem", sleeper.pid.as_raw_nonzero()))
        .map_err(|_| Errno::INVAL)?;
    let (reader, writer) = pipe()?;
    let _looker = Child::run(Errand::Open { path: &path, answer: writer.as_raw_fd() })?;
    drop(writer);
    read_errno(&reader)
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
}

/// What a child tells of its system call.
fn read_errno(answer: &OwnedFd) -> Result<(), Errno> {
    let mut bytes = [0; 4];
    let length = rustix::io::read(answer, &mut bytes)?;
    match i32::from_ne_bytes(bytes) {
        _ if length != bytes.len() => Err(Errno::IO),
        0 => Ok(()),
        errno => Err(Errno::from_raw_os_error(errno)),
    }
}

/// Asks to trace a process that cannot be. `ESRCH` is the kernel's answer; another one is that of a
/// filter before the kernel.
pub fn is_answered_by_the_kernel() -> bool {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: no memory of ours is given to the kernel, and no process has this number.
    let answer = unsafe { libc::ptrace(libc::PTRACE_SEIZE, 0, nothing, nothing) };
    answer != -1 || last_errno() == Errno::SRCH
}

/// A process of our own that ends when this is dropped: by a word, because the agent may send no
/// signal.
struct Child {
    pid: Pid,
    /// Where it waits for its word, if it does.
    end: Option<OwnedFd>,
}

/// What a child does.
#[derive(Clone, Copy)]
enum Errand<'e> {
    /// Lets itself be inspected, says that it is ready, and waits for a word.
    Sleep { ready: RawFd, end: RawFd },
    /// Opens a file, and tells the error.
    Open { path: &'e CString, answer: RawFd },
    /// Asks to be traced, and tells the error.
    BeTraced { answer: RawFd },
}

impl Child {
    fn sleeping() -> Result<Self, Errno> {
        let (reader, writer) = pipe()?;
        let (end, sender) = pipe()?;
        let errand = Errand::Sleep { ready: writer.as_raw_fd(), end: end.as_raw_fd() };
        let mut child = Self::run(errand)?;
        child.end = Some(sender);
        drop(writer);
        let mut word = [0; 1];
        rustix::io::read(&reader, &mut word)?;
        Ok(child)
    }

    fn run(errand: Errand<'_>) -> Result<Self, Errno> {
        // SAFETY: the child makes system calls only, takes no lock, allocates nothing, and ends
        // with _exit or by a signal.
        match unsafe { libc::fork() } {
            -1 => Err(last_errno()),
            0 => {
                // SAFETY: the pointers are to memory that the child got a copy of.
                unsafe { do_errand(errand) }
            }
            pid => Pid::from_raw(pid).map(|pid| Self { pid, end: None }).ok_or(Errno::SRCH),
        }
    }
}

/// Runs in the child and does not return.
///
/// # Safety
///
/// Only in a process that has just been forked.
unsafe fn do_errand(errand: Errand<'_>) -> ! {
    // SAFETY: system calls with numbers, and with pointers to memory of the child's own.
    unsafe {
        // What may not be dumped may not be traced either, and the agent may not be dumped.
        libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0);
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
        match errand {
            Errand::Sleep { ready, end } => {
                let mut word = 1_u8;
                libc::write(ready, (&raw const word).cast(), 1);
                libc::read(end, (&raw mut word).cast(), 1);
            }
            Errand::Open { path, answer } => {
                let opened = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
                let errno: i32 = if opened < 0 { *libc::__errno_location() } else { 0 };
                libc::write(answer, (&raw const errno).cast(), size_of::<i32>());
            }
            Errand::BeTraced { answer } => {
                let nothing = std::ptr::null_mut::<libc::c_void>();
                let asked = libc::ptrace(libc::PTRACE_TRACEME, 0, nothing, nothing);
                let errno: i32 = if asked < 0 { *libc::__errno_location() } else { 0 };
                libc::write(answer, (&raw const errno).cast(), size_of::<i32>());
            }
        }
        libc::_exit(0)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if let Some(end) = &self.end {
            let _ = rustix::io::write(end, &[1]);
        }
        while matches!(
            rustix::process::waitpid(Some(self.pid), WaitOptions::empty()),
            Err(Errno::INTR)
        ) {}
    }
}
