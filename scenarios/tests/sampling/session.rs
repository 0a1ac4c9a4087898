//! What a session with recordings does and keeps.

use super::programs::{PATIENCE, Session, hot};
use scenarios::{behind::behind, not_run::not_run, sysmcp::Sysmcp};
use serde_json::{Value, json};
use std::{
    fs,
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// Further questions: all there are.
fn ask_everything(session: &mut Session, recorded: &Value) {
    for parameters in [
        json!({}),
        json!({"sort": "total", "limit": 200}),
        json!({"mode": "threads"}),
        json!({"mode": "modules"}),
        json!({"mode": "lines"}),
        json!({"mode": "callers", "function": "hot"}),
        json!({"mode": "callees", "function": "main"}),
        json!({"mode": "diff", "baseline": recorded["meta"]["artifact"]}),
    ] {
        let started = Instant::now();
        let answer = session.report(recorded, parameters.clone());
        let took = started.elapsed();
        let cpu_ms = &answer["meta"]["overhead"]["agent_cpu_ms"];
        println!("{parameters}: {took:?}, of it {cpu_ms} ms of processor time in the agent");
        assert_eq!(answer["meta"]["engine"], "stored result", "{parameters}");
        assert!(answer["meta"]["window_ms"].is_null(), "{parameters}");
    }
}

/// Lines of a record that say that something is measured or started.
fn measuring(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let text = fs::read(entry.unwrap().path()).unwrap();
        let text = String::from_utf8_lossy(&text).into_owned();
        found.extend(text.lines().filter(|line| !line.starts_with('+')).map(str::to_owned));
    }
    found
}

/// S5.
#[test]
fn a_second_question_measures_nothing_and_starts_nothing() {
    const WHAT: &str = "the record of a second question";
    if Command::new("strace").arg("-V").output().is_err() {
        return not_run(WHAT, "strace (package strace)");
    }
    let program = hot(70);
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record").display().to_string();
    let calls = "trace=perf_event_open,execve,execveat,fork,vfork,ptrace,bpf,openat,openat2,open";
    let words = ["strace", "-ff", "-qq", "-e", "signal=none", "-e", calls, "-o", &record];
    let sysmcp = Sysmcp::local().unwrap();
    let mut session = Session::of(behind(&words, &sysmcp.command()));
    let recorded = session.record(100, &json!({"pid": program.pid()}));
    let before = measuring(folder.path());
    assert!(before.iter().any(|line| line.starts_with("perf_event_open(")), "{before:?}");
    ask_everything(&mut session, &recorded);
    session.0.close();
    session.0.ended(PATIENCE).unwrap().unwrap();
    // The end of a session is looked at from outside, by another process; the agent's own did
    // nothing meanwhile.
    let after = measuring(folder.path());
    for what in ["perf_event_open(", "ptrace(", "bpf("] {
        let count = |lines: &[String]| lines.iter().filter(|line| line.starts_with(what)).count();
        assert_eq!(count(&after), count(&before), "{what}");
    }
    let of_process = format!("/{}/", program.pid());
    let opened = |lines: &[String]| lines.iter().filter(|line| line.contains(&of_process)).count();
    assert!(opened(&before) > 0 && opened(&after) == opened(&before), "{after:#?}");
}

/// The agent's processes, below sysmcp's own.
fn agents(of: u32) -> Vec<u32> {
    let parent = |pid: u32| -> Option<u32> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
    };
    let is_below = |pid: u32| {
        let mut at = Some(pid);
        std::iter::from_fn(|| {
            at = parent(at?);
            at
        })
        .take(16)
        .any(|above| above == of)
    };
    let pids = fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| is_below(*pid)).collect()
}

/// Resident memory in KiB, and open files, of all of them.
fn held(pids: &[u32]) -> (u64, usize) {
    let mut held = (0, 0);
    for pid in pids {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
        held.0 += kib.unwrap_or_default();
        held.1 += fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
    }
    held
}

