//! SSH servers that do less, or other things, than the usual one.

use super::{Attempt, Host, Outcome, site::Site};
use crate::{
    servers::{CODES, Kind, PASSWORD},
    sysmcp::Sysmcp,
};
use anyhow::Result;
use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    time::Duration,
};

/// In the order of the page.
pub const HOSTS: &[Host] = &[
    Host::sampled("the server has no sftp", || with(&[])),
    Host::sampled("ForceCommand echo", || with(&["ForceCommand echo read only mirror"])),
    Host::in_full("ForceCommand /bin/false", || with(&["ForceCommand /bin/false"])),
    Host::in_full("ForceCommand nologin", || with(&["ForceCommand /usr/sbin/nologin"])),
    Host::in_full("ForceCommand internal-sftp", || {
        with(&["Subsystem sftp internal-sftp", "ForceCommand internal-sftp"])
    }),
    Host::in_full("ForceCommand of a program that is missing", || {
        with(&["ForceCommand /opt/nowhere/menu"])
    }),
    Host::sampled("ForceCommand passes the command on", || {
        with(&["ForceCommand echo Welcome; eval \"$SSH_ORIGINAL_COMMAND\""])
    }),
    Host::in_full("ForceCommand prints the command", || {
        with(&["ForceCommand echo \"$SSH_ORIGINAL_COMMAND\""])
    }),
    Host::in_full("the key has a command of its own", || {
        key("command=\"echo only backups are taken with this key\"")
    }),
    Host::in_full("the key has a command that passes ours on", || {
        key("command=\"sh -c \\\"$SSH_ORIGINAL_COMMAND\\\"\"")
    }),
    Host::in_full("the key is restricted", || key("restrict")),
    Host::sampled("MaxSessions 1", || with(&["MaxSessions 1"])),
    Host::sampled("MaxSessions 0", || with(&["MaxSessions 0"])),
    Host::in_full("no forwarding and no terminal", || {
        with(&["DisableForwarding yes", "AllowTcpForwarding no", "PermitTTY no"])
    }),
    Host::in_full("a banner of 20 kB with terminal escapes", || {
        let banner: Vec<u8> = b"\x1b[2J\x1b]0;t\x07 authorized use only \xff\n".repeat(800);
        let files: &[(&str, &[u8])] = &[("banner", &banner)];
        Site { lines: &["Banner /mnt/home/banner"], files, ..Site::USUAL }.ask()
    }),
    Host::in_full("a message of the day", || {
        let etc = &[("motd", "Welcome.\n*** read this ***\n")];
        Site { lines: &["PrintMotd yes"], etc, ..Site::USUAL }.ask()
    }),
    Host::in_full("the server sets HOME to a relative path", || with(&["SetEnv HOME=here"])),
    Host::in_full("the server sets HOME to what is missing", || {
        with(&["SetEnv HOME=/nonexistent"])
    }),
    Host::in_full("the server sets XDG_RUNTIME_DIR to a relative path", || {
        with(&["SetEnv XDG_RUNTIME_DIR=run/user"])
    }),
    Host::in_full("the server sets XDG_RUNTIME_DIR to what is missing", || {
        with(&["SetEnv XDG_RUNTIME_DIR=/run/user/1000"])
    }),
    Host::sampled("XDG_RUNTIME_DIR has blanks, quotes and `$(…)`", odd_runtime_folder),
    Host::in_full("the user's own environment has a PATH to nowhere", || {
        let files: &[(&str, &[u8])] = &[(".ssh/environment", b"PATH=/opt/nowhere\nHOME=\n")];
        Site { lines: &["PermitUserEnvironment yes"], files, ..Site::USUAL }.ask()
    }),
    Host::in_full("the server asks every second whether we are there", || {
        let lines = &["ClientAliveInterval 1", "ClientAliveCountMax 2"];
        Site { lines, files: &[(".bashrc", b"sleep 4")], ..Site::USUAL }.ask()
    }),
    Host::in_full("only algorithms of twenty years ago", || with(OLD)),
    Host::in_full("only algorithms of twenty years ago, which the configuration allows", || {
        let client = &[
            "KexAlgorithms +diffie-hellman-group14-sha1",
            "Ciphers +aes128-cbc",
            "MACs +hmac-sha1",
        ];
        Site { lines: OLD, client, ..Site::USUAL }.ask()
    }),
    Host::in_full("only a password, and nobody to ask", || {
        with(&["PubkeyAuthentication no", "PasswordAuthentication yes"])
    }),
    Host::sampled("a key and a one-time password, and nobody to ask", || second_factor().ask()),
    Host::sampled("a key and a one-time password, at a terminal", || {
        let answers = [("password:", PASSWORD), ("one-time password", CODES[0])];
        second_factor().ask_at_a_terminal(&answers, "asked at the terminal")
    }),
    Host::sampled("Dropbear 2020.81", || dropbear(Kind::Dropbear2020, &[])),
    Host::in_full("Dropbear 2025.89", || dropbear(Kind::Dropbear2025, &[])),
    Host::in_full("Dropbear, with a forced command", || {
        dropbear(Kind::Dropbear2025, &["-c", "'echo only backups'"])
    }),
    Host::in_full("Dropbear, where the login shell is not in /etc/shells", || {
        Site { kind: Kind::Dropbear2025, etc: &[("shells", "/bin/sh\n")], ..Site::USUAL }.ask()
    }),
    Host::in_full("OpenSSH 8.4", || Site { kind: Kind::OpenSsh8, ..Site::USUAL }.ask()),
    Host::in_full("OpenSSH 10.0", || Site { kind: Kind::OpenSsh10, ..Site::USUAL }.ask()),
    Host::in_full("ChrootDirectory that is empty", || jail("")),
    Host::in_full("ChrootDirectory with a shell that is not /bin/sh", || {
        jail(
            "for folder in bin lib lib64; do mkdir /srv/jail/$folder; done; \
             for folder in lib lib64; do mount --rbind /usr/$folder /srv/jail/$folder; done; \
             cp /bin/bash /srv/jail/bin/bash; ",
        )
    }),
    Host::in_full("ChrootDirectory with /bin/sh, and without /proc", || jail(FURNISHED)),
    Host::in_full("ChrootDirectory with /bin/sh and /proc", || {
        jail(&format!("{FURNISHED} mkdir /srv/jail/proc; mount -t proc proc /srv/jail/proc; "))
    }),
    Host::in_full("nobody listens at the port", || at_port("20", || Ok(1))),
    Host::in_full("the port closes each connection at once", || {
        at_port("20", || answering(b"", End::Closes))
    }),
    Host::in_full("the port says nothing", || at_port("3", || answering(b"", End::Waits))),
    Host::in_full("a web server is at the port", || {
        at_port("20", || answering(b"HTTP/1.1 400 Bad Request\r\n\r\n", End::Closes))
    }),
    Host::in_full("only SSH 1 is spoken", || {
        at_port("20", || answering(b"SSH-1.5-OpenSSH_2.1\r\n", End::Closes))
    }),
    Host::in_full("the server says that it is too busy", || {
        at_port("20", || answering(b"Exceeded MaxStartups\r\n", End::Closes))
    }),
];

