//! What can go wrong on a target, as data.
//!
//! An error crosses the wire as its kind and its facts; the words and the remedy are made here, on
//! the reader's side, so that a target cannot put words into an answer.

use crate::{
    artifact::ArtifactId,
    host_text::HostText,
    instruments::{
        capabilities::Refusal,
        process_list::{Column, GroupBy},
    },
    observed::Reason,
    parameter::spelled,
    recording::Counted,
};
use serde::{Deserialize, Serialize};

/// Why a call gave no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum AgentError {
    /// The agent's own check refused parameters that the controller's, which is the same, let pass.
    #[error("the agent refused the parameters, which the controller had accepted")]
    ParametersRefused,
    /// No process has this pid.
    #[error("no process has pid {pid}{}", or_it_is_hidden(*.agent_uid))]
    NoSuchProcess {
        /// The pid asked for.
        pid: u32,
        /// Who asked.
        agent_uid: u32,
    },
    /// The pid is a thread's.
    #[error("{tid} is no process: it is a thread of process {pid}")]
    IsThread {
        /// The pid asked for.
        tid: u32,
        /// The process it belongs to.
        pid: u32,
    },
    /// The pid belongs to another process by now.
    #[error(
        "pid {pid} now belongs to a process that started at tick {found_ticks}, not at tick \
         {asked_ticks}: the process asked for has ended and its pid was reused"
    )]
    ProcessReplaced {
        /// The pid asked for.
        pid: u32,
        /// The start time asked for, in clock ticks after boot.
        asked_ticks: u64,
        /// The start time of the process that has the pid now.
        found_ticks: u64,
    },
    /// The process ended while it was measured.
    #[error("pid {pid} ended after {after_ms} ms of the window")]
    EndedInWindow {
        /// The pid asked for.
        pid: u32,
        /// How long it was seen.
        after_ms: u64,
    },
    /// No result is stored under this handle.
    #[error("no result is stored as {id}")]
    NoSuchArtifact {
        /// The handle asked for.
        id: ArtifactId,
    },
    /// The handle names a result of another tool.
    #[error("{id} is not a result of this tool")]
    OtherArtifact {
        /// The handle asked for.
        id: ArtifactId,
    },
    /// The stored result was not measured for a ranking by this column.
    #[error("sort is {}: the stored result has no such column", spelled(.column))]
    ColumnNotStored {
        /// The column asked for.
        column: Column,
    },
    /// The stored result was not measured for these groups.
    #[error("group_by is {}: the stored result is grouped by {}", spelled(.asked), spelled(.stored))]
    GroupsNotStored {
        /// The grouping asked for.
        asked: GroupBy,
        /// The grouping there is.
        stored: GroupBy,
    },
    /// As many calls as are allowed are running.
    #[error("{running} calls are running on the target, which is the limit")]
    Busy {
        /// How many run.
        running: u32,
        /// When the first of them ends at the latest, in milliseconds from now.
        retry_after_ms: u32,
    },
    /// The caller withdrew the call.
    #[error("cancelled")]
    Cancelled,
    /// The call's time was up.
    #[error("no answer within {deadline_ms} ms")]
    DeadlineExceeded {
        /// The limit that was set.
        deadline_ms: u32,
    },
    /// The call used up its processor time on the target.
    #[error("the call used its {cpu_ms} ms of processor time on the target")]
    CostExceeded {
        /// The limit that was set.
        cpu_ms: u32,
    },
    /// A file without which there is no answer could not be read.
    #[error("could not read {path}: {reason}")]
    Unreadable {
        /// The file.
        path: HostText,
        /// Why.
        reason: Reason,
    },
    /// The kernel let nothing be sampled.
    #[error("nothing could be sampled: {}", .0.why())]
    NotSampled(Refusal),
    /// No engine can do what was asked for.
    #[error("nothing could be traced: {}", refusals(.0))]
    NotTraced(Vec<Refusal>),
    /// The control group of a process is not to be seen from where the agent runs.
    #[error("the control group of pid {pid} cannot be sampled: {reason}")]
    CgroupOutOfSight {
        /// The pid asked for.
        pid: u32,
        /// Why.
        reason: Reason,
    },
    /// A recording has no function of this name.
    #[error("no function in this recording is called {function}, and none has it in its name")]
    NoSuchFunction {
        /// The name asked for.
        function: HostText,
    },
    /// The files of a process have no function of this name.
    #[error(
        "none of the {functions} functions that have a name in pid {pid} is called {function}, or \
         has it in its name"
    )]
    NoFunctionInProcess {
        /// The process.
        pid: u32,
        /// The name asked for.
        function: HostText,
        /// How many functions have a name.
        functions: u64,
    },
    /// Several functions have this in their names.
    #[error("{function} is in the names of {total} functions: {}", listed(.candidates, *.total))]
    SeveralFunctions {
        /// The name asked for.
        function: HostText,
        /// The heaviest of those that have it.
        candidates: Vec<HostText>,
        /// How many have it.
        total: u32,
    },
    /// Two recordings of different things.
    #[error(
        "the recordings cannot be compared: one counts {}, the baseline {}",
        spelled(.counted),
        spelled(.baseline)
    )]
    NotComparable {
        /// What the recording counts.
        counted: Counted,
        /// What the one before it counts.
        baseline: Counted,
    },
    /// This build of the agent cannot do it.
    #[error("this agent was built without {what}")]
    NotBuilt {
        /// What is missing.
        what: Omitted,
    },
    /// A defect of the agent.
    #[error("a defect in the agent: {0}")]
    Defect(Defect),
    /// What was asked for is done on a machine, and only files of one are there.
    #[error("nothing can be tried on files that were taken of a machine")]
    OnlyOfTheMachine,
    /// What is looked at was taken at another time, and cannot be taken again.
    #[error("a snapshot cannot be captured: nothing happens in it")]
    IsSnapshot,
    /// A recording has nothing of the thread that was asked for.
    #[error("{id} has no sample of a thread {tid}")]
    ThreadNotRecorded {
        /// The thread asked for.
        tid: u32,
        /// The recording.
        id: ArtifactId,
    },
    /// A text that was given holds no stacks.
    #[error("folded is no list of stacks: {0}")]
    NotFolded(NotFolded),
    /// The part of the agent that traces cannot be used.
    #[error("nothing could be traced: {0}")]
    NoTracer(NoTracer),
    /// Threads that were traced stand still, and did not before.
    #[error("threads {tids:?} were let go and stand still all the same")]
    LeftStopped {
        /// Those.
        tids: Vec<u32>,
    },
}

