//! Real faulty programs, looked at through a real, pushed agent over a real sshd: what must be
//! said, and what must not.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use scenarios::{
    faults::{Fault, Needs},
    not_run::not_run,
    programs,
    service::Scenario,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    process::{Command, Stdio},
    sync::Mutex,
    thread::sleep,
    time::Duration,
};

/// One scenario at a time: they compete for two processors and one disk.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Looks that a diagnosis gets on a machine that others use too.
const ATTEMPTS: usize = 4;

fn inspect(sysmcp: &Sysmcp, pid: u32) -> Value {
    let parameters = json!({"pid": pid, "window_ms": 2000});
    sysmcp.answer("process_inspect", &parameters).unwrap()
}

fn classes(answer: &Value) -> Vec<String> {
    let also = answer.get("also").and_then(Value::as_array).cloned().unwrap_or_default();
    answer
        .get("class")
        .into_iter()
        .chain(&also)
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Looks at a service with a fault until the truth is told; what must never be said must not be
/// said in any look.
fn check(fault: Fault, settle: Duration) {
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let truth = fault.truth();
    if truth.needs == Needs::CpuCgroup && !rustix::process::geteuid().is_root() {
        not_run(&format!("diagnosis of {fault:?}"), "root, for a CPU cgroup");
        return;
    }
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap();
    let scenario = Scenario::start(fault).unwrap();
    sleep(settle);
    let mut said = Vec::new();
    for _ in 0..ATTEMPTS {
        let answer = inspect(&sysmcp, scenario.pid());
        let classes = classes(&answer);
        let wrong = classes.iter().find(|class| truth.never.contains(&class.as_str()));
        assert_eq!(wrong, None, "{fault:?} must not be called so: {answer:#}");
        if classes.first().is_some_and(|class| class == truth.class) {
            println!("{fault:?}: {} because {}", truth.class, answer["because"]);
            return;
        }
        said.push(answer);
    }
    panic!("{fault:?} was never called {}: {said:#?}", truth.class);
}

#[test]
fn fsync_for_each_request_is_blocked_on_io() {
    check(Fault::FsyncPerRequest, Duration::from_millis(500));
}

#[test]
fn a_quota_is_told_from_neighbours() {
    check(Fault::QuotaTooSmall, Duration::from_millis(500));
}

#[test]
fn neighbours_are_told_from_a_quota() {
    check(Fault::NoisyNeighbour, Duration::from_millis(500));
}

#[test]
fn too_much_work_is_user_cpu() {
    check(Fault::WorkDoubled, Duration::from_millis(500));
}

#[test]
fn a_lock_held_too_long_is_named() {
    check(Fault::LockHeldWhileWaiting, Duration::from_millis(500));
}

#[test]
fn leaked_descriptors_are_named() {
    check(Fault::LeaksDescriptors, Duration::from_secs(3));
}

#[test]
fn a_healthy_service_is_not_accused() {
    check(Fault::Healthy, Duration::from_millis(500));
}

/// S1: a process that is busy only now, after a long idle life, is first, while `ps` shows the
/// average over its life.
#[test]
fn busy_now_after_an_idle_life_comes_first() {
    const IDLE_S: u64 = 30;
    let mut burner = Command::new(programs::scenarios())
        .args(["burn", "--idle", &IDLE_S.to_string(), "--seconds", "20"])
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let pid = burner.id();
    // Other scenarios run meanwhile; then the machine is ours.
    sleep(Duration::from_secs(IDLE_S - 1));
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let sshd = Sshd::start(&Settings::default()).unwrap();
    sleep(Duration::from_millis(1200));
    let ps = Command::new("ps").args(["-o", "pcpu=", "-p", &pid.to_string()]).output().unwrap();
    let lifetime: f64 = String::from_utf8(ps.stdout).unwrap().trim().parse().unwrap();
    let answer = Sysmcp::over(&sshd).unwrap().answer("process_list", &json!({"limit": 3})).unwrap();
    let first = &answer["processes"][0];
    println!("ps says {lifetime} %, process_list {} %", first["cpu_pct"]);
    let _ = burner.kill();
    let _ = burner.wait();
    assert_eq!(first["pid"], pid, "{answer:#}");
    assert!(first["cpu_pct"].as_f64().unwrap() > 40.0, "{first}");
    assert!(lifetime < 12.0, "ps already shows {lifetime} %");
}
