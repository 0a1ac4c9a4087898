//! A machine without `ssh`: our own reader of the configuration, and our own SSH.

use super::{OWN, Ran, WITH_OWN, call, clients, config, server, sysmcp};
use scenarios::{sshd::Sshd, sysmcp::Sysmcp};
use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// A folder with the few programs that are needed, and no `ssh` among them.
fn programs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let path = std::env::var_os("PATH").unwrap();
    for name in ["sh", "getent", "setsid"] {
        let mut found = std::env::split_paths(&path).map(|place| place.join(name));
        let found: PathBuf = found.find(|file| file.is_file()).unwrap();
        symlink(found, folder.path().join(name)).unwrap();
    }
    folder
}

fn without_ssh(server: &Sshd, way: &str, config: &Path, programs: &Path) -> Sysmcp {
    sysmcp(server, way, config).with_variable("PATH", programs)
}

#[test]
fn without_an_ssh_our_own_reads_the_configuration_and_connects() {
    let server = server(&[]);
    let programs = programs();
    let run = |way: &str, lines: &[&str]| {
        let config = config(&server, lines);
        call(&without_ssh(&server, way, &config, programs.path()))
    };
    for way in ["ssh", "russh"] {
        run(way, &["ServerAliveInterval 15", "Compression yes"])
            .assert_answered()
            .assert_said(WITH_OWN);
    }
    assert_eq!(clients(&server), [OWN, OWN]);
}

/// Asserts that a line of the configuration is named, and what helps.
#[track_caller]
fn assert_names_line(ran: &Ran, config: &Path, line: usize, word: &str) {
    ran.assert_failed(11).assert_said(&format!("{}, line {line}: ", config.display()));
    ran.assert_said(word).assert_said("there is no ssh on this machine to ask");
    ran.assert_said("Install an OpenSSH client, or leave that out of the configuration");
}

#[test]
fn a_line_that_only_ssh_can_tell_is_named() {
    let server = server(&[]);
    let programs = programs();
    let cases = [
        ("Match exec true", "match"),
        ("Include /etc/hostname", "Include"),
        ("Colour red", "colour"),
    ];
    for (line, word) in cases {
        let config = config(&server, &["ServerAliveInterval 15", line]);
        for way in ["ssh", "russh"] {
            let ran = call(&without_ssh(&server, way, &config, programs.path()));
            if word == "Include" {
                // What it leads to is no configuration.
                ran.assert_failed(11).assert_said("/etc/hostname, line 1: ");
            } else {
                assert_names_line(&ran, &config, 3, word);
            }
        }
    }
    assert!(clients(&server).is_empty(), "{}", server.log());
}

#[test]
fn the_users_ssh_cannot_be_insisted_on_where_there_is_none() {
    let server = server(&[]);
    let programs = programs();
    let plain = config(&server, &[]);
    let ran = call(&without_ssh(&server, "openssh", &plain, programs.path()));
    ran.assert_failed(11).assert_said("there is no ssh on this machine; install an OpenSSH client");
    // The same where it would be tried because our own cannot do what is configured.
    let beyond = config(&server, &["KnownHostsCommand /bin/true"]);
    for way in ["ssh", "russh"] {
        let ran = call(&without_ssh(&server, way, &beyond, programs.path()));
        ran.assert_failed(11).assert_said("knownhostscommand");
    }
    assert!(clients(&server).is_empty(), "{}", server.log());
}

#[test]
fn a_server_that_wants_the_users_ssh_is_not_reached_without_one() {
    let server = server(&["KexAlgorithms sntrup761x25519-sha512@openssh.com"]);
    let programs = programs();
    let config = config(&server, &[]);
    let ran = call(&without_ssh(&server, "ssh", &config, programs.path()));
    ran.assert_failed(11).assert_said("there is no ssh on this machine; install an OpenSSH client");
    ran.assert_said("the host offers no key exchange that we have and may use");
    assert_eq!(clients(&server), [OWN]);
}
