//! Which system calls the worker may make, and which ones no program may that it lets be started.
//!
//! The first list is what the agent makes, on both processors and with both C libraries that it is
//! built with, and no more; what is often made comes first. A new instrument may need a line here:
//! `scenarios/tests/sandbox.rs` shows the call that is missing.

use super::{Reads, filter::Rule};
use crate::bpf::Command;
use libc::c_long;

/// Calls from this number on are newer than Linux 5.8, and the same on every processor.
pub(super) const FIRST_UNKNOWN: u32 = 440;

/// Whatever may change a file by opening it. The bit of `O_TMPFILE` without that of `O_DIRECTORY`,
/// which is part of it.
const CHANGES: u32 = (libc::O_WRONLY
    | libc::O_RDWR
    | libc::O_CREAT
    | libc::O_TRUNC
    | (libc::O_TMPFILE & !libc::O_DIRECTORY))
    .unsigned_abs();

/// Namespaces of one's own: mount, cgroup, UTS, IPC, user, pid, network.
const NAMESPACES: u32 = 0x7e02_0000;

const EXECUTABLE: u32 = libc::PROT_EXEC.unsigned_abs();

/// Copies of descriptors and their flags. Not locks, leases, owners, or signals.
const FCNTL: &[u32] = &[0, 1, 2, 3, 4, 1030];

/// `TCGETS`, `TIOCGWINSZ`, `FIONBIO`, `FIOCLEX`: asking a terminal how it is set and how wide it is.
/// `PERF_EVENT_IOC_ENABLE`, `_DISABLE`, `_SET_OUTPUT` and `_SET_FILTER`: switching the agent's own events,
/// bringing what they write together, and writing less.
const IOCTL: &[u32] = &[0x5401, 0x5413, 0x5421, 0x5451, 0x2400, 0x2401, 0x2405, 0x4008_2406];

/// `PR_SET_PDEATHSIG`, `PR_GET_DUMPABLE`, `PR_SET_DUMPABLE`, `PR_SET_NAME`, `PR_GET_NAME`,
/// `PR_GET_SECCOMP`, `PR_SET_VMA` and `PR_GET_AUXV`.
const PRCTL: &[u32] = &[1, 3, 4, 15, 16, 21, 0x5356_4d41, 0x4155_5856];

/// What loading programs, letting them run and reading their maps takes, and a command that no kernel
/// knows. Nothing gets a name that stays, and nothing of others is opened, changed or taken off: for
/// neither is there a command here.
const BPF: &[u32] = Command::NUMBERS;

const TRACE_ME: u32 = 0;
const SEIZE: u32 = 0x4206;

/// What every worker may do without conditions.
const ALLOWED: &[c_long] = &[
    libc::SYS_read,
    libc::SYS_pread64,
    libc::SYS_close,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_newfstatat,
    libc::SYS_fstat,
    libc::SYS_statx,
    libc::SYS_futex,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_readv,
    libc::SYS_lseek,
    libc::SYS_ppoll,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_getcwd,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_close_range,
    libc::SYS_brk,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_rseq,
    libc::SYS_membarrier,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getcpu,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getppid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_capget,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_getrandom,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_perf_event_open,
    libc::SYS_memfd_create,
];

/// The older forms of the same, which one processor has only.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[c_long] = &[
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_poll,
    libc::SYS_pipe,
    libc::SYS_dup2,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_getrlimit,
];
#[cfg(target_arch = "aarch64")]
const ALLOWED_HERE: &[c_long] = &[libc::SYS_getrlimit];

/// The library does not have its number on both.
#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: c_long = 320;
#[cfg(target_arch = "aarch64")]
const KEXEC_FILE_LOAD: c_long = 294;

/// Calls that are refused as if the kernel did not have them, so that libraries do without: their
/// arguments are in memory, where no filter looks.
const UNKNOWN: &[c_long] = &[
    libc::SYS_openat2,
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];

/// The worker's rules, the first of a number decides.
pub(super) fn worker(own_pid: u32, reads: Reads) -> Vec<(c_long, Rule)> {
    let mut rules = vec![(libc::SYS_openat, Rule::Without(2, CHANGES))];
    if reads == Reads::Snapshot {
        rules.push((libc::SYS_openat2, Rule::Allow));
    }
    rules.extend(ALLOWED.iter().chain(ALLOWED_HERE).map(|number| (*number, Rule::Allow)));
    rules.extend(UNKNOWN.iter().map(|number| (*number, Rule::Refuse(libc::ENOSYS))));
    #[cfg(target_arch = "x86_64")]
    rules.push((libc::SYS_open, Rule::Without(1, CHANGES)));
    rules.extend([
        (libc::SYS_mmap, Rule::Without(2, EXECUTABLE)),
        (libc::SYS_mprotect, Rule::Without(2, EXECUTABLE)),
        (libc::SYS_clone, Rule::Without(0, NAMESPACES)),
        (libc::SYS_fcntl, Rule::OneOf(1, FCNTL)),
        (libc::SYS_ioctl, Rule::OneOf(1, IOCTL)),
        (libc::SYS_prctl, Rule::OneOf(0, PRCTL)),
        (libc::SYS_bpf, Rule::OneOf(0, BPF)),
        (libc::SYS_prlimit64, Rule::Null(2)),
        (libc::SYS_kill, Rule::Is(0, own_pid)),
        (libc::SYS_tgkill, Rule::Is(0, own_pid)),
        // A child lets itself be traced; to trace another process is asked for with a number that
        // none has, to see who answers.
        (libc::SYS_ptrace, Rule::NowhereOr(SEIZE, TRACE_ME)),
    ]);
    rules
}

/// What no program has to do that the spawner starts. They write to `/dev/null` and to places of
/// their own in memory, so writing is not among it.
pub(super) const REFUSED_TO_PROGRAMS: &[c_long] = &[
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_open_tree,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
];
