//! Containers of a real Docker and a real Podman: that they answer, that those which cannot say why, and that no end of
//! a session leaves a process or a file there, looked at from the host.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::Signal;
use scenarios::{
    containers::{Container, Engine, Image},
    second_way::{Seen, signal},
    sysmcp::Sysmcp,
    without_settings::without_settings,
};
use serde_json::json;
use std::{
    os::unix::fs::PermissionsExt as _,
    process::{Child, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// After which nothing may be left.
const PATIENCE: Duration = Duration::from_secs(12);

const SECOND: Duration = Duration::from_secs(1);

/// sysmcp for a container of an engine of ours.
fn sysmcp(engine: &Engine, target: &str) -> Sysmcp {
    let sysmcp = Sysmcp::local().unwrap().at(target).with_faulty_agents();
    sysmcp.with_variables(&engine.variables())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn assert_clean(container: &Container, row: &str) {
    let left = container.left_after(PATIENCE).unwrap();
    assert!(left.is_empty(), "{row}: left in the container: {left:#?}");
}

/// Starts a long call in the background.
fn long_call(sysmcp: &Sysmcp) -> Child {
    let parameters = json!({"count": 60, "interval_ms": 1000}).to_string();
    let mut command = sysmcp.command();
    command.args(["call", "self_test", "--params", &parameters]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

/// The agent's three processes in a container, once they are there.
fn alive(container: &Container) -> Vec<Seen> {
    let started = Instant::now();
    loop {
        let mut seen = container.session().unwrap();
        seen.retain(|seen| seen.command.contains(" serve "));
        if seen.len() == 3 {
            return seen;
        }
        assert!(started.elapsed() < PATIENCE, "the host sees only {seen:#?}");
        sleep(Duration::from_millis(20));
    }
}

/// Waits until sysmcp has heard who the agent is.
fn connected(sysmcp: &Sysmcp) {
    let started = Instant::now();
    let is_connected = || {
        let audit = std::fs::read_to_string(sysmcp.audit_log()).unwrap_or_default();
        audit.contains("\"event\":\"connected\"")
    };
    while !is_connected() {
        assert!(started.elapsed() < PATIENCE, "it did not connect");
        sleep(Duration::from_millis(20));
    }
}

fn wait(child: &mut Child) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(started.elapsed() < 30 * SECOND, "sysmcp did not end");
        sleep(Duration::from_millis(20));
    }
}

/// A container, how it is looked at, and whose the agent then is.
type Case<'a> = (&'a str, Image, &'a [&'a str], &'a [&'a str], u32);

#[test]
fn a_container_answers_with_or_without_a_shell_and_keeps_nothing() {
    let Some(docker) = Engine::docker("containers that answer").unwrap() else { return };
    let cases: [Case; 6] = [
        ("a shell", Image::Shell, &[], &[], 0),
        ("a shell and an ordinary user", Image::Shell, &["--user", "1000:1000"], &[], 1000),
        ("no shell", Image::Distroless, &[], &[], 0),
        ("no shell and an ordinary user", Image::Distroless, &["--user", "1000"], &[], 1000),
        ("its root in place of its user", Image::Distroless, &["--user", "1000"], &["--sudo"], 0),
        (
            "a read-only root and a place that runs files",
            Image::Shell,
            &["--read-only", "--tmpfs", "/tmp:exec"],
            &[],
            0,
        ),
    ];
    for case in cases {
        assert_answers(&docker, case);
    }
}

