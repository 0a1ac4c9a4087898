//! Programs whose memory goes in a way that is known: what must be said of it, and what must not.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use scenarios::{
    client::Client,
    not_run::{not_here, not_run},
    programs,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
    victim::{Victim, built},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::Duration,
};
use tempfile::TempDir;

/// One program at a time: rates are theirs only on a processor of their own.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Looks that a program gets on a machine that others use too.
const ATTEMPTS: usize = 3;

/// An answer over MCP takes so long at most.
const PATIENCE: Duration = Duration::from_secs(60);

const MIB: f64 = 1_048_576.0;

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The program that grows, and the folder it is in.
static GROWER: LazyLock<(TempDir, PathBuf)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().unwrap();
    let program = built("memory/grower.c", folder.path()).unwrap();
    (folder, program)
});

/// A program that does as its first word says, until its stdin closes.
fn grower(words: &[&str]) -> Victim {
    let mut command = Command::new(&GROWER.1);
    Victim::start_and_wait(command.args(words)).unwrap().0
}

fn profile(sysmcp: &Sysmcp, pid: u32, more: &Value) -> Value {
    let mut parameters = json!({"pid": pid, "window_ms": 3000});
    for (name, value) in more.as_object().unwrap() {
        parameters[name] = value.clone();
    }
    sysmcp.answer("memory_profile", &parameters).unwrap()
}

/// Looks at a program until it is called what it is; it must never be called one of some others.
fn check(words: &[&str], class: &str, never: &[&str]) -> Value {
    let _guard = alone();
    let victim = grower(words);
    let sysmcp = Sysmcp::local().unwrap();
    let mut said = Vec::new();
    for _ in 0..ATTEMPTS {
        let answer = profile(&sysmcp, victim.pid(), &json!({}));
        let classes = format!("{} {}", answer["class"], answer["also"]);
        let wrong = never.iter().find(|name| classes.contains(*name));
        assert_eq!(wrong, None, "{words:?} must not be called so: {answer:#}");
        if answer["class"] == class {
            println!("{words:?}: {class} because {}", answer["because"]);
            return answer;
        }
        said.push(answer);
    }
    panic!("{words:?} was never called {class}: {said:#?}");
}

fn rate(answer: &Value, kind: &str, end: &str) -> f64 {
    let rate = &answer["growth"][kind]["rate"][end];
    rate.as_f64().unwrap_or_else(|| panic!("{kind} {end}: {answer:#}")) / MIB
}

const NO_GROWTH: [&str; 3] = ["leak_suspected", "shared_memory_grows", "file_pages_grow"];

/// A leak, through a real sshd: its rate, and when the memory is full.
#[test]
fn a_steady_leak_is_suspected_with_its_rate_and_the_time_that_is_left() {
    let guard = alone();
    let victim = grower(&["leak", "8"]);
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let answer = profile(&Sysmcp::over(&sshd).unwrap(), victim.pid(), &json!({}));
    assert_eq!(answer["class"], "leak_suspected", "{answer:#}");
    let low = rate(&answer, "own", "low_bytes_per_s");
    let high = rate(&answer, "own", "high_bytes_per_s");
    // The program counts its own pauses; on a machine that is busy it is slower, never faster.
    assert!(high >= 4.0 && low <= 8.5 && low > 0.0, "{low} to {high}: {answer:#}");
    let because = answer["because"].to_string();
    assert!(because.contains("grew steadily") && because.contains("at this rate"), "{because}");
    assert_eq!(answer["next"][0]["parameters"]["sites"], true, "{answer:#}");
    assert!(answer["meta"]["overhead"]["agent_cpu_ms"].as_f64().unwrap() < 200.0, "{answer:#}");
    drop(guard);
}

#[test]
fn a_leak_in_steps_is_told_from_one_step() {
    let answer = check(&["steps", "600"], "leak_suspected", &["sawtooth", "flat"]);
    assert!(answer["growth"]["own"]["falls"] == 0, "{answer:#}");
    check(&["once"], "unclear", &NO_GROWTH);
}

