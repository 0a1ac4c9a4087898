//! What perf says of the same program, where it is installed.

use std::{
    collections::BTreeMap,
    process::{Child, Command, Stdio},
};

/// A recording under way, and the folder that it goes to.
pub struct Under {
    child: Child,
    folder: tempfile::TempDir,
}

pub fn is_here() -> bool {
    let silent = |command: &mut Command| {
        command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|it| it.success())
    };
    // Some distributions have a script of this name that only says what is missing.
    silent(Command::new("perf").arg("--version"))
}

pub fn start(pid: u32, hertz: u32, seconds: u32) -> Under {
    let folder = tempfile::tempdir().unwrap();
    let child = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "--call-graph", "dwarf"])
        .args(["-F", &hertz.to_string(), "-p", &pid.to_string(), "-o"])
        .arg(folder.path().join("data"))
        .args(["--", "sleep", &seconds.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Under { child, folder }
}

/// The share of samples in each function itself.
pub fn shares(mut under: Under) -> BTreeMap<String, f64> {
    assert!(under.child.wait().unwrap().success());
    let output = Command::new("perf")
        .args(["report", "--stdio", "--no-children", "-g", "none", "-F", "overhead,sym", "-i"])
        .arg(under.folder.path().join("data"))
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = |line: &str| {
        let (share, symbol) = line.trim().split_once('%')?;
        let name = symbol.split_once("] ")?.1.trim().to_owned();
        Some((name, share.parse::<f64>().ok()? / 100.0))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(line).collect()
}
