//! A channel that a process of ours carries: a local shell, or `ssh`.

use super::Channel;
use std::{
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    process::{Child, Command},
    task::JoinHandle,
};

/// Bytes of stderr that are kept, the last ones: that is where the reason stands.
const STDERR_BYTES: usize = 8192;

/// The process behind a channel. Dropping it kills the process.
pub struct Carrier {
    child: Child,
    stderr: Arc<Mutex<Vec<u8>>>,
    stderr_reader: JoinHandle<()>,
}

/// Starts a command and takes its three streams.
///
/// # Errors
///
/// When it cannot be started.
pub fn start(mut command: Command) -> std::io::Result<Channel> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(std::io::Error::other("a stream of the process is missing"));
    };
    let kept = Arc::new(Mutex::new(Vec::new()));
    let stderr_reader = tokio::spawn(keep_end(stderr, Arc::clone(&kept)));
    let carrier = Carrier { child, stderr: kept, stderr_reader };
    Ok(Channel { reader: Box::new(stdout), writer: Box::new(stdin), process: Some(carrier) })
}

/// Reads stderr to its end, so that the process never blocks on it, and keeps the last part.
async fn keep_end(mut stderr: impl AsyncRead + Unpin, kept: Arc<Mutex<Vec<u8>>>) {
    let mut bytes = vec![0; 4096];
    while let Ok(read) = stderr.read(&mut bytes).await {
        if read == 0 {
            return;
        }
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes.get(..read).unwrap_or_default());
        let surplus = kept.len().saturating_sub(STDERR_BYTES);
        kept.drain(..surplus);
    }
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its status; `None` when it had to be killed because it would not end.
    pub status: Option<ExitStatus>,
    /// The last it wrote to stderr.
    pub stderr: Vec<u8>,
}

impl Carrier {
    /// Waits for the process to end by itself; kills it when it takes longer than `patience`.
    pub async fn end(mut self, patience: Duration) -> Ended {
        let status = match tokio::time::timeout(patience, self.child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                let _ = self.child.kill().await;
                None
            }
        };
        // The reader ends with the stream; a descendant that still holds it is not waited for.
        let _ = tokio::time::timeout(Duration::from_millis(200), &mut self.stderr_reader).await;
        self.stderr_reader.abort();
        let stderr = self.stderr.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ended { status, stderr }
    }
}