/// The first of many, and how many more there are.
/// Why the part of the agent that traces cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum NoTracer {
    /// There is none.
    #[error("the agent has no process that may trace")]
    Missing,
    /// Another call has processes traced at this moment.
    #[error("another call traces at this moment")]
    Busy,
    /// It went away before its end.
    #[error("the process of the agent that traces went away")]
    Broken,
}

fn listed(names: &[HostText], total: u32) -> String {
    let shown: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    let more = u64::from(total).saturating_sub(names.len() as u64);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{rest}", shown.join(", "))
}

/// What each engine was refused.
fn refusals(refused: &[Refusal]) -> String {
    let lines: Vec<String> =
        refused.iter().map(|refusal| format!("{}: {}", refusal.id.what(), refusal.why())).collect();
    if lines.is_empty() { "no engine can run here".to_owned() } else { lines.join("; ") }
}

/// To another user than root, a process that `/proc` hides looks like none.
fn or_it_is_hidden(agent_uid: u32) -> String {
    if agent_uid == 0 {
        return String::new();
    }
    format!(", or /proc is mounted with hidepid and hides it from uid {agent_uid}")
}

/// What is wrong with the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Defect {
    /// It could not start a thread for the call.
    NoThread,
    /// It could not read a result that it had stored itself.
    StoredResultUnreadable,
}

impl std::fmt::Display for Defect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoThread => "it could not start a thread",
            Self::StoredResultUnreadable => "it could not read what it had stored",
        })
    }
}

/// Code that only some builds of the agent contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Omitted {
    /// Deliberate misbehaviour, for tests of what is left behind.
    FaultInjection,
}

impl std::fmt::Display for Omitted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::FaultInjection => f.write_str("fault injection"),
        }
    }
}

/// Why a text is no list of stacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotFolded {
    /// It is longer than what is taken in.
    TooLong {
        /// Its bytes.
        bytes: u64,
        /// The most that there may be.
        limit: u64,
    },
    /// It has nothing in it but empty lines and comments: a profiler that saw nothing writes so.
    Empty,
    /// Not one line is a stack with a count.
    NoStack {
        /// The first line that has anything in it.
        first: HostText,
    },
    /// All counts are 0.
    NoWeight,
    /// Each line has two counts: it is a difference of two profiles.
    Difference,
}

impl std::fmt::Display for NotFolded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooLong { bytes, limit } => {
                write!(f, "it has {bytes} bytes, and {limit} are the most")
            }
            Self::Empty => f.write_str("it has no line but empty ones and comments"),
            Self::NoStack { first } => {
                write!(f, "no line ends with a count; the first is `{first}`")
            }
            Self::NoWeight => f.write_str("all its counts are 0"),
            Self::Difference => {
                f.write_str("its lines have two counts each, as a difference of two profiles has")
            }
        }
    }
}

