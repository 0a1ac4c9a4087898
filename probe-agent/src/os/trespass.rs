//! Everything that the agent may not do, tried, in a build for tests. What no filter refuses does
//! no harm either: names that do not exist, arguments that no kernel takes, a signal that is none.

#![expect(unsafe_code, reason = "what a library would do for its caller is left out on purpose")]

use super::answer::last_errno;
use std::ffi::CStr;

/// A name that nothing has, in a folder that everybody may write to.
const NAME: &CStr = c"/tmp/.sysmcp-trespass";
/// A folder that is not there.
const NOWHERE: &CStr = c"/tmp/.sysmcp-no-such/name";

/// Tries all, and gives each with its error number, 0 where it was done.
pub fn try_all() -> Vec<(&'static str, i32)> {
    let mut tried = Vec::new();
    tried.extend(files());
    tried.extend(names());
    tried.extend(processes());
    tried.extend(machine());
    tried.extend(devices());
    tried
}

/// Makes a call, and gives its error number.
macro_rules! call {
    ($number:expr $(, $argument:expr)*) => {{
        // SAFETY: pointers are null or to strings that live as long as the program; the kernel
        // writes to none of them.
        let answer = unsafe { libc::syscall($number $(, $argument)*) };
        if answer == -1 { last_errno().raw_os_error() } else { 0 }
    }};
}

fn files() -> Vec<(&'static str, i32)> {
    let open = |path: &CStr, flags: i32| call!(libc::SYS_openat, -100, path.as_ptr(), flags, 0o600);
    vec![
        ("open for writing", open(c"/dev/null", libc::O_WRONLY)),
        ("open for both", open(c"/dev/null", libc::O_RDWR)),
        ("create", open(NAME, libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC)),
        ("create for reading", open(NAME, libc::O_CREAT)),
        ("cut off by opening", open(NOWHERE, libc::O_TRUNC)),
        ("a file without a name", open(c"/tmp", libc::O_TMPFILE | libc::O_RDWR)),
        ("openat2", call!(libc::SYS_openat2, -100, NAME.as_ptr(), 0, 0)),
        ("truncate", call!(libc::SYS_truncate, NOWHERE.as_ptr(), 0)),
        ("ftruncate", call!(libc::SYS_ftruncate, -1, 0)),
        ("fallocate", call!(libc::SYS_fallocate, -1, 0, 0, 1)),
        ("sendfile", call!(libc::SYS_sendfile, -1, -1, 0, 1)),
    ]
}

fn names() -> Vec<(&'static str, i32)> {
    let (name, nowhere) = (NAME.as_ptr(), NOWHERE.as_ptr());
    vec![
        ("unlink", call!(libc::SYS_unlinkat, -100, nowhere, 0)),
        ("rename", call!(libc::SYS_renameat2, -100, nowhere, -100, nowhere, 0)),
        ("make a folder", call!(libc::SYS_mkdirat, -100, nowhere, 0o700)),
        ("make a device", call!(libc::SYS_mknodat, -100, nowhere, libc::S_IFIFO, 0)),
        ("link", call!(libc::SYS_linkat, -100, nowhere, -100, nowhere, 0)),
        ("symlink", call!(libc::SYS_symlinkat, name, -100, nowhere)),
        ("chmod", call!(libc::SYS_fchmodat, -100, nowhere, 0)),
        ("chown", call!(libc::SYS_fchownat, -100, nowhere, -1, -1, 0)),
        ("set an attribute", call!(libc::SYS_setxattr, nowhere, name, name, 1, 0)),
        ("set times", call!(libc::SYS_utimensat, -100, nowhere, 0, 0)),
    ]
}

fn processes() -> Vec<(&'static str, i32)> {
    // SAFETY: it takes nothing, and cannot fail.
    let parent = unsafe { libc::getppid() };
    let none = std::ptr::null::<u8>();
    vec![
        ("signal the parent", call!(libc::SYS_kill, parent, 0)),
        ("signal everybody", call!(libc::SYS_kill, -1, 0)),
        ("signal a thread", call!(libc::SYS_tkill, parent, 0)),
        ("signal a thread of the parent", call!(libc::SYS_tgkill, parent, parent, 0)),
        ("queue a signal", call!(libc::SYS_rt_sigqueueinfo, parent, 0, none)),
        ("signal by descriptor", call!(libc::SYS_pidfd_send_signal, -1, 0, none, 0)),
        ("exec", call!(libc::SYS_execve, NOWHERE.as_ptr(), none, none)),
        ("execveat", call!(libc::SYS_execveat, -100, NOWHERE.as_ptr(), none, none, 0)),
        ("trace the parent", call!(libc::SYS_ptrace, libc::PTRACE_SEIZE, parent, none, none)),
        ("stop the parent", call!(libc::SYS_ptrace, libc::PTRACE_ATTACH, parent, none, none)),
        ("write its memory", call!(libc::SYS_process_vm_writev, parent, none, 0, none, 0, 0)),
        (
            "another limit",
            call!(libc::SYS_prlimit64, 0, libc::RLIMIT_CORE, none.wrapping_add(1), none),
        ),
        ("another priority", call!(libc::SYS_setpriority, 0, 0, 0)),
        ("another affinity", call!(libc::SYS_sched_setaffinity, 0, 0, none)),
        ("a session of its own", call!(libc::SYS_setsid)),
        ("a namespace", call!(libc::SYS_unshare, 0x1000_0000 | 1)),
        ("enter a namespace", call!(libc::SYS_setns, -1, 0)),
        (
            "clone with a namespace",
            call!(libc::SYS_clone, 0x1000_0000_u64 | 0x1_0000, none, none, none, none),
        ),
        ("set user", call!(libc::SYS_setuid, rustix::process::geteuid().as_raw())),
        ("set groups", call!(libc::SYS_setgroups, -1, none)),
        ("set capabilities", call!(libc::SYS_capset, none, none)),
        (
            "code at run time",
            call!(libc::SYS_mmap, 0, 4096, 4, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1, 0),
        ),
        ("memory to code", call!(libc::SYS_mprotect, 0, 0, 4)),
    ]
}

