//! A machine that is captured, and asked later.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use scenarios::{
    client::Client,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Output},
    time::Duration,
};

/// A process that keeps one processor busy, gone with the test.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        Self(Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn capture(sysmcp: &Sysmcp, folder: &Path, more: &[&str]) -> Output {
    sysmcp.command().arg("capture").arg(folder).args(more).output().unwrap()
}

fn captured(sysmcp: &Sysmcp, folder: &Path, more: &[&str]) {
    let output = capture(sysmcp, folder, more);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn snapshot(folder: &Path) -> Sysmcp {
    Sysmcp::local().unwrap().at(&format!("snapshot:{}", folder.display()))
}

/// The paths of what was not measured.
fn not_measured(answer: &Value) -> BTreeSet<String> {
    // Where all was measured, there is none.
    let reasons = answer["meta"]["not_measured"].as_object();
    reasons.into_iter().flat_map(|reasons| reasons.keys().cloned()).collect()
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn a_captured_machine_answers_as_it_did() {
    let busy = Busy::start();
    let pid = busy.0.id();
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("taken here");
    let live = Sysmcp::local().unwrap();
    // Whatever else runs here at the same time, the process has to fit in.
    captured(&live, &folder, &["--why", "for a test", "--max-bytes", "4194304"]);
    let inspect = json!({"pid": pid});
    let questions = [
        ("host_snapshot", json!({})),
        ("process_list", json!({"limit": 200, "max_tokens": 9500})),
        ("process_inspect", inspect),
    ];
    let now: Vec<Value> =
        questions.iter().map(|(tool, parameters)| live.answer(tool, parameters).unwrap()).collect();
    // It is asked when the process is gone.
    drop(busy);
    let taken = snapshot(&folder);
    let then: Vec<Value> = questions
        .iter()
        .map(|(tool, parameters)| taken.answer(tool, parameters).unwrap())
        .collect();
    for then in &then {
        assert_eq!(then["meta"]["engine"], "snapshot");
        let window = then["meta"]["window_ms"].as_f64().unwrap();
        assert!((1000.0..30_000.0).contains(&window), "{window}");
        let about = then["meta"]["snapshot"].as_str().unwrap();
        assert!(about.starts_with("taken 20") && about.contains("of host-1"), "{about}");
    }
    for answer in [0, 2] {
        let (now, then) = (not_measured(&now[answer]), not_measured(&then[answer]));
        let more: Vec<_> = then.difference(&now).collect();
        assert!(more.is_empty(), "of the machine itself these are known: {more:?}");
    }
    assert_eq!(then[0]["memory"]["total_bytes"], now[0]["memory"]["total_bytes"]);
    assert_eq!(then[0]["cpu"]["online"], now[0]["cpu"]["online"]);
    let [row_now, row] = [&now[1], &then[1]].map(|answer| {
        let rows = answer["processes"].as_array().unwrap();
        rows.iter().find(|row| row["pid"] == pid).unwrap()
    });
    let unknown = |row: &Value| -> BTreeSet<String> {
        let fields = row.as_object().unwrap().iter();
        fields.filter(|(_, value)| value.is_null()).map(|(name, _)| name.clone()).collect()
    };
    assert!(unknown(row).is_subset(&unknown(row_now)), "{row} and {row_now}");
    assert!(row["cpu_pct"].as_f64().unwrap() > 5.0, "{row}");
    assert!(row["command"].as_str().unwrap().contains("while"), "{row}");
    assert_eq!(then[2]["process"]["start_ticks"], now[2]["process"]["start_ticks"]);
    assert!(then[2]["cpu"]["running_pct"].as_f64().unwrap() > 5.0, "{}", then[2]);
}

#[test]
fn a_capture_over_ssh_is_within_its_limit_and_tells_nobodys_secret() {
    let secret = "hunter2hunter2";
    let mut busy = Command::new("sh");
    busy.args(["-c", "while :; do :; done", "x", &format!("--password={secret}")]);
    busy.env("SYSMCP_TEST_MARK", "never-taken-along");
    let _busy = Busy(busy.spawn().unwrap());
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("over-ssh");
    captured(&Sysmcp::over(&sshd).unwrap(), &folder, &["--window-ms", "200"]);
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut bytes = 0;
    for file in files(&folder) {
        let text = fs::read(&file).unwrap();
        bytes += text.len();
        let holds = |word: &str| text.windows(word.len()).any(|window| window == word.as_bytes());
        assert!(!holds(secret) && !holds("never-taken-along"), "{}", file.display());
        let is_name = file.ends_with("proc/sys/kernel/hostname");
        assert!(!is_name || !holds(name.trim()), "{}", file.display());
        let ending = file.file_name().unwrap();
        assert!(ending != "environ", "{}", file.display());
    }
    assert!((10_000..300_000).contains(&bytes), "{bytes} bytes");
    let answer = snapshot(&folder).answer("host_snapshot", &json!({})).unwrap();
    assert!(answer["class"].is_string(), "{answer}");
}

#[test]
fn a_small_limit_leaves_out_what_matters_least_and_says_so() {
    let _busy = Busy::start();
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("small");
    captured(&Sysmcp::local().unwrap(), &folder, &["--max-bytes", "65536"]);
    let bytes: u64 = files(&folder).iter().map(|file| file.metadata().unwrap().len()).sum();
    assert!(bytes <= 65_536 + 2_000, "{bytes} bytes, with what says where they are from");
    let machine = fs::read_to_string(folder.join("machine.toml")).unwrap();
    let left_out = machine.lines().find_map(|line| line.strip_prefix("details = ")).unwrap();
    assert!(left_out.parse::<u32>().unwrap() > 0, "{machine}");
    let answer = snapshot(&folder).answer("process_list", &json!({"limit": 200})).unwrap();
    let rows = answer["processes"].as_array().unwrap();
    let whole = rows.iter().filter(|row| row["user"].is_string()).count();
    assert!((1..rows.len()).contains(&whole), "{whole} of {}", rows.len());
    let about = answer["meta"]["snapshot"].as_str().unwrap();
    assert!(about.contains("only the line was taken"), "{about}");
}

#[test]
fn a_folder_that_holds_something_is_not_filled() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("there");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("mine"), "").unwrap();
    let output = capture(&Sysmcp::local().unwrap(), &folder, &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("not empty"), "{said}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    // One whose target does not answer leaves nothing.
    let output =
        capture(&Sysmcp::local().unwrap().at("ssh:127.0.0.1:1"), &parent.path().join("new"), &[]);
    assert!(!output.status.success());
    assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1);
}

