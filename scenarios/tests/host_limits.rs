//! What limits a part of a machine while the machine itself is well: quotas, mounts; and what is not
//! known of a machine, also to root.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::{
    faults::Fault,
    not_run::{not_here, not_run},
    service::Scenario,
    silent_mount::SilentMount,
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

/// A mount that hangs is seen by all.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn classes(answer: &Value) -> String {
    format!("{} {}", answer["class"], answer["also"])
}

#[test]
fn a_quota_that_is_too_small_is_found_on_the_machine() {
    if !rustix::process::geteuid().is_root() {
        return not_run("a cgroup that is throttled", "root, for a CPU cgroup");
    }
    let _guard = alone();
    let scenario = Scenario::start(Fault::QuotaTooSmall).unwrap();
    let name = format!("scenario-{}", scenario.pid());
    sleep(Duration::from_millis(500));
    let answer = Sysmcp::local().unwrap().answer("host_snapshot", &json!({})).unwrap();
    let cgroups = &answer["cgroups"];
    let rows = cgroups["throttled"].as_array().unwrap_or_else(|| panic!("{answer:#}"));
    let row = rows.iter().find(|row| row["path"].as_str().unwrap().ends_with(&name));
    let row = row.unwrap_or_else(|| panic!("{name} is not found: {answer:#}"));
    assert!(row["throttled_pct"].as_f64().unwrap() >= 30.0, "{row}");
    assert_eq!(row["quota_cores"], 0.2, "{row}");
    assert!(classes(&answer).contains("cgroup_throttled"), "{answer:#}");
    drop(scenario);
}

#[test]
fn a_mount_that_does_not_answer_is_in_nobodys_way() {
    let _guard = alone();
    let folder = tempfile::tempdir().unwrap();
    let mount = match SilentMount::on(folder.path()) {
        Ok(mount) => mount,
        Err(error) => return not_here("a mount that does not answer", &error.to_string()),
    };
    let sysmcp = Sysmcp::local().unwrap();
    // The others answered, and what waits for an answer is not called a hanging task.
    let all = json!({"window_ms": 500, "limit": 100, "detail": "full"});
    let full = sysmcp.answer("host_snapshot", &all).unwrap();
    let answered = full["mounts"]["ranked"].as_array().unwrap();
    assert!(answered.iter().any(|row| row["answer"] == "answered" && !row["used_pct"].is_null()));
    assert!(!full["blocked"].to_string().contains("sysmcp"), "{}", full["blocked"]);
    let started = Instant::now();
    let answer = sysmcp.answer("host_snapshot", &json!({"window_ms": 500})).unwrap();
    let took = started.elapsed();
    let first = &answer["mounts"]["ranked"][0];
    assert_eq!(first["path"], folder.path().to_str().unwrap(), "{answer:#}");
    assert_eq!((&first["kind"], &first["answer"]), (&json!("fuse.silent"), &json!("none")));
    assert!(first["waited_ms"].as_u64().unwrap() >= 300, "{first}");
    assert_eq!(answer["mounts"]["no_answer_total"], 1, "{answer:#}");
    assert!(classes(&answer).contains("mount_hangs"), "{answer:#}");
    println!("with a mount that does not answer, the call took {took:?}");
    drop(mount);
    // Nothing of the agent is left once the server is gone.
    let ends = Instant::now() + Duration::from_secs(10);
    while is_asked() {
        assert!(Instant::now() < ends, "a child of the agent is left");
        sleep(Duration::from_millis(50));
    }
}

/// Whether a child of an agent asks a file system.
fn is_asked() -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read_to_string(process.path().join("comm")).ok())
        .any(|name| name.trim() == "sysmcp-ask")
}

/// A tool, and its parameters for a process that is well.
type Asked = (&'static str, fn(u32) -> Value);

/// Every tool that measures. One more is added here, and what it may leave open in the golden.
const ASKED: [Asked; 8] = [
    ("host_snapshot", |_| json!({"detail": "full", "limit": 100})),
    ("process_list", |_| json!({"limit": 200})),
    ("process_inspect", |pid| json!({"pid": pid, "threads": 100})),
    ("perf_record", |pid| json!({"pid": pid, "hertz": 999, "window_ms": 2_000})),
    ("inspect_source", |pid| json!({"pid": pid, "function": "main"})),
    ("memory_profile", |pid| json!({"pid": pid, "mappings": 100, "sites": true})),
    ("latency", |_| json!({"window_ms": 1_000})),
    ("syscall_trace", |pid| json!({"pid": pid, "mode": "detailed", "window_ms": 1_000})),
];

/// Root is told everything, but for what is listed, with the reason, in a file.
#[test]
fn what_root_is_not_told_is_on_a_list() {
    if !rustix::process::geteuid().is_root() {
        return not_run("what root is not told", "root");
    }
    let _guard = alone();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden/unknown_to_root.txt");
    let list = fs::read_to_string(path).unwrap();
    let mut allowed: BTreeMap<(&str, &str, &str), &str> = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (field, reason) = line.split_once(": ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(reason.len() > 10, "no reason: {line}");
        let words: Vec<&str> = field.split(' ').collect();
        let [tool, kind, path] = words.as_slice() else { panic!("not a field: {line}") };
        assert!(allowed.insert((tool, kind, path), reason).is_none(), "twice: {line}");
    }
    let healthy = Scenario::start(Fault::Healthy).unwrap();
    sleep(Duration::from_millis(500));
    let sysmcp = Sysmcp::local().unwrap();
    let mut unexpected = BTreeSet::new();
    for (tool, parameters) in ASKED {
        let answer = sysmcp.answer(tool, &parameters(healthy.pid())).unwrap();
        for kind in ["not_measured", "absent"] {
            let fields = answer["meta"][kind].as_object().unwrap();
            for (path, reason) in fields {
                println!("{tool} {kind} {path}: {reason}");
                if !allowed.contains_key(&(tool, kind, path.as_str())) {
                    unexpected.insert(format!("{tool} {kind} {path}: {reason}"));
                }
            }
        }
    }
    assert!(unexpected.is_empty(), "root was not told: {unexpected:#?}");
}
