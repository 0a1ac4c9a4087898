//! A second way in: a plain ssh that looks, with the target's own tools, for what a session of
//! sysmcp has there: processes, and files with a name.

pub mod standing;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
    time::{Duration, Instant},
};

/// A server that has another way in than sysmcp's.
pub trait Server {
    /// The server's own pid, as its target sees it; its sessions descend from it.
    fn pid(&self) -> u32;

    /// A plain ssh to it, to which the command is added.
    fn ssh(&self) -> Command;
}

/// A process as the second way sees it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    /// Its pid.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its start, as `ps` prints it: with the pid it names this process and no later one.
    pub started: String,
    /// Its name and arguments.
    pub command: String,
}

/// Folders in which a session may put its file; the same that the start-up script tries.
pub const PLACES: &str = "\"$XDG_RUNTIME_DIR\" /dev/shm /tmp /var/tmp \"$HOME\" /run";

/// Lists all processes.
///
/// # Errors
///
/// When the target does not answer.
pub fn processes(server: &impl Server) -> Result<Vec<Seen>> {
    let list = run(server, "ps -e -o pid=,ppid=,lstart=,args=")?;
    Ok(list.lines().filter_map(seen).collect())
}

fn seen(line: &str) -> Option<Seen> {
    let mut words = line.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let parent = words.next()?.parse().ok()?;
    let started = words.by_ref().take(5).collect::<Vec<_>>().join(" ");
    Some(Seen { pid, parent, started, command: words.collect::<Vec<_>>().join(" ") })
}

/// Lists files and folders of sessions that have a name.
///
/// # Errors
///
/// When the target does not answer.
pub fn files(server: &impl Server) -> Result<Vec<String>> {
    let script = format!(
        "for p in {PLACES}; do for f in \"$p\"/.sysmcp-*; do test -e \"$f\" && echo \"$f\"; done; \
         done; true"
    );
    Ok(run(server, &script)?.lines().map(str::to_owned).collect())
}

/// The processes of sessions that came through this server: the start-up script or the agent's own
/// two, and everything below them.
///
/// # Errors
///
/// When the target does not answer.
pub fn session(server: &impl Server) -> Result<Vec<Seen>> {
    let all = processes(server)?;
    let by_pid: BTreeMap<u32, &Seen> = all.iter().map(|seen| (seen.pid, seen)).collect();
    let belongs = |seen: &&Seen| {
        let mut line = Vec::new();
        let mut at = Some(*seen);
        while let Some(found) = at.filter(|_| line.len() < all.len()) {
            line.push(found);
            at = by_pid.get(&found.parent).copied();
        }
        line.iter().any(|seen| token_of(seen).is_some())
            && line.iter().any(|seen| seen.pid == server.pid())
    };
    Ok(all.iter().filter(belongs).cloned().collect())
}

/// The token of the session that a process belongs to, where its command line names it: the agent's
/// does, and the start-up script's.
fn token_of(seen: &Seen) -> Option<&str> {
    ["token=", " serve "].into_iter().find_map(|before| {
        let (_, behind) = seen.command.split_once(before)?;
        let token = behind.get(..32)?;
        token.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(token)
    })
}

/// The processes of a server's own that serve connections, youngest last. The way past sysmcp has one
/// too, which has ended by then.
///
/// # Errors
///
/// When the target does not answer.
pub fn serving(server: &impl Server) -> Result<Vec<Pid>> {
    let mut found = vec![server.pid()];
    for seen in &processes(server)? {
        if found.contains(&seen.parent) && seen.command.starts_with("sshd") {
            found.push(seen.pid);
        }
    }
    let alive = |pid: &&u32| Path::new(&format!("/proc/{pid}")).exists();
    let pids = found.iter().skip(1).filter(alive);
    Ok(pids.filter_map(|pid| Pid::from_raw(i32::try_from(*pid).ok()?)).collect())
}

/// Sends a signal to each of some processes, as far as they are there.
pub fn signal_all(pids: &[Pid], signal: Signal) {
    for pid in pids {
        let _ = kill_process(*pid, signal);
    }
}

/// What is left of processes that were seen before, and of files.
///
/// # Errors
///
/// When the target does not answer.
pub fn left(server: &impl Server, before: &[Seen]) -> Result<Vec<String>> {
    let now = processes(server)?;
    // A zombie has ended; whoever started it has not looked yet.
    let survives = |seen: &&Seen| {
        now.iter().any(|other| {
            other.pid == seen.pid
                && other.started == seen.started
                && !other.command.contains("<defunct>")
        })
    };
    // Also what was started since, and whatever its parent is now.
    let tokens: BTreeSet<&str> = before.iter().filter_map(token_of).collect();
    let is_of_session = |seen: &&Seen| token_of(seen).is_some_and(|token| tokens.contains(token));
    let mut left: Vec<String> = before
        .iter()
        .filter(survives)
        .chain(now.iter().filter(is_of_session))
        .map(|seen| format!("process {} {}", seen.pid, seen.command))
        .collect();
    left.extend(files(server)?.into_iter().map(|file| format!("file {file}")));
    Ok(left)
}

/// Waits until nothing is left. Returns what still is when the patience ends.
///
/// # Errors
///
/// When the target does not answer.
pub fn left_after(
    server: &impl Server,
    before: &[Seen],
    patience: Duration,
) -> Result<Vec<String>> {
    let started = Instant::now();
    loop {
        let found = left(server, before)?;
        if found.is_empty() || started.elapsed() > patience {
            return Ok(found);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn run(server: &impl Server, script: &str) -> Result<String> {
    // Whatever the login shell is.
    let through = format!("exec sh -c '{script}'");
    let output = server.ssh().arg(through).output().context("could not run ssh")?;
    anyhow::ensure!(
        output.status.success(),
        "the second way in failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