fn machine() -> Vec<(&'static str, i32)> {
    let (name, nowhere) = (NAME.as_ptr(), NOWHERE.as_ptr());
    let none = std::ptr::null::<u8>();
    vec![
        ("mount", call!(libc::SYS_mount, nowhere, nowhere, name, 0, none)),
        ("unmount", call!(libc::SYS_umount2, nowhere, 0)),
        ("move a mount", call!(libc::SYS_move_mount, -1, nowhere, -1, nowhere, 0)),
        ("chroot", call!(libc::SYS_chroot, nowhere)),
        ("another root", call!(libc::SYS_pivot_root, nowhere, nowhere)),
        ("load a module", call!(libc::SYS_init_module, none, 0, none)),
        ("load a module's file", call!(libc::SYS_finit_module, -1, none, 0)),
        ("unload a module", call!(libc::SYS_delete_module, nowhere, 0)),
        ("another kernel", call!(libc::SYS_kexec_load, 0, 0, none, -1)),
        ("reboot", call!(libc::SYS_reboot, 0, 0, 0, none)),
        ("swap", call!(libc::SYS_swapon, nowhere, 0)),
        ("set the clock", call!(libc::SYS_settimeofday, none, none)),
        ("name the host", call!(libc::SYS_sethostname, name, -1)),
        ("accounting", call!(libc::SYS_acct, nowhere)),
        ("a key", call!(libc::SYS_keyctl, 0, 0, 0, 0, 0)),
        ("the kernel's log", call!(libc::SYS_syslog, 9, none, 0)),
    ]
}

fn devices() -> Vec<(&'static str, i32)> {
    let none = std::ptr::null::<u8>();
    let size = 128;
    let zeroes = [0_u8; 128];
    vec![
        ("socket", call!(libc::SYS_socket, libc::AF_INET, libc::SOCK_STREAM, 0)),
        ("local socket", call!(libc::SYS_socket, libc::AF_UNIX, libc::SOCK_STREAM, 0)),
        ("netlink", call!(libc::SYS_socket, libc::AF_NETLINK, libc::SOCK_RAW, 0)),
        ("connect", call!(libc::SYS_connect, -1, none, 0)),
        ("listen", call!(libc::SYS_listen, -1, 0)),
        ("send", call!(libc::SYS_sendto, -1, none, 0, 0, none, 0)),
        ("io_uring", call!(libc::SYS_io_uring_setup, 1, none)),
        ("pin a program", call!(libc::SYS_bpf, 6, zeroes.as_ptr(), size)),
        ("attach a program", call!(libc::SYS_bpf, 8, zeroes.as_ptr(), size)),
        ("type at a terminal", call!(libc::SYS_ioctl, -1, 0x5412, none)),
        ("signals for a file", call!(libc::SYS_fcntl, 0, libc::F_SETOWN, 0)),
        ("lock a file", call!(libc::SYS_flock, -1, 0)),
        ("watch a folder", call!(libc::SYS_fanotify_init, -1, 0)),
        ("faults by hand", call!(libc::SYS_userfaultfd, -1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the sandbox the kernel has other answers: so a refusal is the sandbox's.
    #[test]
    fn without_a_sandbox_it_is_the_kernel_that_answers() {
        for (act, errno) in names() {
            assert_eq!(errno, libc::ENOENT, "{act}");
        }
        if rustix::process::geteuid().is_root() {
            let all = machine();
            let refused = all.iter().filter(|(_, errno)| *errno == libc::EPERM).count();
            assert!(refused * 4 < all.len(), "{all:?}");
        }
        assert!(!std::path::Path::new("/tmp/.sysmcp-trespass").exists());
    }
}
