//! Connections that the user keeps open, and that can be shared.

use super::{OWN, WITH_OWN, call, clients, config, makes, server, sysmcp};
use scenarios::{
    master::Master,
    not_run::not_run,
    servers::{
        self, Draft, Kind, PASSWORD,
        login::{Way, write_config},
    },
    sysmcp::Sysmcp,
    terminal,
};
use std::{
    os::unix::net::UnixListener,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// A folder for a socket, whose name must be short, and the lines that say where it is.
fn socket() -> (tempfile::TempDir, PathBuf, [String; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("master");
    let lines = [format!("ControlPath {}", path.display()), "ControlMaster auto".to_owned()];
    (folder, path, lines)
}

fn as_words(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).collect()
}

#[test]
fn a_connection_that_is_open_is_shared() {
    let server = server(&[]);
    let (_folder, path, lines) = socket();
    let config = config(&server, &as_words(&lines));
    let master = Master::start(&server, &config).unwrap();
    assert_eq!(makes(&clients(&server)), ["openssh"]);
    let over = format!(" with your ssh, over the connection at {}\n", path.display());
    call(&sysmcp(&server, "ssh", &config)).assert_answered().assert_said(&over);
    assert_eq!(clients(&server).len(), 1, "{}", server.log());
    // Whoever insists on our own SSH gets a connection of its own.
    call(&sysmcp(&server, "russh", &config)).assert_answered().assert_said(WITH_OWN);
    assert_eq!(makes(&clients(&server)), ["openssh", "own"]);
    // The user's stays, and once it is gone there is none to share.
    call(&sysmcp(&server, "ssh", &config)).assert_answered().assert_said(&over);
    drop(master);
    call(&sysmcp(&server, "ssh", &config)).assert_answered().assert_said(WITH_OWN);
    assert_eq!(makes(&clients(&server)), ["openssh", "own", "own"]);
    assert!(!path.exists(), "ours is no master");
}

#[test]
fn a_socket_that_nobody_listens_at_is_passed_over() {
    let server = server(&[]);
    let (_folder, path, lines) = socket();
    let config = config(&server, &as_words(&lines));
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let started = Instant::now();
    call(&sysmcp(&server, "ssh", &config)).assert_answered().assert_said(WITH_OWN);
    // One that hangs is given up after 5 s.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(clients(&server), [OWN]);
}

#[test]
fn a_master_that_says_nothing_is_passed_over() {
    let server = server(&[]);
    let (_folder, path, lines) = socket();
    let config = config(&server, &as_words(&lines));
    let _silent = UnixListener::bind(&path).unwrap();
    call(&sysmcp(&server, "ssh", &config)).assert_answered().assert_said(WITH_OWN);
    assert_eq!(clients(&server), [OWN]);
}

/// A server that asks, and what the person types who logs in by hand.
fn asks(lines: &[&str], is_half_key: bool) -> (servers::Server, PathBuf, tempfile::TempDir) {
    let draft = Draft::new(Kind::OpenSshHere).unwrap();
    servers::login::make_key(&draft.file("id"), &["ed25519"], "").unwrap();
    if is_half_key {
        draft.authorize("id").unwrap();
    }
    let server = draft.start(&servers::Settings::lines(lines)).unwrap();
    let (folder, _, master) = socket();
    let identity = servers::login::identity(&server, "id");
    let keys = if is_half_key { "yes" } else { "no" };
    let keys = format!("PubkeyAuthentication {keys}");
    let lines: Vec<String> =
        master.into_iter().chain(["ControlPersist 1m".to_owned(), keys, identity]).collect();
    let config = write_config(&server, "config", &lines).unwrap();
    (server, config, folder)
}

#[test]
fn who_has_logged_in_by_hand_is_not_asked_again() {
    const WHAT: &str = "a master behind a password";
    if !Kind::OpenSshHere.is_there(WHAT) {
        return;
    }
    if Command::new("script").arg("--version").output().is_err() {
        not_run(WHAT, "script (package bsdutils)");
        return;
    }
    let cases: [(&[&str], bool); 2] = [
        (&["PasswordAuthentication yes", "PubkeyAuthentication no"], false),
        (
            &[
                "KbdInteractiveAuthentication yes",
                "AuthenticationMethods publickey,keyboard-interactive",
            ],
            true,
        ),
    ];
    for (lines, is_half_key) in cases {
        let (server, config, _folder) = asks(lines, is_half_key);
        let sysmcp = Sysmcp::local()
            .unwrap()
            .at(&Way::Russh.target(&server).replace("russh:", "ssh:"))
            .with_ssh_config(config.clone());
        // There is nobody to ask, and the remedy is to log in by hand.
        let refused = call(&sysmcp);
        refused.assert_failed(14).assert_said("log in by hand first: ssh -F ");
        let master = Master::by_hand(&config, server.port, servers::USER);
        let by_hand = format!(
            "ssh -F {} -p {} {}@127.0.0.1 true",
            config.display(),
            server.port,
            servers::USER
        );
        let typed = format!("{PASSWORD}\n");
        let screen = terminal::run(&by_hand, &[("password:", typed.as_bytes())]).unwrap();
        assert!(screen.contains("code 0"), "{screen}");
        let connections = server.log().matches("remote software version ").count();
        call(&sysmcp).assert_answered().assert_said(" with your ssh, over the connection at ");
        assert_eq!(server.log().matches("remote software version ").count(), connections);
        drop(master);
    }
}