#[test]
fn a_saw_is_no_leak() {
    let answer = check(&["saw"], "sawtooth", &NO_GROWTH);
    assert!(answer["because"].to_string().contains("garbage collector"), "{answer:#}");
}

#[test]
fn memory_that_stays_is_flat_also_with_a_noise() {
    check(&["stay"], "flat", &NO_GROWTH);
    check(&["noise"], "flat", &NO_GROWTH);
}

#[test]
fn memory_that_is_given_back_shrinks() {
    check(&["shrink"], "shrinking", &NO_GROWTH);
}

#[test]
fn pages_of_a_file_are_no_leak() {
    let answer = check(&["file"], "file_pages_grow", &["leak_suspected", "shared_memory_grows"]);
    assert!(answer["because"].to_string().contains("no leak"), "{answer:#}");
    assert!(rate(&answer, "file", "low_bytes_per_s") > 0.0, "{answer:#}");
}

#[test]
fn shared_memory_that_grows_is_told_from_its_own() {
    check(&["shared"], "shared_memory_grows", &["leak_suspected", "file_pages_grow"]);
}

#[test]
fn the_function_that_touches_new_memory_is_first_and_more_is_answered_without_recording_again() {
    let _guard = alone();
    let victim = grower(&["leak", "4"]);
    // What was recorded stays for as long as the session.
    let mut session = Client::start(Sysmcp::local().unwrap().command()).unwrap();
    let mut ask = |tool: &str, parameters: Value| {
        session.call(tool, &parameters, PATIENCE).unwrap()["structuredContent"].clone()
    };
    let parameters = json!({"pid": victim.pid(), "window_ms": 3000, "sites": true});
    let answer = ask("memory_profile", parameters);
    if let Some(refused) = answer["refused"].as_array().unwrap().first()
        && answer["sites"].is_null()
    {
        return not_here("sites of new memory", &refused.to_string());
    }
    let sites = &answer["sites"];
    let first = &sites["functions"][0];
    assert_eq!(first["function"]["name"], "remember_request", "{answer:#}");
    assert!(first["share_pct"].as_f64().unwrap() > 90.0, "{answer:#}");
    assert_eq!(sites["called_by"][0]["name"], "serve_requests", "{answer:#}");
    // What the pages make is what it grew by, but for the part of the window that was not sampled.
    let touched = first["at_least_bytes"].as_f64().unwrap() / MIB;
    assert!((4.0..=13.0).contains(&touched), "{touched} MiB: {answer:#}");
    assert!(sites["complete_pct"].as_f64().unwrap() > 95.0, "{answer:#}");
    assert!(answer["because"].to_string().contains("the first function of `sites`"), "{answer:#}");
    assert!(!answer["because"].to_string().contains("remember_request"), "{answer:#}");
    let next = &answer["next"][0];
    assert_eq!(next["tool"], "perf_report", "{answer:#}");
    assert_eq!(next["parameters"]["artifact"], answer["meta"]["artifact"], "{answer:#}");
    let more = ask("perf_report", next["parameters"].clone());
    assert_eq!(more["meta"]["engine"], "stored result", "{more:#}");
    let again =
        ask("perf_report", json!({"artifact": answer["meta"]["artifact"], "sort": "total"}));
    assert!(again.to_string().contains("remember_request"), "{again:#}");
}

#[test]
fn many_faults_are_sampled_more_rarely_and_cost_little() {
    let _guard = alone();
    let victim = grower(&["churn"]);
    let answer = profile(&Sysmcp::local().unwrap(), victim.pid(), &json!({"sites": true}));
    if answer["sites"].is_null() {
        return not_here("sites of new memory", &answer["refused"].to_string());
    }
    let sites = &answer["sites"];
    assert!(sites["each"].as_u64().unwrap() > 1, "{answer:#}");
    assert_eq!(sites["functions"][0]["function"]["name"], "use_and_give_back", "{answer:#}");
    // It touches much, and keeps nothing.
    assert_ne!(answer["class"], "leak_suspected", "{answer:#}");
    assert!(answer["meta"]["overhead"]["agent_cpu_ms"].as_f64().unwrap() < 1_500.0, "{answer:#}");
}

