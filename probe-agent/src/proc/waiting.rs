//! What a blocked thread waits for.
//!
//! Sources: `/proc/PID/task/TID/wchan` (the kernel function it waits in; `0` while it runs, and
//! also for a reader without permission) and `/proc/PID/task/TID/syscall` (the system call with
//! its arguments; Linux 2.6.27, `CONFIG_HAVE_ARCH_TRACEHOOK`).
//! Kernel reference: `fs/proc/base.c`, `lib/syscall.c`.
//!
//! Names of kernel functions change between releases (`futex_wait_queue_me`, `futex_wait_queue`,
//! `futex_do_wait`), so families are matched; a system call's number is stable.

use super::parse::fields;
use protocol::instruments::{process_inspect::WaitKind, process_list::State};
use syscalls::Sysno;

/// The system call that a thread is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InSyscall {
    /// Which one.
    pub number: Sysno,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// Where its stack ends.
    pub stack_pointer: u64,
}

/// What `/proc/PID/task/TID/syscall` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyscallLine {
    /// On a processor, or runnable.
    Running,
    /// Blocked, but not in a system call: in a page fault, for one.
    Outside,
    /// In a system call.
    In(InSyscall),
    /// Not a number of this architecture, or of a 32-bit program, whose numbers are others.
    Unknown,
}

/// Stack pointers below this are of 32-bit programs.
const LIMIT_OF_32_BIT: u64 = 1 << 32;

/// Parses the line.
pub fn parse_syscall(text: &[u8]) -> SyscallLine {
    let mut values = fields(text.trim_ascii());
    match values.next() {
        Some(b"running") => SyscallLine::Running,
        Some(b"-1") => SyscallLine::Outside,
        Some(number) => parse_call(number, values).unwrap_or(SyscallLine::Unknown),
        None => SyscallLine::Unknown,
    }
}

fn parse_call<'t>(
    number: &[u8],
    mut values: impl Iterator<Item = &'t [u8]>,
) -> Option<SyscallLine> {
    let number = usize::try_from(super::parse::number(number, 1).ok()?).ok()?;
    let number = Sysno::new(number)?;
    let mut arguments = [0; 6];
    for place in &mut arguments {
        *place = hexadecimal(values.next()?)?;
    }
    let stack_pointer = hexadecimal(values.next()?)?;
    let call = InSyscall { number, arguments, stack_pointer };
    (stack_pointer >= LIMIT_OF_32_BIT).then_some(SyscallLine::In(call))
}

fn hexadecimal(field: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(field.strip_prefix(b"0x")?).ok()?;
    u64::from_str_radix(digits, 16).ok()
}

/// Tells what kind of thing a thread waits for.
pub fn kind(state: State, channel: Option<&[u8]>, syscall: SyscallLine) -> WaitKind {
    match state {
        State::Running => return WaitKind::Running,
        State::Stopped | State::Traced => return WaitKind::Stopped,
        State::Sleeping | State::UninterruptibleSleep => {}
        State::Zombie | State::Idle | State::Dead | State::Other => return WaitKind::Other,
    }
    let by_channel = channel.and_then(kind_of_channel);
    let by_syscall = match syscall {
        SyscallLine::In(call) => kind_of_syscall(call),
        SyscallLine::Outside => Some(WaitKind::Memory),
        SyscallLine::Running | SyscallLine::Unknown => None,
    };
    let found = match (by_channel, by_syscall) {
        // The arguments tell a contended lock from a condition variable; the function does not.
        (Some(WaitKind::Futex), Some(kind)) | (None, Some(kind)) | (Some(kind), None | Some(_)) => {
            Some(kind)
        }
        (None, None) => None,
    };
    let is_deaf = state == State::UninterruptibleSleep;
    match found {
        // Whoever waits for storage cannot be woken by a signal, but for one that waits for a file
        // system in user space. A thread in such a function that can be is one that waits for work.
        Some(WaitKind::Storage) if !is_deaf && channel != Some(USER_SPACE_STORAGE) => {
            WaitKind::Other
        }
        Some(kind) => kind,
        // A reader without permission has only the state, and a wait that ended between two reads
        // left only that. This state is mostly storage; what it is not has a name where one may
        // look.
        None if is_deaf => WaitKind::Storage,
        None => WaitKind::Other,
    }
}

/// Where a thread waits for the answer of a file system in user space (`fs/fuse/dev.c`).
const USER_SPACE_STORAGE: &[u8] = b"request_wait_answer";

