//! What happens while a connection comes about: who shares it, who may end it, what it leaves.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal, kill_process};
use scenarios::{
    client::Client,
    not_run::not_run,
    programs,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
    terminal,
};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// A port that accepts and says nothing, and how often it was connected to.
fn silent_port() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    std::thread::spawn(move || {
        let kept: Vec<_> = listener
            .incoming()
            .inspect(|_| {
                counted.fetch_add(1, Ordering::Relaxed);
            })
            .collect();
        drop(kept);
    });
    (port, count)
}

fn call() -> Value {
    json!({"name": "process_list", "arguments": {"window_ms": 200}})
}

/// How many processes there are with some words in their command line.
fn processes_with(words: &str) -> usize {
    let list = Command::new("ps").args(["-e", "-o", "args="]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    list.lines().filter(|line| line.contains(words)).count()
}

fn audit(sysmcp: &Sysmcp, event: &str) -> Vec<String> {
    let text = fs::read_to_string(sysmcp.audit_log()).unwrap();
    let event = format!("\"event\":\"{event}\"");
    text.lines().filter(|line| line.contains(&event)).map(str::to_owned).collect()
}

#[test]
fn calls_that_wait_share_one_attempt_and_its_failure() {
    let (port, connections) = silent_port();
    let sysmcp = Sysmcp::local().unwrap().at(&format!("ssh:me@127.0.0.1:{port}"));
    let sysmcp = sysmcp.with(&["--connect-timeout", "3"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    let started = Instant::now();
    let ids: Vec<u64> = (0..4).map(|_| client.ask("tools/call", &call()).unwrap()).collect();
    for id in ids {
        let reply = client.reply(id, 10 * SECOND).unwrap().unwrap().to_string();
        assert!(reply.contains("connecting took longer than 3 s"), "{reply}");
    }
    assert!(started.elapsed() < 5 * SECOND, "{:?}", started.elapsed());
    assert_eq!(connections.load(Ordering::Relaxed), 1);
}

/// A target behind a link that takes its time to come up.
fn slow_target() -> (Sshd, Sysmcp) {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let relay = format!("{} relay {}", programs::scenarios().display(), sshd.port);
    let config = sshd.file("slow_config");
    let plain = fs::read_to_string(sshd.client_config()).unwrap();
    fs::write(&config, format!("{plain}  ProxyCommand sh -c 'sleep 4; exec {relay}'\n")).unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap().with_ssh_config(config);
    (sshd, sysmcp)
}

#[test]
fn a_call_that_is_withdrawn_does_not_end_the_attempt_that_another_waits_for() {
    let (_sshd, sysmcp) = slow_target();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let first = client.ask("tools/call", &call()).unwrap();
    sleep(SECOND / 2);
    let second = client.ask("tools/call", &call()).unwrap();
    sleep(SECOND);
    client.notify("notifications/cancelled", &json!({"requestId": first})).unwrap();
    let reply = client.reply(second, 20 * SECOND).unwrap().unwrap();
    assert_eq!(reply["result"]["isError"], false, "{reply}");
    assert_eq!(audit(&sysmcp, "connecting").len(), 1);
    client.close();
    assert!(client.ended(10 * SECOND).unwrap().is_some());
}

#[test]
fn the_last_withdrawal_ends_the_attempt_and_is_written_down() {
    // An ssh that is asked to end before it is connected leaves its command alone, which here ends when
    // it has slept and finds nobody.
    for (way, patience) in [("russh", 3 * SECOND), ("openssh", 6 * SECOND)] {
        last_withdrawal(way, patience);
    }
}

fn last_withdrawal(way: &str, patience: Duration) {
    let (sshd, sysmcp) = slow_target();
    let sysmcp = sysmcp.at(&sshd.target_by(way));
    // The command in the place of TCP: it waits, and then carries.
    let carries = format!("relay {}", sshd.port);
    let mut client = Client::start(sysmcp.command()).unwrap();
    let ids: Vec<u64> = (0..2).map(|_| client.ask("tools/call", &call()).unwrap()).collect();
    sleep(SECOND);
    assert_ne!(processes_with(&carries), 0, "{way}");
    for id in ids {
        client.notify("notifications/cancelled", &json!({"requestId": id})).unwrap();
    }
    let started = Instant::now();
    while processes_with(&carries) > 0 {
        assert!(started.elapsed() < patience, "{way}: the connection goes on");
        sleep(SECOND / 20);
    }
    let given_up = audit(&sysmcp, "not_connected");
    assert!(given_up.iter().any(|line| line.contains("was withdrawn")), "{given_up:?}");
    // And the next call makes an attempt of its own.
    let reply = client.call("process_list", &json!({"window_ms": 200}), 20 * SECOND).unwrap();
    assert_eq!(reply.get("isError"), Some(&json!(false)), "{reply}");
}

/// Runs sysmcp at a terminal, and types once a text has appeared.
fn at_a_terminal(command: &str, wait_for: &str, typed: &[u8]) -> String {
    terminal::run(command, &[(wait_for, typed)]).unwrap()
}

#[test]
fn ctrl_c_at_a_passphrase_gives_the_terminal_back() {
    let settings = Settings { passphrase: Some("hunter2".to_owned()), ..Settings::default() };
    let sshd = Sshd::start(&settings).unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap();
    if Command::new("script").arg("--version").output().is_err() {
        not_run("a passphrase at a terminal", "script (package bsdutils)");
        return;
    }
    for round in 0..5 {
        let command = sysmcp.typed("call process_list");
        let screen = at_a_terminal(&command, "Enter passphrase", b"\x03");
        assert!(screen.contains("code 130"), "round {round}: {screen}");
        assert!(screen.contains(" echo ") && !screen.contains("-echo "), "round {round}: {screen}");
    }
    let typed = at_a_terminal(
        &sysmcp.typed("call process_list --params '{\"limit\":1}'"),
        "Enter passphrase",
        b"hunter2\n",
    );
    assert!(typed.contains("code 0") && typed.contains("agent gone"), "{typed}");
}

#[test]
fn a_server_asks_nobody_not_even_for_a_jump_host() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let locked = Settings { passphrase: Some("hunter2".to_owned()), ..Settings::default() };
    let jump = Sshd::start(&locked).unwrap();
    let config = sshd.file("jump_config");
    let last = fs::read_to_string(sshd.client_config()).unwrap();
    let through = fs::read_to_string(jump.client_config()).unwrap();
    let through = through.replacen("Host 127.0.0.1", "Host jumpy\n  HostName 127.0.0.1", 1);
    let port = format!("  Port {}\n", jump.port);
    fs::write(&config, format!("{through}{port}{last}  ProxyJump jumpy\n")).unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap().with_ssh_config(config.clone());
    let started = Instant::now();
    let client = at_a_terminal(
        &format!(
            "(echo '{}'; echo '{}'; sleep 6) | {}",
            json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
                "protocolVersion": "2025-11-25", "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"}}}),
            json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call()}),
            sysmcp.typed("serve")
        ),
        "serverInfo",
        b"\n",
    );
    assert!(client.contains("\"isError\":true"), "{client}");
    assert!(!client.contains("Enter passphrase"), "{client}");
    assert!(client.contains(" echo "), "{client}");
    assert!(started.elapsed() < 20 * SECOND);
    assert_eq!(processes_with(config.to_str().unwrap()), 0);
}

