//! What is going on, told to whoever waits: a person at a terminal, or an MCP client.

use crate::{
    screen,
    session::Lost,
    target::Target,
    transport::{Reason, Taken},
};
use protocol::{
    host_text::HostText,
    message::{Hello, Progress, Receipt},
};
use std::{
    fmt,
    io::Write as _,
    sync::{Mutex, PoisonError},
    time::Duration,
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
    /// The host closed the connection before it said what it is, and is asked again.
    ClosedEarly {
        /// The host.
        host: String,
        /// After which pause.
        pause: Duration,
        /// Which time this is that it is asked again, the first being 1.
        retry: u32,
        /// How often it is asked again at most.
        of: u32,
    },
    /// The session that there was is over, and there will be another.
    Lost {
        /// With which target.
        target: Target,
        /// Why it is over.
        why: Lost,
    },
    /// The agent is on its way.
    Sending(Sending),
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
    /// The agent has said who it is.
    pub fn connected(hello: &Hello) -> Self {
        let Hello { host_name, kernel_release, uid, .. } = hello;
        Self::Connected { host: host_name.clone(), kernel: kernel_release.clone(), uid: *uid }
    }

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
            Self::Sending(_) => 1,
            Self::Connected { .. } => 2,
            Self::Measuring(_) => 3,
            Self::Stopping => 4,
            // Each is news.
            Self::ClosedEarly { retry: 1, .. } => 6,
            Self::ClosedEarly { retry: 2, .. } => 7,
            Self::ClosedEarly { .. } => 8,
            Self::Lost { .. } => 9,
            Self::Sweeping => 10,
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
            Self::ClosedEarly { host, pause, retry, of } => write!(
                f,
                "trying again in {:.1} s ({retry} of {of}): {host} closed the connection before it said \
                 what it is: MaxStartups?",
                pause.as_secs_f64()
            ),
            Self::Lost { target, why } => {
                write!(f, "connecting anew to {target}: the session that there was is over: {why}")
            }
            Self::Sending(sending) => write!(f, "sending the agent: {sending}"),
            Self::Connected { host, kernel, uid } => {
                write!(f, "connected: host {host}, kernel {kernel}, as uid {uid}")
            }
            Self::Measuring(progress) => write!(f, "{progress}"),
            Self::Sweeping => f.write_str("looking for what sessions left"),
            Self::Stopping => f.write_str("stopping the agent"),
        }
    }
}

/// How far the agent is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sending {
    /// Bytes that were sent.
    pub sent: usize,
    /// Bytes in all.
    pub total: usize,
    /// For how long it has been on its way.
    pub took: Duration,
    /// Whether what was sent has arrived at the next machine. Otherwise it was handed to something
    /// that does not tell where it is, and may wait there.
    pub has_arrived: bool,
}

impl Sending {
    /// Nothing was sent yet.
    pub const fn begins(total: usize) -> Self {
        Self { sent: 0, total, took: Duration::ZERO, has_arrived: true }
    }
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { sent, total, took, has_arrived } = *self;
        let (sent_kb, total_kb) = (sent / 1000, total / 1000);
        if sent == 0 {
            return write!(f, "{total_kb} kB");
        }
        if !has_arrived {
            return write!(f, "{sent_kb} of {total_kb} kB handed on");
        }
        let bytes_per_s = sent as f64 / took.as_secs_f64().max(0.001);
        let percent = sent.saturating_mul(100) / total.max(1);
        write!(f, "{percent} % of {total_kb} kB, {:.0} kB/s", bytes_per_s / 1e3)?;
        let left = total.saturating_sub(sent);
        if left == 0 {
            return Ok(());
        }
        write!(f, ", about {:.0} s left", (left as f64 / bytes_per_s).ceil())
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
        Self {
            prefix,
            is_terminal: screen::is_steerable(&std::io::stderr()),
            last_kind: Mutex::new(None),
        }
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
    fn what_is_on_its_way_is_told_with_its_pace_where_that_is_known() {
        let sending = |sent, seconds, has_arrived| {
            let took = Duration::from_secs(seconds);
            Sending { sent, total: 812_000, took, has_arrived }.to_string()
        };
        for (sent, seconds, has_arrived, want) in [
            (0, 3, true, "812 kB"),
            (203_000, 10, true, "25 % of 812 kB, 20 kB/s, about 30 s left"),
            (811_000, 40, true, "99 % of 812 kB, 20 kB/s, about 1 s left"),
            (812_000, 40, true, "100 % of 812 kB, 20 kB/s"),
            (812_000, 0, false, "812 of 812 kB handed on"),
        ] {
            assert_eq!(sending(sent, seconds, has_arrived), want);
        }
    }

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
