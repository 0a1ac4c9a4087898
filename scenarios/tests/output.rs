//! What is printed, and what happens when it cannot be.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::{programs, sysmcp::Sysmcp, without_settings::without_settings};
use serde_json::json;
use std::{
    fs::OpenOptions,
    process::{Command, Output, Stdio},
};

/// Everything that prints an answer, and the exit code for one that could not be printed.
fn printers() -> Vec<(Sysmcp, Command, i32)> {
    let written = Sysmcp::local().unwrap();
    written.call("process_list", &json!({"limit": 0})).unwrap();
    let mut agent = without_settings(programs::agent());
    agent.args(["--local", "process_list", "--params", "{\"window_ms\":100}"]);
    let mut printers = vec![(Sysmcp::local().unwrap(), agent, 75)];
    let commands: [&[&str]; 6] = [
        &["tools"],
        &["tools", "--json"],
        &["--help"],
        &["call", "process_list", "--quiet", "--params", "{\"window_ms\":100}"],
        &["audit", "verify"],
        &["audit", "script"],
    ];
    for words in commands {
        let sysmcp = Sysmcp::local().unwrap();
        if words.contains(&"audit") {
            std::fs::copy(written.audit_log(), sysmcp.audit_log()).unwrap();
        }
        let mut command = sysmcp.command();
        command.args(words);
        printers.push((sysmcp, command, 24));
    }
    printers
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_printed_is_told() {
    for (_sysmcp, mut command, code) in printers() {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).stderr(Stdio::piped()).output().unwrap();
        let said = said(&output);
        assert_eq!(output.status.code(), Some(code), "{command:?}: {said}");
        assert_eq!(said.lines().count(), 1, "{command:?}: {said}");
        assert!(said.contains("could not write to stdout: No space left"), "{command:?}: {said}");
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    for (_sysmcp, mut command, _) in printers() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command:?}: {}", said(&output));
        assert_eq!(said(&output), "", "{command:?}");
    }
}

#[test]
fn nothing_of_a_path_or_a_target_is_obeyed_by_the_terminal() {
    let bad = "x\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\nsysmcp: all is well";
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join(bad);
    std::fs::write(&log, b"\xff\n").unwrap();
    let log = log.to_str().unwrap();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, format!("[{bad:?}]\nx = \"{bad}\"\n")).unwrap();
    let cases: [&[&str]; 8] = [
        &["audit", "verify", log],
        &["audit", "verify", bad],
        &["--target", bad, "call", "process_list"],
        &["--toolsets", bad, "tools"],
        &["--tools", bad, "tools"],
        &["--config", bad, "tools"],
        &["--config", config.to_str().unwrap(), "tools"],
        &["--audit-log", "/proc/\u{1b}[2J/x", "call", "process_list"],
    ];
    for words in cases {
        let mut command = without_settings(programs::sysmcp());
        let output = command.args(words).env(format!("SYSMCP_{bad}"), "x").output().unwrap();
        assert_ne!(output.status.code(), Some(0), "{words:?}");
        let said = said(&output);
        let is_harmful = |character: char| character.is_control() || character == '\u{202e}';
        for line in said.lines() {
            assert!(line.starts_with("sysmcp: ") && !line.contains(is_harmful), "{said:?}");
        }
        // The variable that is none of ours, and what is wrong.
        assert_eq!(said.lines().count(), 2, "{said}");
    }
}
