//! A login that may not sample looks at threads, and says so: refused by a filter of system calls, and by
//! the owner of the process. Whoever asks has threads stopped for a moment; they run on, whatever ends
//! the agent in that moment.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use rustix::process::{Pid, Signal, geteuid, kill_process};
use scenarios::{
    behind::behind,
    client::Client,
    not_run::{not_here, not_run},
    programs,
    sysmcp::Sysmcp,
    victim::Victim,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// How an answer names what it was made by.
const LOOKS: &str = "looks at threads";

/// Becomes a user without rights.
const NOBODY: [&str; 5] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];

/// Puts a filter on itself that refuses `perf_event_open`, and runs the rest of its words.
fn without_events() -> [String; 4] {
    let [prctl, events] = if cfg!(target_arch = "x86_64") { [157, 298] } else { [167, 241] };
    let script = format!(
        "my @f = ([0x20,0,0,0], [0x15,0,1,{events}], [6,0,0,0x50000+13], [6,0,0,0x7fff0000]); \
         my $f = join '', map {{ pack 'SCCL', @$_ }} @f; \
         my $p = pack 'S x6 P', scalar(@f), $f; \
         syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die; \
         syscall({prctl}, 22, 2, $p) == 0 or die; exec @ARGV or die"
    );
    ["perl".to_owned(), "-e".to_owned(), script, "--".to_owned()]
}

/// The agent and a program with shares that are known, where everybody may run them.
struct Place {
    _folder: tempfile::TempDir,
    agent: PathBuf,
    busy: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = programs::agent_for_all(folder.path()).unwrap();
        let busy = folder.path().join("busy");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/binaries/busy.c");
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-fomit-frame-pointer", "-pthread", "-o"]).arg(&busy).arg(source);
        assert!(compiler.status().unwrap().success());
        fs::set_permissions(&busy, fs::Permissions::from_mode(0o755)).unwrap();
        Self { _folder: folder, agent, busy }
    }

    fn command(&self, before: &[String], parameters: &Value) -> Command {
        let agent = self.agent.to_str().unwrap().to_owned();
        let words: Vec<String> = before.iter().cloned().chain([agent]).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["--local", "perf_record", "--json", "--params"]);
        command.arg(parameters.to_string());
        command
    }

    fn ask(&self, before: &[String], parameters: &Value) -> Value {
        let output = self.command(before, parameters).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{before:?}: {said}"))
    }
}

fn words(parts: &[&[&str]]) -> Vec<String> {
    parts.concat().iter().map(ToString::to_string).collect()
}

fn as_nobody_without_events() -> Vec<String> {
    let filter = without_events();
    filter.iter().cloned().chain(words(&[&NOBODY])).collect()
}

fn share(answer: &Value, function: &str) -> f64 {
    let rows = answer["functions"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == function);
    row.map_or(0.0, |row| row["total_pct"].as_f64().unwrap())
}

/// State and tracer of a process, as the kernel tells them.
fn state(pid: u32) -> (char, u32) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    };
    (value("State:").chars().next().unwrap(), value("TracerPid:").parse().unwrap())
}

/// Asserts that a process goes on, and that nobody traces it.
fn assert_runs_on(pid: u32, what: &str) {
    let ticks = || {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let fields: Vec<&str> = text.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11].parse::<u64>().unwrap()
    };
    let started = Instant::now();
    let before = ticks();
    while state(pid) != ('R', 0) || ticks() < before + 2 {
        let seen = state(pid);
        assert!(started.elapsed() < Duration::from_secs(20), "{what}: {seen:?}");
        sleep(Duration::from_millis(5));
    }
}

fn may_change_users(check: &str) -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        not_run(check, "root, to become another user");
    }
    is_root
}

