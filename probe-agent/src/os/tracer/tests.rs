//! Programs that are followed, and what becomes of them.

use super::*;
use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard},
    time::Instant,
};
use syscalls::Sysno;

/// There is one tracer: tests that trace wait for one another.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A program and all that it starts, in a group of their own, ended with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        signal(&self.0, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let group = rustix::process::Pid::from_raw(child.id().cast_signed()).unwrap();
    let _ = rustix::process::kill_process_group(group, signal);
}

fn shell(script: &str) -> (Ended, BufReader<std::process::ChildStdout>) {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("sh");
    command.args(["-c", script]).stdout(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    let mut words = BufReader::new(child.stdout.take().unwrap());
    words.read_line(&mut String::new()).unwrap();
    (Ended(child), words)
}

fn field(pid: u32, name: &str) -> String {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned()
}

fn follow_all(pid: u32, limit: Duration) -> (Vec<Sight>, End) {
    let mut sights = Vec::new();
    let end = follow(&[pid], limit, &mut |sight| sights.push(sight), &mut || true).unwrap();
    (sights, end)
}

/// Of those that are still there.
fn assert_let_go(end: &End) {
    assert_eq!(end.left_to_the_kernel, 0);
    for tid in &end.tids {
        if let Ok(text) = std::fs::read_to_string(format!("/proc/{tid}/status")) {
            assert!(text.contains("TracerPid:\t0\n"), "{text}");
            assert!(!text.contains("State:\tT") && !text.contains("State:\tt"), "{text}");
        }
    }
}

#[test]
fn calls_of_a_program_are_seen_with_the_paths_that_they_name() {
    let _alone = alone();
    let (child, _words) = shell("echo ready; while :; do read line < /etc/passwd; done");
    let (sights, end) = follow_all(child.0.id(), Duration::from_millis(300));
    assert_let_go(&end);
    assert_eq!((end.refused.len(), end.lost, end.is_full), (0, 0, false));
    let opened = |sight: &Sight| {
        matches!(sight, Sight::Entered(Entered { number, memory, is_foreign: false, .. })
            if *number == Sysno::openat as u64 && *memory == [b"/etc/passwd".to_vec()])
    };
    let opened = sights.iter().filter(|sight| opened(sight)).count();
    let returned = sights.iter().filter(|sight| matches!(sight, Sight::Returned { .. })).count();
    let entered = sights.iter().filter(|sight| matches!(sight, Sight::Entered(_))).count();
    assert!(opened > 3 && returned.abs_diff(entered) <= 1, "{opened} {entered} {returned}");
    assert!(end.stops >= (entered + returned) as u64 && end.pause_us_max > 0);
}

#[test]
fn children_are_followed_and_none_is_left_in_the_middle_of_being_started() {
    let _alone = alone();
    // Runs a program again and again, by vfork where the shell does.
    let (child, _words) = shell("echo ready; while :; do /bin/true; done");
    for round in 0..10 {
        let (sights, end) = follow_all(child.0.id(), Duration::from_millis(40 + round));
        assert_let_go(&end);
        assert!(end.attached_us < 2_000_000, "{}", end.attached_us);
        if round == 9 {
            assert!(sights.iter().any(|sight| matches!(sight, Sight::Ran { .. })));
        }
    }
}

#[test]
fn it_ends_when_nobody_wants_more_and_another_can_be_asked_for() {
    let _alone = alone();
    let (child, _words) = shell("echo ready; while :; do :; done");
    for _ in 0..3 {
        let started = Instant::now();
        let end = follow(&[child.0.id()], LONGEST, &mut |_| {}, &mut || false).unwrap();
        assert_let_go(&end);
        assert!(end.attached_us < 1_900_000, "{end:?} {:?}", started.elapsed());
    }
}

#[test]
fn one_that_another_tracer_holds_is_refused_and_one_that_is_gone_too() {
    let _alone = alone();
    let (child, _words) = shell("echo ready; while :; do :; done");
    let pid = child.0.id();
    let mut other = Command::new("strace");
    let other = other.args(["-qq", "-o", "/dev/null", "-p", &pid.to_string()]).spawn();
    let Ok(mut other) = other else { return };
    let started = Instant::now();
    while field(pid, "TracerPid:") == "0" && started.elapsed() < Duration::from_secs(10) {}
    let (sights, end) = follow_all(pid, Duration::from_millis(50));
    let still = field(pid, "TracerPid:");
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!(still, other.id().to_string());
    assert_eq!((sights, end.refused), (vec![], vec![(pid, Errno::PERM.raw_os_error())]));
    drop(child);
    let (_, end) = follow_all(pid, Duration::from_millis(50));
    assert_eq!(end.refused, [(pid, Errno::SRCH.raw_os_error())]);
}

#[test]
fn signals_come_through_and_one_that_was_stopped_stays_so() {
    let _alone = alone();
    let script = "trap 'echo got' USR1; echo ready; while :; do sleep 0.01; done";
    let (child, mut words) = shell(script);
    let pid = child.0.id();
    std::thread::scope(|scope| {
        scope.spawn(|| follow_all(pid, Duration::from_millis(500)));
        for _ in 0..20 {
            let pid = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::USR1).unwrap();
            let mut line = String::new();
            words.read_line(&mut line).unwrap();
            assert_eq!(line, "got\n");
        }
    });
    signal(&child.0, rustix::process::Signal::STOP);
    while !field(pid, "State:").starts_with('T') {}
    let (_, end) = follow_all(pid, Duration::from_millis(100));
    assert_eq!(end.left_to_the_kernel, 0);
    let started = Instant::now();
    while !field(pid, "State:").starts_with('T') {
        assert!(started.elapsed() < Duration::from_secs(10), "{}", field(pid, "State:"));
    }
    assert_eq!(field(pid, "TracerPid:"), "0");
    signal(&child.0, rustix::process::Signal::CONT);
    while field(pid, "State:").starts_with('T') {
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}
