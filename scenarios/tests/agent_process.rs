//! The agent as a process: whatever it was started with, it ends when its channel does, and its
//! exit code says what is left; and by hand, in surroundings that cannot be made up.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal, geteuid, kill_process};
use scenarios::{behind::behind, client::Client, not_run::not_run, programs, sysmcp::Sysmcp};
use serde_json::{Value, json};
use std::{
    io::Read as _,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, ExitStatus, Output, Stdio},
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
    // A process of root, which an agent of another user may not kill. The shell had it through another
    // one, which ends when the agent is there: so it becomes a descendant of the agent's. The file is
    // put where that user can read it.
    let folder = tempfile::tempdir().unwrap();
    let agent = programs::agent_for_all(folder.path()).unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!(
        "sh -c 'sleep 3600 & echo $! > {}; \
         until grep -q sysmcp-super /proc/$PPID/comm; do sleep 0.02; done' >/dev/null 2>&1 <&- & \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$agent\" $serve",
        pid_file.display()
    );
    let mut agent = agent_after(&script, &agent);
    let started = Instant::now();
    let left: i32 = loop {
        let pid = std::fs::read_to_string(&pid_file).unwrap_or_default();
        let status = std::fs::read_to_string(format!("/proc/{}/status", pid.trim()));
        if status.is_ok_and(|status| status.contains(&format!("PPid:\t{}\n", agent.id()))) {
            break pid.trim().parse().unwrap();
        }
        assert!(started.elapsed() < PATIENCE, "the agent has no descendant");
        sleep(Duration::from_millis(20));
    };
    let status = close(&mut agent);
    kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
    assert_eq!(status.code(), Some(DESCENDANTS_LEFT), "{status}");
}

#[test]
fn what_the_shell_had_started_before_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let script = format!(
        "sleep 3600 >/dev/null 2>&1 <&- & echo $! > {}; exec \"$agent\" $serve",
        pid_file.display()
    );
    let status = close(&mut agent_after(&script, &programs::agent()));
    let pid: i32 = std::fs::read_to_string(pid_file).unwrap().trim().parse().unwrap();
    let pid = Pid::from_raw(pid).unwrap();
    assert_eq!(status.code(), Some(CHANNEL_CLOSED), "{status}");
    kill_process(pid, Signal::KILL).unwrap();
}

/// What the agent says by hand after a shell set this limit.
fn local_after(limit: &str, tool: &str, parameters: &Value) -> Output {
    let script = format!("{limit}; exec \"$0\" --local {tool} --params \"$1\" --json");
    Command::new("/bin/sh")
        .args(["-c", &script])
        .arg(programs::agent())
        .arg(parameters.to_string())
        .output()
        .unwrap()
}

/// More than the agent looks at, and two files are kept for each that it does.
const MANY_THREADS: usize = 100;

#[test]
fn a_login_with_few_open_files_gets_the_same_answer() {
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
    for _ in 0..MANY_THREADS {
        let wait = std::sync::Arc::clone(&wait);
        std::thread::spawn(move || wait.lock().map(|wait| wait.recv().is_ok()).is_ok());
    }
    let parameters = json!({"pid": std::process::id(), "window_ms": 300});
    // What may be raised is raised; with what may not, fewer files are kept open.
    for limit in ["ulimit -Sn 16", "ulimit -n 64", "ulimit -n 16", "ulimit -n 7"] {
        let output = local_after(limit, "process_inspect", &parameters);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{limit}: {said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let waits = &answer["waits"];
        assert!(waits["threads_sampled"].as_u64().unwrap() > 50, "{limit}: {waits}");
        assert!(waits["samples"].as_u64().unwrap() > 0, "{limit}: {waits}");
        let found: u64 = waits["groups"]
            .as_array()
            .unwrap()
            .iter()
            .map(|group| group["threads"].as_u64().unwrap())
            .sum();
        assert!(found >= waits["threads_sampled"].as_u64().unwrap(), "{limit}: {waits}");
        let not_measured = answer["meta"]["not_measured"].to_string();
        for words in ["open at once", "error number"] {
            assert!(!not_measured.contains(words), "{limit}: {not_measured}");
        }
    }
    drop(end);
}

#[test]
fn where_no_file_can_be_opened_the_answer_says_so() {
    let output = local_after("ulimit -n 5", "process_list", &json!({"window_ms": 100}));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("no more than 5 files open at once"), "{said}");
    assert!(said.contains("ulimit -Hn"), "{said}");
}