/// Families of kernel functions, by how their names begin.
const CHANNELS: [(WaitKind, &[&str]); 10] = [
    (WaitKind::Futex, &["futex_"]),
    (WaitKind::Completions, &["read_events", "do_io_getevents", "io_cqring_wait"]),
    (
        WaitKind::Poll,
        // The last is the daemon of a file system in user space that nobody asks anything.
        &["poll_schedule", "do_epoll", "ep_poll", "do_select", "do_sys_poll", "fuse_dev_"],
    ),
    (
        WaitKind::Storage,
        &[
            "io_schedule",
            "folio_wait",
            "wait_on_page",
            "__wait_on_buffer",
            "wait_on_buffer",
            "jbd2_",
            "do_get_write_access",
            "start_this_handle",
            "add_transaction_credits",
            "blk_",
            "submit_bio",
            "bio_",
            "__iomap",
            "iomap_",
            "rq_qos",
            "wbt_wait",
            "balance_dirty",
            "__blkdev",
            "blkdev_",
            "sync_inode",
            "wb_wait",
            "writeback",
            "ext4_",
            "xfs_",
            "xlog_",
            "btrfs_",
            "wait_current_trans",
            "f2fs_",
            "nfs_",
            "rpc_wait",
            "cifs_",
            "wait_for_response",
            "fuse_",
            "request_wait_answer",
            "nvme_",
            "dm_",
            "md_",
            "raid",
            "zil_",
            "txg_wait",
            "aio_",
            "percpu_rwsem_wait",
        ],
    ),
    (
        WaitKind::Memory,
        &[
            "shrink_",
            "try_to_free",
            "mem_cgroup",
            "throttle_direct",
            "congestion_wait",
            "reclaim_",
            "migration_entry",
            "__migration",
            "userfaultfd",
            "handle_userfault",
            "swap_",
            "compact_",
        ],
    ),
    (
        WaitKind::Lock,
        &[
            "locks_lock",
            "flock_lock",
            "fcntl_setlk",
            "do_lock_file_wait",
            "posix_lock",
            "do_semtimedop",
        ],
    ),
    (
        WaitKind::KernelLock,
        &[
            "rwsem_",
            "__rwsem",
            "down_",
            "__down",
            "mutex_",
            "__mutex",
            "rt_mutex",
            "lock_page",
            "synchronize_",
        ],
    ),
    (
        WaitKind::Socket,
        &[
            "wait_woken",
            "sk_wait",
            "sk_stream",
            "inet_csk",
            "tcp_",
            "unix_",
            "__skb_wait",
            "skb_wait",
            "__skb_recv",
            "netlink_",
            "packet_recv",
            "vsock_",
            "inet_stream",
        ],
    ),
    (WaitKind::Pipe, &["pipe_", "anon_pipe", "wait_for_partner", "n_tty", "tty_", "fifo_"]),
    (WaitKind::Timer, &["hrtimer_nanosleep", "do_nanosleep", "common_nsleep", "clock_nanosleep"]),
];

const LATER_CHANNELS: [(WaitKind, &[&str]); 2] = [
    (WaitKind::Child, &["do_wait", "kernel_clone", "_do_fork", "kernel_wait", "do_waitid"]),
    (WaitKind::Stopped, &["do_signal_stop", "ptrace_stop", "do_freezer_trap", "__refrigerator"]),
];

fn kind_of_channel(channel: &[u8]) -> Option<WaitKind> {
    let name = std::str::from_utf8(channel).ok()?;
    CHANNELS
        .iter()
        .chain(&LATER_CHANNELS)
        .find(|(_, starts)| starts.iter().any(|start| name.starts_with(start)))
        .map(|(kind, _)| *kind)
}

/// `FUTEX_CMD_MASK` in `include/uapi/linux/futex.h`.
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_LOCK_PI2: u64 = 13;
const FUTEX_CLOCK_REALTIME: u64 = 0x100;

/// The value by which glibc, Rust's standard library and Go mark a lock that others wait for.
const CONTENDED: u64 = 2;

/// The bit by which musl marks one; the rest is the owner, or a number as small.
const CONTENDED_IN_MUSL: u64 = 1 << 31;
const OWNERS_IN_MUSL: std::ops::RangeInclusive<u64> = 1..=4_194_304;

/// How far above the end of its stack musl's `pthread_cond_wait` has the word that it waits on.
const OWN_FRAMES: std::ops::Range<u64> = 0..1024;

