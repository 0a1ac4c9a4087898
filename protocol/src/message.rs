//! The messages of a session, both ways.
//!
//! A session is one channel. The controller sends calls, each under an id of its own, and may have
//! several running; the agent sends progress, streamed items and one answer for each. Heartbeats
//! run both ways, because a network that is cut silently gives no end of file.

use crate::{
    artifact::ArtifactId,
    budget::Budget,
    error::AgentError,
    host_text::HostText,
    instruments::{Item, Report, Request},
    loss::{Lost, Overhead, Truncation},
    sweep::Swept,
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Names one call within a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RequestId(pub u32);

/// From the controller to the agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ToAgent {
    /// The session's terms; the first message.
    Terms(Terms),
    /// A question.
    Call(Call),
    /// The question is withdrawn. The agent answers it with [`AgentError::Cancelled`].
    Cancel {
        /// Which one.
        id: RequestId,
    },
    /// The controller is alive.
    Heartbeat {
        /// Comes back in the agent's heartbeat.
        sequence: u64,
    },
    /// The session is over: end every descendant, leave nothing, send a [`Receipt`].
    Stop,
}

/// What holds for the whole session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Milliseconds without any message from the controller after which the agent ends itself.
    pub silence_limit_ms: u32,
}

/// One question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// Comes back with everything that belongs to this call.
    pub id: RequestId,
    /// What the call may cost.
    pub budget: Budget,
    /// What is asked.
    pub request: Request,
}

/// From the agent to the controller.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum FromAgent {
    /// Who is there; the first message.
    Hello(Hello),
    /// A call is under way.
    Progress(Progress),
    /// A call's result, piece by piece.
    Streamed(Streamed),
    /// A call is over.
    Answered(Answered),
    /// The agent is alive.
    Heartbeat {
        /// The number that the controller's heartbeat carried.
        sequence: u64,
    },
    /// The session is over; the last message.
    Receipt(Receipt),
    /// What a sweep found and did; its only message after the first.
    Swept(Swept),
}

/// Who the agent is and where it runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The target's host name.
    pub host_name: HostText,
    /// The kernel's release, as `uname -r` prints it.
    pub kernel_release: HostText,
    /// The effective user of the agent.
    pub uid: u32,
    /// The process that measures.
    pub worker_pid: u32,
    /// The process that owns every descendant.
    pub supervisor_pid: u32,
    /// Whether the agent's file has no name any more.
    pub is_unlinked: bool,
}

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Which call.
    pub id: RequestId,
    /// What is being done.
    pub step: Step,
    /// How much of it is done. It only grows within a call.
    pub done: u32,
    /// How much there is.
    pub total: u32,
}

/// What a call is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Letting the window pass; `done` and `total` are milliseconds.
    Measuring,
    /// Counting; `done` and `total` are counts.
    Counting,
    /// Sending a stored result; `done` and `total` are bytes.
    Sending,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { step, done, total, .. } = self;
        match step {
            Step::Measuring => write!(f, "measuring: {done} of {total} ms"),
            Step::Counting => write!(f, "counting: {done} of {total}"),
            Step::Sending => write!(f, "sending: {done} of {total} bytes"),
        }
    }
}

/// One piece of a call's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Streamed {
    /// Which call.
    pub id: RequestId,
    /// Counts from 0 within the call. A gap is a loss.
    pub sequence: u64,
    /// The piece.
    pub item: Item,
}

/// The end of a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// Which call.
    pub id: RequestId,
    /// The answer, or why there is none.
    pub result: Result<Answer, AgentError>,
}

/// An answer: a report, and what every report carries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What was measured. Boxed, because reports differ in size by a factor.
    pub report: Box<Report>,
    /// How.
    pub meta: Meta,
}

/// What every report carries: how it was measured, what it leaves out, what it cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The mechanism used this time.
    pub engine: Engine,
    /// The window as it was measured, in milliseconds; `None` where nothing was measured over time.
    pub window_ms: Option<u64>,
    /// What was cut from the ranked list.
    pub truncation: Truncation,
    /// Where the full result is kept.
    pub artifact: Option<ArtifactId>,
    /// What was missed.
    pub lost: Lost,
    /// What it cost the target.
    pub overhead: Overhead,
    /// How many secrets were taken out of texts.
    pub redacted: u32,
}

/// The mechanism behind an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Engine {
    /// Reading `/proc` and `/sys`.
    Procfs,
    /// A result that was stored before; nothing was measured.
    Stored,
    /// The agent's own counter.
    Counter,
    /// Reading copies of files of `/proc` and `/sys`, which somebody took at another time.
    Snapshot,
    /// Doing the thing itself, to see whether it works.
    Trials,
    /// Samples by `perf_event_open`.
    PerfEvents,
    /// Looks at what threads are in, one after another.
    Looks,
    /// Text that was given with the question; nothing was measured.
    Given,
    /// eBPF programs, which add up in the kernel.
    Ebpf,
    /// Records of the kernel's tracepoints, by `perf_event_open`.
    Tracepoints,
    /// The agent as a tracer, which stops each thread at each call.
    Ptrace,
    /// The program strace.
    Strace,
    /// The program perf.
    Perf,
    /// The program bpftrace.
    Bpftrace,
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Procfs => "procfs",
            Self::Stored => "stored result",
            Self::Counter => "counter",
            Self::Snapshot => "snapshot",
            Self::Trials => "trials",
            Self::PerfEvents => "perf_event_open",
            Self::Looks => "looks at threads",
            Self::Given => "text that was given",
            Self::Ebpf => "eBPF",
            Self::Tracepoints => "tracepoints",
            Self::Ptrace => "ptrace",
            Self::Strace => "strace",
            Self::Perf => "perf",
            Self::Bpftrace => "bpftrace",
        })
    }
}

/// The exit code of a supervisor that could not end every descendant: what a receipt would say,
/// where the channel for one is gone.
pub const DESCENDANTS_LEFT: i32 = 77;

/// What is left of a session on its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    /// The worker, which has ended.
    pub worker_pid: u32,
    /// The supervisor, which ends after sending this.
    pub supervisor_pid: u32,
    /// Descendants that were ended.
    pub descendants_ended: u32,
    /// Descendants that could not be ended.
    pub descendants_left: u32,
    /// Files of the session that still have a name.
    pub files_left: u32,
}

impl Receipt {
    /// Whether the target is as it was before.
    pub const fn is_clean(&self) -> bool {
        self.descendants_left == 0 && self.files_left == 0
    }
}
