//! Places where a session could put its file, and what is wrong with them.
//!
//! The login is an ordinary user's. Where nothing else is said, each place is a file system of its own,
//! and everybody may write there.

use super::{
    Host, Outcome,
    site::{NEEDS_SUDO, Site},
};
use anyhow::Result;
use std::{fs, path::Path, process::Command};

/// In the order of the page.
pub const HOSTS: &[Host] = &[
    Host::in_full("/dev/shm is mounted noexec", || each("/dev/shm", "noexec")),
    Host::in_full("/tmp is mounted noexec", || each("/tmp", "noexec")),
    Host::in_full("/var/tmp is mounted noexec", || each("/var/tmp", "noexec")),
    Host::in_full("the home is mounted noexec", || each(HOME, "noexec")),
    Host::in_full("/run is mounted noexec", || each("/run", "noexec")),
    Host::in_full("every place but the home is mounted noexec", || each(ALL_BUT_HOME, "noexec")),
    Host::in_full("every place but XDG_RUNTIME_DIR is mounted noexec", || {
        let first = format!(
            "mkdir /mnt/session; chown 1000 /mnt/session; chmod 700 /mnt/session; {}",
            remount(ALL, "noexec")
        );
        let (files, variables) = (SESSION_VARIABLE, IN_SESSION);
        Site { first: &first, files, variables, ..Site::USUAL }.ask()
    }),
    Host::sampled("every place is mounted noexec", || each(ALL, "noexec")),
    Host::sampled("every place is mounted noexec, with --in-memory", || in_memory(&[])),
    Host::in_full("the same without perl", || in_memory(&[PERL])),
    Host::in_full("the same without python3", || in_memory(&[PYTHON])),
    Host::sampled("the same without python3 and perl", || in_memory(&[PYTHON, PERL])),
    Host::in_full(
        "every place is mounted noexec, and vm.memfd_noexec is 1, with --in-memory",
        || memfd_noexec(1),
    ),
    Host::sampled(
        "every place is mounted noexec, and vm.memfd_noexec is 2, with --in-memory",
        || memfd_noexec(2),
    ),
    Host::sampled("a read-only root, and 8 MB in /dev/shm", || {
        let shm = over("/dev/shm", "size=8m");
        made(&format!("{shm}; {}; mount -o remount,bind,ro /", remount(ALL_BUT_SHM, "ro")))
    }),
    Host::in_full("a read-only root and nothing else", || each(ALL, "ro")),
    Host::in_full("a read-only root and nothing else, with --in-memory", || {
        let first = remount(ALL, "ro");
        Site { first: &first, words: IN_MEMORY, ..Site::USUAL }.ask()
    }),
    Host::sampled("every place is full", || made(&full(ALL))),
    Host::in_full("every place is full or mounted noexec, with --in-memory", || {
        let first = format!("{}; {}", full("/tmp"), remount(ALL_BUT_TMP, "noexec"));
        Site { first: &first, words: IN_MEMORY, ..Site::USUAL }.ask()
    }),
    Host::in_full("every place is full but one", || made(&full(ALL_BUT_HOME))),
    Host::in_full("every place has less room than the agent takes", || {
        made(&over(ALL, "size=400k"))
    }),
    Host::sampled("no place has an inode left", || {
        let fill = "i=0; while touch $place/$i 2>&-; do i=$((i+1)); done";
        made(&format!("{}; for place in {ALL}; do {fill}; done", over(ALL, "nr_inodes=30")))
    }),
    Host::in_full("no place has more than one inode left", || {
        let fill = "i=0; while touch $place/$i 2>&-; do i=$((i+1)); done; rm $place/0";
        made(&format!("{}; for place in {ALL}; do {fill}; done", over(ALL, "nr_inodes=30")))
    }),
    Host::sampled("a quota is used up (btrfs qgroup)", btrfs_quota),
    Host::in_full("no place is writable for the user", || {
        made(&format!("for place in {ALL}; do chown root: $place; chmod 755 $place; done"))
    }),
    Host::in_full("a security module forbids running files (Landlock)", landlock),
    Host::in_full("XDG_RUNTIME_DIR is no folder, and the rest is mounted noexec", || {
        session_variable("/gone")
    }),
    Host::in_full("XDG_RUNTIME_DIR is a relative path, and the rest is mounted noexec", || {
        session_variable("run/user")
    }),
    Host::in_full("XDG_RUNTIME_DIR is another user's, where everybody may write", || {
        let first = "mkdir /mnt/session; chown 4242 /mnt/session; chmod 777 /mnt/session";
        let (files, variables) = (SESSION_VARIABLE, IN_SESSION);
        Site { first, files, variables, ..Site::USUAL }.ask()
    }),
    Host::in_full("XDG_RUNTIME_DIR is another user's, and not for this one", || {
        let first = "mkdir /mnt/session; chown 4242 /mnt/session; chmod 700 /mnt/session";
        let (files, variables) = (SESSION_VARIABLE, IN_SESSION);
        Site { first, files, variables, ..Site::USUAL }.ask()
    }),
    Host::in_full("the home's name has blanks in it", || {
        let first = format!("mkdir '/mnt/a b'; chown 1000 '/mnt/a b'; {}", remount(ALL, "noexec"));
        let variables = &[("HOME", "/mnt/a b")];
        Site { first: &first, home: Some("/mnt/a b"), variables, ..Site::USUAL }.ask()
    }),
    Host::sampled(
        "another user exchanges what is put into a place that all may write to",
        exchanged,
    ),
    Host::sampled("the login sees no /proc", || {
        as_root_first("umount -l /proc; umount -l /proc; true", "", &[])
    }),
    Host::in_full("/proc shows each user's own processes only (hidepid)", || {
        made("mount -o remount,hidepid=2 /proc")
    }),
    Host::in_full("each session has a /tmp of its own, and the rest is mounted noexec", || {
        let first = format!("mkdir -m 777 /mnt/instance; {}", remount(ALL_BUT_TMP, "noexec"));
        // The second way finds the folder that is /tmp to the session.
        as_root_first(
            "mount --bind /mnt/instance /tmp",
            &first,
            &[("XDG_RUNTIME_DIR", "/mnt/instance")],
        )
    }),
];