#[test]
fn from_within_a_cgroup_namespace_no_limit_is_claimed() {
    if !geteuid().is_root() {
        return not_run("a cgroup namespace", "root");
    }
    // Its top is the cgroup that the agent is in, and its mounts are those of outside.
    let output = Command::new("unshare")
        .arg("--cgroup")
        .arg(programs::agent())
        .args(["--local", "process_inspect", "--json", "--params"])
        .arg(json!({"pid": std::process::id(), "window_ms": 100}).to_string())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let not_measured = &answer["meta"]["not_measured"];
    for field in ["cgroup.cpu_quota_cores", "cgroup.memory_limit_bytes", "process.container"] {
        let why = not_measured[field].as_str().unwrap_or_default();
        assert!(why.starts_with("not visible from here"), "{field}: {not_measured}");
    }
}

/// All processes whose command line is this one.
fn named(command: &str) -> Vec<Pid> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = pids.filter_map(|entry| entry.file_name().to_string_lossy().parse().ok());
    let is_it = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).trim_end_matches('\0').replace('\0', " ") == command
    };
    pids.filter(is_it).filter_map(Pid::from_raw).collect()
}

fn parent_of(pid: i32) -> i32 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().parse().unwrap()
}

/// What the supervisor cannot do any more, the kernel does: the programs that the spawner has started
/// end with it, as it ends with the supervisor.
#[test]
fn a_program_that_runs_ends_with_a_supervisor_that_is_killed() {
    const WHAT: &str = "a program that runs when the supervisor is killed";
    const STRACE: &str = "/usr/bin/strace";
    if !geteuid().is_root() {
        return not_run(WHAT, "root, for mounts of its own");
    }
    if !std::path::Path::new(STRACE).is_file() {
        return not_run(WHAT, "strace (package strace)");
    }
    // A number of seconds that nobody else sleeps.
    let sleeps = format!("sleep {}", 1_000_000 + std::process::id());
    let folder = tempfile::tempdir().unwrap();
    let stand_in = folder.path().join("strace");
    std::fs::write(&stand_in, format!("#!/bin/sh\nexec {sleeps}\n")).unwrap();
    std::fs::set_permissions(&stand_in, std::fs::Permissions::from_mode(0o755)).unwrap();
    let sysmcp = Sysmcp::local().unwrap();
    let script = format!("mount --bind \"$0\" {STRACE} && exec \"$@\"");
    let stand_in = stand_in.display().to_string();
    let words = ["unshare", "--mount", "sh", "-c", &script, &stand_in];
    let mut client = Client::start(behind(&words, &sysmcp.command())).unwrap();
    client.ask("tools/call", &json!({"name": "capabilities", "arguments": {}})).unwrap();
    // The spawner itself ends it after two seconds.
    let started = Instant::now();
    let program = loop {
        if let [program] = named(&sleeps).as_slice() {
            break *program;
        }
        assert!(started.elapsed() < PATIENCE, "the program was not started");
        sleep(Duration::from_millis(1));
    };
    let supervisor = parent_of(parent_of(program.as_raw_nonzero().get()));
    let name = std::fs::read_to_string(format!("/proc/{supervisor}/comm")).unwrap();
    assert_eq!(name, "sysmcp-super\n");
    kill_process(Pid::from_raw(supervisor).unwrap(), Signal::KILL).unwrap();
    let killed = Instant::now();
    while !named(&sleeps).is_empty() {
        assert!(killed.elapsed() < Duration::from_secs(1), "the program goes on");
        sleep(Duration::from_millis(1));
    }
}
