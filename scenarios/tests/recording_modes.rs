//! What `perf_record` counts in each mode is what the kernel's own account says of the same process; what
//! cannot be counted here has its reason and its remedy.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rustix::process::geteuid;
use scenarios::{
    not_run::{not_here, not_run},
    programs,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdout, Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// A program that does something when it is told to, and then waits.
struct OnCommand {
    child: Child,
    words: BufReader<ChildStdout>,
}

impl OnCommand {
    /// In perl, which every Debian has.
    fn start(what: &str) -> Self {
        let script =
            format!("$| = 1; print \"ready\\n\"; <STDIN>; {what}; print \"done\\n\"; <STDIN>");
        let mut command = Command::new("perl");
        command.args(["-e", &script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut words = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        words.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, words }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn go(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let mut line = String::new();
        self.words.read_line(&mut line).unwrap();
        assert_eq!(line, "done\n");
    }
}

impl Drop for OnCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn recording(parameters: &Value, before: &[&str]) -> Child {
    let agent = programs::agent().display().to_string();
    let words: Vec<&str> = before.iter().copied().chain([agent.as_str()]).collect();
    let [program, arguments @ ..] = words.as_slice() else { panic!("no program") };
    let mut command = Command::new(program);
    command.args(arguments).args(["--local", "perf_record", "--json", "--params"]);
    command.arg(parameters.to_string()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

fn answer(child: Child) -> Result<Value, String> {
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout)
        .map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Lets the program go in the middle of a recording, and gives its answer.
fn answer_around(program: &mut OnCommand, parameters: &Value) -> Result<Value, String> {
    let under = recording(parameters, &[]);
    sleep(Duration::from_millis(1500));
    program.go();
    answer(under)
}

fn minor_faults(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    text.rsplit_once(") ").unwrap().1.split(' ').nth(7).unwrap().parse().unwrap()
}

fn switches(pid: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once("voluntary_ctxt_switches:"));
    lines.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
}

fn is_about(found: u64, wanted: u64) -> bool {
    found.abs_diff(wanted) <= wanted / 50 + 20
}

#[test]
fn each_page_fault_is_in_a_recording_of_page_faults() {
    // Some 2,500 pages, a hundred at a time with pauses, so that no ring is full.
    let what = "for (1..25) { push @kept, 'a' x 400_000; select undef, undef, undef, 0.02 }";
    let mut program = OnCommand::start(what);
    let parameters = json!({
        "pid": program.pid(), "window_ms": 5000, "mode": "page_faults", "hertz": 1,
    });
    let before = minor_faults(program.pid());
    let answer = answer_around(&mut program, &parameters).unwrap();
    let faults = minor_faults(program.pid()) - before;
    let lost = answer["recording"]["quality"]["lost_samples"].as_u64().unwrap();
    let found = answer["recording"]["events"].as_u64().unwrap() + lost;
    println!("{found} recorded, {lost} of them lost; the kernel counted {faults}");
    assert!(faults > 1_000 && is_about(found, faults), "{found} {faults}: {answer}");
    assert_eq!(answer["recording"]["counted"], "page_faults", "{answer}");
}

#[test]
fn each_context_switch_is_in_a_recording_of_context_switches() {
    if !geteuid().is_root() {
        return not_run("context switches", "root, or kernel.perf_event_paranoid of 1");
    }
    let mut program = OnCommand::start("for (1..500) { select undef, undef, undef, 0.002 }");
    let parameters = json!({
        "pid": program.pid(), "window_ms": 5000, "mode": "context_switches", "hertz": 1,
    });
    let before = switches(program.pid());
    let answer = answer_around(&mut program, &parameters).unwrap();
    let switched = switches(program.pid()) - before;
    let lost = answer["recording"]["quality"]["lost_samples"].as_u64().unwrap();
    let found = answer["recording"]["events"].as_u64().unwrap() + lost;
    println!("{found} recorded, {lost} of them lost; the kernel counted {switched}");
    assert!(switched >= 500 && is_about(found, switched), "{found} {switched}: {answer}");
}

#[test]
fn cache_misses_are_recorded_or_the_machine_is_said_to_show_no_counter() {
    let program = OnCommand::start("1");
    let parameters = json!({"pid": program.pid(), "window_ms": 300, "mode": "cache_misses"});
    match answer(recording(&parameters, &[])) {
        Ok(answer) => assert_eq!(answer["recording"]["counted"], "cache_misses", "{answer}"),
        Err(said) => {
            let is_said =
                said.contains("counters of the processor") || said.contains("no counters");
            assert!(is_said, "{said}");
            let is_guest = said.contains("virtual machine");
            assert!(!is_guest || said.contains("-cpu host,pmu=on"), "{said}");
            not_here("cache misses", "a machine that shows counters of its processor");
        }
    }
}

#[test]
fn counters_are_those_of_the_kernel_and_the_processors_are_known_or_said_not_to_be_there() {
    let what = "push @kept, 'a' x 4_000_000; for (1..200) { select undef, undef, undef, 0.001 }";
    let mut program = OnCommand::start(what);
    let parameters = json!({"pid": program.pid(), "window_ms": 4000, "analysis": "counters"});
    let before = minor_faults(program.pid());
    let answer = answer_around(&mut program, &parameters).unwrap();
    let faults = minor_faults(program.pid()) - before;
    let rows = answer["counters"]["counts"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["counter"] == name).unwrap();
    let found = row("minor_faults")["count"].as_u64().unwrap();
    // Without the kernel's part, what a system call touches is not in it.
    let is_whole = row("minor_faults")["with_kernel"] == true;
    assert!(!is_whole || is_about(found, faults), "{found} {faults}: {answer}");
    assert!(row("task_clock")["count"].as_u64().unwrap() > 1_000_000, "{answer}");
    let refused = answer["refused"].as_array().unwrap();
    let is_refused = |id: &str| refused.iter().any(|refusal| refusal["id"] == id);
    let quotient = &answer["counters"]["quotients"][0]["instructions_per_cycle"];
    if row("cycles")["count"].is_null() {
        assert!(quotient.is_null() && is_refused("hardware_counters"), "{answer}");
        let why = answer["meta"]["not_measured"].to_string();
        assert!(why.contains("no hardware counter here"), "{why}");
        not_here("instructions for each cycle", "a machine that shows counters of its processor");
    } else {
        assert!(quotient.as_f64().unwrap() > 0.0, "{answer}");
    }
    assert!(answer["functions"].as_array().unwrap().is_empty(), "{answer}");
}

#[test]
fn a_user_is_told_what_of_counting_the_kernel_refuses() {
    if !geteuid().is_root() {
        return not_run("counting as another user", "root, to become one");
    }
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    if paranoid.trim() != "2" {
        return not_here("counting in user space only", "kernel.perf_event_paranoid of 2");
    }
    let folder = tempfile::tempdir().unwrap();
    let agent = programs::agent_for_all(folder.path()).unwrap();
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let mut sleeper =
        Command::new(nobody[0]).args(&nobody[1..]).args(["sleep", "100"]).spawn().unwrap();
    sleep(Duration::from_millis(300));
    let parameters = json!({"pid": sleeper.id(), "window_ms": 300, "analysis": "counters"});
    let output = Command::new(nobody[0])
        .args(&nobody[1..])
        .arg(agent)
        .args(["--local", "perf_record", "--json", "--params", &parameters.to_string()])
        .output();
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let answer: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap();
    let rows = answer["counters"]["counts"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["counter"] == name).unwrap();
    assert!(row("context_switches")["count"].is_null(), "{answer}");
    assert!(row("minor_faults")["count"].is_u64(), "{answer}");
    assert_eq!(row("minor_faults")["with_kernel"], false, "{answer}");
    let why = answer["meta"]["not_measured"].to_string();
    assert!(why.contains("kernel.perf_event_paranoid is 2"), "{why}");
    assert!(why.contains("sysctl kernel.perf_event_paranoid=1"), "{why}");
}
