//! Processes that are hostile to whoever looks at them, made for real: the answer stays whole.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rustix::process::geteuid;
use scenarios::{not_run::not_run, sysmcp::Sysmcp};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A program that ends with the test, however it ends.
struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Builds a program in C from the folder beside this file; `None` where it cannot be run.
fn built(name: &str, folder: &Path) -> std::path::PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hostile_proc");
    let program = folder.join(name);
    let status = Command::new("cc")
        .args(["-O1", "-pthread", "-o"])
        .arg(&program)
        .arg(source.join(format!("{name}.c")))
        .status()
        .unwrap();
    assert!(status.success(), "{name}.c is not built");
    program
}

fn rows(answer: &Value) -> &[Value] {
    answer["processes"].as_array().unwrap()
}

fn row(answer: &Value, pid: u32) -> &Value {
    let row = rows(answer).iter().find(|row| row["pid"] == pid);
    row.unwrap_or_else(|| panic!("pid {pid} is not listed: {answer}"))
}

/// The youngest processes, and so those that a test has just started.
fn youngest() -> Value {
    let parameters = json!({"sort": "youngest", "limit": 100, "window_ms": 200});
    Sysmcp::local().unwrap().answer("process_list", &parameters).unwrap()
}

#[test]
fn a_process_that_lets_no_reader_go_is_listed_and_the_others_with_it() {
    if !geteuid().is_root() || !Path::new("/dev/fuse").exists() {
        return not_run("a process whose memory lock is held", "root, and /dev/fuse");
    }
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut command = Command::new(built("memory_lock", folder.path()));
    command.arg(&empty).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut victim = Victim(command.spawn().unwrap());
    let mut line = String::new();
    BufReader::new(victim.0.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pid: u32 = line.trim().parse().unwrap();

    let started = Instant::now();
    let answer = youngest();
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    let stuck = row(&answer, pid);
    assert_eq!((&stuck["name"], &stuck["command"]), (&json!("memory_lock"), &Value::Null));
    assert_eq!(row(&answer, victim.0.id())["command"].as_str().unwrap().split(' ').count(), 2);
    let said = answer["meta"]["not_measured"].to_string();
    assert!(
        said.contains("did not return within 100 ms") && said.contains("memory lock"),
        "{said}"
    );

    // Its other files say what its thread waits in, though not with which arguments it was started.
    let sysmcp = Sysmcp::local().unwrap();
    let output = sysmcp.call("process_inspect", &json!({"pid": pid, "window_ms": 500})).unwrap();
    assert!(output.status.success(), "the agent did not end as it should: {output:?}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["process"]["command"], Value::Null, "{answer}");
    let groups = answer["waits"]["groups"].as_array().unwrap();
    assert!(groups.iter().any(|group| group["syscall"] == "mmap"), "{answer}");
    assert!(answer["meta"]["not_measured"].to_string().contains("memory lock"), "{answer}");
}
