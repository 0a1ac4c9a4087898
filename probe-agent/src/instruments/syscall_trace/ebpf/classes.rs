//! What each system call is about, by its name: as the programs in `probe-agent/bpf/syscalls.bpf.c` are
//! told by number.

use super::super::{call::Call, engine::Asked};

/// What a call is about, the numbers of `syscalls.bpf.c`.
mod about {
    pub(super) const FD: u16 = 1;
    pub(super) const FIFTH_FD: u16 = 2;
    pub(super) const PATH: u16 = 3;
    pub(super) const PATH_AT: u16 = 4;
    pub(super) const CONNECT: u16 = 5;
    pub(super) const SEND_TO: u16 = 6;
    pub(super) const FUTEX: u16 = 7;
    pub(super) const CHILD: u16 = 8;
}

const OPENS: u16 = 0x10;
const WAITS_BY_FD: u16 = 0x20;
const FORKS: u16 = 0x40;
const WANTED: u16 = 0x80;
const EXECUTES: u16 = 0x100;
const CLOSES: u16 = 0x200;

/// Numbers that have a place.
const MOST_CALLS: u32 = 512;

/// The call with which it is tried what watching costs.
pub(super) const TRIAL: &str = "fstat";

/// Classes, as the constants `classes` and `class_beyond`.
pub(super) struct Classes {
    pub(super) by_number: Vec<u8>,
    pub(super) beyond: [u8; 4],
}

impl Classes {
    pub(super) fn of(asked: &Asked<'_>) -> Self {
        let classes = [false, true]
            .into_iter()
            .flat_map(|is_32_bit| (0..MOST_CALLS).map(move |number| Call { number, is_32_bit }));
        let class = |call: Call| {
            let name = call.known_name().unwrap_or_default();
            let is_wanted = asked.wants(call) || (name == TRIAL && !call.is_32_bit);
            let wanted = if is_wanted { WANTED } else { 0 };
            // The arguments of 32-bit programs are in other registers.
            let of_name = if call.is_32_bit { class_of(name) & FORKS } else { class_of(name) };
            let waits = if call.waits_on_some() { WAITS_BY_FD } else { 0 };
            of_name | wanted | if call.is_32_bit { 0 } else { waits }
        };
        let beyond = if asked.request.calls.is_empty() { u32::from(WANTED) } else { 0 };
        Self {
            by_number: classes.flat_map(|call| class(call).to_ne_bytes()).collect(),
            beyond: beyond.to_ne_bytes(),
        }
    }
}

/// Whether the first argument of a call is a descriptor that it is about.
pub(super) fn is_on_descriptor(name: &str) -> bool {
    matches!(class_of(name) & 15, about::FD | about::CONNECT | about::SEND_TO)
}

fn class_of(name: &str) -> u16 {
    match name {
        "close" => about::FD | CLOSES,
        "open" | "creat" => about::PATH | OPENS,
        "openat" | "openat2" => about::PATH_AT | OPENS,
        "execve" => about::PATH | EXECUTES,
        "execveat" => about::PATH_AT | EXECUTES,
        "clone" | "clone3" | "fork" | "vfork" => FORKS,
        "connect" => about::CONNECT,
        "sendto" => about::SEND_TO,
        "mmap" => about::FIFTH_FD,
        "futex" | "futex_wait" | "futex_wake" => about::FUTEX,
        "wait4" => about::CHILD,
        "read" | "write" | "pread64" | "pwrite64" | "readv" | "writev" | "preadv" | "pwritev"
        | "preadv2" | "pwritev2" | "fstat" | "lseek" | "ioctl" | "fcntl" | "flock" | "fsync"
        | "fdatasync" | "ftruncate" | "getdents" | "getdents64" | "fchdir" | "fchmod"
        | "fchown" | "fstatfs" | "fallocate" | "sync_file_range" | "syncfs" | "fadvise64"
        | "readahead" | "recvfrom" | "recvmsg" | "recvmmsg" | "sendmsg" | "sendmmsg"
        | "shutdown" | "bind" | "listen" | "accept" | "accept4" | "getsockname" | "getpeername"
        | "setsockopt" | "getsockopt" | "epoll_wait" | "epoll_pwait" | "epoll_pwait2"
        | "epoll_ctl" | "timerfd_settime" | "timerfd_gettime" | "dup" | "dup2" | "dup3"
        | "sendfile" | "copy_file_range" | "splice" | "tee" | "vmsplice" | "io_uring_enter"
        | "io_uring_register" | "fgetxattr" | "fsetxattr" | "flistxattr" | "fremovexattr"
        | "inotify_add_watch" | "inotify_rm_watch" | "cachestat" => about::FD,
        "stat" | "lstat" | "access" | "chdir" | "mkdir" | "rmdir" | "unlink" | "readlink"
        | "chmod" | "chown" | "lchown" | "truncate" | "rename" | "link" | "symlink" | "statfs"
        | "utime" | "utimes" | "mknod" | "getxattr" | "lgetxattr" | "setxattr" | "lsetxattr"
        | "listxattr" | "llistxattr" | "removexattr" | "lremovexattr" | "chroot" | "umount2" => {
            about::PATH
        }
        "newfstatat" | "statx" | "faccessat" | "faccessat2" | "readlinkat" | "unlinkat"
        | "mkdirat" | "mknodat" | "fchmodat" | "fchmodat2" | "fchownat" | "renameat"
        | "renameat2" | "linkat" | "utimensat" | "futimesat" | "name_to_handle_at" => {
            about::PATH_AT
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::sampling::Subject;
    use protocol::instruments::syscall_trace::Request;

    fn class(classes: &Classes, name: &str) -> u16 {
        let call = Call::all_named(name).into_iter().find(|call| !call.is_32_bit).unwrap();
        let place = usize::try_from(call.number).unwrap() * 2;
        u16::from_ne_bytes(classes.by_number[place..place + 2].try_into().unwrap())
    }

    #[test]
    fn calls_are_told_apart_by_number() {
        let subject = Subject::host();
        let all = Request::default();
        let classes = Classes::of(&Asked::new(&all, &subject));
        assert_eq!(classes.by_number.len(), 2 * 2 * 512);
        for (name, want) in [
            ("openat", about::PATH_AT | OPENS | WANTED),
            ("read", about::FD | WAITS_BY_FD | WANTED),
            ("getpid", WANTED),
            ("clone", FORKS | WANTED),
        ] {
            assert_eq!(class(&classes, name), want, "{name}");
        }
        let some = Request { calls: vec!["openat".into()], ..Request::default() };
        let classes = Classes::of(&Asked::new(&some, &subject));
        assert_eq!(class(&classes, "read") & WANTED, 0);
        assert_eq!(class(&classes, "openat") & WANTED, WANTED);
        assert_eq!(class(&classes, TRIAL) & WANTED, WANTED);
        assert_eq!(classes.beyond, [0; 4]);
    }
}