#[test]
fn a_container_of_podman_answers_with_or_without_a_shell_and_keeps_nothing() {
    let Some(podman) = Engine::podman("containers of Podman").unwrap() else { return };
    let cases: [Case; 4] = [
        ("a shell", Image::Shell, &[], &[], 0),
        ("no shell", Image::Distroless, &[], &[], 0),
        ("no shell and an ordinary user", Image::Distroless, &["--user", "1000"], &[], 1000),
        ("its root in place of its user", Image::Distroless, &["--user", "1000"], &["--sudo"], 0),
    ];
    for case in cases {
        assert_answers(&podman, case);
    }
    let stopped = podman.run(Image::Shell, &[]).unwrap();
    stopped.make(&["stop", "-t", "0"]).unwrap();
    let read_only = podman.run(Image::Distroless, &["--read-only", "--read-only-tmpfs=false"]);
    let cases = [
        (stopped.target(), 11, "is not running: it has ended"),
        (read_only.unwrap().target(), 17, "is read-only and it has no shell"),
        ("podman:nobody".to_owned(), 11, "podman has no container `nobody`"),
    ];
    for (target, code, want) in cases {
        let output = sysmcp(&podman, &target).call("self_test", &json!({"count": 1})).unwrap();
        assert_eq!(output.status.code(), Some(code), "{target}: {}", said(&output));
        assert!(said(&output).contains(want), "{target}: {}", said(&output));
    }
}

/// Asserts that a container answers, as a user, and that nothing stays there.
fn assert_answers(engine: &Engine, (row, image, options, flags, uid): Case) {
    let container = engine.run(image, options).unwrap();
    // Several times: nothing there may depend on who is quicker.
    for _ in 0..3 {
        let sysmcp = sysmcp(engine, &container.target()).with(flags);
        let answer = sysmcp.answer("process_list", &json!({"window_ms": 100})).unwrap();
        let text = answer.to_string();
        assert!(text.contains("sleep"), "{row}: {text}");
        assert!(!text.contains("dockerd"), "{row}: what is outside is shown: {text}");
        let audit = std::fs::read_to_string(sysmcp.audit_log()).unwrap();
        assert!(audit.contains(&format!("\"uid\":{uid},")), "{row}: {audit}");
        assert!(audit.contains("\"clean\":true"), "{row}: {audit}");
        assert!(audit.contains("0 processes left, 0 files left"), "{row}: {audit}");
    }
    assert_clean(&container, row);
}

#[test]
fn what_the_default_seccomp_filter_refuses_is_told() {
    let Some(docker) = Engine::docker("a container with seccomp").unwrap() else { return };
    let container = docker.run(Image::Shell, &[]).unwrap();
    let sysmcp = sysmcp(&docker, &container.target());
    let answer = sysmcp.answer("capabilities", &json!({"all": true})).unwrap();
    let text = answer.to_string();
    assert!(text.contains("seccomp"), "{text}");
    let open = docker.run(Image::Shell, &["--security-opt", "seccomp=unconfined"]).unwrap();
    let unconfined = sysmcp.at(&open.target()).answer("capabilities", &json!({"all": true}));
    assert_ne!(unconfined.unwrap().to_string(), text, "the filter makes no difference");
    assert_clean(&container, "capabilities");
}

#[test]
fn a_container_that_lets_nobody_in_says_why() {
    let Some(docker) = Engine::docker("containers that do not answer").unwrap() else { return };
    let read_only = docker.run(Image::Distroless, &["--read-only"]).unwrap();
    let no_place = docker.run(Image::Shell, &["--read-only"]).unwrap();
    let paused = docker.run(Image::Shell, &[]).unwrap();
    paused.make(&["pause"]).unwrap();
    let stopped = docker.run(Image::Shell, &[]).unwrap();
    stopped.make(&["stop", "-t", "0"]).unwrap();
    let unpause = format!("docker unpause {}", paused.name);
    let cases = [
        (read_only.target(), 17, "is read-only and it has no shell"),
        (no_place.target(), 17, "/dev/shm forbids running files"),
        (paused.target(), 11, unpause.as_str()),
        (stopped.target(), 11, "is not running"),
        ("docker:nobody".to_owned(), 11, "docker has no container `nobody`"),
    ];
    for (target, code, want) in cases {
        let output = sysmcp(&docker, &target).call("self_test", &json!({"count": 1})).unwrap();
        assert_eq!(output.status.code(), Some(code), "{target}: {}", said(&output));
        assert!(said(&output).contains(want), "{target}: {}", said(&output));
    }
    paused.make(&["unpause"]).unwrap();
    for container in [&read_only, &no_place, &paused] {
        assert_clean(container, "one that lets nobody in");
    }
}

