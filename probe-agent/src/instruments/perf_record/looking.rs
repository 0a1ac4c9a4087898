//! Looks at threads where they may not be sampled.

use super::report::{self, Found};
use crate::{
    call::Context,
    instruments::sampling::{self, Passing, Subject},
    perf::sampler::{Measure, SamplerError},
    stack::{
        looks::{self, NoLooks, Settings},
        naming,
        recording::Limits,
        stored::Stored,
    },
};
use protocol::{
    error::AgentError,
    instruments::perf_record::{Looks, Request},
    loss::Lost,
    observed::{Nature, Observed, Reason},
    recording::{Counted, Kernel, Stacks},
    units::Percent,
};
use std::time::Duration;

/// What is seen by looking where sampling was refused; the error of sampling where looking is no
/// answer: to another question than where time goes, and to another refusal.
///
/// # Errors
///
/// That, or when the call reached a limit.
pub(super) fn instead(
    request: &Request,
    subject: Subject,
    (error, measure): (SamplerError, Measure),
    context: &Context<'_>,
) -> Result<Found, AgentError> {
    let is_refused = matches!(error, SamplerError::NotPermitted { .. } | SamplerError::NotInKernel);
    let why = sampling::error(error, (&subject, measure), context);
    let AgentError::NotSampled(refusal) = why else { return Err(why) };
    if !is_refused || measure != Measure::Cpu {
        return Err(AgentError::NotSampled(refusal));
    }
    let settings = Settings {
        scope: subject.sampled.clone(),
        hertz: Settings::DEFAULT_HERTZ.min(request.hertz.into()),
        may_stop: request.stop,
        dump_bytes: request.dump_kib.saturating_mul(1024),
    };
    let mut window = Passing::new(context, Duration::from_millis(request.window_ms.into()));
    let seen = looks::take(context.root, &settings, Limits::default(), &mut window);
    let seen = seen.map_err(|why| match (why, request.pid) {
        (NoLooks::Window(error), _) => error,
        (NoLooks::NoSuchProcess, Some(pid)) => {
            AgentError::NoSuchProcess { pid, agent_uid: rustix::process::geteuid().as_raw() }
        }
        // Of a machine without a process nobody could tell.
        (NoLooks::NoSuchProcess, None) => AgentError::NotSampled(refusal.clone()),
    })?;
    let took = window.passed();
    let names = naming::name(&seen.stacks, context.root, &mut || context.check().is_ok());
    context.add_cpu(names.cpu_elsewhere);
    context.check()?;
    let profile = seen.profile(&names.profile);
    let processes = report::processes(&seen.stacks, &profile);
    let has_ended = subject.has_ended(request.start_ticks, context);
    let mut recording = subject.described(&seen.stacks, &names, took);
    recording.counted = Counted::Looks;
    recording.stacks = Stacks::UnwindTables;
    recording.hertz = rate(seen.rounds, took);
    (recording.processes, recording.threads) = (seen.processes, seen.threads);
    let share = Percent::of(profile.unnamed_weight() as f64, profile.weight() as f64);
    recording.quality.unnamed_pct = share.ok_or(Reason::NoSamples).into();
    recording.quality.kernel = Kernel::NotPermitted;
    let looks = Looks {
        rounds: seen.rounds,
        took_turns: seen.took_turns,
        sees_waits: seen.refused.is_none(),
        stops: seen.stops.count,
        stops_failed: seen.stops.failed,
        stopped_us_total: seen.stops.pause_us_total,
    };
    Ok(Found {
        stored: Stored { recording, profile, lines: names.lines },
        took,
        processes,
        refused: vec![refusal],
        // Who waits is in the kernel, and uses no processor there.
        kernel_pct: Observed::Unknown(Reason::DoesNotApply(Nature::NotProcessorTime)),
        has_ended,
        lost: Lost::default(),
        looks: Some((looks, seen.stops.pause_us_max)),
    })
}

/// Rounds in a second, as they were.
fn rate(rounds: u64, took: Duration) -> u32 {
    let rate = u64::try_from(u128::from(rounds) * 1000 / took.as_millis().max(1));
    rate.ok().and_then(|rate| u32::try_from(rate).ok()).unwrap_or(u32::MAX).max(1)
}
