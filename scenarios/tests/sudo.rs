//! `--sudo` at a login that is not root's, with a real sudo and a real doas: who becomes root, who is
//! asked for what, and that the agent that is root's then ends as any other.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::Signal;
use scenarios::{
    not_run::not_run,
    second_way::{self, Seen},
    servers::{
        Kind, PASSWORD, Server, Settings,
        login::{Way, identity, write_config},
    },
    sysmcp::Sysmcp,
    terminal,
};
use serde_json::json;
use std::{
    path::Path,
    process::Stdio,
    thread::sleep,
    time::{Duration, Instant},
};

const SUDO: &str = "/usr/bin/sudo";
const DOAS: &str = "/usr/bin/doas";

/// After which nothing may be left.
const PATIENCE: Duration = Duration::from_secs(12);

/// Whether both programs are there; where not, notes which check does not run.
fn is_there(check: &str) -> bool {
    if !Kind::OpenSshHere.is_there(check) {
        return false;
    }
    for (program, package) in [(SUDO, "sudo"), (DOAS, "opendoas")] {
        if !Path::new(program).exists() {
            not_run(check, &format!("{program} (package {package})"));
            return false;
        }
    }
    true
}

/// A server where sudo has these rules.
fn with_sudoers(rules: &str) -> Server {
    let etc = vec![("sudoers", format!("Defaults !lecture\n{rules}\n"))];
    Server::with_key(Kind::OpenSshHere, &Settings { etc, ..Settings::default() }).unwrap()
}

/// A server where doas has these rules, and sudo is missing.
fn with_doas(rules: &str) -> Server {
    let etc = vec![("doas.conf", format!("{rules}\n"))];
    let settings = Settings { etc, without: vec![SUDO], ..Settings::default() };
    Server::with_key(Kind::OpenSshHere, &settings).unwrap()
}

fn sysmcp(server: &Server, way: Way) -> Sysmcp {
    let config = write_config(server, "config", &[identity(server, "id")]).unwrap();
    let sysmcp = Sysmcp::local().unwrap().at(&way.target(server)).with_ssh_config(config);
    sysmcp.with(&["--sudo", "--toolsets", "diagnose,selftest"])
}

