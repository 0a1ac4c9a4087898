//! Where threads wait, of programs whose waits are known: each is named by its stack and by what it waits
//! for or who ended it, in one answer; and of a program that only waits for work, none is.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use rustix::process::geteuid;
use scenarios::{accuracy::workload, not_run::not_run, programs};
use serde_json::{Value, json};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// The program with known waits.
struct Waits {
    child: Child,
    _folder: tempfile::TempDir,
}

impl Waits {
    fn start(what: &str) -> Self {
        // On a disk: what is in memory needs no writing through.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let source = workload::source("waits.c").display().to_string();
        let flags = ["-O2", "-fomit-frame-pointer", "-pthread"];
        let command: Vec<&str> =
            ["gcc"].into_iter().chain(flags).chain(["-o", "waits", &source, "-lresolv"]).collect();
        workload::compile(folder.path(), &command).unwrap();
        let mut command = Command::new(folder.path().join("waits"));
        command.args([what, "written"]).current_dir(folder.path()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, _folder: folder }
    }

    fn ask(&self, before: &[&str]) -> Value {
        let parameters = json!({
            "pid": self.child.id(), "mode": "off_cpu", "window_ms": 3000, "limit": 30,
        });
        ask(&parameters, before)
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(parameters: &Value, before: &[&str]) -> Value {
    let agent = programs::agent().display().to_string();
    let words: Vec<&str> = before.iter().copied().chain([agent.as_str()]).collect();
    let [program, arguments @ ..] = words.as_slice() else { panic!("no program") };
    let mut command = Command::new(program);
    command.args(arguments).args(["--local", "perf_record", "--json", "--params"]);
    let output = command.arg(parameters.to_string()).output().unwrap();
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// The rows of a list that a thread of such a name has.
fn rows<'a>(answer: &'a Value, list: &str, thread: &str) -> Vec<&'a Value> {
    let rows = answer["off_cpu"][list].as_array().unwrap_or_else(|| panic!("{answer}"));
    rows.iter().filter(|row| row["thread"] == thread).collect()
}

/// Whether its functions are in a stack, the outermost first, with any others between them.
fn goes_through(row: &Value, functions: &[&str]) -> bool {
    let mut left = functions.iter().peekable();
    for call in row["calls"].as_array().unwrap() {
        let call = call.as_str().unwrap();
        if left.peek().is_some_and(|function| call.split(' ').next() == Some(**function)) {
            left.next();
        }
    }
    left.peek().is_none()
}

/// The one row of a thread in a call, below its functions.
fn row<'a>(answer: &'a Value, thread: &str, call: &str, functions: &[&str]) -> &'a Value {
    let found = rows(answer, "rows", thread);
    let is_it = |row: &&&Value| row["call"] == call && goes_through(row, functions);
    found.iter().find(is_it).unwrap_or_else(|| panic!("{thread} {call} {functions:?}: {answer}"))
}

fn is_followed(answer: &Value) -> bool {
    answer["meta"]["engine"] == "eBPF" || answer["meta"]["engine"] == "ebpf"
}

/// Whether what needs root can be checked.
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "CI checks this as root");
        not_run("waits that are followed in the kernel", "root");
    }
    is_root
}

