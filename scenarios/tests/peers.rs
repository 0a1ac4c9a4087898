//! The clients that users have, against a real target over SSH: the Python SDK and the Inspector,
//! in both eras of the protocol. `cargo xtask test` installs them.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::{
    not_run::not_run,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
    without_settings::without_settings,
};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

/// A script that starts the server for a target, for clients that take one word as their command.
struct Server {
    _sshd: Sshd,
    _sysmcp: Sysmcp,
    script: PathBuf,
}

fn server() -> Server {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap().with(&["--toolsets", "diagnose,selftest"]);
    let script = sshd.file("serve");
    let command = sysmcp.command();
    let words: Vec<String> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| format!("'{}'", word.to_string_lossy()))
        .collect();
    fs::write(&script, format!("#!/bin/sh\nexec {} serve\n", words.join(" "))).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    Server { _sshd: sshd, _sysmcp: sysmcp, script }
}

fn installed(variable: &str, what: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        not_run(what, "`cargo xtask test`, which installs it");
    }
    path
}

fn said(output: &Output) -> String {
    format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn the_python_sdk_lists_and_calls_every_tool() {
    let Some(python) = installed("SYSMCP_TEST_PYTHON", "the Python SDK") else { return };
    let server = server();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/every_tool.py");
    for mode in ["auto", "legacy", "2026-07-28"] {
        let output = without_settings(&python).arg(&script).arg(&server.script).arg(mode).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{mode}: {}", said(&output));
        println!("{}", said(&output));
    }
}

/// Runs the Inspector once.
fn inspect(bin: &Path, server: &Server, era: &str, arguments: &[&str]) -> Output {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    without_settings(bin.join("mcp-inspector"))
        .arg("--cli")
        .arg(&server.script)
        .args(["--protocol-era", era, "--format", "json", "-q"])
        .args(arguments)
        .env("PATH", path)
        .output()
        .unwrap()
}

#[test]
fn the_inspector_is_strict_and_content_in_both_eras() {
    let Some(bin) = installed("SYSMCP_TEST_NODE", "the MCP Inspector") else { return };
    let server = server();
    let own_pid = std::process::id();
    for era in ["modern", "legacy"] {
        let list = inspect(&bin, &server, era, &["--method", "tools/list", "--strict"]);
        assert!(list.status.success(), "{era}: {}", said(&list));
        let listed: Value = serde_json::from_slice(&list.stdout).unwrap();
        let text = listed.to_string();
        let calls = [
            ("capabilities", "{}".to_owned()),
            ("host_snapshot", "{\"window_ms\":300}".to_owned()),
            ("process_list", "{\"window_ms\":300}".to_owned()),
            ("process_inspect", format!("{{\"pid\":{own_pid},\"window_ms\":300}}")),
            ("self_test", "{\"count\":3}".to_owned()),
        ];
        for (tool, arguments) in calls {
            assert!(text.contains(&format!("\"{tool}\"")), "{era}: {tool} is not listed");
            let call = ["--method", "tools/call", "--tool-name", tool, "--tool-args-json"];
            let output = inspect(&bin, &server, era, &[&call[..], &[&arguments]].concat());
            assert!(output.status.success(), "{era} {tool}: {}", said(&output));
            assert!(said(&output).contains("overhead"), "{era} {tool}: {}", said(&output));
        }
        // An error of a tool is told as one.
        let call = ["--method", "tools/call", "--tool-name", "process_inspect"];
        let wrong = [&call[..], &["--tool-args-json", "{\"pid\":0}"]].concat();
        let output = inspect(&bin, &server, era, &wrong);
        assert_eq!(output.status.code(), Some(5), "{era}: {}", said(&output));
    }
}