#[test]
fn an_engine_that_lets_nobody_in_says_why() {
    let Some(docker) = Engine::docker("an engine that does not answer").unwrap() else { return };
    let container = docker.run(Image::Shell, &[]).unwrap();
    let sysmcp = sysmcp(&docker, &container.target());
    let output = sysmcp
        .with_variable("DOCKER_HOST", "unix:///nothing")
        .call("self_test", &json!({}))
        .unwrap();
    assert_eq!(output.status.code(), Some(11), "{}", said(&output));
    assert!(said(&output).contains("docker does not answer"), "{}", said(&output));

    let nowhere = Sysmcp::local().unwrap().at(&container.target()).with_faulty_agents();
    let nowhere = nowhere.with_variable("PATH", "/nowhere");
    let output = nowhere.call("self_test", &json!({})).unwrap();
    assert_eq!(output.status.code(), Some(11), "{}", said(&output));
    assert!(said(&output).contains("there is no docker on this machine"), "{}", said(&output));

    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sysmcp");
    std::fs::copy(scenarios::programs::sysmcp(), &program).unwrap();
    open_to_all(folder.path());
    let output = without_settings("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["--target", &container.target(), "--audit-log"])
        .arg(folder.path().join("audit.jsonl"))
        .args(["call", "process_list"])
        .envs(docker.variables())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(13), "{}", said(&output));
    assert!(said(&output).contains("this user may not talk to docker"), "{}", said(&output));
}