#[test]
fn each_wait_is_named_by_its_stack_and_by_what_it_is_for_in_one_answer() {
    if !is_root() {
        return;
    }
    let waits = Waits::start("faults");
    let answer = waits.ask(&[]);
    assert!(is_followed(&answer), "{answer}");
    let subject = |row: &Value| row["subject"]["name"].as_str().unwrap_or_default().to_owned();

    let fsync = row(&answer, "journal", "fsync", &["journal", "write_through", "fsync"]);
    assert!(subject(fsync).ends_with("/written"), "{fsync}");
    assert_eq!(fsync["kind"], "storage", "{fsync}");

    let lock = row(&answer, "waiter", "futex", &["waiter", "take_order", "pthread_mutex_lock"]);
    assert_eq!((&lock["kind"], &lock["wakers"][0]["name"]), (&json!("lock"), &json!("holder")));

    // One that is never given back has no waker: its owner is named.
    let held = row(&answer, "clerk", "futex", &["clerk", "read_ledger", "pthread_mutex_lock"]);
    assert_eq!((&held["held_by"]["name"], &held["still_waiting"]), (&json!("miser"), &json!(1)));

    let connect = row(&answer, "caller", "connect", &["caller", "call_out"]);
    assert!(subject(connect).starts_with("tcp 127.0.0.1:"), "{connect}");

    let functions = ["resolver", "resolve_name", "send_dg"];
    let name = row(&answer, "resolver", "poll", &functions);
    assert!(subject(name).starts_with("udp 127.0.0.1:"), "{name}");

    let pipe = row(&answer, "writer", "write", &["writer", "hand_over"]);
    assert!(subject(pipe).starts_with("pipe:["), "{pipe}");
    let reader = pipe["subject"]["other_end"][0].as_str().unwrap_or_default();
    assert!(reader.ends_with(" no-reader"), "{pipe}");

    // Two callers of one function, with one stack pointer below them.
    for caller in ["by_first", "by_second"] {
        row(&answer, "both", "futex", &["both", caller, "lock_both_ways"]);
    }

    // Who waits for work is no culprit.
    for (thread, call) in [("pool", "futex"), ("events", "epoll_wait"), ("miser", "pause")] {
        assert_eq!(rows(&answer, "rows", thread), Vec::<&Value>::new(), "{call}");
    }
    let missed = &answer["off_cpu"]["missed"];
    assert_eq!((&missed["ways"], &missed["open_stacks"]), (&json!(0), &json!(0)), "{answer}");
}

#[test]
fn who_only_waits_for_work_has_no_row_among_the_others() {
    if !is_root() {
        return;
    }
    let waits = Waits::start("idle");
    let answer = waits.ask(&[]);
    for thread in ["pool", "events", "acceptor", "ticker", "waits"] {
        let blocked: Vec<&Value> = rows(&answer, "rows", thread)
            .into_iter()
            .filter(|row| row["is_preempted"] == false)
            .collect();
        assert_eq!(blocked, Vec::<&Value>::new(), "{answer}");
    }
    let pool = rows(&answer, "idle", "pool");
    assert_eq!((pool.len(), &pool[0]["threads"]), (1, &json!(4)), "{answer}");
}

#[test]
fn without_programs_in_the_kernel_threads_are_looked_at_and_the_answer_says_why() {
    if !is_root() {
        return;
    }
    let waits = Waits::start("faults");
    let drop = ["setpriv", "--bounding-set=-bpf,-sys_admin,-perfmon", "--"];
    let answer = waits.ask(&drop);
    assert!(!is_followed(&answer), "{answer}");
    let refused = answer["refused"].as_array().unwrap();
    assert!(refused.iter().any(|refused| refused.to_string().contains("CAP_BPF")), "{answer}");
    for (thread, call, functions) in [
        ("caller", "connect", &["caller", "call_out"][..]),
        ("writer", "write", &["writer", "hand_over"]),
        ("clerk", "futex", &["clerk", "read_ledger", "pthread_mutex_lock"]),
    ] {
        let row = row(&answer, thread, call, functions);
        assert_eq!(row["run_queue_us"], Value::Null, "{row}");
    }
    let held = row(&answer, "clerk", "futex", &["read_ledger"]);
    assert_eq!(held["held_by"]["name"], "miser", "{held}");
}

#[test]
fn a_process_that_ends_meanwhile_and_one_that_is_killed_leave_nothing_attached() {
    if !is_root() {
        return;
    }
    let before = links();
    let waits = Waits::start("faults");
    let agent = programs::agent();
    let parameters = json!({"pid": waits.child.id(), "mode": "off_cpu", "window_ms": 20_000});
    let mut asking = Command::new(&agent)
        .args(["--local", "perf_record", "--params", &parameters.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while links() == before {
        assert!(std::time::Instant::now() < deadline, "nothing was attached");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    asking.kill().unwrap();
    asking.wait().unwrap();
    while links() != before {
        assert!(std::time::Instant::now() < deadline, "something is still attached");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Descriptors of programs in the kernel that any process has open.
fn links() -> usize {
    let is_of_bpf =
        |path: &Path| fs::read_link(path).is_ok_and(|link| link.to_string_lossy().contains("bpf"));
    let folders = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path().join("fd"));
    let files = folders.filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    files.filter(|entry| is_of_bpf(&entry.path())).count()
}
