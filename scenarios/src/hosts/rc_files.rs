//! Files that a login shell runs before anything else. For a command too, bash reads `.bashrc` where
//! it was started by sshd.

use super::{
    Host, Outcome,
    site::{Site, rc},
};
use anyhow::Result;

/// In the order of the page.
pub const HOSTS: &[Host] = &[
    Host::sampled(".bashrc prints a banner", || rc(b"echo '*** authorized use only ***'; date")),
    Host::in_full(".bashrc prints 1 MB", || rc(b"head -c 1000000 /dev/zero | tr '\\0' x")),
    Host::in_full(".bashrc prints 1 MB to stderr", || {
        rc(b"head -c 1000000 /dev/zero | tr '\\0' x >&2")
    }),
    Host::in_full(".bashrc prints binary data and terminal escapes", || {
        rc(b"printf '\\000\\001\\377\\033[2J\\033]0;title\\007'; head -c 3000 /dev/urandom")
    }),
    Host::in_full(".bashrc prints what looks like sysmcp's own first word", || {
        rc(b"echo sysmcp-0123456789abcdef0123456789abcdef READY x86_64 gzip; printf sysmcp-")
    }),
    Host::in_full(".bashrc reads a line of its input, for a second", || {
        rc(b"read -r -t 1 answer; true")
    }),
    Host::sampled(".bashrc reads its input to the end", || silent(b"cat >/dev/null")),
    Host::in_full(".bashrc asks a question", || {
        silent(b"printf 'Which project? '; read -r project")
    }),
    Host::in_full(".bashrc becomes cat", || silent(b"exec cat")),
    Host::in_full(".bashrc becomes another bash", || silent(b"exec bash")),
    Host::in_full(".bashrc becomes another program that ends", || {
        rc(b"exec echo 'this account is for backups only'")
    }),
    Host::in_full(".bashrc exits at once", || rc(b"exit 0")),
    Host::in_full(".bashrc sets -e and fails", || rc(b"set -e; false")),
    Host::in_full(".bashrc sets -eu and pipefail", || rc(b"set -euo pipefail")),
    Host::in_full(".bashrc takes a terminal for granted", || {
        rc(b"stty -ixon; tput setaf 1; mesg n; export TERM=; clear")
    }),
    Host::in_full(".bashrc unsets TERM", || rc(b"unset TERM")),
    Host::in_full(".bashrc names programs anew by alias", || {
        rc(b"shopt -s expand_aliases; alias exec=echo sh=false /bin/sh=false cd='cd -P'")
    }),
    Host::in_full(".bashrc goes to a folder that is missing", || rc(b"cd /nonexistent")),
    Host::in_full(".bashrc sleeps 3 s", || rc(b"sleep 3")),
    Host::sampled(".bashrc unsets PATH", || rc(b"unset PATH")),
    Host::in_full(".bashrc sets PATH to a folder that is missing", || {
        rc(b"export PATH=/opt/nowhere/bin")
    }),
    Host::in_full(".bashrc leaves a process in the background", || rc(b"sleep 4 &")),
    Host::in_full(".bashrc preloads a library that is missing", || {
        rc(b"export LD_PRELOAD=/opt/nowhere/lib.so")
    }),
    Host::in_full(".bashrc sets a locale that is missing", || rc(b"export LC_ALL=xx_YY.UTF-8")),
    Host::in_full(".bashrc closes its input", || rc(b"exec </dev/null")),
    Host::in_full(".bashrc sends its output elsewhere", || silent(b"exec >/dev/null")),
    Host::in_full(".bashrc has an error of syntax", || rc(b"if true; then")),
    Host::in_full("config.fish prints, and takes a terminal for granted", || {
        Site {
            needs: &[("/usr/bin/fish", "fish")],
            shell: Some("/usr/bin/fish"),
            files: &[(".config/fish/config.fish", b"echo hello; stty sane; cd /nonexistent")],
            ..Site::USUAL
        }
        .ask()
    }),
    Host::in_full(".tcshrc prints, and takes a terminal for granted", || {
        Site {
            needs: &[("/bin/tcsh", "tcsh")],
            shell: Some("/bin/tcsh"),
            files: &[(".tcshrc", b"echo hello\nstty sane\nset prompt='%m> '\n")],
            ..Site::USUAL
        }
        .ask()
    }),
    Host::in_full(".zshenv prints, and is strict", || {
        Site {
            needs: &[("/bin/zsh", "zsh")],
            shell: Some("/bin/zsh"),
            files: &[(".zshenv", b"echo hello\nsetopt no_nomatch sh_word_split err_exit\n")],
            ..Site::USUAL
        }
        .ask()
    }),
];

/// One behind which nothing is ever said: so the wait for it is a short one.
fn silent(text: &'static [u8]) -> Result<Outcome> {
    let words = &["--connect-timeout", "5"];
    Site { files: &[(".bashrc", text)], words, ..Site::USUAL }.ask()
}
