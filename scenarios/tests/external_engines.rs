//! strace, perf and bpftrace as engines of `syscall_trace`: what each counts of a program whose calls are
//! known, what is refused, and that nobody stands still afterwards.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use rustix::process::geteuid;
use scenarios::{
    behind::behind,
    not_run::not_run,
    programs,
    victim::{self, Victim},
};
use serde_json::{Value, json};
use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Rounds that each of two threads and a child makes.
const ROUNDS: u64 = 500;

/// A file that is there, with a name that would end a line if it were not read as a whole.
const NAME: &str = "a) = 0 <9.9>";

/// How long a program may need before it watches; the next where that was too short.
const HEAD_STARTS: [u64; 3] = [2, 6, 20];

fn has(program: &str, what: &str) -> bool {
    let is_there = Path::new("/usr/bin").join(program).exists();
    if !is_there || !geteuid().is_root() {
        not_run(what, &format!("root and {program}"));
    }
    is_there && geteuid().is_root()
}

fn agent(parameters: &Value) -> Command {
    let mut command = Command::new(programs::agent());
    command.args(["--local", "syscall_trace", "--json", "--params", &parameters.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn answer(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{said}"))
}

/// The fields of a process's `status` that tell whether it is held.
fn held(pid: u32) -> (String, String) {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap().trim().to_owned()
    };
    (field("State:"), field("TracerPid:"))
}

fn assert_runs_on(pid: u32) {
    let (state, tracer) = held(pid);
    assert!(!state.starts_with(['T', 't']) && tracer == "0", "{state} {tracer}");
}

/// A program that waits for its word, and the folder with what it opens.
struct Calls {
    victim: Child,
    folder: tempfile::TempDir,
}

impl Calls {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = victim::built("../../fixtures/tracers/calls.c", folder.path()).unwrap();
        let there = folder.path().join(NAME);
        fs::write(&there, "a").unwrap();
        let mut command = Command::new(program);
        command.arg(ROUNDS.to_string()).arg(there).arg("/no/such");
        let victim = command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Self { victim, folder }
    }

    fn go(&mut self) {
        self.victim.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        drop(self.victim.stdin.take());
        let until = Instant::now() + Duration::from_secs(20);
        while matches!(self.victim.try_wait(), Ok(None)) && Instant::now() < until {
            sleep(Duration::from_millis(10));
        }
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// Successful and failed `openat`, how many are told to be lost, and the answer.
fn counted(answer: &Value) -> (u64, u64, u64) {
    let rows = answer["calls"].as_array().unwrap();
    let row = rows.iter().find(|row| row["call"] == "openat");
    let of = |field: &str| row.map_or(0, |row| row[field].as_u64().unwrap());
    let lost = &answer["meta"]["lost"];
    let lost = lost["events"].as_u64().unwrap() + lost["malformed"].as_u64().unwrap();
    (of("count") - of("failed"), of("failed"), lost)
}

/// Lets an engine watch until it has counted so many, told a loss, or has had time enough.
fn assert_counts(engine: &str, (there, missing): (u64, u64), more: u64) {
    let mut tried = Vec::new();
    for head_start in HEAD_STARTS {
        let mut calls = Calls::start();
        let pid = calls.victim.id();
        // The window begins when the program watches; strace's is 2 s at most.
        let (window_ms, head_start) = match engine {
            "strace" => (2_000, 0),
            _ => (head_start * 1000 + 2_000, head_start),
        };
        let mode = if engine == "strace" { "detailed" } else { "summary" };
        let asked = json!({"pid": pid, "engine": engine, "window_ms": window_ms, "mode": mode, "limit": 100});
        let asking = agent(&asked).spawn().unwrap();
        if engine == "strace" {
            while held(pid).1 == "0" {
                sleep(Duration::from_millis(5));
            }
        }
        sleep(Duration::from_secs(head_start));
        calls.go();
        let answer = answer(&asking.wait_with_output().unwrap());
        assert_eq!(answer["meta"]["engine"], engine);
        assert_runs_on(pid);
        let (found, failed, lost) = counted(&answer);
        assert!(found <= there + more && failed <= missing, "{found} {failed} {answer}");
        let is_exact = (there..=there + more).contains(&found) && failed == missing;
        if is_exact || lost > 0 {
            if engine == "strace" && is_exact {
                assert_subjects(&answer, &calls.folder.path().join(NAME));
            }
            return;
        }
        tried.push((found, failed));
    }
    panic!("{engine}: {tried:?} of {there} and {missing}");
}

/// Each file is one subject, whatever it is called, also behind its descriptor.
fn assert_subjects(answer: &Value, there: &Path) {
    let rows = answer["subjects"].as_array().unwrap();
    let row = |name: &str| rows.iter().find(|row| row["subject"]["name"] == name).unwrap();
    let there = row(there.to_str().unwrap());
    // Opened, read, closed.
    assert_eq!((there["count"].as_u64(), there["failed"].as_u64()), (Some(9 * ROUNDS), Some(0)));
    assert_eq!(row("/no/such")["failed"].as_u64(), Some(3 * ROUNDS));
}

#[test]
fn strace_counts_what_was_called() {
    if has("strace", "what strace counts") {
        // The program that vfork runs opens two libraries.
        assert_counts("strace", (3 * ROUNDS, 3 * ROUNDS), 4);
    }
}

#[test]
fn bpftrace_counts_what_was_called() {
    if has("bpftrace", "what bpftrace counts") {
        assert_counts("bpftrace", (3 * ROUNDS, 3 * ROUNDS), 4);
    }
}

/// Its summary is of threads that are there from the start to the end.
#[test]
fn perf_counts_what_threads_called_that_were_there() {
    if has("perf", "what perf counts") {
        assert_counts("perf", (ROUNDS, ROUNDS), 2 * ROUNDS + 4);
    }
}

#[test]
fn who_is_traced_already_is_left_alone_and_the_tracer_is_named() {
    if !has("strace", "that who is traced already is left alone") {
        return;
    }
    let victim = Victim::start(Command::new("sleep").arg("600")).unwrap();
    let mut tracer = Command::new("strace");
    tracer.args(["-o", "/dev/null", "-p", &victim.pid().to_string()]);
    let tracer = Victim::start(tracer.stderr(Stdio::null())).unwrap();
    while held(victim.pid()).1 == "0" {
        sleep(Duration::from_millis(5));
    }
    let asked = json!({"pid": victim.pid(), "engine": "strace", "window_ms": 500});
    let output = agent(&asked).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(said.contains("strace") && said.contains(&tracer.pid().to_string()), "{said}");
    assert_eq!(held(victim.pid()).1, tracer.pid().to_string());
}

#[test]
fn a_program_that_is_always_in_vfork_runs_on_when_strace_lets_it_go() {
    if !has("strace", "that a program in vfork is let go") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let program = victim::built("external_engines/vforks.c", folder.path()).unwrap();
    let victim = Victim::start(&mut Command::new(program)).unwrap();
    for window_ms in [100, 150, 230, 370] {
        let asked = json!({"pid": victim.pid(), "engine": "strace", "window_ms": window_ms});
        let answer = answer(&agent(&asked).output().unwrap());
        assert!(answer["ended"].as_u64().unwrap() > 0, "{answer}");
        assert_runs_on(victim.pid());
    }
}

#[test]
fn a_program_that_cannot_is_told_with_what_it_said() {
    if !has("bpftrace", "that what a failing program says is told") {
        return;
    }
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];
    let victim = Victim::start(&mut behind(&nobody, Command::new("sleep").arg("600"))).unwrap();
    let asked = json!({"pid": victim.pid(), "engine": "bpftrace"});
    let output = behind(&nobody, &agent(&asked)).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{said}");
    assert!(said.contains("and said: `ERROR: bpftrace currently only supports"), "{said}");
}

#[test]
fn a_program_that_is_not_there_is_named_with_what_brings_it_and_no_other_is_taken() {
    for (program, package) in
        [("strace", "strace"), ("perf", "linux-perf"), ("bpftrace", "bpftrace")]
    {
        if !has(program, "that a missing program is named") {
            continue;
        }
        // In a mount namespace of its own it is an empty file.
        let script = format!("mount --bind /dev/null /usr/bin/{program} && exec \"$@\"");
        let victim = Victim::start(Command::new("sleep").arg("600")).unwrap();
        let asked = json!({"pid": victim.pid(), "engine": program}).to_string();
        let output = Command::new("unshare")
            .args(["--mount", "sh", "-c", &script, "sh"])
            .arg(programs::agent())
            .args(["--local", "syscall_trace", "--json", "--params", &asked])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && output.stdout.is_empty(), "{program}: {said}");
        assert!(said.contains(&format!("{program}: it is in none of the folders")), "{said}");
        assert!(said.contains(&format!("apt-get install {package}")), "{said}");
    }
}
