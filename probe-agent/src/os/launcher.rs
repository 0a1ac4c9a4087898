//! A command that a person launches to see its system calls, from the first on.
//!
//! It is forked of the spawner before that gives anything up, so it has what the person's shell would give
//! it: the environment, the folder, the open files and the limits. It waits for a word until the tracer
//! holds it; without one, because whoever was to say it is gone, it ends. Its words go to stderr: stdout is
//! the answer's.
//!
//! Only the agent's own command line leads here: nothing of a session does.
//!
//! Kernel reference: `man 2 seccomp` on `SECCOMP_RET_TRACE`, `Documentation/userspace-api/no_new_privs.rst`.

#![expect(unsafe_code, reason = "fork, execv and signals have no safe form")]

use super::{answer::last_errno, open_files, sandbox, spawner};
use protocol::instruments::capabilities::Filtering;
use rustix::{
    fd::OwnedFd,
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use serde::{Deserialize, Serialize};
use std::{
    ffi::{CString, NulError, OsString},
    os::unix::ffi::OsStringExt as _,
    path::PathBuf,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

/// What is to be launched.
#[derive(Clone, Debug)]
pub struct Wanted {
    program: CString,
    words: Vec<CString>,
    /// Without one, all calls are stopped.
    filter: Option<Vec<libc::sock_filter>>,
}

impl Wanted {
    /// A program's file, and all words of the command.
    ///
    /// # Errors
    ///
    /// A zero in a word, which no command line has.
    pub fn new(program: PathBuf, words: Vec<OsString>) -> Result<Self, NulError> {
        let program = CString::new(program.into_os_string().into_vec())?;
        let words = words.into_iter().map(|word| CString::new(word.into_vec()));
        Ok(Self { program, words: words.collect::<Result<_, _>>()?, filter: None })
    }

    /// Stops calls of these numbers alone: of this machine's own programs, and of 32-bit ones.
    #[must_use]
    pub fn stopping_at(self, own: &[u32], foreign: &[u32]) -> Self {
        Self { filter: Some(sandbox::traced(own, foreign)), ..self }
    }
}

/// What could not be done in a command's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// To put a filter on it.
    Filter,
    /// To run its program.
    Run,
}

/// In the spawner: a command that waits.
#[derive(Debug)]
pub(super) struct Held {
    /// Its process.
    pub(super) pid: u32,
    /// Where it waits for its word.
    pub(super) go: OwnedFd,
    /// What it could not do, if anything.
    pub(super) failed: Failed,
    /// Whether it stops at some calls alone.
    pub(super) is_filtered: bool,
}

/// Where a command says what it could not do.
#[derive(Debug)]
pub(super) struct Failed(OwnedFd);

impl Failed {
    /// What that was; nothing where it ran.
    pub(super) fn read(&self) -> Option<(Step, i32)> {
        let mut bytes = [0; 8];
        let length = rustix::io::read(&self.0, &mut bytes).ok()?;
        let ([step, errno], _) = bytes.as_chunks::<4>().0.split_first_chunk::<2>()?;
        let step = if i32::from_ne_bytes(*step) == 0 { Step::Filter } else { Step::Run };
        (length == bytes.len()).then_some((step, i32::from_ne_bytes(*errno)))
    }
}

static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// In the spawner: the command, once.
pub(super) fn take() -> Option<Held> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Starts the spawner with a command that waits. Gives the command's pid.
///
/// From then on the signals by which a person ends the agent end the command first; [`interrupt`] says
/// that there was one.
///
/// # Errors
///
/// When there are no processes or files to be had.
pub fn start(wanted: &Wanted) -> Result<u32, Errno> {
    let (reader, told) = pipe_with(PipeFlags::CLOEXEC)?;
    spawner::start_prepared(|| {
        let held = hold(wanted);
        leave_signals_to_the_command();
        let number = match &held {
            Ok(held) => i64::from(held.pid),
            Err(errno) => -i64::from(errno.raw_os_error()),
        };
        *HELD.lock().unwrap_or_else(PoisonError::into_inner) = held.ok();
        let _ = rustix::io::write(&told, &number.to_ne_bytes());
    });
    drop(told);
    hear_interrupts();
    let mut number = [0; 8];
    spawner::read_exact(&reader, &mut number).ok_or(Errno::AGAIN)?;
    let number = i64::from_ne_bytes(number);
    u32::try_from(number).map_err(|_| {
        let errno = number.checked_neg().and_then(|errno| i32::try_from(errno).ok());
        errno.map_or(Errno::AGAIN, Errno::from_raw_os_error)
    })
}

fn hold(wanted: &Wanted) -> Result<Held, Errno> {
    let (waits, go) = pipe_with(PipeFlags::CLOEXEC)?;
    // What is read after the command has ended is there, or never comes.
    let (failed, says) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let mut words: Vec<*const libc::c_char> =
        wanted.words.iter().map(|word| word.as_ptr()).collect();
    words.push(std::ptr::null());
    // SAFETY: no thread exists yet. The child calls the kernel alone, with memory that it got a copy of,
    // and ends without returning.
    match unsafe { libc::fork() } {
        -1 => Err(last_errno()),
        0 => {
            drop(go);
            in_child(wanted, &words, (&waits, &says))
        }
        child => Ok(Held {
            pid: child.unsigned_abs(),
            go,
            failed: Failed(failed),
            is_filtered: wanted.filter.is_some(),
        }),
    }
}

/// What the child does, until it is the command.
fn in_child(
    wanted: &Wanted,
    words: &[*const libc::c_char],
    (waits, says): (&OwnedFd, &OwnedFd),
) -> ! {
    let mut word = [0; 1];
    let is_wanted = loop {
        match rustix::io::read(waits, &mut word) {
            Ok(length) => break length == 1,
            Err(Errno::INTR) => {}
            Err(_) => break false,
        }
    };
    if is_wanted {
        let _ = rustix::stdio::dup2_stdout(rustix::stdio::stderr());
        open_files::restore_limit();
        let (step, errno) = run(wanted, words);
        let bytes = [step.to_ne_bytes(), errno.to_ne_bytes()];
        let _ = rustix::io::write(says, bytes.as_flattened());
    }
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(127) }
}

