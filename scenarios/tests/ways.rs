//! Which SSH is taken for a target, and that each does as it is told: with real servers, whose logs
//! show which client came.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "ways/beyond.rs"]
mod beyond;
#[path = "ways/choice.rs"]
mod choice;
#[path = "ways/host_keys.rs"]
mod host_keys;
#[path = "ways/masters.rs"]
mod masters;
#[path = "ways/no_ssh.rs"]
mod no_ssh;
#[path = "ways/timings.rs"]
mod timings;

use scenarios::{
    sshd::{Settings, Sshd, user_name},
    sysmcp::Sysmcp,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// What sysmcp's own SSH says it is, as a server logs it.
const OWN: &str = concat!("sysmcp_", env!("CARGO_PKG_VERSION"));

/// How it is told that sysmcp's own SSH was taken.
const WITH_OWN: &str = " with sysmcp's own SSH\n";

/// A server that logs who connects, with further lines for its configuration.
fn server(lines: &[&str]) -> Sshd {
    let lines = lines.iter().chain(&["LogLevel DEBUG1"]).map(ToString::to_string).collect();
    Sshd::start(&Settings { server: lines, ..Settings::default() }).unwrap()
}

/// The clients that said to a server what they are, in order: `OpenSSH_…`, or [`OWN`].
fn clients(server: &Sshd) -> Vec<String> {
    let log = server.log();
    let lines = log.lines().filter_map(|line| line.split_once("remote software version "));
    lines.map(|(_, client)| client.trim().to_owned()).collect()
}

/// Whether each of these is a client of one make: `own` or `openssh`.
fn makes(clients: &[String]) -> Vec<&str> {
    let make = |client: &String| {
        if client == OWN {
            "own"
        } else if client.starts_with("OpenSSH_") {
            "openssh"
        } else {
            "another"
        }
    };
    clients.iter().map(make).collect()
}

/// A configuration of the client for a server by its address, with a file of known hosts and further
/// lines. The first line of a keyword counts, so these stand first.
fn write_config(server: &Sshd, name: &str, known: &Path, lines: &[&str]) -> PathBuf {
    let mut config = "Host 127.0.0.1 ::1\n".to_owned();
    for line in lines {
        config.push_str(&format!("  {line}\n"));
    }
    config.push_str(&format!(
        "Host *\n  IdentityFile {}\n  IdentitiesOnly yes\n  IdentityAgent none\n  \
         UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
        server.file("id").display(),
        known.display()
    ));
    let path = server.file(name);
    fs::write(&path, config).unwrap();
    path
}

/// The same, with the file in which the server is known.
fn config(server: &Sshd, lines: &[&str]) -> PathBuf {
    write_config(server, "config", &server.file("known_hosts"), lines)
}

/// A configuration with a target `last` behind a jump host `jump`, each with a file of known hosts.
fn behind(jump: &Sshd, jump_known: &Path, last: &Sshd, last_known: &Path) -> PathBuf {
    let host = |name: &str, server: &Sshd, known: &Path| {
        format!(
            "Host {name}\n  HostName 127.0.0.1\n  Port {}\n  User {}\n  IdentityFile {}\n  \
             IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile {}\n  \
             GlobalKnownHostsFile /dev/null\n",
            server.port,
            user_name(),
            server.file("id").display(),
            known.display()
        )
    };
    let text = [
        host("last", last, last_known),
        "  ProxyJump jump\n".to_owned(),
        host("jump", jump, jump_known),
    ];
    let path = last.file("jumping");
    fs::write(&path, text.concat()).unwrap();
    path
}

/// sysmcp for a server by a way, with a configuration for its SSH.
fn sysmcp(server: &Sshd, way: &str, config: &Path) -> Sysmcp {
    Sysmcp::over(server).unwrap().at(&server.target_by(way)).with_ssh_config(config.to_owned())
}

/// What came of a call.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    said: String,
    answer: String,
}

/// Calls a tool with no terminal anywhere.
fn call(sysmcp: &Sysmcp) -> Ran {
    let output = sysmcp
        .without_a_terminal()
        .args(["call", "process_list", "--params", "{\"limit\":1,\"window_ms\":100}"])
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Ran { code: output.status.code(), said: text(&output.stderr), answer: text(&output.stdout) }
}

impl Ran {
    /// Asserts that there was an answer, and nothing is left of what gave it.
    #[track_caller]
    fn assert_answered(&self) -> &Self {
        assert!(self.code == Some(0) && !self.answer.is_empty(), "{self:#?}");
        assert!(self.said.contains("agent gone"), "{self:#?}");
        self
    }

    /// Asserts that it failed so.
    #[track_caller]
    fn assert_failed(&self, code: i32) -> &Self {
        assert!(self.code == Some(code) && self.answer.is_empty(), "{code}: {self:#?}");
        self
    }

    /// Asserts that something was said.
    #[track_caller]
    fn assert_said(&self, words: &str) -> &Self {
        assert!(self.said.contains(words), "{words:?} was not said: {}", self.said);
        self
    }
}
