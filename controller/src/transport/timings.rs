//! What getting to a target took, step by step, and how many bytes went which way.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::io::{InspectReader, InspectWriter};

/// A step on the way to an answering agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Asking what the SSH configuration means, and choosing a way.
    Configuration,
    /// Until TCP, or the command in its place, carried bytes.
    Connection,
    /// Versions, keys, and the host's proof of who it is.
    KeyExchange,
    /// Until the user was let in.
    Login,
    /// Until the command's channel was open.
    Channel,
    /// Until the start-up script had a place for the agent. Over the user's own `ssh` this is
    /// everything since it was started.
    Ready,
    /// Until the agent was sent, checked and running, and had said who it is.
    Started,
}

impl Step {
    /// What the step is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Configuration => "configuration",
            Self::Connection => "connection",
            Self::KeyExchange => "key exchange",
            Self::Login => "login",
            Self::Channel => "channel",
            Self::Ready => "ready",
            Self::Started => "agent sent and started",
        }
    }
}

/// What each step took.
#[derive(Clone, Debug)]
pub struct Timings {
    last: Instant,
    steps: Vec<(Option<String>, Step, Duration)>,
    /// The algorithms that were agreed on, where we know.
    pub algorithms: Option<String>,
}

impl Timings {
    /// Starts the clock.
    pub fn start() -> Self {
        Self { last: Instant::now(), steps: Vec::new(), algorithms: None }
    }

    /// The step that just ended.
    pub fn mark(&mut self, step: Step) {
        self.mark_at(None, step);
    }

    /// The same for a step at a host on the way.
    pub fn mark_at(&mut self, host: Option<&str>, step: Step) {
        let now = Instant::now();
        let took = now.saturating_duration_since(self.last);
        self.last = now;
        self.steps.push((host.map(str::to_owned), step, took));
    }
}

impl fmt::Display for Timings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = Duration::ZERO;
        for (host, step, took) in &self.steps {
            all += *took;
            write!(f, "{}", step.name())?;
            if let Some(host) = host {
                write!(f, " at {host}")?;
            }
            write!(f, " {:.1} ms, ", milliseconds(*took))?;
        }
        write!(f, "in all {:.1} ms", milliseconds(all))?;
        self.algorithms.as_ref().map_or(Ok(()), |algorithms| write!(f, " ({algorithms})"))
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Bytes that have gone through, each way.
#[derive(Debug, Default)]
pub struct Traffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl Traffic {
    /// Bytes that were sent.
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Bytes that came.
    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// As if so many bytes had been sent.
    #[cfg(test)]
    pub(super) fn add_sent(&self, bytes: usize) {
        Self::add(&self.sent, bytes);
    }

    fn add(counter: &AtomicU64, bytes: usize) {
        counter.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes sent, {} received", self.sent(), self.received())
    }
}

/// A stream of which what is read is counted. Written to, it is as it was.
pub(super) fn count_reads<S: AsyncRead>(
    stream: S,
    traffic: &Arc<Traffic>,
) -> InspectReader<S, impl FnMut(&[u8]) + Send + use<S>> {
    let traffic = Arc::clone(traffic);
    InspectReader::new(stream, move |bytes| Traffic::add(&traffic.received, bytes.len()))
}

/// A stream of which what is written is counted. Read from, it is as it was.
pub(super) fn count_writes<S: AsyncWrite>(
    stream: S,
    traffic: &Arc<Traffic>,
) -> InspectWriter<S, impl FnMut(&[u8]) + Send + use<S>> {
    let traffic = Arc::clone(traffic);
    InspectWriter::new(stream, move |bytes| Traffic::add(&traffic.sent, bytes.len()))
}
