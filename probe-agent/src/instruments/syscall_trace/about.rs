//! What a system call is about, by its number and arguments.

use super::call::Call;
use protocol::instruments::syscall_trace::SubjectKind;
use syscalls::Sysno;

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum About {
    /// An open file.
    Descriptor(u32),
    /// A path, whose text is at an address.
    Path {
        /// Where a path begins that does not begin at the root.
        folder: Folder,
        /// Where its text is.
        at: u64,
    },
    /// The peer that an address of a socket names; without one, what the socket is connected to.
    Peer {
        /// The socket.
        descriptor: u32,
        /// Where the address is, and its length.
        at: (u64, u64),
    },
    /// A thing that needs no looking up.
    Thing(SubjectKind, String),
    /// Nothing in particular.
    Nothing,
}

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folder {
    /// In the working folder.
    Working,
    /// In an open folder.
    Of(u32),
}

/// What a call does to the descriptors of its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// A new one is what the call was about.
    Opens,
    /// There is a new one, of something else.
    Makes,
    /// A new one is the same as another.
    Copies(u32),
    /// These are closed, the first and the last.
    Closes(u32, u32),
    /// It has another working folder.
    Moves,
    /// None.
    Nothing,
}

/// `AT_FDCWD`.
const WORKING_FOLDER: i32 = -100;

/// The low half of an argument: descriptors and numbers of processes are no longer.
fn low(argument: u64) -> u32 {
    u32::try_from(argument & u64::from(u32::MAX)).unwrap_or_default()
}

/// Tells it. Calls of 32-bit programs are about nothing that is known.
pub(super) fn of(pid: u32, call: Call, arguments: &[u64; 6]) -> About {
    let [first, second, third, fourth, fifth, sixth] = *arguments;
    let Some(name) = call.own_name() else { return About::Nothing };
    let in_folder = |folder: u64, at: u64| {
        let folder = low(folder);
        let folder = if folder.cast_signed() == WORKING_FOLDER {
            Folder::Working
        } else {
            Folder::Of(folder)
        };
        About::Path { folder, at }
    };
    let thing = |kind: SubjectKind, name: String| About::Thing(kind, name);
    match name {
        "open" | "creat" | "stat" | "lstat" | "access" | "readlink" | "chdir" | "mkdir"
        | "rmdir" | "unlink" | "truncate" | "statfs" | "chmod" | "chown" | "lchown" | "execve"
        | "mknod" | "rename" | "link" | "symlink" | "getxattr" | "lgetxattr" | "setxattr"
        | "lsetxattr" | "listxattr" | "llistxattr" | "utime" | "utimes" | "chroot" | "umount2"
        | "mount" => About::Path { folder: Folder::Working, at: first },
        "openat" | "openat2" | "newfstatat" | "statx" | "faccessat" | "faccessat2"
        | "readlinkat" | "mkdirat" | "unlinkat" | "mknodat" | "fchmodat" | "fchmodat2"
        | "fchownat" | "utimensat" | "futimesat" | "execveat" | "renameat" | "renameat2"
        | "linkat" | "name_to_handle_at" => in_folder(first, second),
        "symlinkat" => in_folder(second, third),
        "inotify_add_watch" => About::Path { folder: Folder::Working, at: second },
        "connect" | "bind" => About::Peer { descriptor: low(first), at: (second, third) },
        "sendto" if fifth != 0 => About::Peer { descriptor: low(first), at: (fifth, sixth) },
        "futex" | "futex_wait" | "futex_wake" => {
            thing(SubjectKind::Futex, format!("{first:#x} of {pid}"))
        }
        "poll" | "ppoll" => thing(SubjectKind::Poll, "poll".to_owned()),
        "select" | "pselect6" => thing(SubjectKind::Poll, "select".to_owned()),
        "nanosleep" | "clock_nanosleep" => thing(SubjectKind::Timer, "sleep".to_owned()),
        "pause" | "rt_sigtimedwait" | "rt_sigsuspend" => {
            thing(SubjectKind::Signal, "signals".to_owned())
        }
        "wait4" | "waitid" => {
            let child = low(if name == "wait4" { first } else { second }).cast_signed();
            let is_one = child > 0 && (name == "wait4" || low(first) == 1);
            let child = if is_one { format!("child {child}") } else { "any child".to_owned() };
            thing(SubjectKind::Child, child)
        }
        "mmap" if low(fourth) & 0x20 == 0 => About::Descriptor(low(fifth)),
        "mmap" | "munmap" | "mremap" | "mprotect" | "madvise" | "brk" | "mlock" | "munlock" => {
            thing(SubjectKind::Memory, "memory".to_owned())
        }
        "io_getevents" | "io_pgetevents" | "io_submit" => {
            thing(SubjectKind::Completions, format!("{first:#x}"))
        }
        name if is_on_a_descriptor(name) => About::Descriptor(low(first)),
        _ => About::Nothing,
    }
}

/// Calls whose first argument is a descriptor.
fn is_on_a_descriptor(name: &str) -> bool {
    matches!(
        name,
        "read"
            | "write"
            | "pread64"
            | "pwrite64"
            | "readv"
            | "writev"
            | "preadv"
            | "pwritev"
            | "preadv2"
            | "pwritev2"
            | "close"
            | "fstat"
            | "lseek"
            | "fsync"
            | "fdatasync"
            | "ftruncate"
            | "fchmod"
            | "fchown"
            | "fchdir"
            | "getdents"
            | "getdents64"
            | "ioctl"
            | "fcntl"
            | "flock"
            | "fallocate"
            | "sync_file_range"
            | "syncfs"
            | "readahead"
            | "fadvise64"
            | "sendfile"
            | "splice"
            | "tee"
            | "vmsplice"
            | "copy_file_range"
            | "recvfrom"
            | "recvmsg"
            | "recvmmsg"
            | "sendto"
            | "sendmsg"
            | "sendmmsg"
            | "accept"
            | "accept4"
            | "listen"
            | "getsockname"
            | "getpeername"
            | "getsockopt"
            | "setsockopt"
            | "shutdown"
            | "fstatfs"
            | "fgetxattr"
            | "fsetxattr"
            | "flistxattr"
            | "dup"
            | "dup2"
            | "dup3"
            | "epoll_ctl"
            | "epoll_wait"
            | "epoll_pwait"
            | "epoll_pwait2"
            | "timerfd_settime"
            | "timerfd_gettime"
            | "signalfd4"
            | "io_uring_enter"
            | "io_uring_register"
            | "inotify_rm_watch"
    )
}

