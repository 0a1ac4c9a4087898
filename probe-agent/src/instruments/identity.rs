//! Whether a pid is the process that was meant.

use super::process_files::ProcessFiles;
use crate::{
    call::Context,
    proc::{parse::number_of, pid_stat},
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    observed::{Feature, Reason},
};

/// Checks that the pid is the process that was meant: one that is there, is no thread of another,
/// and started when the caller says; 0 is whenever it did.
///
/// # Errors
///
/// That it is not.
pub(super) fn check(asked_ticks: u64, files: &ProcessFiles<'_, '_>) -> Result<(), AgentError> {
    let pid = files.pid;
    let found_ticks = files
        .parsed("stat", Feature::Field, |text| pid_stat::parse(text).map(|stat| stat.start_ticks))
        .map_err(|reason| missing(pid, reason))?;
    if asked_ticks != 0 && asked_ticks != found_ticks {
        return Err(AgentError::ProcessReplaced { pid, asked_ticks, found_ticks });
    }
    match leader(files) {
        Ok(leader) if leader != u64::from(pid) => {
            let leader = u32::try_from(leader).unwrap_or_default();
            Err(AgentError::IsThread { tid: pid, pid: leader })
        }
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Whether a number is that of a process now, and of no thread of one.
pub(super) fn is_process(pid: u32, context: &Context<'_>) -> bool {
    leader(&ProcessFiles { pid, context }).is_ok_and(|leader| leader == u64::from(pid))
}

/// The process of a thread.
fn leader(files: &ProcessFiles<'_, '_>) -> Result<u64, Reason> {
    files.parsed("status", Feature::Field, |text| number_of(text, "Tgid"))
}

/// The error for a process whose line cannot be read.
pub(super) fn missing(pid: u32, reason: Reason) -> AgentError {
    if reason == Reason::Gone {
        let agent_uid = rustix::process::geteuid().as_raw();
        return AgentError::NoSuchProcess { pid, agent_uid };
    }
    let path = format!("/proc/{pid}/stat");
    AgentError::Unreadable { path: HostText::new(path.as_bytes()), reason }
}