const HOME: &str = "/mnt/home";
const ALL: &str = "/dev/shm /tmp /var/tmp /mnt/home /run";
const ALL_BUT_HOME: &str = "/dev/shm /tmp /var/tmp /run";
const ALL_BUT_SHM: &str = "/tmp /var/tmp /mnt/home /run";
const ALL_BUT_TMP: &str = "/dev/shm /var/tmp /mnt/home /run";

const IN_MEMORY: &[&str] = &["--in-memory"];
const PYTHON: &str = "/usr/bin/python3";
const PERL: &str = "/usr/bin/perl";

/// A folder for the session, and where the second way finds it.
const SESSION_VARIABLE: &[(&str, &[u8])] = &[(".bashrc", b"export XDG_RUNTIME_DIR=/mnt/session\n")];
const IN_SESSION: &[(&str, &str)] = &[("XDG_RUNTIME_DIR", "/mnt/session")];

/// A host with places that root makes first.
fn made(first: &str) -> Result<Outcome> {
    Site { first, ..Site::USUAL }.ask()
}

/// A host with some places mounted in another way.
fn each(places: &str, options: &str) -> Result<Outcome> {
    made(&remount(places, options))
}

/// The commands that mount places in another way, with what is in them.
fn remount(places: &str, options: &str) -> String {
    format!(
        "for place in {places}; do mount --bind $place $place; \
         mount -o remount,bind,{options} $place; done"
    )
}

/// The commands that put file systems of their own over places, with what is in them.
fn over(places: &str, options: &str) -> String {
    format!(
        "for place in {places}; do mkdir /mnt/kept; cp -a $place/. /mnt/kept; \
         mount -t tmpfs -o mode=1777,{options} tmpfs $place; cp -a /mnt/kept/. $place; \
         rm -r /mnt/kept; done"
    )
}

/// The commands that fill places.
fn full(places: &str) -> String {
    let fill = "head -c 9999999 /dev/zero > $place/filler 2>&- || :";
    format!("{}; for place in {places}; do {fill}; done", over(places, "size=64k"))
}

