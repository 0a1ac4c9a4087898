//! What `--timings` says of each way.

use super::{behind, call, config, server, sysmcp};
use serde_json::json;
use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    process::Stdio,
};

/// The steps of a connection by our own SSH.
const OWN: [&str; 7] = [
    "configuration",
    "connection",
    "key exchange",
    "login",
    "channel",
    "ready",
    "agent sent and started",
];
/// The steps that can be seen of a connection by the user's `ssh`.
const USERS: [&str; 2] = ["ready", "agent sent and started"];

/// Asserts that there is one line of steps, which are these, with their sum behind them; and one with
/// bytes both ways.
#[track_caller]
fn assert_timed(said: &str, want: &[&str]) {
    let lines: Vec<&str> = said.lines().filter(|line| line.contains(" ms, in all ")).collect();
    let &[line] = &lines[..] else { panic!("{} lines in {said}", lines.len()) };
    let (_, line) = line.split_once("timings: ").unwrap_or_else(|| panic!("{line}"));
    let (steps, all) = line.split_once(" ms, in all ").unwrap();
    let mut sum = 0.0;
    let mut names = Vec::new();
    for step in steps.split(" ms, ") {
        let (name, took) = step.rsplit_once(' ').unwrap();
        sum += took.parse::<f64>().unwrap();
        names.push(name);
    }
    assert_eq!(names, want, "{line}");
    let all: f64 = all.split(' ').next().unwrap().parse().unwrap();
    // Each is rounded to a tenth.
    assert!(
        (all - sum).abs() < 0.06 * f64::from(u32::try_from(want.len() + 1).unwrap()),
        "{sum} is not {all}: {line}"
    );
    assert!(all > 1.0, "{line}");
    assert!(said.contains(" bytes sent, "), "{said}");
    for line in said.lines().filter(|line| line.contains(" bytes sent, ")) {
        let numbers: Vec<u64> = line
            .split(|character: char| !character.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        assert!(numbers.iter().rev().take(2).all(|bytes| *bytes > 0), "{line}");
    }
}

#[test]
fn every_step_is_timed() {
    let server = server(&[]);
    let plain = config(&server, &[]);
    for (way, want) in [("russh", &OWN[..]), ("ssh", &OWN), ("openssh", &USERS)] {
        let ran = call(&sysmcp(&server, way, &plain).with(&["--timings"]));
        ran.assert_answered();
        assert_timed(&ran.said, want);
        let silent = call(&sysmcp(&server, way, &plain));
        assert!(!silent.said.contains(" ms, "), "{}", silent.said);
    }
    let beyond = config(&server, &["KnownHostsCommand /bin/true"]);
    let ran = call(&sysmcp(&server, "ssh", &beyond).with(&["--timings"]));
    ran.assert_answered();
    assert_timed(&ran.said, &["configuration", USERS[0], USERS[1]]);
}

#[test]
fn a_server_says_at_its_end_what_its_session_took() {
    let server = server(&[]);
    let config = config(&server, &[]);
    for (way, want) in [("russh", &OWN[..]), ("openssh", &USERS)] {
        let mut command = sysmcp(&server, way, &config).with(&["--timings"]).command();
        command.arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut serve = command.spawn().unwrap();
        let mut stdin = serve.stdin.take().unwrap();
        let mut stdout = BufReader::new(serve.stdout.take().unwrap());
        let client = json!({"protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "scenario", "version": "1"}});
        let question = json!({"name": "process_list", "arguments": {"window_ms": 100}});
        for (id, method, parameters) in
            [(1, "initialize", &client), (2, "tools/call", &question), (3, "tools/call", &question)]
        {
            let message =
                json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters});
            writeln!(stdin, "{message}").unwrap();
            let mut reply = String::new();
            stdout.read_line(&mut reply).unwrap();
            assert!(reply.contains("\"result\""), "{way}: {reply}");
            if id == 1 {
                writeln!(stdin, "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}}")
                    .unwrap();
            }
        }
        drop(stdin);
        let mut said = String::new();
        serve.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(serve.wait().unwrap().success(), "{way}: {said}");
        // It was one session.
        assert_timed(&said, want);
    }
}

#[test]
fn a_step_at_a_jump_host_is_timed_by_itself() {
    let (jump, last) = (server(&[]), server(&[]));
    let config = behind(&jump, &jump.file("known_hosts"), &last, &last.file("known_hosts"));
    let ran = call(&sysmcp(&last, "russh", &config).at("russh:last").with(&["--timings"]));
    ran.assert_answered();
    let want = [
        "configuration",
        "connection at 127.0.0.1",
        "key exchange at 127.0.0.1",
        "login at 127.0.0.1",
        "connection",
        "key exchange",
        "login",
        "channel",
        "ready",
        "agent sent and started",
    ];
    assert_timed(&ran.said, &want);
}
