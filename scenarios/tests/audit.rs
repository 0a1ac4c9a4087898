//! The audit log: what a damaged one is told by, and what happens when it cannot be written.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::{
    behind::behind, client::Client, programs, sysmcp::Sysmcp, without_settings::without_settings,
};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// A log with a few whole lines: calls that were refused, so that no agent is needed.
fn written(lines: usize) -> Sysmcp {
    let sysmcp = Sysmcp::local().unwrap();
    for _ in 0..lines {
        let refused = sysmcp.call("process_list", &json!({"limit": 0})).unwrap();
        assert_eq!(refused.status.code(), Some(2));
    }
    sysmcp
}

fn audit(what: &str, log: &Path) -> Output {
    without_settings(programs::sysmcp()).args(["audit", what]).arg(log).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_log_that_is_no_text_any_more_is_broken_and_every_break_is_told() {
    let sysmcp = written(6);
    let log = sysmcp.audit_log();
    let mut bytes = fs::read(&log).unwrap();
    for line in [2, 5] {
        let starts = bytes.split_inclusive(|byte| *byte == b'\n').take(line - 1);
        let start: usize = starts.map(<[u8]>::len).sum();
        *bytes.get_mut(start + 30).unwrap() = 0xff;
    }
    fs::write(&log, bytes).unwrap();
    let verified = audit("verify", &log);
    let lines: Vec<String> = said(&verified).lines().map(ToOwned::to_owned).collect();
    assert_eq!(verified.status.code(), Some(22), "{lines:?}");
    assert_eq!(lines.len(), 2, "{lines:?}");
    for (line, place) in lines.iter().zip(["line 2:", "line 5:"]) {
        assert!(line.contains(place), "{lines:?}");
    }
    let script = audit("script", &log);
    assert_eq!(script.status.code(), Some(0), "{}", said(&script));
    let script = String::from_utf8(script.stdout).unwrap();
    assert!(script.contains("the log was cut off or altered at line 2, line 5"), "{script}");
}

/// The command, with the signal ignored that goes with a limit on the size of files.
fn patient(command: &Command) -> Command {
    behind(&["sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh"], command)
}

/// The command with a limit on the size of files: a write fails in the middle of a line, as on a
/// disk that fills up.
fn with_file_limit(command: &Command, bytes: u64) -> Command {
    patient(&behind(&["prlimit", &format!("--fsize={bytes}")], command))
}

#[test]
fn a_line_that_finds_no_room_leaves_no_part_of_itself() {
    let sysmcp = written(1);
    let mut call = sysmcp.command();
    call.args(["call", "process_list", "--params", "{\"limit\":0}"]);
    let (before, failed) = loop {
        let before = fs::read_to_string(sysmcp.audit_log()).unwrap();
        assert!(before.len() < 4096, "the limit is not kept");
        let output = with_file_limit(&call, 1500).output().unwrap();
        if output.status.code() != Some(2) {
            break (before, output);
        }
    };
    assert_eq!(failed.status.code(), Some(21), "{}", said(&failed));
    assert_eq!(fs::read_to_string(sysmcp.audit_log()).unwrap(), before);
    assert_eq!(audit("verify", &sysmcp.audit_log()).status.code(), Some(0));
}

#[test]
fn what_is_no_key_ends_the_call_and_names_the_file() {
    let sysmcp = written(1);
    let key = sysmcp.audit_log().with_file_name("audit.jsonl.key");
    assert_eq!(fs::metadata(&key).unwrap().len(), 32);
    for bytes in ["", "short", "much longer than thirty-two bytes are"] {
        fs::write(&key, bytes).unwrap();
        let refused = sysmcp.call("process_list", &json!({})).unwrap();
        assert_eq!(refused.status.code(), Some(21), "{}", said(&refused));
        assert!(said(&refused).contains(key.to_str().unwrap()), "{}", said(&refused));
    }
}

#[test]
fn a_call_that_is_refused_takes_little_room_however_long_it_is() {
    let sysmcp = Sysmcp::local().unwrap();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let long = "x".repeat(3_000_000);
    let calls = [
        json!({"name": long, "arguments": {"limit": 1}}),
        json!({"name": "process_list", "arguments": {"sort": long}}),
        json!({"name": "process_list", "arguments": {long.as_str(): 1}}),
        json!({"name": "process_list", "arguments": long}),
    ];
    for call in &calls {
        let id = client.ask("tools/call", call).unwrap();
        let reply = client.reply(id, Duration::from_secs(20)).unwrap().unwrap().to_string();
        assert!(reply.len() < 4000, "{} bytes: {reply:.200}", reply.len());
    }
    let log = fs::read_to_string(sysmcp.audit_log()).unwrap();
    assert_eq!(log.lines().count(), calls.len());
    for line in log.lines().skip(1) {
        assert!(line.len() < 4000, "{} bytes: {line:.200}", line.len());
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["parameters_bytes"].as_u64().unwrap() >= 3_000_000, "{line}");
    }
}

