//! Agent side of `memory_profile`.
//!
//! Small reads over the window say how memory goes; with `sites`, page faults are sampled meanwhile.
//! What keeps the process waiting is read last, so that it changes nothing of what is measured.

mod report;
mod sites;
mod sizes;
mod trend;
mod watch;

use crate::{
    call::Context,
    instruments::{
        Collect,
        cgroup_levels::CgroupLevels,
        identity::{self, missing},
        one_process::{Life, Line, alive},
        ownership::has_its_own,
        process_files::ProcessFiles,
    },
    proc::pid_stat,
};
use protocol::{
    error::AgentError,
    instruments::memory_profile::{MemoryProfile, Report, Request},
    message::Meta,
    observed::{Feature, Reason},
};
use report::Found;
use sites::NotRecorded;
use sizes::Sizes;
use std::time::Duration;
use watch::Watch;

impl Collect for MemoryProfile {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        let files = ProcessFiles { pid: request.pid, context };
        // A snapshot of one instant begins there.
        context.root.pass(false);
        identity::check(request.start_ticks, &files)?;
        let began = context.root.monotonic();
        let (first, own) = line(&files)?;
        let levels = CgroupLevels::of(&own);
        let life = Life::of(&first, &files, began);
        let cgroup_before = levels.read_memory(context);
        let window = Duration::from_millis(request.window_ms.into());
        let mut watch = Watch::start(&life, own, window);
        let recorded = if request.sites && has_its_own(first.state, first.is_kernel_thread).is_ok()
        {
            sites::sample(&mut watch, &own, (request.pid, first.start_ticks), window)?
        } else {
            Err(NotRecorded::Because(Reason::NotAskedFor))
        };
        watch.pass_all()?;
        let (last, own) = line(&files).map_err(|error| {
            let is_gone = matches!(error, AgentError::NoSuchProcess { .. });
            if is_gone { life.ended() } else { error }
        })?;
        if last.start_ticks != first.start_ticks || life.is_over() {
            return Err(life.ended());
        }
        let has_memory = has_its_own(last.state, last.is_kernel_thread);
        let cgroup = levels.read_memory(context);
        let memory = watch.last();
        let sizes = match &has_memory {
            Ok(()) => {
                let held = memory.clone().map(|lines| {
                    lines.resident.0.saturating_add(lines.swap.map_or(0, |swap| swap.0))
                });
                sizes::read(&own, &held, request.with_smaps)
            }
            Err(reason) => Sizes::unknown(reason),
        };
        let found = Found {
            first,
            last,
            via: own.pid,
            watch: &watch,
            has_memory,
            sizes,
            cgroup: [cgroup_before, cgroup],
            recorded,
        };
        report::assemble(&request, found, context)
    }
}

/// The process's line, and its files: those of a thread that lives, where the first one has ended, whose
/// state then is the process's.
fn line<'c, 's>(files: &ProcessFiles<'c, 's>) -> Result<(Line, ProcessFiles<'c, 's>), AgentError> {
    let context = files.context;
    context.check()?;
    let parse = |text: &[u8]| Ok(Line::of(&pid_stat::parse(text)?, context.root));
    let line = |files: &ProcessFiles<'c, 's>| files.parsed("stat", Feature::Field, parse);
    let mut found = line(files).map_err(|reason| missing(files.pid, reason))?;
    let own = alive(files);
    if own.pid != files.pid
        && let Ok(alive) = line(&own)
    {
        found.state = alive.state;
    }
    Ok((found, own))
}
