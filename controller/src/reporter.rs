//! What is going on, told to whoever waits: a person at a terminal, or an MCP client.

use crate::{
    target::Target,
    transport::{Reason, Taken},
};
use protocol::{
    host_text::HostText,
    message::{Progress, Receipt},
};
use std::{
    fmt,
    io::{IsTerminal as _, Write as _},
    sync::{Mutex, PoisonError},
};

/// Something that takes time.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Logging in and getting a place ready.
    Connecting {
        /// To which target.
        target: Target,
        /// By which SSH, where it is one.
        taken: Option<Taken>,
    },
    /// The agent is on its way.
    Sending {
        /// Bytes that are.
        sent: usize,
        /// Bytes in all.
        total: usize,
    },
    /// The agent has said who it is.
    Connected {
        /// Its host's own name.
        host: HostText,
        /// Its host's kernel.
        kernel: HostText,
        /// The user it runs as.
        uid: u32,
    },
    /// A call is under way.
    Measuring(Progress),
    /// What sessions left is being looked for.
    Sweeping,
    /// The session is being ended.
    Stopping,
}

impl Stage {
    /// What connecting is called where it took too long.
    pub const NAME_CONNECTING: &'static str = "connecting";
    /// What sending is called where it took too long.
    pub const NAME_SENDING: &'static str = "sending and starting the agent";

    /// Stages of one kind replace each other on a terminal, and only the first is told elsewhere.
    const fn kind(&self) -> u8 {
        match self {
            // A second attempt, by another way than the first: why is news.
            Self::Connecting { taken: Some(Taken::Users(Reason::Wanted(_))), .. } => 5,
            Self::Connecting { .. } => 0,
            Self::Sending { .. } => 1,
            Self::Connected { .. } => 2,
            Self::Measuring(_) => 3,
            Self::Stopping => 4,
            Self::Sweeping => 6,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connecting { target: Target::Local, .. } => {
                f.write_str("starting the agent on this machine")
            }
            Self::Connecting { target: target @ Target::Snapshot(_), .. } => {
                write!(f, "starting the agent on this machine, over {target}")
            }
            Self::Connecting { target, taken } => {
                write!(f, "connecting to {target}")?;
                taken.as_ref().map_or(Ok(()), |taken| write!(f, " {taken}"))
            }
            Self::Sending { sent: 0, total } => write!(f, "sending the agent: {} kB", total / 1000),
            Self::Sending { sent, total } => {
                write!(f, "sending the agent: {} of {} kB", sent / 1000, total / 1000)
            }
            Self::Connected { host, kernel, uid } => {
                write!(f, "connected: host {host}, kernel {kernel}, as uid {uid}")
            }
            Self::Measuring(progress) => write!(f, "{progress}"),
            Self::Sweeping => f.write_str("looking for what sessions left"),
            Self::Stopping => f.write_str("stopping the agent"),
        }
    }
}

/// Where stages are told.
pub trait Reporter: Send + Sync {
    /// A stage began, or went on.
    fn stage(&self, stage: &Stage);
}

/// Tells nobody.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Reporter for Silent {
    fn stage(&self, _: &Stage) {}
}

/// Tells whoever there is, if anybody.
impl<R: Reporter> Reporter for Option<R> {
    fn stage(&self, stage: &Stage) {
        if let Some(reporter) = self {
            reporter.stage(stage);
        }
    }
}

/// Tells a person on stderr: one line that is written over on a terminal, a line for each kind of
/// stage elsewhere.
#[derive(Debug)]
pub struct Stderr {
    /// What stands before each stage.
    prefix: String,
    is_terminal: bool,
    last_kind: Mutex<Option<u8>>,
}

impl Default for Stderr {
    fn default() -> Self {
        Self::with_prefix("sysmcp: ".to_owned())
    }
}

impl Stderr {
    /// Tells about one of several targets.
    pub fn about(target: &Target) -> Self {
        Self::with_prefix(format!("sysmcp: {target}: "))
    }

    fn with_prefix(prefix: String) -> Self {
        Self { prefix, is_terminal: std::io::stderr().is_terminal(), last_kind: Mutex::new(None) }
    }

    /// Clears the line, before something else is written.
    pub fn clear(&self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Reporter for Stderr {
    fn stage(&self, stage: &Stage) {
        let mut last = self.last_kind.lock().unwrap_or_else(PoisonError::into_inner);
        let is_new = last.replace(stage.kind()) != Some(stage.kind());
        // A closed stderr must not end anything.
        let prefix = &self.prefix;
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K{prefix}{stage}");
        } else if is_new {
            let _ = writeln!(std::io::stderr(), "{prefix}{stage}");
        }
    }
}

/// What is left on a target, in a sentence.
pub fn receipt_line(target: &Target, receipt: &Receipt) -> String {
    let Receipt { worker_pid, supervisor_pid, descendants_ended, descendants_left, files_left } =
        receipt;
    let mut line = format!(
        "receipt: {target}: agent gone (pids {supervisor_pid} and {worker_pid}), \
         {descendants_left} processes left, {files_left} files left"
    );
    if *files_left == 0 {
        line.push_str(", 0 bytes left");
    }
    if *descendants_ended > 0 {
        line.push_str(&format!("; ended {descendants_ended} that it had started"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_says_what_is_left() {
        let receipt = Receipt {
            worker_pid: 12,
            supervisor_pid: 11,
            descendants_ended: 2,
            descendants_left: 0,
            files_left: 0,
        };
        assert_eq!(
            receipt_line(&Target::Local, &receipt),
            "receipt: local: agent gone (pids 11 and 12), 0 processes left, 0 files left, 0 bytes \
             left; ended 2 that it had started"
        );
    }
}