/// What a call that succeeded does to the descriptors of its process.
pub(super) fn effect(call: Call, arguments: &[u64; 6]) -> Effect {
    const DUPLICATES: [u32; 2] = [0, 1030];
    let [first, second, ..] = *arguments;
    match call.own_name() {
        Some("open" | "openat" | "openat2" | "creat") => Effect::Opens,
        Some("dup" | "dup2" | "dup3") => Effect::Copies(low(first)),
        Some("fcntl") if DUPLICATES.contains(&low(second)) => Effect::Copies(low(first)),
        Some("close") => Effect::Closes(low(first), low(first)),
        Some("close_range") => Effect::Closes(low(first), low(second)),
        Some("chdir" | "fchdir" | "chroot") => Effect::Moves,
        Some(
            "socket" | "accept" | "accept4" | "epoll_create" | "epoll_create1" | "eventfd"
            | "eventfd2" | "timerfd_create" | "inotify_init" | "inotify_init1" | "memfd_create"
            | "io_uring_setup" | "signalfd" | "perf_event_open" | "pidfd_open"
            | "open_by_handle_at" | "userfaultfd" | "bpf",
        ) => Effect::Makes,
        // Which ones are in memory.
        Some("pipe" | "pipe2" | "socketpair" | "recvmsg" | "recvmmsg") => {
            Effect::Closes(3, u32::MAX)
        }
        Some(_) | None => Effect::Nothing,
    }
}

/// The calls that may do anything to the descriptors of their process.
pub(super) fn changing_descriptors() -> impl Iterator<Item = Call> {
    let all = Sysno::iter().filter_map(|call| u32::try_from(call.id()).ok()).map(Call::new);
    all.filter(|call| effect(*call, &[0; 6]) != Effect::Nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(name: &str, arguments: [u64; 6]) -> About {
        let calls = Call::all_named(name);
        of(7, *calls.iter().find(|call| !call.is_32_bit).unwrap(), &arguments)
    }

    #[test]
    fn a_call_is_about_what_its_arguments_say() {
        const HERE: u64 = 0xffff_ff9c;
        let path = |folder, at| About::Path { folder, at };
        let thing = |kind, name: &str| About::Thing(kind, name.to_owned());
        let cases = [
            ("openat", [HERE, 0x40, 0, 0, 0, 0], path(Folder::Working, 0x40)),
            ("openat", [u64::MAX - 99, 0x40, 0, 0, 0, 0], path(Folder::Working, 0x40)),
            ("openat", [7, 0x40, 0, 0, 0, 0], path(Folder::Of(7), 0x40)),
            ("symlinkat", [1, 7, 0x40, 0, 0, 0], path(Folder::Of(7), 0x40)),
            ("read", [5, 0, 0, 0, 0, 0], About::Descriptor(5)),
            ("sendto", [5, 1, 2, 0, 0, 0], About::Descriptor(5)),
            ("sendto", [5, 1, 2, 0, 9, 16], About::Peer { descriptor: 5, at: (9, 16) }),
            ("mmap", [0, 4096, 1, 2, 3, 0], About::Descriptor(3)),
            ("mmap", [0, 4096, 1, 0x22, u64::MAX, 0], thing(SubjectKind::Memory, "memory")),
            ("futex", [0x7f00, 0, 0, 0, 0, 0], thing(SubjectKind::Futex, "0x7f00 of 7")),
            ("wait4", [u64::MAX, 0, 0, 0, 0, 0], thing(SubjectKind::Child, "any child")),
            ("waitid", [1, 77, 0, 0, 0, 0], thing(SubjectKind::Child, "child 77")),
            ("ppoll", [0; 6], thing(SubjectKind::Poll, "poll")),
            ("getpid", [0; 6], About::Nothing),
        ];
        for (name, arguments, want) in cases {
            assert_eq!(about(name, arguments), want, "{name}");
        }
        #[cfg(target_arch = "x86_64")]
        assert_eq!(of(7, Call { number: 3, is_32_bit: true }, &[5; 6]), About::Nothing);
    }

    #[test]
    fn descriptors_come_and_go() {
        let effect = |name: &str, arguments| {
            let calls = Call::all_named(name);
            effect(*calls.iter().find(|call| !call.is_32_bit).unwrap(), &arguments)
        };
        assert_eq!(effect("openat", [0; 6]), Effect::Opens);
        assert_eq!(effect("fcntl", [4, 1030, 0, 0, 0, 0]), Effect::Copies(4));
        assert_eq!(effect("fcntl", [4, 3, 0, 0, 0, 0]), Effect::Nothing);
        assert_eq!(effect("close_range", [4, 9, 0, 0, 0, 0]), Effect::Closes(4, 9));
        let changing: Vec<&str> = changing_descriptors().filter_map(Call::own_name).collect();
        for (name, want) in [("openat", true), ("fcntl", true), ("pipe2", true), ("read", false)] {
            assert_eq!(changing.contains(&name), want, "{name}");
        }
    }
}