fn in_memory(without: &[&'static str]) -> Result<Outcome> {
    let first = remount(ALL, "noexec");
    Site { first: &first, without, words: IN_MEMORY, ..Site::USUAL }.ask()
}

/// A setting of the server's own process namespace, since Linux 6.3
/// (`Documentation/admin-guide/sysctl/vm.rst`).
fn memfd_noexec(value: u8) -> Result<Outcome> {
    if !Path::new("/proc/sys/vm/memfd_noexec").exists() {
        return Ok(Outcome::NotHere("a kernel with vm.memfd_noexec: 6.3".to_owned()));
    }
    let set = format!("echo {value} > /proc/sys/vm/memfd_noexec");
    let first = format!("{set}; {}", remount(ALL, "noexec"));
    Site { first: &first, words: IN_MEMORY, ..Site::USUAL }.ask()
}

fn session_variable(value: &str) -> Result<Outcome> {
    let text = format!("export XDG_RUNTIME_DIR={value}\n");
    let first = remount(ALL, "noexec");
    Site { first: &first, files: &[(".bashrc", text.as_bytes())], ..Site::USUAL }.ask()
}

/// A host where root does something for each login, which then goes on as the user.
fn as_root_first(
    command: &str,
    first: &str,
    variables: &[(&'static str, &'static str)],
) -> Result<Outcome> {
    let line = format!(
        "ForceCommand exec sudo -n unshare --mount /bin/sh -c '{command} && exec setpriv \
         --reuid=1000 --regid=1000 --clear-groups /bin/sh -c \"$0\"' \"$SSH_ORIGINAL_COMMAND\""
    );
    Site {
        needs: NEEDS_SUDO,
        etc: &[("sudoers", "deploy ALL=(root) NOPASSWD: ALL\n")],
        lines: &[&line],
        first,
        variables,
        ..Site::USUAL
    }
    .ask()
}

/// All places are of one subvolume that may hold no more than is in it.
fn btrfs_quota() -> Result<Outcome> {
    let known = fs::read_to_string("/proc/filesystems")?;
    if !known.lines().any(|line| line.trim() == "btrfs") {
        return Ok(Outcome::NotHere("a kernel with btrfs".to_owned()));
    }
    let first = format!(
        "truncate -s 200M /mnt/image; mkfs.btrfs -q /mnt/image; mkdir /mnt/btrfs; \
         mount -o loop /mnt/image /mnt/btrfs; btrfs quota enable /mnt/btrfs; \
         btrfs subvolume create /mnt/btrfs/own >/dev/null; \
         for place in {ALL}; do mkdir -p /mnt/btrfs/own$place; chmod 1777 /mnt/btrfs/own$place; \
         cp -a $place/. /mnt/btrfs/own$place; mount --bind /mnt/btrfs/own$place $place; done; \
         sync; btrfs qgroup limit 600K /mnt/btrfs/own"
    );
    let needs = &[("/usr/sbin/mkfs.btrfs", "btrfs-progs")];
    Site { first: &first, needs, ..Site::USUAL }.ask()
}

/// Lets whoever it becomes run files of the system's folders only
/// (`Documentation/userspace-api/landlock.rst`; the calls have the same numbers everywhere).
const LANDLOCK: &str = r#"
import ctypes, os, struct, sys
call = ctypes.CDLL(None, use_errno=True).syscall
EXECUTE = 1
rules = struct.pack("Q", EXECUTE)
ruleset = call(444, rules, len(rules), 0)
assert ruleset >= 0, "landlock_create_ruleset"
for path in ["/usr", "/bin", "/sbin", "/lib", "/lib64"]:
    if os.path.exists(path):
        folder = os.open(path, os.O_PATH)
        rule = struct.pack("=Qi", EXECUTE, folder)
        assert call(445, ruleset, 1, rule, 0) == 0, "landlock_add_rule"
assert call(157, 38, 1, 0, 0, 0) == 0 if os.uname().machine == "x86_64" else call(167, 38, 1, 0, 0, 0) == 0
assert call(446, ruleset, 0) == 0, "landlock_restrict_self"
os.execv("/bin/sh", ["sh", "-c", sys.argv[1]])
"#;

fn landlock() -> Result<Outcome> {
    let asks = "import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(444, None, 0, 1) < 1)";
    let is_there = Command::new("python3").args(["-c", asks]).status();
    if !is_there.is_ok_and(|status| status.success()) {
        return Ok(Outcome::NotHere("a kernel with Landlock".to_owned()));
    }
    Site {
        needs: &[(PYTHON, "python3-venv")],
        files: &[("landlock.py", LANDLOCK.as_bytes())],
        lines: &["ForceCommand exec python3 /mnt/home/landlock.py \"$SSH_ORIGINAL_COMMAND\""],
        ..Site::USUAL
    }
    .ask()
}

/// What another user does there: puts a folder with a program, or a link to a folder of the victim's,
/// in the place of each folder of a session, and takes it away again. What must not happen leaves a
/// file that the second way finds.
const EXCHANGES: &str = r##"
import os, shutil, time
place = "/dev/shm/"
turn = 0
while True:
    for name in [name for name in os.listdir(place) if len(name) == 40]:
        path = place + name
        try:
            os.rename(path, place + "moved")
            turn += 1
            if turn % 2:
                os.mkdir(path)
                os.chmod(path, 0o777)
                with open(path + "/a", "w") as program:
                    program.write("#!/bin/sh\ntouch /dev/shm/.sysmcp-it-ran\n")
                os.chmod(path + "/a", 0o777)
            else:
                os.symlink("/mnt/home", path)
            time.sleep(0.3)
        except OSError:
            pass
        for left in [path, place + "moved"]:
            try:
                os.unlink(left)
            except OSError:
                shutil.rmtree(left, ignore_errors=True)
        if not os.path.exists("/mnt/home/a"):
            open(place + ".sysmcp-lost", "w").close()
"##;

fn exchanged() -> Result<Outcome> {
    // It passes for the server's own to the look for strangers.
    let first = "mount -t tmpfs -o mode=777 tmpfs /dev/shm; \
                 setpriv --reuid=4242 --regid=4242 --clear-groups bash -c \
                 'exec -a \"sshd: another user\" python3 /mnt/home/exchanges.py' &";
    Site {
        needs: &[(PYTHON, "python3-venv")],
        files: &[("exchanges.py", EXCHANGES.as_bytes()), ("a", b"the victim's")],
        first,
        ..Site::USUAL
    }
    .ask()
}
