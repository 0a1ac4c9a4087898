//! Programs that count their own system calls: what is said of them must be the same numbers.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use scenarios::{
    not_run::not_run,
    programs,
    victim::{Victim, built},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// One at a time: what is watched is not to wait for what other tests do.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// The program and the agent, and the folder they are in.
static PLACE: LazyLock<(TempDir, PathBuf, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let program = built("traced/service.c", folder.path()).unwrap();
    let agent = programs::agent_for_all(folder.path()).unwrap();
    (folder, program, agent)
});

/// How long is watched: many times what the program takes, also on a machine that is busy.
const WINDOW_MS: u64 = 4_000;

/// Windows that a program gets on a machine on which it does not come to its end within one.
const ATTEMPTS: u32 = 4;

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the program counted itself.
#[derive(Debug)]
struct Truth {
    opened: u64,
    missing: u64,
    took_us: u64,
}

impl Truth {
    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join("done")).ok()?;
        let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap()).collect();
        let [opened, missing, _, took_us] = numbers[..] else { panic!("{text}") };
        Some(Self { opened, missing, took_us })
    }
}

/// Whether an agent's programs are attached, by its descriptors.
fn is_attached(agent: u32) -> bool {
    let Ok(files) = fs::read_dir(format!("/proc/{agent}/fd")) else { return false };
    let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
    let is_link = |link: &PathBuf| {
        let name = link.to_string_lossy();
        name.contains("tracepoint") || name.contains("bpf_link") || name.contains("bpf-link")
    };
    links.filter(is_link).count() >= 3
}

/// Watches the program while it does what it is told; the answer and the truth, and the folder. Nothing
/// where programs may not be loaded.
fn watched(check: &str, work: [&str; 2], mode: &str) -> Option<(Value, Truth, String)> {
    let (_, program, agent) = &*PLACE;
    for attempt in 1..=ATTEMPTS {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("etc")).unwrap();
        fs::write(folder.path().join("etc/app.conf"), "retries = 3\n").unwrap();
        let mut command = Command::new(program);
        command.arg(folder.path()).args(work);
        let (mut victim, _) = Victim::start_and_wait(&mut command).unwrap();
        let parameters = json!({
            "pid": victim.pid(), "mode": mode, "engine": "ebpf",
            "window_ms": WINDOW_MS * u64::from(attempt),
        });
        let mut asked = Command::new(agent);
        asked.args(["--local", "syscall_trace", "--json", "--params", &parameters.to_string()]);
        let mut asked = asked.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let patience = Instant::now() + Duration::from_secs(30);
        while !is_attached(asked.id()) && asked.try_wait().unwrap().is_none() {
            assert!(Instant::now() < patience, "nothing was attached");
            sleep(Duration::from_millis(10));
        }
        victim.0.stdin.as_mut().unwrap().write_all(b"g").unwrap();
        let output = asked.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() && said.contains("CAP_BPF") {
            let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!is_ci, "programs must load in CI: {said}");
            not_run(check, "a login that may load eBPF programs");
            return None;
        }
        let answer = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
        if let Some(truth) = Truth::read(folder.path()) {
            let folder = fs::canonicalize(folder.path()).unwrap();
            return Some((answer, truth, folder.to_str().unwrap().to_owned()));
        }
    }
    panic!("the program did not come to its end in {ATTEMPTS} windows");
}

/// The row of a subject.
fn subject<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let rows = answer["subjects"].as_array().unwrap();
    let row = rows.iter().find(|row| row["subject"]["name"] == name);
    row.unwrap_or_else(|| panic!("no row of {name}: {answer:#}"))
}

/// How often a row has a call.
fn count_of(row: &Value, call: &str) -> u64 {
    let calls = row["calls"].as_array().unwrap();
    let found = calls.iter().find(|row| row["call"] == call);
    found.map_or(0, |row| row["count"].as_u64().unwrap())
}

fn assert_nothing_lost(answer: &Value) {
    assert_eq!(answer["meta"]["lost"]["events"], 0, "{answer:#}");
    assert_eq!(answer["meta"]["engine"], "eBPF", "{answer:#}");
}

