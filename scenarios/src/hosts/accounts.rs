//! Accounts: what a user has, lacks and may do.

use super::{
    Host, Outcome,
    site::{NEEDS_SUDO, Site, rc},
};
use crate::servers::PASSWORD;
use anyhow::Result;

/// In the order of the page.
pub const HOSTS: &[Host] = &[
    Host::sampled("umask 000", || rc(b"umask 000")),
    Host::sampled("umask 077", || rc(b"umask 077")),
    Host::in_full("umask 777", || rc(b"umask 777")),
    Host::sampled("HOME is missing", || Site { home: Some("/nonexistent"), ..Site::USUAL }.ask()),
    Host::in_full("HOME is no folder", || Site { home: Some("/etc/passwd"), ..Site::USUAL }.ask()),
    Host::in_full("HOME is not writable", || {
        Site { first: "chown root: /mnt/home; chmod 755 /mnt/home", ..Site::USUAL }.ask()
    }),
    Host::in_full("the user's number has no name", nameless),
    Host::sampled("--sudo, and neither sudo nor doas is there", || {
        Site { words: SUDO, without: &["/usr/bin/sudo", "/usr/bin/doas"], ..Site::USUAL }.ask()
    }),
    Host::sampled("--sudo, and sudo wants no password", || sudo(NO_PASSWORD)),
    Host::in_full("--sudo, sudo wants a password, and there is no terminal", || {
        sudo("deploy ALL=(root) ALL\n")
    }),
    Host::in_full("--sudo, and sudo wants a password, which is typed at a terminal", || {
        let answers = [("password for sudo on", PASSWORD)];
        let etc: &[(&str, &str)] = &[("sudoers", "Defaults !lecture\ndeploy ALL=(root) ALL\n")];
        let site = Site { etc, needs: NEEDS_SUDO, words: SUDO, ..Site::USUAL };
        site.ask_at_a_terminal(&answers, "asked at the terminal")
    }),
    Host::in_full("--sudo, and sudo starts nothing without a terminal", || {
        sudo("Defaults requiretty\ndeploy ALL=(root) NOPASSWD: /bin/sh\n")
    }),
    Host::in_full("--sudo, and sudo's rule is for another command", || {
        sudo("deploy ALL=(root) NOPASSWD: /bin/true\n")
    }),
    Host::in_full("--sudo, and sudo has no rule for the user", || sudo("root ALL=(ALL) ALL\n")),
    Host::in_full("--sudo, and sudoers has an error of syntax", || sudo("deploy ALL=(root\n")),
    Host::in_full("--sudo, and sudo's file is not root's", || {
        let etc: &[(&str, &str)] = &[("sudoers", NO_PASSWORD)];
        let first = "chown 1000 /mnt/etc/sudoers";
        Site { first, etc, needs: NEEDS_SUDO, words: SUDO, ..Site::USUAL }.ask()
    }),
    Host::in_full("--sudo, and doas wants no password", || doas("permit nopass deploy as root\n")),
    Host::in_full("--sudo, and doas wants a password", || doas("permit deploy as root\n")),
    Host::in_full("--sudo, and doas has no rule for the user", || {
        doas("permit nopass nobody as root\n")
    }),
    Host::in_full("the account has expired", || {
        with_shadow(PAM, "deploy:*:19000:0:99999:7::100:\n")
    }),
    Host::in_full("the account is locked, and there is no PAM", || {
        let etc: &[(&str, &str)] = &[("shadow", "deploy:!:19000:0:99999:7:::\n")];
        Site { lines: &["UsePAM no"], etc, ..Site::USUAL }.ask()
    }),
    Host::sampled("the password has expired and must be changed", || {
        with_shadow(PAM, "deploy:*:0:0:99999:7:::\n")
    }),
    Host::in_full("PAM wants a login shell of /etc/shells", || {
        let pam = "auth required pam_permit.so\naccount required pam_shells.so\n\
                   session required pam_permit.so\n";
        let etc: &[(&str, &str)] = &[("shells", "/bin/dash\n"), ("pam.d/sshd", pam)];
        Site { etc, ..Site::USUAL }.ask()
    }),
    Host::in_full("logins are forbidden by /etc/nologin", || {
        let pam = "auth required pam_permit.so\naccount required pam_nologin.so\n\
                   session required pam_permit.so\n";
        let etc: &[(&str, &str)] = &[("pam.d/sshd", pam)];
        Site { etc, first: "echo down for maintenance > /run/nologin", ..Site::USUAL }.ask()
    }),
    Host::in_full("PAM opens no session", || {
        let pam = "auth required pam_permit.so\naccount required pam_permit.so\n\
                   session required pam_deny.so\n";
        Site { etc: &[("pam.d/sshd", pam)], ..Site::USUAL }.ask()
    }),
    Host::in_full("the user is not among those who may log in", || {
        Site { lines: &["AllowUsers root"], ..Site::USUAL }.ask()
    }),
    Host::in_full("uname is missing", || without(&["/usr/bin/uname"])),
    Host::in_full("timeout is missing", || without(&["/usr/bin/timeout"])),
    Host::in_full("sha256sum is missing", || without(&["/usr/bin/sha256sum"])),
    Host::in_full("gzip is missing", || without(&["/usr/bin/gzip"])),
    Host::in_full("sha256sum, shasum, openssl and gzip are missing", || {
        without(&["/usr/bin/sha256sum", "/usr/bin/shasum", "/usr/bin/openssl", "/usr/bin/gzip"])
    }),
    Host::sampled("dd is missing", || without(&["/usr/bin/dd"])),
    Host::in_full("head is missing", || without(&["/usr/bin/head"])),
    Host::in_full("mkdir is missing", || without(&["/usr/bin/mkdir"])),
    Host::in_full("chmod is missing", || without(&["/usr/bin/chmod"])),
    Host::in_full("rm is missing", || without(&["/usr/bin/rm"])),
    Host::in_full("8 open files at most", || rc(b"ulimit -n 8")),
    Host::in_full("1 process at most", || rc(b"ulimit -u 1")),
    Host::in_full("files of 0 bytes at most", || rc(b"ulimit -f 0")),
    Host::in_full("files of 100 kB at most", || rc(b"ulimit -f 100")),
    Host::in_full("64 MB of address space at most", || rc(b"ulimit -v 65536")),
    Host::in_full("8 MB of address space at most", || rc(b"ulimit -v 8192")),
    Host::in_full("1 s of processor time at most", || rc(b"ulimit -t 1")),
];