/// What a server of that time has, as far as ours still has it.
const OLD: &[&str] =
    &["KexAlgorithms diffie-hellman-group14-sha1", "Ciphers aes128-cbc", "MACs hmac-sha1"];

fn with(lines: &[&str]) -> Result<Outcome> {
    Site { lines, ..Site::USUAL }.ask()
}

fn key(key_options: &str) -> Result<Outcome> {
    Site { key_options, ..Site::USUAL }.ask()
}

fn second_factor() -> Site<'static> {
    Site {
        kind: Kind::OpenSsh10,
        lines: &[
            "AuthenticationMethods publickey,keyboard-interactive",
            "KbdInteractiveAuthentication yes",
        ],
        wants_code: true,
        ..Site::USUAL
    }
}

fn dropbear(kind: Kind, words: &[&'static str]) -> Result<Outcome> {
    Site { kind, dropbear: words, ..Site::USUAL }.ask()
}

/// A folder whose name does something where it is not quoted.
fn odd_runtime_folder() -> Result<Outcome> {
    const FOLDER: &str = "/tmp/a folder's `touch x` $(touch y) *";
    let line = format!("SetEnv \"XDG_RUNTIME_DIR={FOLDER}\"");
    Site {
        lines: &[&line],
        first: "mkdir -m 777 \"$TOP/tmp/a folder's \\`touch x\\` \\$(touch y) *\"",
        variables: &[("XDG_RUNTIME_DIR", FOLDER)],
        ..Site::USUAL
    }
    .ask()
}

/// What fills a jail with this machine's programs, and with a place for files.
const FURNISHED: &str = "for folder in bin lib lib64 dev; do mkdir /srv/jail/$folder; done; \
                         mkdir -m 1777 /srv/jail/tmp; \
                         for folder in bin lib lib64; do \
                         mount --rbind /usr/$folder /srv/jail/$folder; done; \
                         for device in null zero; do touch /srv/jail/dev/$device; \
                         mount --bind /dev/$device /srv/jail/dev/$device; done; ";

/// A server that locks its users into a folder, which root fills before.
fn jail(fill: &str) -> Result<Outcome> {
    let first = format!("mount -t tmpfs -o mode=755 tmpfs /srv; mkdir /srv/jail; {fill}");
    Site { lines: &["ChrootDirectory /srv/jail"], first: &first, ..Site::USUAL }.ask()
}

/// What a listener does after its words.
#[derive(Clone, Copy)]
enum End {
    Closes,
    Waits,
}

/// A listener that is no SSH server. Gives its port.
fn answering(words: &'static [u8], end: End) -> Result<u16> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut stream = stream;
                let _ = stream.write_all(words);
                // What was sent is taken, so that the end of this is no reset.
                let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
                let _ = stream.read(&mut [0; 1024]);
                if matches!(end, End::Waits) {
                    std::thread::sleep(Duration::from_secs(60));
                }
            });
        }
    });
    Ok(port)
}

/// What is no SSH server, so that there is no session of which anything could be left.
fn at_port(seconds: &str, listen: fn() -> Result<u16>) -> Result<Outcome> {
    let port = listen()?;
    let outcome = |way: &str| -> Result<Outcome> {
        let target = format!("{way}:deploy@127.0.0.1:{port}");
        let sysmcp = Sysmcp::local()?.at(&target).with(&["--connect-timeout", seconds]);
        let placeholders = [
            (format!(":{port}"), ":PORT"),
            (format!("port {port}"), "port PORT"),
            (format!("-p {port}"), "-p PORT"),
            ("127.0.0.1".to_owned(), "HOST"),
        ];
        let none = || Ok(Vec::new());
        let attempt = Attempt { sysmcp: &sysmcp, left: &none, placeholders: &placeholders };
        attempt.outcome()
    };
    super::site::both(outcome("ssh")?, outcome("openssh")?)
}
