//! What the agent lets the kernel take from it before it reads its first request.
//!
//! A process that reads other people's files must not be able to do anything with what it finds
//! there. No-new-privileges, fewer capabilities, and a filter of system calls (`SECCOMP_MODE_FILTER`,
//! Linux 3.5) hold even where the agent's own code is wrong. Where the kernel has no filter, or
//! refuses it, the agent works all the same, and `capabilities` says so.
//!
//! Kernel reference: `man 2 seccomp`, `man 2 capset`, `Documentation/userspace-api/seccomp_filter.rst`.

#![expect(unsafe_code, reason = "seccomp and capset have no safe form")]

mod calls;
mod filter;

use super::answer::last_errno;
use protocol::instruments::capabilities::{Capability, Filtering, Sandbox};
use rustix::io::Errno;
use std::sync::OnceLock;

/// What the login was allowed before the agent gave anything up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Login {
    /// Capabilities in effect.
    pub effective: u64,
    /// Whether a filter was on it that is not the agent's own.
    pub has_seccomp_filter: bool,
}

/// What the worker reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// The machine it runs on.
    ThisMachine,
    /// A folder with another machine's files. No link in it may lead out, which only `openat2`
    /// ensures; a filter cannot see that call's flags, so it is let through for this.
    Snapshot,
}

impl Reads {
    /// By whether a folder was given.
    pub const fn of(is_snapshot: bool) -> Self {
        if is_snapshot { Self::Snapshot } else { Self::ThisMachine }
    }
}

/// Capabilities that measuring takes, beside those that `capabilities` names when they are missing.
/// All others go.
const KEPT: [Capability; 2] = [Capability::IPC_LOCK, Capability::SYS_RESOURCE];

static ENTERED: OnceLock<(Login, Sandbox)> = OnceLock::new();

/// What the login was allowed; `None` outside of the sandbox.
pub fn login() -> Option<Login> {
    ENTERED.get().map(|(login, _)| *login)
}

/// What is enforced on this process.
pub fn enforced() -> Sandbox {
    ENTERED.get().map(|(_, sandbox)| *sandbox).unwrap_or_default()
}

/// Puts the worker into its sandbox. Before it starts a thread: what is given up here is given up by
/// the calling thread and those it starts.
pub fn enter(reads: Reads) {
    let effective = Sets::read().map_or(0, |sets| sets.effective());
    let login = Login { effective, has_seccomp_filter: has_filter() };
    let no_new_privileges = rustix::thread::set_no_new_privs(true).is_ok();
    let capabilities_dropped = drop_capabilities();
    let own = std::process::id();
    let filtering = install(&filter::worker(own, reads));
    end_by_signal_on_panic(filtering);
    let sandbox = Sandbox { filtering, capabilities_dropped, no_new_privileges };
    let _ = ENTERED.set((login, sandbox));
}

/// Puts a filter on the spawner, and with it on every program that it starts: one that only names
/// what no program that observes has to do.
pub(super) fn guard_spawner() {
    let _ = rustix::thread::set_no_new_privs(true);
    let _ = install(&filter::spawner());
}

/// The filter of a command whose calls of these numbers a tracer is to see, and no others.
pub(super) fn traced(own: &[u32], foreign: &[u32]) -> Vec<libc::sock_filter> {
    filter::traced(own, foreign)
}

/// A panic ends the process with `SIGABRT`, as without a filter. The C library's own way to raise it
/// names a thread and no process, and the filter cannot tell whose thread that is.
fn end_by_signal_on_panic(filtering: Filtering) {
    if cfg!(not(panic = "abort")) || filtering != Filtering::Enforced {
        return;
    }
    let say = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        say(panic);
        // SAFETY: calls with numbers only.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), libc::SIGABRT) };
    }));
}

fn has_filter() -> bool {
    // SAFETY: it takes numbers, and tells the mode: 2 is a filter.
    unsafe { libc::prctl(libc::PR_GET_SECCOMP, 0, 0, 0, 0) == 2 }
}

/// Puts a filter on the calling thread and on those it starts. It calls the kernel and nothing else.
pub(super) fn install(program: &[libc::sock_filter]) -> Filtering {
    const SET_MODE_FILTER: libc::c_uint = 1;
    /// Linux 4.17. Until 5.16 a filter made the kernel slow the process down, against code in it
    /// that nobody trusts; what is in the agent is the agent's.
    const SPEC_ALLOW: libc::c_uint = 4;
    let Ok(len) = u16::try_from(program.len()) else { return Filtering::Refused };
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    let set = |flags: libc::c_uint| {
        // SAFETY: the kernel copies the program, which lives for the call and has that length.
        match unsafe {
            libc::syscall(libc::SYS_seccomp, SET_MODE_FILTER, flags, &raw const program)
        } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    };
    let mut answer = set(SPEC_ALLOW);
    if answer == Err(Errno::INVAL) {
        answer = set(0);
    }
    if answer == Err(Errno::NOSYS) {
        // Before Linux 3.17, or within a filter that does not know the call.
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        // SAFETY: as above.
        answer = match unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program, 0, 0) }
        {
            0 => Ok(()),
            _ => Err(last_errno()),
        };
    }
    match answer {
        Ok(()) => Filtering::Enforced,
        Err(Errno::INVAL | Errno::NOSYS) => Filtering::NotInKernel,
        Err(_) => Filtering::Refused,
    }
}

/// Gives up what measuring does not take. Says how many.
///
/// Only with `CAP_SYS_PTRACE`: without it the kernel compares sets (`cap_ptrace_access_check` in
/// `security/commoncap.c`), and whoever holds less than another process of the same user may not
/// look into it any more. So it is for root in most containers.
fn drop_capabilities() -> u32 {
    let Some(before) = Sets::read() else { return 0 };
    let effective = before.effective();
    if !Capability::SYS_PTRACE.is_in(effective) {
        return 0;
    }
    let kept = Capability::WANTED.iter().chain(&KEPT);
    let mask = kept.fold(0_u64, |mask, capability| mask | 1 << capability.0);
    if before.kept(mask).write() { (effective & !mask).count_ones() } else { 0 }
}

/// `struct __user_cap_data_struct`, version 3, twice: the low 32 capabilities, then the high ones.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Set {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The capabilities of the calling thread.
#[derive(Clone, Copy, Debug, Default)]
struct Sets {
    low: Set,
    high: Set,
}

/// `struct __user_cap_header_struct`.
#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

const VERSION_3: u32 = 0x2008_0522;

impl Sets {
    fn read() -> Option<Self> {
        let header = Header { version: VERSION_3, pid: 0 };
        let mut sets = [Set::default(); 2];
        // SAFETY: version 3 fills two structures, which is what there is room for.
        let answer =
            unsafe { libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) };
        let [low, high] = sets;
        (answer == 0).then_some(Self { low, high })
    }

    fn write(self) -> bool {
        let header = Header { version: VERSION_3, pid: 0 };
        let sets = [self.low, self.high];
        // SAFETY: version 3 reads two structures, which are given.
        unsafe { libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr()) == 0 }
    }

    fn effective(self) -> u64 {
        u64::from(self.high.effective) << 32 | u64::from(self.low.effective)
    }

    fn kept(self, mask: u64) -> Self {
        let part = |set: Set, mask: u64| {
            let mask = u32::try_from(mask & u64::from(u32::MAX)).unwrap_or_default();
            Set {
                effective: set.effective & mask,
                permitted: set.permitted & mask,
                inheritable: set.inheritable & mask,
            }
        };
        Self { low: part(self.low, mask), high: part(self.high, mask >> 32) }
    }
}
