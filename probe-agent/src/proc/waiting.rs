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
    (stack_pointer >= LIMIT_OF_32_BIT).then_some(SyscallLine::In(InSyscall { number, arguments }))
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
    match (by_channel, by_syscall) {
        // The arguments tell a contended lock from a condition variable; the function does not.
        (Some(WaitKind::Futex), Some(kind)) | (None, Some(kind)) | (Some(kind), None | Some(_)) => {
            kind
        }
        // A reader without permission has only the state, and a wait that ended between two reads
        // left only that. This state is mostly storage; what it is not has a name where one may
        // look.
        (None, None) if state == State::UninterruptibleSleep => WaitKind::Storage,
        (None, None) => WaitKind::Other,
    }
}

/// Families of kernel functions, by how their names begin.
const CHANNELS: [(WaitKind, &[&str]); 9] = [
    (WaitKind::Futex, &["futex_"]),
    (
        WaitKind::Poll,
        &["poll_schedule", "do_epoll", "ep_poll", "do_select", "do_sys_poll", "io_cqring_wait"],
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
            "read_events",
            "do_io_getevents",
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

/// The value by which glibc, Rust's standard library and Go mark a lock that others wait for.
/// A condition variable waits with a sequence number there.
const CONTENDED: u64 = 2;

/// `FUTEX_CMD_MASK` in `include/uapi/linux/futex.h`.
const FUTEX_COMMAND: u64 = 0x7f;
const FUTEX_WAIT: u64 = 0;
const FUTEX_LOCK_PI: u64 = 6;
const FUTEX_WAIT_BITSET: u64 = 9;
const FUTEX_LOCK_PI2: u64 = 13;

fn kind_of_syscall(call: InSyscall) -> Option<WaitKind> {
    let name = call.number.name();
    Some(match name {
        "futex" => {
            let [_, operation, value, ..] = call.arguments;
            match operation & FUTEX_COMMAND {
                FUTEX_WAIT | FUTEX_WAIT_BITSET if value == CONTENDED => WaitKind::Lock,
                FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => WaitKind::Lock,
                _ => WaitKind::Futex,
            }
        }
        "fsync" | "fdatasync" | "sync" | "syncfs" | "sync_file_range" | "msync" | "pread64"
        | "pwrite64" | "preadv" | "pwritev" | "preadv2" | "pwritev2" | "io_getevents"
        | "io_pgetevents" | "fallocate" | "ftruncate" | "truncate" | "getdents64" | "open"
        | "openat" | "openat2" | "unlink" | "unlinkat" | "rename" | "renameat" | "renameat2"
        | "mkdir" | "mkdirat" | "copy_file_range" => WaitKind::Storage,
        "flock" | "fcntl" | "semop" | "semtimedop" => WaitKind::Lock,
        "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" | "io_uring_enter" => WaitKind::Poll,
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

    fn futex(operation: u64, value: u64) -> SyscallLine {
        let arguments = [0x7f00_0000_0000, operation, value, 0, 0, 0];
        SyscallLine::In(InSyscall { number: Sysno::futex, arguments })
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
        SyscallLine::In(InSyscall { number, arguments: [0; 6] })
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
            ("contended mutex", sleeping, Some("futex_do_wait"), futex(128, 2), WaitKind::Lock),
            ("condition", sleeping, Some("futex_do_wait"), futex(0x189, 0), WaitKind::Futex),
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
