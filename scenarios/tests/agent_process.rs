//! The agent as a process: whatever it was started with, it ends when its channel does, and its
//! exit code says what is left.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal, geteuid, kill_process};
use scenarios::{not_run::not_run, programs};
use std::{
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, ExitStatus, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// The supervisor's own patience with what will not end, and some time for a busy machine.
const PATIENCE: Duration = Duration::from_secs(15);

/// Exit codes of the agent, as `docs/commands/probe-agent.md` has them.
const CHANNEL_CLOSED: i32 = 73;
const DESCENDANTS_LEFT: i32 = 77;

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

#[test]
fn its_exit_code_says_that_it_could_not_end_all() {
    if !geteuid().is_root() {
        return not_run("a descendant that may not be ended", "root");
    }
    // A child of root, which an agent of another user may not kill. The file is put where that user
    // can read it.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let agent = folder.path().join("agent");
    std::fs::copy(programs::agent(), &agent).unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!(
        "sleep 3600 >&- 2>&- <&- & echo $! > {}; \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$agent\" $serve",
        pid_file.display()
    );
    let status = close(&mut agent_after(&script, &agent));
    let left: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
    assert_eq!(status.code(), Some(DESCENDANTS_LEFT), "{status}");
}