/// A port that nobody should connect to.
fn watched_port() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    listener.set_nonblocking(true).unwrap();
    let target = format!("ssh:me@127.0.0.1:{}", listener.local_addr().unwrap().port());
    (listener, target)
}

#[test]
fn a_call_whose_intent_cannot_be_written_is_not_made() {
    let (listener, target) = watched_port();
    let full = Sysmcp::local().unwrap().at(&target);
    symlink("/dev/full", full.audit_log()).unwrap();
    let mut call = full.command();
    call.args(["call", "process_list"]);
    // And one that is full in the middle of the line.
    let almost = written(1).at(&target);
    let limit = fs::metadata(almost.audit_log()).unwrap().len() + 100;
    let mut filling = almost.command();
    filling.args(["call", "process_list"]);
    let cases = [(call, "No space left"), (with_file_limit(&filling, limit), "File too large")];
    for (mut command, why) in cases {
        let output = command.output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(21), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        for words in ["could not write the audit log", why, "nothing is done without one"] {
            assert!(said.contains(words), "{words} is not in {said}");
        }
        assert!(output.stdout.is_empty());
    }
    let connected = listener.accept().map(|_| ());
    assert_eq!(connected.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_log_that_fills_up_during_a_call_hides_no_receipt() {
    let sysmcp = Sysmcp::local().unwrap().with(&["--toolsets", "selftest"]);
    let mut call = sysmcp.command();
    call.args(["call", "self_test", "--params", "{\"count\":15,\"interval_ms\":100}"]);
    let running = patient(&call).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    let log = loop {
        let log = fs::read_to_string(sysmcp.audit_log()).unwrap_or_default();
        if log.contains("\"connected\"") {
            break log;
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{log}");
        sleep(Duration::from_millis(10));
    };
    let limit = Some(log.len() as u64 + 20);
    rustix::process::prlimit(
        Some(rustix::process::Pid::from_child(&running)),
        rustix::process::Resource::Fsize,
        rustix::process::Rlimit { current: limit, maximum: limit },
    )
    .unwrap();
    let output = running.wait_with_output().unwrap();
    let said = said(&output);
    assert_eq!(output.status.code(), Some(21), "{said}");
    assert!(output.stdout.is_empty(), "an answer that is not in the log");
    for words in ["the call was answered, but that could not be written down", "0 processes left"] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    assert_eq!(fs::read_to_string(sysmcp.audit_log()).unwrap(), log);
    assert_eq!(audit("verify", &sysmcp.audit_log()).status.code(), Some(0));
}

#[test]
fn a_log_can_be_verified_without_any_setting() {
    let sysmcp = written(2);
    let log = sysmcp.audit_log();
    let verify = |words: &[&str]| {
        let mut command = without_settings(programs::sysmcp());
        command.env_clear().env("SYSMCP_TARGET", "no target").env("SYSMCP_MAX_CALLS", "99");
        command.args(["audit", "verify"]).args(words).output().unwrap()
    };
    let log = log.to_str().unwrap();
    for words in [[log].as_slice(), &["--config", "/nowhere.toml", log], &["--audit-log", log]] {
        let verified = verify(words);
        assert_eq!(verified.status.code(), Some(0), "{words:?}: {}", said(&verified));
    }
    fs::write(log, b"\xff\n").unwrap();
    assert_eq!(verify(&[log]).status.code(), Some(22));
}
