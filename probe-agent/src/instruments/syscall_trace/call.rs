//! System calls by number and name, and which of them sleep by nature.

use protocol::{host_text::HostText, instruments::syscall_trace::SubjectKind};
use syscalls::Sysno;

/// A system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Call {
    /// Its number.
    pub(super) number: u32,
    /// Whether that is a number of 32-bit programs.
    pub(super) is_32_bit: bool,
}

impl Call {
    /// A call of this machine's own kind of programs.
    pub(super) const fn new(number: u32) -> Self {
        Self { number, is_32_bit: false }
    }

    /// Every call of a name: of 32-bit programs too. None where this machine has no such call.
    pub(super) fn all_named(name: &str) -> Vec<Self> {
        let own = name.parse::<Sysno>().ok().map(|call| Self::new(own_number(call)));
        own.into_iter().chain(foreign_named(name)).collect()
    }

    /// Its name, where it has one.
    pub(super) fn known_name(self) -> Option<&'static str> {
        if self.is_32_bit {
            return foreign_name(self.number);
        }
        let number = usize::try_from(self.number).ok()?;
        Sysno::new(number).map(|call| call.name())
    }

    /// Its name, of a call of this machine's own kind of programs.
    pub(super) fn own_name(self) -> Option<&'static str> {
        if self.is_32_bit { None } else { self.known_name() }
    }

    /// Its name, or its number.
    pub(super) fn name(self) -> HostText {
        match self.known_name() {
            Some(name) => HostText::new(name.as_bytes()),
            None => HostText::new(format!("syscall_{}", self.number).as_bytes()),
        }
    }

    /// Whether it sleeps by nature: until there is something to do, an answer, a lock, a time. Of a
    /// call on a descriptor that depends on what it is of, where that is known.
    ///
    /// A call that sleeps because something is slow is none: `fsync`, `connect`, a write to a pipe
    /// that is full.
    pub(super) fn is_wait(self, on: Option<SubjectKind>) -> bool {
        match self.known_name() {
            Some(
                "futex"
                | "futex_time64"
                | "futex_wait"
                | "futex_waitv"
                | "poll"
                | "ppoll"
                | "ppoll_time64"
                | "select"
                | "_newselect"
                | "pselect6"
                | "pselect6_time64"
                | "epoll_wait"
                | "epoll_pwait"
                | "epoll_pwait2"
                | "nanosleep"
                | "clock_nanosleep"
                | "clock_nanosleep_time64"
                | "pause"
                | "accept"
                | "accept4"
                | "rt_sigtimedwait"
                | "rt_sigtimedwait_time64"
                | "rt_sigsuspend"
                | "sigsuspend"
                | "wait4"
                | "waitid"
                | "waitpid"
                | "io_getevents"
                | "io_pgetevents"
                | "io_pgetevents_time64"
                | "io_uring_enter"
                | "recvfrom"
                | "recvmsg"
                | "recvmmsg"
                | "recvmmsg_time64"
                | "recv"
                | "restart_syscall"
                | "msgrcv"
                | "mq_timedreceive"
                | "mq_timedreceive_time64"
                | "semop"
                | "semtimedop"
                | "flock",
            ) => true,
            Some("read" | "readv" | "pread64" | "splice" | "tee") => {
                matches!(
                    on,
                    Some(
                        SubjectKind::Socket
                            | SubjectKind::Pipe
                            | SubjectKind::Terminal
                            | SubjectKind::Eventfd
                            | SubjectKind::Timer
                            | SubjectKind::Signal
                            | SubjectKind::Inotify
                    )
                )
            }
            Some(_) | None => false,
        }
    }

    /// Whether [`Call::is_wait`] depends on what its first argument, a descriptor, is of.
    pub(super) fn waits_on_some(self) -> bool {
        !self.is_wait(None) && self.is_wait(Some(SubjectKind::Pipe))
    }
}

fn own_number(call: Sysno) -> u32 {
    u32::try_from(call.id()).unwrap_or(u32::MAX)
}

/// The 32-bit programs of a processor have the calls of its ancestor.
#[cfg(target_arch = "x86_64")]
fn foreign_name(number: u32) -> Option<&'static str> {
    let number = usize::try_from(number).ok()?;
    syscalls::x86::Sysno::new(number).map(|call| call.name())
}

#[cfg(target_arch = "x86_64")]
fn foreign_named(name: &str) -> Option<Call> {
    let call = name.parse::<syscalls::x86::Sysno>().ok()?;
    Some(Call { number: u32::try_from(call.id()).ok()?, is_32_bit: true })
}

/// Their names are not in the table; they are shown by number.
#[cfg(not(target_arch = "x86_64"))]
const fn foreign_name(_: u32) -> Option<&'static str> {
    None
}

#[cfg(not(target_arch = "x86_64"))]
const fn foreign_named(_: &str) -> Option<Call> {
    None
}

/// The name of an error number as the kernel returned it. By those from 512 on it begins a call again
/// after a signal; programs never see them.
pub(super) fn error_name(errno: u16) -> HostText {
    if matches!(errno, 512..=516) {
        return HostText::new(b"ERESTART");
    }
    match syscalls::Errno::new(i32::from(errno)).name() {
        Some(name) => HostText::new(name.as_bytes()),
        None => HostText::new(format!("error {errno}").as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(name: &str) -> Call {
        Call::all_named(name).into_iter().find(|call| !call.is_32_bit).unwrap()
    }

    #[test]
    fn a_call_is_found_by_its_name_and_has_it() {
        assert_eq!(own("openat").name().as_str(), "openat");
        assert_eq!(Call::all_named("no_such_call"), []);
        assert_eq!(Call::new(9_999).name().as_str(), "syscall_9999");
        #[cfg(target_arch = "x86_64")]
        {
            assert_eq!(Call { number: 3, is_32_bit: true }.name().as_str(), "read");
            assert_eq!(Call::all_named("read").len(), 2);
        }
    }

    #[test]
    fn what_sleeps_by_nature_is_told_by_the_call_and_by_what_it_is_on() {
        for (name, on, want) in [
            ("epoll_pwait", None, true),
            ("futex", Some(SubjectKind::Futex), true),
            ("fsync", Some(SubjectKind::Path), false),
            ("connect", Some(SubjectKind::Socket), false),
            ("read", None, false),
            ("read", Some(SubjectKind::Path), false),
            ("read", Some(SubjectKind::Pipe), true),
            ("write", Some(SubjectKind::Pipe), false),
        ] {
            assert_eq!(own(name).is_wait(on), want, "{name} {on:?}");
        }
        assert!(own("read").waits_on_some() && !own("futex").waits_on_some());
    }

    #[test]
    fn errors_have_the_names_of_their_manual() {
        for (errno, want) in [
            (2, "ENOENT"),
            (11, "EAGAIN"),
            (110, "ETIMEDOUT"),
            (512, "ERESTART"),
            (999, "error 999"),
        ] {
            assert_eq!(error_name(errno).as_str(), want);
        }
    }
}