#[test]
fn what_it_consists_of_adds_up() {
    let _guard = alone();
    let victim = grower(&["stay"]);
    let answer = profile(&Sysmcp::local().unwrap(), victim.pid(), &json!({"mappings": 100}));
    let amount = |path: &str| {
        let value = answer.pointer(path).and_then(Value::as_f64);
        value.unwrap_or_else(|| panic!("{path}: {answer:#}"))
    };
    let parts =
        ["anonymous", "file", "shared"].map(|kind| amount(&format!("/composition/{kind}_bytes")));
    let rss = amount("/totals/rss_bytes");
    assert!((parts.iter().sum::<f64>() - rss).abs() < 1.0, "{answer:#}");
    assert!(amount("/totals/uss_bytes") <= amount("/totals/pss_bytes"), "{answer:#}");
    assert!(amount("/totals/pss_bytes") <= rss + MIB, "{answer:#}");
    assert!(amount("/totals/peak_bytes") >= rss, "{answer:#}");
    // It has 32 MiB in its heap, by small blocks, and as much in a block of its own.
    assert!(amount("/composition/heap_bytes") > 31.0 * MIB, "{answer:#}");
    assert!(amount("/composition/anonymous_bytes") > 63.0 * MIB, "{answer:#}");
    let rows = answer["mappings"].as_array().unwrap();
    let first_two: Vec<&str> =
        rows.iter().take(2).map(|row| row["name"].as_str().unwrap()).collect();
    assert!(first_two.contains(&"[heap]") && first_two.contains(&"[anonymous]"), "{rows:#?}");
    let of_rows: f64 = rows.iter().map(|row| row["rss_bytes"].as_f64().unwrap()).sum();
    assert!((of_rows - rss).abs() < MIB, "{of_rows} {rss}");
    assert_eq!(answer["meta"]["truncation"]["cut_by"], "nothing", "{answer:#}");
}

#[test]
fn a_process_of_many_mappings_is_not_read_whole_unasked() {
    let _guard = alone();
    let victim = grower(&["mappings", "16000"]);
    let sysmcp = Sysmcp::local().unwrap();
    let unasked = profile(&sysmcp, victim.pid(), &json!({}));
    assert!(unasked["mappings"].is_null() && unasked["composition"]["heap_bytes"].is_null());
    let why = unasked["meta"]["not_measured"]["mappings"].as_str().unwrap();
    assert!(why.contains("not read unasked") && why.contains("with_smaps"), "{why}");
    let estimated = unasked["smaps"]["estimated_ms"].as_u64().unwrap();
    assert!(estimated > 50, "{unasked:#}");
    assert!(unasked["smaps"]["mappings"].as_u64().unwrap() >= 16_000, "{unasked:#}");
    assert!(unasked["cannot_tell"].to_string().contains(&format!("{estimated} ms")), "{unasked:#}");
    // Their sums are cheap.
    assert!(unasked["totals"]["pss_bytes"].as_u64().unwrap() > 0, "{unasked:#}");
    let asked = profile(&sysmcp, victim.pid(), &json!({"with_smaps": "always", "mappings": 3}));
    let first = &asked["mappings"][0];
    assert!(first["mappings"].as_u64().unwrap() > 1_000, "{asked:#}");
    assert!(asked["composition"]["heap_bytes"].is_u64(), "{asked:#}");
    let never = profile(&sysmcp, victim.pid(), &json!({"with_smaps": "never"}));
    assert!(never["totals"]["pss_bytes"].is_null() && never["totals"]["rss_bytes"].is_u64());
    assert_eq!(never["meta"]["not_measured"]["mappings"], "not asked for", "{never:#}");
}