/// Whether the word that a futex call waits on is a lock that another thread holds.
///
/// Only the C library knows what its word means, and the call tells libraries apart. A condition
/// variable waits for a number to change that may be any: glibc's with the wall clock's flag or
/// with a time limit, musl's on a word in its own frames.
fn is_lock(call: InSyscall) -> bool {
    let [word, operation, value, time_limit, ..] = call.arguments;
    let is_own_word =
        word.checked_sub(call.stack_pointer).is_some_and(|distance| OWN_FRAMES.contains(&distance));
    let value = value & u64::from(u32::MAX);
    match operation & FUTEX_COMMAND {
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => true,
        FUTEX_WAIT if is_own_word => false,
        FUTEX_WAIT => {
            value == CONTENDED
                || value
                    .checked_sub(CONTENDED_IN_MUSL)
                    .is_some_and(|owner| OWNERS_IN_MUSL.contains(&owner))
        }
        FUTEX_WAIT_BITSET => {
            value == CONTENDED && operation & FUTEX_CLOCK_REALTIME == 0 && time_limit == 0
        }
        _ => false,
    }
}

fn kind_of_syscall(call: InSyscall) -> Option<WaitKind> {
    let name = call.number.name();
    Some(match name {
        "futex" if is_lock(call) => WaitKind::Lock,
        "futex" => WaitKind::Futex,
        "io_getevents" | "io_pgetevents" | "io_uring_enter" => WaitKind::Completions,
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" | "pread64"
        | "pwrite64" | "preadv" | "pwritev" | "preadv2" | "pwritev2" | "fallocate"
        | "ftruncate" | "truncate" | "getdents64" | "open" | "openat" | "openat2" | "unlink"
        | "unlinkat" | "rename" | "renameat" | "renameat2" | "mkdir" | "mkdirat"
        | "copy_file_range" => WaitKind::Storage,
        "flock" | "fcntl" | "semop" | "semtimedop" => WaitKind::Lock,
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" => WaitKind::Poll,
        "connect" | "accept" | "accept4" | "recvfrom" | "recvmsg" | "recvmmsg" | "sendto"
        | "sendmsg" | "sendmmsg" => WaitKind::Socket,
        "nanosleep" | "clock_nanosleep" | "pause" | "rt_sigtimedwait" | "rt_sigsuspend" => {
            WaitKind::Timer
        }
        "wait4" | "waitid" | "vfork" => WaitKind::Child,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STACK: u64 = 0x7ffe_0000_0000;

    fn futex(operation: u64, value: u64) -> SyscallLine {
        futex_at(0x7f00_0000_0000, operation, value, 0)
    }

    fn futex_at(word: u64, operation: u64, value: u64, time_limit: u64) -> SyscallLine {
        let arguments = [word, operation, value, time_limit, 0, 0];
        SyscallLine::In(InSyscall { number: Sysno::futex, arguments, stack_pointer: STACK })
    }

    #[test]
    fn syscall_lines() {
        assert_eq!(parse_syscall(b"running\n"), SyscallLine::Running);
        assert_eq!(parse_syscall(b"-1 0x7fff0000 0x7f0000\n"), SyscallLine::Outside);
        assert_eq!(parse_syscall(b""), SyscallLine::Unknown);
        assert_eq!(
            parse_syscall(b"99999 0x0 0x0 0x0 0x0 0x0 0x0 0x7fff00000000 0x0\n"),
            SyscallLine::Unknown
        );
        let number = Sysno::fsync as u32;
        let line = |stack: &str| format!("{number} 0x3 0x0 0x0 0x0 0x0 0x0 {stack} 0x7f\n");
        let SyscallLine::In(call) = parse_syscall(line("0x7fff12345678").as_bytes()) else {
            panic!("not read");
        };
        assert_eq!((call.number, call.arguments[0]), (Sysno::fsync, 3));
        // A 32-bit program: the number means another call.
        assert_eq!(parse_syscall(line("0xffffd000").as_bytes()), SyscallLine::Unknown);
    }

    fn syscall(number: Sysno) -> SyscallLine {
        SyscallLine::In(InSyscall { number, arguments: [0; 6], stack_pointer: STACK })
    }

    type Case<'c> = (&'c str, State, Option<&'c str>, SyscallLine, WaitKind);

    fn check(cases: &[Case<'_>]) {
        for (name, state, channel, syscall, want) in cases {
            assert_eq!(kind(*state, channel.map(str::as_bytes), *syscall), *want, "{name}");
        }
    }

    #[test]
    fn kinds_by_what_is_known() {
        let (sleeping, deaf) = (State::Sleeping, State::UninterruptibleSleep);
        let (fsync, read) = (syscall(Sysno::fsync), syscall(Sysno::read));
        check(&[
            ("running", State::Running, None, fsync, WaitKind::Running),
            ("journal", deaf, Some("jbd2_log_wait_commit"), fsync, WaitKind::Storage),
            ("socket", sleeping, Some("wait_woken"), read, WaitKind::Socket),
            ("pipe", sleeping, Some("anon_pipe_read"), read, WaitKind::Pipe),
            (
                "fault that reads a file",
                deaf,
                Some("folio_wait_bit_common"),
                SyscallLine::Outside,
                WaitKind::Storage,
            ),
        ]);
    }

    /// The calls as real programs made them.
    #[test]
    fn a_contended_lock_is_told_from_what_else_waits_on_a_futex() {
        let own = STACK + 0x60;
        let musl = CONTENDED_IN_MUSL;
        let cases = [
            ("glibc mutex", futex(0x80, 2), WaitKind::Lock),
            ("glibc mutex between processes", futex(0, 2), WaitKind::Lock),
            ("glibc mutex that inherits priority", futex(0x86, 0), WaitKind::Lock),
            ("glibc condition variable", futex(0x189, 0), WaitKind::Futex),
            ("its number is 2", futex(0x189, 2), WaitKind::Futex),
            ("by another clock", futex_at(1 << 32, 0x89, 2, own), WaitKind::Futex),
            ("glibc semaphore", futex(0x189, 0), WaitKind::Futex),
            ("Rust mutex", futex(0x89, 2), WaitKind::Lock),
            ("Rust condition variable", futex(0x89, 7), WaitKind::Futex),
            ("Rust park", futex(0x89, 0xffff_ffff), WaitKind::Futex),
            ("musl mutex", futex(0x80, musl | 16), WaitKind::Lock),
            ("musl recursive mutex", futex(0x80, musl | 4711), WaitKind::Lock),
            ("sign-extended", futex(0x80, 0xffff_ffff_8000_0010), WaitKind::Lock),
            ("musl condition variable", futex_at(own, 0x80, 2, 0), WaitKind::Futex),
            ("Go lock", futex(0x80, 2), WaitKind::Lock),
            ("Go idle thread", futex(0x80, 0), WaitKind::Futex),
            ("no owner at all", futex(0x80, 0xffff_ffff), WaitKind::Futex),
        ];
        for (name, call, want) in cases {
            let found = kind(State::Sleeping, Some(b"futex_do_wait"), call);
            assert_eq!(found, want, "{name}");
        }
    }

    #[test]
    fn one_who_waits_for_work_does_not_wait_for_storage() {
        let (sleeping, deaf) = (State::Sleeping, State::UninterruptibleSleep);
        let (unknown, read) = (SyscallLine::Unknown, syscall(Sysno::read));
        let aio = syscall(Sysno::io_getevents);
        check(&[
            ("asynchronous", sleeping, Some("read_events"), aio, WaitKind::Completions),
            ("io_uring", sleeping, Some("io_cqring_wait"), unknown, WaitKind::Completions),
            ("idle daemon of fuse", sleeping, Some("fuse_dev_do_read"), read, WaitKind::Poll),
            ("its client", sleeping, Some("request_wait_answer"), read, WaitKind::Storage),
            ("idle raid thread", sleeping, Some("md_thread"), unknown, WaitKind::Other),
            ("busy raid thread", deaf, Some("md_super_wait"), unknown, WaitKind::Storage),
            ("opens a pipe", sleeping, None, syscall(Sysno::openat), WaitKind::Other),
        ]);
    }

    #[test]
    fn kinds_when_little_is_known() {
        let (sleeping, deaf) = (State::Sleeping, State::UninterruptibleSleep);
        let unknown = SyscallLine::Unknown;
        check(&[
            ("no function", deaf, None, syscall(Sysno::fsync), WaitKind::Storage),
            ("no call", sleeping, Some("futex_wait_queue_me"), unknown, WaitKind::Futex),
            (
                "a suffix",
                sleeping,
                Some("poll_schedule_timeout.constprop.0"),
                unknown,
                WaitKind::Poll,
            ),
            ("vfork", deaf, Some("kernel_clone"), unknown, WaitKind::Child),
            ("page fault", deaf, None, SyscallLine::Outside, WaitKind::Memory),
            ("only the state", deaf, None, unknown, WaitKind::Storage),
            ("nothing", sleeping, None, unknown, WaitKind::Other),
        ]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_line(text in prop::collection::vec(any::<u8>(), 0..200)) {
            parse_syscall(&text);
            kind_of_channel(&text);
        }
    }
}