#[test]
fn what_is_no_snapshot_is_said_to_be_none() {
    let parent = tempfile::tempdir().unwrap();
    for (folder, want) in [
        (parent.path().join("nowhere"), "there is no such folder"),
        (parent.path().to_owned(), "no proc in it"),
        ("/".into(), "this machine's own"),
    ] {
        let output = snapshot(&folder).call("host_snapshot", &json!({})).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(10), "{said}");
        assert!(said.contains(want) && said.contains("sysmcp capture"), "{said}");
    }
}

#[test]
fn a_snapshot_is_served_like_any_target() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/machines");
    let taken = snapshot(&fixtures.join("debian12-6.18-quota"));
    let mut client = Client::start(taken.command()).unwrap();
    let asked = json!({"pid": 3, "window_ms": 60_000});
    let result = client.call("process_inspect", &asked, Duration::from_secs(20)).unwrap();
    let answer = &result["structuredContent"];
    // The window that was asked for is not waited for, and the one there was is named.
    assert!((900..1200).contains(&answer["meta"]["window_ms"].as_u64().unwrap()), "{answer}");
    assert_eq!(answer["cgroup"]["cpu_quota_cores"], 0.4);
    assert!(answer["cgroup"]["throttling"]["throttled_periods"].as_u64().unwrap() > 0, "{answer}");
}

#[test]
fn a_plain_copy_has_no_rates_and_cannot_be_captured() {
    let parent = tempfile::tempdir().unwrap();
    let own = parent.path().join("proc/self");
    fs::create_dir_all(&own).unwrap();
    for name in ["stat", "meminfo", "loadavg", "uptime"] {
        fs::copy(Path::new("/proc").join(name), parent.path().join("proc").join(name)).unwrap();
    }
    let pid = std::process::id();
    let process = parent.path().join("proc").join(pid.to_string());
    fs::create_dir(&process).unwrap();
    for name in ["stat", "status", "cmdline", "cgroup"] {
        fs::copy(format!("/proc/{pid}/{name}"), process.join(name)).unwrap();
    }
    let taken = snapshot(parent.path());
    let answer = taken.answer("process_list", &json!({"sort": "rss"})).unwrap();
    let row = &answer["processes"][0];
    assert_eq!(row["pid"], pid);
    assert!(row["rss_bytes"].as_f64().unwrap() > 0.0 && row["age_s"].is_number(), "{row}");
    assert_eq!((&row["cpu_pct"], &answer["meta"]["window_ms"]), (&Value::Null, &Value::Null));
    let why = answer["meta"]["not_measured"]["processes[].cpu_pct"].as_str().unwrap();
    assert!(why.contains("one instant"), "{why}");
    let output = capture(&taken, &parent.path().join("again"), &[]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("a snapshot cannot be captured"), "{said}");
    assert!(!parent.path().join("again").exists());
}