impl NotFolded {
    fn remedy(&self) -> &'static str {
        match self {
            Self::TooLong { .. } => "give the heaviest stacks only: each line ends with its count",
            Self::Empty | Self::NoWeight => {
                "the profiler saw nothing: profile again while the program is busy, or ask \
                 process_inspect what it waits for"
            }
            Self::NoStack { .. } => {
                "give one stack a line, the root first, and its count behind the last space: \
                 `main;work;hash 12`; py-spy writes it by `--format raw`, async-profiler by `-o \
                 collapsed`, bcc by `-f`, and perf script's text takes stackcollapse-perf.pl"
            }
            Self::Difference => {
                "give each of the two profiles, and then call flamegraph with the first as `baseline`"
            }
        }
    }
}

impl AgentError {
    /// What the caller can do next.
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::ParametersRefused => None,
            Self::IsThread { pid, .. } => Some(format!("ask about pid {pid}")),
            Self::ColumnNotStored { .. } | Self::GroupsNotStored { .. } => {
                Some("measure again, without `artifact`".to_owned())
            }
            Self::NoSuchProcess { .. } | Self::ProcessReplaced { .. } => {
                Some("call process_list for the processes there are now".to_owned())
            }
            Self::EndedInWindow { .. } => Some(
                "call process_list: its row for the parent has the time of children that ended"
                    .to_owned(),
            ),
            Self::NoSuchArtifact { .. } => Some(
                "results live as long as the session and the oldest give way to new ones; repeat \
                 the call that made it, without `artifact`"
                    .to_owned(),
            ),
            Self::OtherArtifact { .. } => Some("pass it to the tool that made it".to_owned()),
            Self::Busy { retry_after_ms, .. } => Some(format!("retry in {retry_after_ms} ms")),
            Self::Cancelled => None,
            Self::DeadlineExceeded { .. } => {
                Some("ask for a shorter window, or for more time with `timeout_s`".to_owned())
            }
            Self::CostExceeded { .. } => {
                Some("ask for less, or allow more with `max_cpu_ms`".to_owned())
            }
            Self::Unreadable { reason, .. } => reason.remedy(),
            Self::IsSnapshot => Some("capture the machine itself, or copy the folder".to_owned()),
            Self::NotSampled(refusal) => refusal.remedy(),
            // Engines come in the order in which they are wanted: what lifts the first is worth most.
            Self::NotTraced(refused) => refused.iter().find_map(Refusal::remedy),
            Self::NoTracer(_) => Some("ask again, or take another engine".to_owned()),
            Self::LeftStopped { .. } => Some(
                "see who stopped them; `kill -CONT` with the process's number lets them go on"
                    .to_owned(),
            ),
            Self::CgroupOutOfSight { reason, .. } => reason.remedy(),
            Self::NoSuchFunction { .. } => {
                Some("call perf_report in mode functions for the names there are".to_owned())
            }
            Self::NoFunctionInProcess { .. } => Some(
                "record the process and take the name from perf_report; where its program is \
                 stripped, install the package with its debug symbols"
                    .to_owned(),
            ),
            Self::SeveralFunctions { .. } => Some("pass one of these names whole".to_owned()),
            Self::NotComparable { .. } => {
                Some("record again, in the mode of the baseline".to_owned())
            }
            Self::NotBuilt { .. } | Self::Defect(_) => None,
            Self::ThreadNotRecorded { .. } => {
                Some("leave `tid` out, or take one that perf_report lists by thread".to_owned())
            }
            Self::NotFolded(why) => Some(why.remedy().to_owned()),
            Self::OnlyOfTheMachine => Some("ask the machine itself".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_the_value_and_remedies_the_next_step() {
        let cases = [
            (
                AgentError::NoSuchProcess { pid: 4711, agent_uid: 0 },
                "no process has pid 4711",
                Some("call process_list for the processes there are now"),
            ),
            (
                AgentError::NoSuchProcess { pid: 4711, agent_uid: 1000 },
                "no process has pid 4711, or /proc is mounted with hidepid and hides it from uid \
                 1000",
                Some("call process_list for the processes there are now"),
            ),
            (
                AgentError::Busy { running: 8, retry_after_ms: 900 },
                "8 calls are running on the target, which is the limit",
                Some("retry in 900 ms"),
            ),
            (AgentError::Cancelled, "cancelled", None),
            (
                AgentError::IsThread { tid: 4712, pid: 4711 },
                "4712 is no process: it is a thread of process 4711",
                Some("ask about pid 4711"),
            ),
            (
                AgentError::GroupsNotStored { asked: GroupBy::User, stored: GroupBy::Process },
                "group_by is user: the stored result is grouped by process",
                Some("measure again, without `artifact`"),
            ),
            (
                AgentError::ColumnNotStored { column: Column::MajorFaults },
                "sort is major_faults: the stored result has no such column",
                Some("measure again, without `artifact`"),
            ),
        ];
        for (error, message, remedy) in cases {
            assert_eq!(error.to_string(), message);
            assert_eq!(error.remedy().as_deref(), remedy, "{message}");
        }
    }
}
