//! Agent side of `process_inspect`.
//!
//! Counters at both ends of the window, and in between samples of what the threads wait in.

mod cgroup_levels;
mod end;
mod report;
mod samples;
mod threads;

use crate::{
    call::Context,
    instruments::{Collect, process_files::ProcessFiles},
    os::clock,
    proc::{parse::number_of, pid_stat},
};
use cgroup_levels::CgroupLevels;
use end::End;
use protocol::{
    error::AgentError,
    instruments::process_inspect::{ProcessInspect, Report, Request},
    message::Meta,
    observed::{Feature, Reason},
};
use samples::Sampler;
use std::time::{Duration, Instant};

impl Collect for ProcessInspect {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let files = ProcessFiles { pid: request.pid, context };
        check_identity(&request, &files)?;
        let levels = CgroupLevels::of(&files);
        let window = Duration::from_millis(request.window_ms.into());
        let started = Instant::now();
        let began = clock::monotonic();
        let first = End::read(&files, &levels)?;
        let mut sampler = Sampler::new(files, first.threads.keys().map(|id| id.tid));
        while let Some(at) = sampler.next_at(started.elapsed(), window) {
            context.wait_until(started, at, window)?;
            sampler.look();
        }
        context.wait_until(started, window, window)?;
        let last = End::read(&files, &levels).map_err(|error| {
            let is_gone = error == AgentError::NoSuchProcess { pid: request.pid };
            if is_gone { ended(request.pid, began) } else { error }
        })?;
        if last.line.start_ticks != first.line.start_ticks {
            return Err(ended(request.pid, began));
        }
        report::assemble(&request, &first, &last, sampler, context)
    }
}

fn ended(pid: u32, began: Duration) -> AgentError {
    let after = clock::monotonic().saturating_sub(began).as_millis();
    AgentError::EndedInWindow { pid, after_ms: u64::try_from(after).unwrap_or(u64::MAX) }
}

/// Checks that the pid is the process that was meant: one that is there, is no thread of another,
/// and started when the caller says.
fn check_identity(request: &Request, files: &ProcessFiles<'_, '_>) -> Result<(), AgentError> {
    let pid = request.pid;
    let found_ticks = files
        .parsed("stat", Feature::Field, |text| pid_stat::parse(text).map(|stat| stat.start_ticks))
        .map_err(|reason| missing(pid, reason))?;
    if request.start_ticks != 0 && request.start_ticks != found_ticks {
        let asked_ticks = request.start_ticks;
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
fn missing(pid: u32, reason: Reason) -> AgentError {
    if reason == Reason::Gone {
        return AgentError::NoSuchProcess { pid };
    }
    let path = format!("/proc/{pid}/stat");
    AgentError::Unreadable { path: protocol::host_text::HostText::new(path.as_bytes()), reason }
}
