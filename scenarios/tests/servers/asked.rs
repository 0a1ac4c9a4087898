//! Logins that ask somebody: a passphrase, a password, what PAM asks, a second factor.

use super::{Key, assert_logged, at_each, question, sysmcp, type_of, without_a_terminal};
use scenarios::{
    not_run::not_run,
    servers::{
        CODES, Draft, Kind, PASSWORD, Server, Settings,
        login::{Way, identity, make_key, write_config},
    },
    terminal,
};
use std::{path::Path, process::Command};

/// A login that asks: what the server logs of it, what is asked and typed, and what must be said
/// where nobody can be asked.
struct Asked<'a> {
    method: &'a str,
    key: &'a str,
    answers: Vec<(&'a str, String)>,
    remedy: &'a str,
}

/// Logs in at a terminal with the answers, and not without one.
fn assert_asks(server: &Server, way: Way, config: &Path, asked: &Asked) {
    let sysmcp = sysmcp(&way.target(server), config.to_owned());
    let (code, said) = without_a_terminal(&sysmcp);
    assert!(matches!(code, Some(13 | 14)), "{}: {code:?} {said}", way.name());
    assert!(said.contains(asked.remedy), "{}: {:?} is not in {said}", way.name(), asked.remedy);
    let before = server.log().len();
    let typed: Vec<(&str, Vec<u8>)> = asked
        .answers
        .iter()
        .map(|(text, answer)| (*text, format!("{answer}\n").into_bytes()))
        .collect();
    let answers: Vec<terminal::Answer> =
        typed.iter().map(|(text, answer)| (*text, answer.as_slice())).collect();
    let line = sysmcp.typed(&format!("call process_list --params '{}'", question()));
    let screen = terminal::run(&line, &answers).unwrap_or_else(|error| {
        panic!("{} to {}: {error:#}\n{}", way.name(), server.kind().name(), server.log())
    });
    assert!(screen.contains("code 0") && screen.contains("agent gone"), "{}: {screen}", way.name());
    assert!(!screen.contains("-echo "), "{}: the terminal was not given back", way.name());
    for (_, answer) in &asked.answers {
        // A password is never shown; the code may be, where the server says so.
        assert!(answer != PASSWORD || !screen.contains(PASSWORD), "{screen}");
    }
    let log = server.log();
    assert_logged(server, way, log.get(before..).unwrap(), asked.method, asked.key);
}

/// Whether somebody can be at a terminal.
fn has_terminal(check: &str) -> bool {
    let is_there = Command::new("script").arg("--version").output().is_ok();
    if !is_there {
        not_run(check, "script (package bsdutils)");
    }
    is_there
}

#[test]
fn a_passphrase_is_asked_for() {
    if !has_terminal("a passphrase") {
        return;
    }
    at_each("a passphrase", &Kind::ALL, |kind| {
        let draft = Draft::new(kind).unwrap();
        make_key(&draft.file("id"), &["ed25519"], PASSWORD).unwrap();
        draft.authorize("id").unwrap();
        let server = draft.start(&Settings::default()).unwrap();
        let config = write_config(&server, "config", &[identity(&server, "id")]).unwrap();
        let remedy = format!("ssh-add {}", server.file("id").display());
        for way in Way::ALL {
            let asked = Asked {
                method: "publickey",
                key: type_of(kind, Key::Ed25519),
                answers: vec![("passphrase", PASSWORD.to_owned())],
                remedy: &remedy,
            };
            assert_asks(&server, way, &config, &asked);
        }
    });
}

/// A server that lets in by other ways than a key, and the client's configuration for it.
fn asks(kind: Kind, settings: &Settings, lines: &[&str]) -> (Server, std::path::PathBuf) {
    let draft = Draft::new(kind).unwrap();
    make_key(&draft.file("id"), &["ed25519"], "").unwrap();
    draft.authorize("id").unwrap();
    let server = draft.start(settings).unwrap();
    let lines: Vec<String> =
        lines.iter().map(ToString::to_string).chain([identity(&server, "id")]).collect();
    let config = write_config(&server, "config", &lines).unwrap();
    (server, config)
}

#[test]
fn a_password_is_asked_for_and_asked_for_again_when_it_was_wrong() {
    if !has_terminal("a password") {
        return;
    }
    at_each("a password", &Kind::ALL, |kind| {
        let settings = Settings::lines(&["PasswordAuthentication yes"]);
        let lines = ["PubkeyAuthentication no", "KbdInteractiveAuthentication no"];
        let (server, config) = asks(kind, &settings, &lines);
        for way in Way::ALL {
            let wrong = ("password:", "wrong".to_owned());
            let asked = Asked {
                method: "password",
                key: "",
                answers: vec![wrong, ("password:", PASSWORD.to_owned())],
                remedy: "ssh -F ",
            };
            assert_asks(&server, way, &config, &asked);
        }
    });
}

#[test]
fn what_pam_asks_is_asked() {
    if !has_terminal("what PAM asks") {
        return;
    }
    at_each("what PAM asks", &Kind::OPENSSH, |kind| {
        let settings = Settings::lines(&["ChallengeResponseAuthentication yes"]);
        let lines = ["PubkeyAuthentication no"];
        let (server, config) = asks(kind, &settings, &lines);
        for way in Way::ALL {
            let asked = Asked {
                method: "keyboard-interactive/pam",
                key: "",
                answers: vec![("password:", PASSWORD.to_owned())],
                remedy: "ssh -F ",
            };
            assert_asks(&server, way, &config, &asked);
        }
    });
}

#[test]
fn a_second_factor_is_asked_for_behind_the_key() {
    if !has_terminal("a second factor") {
        return;
    }
    at_each("a second factor", &Kind::OPENSSH, |kind| {
        let methods = "AuthenticationMethods publickey,keyboard-interactive";
        let lines = ["ChallengeResponseAuthentication yes", methods];
        let settings = Settings { wants_code: kind.has_codes(), ..Settings::lines(&lines) };
        let (server, config) = asks(kind, &settings, &[]);
        for (way, code) in Way::ALL.into_iter().zip(CODES) {
            let mut answers = vec![("password:", PASSWORD.to_owned())];
            if kind.has_codes() {
                answers.push(("one-time password", code.to_owned()));
            }
            let asked =
                Asked { method: "keyboard-interactive/pam", key: "", answers, remedy: "ssh -F " };
            let before = server.log().len();
            assert_asks(&server, way, &config, &asked);
            let log = server.log();
            let log = log.get(before..).unwrap();
            assert!(log.contains("Partial publickey for deploy"), "{}: {log}", way.name());
        }
    });
}
