//! A channel that a process of ours carries: a local shell, or `ssh`.
//!
//! Such a process is asked to end before it is killed: `ssh` gives the terminal back and takes the
//! process of a jump host with it. One that has to put something in order on its way is never killed.
//! One whose channel was dropped ends in the background; [`settle`] waits for those.

#[cfg(unix)]
#[path = "process/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "process/windows.rs"]
mod system;

pub use system::set_apart;

use super::{Carrier, Channel, Ended, Outgoing, Prompts, carrier::Said};
use std::{
    ffi::OsStr,
    process::Stdio,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    task::JoinHandle,
};

/// What a process gets to end by itself, once it has been asked to.
const GRACE: Duration = Duration::from_secs(1);

/// What one gets that puts something in order: longer than the agent's supervisor waits for what it
/// ends, and an engine mostly needs to copy an agent. Then it goes on alone.
const CARE: Duration = Duration::from_secs(10);

/// What becomes of a process that does not end soon when it is asked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    /// It is killed: what is behind it ends by itself once it is gone.
    Killed,
    /// It is left to itself, because a kill would leave what only it can remove. Its channel is
    /// closed, so it ends.
    Left,
}

/// Processes whose channel was dropped, on their way to their end.
static ENDING: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

/// The process behind a channel. Dropping it ends the process, in the background.
pub struct Process {
    /// Taken when it ends.
    child: Option<Child>,
    late: Late,
    stderr: Arc<Said>,
    stderr_reader: JoinHandle<()>,
}

/// Makes every question go to a program that answers none, also those of the `ssh` that a jump host
/// needs, which `BatchMode` does not reach (ssh(1), OpenSSH 8.4).
pub const ASKS_NOBODY: [(&str, &str); 2] =
    [("SSH_ASKPASS", "false"), ("SSH_ASKPASS_REQUIRE", "force")];

/// A program that Ctrl-C does not end, and that asks nobody where nobody can be asked. Its arguments
/// come behind.
pub fn shielded(program: &OsStr, prompts: Prompts) -> Command {
    let mut command = system::shielded(program);
    if prompts == Prompts::Forbidden {
        command.envs(ASKS_NOBODY);
    }
    command
}

/// Starts a command and takes its three streams.
///
/// # Errors
///
/// When it cannot be started.
pub fn start(command: Command) -> std::io::Result<Channel> {
    start_with(command, Late::Killed)
}

/// Starts a command that removes something before it ends, and takes its three streams. It is asked
/// to end as any other, and never killed.
///
/// # Errors
///
/// When it cannot be started.
pub fn start_tidy(command: Command) -> std::io::Result<Channel> {
    start_with(command, Late::Left)
}

fn start_with(mut command: Command, late: Late) -> std::io::Result<Channel> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(late == Late::Killed);
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(std::io::Error::other("a stream of the process is missing"));
    };
    let outgoing = child.id().map_or(Outgoing::Unknown, |pid| Outgoing::Process { pid });
    let kept = Arc::new(Said::default());
    let stderr_reader = tokio::spawn(keep_end(stderr, Arc::clone(&kept)));
    let process = Process { child: Some(child), late, stderr: kept, stderr_reader };
    let channel = Channel::new(stdout, stdin, Some(Carrier::Process(Box::new(process))));
    Ok(Channel { outgoing, ..channel })
}

/// Reads stderr to its end, so that the process never blocks on it, and keeps the last part.
async fn keep_end(mut stderr: impl AsyncRead + Unpin, kept: Arc<Said>) {
    let mut bytes = vec![0; 4096];
    while let Ok(read) = stderr.read(&mut bytes).await {
        if read == 0 {
            return;
        }
        kept.push(bytes.get(..read).unwrap_or_default());
    }
}

impl Process {
    /// What it writes to stderr.
    pub(super) fn said(&self) -> Arc<Said> {
        Arc::clone(&self.stderr)
    }