#[test]
fn a_user_whom_a_filter_refuses_events_sees_what_threads_wait_in_and_is_told_why() {
    if !may_change_users("looks of a user behind a filter") {
        return;
    }
    let place = Place::new();
    let sleeper = Victim::settled(&[&NOBODY[..], &["sleep", "1000"]].concat()).unwrap();
    let parameters = json!({"pid": sleeper.pid(), "window_ms": 1500});
    let answer = place.ask(&as_nobody_without_events(), &parameters);
    assert_eq!(answer["recording"]["counted"], "looks", "{answer}");
    assert_eq!(answer["meta"]["engine"], LOOKS, "{answer}");
    assert_eq!(answer["looks"]["sees_waits"], true, "{answer}");
    assert_eq!(answer["looks"]["stops"], 0, "{answer}");
    assert!(answer["cpu_pct"].is_null() && answer["kernel_pct"].is_null(), "{answer}");
    assert_eq!(answer["refused"][0]["id"], "perf_own_user", "{answer}");
    let why = answer["refused"][0]["why"].as_str().unwrap();
    assert!(why.contains("seccomp filter") && why.contains("EACCES"), "{why}");
    assert!(answer["refused"][0]["remedy"]["do"].is_string(), "{answer}");
    for (function, least) in [("[sleeping]", 99.0), ("sys_clock_nanosleep", 80.0)] {
        assert!(share(&answer, function) >= least, "{function}: {answer}");
    }
    if cfg!(target_arch = "x86_64") {
        assert!(share(&answer, "clock_nanosleep") >= 80.0, "{answer}");
    }
    assert_eq!(state(sleeper.pid()), ('S', 0));
}

#[test]
fn of_another_users_process_only_states_are_seen_and_the_capability_is_named() {
    if !may_change_users("looks at another user's process") {
        return;
    }
    let place = Place::new();
    let sleeper = Victim::settled(&["sleep", "1000"]).unwrap();
    let parameters = json!({"pid": sleeper.pid(), "window_ms": 800, "stop": true});
    let answer = place.ask(&words(&[&NOBODY]), &parameters);
    assert_eq!(answer["recording"]["counted"], "looks", "{answer}");
    assert_eq!(answer["looks"]["sees_waits"], false, "{answer}");
    // It was asked for, and refused.
    assert_eq!(answer["looks"]["stops"], 0, "{answer}");
    assert!(answer["looks"]["stops_failed"].as_u64().unwrap() > 5, "{answer}");
    assert_eq!(answer["refused"][0]["id"], "perf_others", "{answer}");
    let why = answer["refused"][0]["why"].as_str().unwrap();
    assert!(why.contains("CAP_PERFMON"), "{why}");
    assert!(share(&answer, "[sleeping]") >= 99.0, "{answer}");
    assert_eq!(answer["recording"]["quality"]["complete_pct"], 0, "{answer}");
}

#[test]
fn who_may_sample_does_not_look() {
    let place = Place::new();
    let busy = Victim::settled(&[place.busy.to_str().unwrap(), "shares"]).unwrap();
    let answer = place.ask(&[], &json!({"pid": busy.pid(), "window_ms": 500, "stop": true}));
    if answer["meta"]["engine"] == LOOKS {
        return not_here("sampling one's own process", "a login that may sample");
    }
    assert!(answer["looks"].is_null(), "{answer}");
    assert_eq!(answer["meta"]["overhead"]["target_pause_us_max"], 0, "{answer}");
}

#[test]
fn other_modes_than_processor_time_are_not_answered_by_looks() {
    if !may_change_users("another mode behind a filter") {
        return;
    }
    let place = Place::new();
    let sleeper = Victim::settled(&[&NOBODY[..], &["sleep", "1000"]].concat()).unwrap();
    let parameters = json!({"pid": sleeper.pid(), "window_ms": 300, "mode": "page_faults"});
    let output = place.command(&as_nobody_without_events(), &parameters).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("nothing could be sampled"), "{said}");
}