#[test]
fn twenty_four_recordings_leave_no_file_open_and_no_memory_behind() {
    if !rustix::process::geteuid().is_root() {
        return not_run("what an agent holds after many recordings", "root, to look into it");
    }
    /// What the results themselves may take, and what an allocator keeps.
    const MORE_KIB: u64 = 8 << 10;
    let program = hot(70);
    let mut session = Session::start();
    let parameters = json!({"pid": program.pid(), "window_ms": 300, "hertz": 499});
    let mut artifacts = Vec::new();
    let mut floor = (0, 0);
    for count in 1..=24 {
        let answer = session.answer("perf_record", &parameters);
        artifacts.push(answer["meta"]["artifact"].clone());
        if count == 4 {
            floor = held(&agents(session.0.pid()));
        }
    }
    // Threads that opened files for it end a moment later.
    std::thread::sleep(Duration::from_millis(200));
    let found = held(&agents(session.0.pid()));
    println!("after 4 recordings {floor:?} KiB and files, after 24 {found:?}");
    assert!(floor.1 > 0 && found.1 <= floor.1, "files: {floor:?} {found:?}");
    assert!(found.0 <= floor.0 + MORE_KIB, "memory: {floor:?} {found:?}");
    // All are there still: together they are far below what a session keeps.
    for artifact in artifacts {
        session.answer("perf_report", &json!({"artifact": artifact, "limit": 1}));
    }
}

#[test]
fn what_a_session_keeps_has_a_cap_and_what_went_for_it_is_made_again() {
    if !rustix::process::geteuid().is_root() {
        return not_run("what an agent keeps", "root, to look into it");
    }
    /// What a session keeps, and what an allocator may keep beside it.
    const CAP_KIB: u64 = 32 << 10;
    const MORE_KIB: u64 = 12 << 10;
    let program = hot(70);
    let sysmcp = Sysmcp::local().unwrap().with(&["--toolsets", "diagnose,selftest"]);
    let mut session = Session::of(sysmcp.command());
    let record = json!({"pid": program.pid(), "window_ms": 200, "hertz": 499});
    let first = session.answer("perf_record", &record);
    let floor = held(&agents(session.0.pid()));
    let mut most = floor.0;
    // 96 MiB in all.
    for _ in 0..12 {
        let stored = json!({"count": 0, "artifact_bytes": 8 << 20});
        session.answer("self_test", &stored);
        most = most.max(held(&agents(session.0.pid())).0);
    }
    println!("{floor:?} KiB and files with one recording, at most {most} KiB with all");
    assert!(most <= floor.0 + CAP_KIB + MORE_KIB, "{floor:?} {most}");
    // It was asked for longest ago.
    let parameters = json!({"artifact": first["meta"]["artifact"], "limit": 1});
    let result = session.0.call("perf_report", &parameters, PATIENCE).unwrap();
    assert_eq!(result["isError"], true, "{result}");
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("repeat the call that made it: perf_record {"), "{text}");
    let again = session.answer("perf_record", &record);
    session.answer("perf_report", &json!({"artifact": again["meta"]["artifact"], "limit": 1}));
}

#[test]
fn a_recording_that_is_withdrawn_ends_at_once() {
    let program = hot(70);
    let mut session = Session::start();
    session.answer("perf_record", &json!({"pid": program.pid(), "window_ms": 100}));
    let parameters = json!({
        "name": "perf_record", "arguments": {"pid": program.pid(), "window_ms": 60_000},
    });
    let id = session.0.ask("tools/call", &parameters).unwrap();
    std::thread::sleep(Duration::from_millis(500));
    session.0.notify("notifications/cancelled", &json!({"requestId": id})).unwrap();
    // The same agent is free again: nothing waits for the minute.
    let started = Instant::now();
    session.answer("perf_record", &json!({"pid": program.pid(), "window_ms": 100}));
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
    let agents = agents(session.0.pid());
    let is_open = |pid: &u32| {
        let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let links = files.filter_map(|file| fs::read_link(file.path()).ok());
        links.filter(|link| link.to_string_lossy().contains("perf_event")).count()
    };
    let ends = Instant::now() + Duration::from_secs(10);
    while agents.iter().any(|pid| is_open(pid) > 0) {
        assert!(Instant::now() < ends, "events are open after the call was withdrawn");
        std::thread::sleep(Duration::from_millis(20));
    }
}