    /// Waits for the process to end by itself; makes it end when it takes longer than `patience`.
    pub async fn end(mut self, patience: Duration) -> Ended {
        let code = match self.child.take() {
            Some(mut child) => match tokio::time::timeout(patience, child.wait()).await {
                Ok(status) => status.ok().and_then(|status| status.code()),
                Err(_) => {
                    end(child, self.late).await;
                    None
                }
            },
            None => None,
        };
        // The reader ends with the stream; a descendant that still holds it is not waited for.
        let _ = tokio::time::timeout(Duration::from_millis(200), &mut self.stderr_reader).await;
        let stderr = self.stderr.bytes();
        Ended { code, stderr, under: None, lost: None }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stderr_reader.abort();
        // Outside of the runtime nobody could wait for it; then it is killed.
        if let (Some(child), Ok(runtime)) =
            (self.child.take(), tokio::runtime::Handle::try_current())
        {
            let mut ending = ENDING.lock().unwrap_or_else(PoisonError::into_inner);
            ending.retain(|process| !process.is_finished());
            ending.push(runtime.spawn(end(child, self.late)));
        }
    }
}

/// Asks a process to end, and kills it when it does not, if it may be killed.
async fn end(mut child: Child, late: Late) {
    system::ask_to_end(&child);
    match late {
        Late::Killed => {
            if tokio::time::timeout(GRACE, child.wait()).await.is_err() {
                let _ = child.kill().await;
            }
        }
        Late::Left => {
            let _ = tokio::time::timeout(CARE, child.wait()).await;
        }
    }
}

/// What a command prints; `None` when it cannot be started, or does not end soon.
pub async fn printed(mut command: Command, patience: Duration) -> Option<Vec<u8>> {
    command.stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(patience, command.output()).await.ok()?.ok()?;
    Some(output.stdout)
}

/// Waits until every process has ended whose channel was dropped.
pub async fn settle() {
    let ending = std::mem::take(&mut *ENDING.lock().unwrap_or_else(PoisonError::into_inner));
    for process in ending {
        let _ = process.await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[tokio::test]
    async fn a_dropped_process_is_asked_to_end_before_it_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let (ready, asked) = (folder.path().join("ready"), folder.path().join("asked"));
        let script = format!(
            "trap ': >{}; exit' TERM; : >{}; while :; do sleep 0.01; done",
            asked.display(),
            ready.display()
        );
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]);
        let channel = start(command).unwrap();
        wait_for(&ready).await;
        drop(channel);
        settle().await;
        assert!(asked.exists());
    }

    #[tokio::test]
    async fn one_that_will_not_end_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let ready = folder.path().join("ready");
        let script = format!("trap '' TERM; echo $$ >{}; exec sleep 3600", ready.display());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]);
        let channel = start(command).unwrap();
        wait_for(&ready).await;
        let pid = std::fs::read_to_string(&ready).unwrap();
        let carrier = channel.carrier.unwrap();
        assert!(carrier.end(Duration::ZERO).await.code.is_none());
        assert!(!Path::new(&format!("/proc/{}", pid.trim())).exists());
    }

    #[tokio::test]
    async fn one_that_puts_something_in_order_is_not_killed() {
        let folder = tempfile::tempdir().unwrap();
        let (ready, done) = (folder.path().join("ready"), folder.path().join("done"));
        // As a shell does that waits for its child, it heeds the signal late.
        let script = format!(
            "trap ': >{}' EXIT; trap 'exit 1' TERM; : >{}; sleep 2",
            done.display(),
            ready.display()
        );
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]);
        let channel = start_tidy(command).unwrap();
        wait_for(&ready).await;
        drop(channel);
        settle().await;
        assert!(done.exists());
    }

    async fn wait_for(path: &Path) {
        for _ in 0..500 {
            if std::fs::read_to_string(path).is_ok_and(|text| path.exists() && text.len() != 1) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{} never came", path.display());
    }
}
