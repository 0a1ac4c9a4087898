//! Login shells of many kinds. Each is only asked to become `/bin/sh`.

use super::{Host, Outcome, site::Site};
use anyhow::Result;

/// In the order of the page.
pub const HOSTS: &[Host] = &[
    Host::sampled("the login shell is bash", || shell("/bin/bash", "bash")),
    Host::in_full("the login shell is dash", || shell("/bin/dash", "dash")),
    Host::in_full("the login shell is zsh", || shell("/bin/zsh", "zsh")),
    Host::sampled("the login shell is fish", || shell("/usr/bin/fish", "fish")),
    Host::in_full("the login shell is tcsh", || shell("/bin/tcsh", "tcsh")),
    Host::sampled("the login shell is csh", || shell("/bin/bsd-csh", "csh")),
    Host::in_full("the login shell is mksh", || shell("/bin/mksh", "mksh")),
    Host::in_full("the login shell is busybox ash", || linked("ash", "/bin/busybox")),
    Host::sampled("the login shell is rbash", || shell("/bin/rbash", "bash")),
    Host::in_full("the login shell is rzsh", || linked("rzsh", "/bin/zsh")),
    Host::sampled("the login shell is nologin", || shell("/usr/sbin/nologin", "login")),
    Host::sampled("the login shell is /bin/false", || shell("/bin/false", "coreutils")),
    Host::in_full("the login shell is /bin/true", || shell("/bin/true", "coreutils")),
    Host::in_full("the login shell is git-shell", || shell("/usr/bin/git-shell", "git")),
    Host::in_full("the login shell is python3", || shell("/usr/bin/python3", "python3")),
    Host::in_full("the login shell is cat", || shell("/bin/cat", "coreutils")),
    Host::in_full("the login shell is missing", || {
        Site { shell: Some("/bin/nosuchshell"), ..Site::USUAL }.ask()
    }),
    Host::in_full("the login shell is no program", || {
        Site { shell: Some("/etc/passwd"), ..Site::USUAL }.ask()
    }),
    Host::sampled("/bin/sh is bash", || bin_sh("/bin/bash", "mount --bind /bin/bash /bin/sh")),
    Host::in_full("/bin/sh is bash, with functions named as programs", || {
        let functions =
            b"for f in head mkdir rm dd; do eval \"$f() { echo $f; }\"; export -f $f; done";
        Site {
            first: "mount --bind /bin/bash /bin/sh",
            files: &[(".bashrc", functions)],
            ..Site::USUAL
        }
        .ask()
    }),
    Host::in_full("/bin/sh is busybox ash", || {
        bin_sh("/bin/busybox", "mount --bind /bin/busybox /bin/sh")
    }),
    Host::in_full("/bin/sh is mksh", || bin_sh("/bin/mksh", "mount --bind /bin/mksh /bin/sh")),
    Host::in_full("/bin/sh is zsh", || bin_sh("/bin/zsh", "mount --bind /bin/zsh /bin/sh")),
];

fn shell(path: &'static str, package: &'static str) -> Result<Outcome> {
    Site { needs: &[(path, package)], shell: Some(path), ..Site::USUAL }.ask()
}

/// A program that is a shell, and which one, by the name by which it is called.
fn linked(name: &str, program: &'static str) -> Result<Outcome> {
    let (shell, first) = match name {
        "ash" => ("/run/ash", "ln -s /bin/busybox \"$TOP/run/ash\""),
        _ => ("/run/rzsh", "ln -s /bin/zsh \"$TOP/run/rzsh\""),
    };
    let package = program.trim_start_matches("/bin/");
    Site { needs: &[(program, package)], shell: Some(shell), first, ..Site::USUAL }.ask()
}

/// Another program in the place of `/bin/sh`.
fn bin_sh(path: &'static str, first: &'static str) -> Result<Outcome> {
    let package = path.trim_start_matches("/bin/");
    Site { needs: &[(path, package)], first, ..Site::USUAL }.ask()
}
