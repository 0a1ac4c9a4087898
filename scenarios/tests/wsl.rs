//! `wsl:` against a stand-in for `wsl.exe`, which writes its arguments down and runs what it is told
//! to: this says what is asked of the real one, and not whether the real one does it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::sysmcp::Sysmcp;
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

/// Writes a line for each argument, and the variable, beside itself; then runs the words behind `-e`.
const RUNS: &str = r#"#!/bin/sh
printf '%s\n' "utf8=$WSL_UTF8" "$@" >> "${0%/*}/arguments"
while [ "$1" != -e ]; do shift; done
shift
exec "$@"
"#;

/// Says what the real one says of a distribution that is not there, in UTF-16 on stdout.
const KNOWS_NONE: &str = r#"#!/bin/sh
text='There is no distribution with the supplied name.
Error code: Wsl/Service/WSL_E_DISTRO_NOT_FOUND'
printf '%s\n' "$text" | iconv -f UTF-8 -t UTF-16LE
exit 255
"#;

/// sysmcp with a stand-in in front of its PATH.
fn sysmcp(folder: &Path, stand_in: &str) -> Sysmcp {
    let program = folder.join("wsl.exe");
    fs::write(&program, stand_in).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = std::env::var("PATH").unwrap();
    let path = format!("{}:{path}", folder.display());
    Sysmcp::local().unwrap().at("wsl:Ubuntu-24.04").with_variable("PATH", path)
}

#[test]
fn the_script_is_started_without_the_login_shell() {
    for (flags, user) in [(&[][..], &[][..]), (&["--sudo"], &["-u", "root"])] {
        let folder = tempfile::tempdir().unwrap();
        let sysmcp = sysmcp(folder.path(), RUNS).with(flags);
        let answer = sysmcp.answer("process_list", &json!({"window_ms": 100})).unwrap();
        assert!(answer.get("processes").is_some(), "{answer}");
        let arguments = fs::read_to_string(folder.path().join("arguments")).unwrap();
        let lines: Vec<&str> = arguments.lines().collect();
        let start = ["utf8=1", "-d", "Ubuntu-24.04"];
        let want = [&start[..], user, &["-e", "/bin/sh", "-c"]].concat();
        // Each script is one line, and one argument: the session's, and that of the look after it.
        let started: Vec<&[&str]> = lines.chunks(want.len() + 1).collect();
        assert_eq!(started.len(), 2, "{arguments}");
        for (started, words) in started.iter().zip(["umask 077; ", "token="]) {
            let (script, before) = started.split_last().unwrap();
            assert_eq!(before, want, "{arguments}");
            assert!(script.starts_with(words), "{script}");
        }
        let audit = fs::read_to_string(sysmcp.audit_log()).unwrap();
        assert!(audit.contains("0 processes left, 0 files left"), "{audit}");
        assert!(audit.contains("looked at again from outside: nothing of it is there"), "{audit}");
    }
}

#[test]
fn a_distribution_that_is_not_there_is_told_from_a_shell_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let output = sysmcp(folder.path(), KNOWS_NONE).call("process_list", &json!({})).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(11), "{said}");
    assert!(said.contains("there is no distribution `Ubuntu-24.04`"), "{said}");
}

#[test]
fn without_wsl_that_is_said() {
    let sysmcp = Sysmcp::local().unwrap().at("wsl:Ubuntu").with_variable("PATH", "/nowhere");
    let output = sysmcp.call("process_list", &json!({})).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(11), "{said}");
    assert!(said.contains("there is no wsl.exe on this machine"), "{said}");
}
