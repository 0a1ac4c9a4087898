//! A second way in: a plain ssh that looks, with the target's own tools, for what a session of
//! sysmcp has there: processes, and files with a name.

pub mod standing;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeSet,
    fmt,
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

impl Seen {
    /// Whether it has ended, and only waits for its parent to look.
    pub fn has_ended(&self) -> bool {
        self.command.contains("<defunct>")
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} {}", self.pid, self.command)
    }
}

/// What lists all processes, each on a line that [`seen`] reads.
const PS: &str = "ps -e -o pid=,ppid=,lstart=,args=";

/// Folders in which a session may put its file; the same that the start-up script tries.
pub const PLACES: &str = "\"$XDG_RUNTIME_DIR\" /dev/shm /tmp /var/tmp \"$HOME\" /run";

/// Lists all processes.
///
/// # Errors
///
/// When the target does not answer.
pub fn processes(server: &impl Server) -> Result<Vec<Seen>> {
    Ok(run(server, PS)?.lines().filter_map(seen).collect())
}

fn seen(line: &str) -> Option<Seen> {
    let mut words = line.split_whitespace();
    let pid = words.next()?.parse().ok()?;
    let parent = words.next()?.parse().ok()?;
    let started = words.by_ref().take(5).collect::<Vec<_>>().join(" ");
    Some(Seen { pid, parent, started, command: words.collect::<Vec<_>>().join(" ") })
}

/// Those of some processes that were seen before and have not ended since.
pub fn survivors<'b>(before: &'b [Seen], now: &[Seen]) -> Vec<&'b Seen> {
    let is_there = |seen: &&Seen| {
        let is_it = |now: &Seen| now.pid == seen.pid && now.started == seen.started;
        // A zombie has ended; whoever started it has not looked yet.
        now.iter().any(|now| is_it(now) && !now.has_ended())
    };
    before.iter().filter(is_there).collect()
}

/// A process and all that it descends from, the youngest first.
pub fn ancestry(all: &[Seen], pid: u32) -> Vec<&Seen> {
    let mut line = Vec::new();
    let mut at = Some(pid);
    while let Some(seen) = at.and_then(|pid| all.iter().find(|seen| seen.pid == pid))
        && line.len() < all.len()
    {
        line.push(seen);
        at = Some(seen.parent);
    }
    line
}

/// The sshd process that carries a session: the nearest one that a process of it descends from.
///
/// # Errors
///
/// When the target does not answer, or there is none.
pub fn carrier(server: &impl Server, pid: u32) -> Result<u32> {
    let all = processes(server)?;
    let sshd = ancestry(&all, pid).into_iter().find(|seen| seen.command.starts_with("sshd"));
    Ok(sshd.with_context(|| format!("no sshd carries process {pid}"))?.pid)
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
    let mut seen = processes(server)?;
    let all = seen.clone();
    seen.retain(|seen| is_of_session(&all, seen, server.pid()));
    Ok(seen)
}

/// Whether a process among all there are belongs to a session that came through the server with this
/// pid.
pub fn is_of_session(all: &[Seen], seen: &Seen, server: u32) -> bool {
    let line = ancestry(all, seen.pid);
    line.iter().any(|seen| token_of(seen).is_some()) && line.iter().any(|seen| seen.pid == server)
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
    Ok(pids.filter_map(|pid| pid_of(*pid)).collect())
}

fn pid_of(pid: u32) -> Option<Pid> {
    Pid::from_raw(i32::try_from(pid).ok()?)
}

/// Sends a signal to a process.
///
/// # Errors
///
/// When it is not there, or may not be sent one.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let it = pid_of(pid).with_context(|| format!("{pid} is no pid"))?;
    kill_process(it, signal).with_context(|| format!("could not send a signal to process {pid}"))
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
    // Also what was started since, and whatever its parent is now.
    let tokens: BTreeSet<&str> = before.iter().filter_map(token_of).collect();
    let has_token = |seen: &&Seen| token_of(seen).is_some_and(|token| tokens.contains(token));
    let survivors = survivors(before, &now);
    let processes = survivors.into_iter().chain(now.iter().filter(has_token));
    let mut left: Vec<String> = processes.map(ToString::to_string).collect();
    left.extend(files(server)?.into_iter().map(|file| format!("file {file}")));
    Ok(left)
}

/// What is left of any sessions that came through this server: files, and processes.
///
/// # Errors
///
/// When the target does not answer.
pub fn left_on(server: &impl Server) -> Result<Vec<String>> {
    let mut left = files(server)?;
    left.extend(session(server)?.iter().map(ToString::to_string));
    Ok(left)
}

/// Waits until nothing is left of processes that were seen before, and of files. Gives what still is
/// when the patience ends.
///
/// # Errors
///
/// When the target does not answer.
pub fn left_after(
    server: &impl Server,
    before: &[Seen],
    patience: Duration,
) -> Result<Vec<String>> {
    still_left(patience, || left(server, before))
}

/// Looks until nothing is left. Gives what still is when the patience ends.
///
/// # Errors
///
/// When a look fails.
pub fn still_left(
    patience: Duration,
    mut look: impl FnMut() -> Result<Vec<String>>,
) -> Result<Vec<String>> {
    let started = Instant::now();
    loop {
        let found = look()?;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, command: &str) -> Seen {
        Seen { pid, parent, started: String::new(), command: command.to_owned() }
    }

    #[test]
    fn who_descends_from_whom_ends_also_where_pids_were_given_anew_meanwhile() {
        let all =
            [process(1, 0, "init"), process(7, 8, "a"), process(8, 7, "b"), process(9, 1, "c")];
        let pids = |pid| ancestry(&all, pid).iter().map(|seen| seen.pid).collect::<Vec<u32>>();
        assert_eq!(pids(9), [9, 1]);
        assert!(pids(10).is_empty());
        assert!(pids(7).starts_with(&[7, 8]));
    }

    #[test]
    fn a_zombie_is_no_survivor_and_neither_is_another_with_its_pid() {
        let before = [process(7, 1, "sleep 9")];
        assert_eq!(survivors(&before, &before).len(), 1);
        assert!(survivors(&before, &[process(7, 1, "[sleep] <defunct>")]).is_empty());
        let later = Seen { started: "later".to_owned(), ..process(7, 1, "sleep 9") };
        assert!(survivors(&before, &[later]).is_empty());
    }

    #[test]
    fn a_session_is_known_by_its_token_below_its_server() {
        let token = "0123456789abcdef0123456789abcdef";
        let agent = format!("/proc/self/fd/4 serve {token}");
        let all = [process(5, 1, "sshd"), process(6, 5, &agent), process(7, 6, "ps")];
        let belongs = |pid: usize, server| is_of_session(&all, &all[pid], server);
        assert!(!belongs(0, 5) && belongs(1, 5) && belongs(2, 5));
        assert!(!belongs(1, 4));
    }
}