const SUDO: &[&str] = &["--sudo"];
const NO_PASSWORD: &str = "deploy ALL=(root) NOPASSWD: /bin/sh\n";

/// PAM that looks at the account.
const PAM: &str = "auth required pam_permit.so\naccount required pam_unix.so\n\
                   session required pam_permit.so\npassword required pam_unix.so\n";

fn without(programs: &[&'static str]) -> Result<Outcome> {
    Site { without: programs, ..Site::USUAL }.ask()
}

fn sudo(rules: &str) -> Result<Outcome> {
    let rules = format!("Defaults !lecture\n{rules}");
    Site { etc: &[("sudoers", &rules)], needs: NEEDS_SUDO, words: SUDO, ..Site::USUAL }.ask()
}

fn doas(rules: &str) -> Result<Outcome> {
    Site {
        etc: &[("doas.conf", rules)],
        needs: &[("/usr/bin/doas", "opendoas")],
        without: &["/usr/bin/sudo"],
        words: SUDO,
        ..Site::USUAL
    }
    .ask()
}

fn with_shadow(pam: &str, shadow: &str) -> Result<Outcome> {
    let shadow = format!("root:*:19000:0:99999:7:::\nsshd:*:19000:0:99999:7:::\n{shadow}");
    Site { etc: &[("shadow", &shadow), ("pam.d/sshd", pam)], ..Site::USUAL }.ask()
}

/// A login that goes on as a user who is in no list.
fn nameless() -> Result<Outcome> {
    Site {
        needs: NEEDS_SUDO,
        etc: &[("sudoers", "deploy ALL=(root) NOPASSWD: ALL\n")],
        lines: &["ForceCommand exec sudo -n setpriv --reuid=4242 --regid=4242 --clear-groups \
                  /bin/sh -c \"$SSH_ORIGINAL_COMMAND\""],
        ..Site::USUAL
    }
    .ask()
}
