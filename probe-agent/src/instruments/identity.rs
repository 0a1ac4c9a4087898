//! Whether a pid is the process that was meant.

use super::process_files::ProcessFiles;
use crate::proc::{parse::number_of, pid_stat};
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
    let leader = files.parsed("status", Feature::Field, |text| number_of(text, "Tgid"));
    match leader {
        Ok(leader) if leader != u64::from(pid) => {
            let leader = u32::try_from(leader).unwrap_or_default();
            Err(AgentError::IsThread { tid: pid, pid: leader })
        }
        Ok(_) | Err(_) => Ok(()),
    }
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