#[test]
fn of_anothers_process_growth_is_told_and_what_is_missing_with_what_helps() {
    if !rustix::process::geteuid().is_root() {
        return not_run("memory of another user's process", "root, to become another user");
    }
    let _guard = alone();
    let victim = grower(&["leak", "8"]);
    let folder = tempfile::tempdir().unwrap();
    let agent = programs::agent_for_all(folder.path()).unwrap();
    let parameters = json!({"pid": victim.pid(), "window_ms": 2000, "sites": true}).to_string();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&agent)
        .args(["--local", "memory_profile", "--json", "--params", &parameters])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"));
    assert!(rate(&answer, "own", "low_bytes_per_s") > 0.0, "{answer:#}");
    assert!(answer["totals"]["rss_bytes"].is_u64(), "{answer:#}");
    for path in ["totals.pss_bytes", "mappings", "composition.heap_bytes"] {
        let why = answer["meta"]["not_measured"][path].as_str().unwrap_or_default();
        assert!(
            why.contains("belongs to uid 0") && why.contains("connect as root"),
            "{path}: {why}"
        );
    }
    assert!(answer["sites"].is_null(), "{answer:#}");
    let refused = answer["refused"].to_string();
    assert!(refused.contains("root") || refused.contains("cap"), "{refused}");
}

#[test]
fn a_cgroup_with_a_limit_says_what_is_left_and_for_how_long() {
    let _guard = alone();
    let cgroup = match MemoryCgroup::with_limit(256 << 20) {
        Ok(cgroup) => cgroup,
        Err(why) if rustix::process::geteuid().is_root() => {
            return not_here("a cgroup with a memory limit", &why);
        }
        Err(_) => return not_run("a cgroup with a memory limit", "root, for a cgroup"),
    };
    let victim = grower(&["leak", "8"]);
    cgroup.take(victim.pid());
    sleep(Duration::from_millis(300));
    let answer = profile(&Sysmcp::local().unwrap(), victim.pid(), &json!({}));
    let found = &answer["cgroup"];
    assert_eq!(found["limit_bytes"], 256 << 20, "{answer:#}");
    let left = found["left_bytes"].as_u64().unwrap();
    let used = found["working_set_bytes"].as_u64().unwrap();
    assert_eq!(left + used, 256 << 20, "{answer:#}");
    assert!(found["working_set_growth_bytes_per_s"].as_i64().unwrap() > 1 << 20, "{answer:#}");
    let because = answer["because"].to_string();
    assert!(because.contains("the limit of its cgroup is reached"), "{because}");
    drop(victim);
}

/// A cgroup with a memory limit, in whichever version is there.
struct MemoryCgroup(PathBuf);

impl MemoryCgroup {
    fn with_limit(bytes: u64) -> Result<Self, String> {
        let name = format!("memory-{}", std::process::id());
        for (top, limit) in
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")]
        {
            let folder = PathBuf::from(top).join(&name);
            if fs::create_dir(&folder).is_ok() {
                let made = Self(folder);
                if fs::write(made.0.join(limit), bytes.to_string()).is_ok() {
                    return Ok(made);
                }
            }
        }
        Err("no cgroup hierarchy with the memory controller can be written".to_owned())
    }

    fn take(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // The kernel takes a moment to let its last process go.
        for _ in 0..100 {
            if fs::remove_dir(&self.0).is_ok() {
                return;
            }
            sleep(Duration::from_millis(20));
        }
    }
}

#[test]
fn a_process_without_memory_says_so() {
    let _guard = alone();
    // The first thread of the kernel, where it is to be seen.
    let kthreadd = fs::read_to_string("/proc/2/comm").unwrap_or_default();
    if kthreadd.trim() != "kthreadd" {
        return not_here("a thread of the kernel", "a process namespace hides them");
    }
    let answer = profile(&Sysmcp::local().unwrap(), 2, &json!({"window_ms": 1000, "sites": true}));
    assert!(answer["growth"]["own"].is_null() && answer["mappings"].is_null(), "{answer:#}");
    let why = answer["meta"]["absent"]["growth.own"].as_str().unwrap();
    assert!(why.contains("kernel thread"), "{why}");
}