#[test]
fn threads_that_run_are_stopped_where_that_is_asked_for_and_their_stacks_are_named() {
    if !may_change_users("stops by a user behind a filter") {
        return;
    }
    let place = Place::new();
    let program = place.busy.to_str().unwrap();
    let busy = Victim::settled(&[&NOBODY[..], &[program, "shares"]].concat()).unwrap();
    let asked = |stop: bool| {
        let parameters = json!({"pid": busy.pid(), "window_ms": 4000, "stop": stop});
        place.ask(&as_nobody_without_events(), &parameters)
    };
    let answer = asked(false);
    assert_eq!(answer["looks"]["stops"], 0, "{answer}");
    assert!(share(&answer, "[running or runnable]") >= 90.0, "{answer}");
    let answer = asked(true);
    let stops = answer["looks"]["stops"].as_u64().unwrap();
    assert!(stops >= 20, "{answer}");
    let pause = answer["meta"]["overhead"]["target_pause_us_max"].as_u64().unwrap();
    println!("{stops} stops, the longest of {pause} us");
    assert!(pause > 0 && pause < 100_000, "{answer}");
    // Six of ten, three of ten, one of ten; by at least 20 looks.
    assert!(share(&answer, "outer") >= 90.0, "{answer}");
    assert!(share(&answer, "six_of_ten") >= 25.0, "{answer}");
    assert!(share(&answer, "six_of_ten") > share(&answer, "one_of_ten"), "{answer}");
    assert!(answer["recording"]["quality"]["complete_pct"].as_f64().unwrap() >= 90.0, "{answer}");
    assert_runs_on(busy.pid(), "after all stops");
}

fn kill(pid: u32) {
    let _ = kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::KILL);
}

/// Children of all threads of a process.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.path().join("children")).ok());
    let pids = |list: String| -> Vec<u32> {
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    };
    lists.flat_map(pids).collect()
}

/// What stops threads may be killed at any moment, also while one stands still.
#[test]
fn a_thread_runs_on_whatever_of_the_agent_is_killed_meanwhile() {
    if !geteuid().is_root() {
        return not_run("kills while a thread is stopped", "root, to become another user");
    }
    let place = Place::new();
    let program = place.busy.to_str().unwrap();
    let busy = Victim::settled(&[&NOBODY[..], &[program, "shares"]].concat()).unwrap();
    let parameters = json!({"pid": busy.pid(), "window_ms": 10_000, "stop": true});
    let mut met = 0;
    for round in 0..24_u64 {
        let mut command = place.command(&as_nobody_without_events(), &parameters);
        let mut agent = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let began = Instant::now();
        // It is traced from the first look on: the moment that is looked for.
        while state(busy.pid()).1 == 0 && began.elapsed() < Duration::from_millis(800) {
            sleep(Duration::from_micros(20 + round));
        }
        met += u32::from(began.elapsed() < Duration::from_millis(800));
        let spawner = children(agent.id());
        let what = if round % 2 == 0 { "the worker" } else { "what stops threads" };
        if round % 2 == 0 {
            kill(agent.id());
        } else {
            spawner.iter().for_each(|pid| kill(*pid));
        }
        assert_runs_on(busy.pid(), what);
        kill(agent.id());
        agent.wait().unwrap();
        assert_runs_on(busy.pid(), "the rest");
    }
    println!("{met} of 24 kills came when the thread was seen to be traced");
}

/// The same of a session, with its supervisor.
#[test]
fn a_thread_runs_on_when_a_session_is_killed() {
    if !geteuid().is_root() {
        return not_run("kills of sessions while a thread is stopped", "root");
    }
    let place = Place::new();
    let busy = Victim::settled(&[place.busy.to_str().unwrap(), "shares"]).unwrap();
    for _ in 0..4 {
        let sysmcp = Sysmcp::local().unwrap();
        let command = behind(&without_events(), &sysmcp.command());
        let mut client = Client::start(command).unwrap();
        client.call("process_list", &json!({}), PATIENCE).unwrap();
        let parameters = json!({"pid": busy.pid(), "window_ms": 5000, "stop": true});
        client.ask("tools/call", &json!({"name": "perf_record", "arguments": parameters})).unwrap();
        let began = Instant::now();
        while state(busy.pid()).1 == 0 && began.elapsed() < Duration::from_millis(1500) {
            sleep(Duration::from_micros(50));
        }
        let supervisors = children(client.pid());
        assert!(!supervisors.is_empty());
        supervisors.iter().for_each(|pid| kill(*pid));
        assert_runs_on(busy.pid(), "the supervisor");
        drop(client);
    }
}
