//! A session: frames in on stdin, frames out on stdout.
//!
//! A thread of its own reads stdin, so that a closed channel ends the agent even while every call
//! is busy. The main thread watches the clock: a network that is cut silently never closes the
//! channel. Each call runs on a thread of its own, a bounded number at a time.

mod calls;

use crate::{
    exit,
    os::{stdout::write_all, supervisor::Worker},
    proc::Root,
};
use calls::Calls;
use protocol::{
    WIRE_ID,
    frame::{self, FrameBuffer},
    handshake::{AgentMark, MarkScanner, Sha256, Token},
    host_text::HostText,
    message::{FromAgent, Hello, ToAgent},
    sweep::{FILE, folder_of},
};
use sha2::Digest as _;
use std::{
    io::Read as _,
    path::{Path, PathBuf},
    process::exit as end,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How a session was started.
#[derive(Clone, Debug)]
pub struct Start {
    /// Ties the session to the controller that started it.
    pub token: Token,
    /// The folder the agent's file was put in, which must be gone.
    pub folder: Option<PathBuf>,
    /// The folder with the snapshot to answer from, instead of the machine it runs on.
    pub snapshot: Option<PathBuf>,
}

impl Start {
    /// Whether nothing of the session has a name on the target.
    pub fn is_folder_gone(&self) -> bool {
        self.folder.as_ref().is_none_or(|folder| !folder.exists())
    }

    /// Removes the folder the agent was started from, where a container's engine put it there. Only a folder of this very session: the name carries the token.
    pub fn remove_folder(&self) {
        let Some(folder) = &self.folder else { return };
        let own_name = folder_of(&self.token);
        if folder.file_name().is_some_and(|name| name == own_name.as_str()) {
            let _ = std::fs::remove_file(folder.join(FILE));
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Silence after which the agent ends itself, until the controller sets its own limit.
pub const SILENCE_LIMIT: Duration = Duration::from_secs(30);

/// Serves one session. Returns the process's exit code.
pub fn serve(start: &Start, worker: Worker) -> i32 {
    let root = match Root::open(start.snapshot.as_deref()) {
        Ok(root) => root,
        Err(error) => return crate::exit::complain(&error, exit::CANNOT_START),
    };
    let (mark, hello) = match greeting(&root, start, worker.supervisor_pid) {
        Ok(greeting) => greeting,
        Err(error) => return crate::exit::complain(&error, exit::CANNOT_START),
    };
    let outbox = Arc::new(Outbox::default());
    let heard = Arc::new(Heard::new());
    let calls = Calls::new(root, Arc::clone(&outbox));
    let (reader_heard, token) = (Arc::clone(&heard), start.token.clone());
    // Before it is said that the agent is there: where no thread can be started, it is not.
    let reader = std::thread::Builder::new()
        .name("reader".to_owned())
        .spawn(move || end(read_messages(&token, &calls, &reader_heard)));
    if let Err(error) = reader {
        let error = format!("cannot start a thread: {error}");
        return crate::exit::complain(&error, exit::CANNOT_START);
    }
    if write_all(&mark.to_bytes()).is_err() || !outbox.send(&hello) {
        return exit::CHANNEL_CLOSED;
    }
    heard.wait_for_silence();
    exit::SILENCE
}

/// When the controller was last heard.
#[derive(Debug)]
struct Heard {
    started: Instant,
    last_ms: AtomicU64,
    limit_ms: AtomicU32,
}

impl Heard {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            last_ms: AtomicU64::new(0),
            limit_ms: AtomicU32::new(crate::call::millis(SILENCE_LIMIT)),
        }
    }

    fn now(&self) {
        self.last_ms.store(self.elapsed_ms(), Ordering::Relaxed);
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns when nothing was heard for the limit.
    fn wait_for_silence(&self) {
        loop {
            let limit_ms = u64::from(self.limit_ms.load(Ordering::Relaxed));
            let silent_ms = self.elapsed_ms().saturating_sub(self.last_ms.load(Ordering::Relaxed));
            if silent_ms >= limit_ms {
                return;
            }
            let left = Duration::from_millis(limit_ms - silent_ms);
            std::thread::sleep(left.min(Duration::from_secs(1)));
        }
    }
}

/// Reads messages until the session ends. Returns the process's exit code.
fn read_messages(token: &Token, calls: &Calls, heard: &Heard) -> i32 {
    let mut stdin = std::io::stdin().lock();
    let mut scanner = Some(MarkScanner::for_controller(token));
    let mut buffer = FrameBuffer::default();
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = match stdin.read(&mut bytes) {
            Ok(0) => return exit::CHANNEL_CLOSED,
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return exit::CHANNEL_CLOSED,
        };
        heard.now();
        let received = bytes.get(..read).unwrap_or_default();
        match &mut scanner {
            None => buffer.push(received),
            Some(waiting) => match waiting.push(received) {
                Ok(None) => continue,
                Ok(Some(found)) => {
                    buffer.push(&found.rest);
                    scanner = None;
                }
                Err(_) => return exit::BAD_FRAME,
            },
        }
        loop {
            match buffer.take::<ToAgent>() {
                Ok(None) => break,
                Ok(Some(ToAgent::Stop)) => {
                    // Nothing may be half written when the supervisor sends its receipt.
                    calls.outbox.close();
                    return exit::STOPPED;
                }
                Ok(Some(message)) => handle(message, calls, heard),
                Err(_) => return exit::BAD_FRAME,
            }
        }
    }
}

fn handle(message: ToAgent, calls: &Calls, heard: &Heard) {
    match message {
        ToAgent::Terms(terms) => heard.limit_ms.store(terms.silence_limit_ms, Ordering::Relaxed),
        ToAgent::Call(call) => calls.start(call),
        ToAgent::Cancel { id } => calls.withdraw(id),
        ToAgent::Heartbeat { sequence } => {
            calls.outbox.send(&FromAgent::Heartbeat { sequence });
        }
        // The caller handles it: it ends the loop.
        ToAgent::Stop => {}
    }
}

/// The one way to stdout: whole frames, one at a time.
#[derive(Debug, Default)]
pub struct Outbox {
    is_closed: Mutex<bool>,
}

impl Outbox {
    /// Writes a message. False when the channel is closed.
    pub fn send(&self, message: &FromAgent) -> bool {
        let Ok(bytes) = frame::encode(message) else { return false };
        let is_closed = self.is_closed.lock().unwrap_or_else(PoisonError::into_inner);
        !*is_closed && write_all(&bytes).is_ok()
    }

    /// Waits for the frame that is being written, and lets no other follow.
    fn close(&self) {
        *self.is_closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// What an agent says first: what it is, and who is there.
///
/// # Errors
///
/// When its own file cannot be read.
pub fn greeting(
    root: &Root,
    start: &Start,
    supervisor_pid: u32,
) -> Result<(AgentMark, FromAgent), String> {
    let sha256 = own_sha256().map_err(|error| format!("cannot open its own file: {error}"))?;
    let mark = AgentMark { token: start.token.clone(), wire_id: WIRE_ID.to_owned(), sha256 };
    Ok((mark, hello(root, start, supervisor_pid)))
}

/// The digest of the file that runs.
fn own_sha256() -> std::io::Result<Sha256> {
    Ok(Sha256(sha2::Sha256::digest(std::fs::read(Path::new("/proc/self/exe"))?).into()))
}

fn hello(root: &Root, start: &Start, supervisor_pid: u32) -> FromAgent {
    // A snapshot is named as it was at its end.
    let root = root.for_call();
    root.pass(true);
    let mut buffer = Vec::new();
    let mut line = |path| {
        let read = root.read_proc(path, &mut buffer);
        if read.is_ok() { crate::proc::host_text(&buffer) } else { HostText::default() }
    };
    FromAgent::Hello(Hello {
        host_name: line("sys/kernel/hostname"),
        kernel_release: line("sys/kernel/osrelease"),
        uid: rustix::process::geteuid().as_raw(),
        worker_pid: std::process::id(),
        supervisor_pid,
        is_unlinked: start.is_folder_gone(),
    })
}