/// Lets every user write into a folder.
fn open_to_all(folder: &std::path::Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn an_interrupt_ends_the_call_in_the_container_with_a_receipt() {
    let Some(docker) = Engine::docker("an interrupt, in a container").unwrap() else { return };
    for image in [Image::Shell, Image::Distroless] {
        let container = docker.run(image, &["--user", "1000"]).unwrap();
        let sysmcp = sysmcp(&docker, &container.target());
        let mut call = long_call(&sysmcp);
        connected(&sysmcp);
        signal(call.id(), Signal::INT).unwrap();
        assert_eq!(wait(&mut call), Some(130));
        let audit = std::fs::read_to_string(sysmcp.audit_log()).unwrap();
        assert!(audit.contains("\"clean\":true"), "{image:?}: no receipt: {audit}");
        assert_clean(&container, "INT");
    }
}

#[test]
fn a_killed_controller_leaves_nothing_in_the_container() {
    let Some(docker) = Engine::docker("KILL of the controller, in a container").unwrap() else {
        return;
    };
    for image in [Image::Shell, Image::Distroless] {
        let container = docker.run(image, &["--user", "1000"]).unwrap();
        let sysmcp = sysmcp(&docker, &container.target());
        let mut call = long_call(&sysmcp);
        alive(&container);
        signal(call.id(), Signal::KILL).unwrap();
        assert_eq!(wait(&mut call), None);
        assert_clean(&container, "KILL during a call");
        // And at moments of the push, which takes some hundred milliseconds.
        for step in 0..10 {
            let mut call = long_call(&sysmcp);
            sleep(Duration::from_millis(step * 40));
            signal(call.id(), Signal::KILL).unwrap();
            assert_eq!(wait(&mut call), None);
            sleep(Duration::from_millis(600));
            assert_clean(&container, &format!("KILL after {} ms of the push", step * 40));
        }
    }
}

#[test]
fn an_engines_client_that_is_killed_leaves_nothing_in_the_container() {
    let Some(docker) = Engine::docker("KILL of docker's client").unwrap() else { return };
    for image in [Image::Shell, Image::Distroless] {
        let container = docker.run(image, &[]).unwrap();
        let sysmcp = sysmcp(&docker, &container.target());
        let mut call = long_call(&sysmcp);
        alive(&container);
        for pid in clients(&container.name) {
            signal(pid, Signal::KILL).unwrap();
        }
        assert_ne!(wait(&mut call), Some(0));
        assert_clean(&container, "KILL of the client");
    }
}

/// What is half copied can only be removed by a copy that is whole.
#[test]
fn an_engines_client_that_is_killed_while_it_copies_leaves_nothing_in_the_container() {
    let Some(docker) = Engine::docker("KILL of docker's client, in a copy").unwrap() else {
        return;
    };
    let container = docker.run(Image::Distroless, &[]).unwrap();
    for delay in [0, 10, 20, 40, 80] {
        let sysmcp = sysmcp(&docker, &container.target());
        let mut call = long_call(&sysmcp);
        let started = Instant::now();
        let pids = loop {
            let pids = clients_that("docker cp ", &container.name);
            if !pids.is_empty() {
                break pids;
            }
            assert!(started.elapsed() < PATIENCE, "nothing is copied");
            sleep(Duration::from_millis(1));
        };
        sleep(Duration::from_millis(delay));
        for pid in pids {
            // It may be done.
            let _ = signal(pid, Signal::KILL);
        }
        sleep(SECOND);
        let _ = signal(call.id(), Signal::INT);
        wait(&mut call);
        assert_clean(&container, &format!("KILL {delay} ms into the copy"));
    }
}

/// An engine that takes its time is still copying when sysmcp wants to go.
#[test]
fn a_copy_that_takes_long_is_removed_when_sysmcp_is_ended_meanwhile() {
    let Some(docker) = Engine::docker("TERM during a copy that takes long").unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("docker");
    let path = std::env::var("PATH").unwrap();
    let script = format!(
        "#!/bin/sh\nPATH='{path}'\ntest \"$1\" != cp || {{ : >'{}'; sleep 3; }}\nexec docker \"$@\"\n",
        folder.path().join("copies").display()
    );
    std::fs::write(&slow, script).unwrap();
    std::fs::set_permissions(&slow, std::fs::Permissions::from_mode(0o755)).unwrap();
    let container = docker.run(Image::Distroless, &[]).unwrap();
    for what in [Signal::TERM, Signal::KILL] {
        let path = format!("{}:{path}", folder.path().display());
        let sysmcp = sysmcp(&docker, &container.target()).with_variable("PATH", path);
        let _ = std::fs::remove_file(folder.path().join("copies"));
        let mut call = long_call(&sysmcp);
        let started = Instant::now();
        while !folder.path().join("copies").exists() {
            assert!(started.elapsed() < PATIENCE, "nothing is copied");
            sleep(Duration::from_millis(10));
        }
        signal(call.id(), what).unwrap();
        wait(&mut call);
        // It comes, and it goes.
        sleep(4 * SECOND);
        assert_clean(&container, &format!("{what:?} during a copy that takes long"));
    }
}

/// The `docker exec` of a session on the host.
fn clients(name: &str) -> Vec<u32> {
    let clients = clients_that("docker exec ", name);
    assert!(!clients.is_empty(), "no client of {name} runs");
    clients
}

/// Programs of the engine that do something with a container.
fn clients_that(does: &str, name: &str) -> Vec<u32> {
    let is_client = |pid: &u32| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        command.starts_with(does) && command.contains(name)
    };
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    pids.filter(is_client).collect()
}

#[test]
fn a_container_that_is_killed_ends_the_call_with_a_word() {
    let Some(docker) = Engine::docker("KILL of a container").unwrap() else { return };
    let container = docker.run(Image::Shell, &[]).unwrap();
    let sysmcp = sysmcp(&docker, &container.target());
    let mut call = long_call(&sysmcp);
    alive(&container);
    container.make(&["kill"]).unwrap();
    assert_eq!(wait(&mut call), Some(19));
    let left = container.session().unwrap();
    assert!(left.is_empty(), "{left:?}");
}