#[test]
fn a_second_ctrl_c_ends_the_wait_for_the_end() {
    let sysmcp = Sysmcp::local().unwrap().with(&["--toolsets", "selftest"]);
    let mut command = sysmcp.command();
    command.args(["call", "self_test", "--params", "{\"count\":1,\"interval_ms\":5000}"]);
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let started = Instant::now();
    while !fs::read_to_string(sysmcp.audit_log()).is_ok_and(|log| log.contains("\"connected\"")) {
        assert!(started.elapsed() < 20 * SECOND);
        sleep(SECOND / 50);
    }
    sleep(SECOND / 5);
    // An agent that cannot end, because it is stopped.
    let connected: Value = serde_json::from_str(&audit(&sysmcp, "connected")[0]).unwrap();
    let pids: Vec<Pid> = serde_json::from_value::<[i32; 2]>(connected["pids"].clone())
        .unwrap()
        .map(|pid| Pid::from_raw(pid).unwrap())
        .to_vec();
    for pid in &pids {
        kill_process(*pid, Signal::STOP).unwrap();
    }
    let ours = Pid::from_child(&running);
    kill_process(ours, Signal::INT).unwrap();
    sleep(SECOND);
    assert!(running.try_wait().unwrap().is_none(), "the first waits for the end");
    let started = Instant::now();
    kill_process(ours, Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(started.elapsed() < 3 * SECOND, "{said}");
    assert_eq!(output.status.code(), Some(130), "{said}");
    for words in ["its end was not waited for", "it has no file there", " sweep` shows"] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    let stopped = audit(&sysmcp, "stopped");
    assert!(stopped.iter().any(|line| line.contains("\"clean\":false")), "{stopped:?}");
    for pid in pids {
        let _ = kill_process(pid, Signal::KILL);
    }
}