/// Calls a tool with no terminal anywhere. Gives back the exit code and what was said.
fn without_a_terminal(sysmcp: &Sysmcp) -> (Option<i32>, String) {
    let mut command = sysmcp.without_a_terminal();
    let output = command.args(["call", "self_test", "--params", "{\"count\":1}"]).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn audit(sysmcp: &Sysmcp) -> String {
    std::fs::read_to_string(sysmcp.audit_log()).unwrap()
}

fn assert_root_with_receipt(sysmcp: &Sysmcp, row: &str) {
    let audit = audit(sysmcp);
    assert!(audit.contains("\"uid\":0,"), "{row}: {audit}");
    assert!(audit.contains("0 processes left, 0 files left"), "{row}: {audit}");
}

fn assert_nothing_left(server: &Server, before: &[Seen], row: &str) {
    let left = second_way::left_after(server, before, PATIENCE).unwrap();
    assert!(left.is_empty(), "{row}: left on the target: {left:#?}");
}

const WITHOUT_PASSWORD: &str = "deploy ALL=(root) NOPASSWD: /bin/sh";
const WITH_PASSWORD: &str = "deploy ALL=(root) ALL";

#[test]
fn a_rule_without_a_password_makes_the_agent_roots() {
    if !is_there("root by sudo or doas") {
        return;
    }
    let servers = [
        ("sudo", with_sudoers(WITHOUT_PASSWORD)),
        (
            "sudo with a terminal of its own",
            with_sudoers(&format!("Defaults use_pty\n{WITHOUT_PASSWORD}")),
        ),
        ("doas", with_doas("permit nopass deploy as root")),
    ];
    for (row, server) in &servers {
        for way in Way::ALL {
            let sysmcp = sysmcp(server, way);
            let (code, said) = without_a_terminal(&sysmcp);
            assert_eq!(code, Some(0), "{row} by {}: {said}", way.name());
            assert_root_with_receipt(&sysmcp, row);
            assert_nothing_left(server, &[], row);
        }
    }
}

#[test]
fn without_a_terminal_each_refusal_says_what_helps() {
    if !is_there("refusals of sudo and doas") {
        return;
    }
    let neither = Settings { without: vec![SUDO, DOAS], ..Settings::default() };
    let cases = [
        (with_sudoers(WITH_PASSWORD), 14, "the tag NOPASSWD"),
        (with_sudoers("root ALL=(ALL) ALL"), 14, "sudo on "),
        (with_sudoers("deploy ALL=(root) NOPASSWD: /bin/true"), 14, "sudo on "),
        (with_sudoers(&format!("Defaults requiretty\n{WITHOUT_PASSWORD}")), 13, "!requiretty"),
        (with_doas("permit deploy as root"), 14, "permit nopass USER"),
        (with_doas("permit nopass nobody as root"), 13, "may not become root"),
        (Server::with_key(Kind::OpenSshHere, &neither).unwrap(), 13, "neither sudo nor doas"),
    ];
    for (server, want, words) in &cases {
        for way in Way::ALL {
            let (code, said) = without_a_terminal(&sysmcp(server, way));
            assert_eq!(code, Some(*want), "{words} by {}: {said}", way.name());
            assert!(said.contains(words), "{words} by {}: {said}", way.name());
        }
        assert_nothing_left(server, &[], words);
    }
}

#[test]
fn at_a_terminal_only_sudos_own_question_is_passed_on() {
    if !is_there("a password for sudo") {
        return;
    }
    let asks = "password for sudo on";
    let right = format!("{PASSWORD}\r");
    let call = "call self_test --params '{\"count\":1}'";
    for way in Way::ALL {
        let server = with_sudoers(WITH_PASSWORD);
        let sysmcp = sysmcp(&server, way);
        let screen = terminal::run(&sysmcp.typed(call), &[(asks, right.as_bytes())]).unwrap();
        assert!(screen.contains("code 0"), "{screen}");
        assert!(!screen.contains(PASSWORD), "what was typed is shown: {screen}");
        assert_root_with_receipt(&sysmcp, way.name());
        assert!(!audit(&sysmcp).contains(PASSWORD), "the password is in the audit log");
        // Once wrong, then right.
        let answers = [(asks, b"wrong\r".as_slice()), ("that was not it", right.as_bytes())];
        let screen = terminal::run(&sysmcp.typed(call), &answers).unwrap();
        assert!(screen.contains("code 0"), "{screen}");
        // Wrong each time.
        let answers = [(asks, b"wrong\r".as_slice()), (asks, b"wrong\r"), (asks, b"wrong\r")];
        let screen = terminal::run(&sysmcp.typed(call), &answers).unwrap();
        assert!(screen.contains("code 13") && screen.contains("does not accept"), "{screen}");
        assert_nothing_left(&server, &[], way.name());
        // Who need not type one is not asked.
        let server = with_sudoers(WITHOUT_PASSWORD);
        let sysmcp = self::sysmcp(&server, way);
        let screen = terminal::run(&sysmcp.typed(call), &[]).unwrap();
        assert!(screen.contains("code 0") && !screen.contains(asks), "{screen}");
    }
}

#[test]
fn an_agent_of_roots_ends_with_its_controller() {
    if !is_there("KILL of the controller, with sudo") {
        return;
    }
    for rules in [WITHOUT_PASSWORD.to_owned(), format!("Defaults use_pty\n{WITHOUT_PASSWORD}")] {
        let server = with_sudoers(&rules);
        for way in Way::ALL {
            let sysmcp = sysmcp(&server, way).with_faulty_agents();
            let parameters = json!({"count": 60, "interval_ms": 1000, "fault": "plant_child"});
            let mut command = sysmcp.without_a_terminal();
            command.args(["call", "self_test", "--params", &parameters.to_string()]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut call = command.spawn().unwrap();
            let started = Instant::now();
            let seen = loop {
                let seen = second_way::session(&server).unwrap();
                if seen.iter().any(|seen| seen.command.starts_with("sleep 3600")) {
                    break seen;
                }
                assert!(started.elapsed() < PATIENCE, "the second way sees only {seen:#?}");
                sleep(Duration::from_millis(50));
            };
            second_way::signal(call.id(), Signal::KILL).unwrap();
            call.wait().unwrap();
            assert_nothing_left(&server, &seen, &format!("{rules} by {}", way.name()));
        }
    }
}