#[test]
fn a_configuration_that_is_read_for_each_request_is_first_with_its_exact_count() {
    let _guard = alone();
    let check = "a configuration that is read for each request";
    let Some((answer, truth, folder)) = watched(check, ["each", "2000"], "detailed") else {
        return;
    };
    assert_nothing_lost(&answer);
    assert_eq!((truth.opened, truth.missing), (2_000, 2_000));
    let first = &answer["subjects"][0];
    assert_eq!(first["subject"]["name"], format!("{folder}/etc/app.conf"), "{answer:#}");
    assert_eq!(first["subject"]["is_partial"], false);
    for call in ["openat", "read", "close"] {
        assert_eq!(count_of(first, call), truth.opened, "{call}: {answer:#}");
    }
    assert_eq!(first["failed"], 0, "{answer:#}");
    let missing = subject(&answer, &format!("{folder}/etc/override.conf"));
    assert_eq!((&missing["failed"], &missing["count"]), (&json!(2_000), &json!(2_000)));
    assert_eq!(missing["errors"][0]["error"], "ENOENT", "{answer:#}");
    assert_eq!(missing["errors"][0]["count"], 2_000, "{answer:#}");
}

#[test]
fn one_that_is_read_once_is_not_blamed() {
    let _guard = alone();
    let check = "a configuration that is read once";
    let Some((answer, truth, folder)) = watched(check, ["once", "20000"], "detailed") else {
        return;
    };
    assert_nothing_lost(&answer);
    assert_eq!(truth.opened, 1);
    let row = subject(&answer, &format!("{folder}/etc/app.conf"));
    assert_eq!(count_of(row, "openat"), 1, "{answer:#}");
    let log = &answer["subjects"][0];
    assert_eq!(log["subject"]["name"], format!("{folder}/log"), "{answer:#}");
    assert_eq!(count_of(log, "write"), 20_000, "{answer:#}");
}

#[test]
fn many_short_children_that_read_one_file_are_one_row() {
    let _guard = alone();
    let check = "short children on one file";
    let Some((answer, truth, folder)) = watched(check, ["children", "200"], "detailed") else {
        return;
    };
    assert_nothing_lost(&answer);
    let row = subject(&answer, &format!("{folder}/etc/app.conf"));
    assert_eq!(count_of(row, "openat"), truth.opened, "{answer:#}");
    assert_eq!((&row["processes"], &row["pid"]), (&json!(200), &Value::Null), "{answer:#}");
    let waited = &answer["waited_for"][0];
    assert_eq!((&waited["subject"]["kind"], &waited["count"]), (&json!("child"), &json!(200)));
}

#[test]
fn every_one_of_a_million_quick_calls_is_counted() {
    let _guard = alone();
    let check = "a million quick calls";
    for mode in ["summary", "detailed"] {
        let Some((answer, truth, _)) = watched(check, ["calls", "1000000"], mode) else { return };
        let rows = answer["calls"].as_array().unwrap();
        let row = rows.iter().find(|row| row["call"] == "getppid").unwrap();
        let lost = answer["meta"]["lost"]["events"].as_u64().unwrap();
        let counted = row["count"].as_u64().unwrap();
        assert_eq!((counted + lost, lost), (1_000_000, 0), "{mode}: {answer:#}");
        let latency = row["succeeded"]["latency"]["counts"].as_array().unwrap();
        let in_buckets: u64 = latency.iter().map(|count| count.as_u64().unwrap()).sum();
        assert_eq!(in_buckets, counted, "{mode}");
        println!("{mode}: {} calls a second", 1_000_000_000_000 / truth.took_us.max(1));
    }
}

/// Who is watched makes calls in a process of its own: others must be in no row.
#[test]
fn what_others_do_meanwhile_is_in_no_row() {
    let _guard = alone();
    let (_, program, _) = &*PLACE;
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(program);
    command.arg(folder.path()).args(["calls", "100000000"]);
    let (mut other, _) = Victim::start_and_wait(&mut command).unwrap();
    other.0.stdin.as_mut().unwrap().write_all(b"g").unwrap();
    let found = watched("what others do meanwhile", ["once", "100"], "summary");
    other.0.kill().unwrap();
    let Some((answer, _, _)) = found else { return };
    assert_eq!(answer["processes"], 1, "{answer:#}");
    let text = answer["calls"].to_string();
    assert!(!text.contains("getppid"), "{answer:#}");
    let mut rest = Vec::new();
    let _ = other.0.stdin.take().map(drop);
    let _ = fs::File::open("/dev/null").unwrap().read_to_end(&mut rest);
}
