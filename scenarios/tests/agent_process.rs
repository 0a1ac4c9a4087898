//! The agent as a process: whatever it was started with, it ends when its channel does.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use scenarios::programs;
use std::{
    io::Read as _,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The supervisor's own patience with what will not end, and some time for a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

/// An exit code of the agent, as `docs/commands/probe-agent.md` has it.
const CHANNEL_CLOSED: i32 = 73;

/// A shell that becomes the agent after what this script does; `$agent` is its program.
fn agent_after(script: &str, agent: &std::path::Path) -> Child {
    Command::new("/bin/sh")
        .args(["-c", script])
        .env("agent", agent)
        .env("serve", format!("serve {TOKEN}"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap()
}

/// Waits until the agent has said its first word, closes its channel, and waits for its end.
fn close(agent: &mut Child) -> ExitStatus {
    let mut first = [0; 1];
    agent.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    drop(agent.stdin.take());
    let closed = Instant::now();
    loop {
        if let Some(status) = agent.try_wait().unwrap() {
            return status;
        }
        if closed.elapsed() > PATIENCE {
            agent.kill().unwrap();
            panic!("it did not end in {PATIENCE:?} after its channel was closed");
        }
        sleep(Duration::from_millis(20));
    }
}

#[test]
fn it_ends_though_whoever_started_it_ignores_the_end_of_children() {
    // Not every shell passes on what it ignores: dash keeps SIGCHLD for itself.
    let script = "exec env --ignore-signal=CHLD \"$agent\" $serve";
    let status = close(&mut agent_after(script, &programs::agent()));
    assert_eq!(status.code(), Some(CHANNEL_CLOSED), "{status}");
}