/// Runs the program in the child's place; what comes back says why not: the step, 0 for the filter, and the
/// error's number.
fn run(wanted: &Wanted, words: &[*const libc::c_char]) -> (i32, i32) {
    // SAFETY: it takes a number and the default. The agent's own runtime ignores the signal, which a
    // command would inherit.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    // Also without a filter: what a program may is not to depend on how it is looked at.
    let privileges = rustix::thread::set_no_new_privs(true);
    if let Some(filter) = &wanted.filter {
        if let Err(errno) = privileges {
            return (0, errno.raw_os_error());
        }
        match sandbox::install(filter) {
            Filtering::Enforced => {}
            Filtering::NotInKernel => return (0, libc::ENOSYS),
            Filtering::Refused | Filtering::NotAsked => return (0, libc::EPERM),
        }
    }
    // SAFETY: the words end with a null, and both they and the program's path end with a zero.
    unsafe { libc::execv(wanted.program.as_ptr(), words.as_ptr()) };
    (1, last_errno().raw_os_error())
}

/// By which a person, or a terminal that closes, ends what runs there.
const ENDING: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// In the spawner: a terminal sends them to all that it runs, and without the tracer the command would be
/// killed by them whatever it makes of them.
fn leave_signals_to_the_command() {
    for signal in ENDING {
        // SAFETY: it takes a number and a disposition, which runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

/// How often it was asked to end: once by each signal of a terminal, twice by each of somebody else.
static INTERRUPTS: AtomicU32 = AtomicU32::new(0);

/// How urgently the worker was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interrupt {
    /// It was not.
    None,
    /// By the terminal, which has asked the command too, and once: that may end by itself.
    OfAll,
    /// At once: again, or by a signal that the command did not get.
    OfAgent,
}

/// In the worker: whether it was asked to end.
pub fn interrupt() -> Interrupt {
    match INTERRUPTS.load(Ordering::Acquire) {
        0 => Interrupt::None,
        1 => Interrupt::OfAll,
        _ => Interrupt::OfAgent,
    }
}

/// In the worker: takes note of the signals instead of ending, because there is something to tell. One that
/// it was started to ignore, as by `nohup`, stays ignored.
fn hear_interrupts() {
    /// What the kernel sends by itself, as to all that a terminal runs.
    const OF_KERNEL: libc::c_int = 0x80;
    extern "C" fn note(_: libc::c_int, info: *const libc::siginfo_t, _: *const libc::c_void) {
        // SAFETY: the kernel gives a handler that asks for it what it knows of the signal.
        let of_kernel = unsafe { (*info).si_code } == OF_KERNEL;
        INTERRUPTS.fetch_add(if of_kernel { 1 } else { 2 }, Ordering::AcqRel);
    }
    for signal in ENDING {
        // SAFETY: the structures are zero but for the flags and the handler, which adds to an atomic and
        // does nothing else; the former one is what the kernel wrote there.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let handler: extern "C" fn(libc::c_int, *const libc::siginfo_t, *const libc::c_void) =
                note;
            action.sa_sigaction = handler as *const () as usize;
            action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
            let mut former: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, &raw const action, &raw mut former);
            if former.sa_sigaction == libc::SIG_IGN {
                libc::sigaction(signal, &raw const former, std::ptr::null_mut());
            }
        }
    }
}
