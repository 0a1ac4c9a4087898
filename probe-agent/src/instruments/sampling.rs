//! What instruments that sample have in common: of what, for how long, and why not.

mod control_group;
mod passing;
mod refused;

pub(super) use passing::Passing;
pub(super) use refused::{error, of_counting, of_tracepoints as refusal_of_tracepoints, refusals};

use crate::{
    call::{Context, millis},
    instruments::{identity, process_files::ProcessFiles},
    perf::{attr::Event, sampler},
    stack::{
        naming::{Names, quality},
        recording::Recording as Made,
    },
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    observed::Feature,
    recording::{Counted, Recording, Scope, Stacks},
    scope::Of,
};
use std::time::Duration;

/// Of what samples are taken.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    /// What it is.
    pub(super) scope: Scope,
    /// The process that was asked for.
    pub(super) pid: Option<u32>,
    /// Its name, or that of its control group.
    pub(super) name: Option<HostText>,
    /// The same for the sampler.
    pub(super) sampled: sampler::Scope,
}

impl Subject {
    /// What is asked for, by a scope, a pid and when its process started.
    ///
    /// # Errors
    ///
    /// As for [`Subject::process`] and [`Subject::control_group`].
    pub(super) fn of(
        of: Of,
        (pid, start_ticks): (Option<u32>, u64),
        context: &Context<'_>,
    ) -> Result<Self, AgentError> {
        match (of, pid) {
            (Of::Process, Some(pid)) => Self::process(pid, start_ticks, context),
            (Of::Cgroup, Some(pid)) => Self::control_group(pid, start_ticks, context),
            (Of::Host, None) => Ok(Self::host()),
            // The check of parameters lets none of these pass.
            (Of::Process | Of::Cgroup, None) | (Of::Host, Some(_)) => {
                Err(AgentError::ParametersRefused)
            }
        }
    }

    /// Everything that runs.
    pub(super) const fn host() -> Self {
        Self { scope: Scope::Host, pid: None, name: None, sampled: sampler::Scope::Host }
    }

    /// A process that started at such a tick; 0 is whenever it did.
    ///
    /// # Errors
    ///
    /// That it is not there, or another.
    pub(super) fn process(
        pid: u32,
        start_ticks: u64,
        context: &Context<'_>,
    ) -> Result<Self, AgentError> {
        let files = ProcessFiles { pid, context };
        identity::check(start_ticks, &files)?;
        let name = files.whole("comm", Feature::Field).ok();
        Ok(Self {
            scope: Scope::Process,
            pid: Some(pid),
            name: name.map(|name| crate::proc::host_text(&name)),
            sampled: sampler::Scope::Process(pid),
        })
    }

    /// The control group of such a process.
    ///
    /// # Errors
    ///
    /// As for [`Subject::process`], and that the group is not to be seen.
    pub(super) fn control_group(
        pid: u32,
        start_ticks: u64,
        context: &Context<'_>,
    ) -> Result<Self, AgentError> {
        identity::check(start_ticks, &ProcessFiles { pid, context })?;
        let (name, folder) = control_group::of(pid, context)?;
        Ok(Self {
            scope: Scope::Cgroup,
            pid: Some(pid),
            name: Some(name),
            sampled: sampler::Scope::Cgroup(folder),
        })
    }

    /// Whether the process that was asked for is not there any more.
    pub(super) fn has_ended(&self, start_ticks: u64, context: &Context<'_>) -> bool {
        match (self.scope, self.pid) {
            (Scope::Process, Some(pid)) => {
                identity::check(start_ticks, &ProcessFiles { pid, context }).is_err()
            }
            (Scope::Process | Scope::Cgroup | Scope::Host | Scope::Given, _) => false,
        }
    }

    /// Of what a recording is that was made of it, and how good.
    pub(super) fn described(self, made: &Made, names: &Names, took: Duration) -> Recording {
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Recording {
            scope: self.scope,
            pid: self.pid,
            name: self.name,
            counted: counted(made.basis.event),
            hertz: u32::try_from(made.basis.hertz).unwrap_or(u32::MAX),
            stacks: match made.basis.stack {
                sampler::UserStack::UnwindTables { .. } => Stacks::UnwindTables,
                sampler::UserStack::FramePointers => Stacks::FramePointers,
            },
            window_ms: millis(took).into(),
            samples: made.counts.all.samples,
            events: made.counts.all.events,
            processes: count(made.processes.len()),
            threads: count(made.threads.len()),
            quality: quality(made, names),
        }
    }
}

const fn counted(event: Event) -> Counted {
    match event {
        Event::Cycles => Counted::Cycles,
        Event::CpuClock => Counted::CpuClock,
        Event::PageFaults => Counted::PageFaults,
        // Tracepoints are not sampled for any answer; of those there are, this is the commonest.
        Event::ContextSwitches | Event::Tracepoint(_) => Counted::ContextSwitches,
        Event::CacheMisses => Counted::CacheMisses,
    }
}
