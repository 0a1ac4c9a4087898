//! From a recording with names to the answer.

use crate::{
    call::Context,
    instruments::{
        perf_report::rows,
        sampling::{self, Subject},
    },
    order, rank,
    stack::{
        naming::Names,
        profile::{Profile, Row, Stack, Subject as Ranked},
        recording::{Place, Recording as Made},
        stored::Stored,
    },
};
use protocol::{
    Report as AnyReport,
    error::AgentError,
    host_text::HostText,
    instruments::{
        capabilities::Refusal,
        perf_record::{Looks, Report, Request},
    },
    loss::{Lost, Overhead},
    message::{Engine, Meta},
    observed::{Nature, Observed, Reason},
    recording::{Counted, ProcessRow, Recording, StackRow},
    units::Percent,
    view::json,
};
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// Stacks in an answer.
const MOST_STACKS: usize = 3;

/// Calls of a stack in an answer: the outermost, and what is nearest to what ran.
pub(super) const MOST_CALLS: usize = 32;

/// A stack below this share says little beside the functions.
const LEAST_STACK_PCT: f64 = 2.0;

/// Processes in an answer.
const MOST_PROCESSES: usize = 5;

/// What an answer is made of.
pub(super) struct Found {
    pub(super) stored: Stored,
    pub(super) took: Duration,
    pub(super) processes: Vec<ProcessRow>,
    pub(super) refused: Vec<Refusal>,
    /// The share that ended in the kernel.
    pub(super) kernel_pct: Observed<Percent>,
    pub(super) has_ended: bool,
    pub(super) lost: Lost,
    /// How threads were looked at, and the longest that one stood still for it in microseconds; nothing
    /// where they were sampled.
    pub(super) looks: Option<(Looks, u64)>,
}

/// What was sampled, as an answer is made of it.
pub(super) fn sampled(
    request: &Request,
    (subject, made, names, took): (Subject, Made, Names, Duration),
    context: &Context<'_>,
) -> Found {
    let refused = sampling::refusals(&made.basis, names.kernel, context.root);
    let has_ended = subject.has_ended(request.start_ticks, context);
    let processes = processes(&made, &names.profile);
    let kernel_pct = kernel_pct(&made);
    let lost =
        Lost { malformed: made.losses.malformed, samples: made.losses.lost, ..Lost::default() };
    let recording = subject.described(&made, &names, took);
    let Names { profile, lines, .. } = names;
    let stored = Stored { recording, profile, lines };
    Found { stored, took, processes, refused, kernel_pct, has_ended, lost, looks: None }
}

/// Keeps what was recorded, and answers from it.
///
/// # Errors
///
/// When the call reached a limit.
pub(super) fn answer(
    request: &Request,
    found: Found,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    let Found { stored, took, processes, refused, kernel_pct, has_ended, lost, looks } = found;
    let artifact = stored.keep(context);
    let Stored { recording, profile, lines } = &stored;
    let all = profile.weight();
    let (looks, pause_us_max) = looks.map_or((None, 0), |(looks, pause)| (Some(looks), pause));
    let overhead = || Overhead { target_pause_us_max: pause_us_max, ..context.overhead() };
    let mut report = Report {
        cpu_pct: cpu_pct(recording, took),
        kernel_pct,
        has_ended,
        functions: Vec::new(),
        stacks: stacks(profile),
        processes,
        refused,
        recording: recording.clone(),
        looks,
        counters: None,
        off_cpu: None,
    };
    let ranking = profile.ranking(Ranked::Functions, false);
    let weight = |row: &Row| Observed::Known(row.share.own as f64);
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let mut page = rank::page(ranking, weight, 0, limit);
    let functions: Vec<_> =
        page.rows.iter().filter_map(|row| rows::function(row, (profile, all), lines)).collect();
    let mut meta = Meta {
        engine: if report.looks.is_some() { Engine::Looks } else { Engine::PerfEvents },
        window_ms: Some(recording.window_ms),
        truncation: page.truncation,
        artifact,
        lost,
        overhead: overhead(),
        redacted: 0,
    };
    let budget = usize::try_from(context.budget.answer_bytes).unwrap_or(usize::MAX);
    rank::fit(&mut page, weight, budget, |_, kept| {
        report.functions = functions.iter().take(kept).cloned().collect();
        json::bytes(&AnyReport::PerfRecord(report.clone()), &meta)
    });
    report.functions = functions.into_iter().take(page.rows.len()).collect();
    // What a stack says more than the functions goes before the last function does.
    while json::bytes(&AnyReport::PerfRecord(report.clone()), &meta) > budget
        && report.stacks.pop().is_some()
    {}
    meta.truncation = page.truncation;
    context.check()?;
    meta.overhead = overhead();
    Ok((report, meta))
}

/// Processor time that samples stand for. The clock counts it; of cycles nobody knows how long one
/// was, but samples come at a rate.
fn cpu_pct(recording: &Recording, took: Duration) -> Observed<Percent> {
    let spent = match recording.counted {
        Counted::CpuClock => Duration::from_nanos(recording.events),
        Counted::Cycles => {
            let seconds = recording.samples as f64 / f64::from(recording.hertz.max(1));
            Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
        }
        Counted::PageFaults
        | Counted::ContextSwitches
        | Counted::CacheMisses
        | Counted::Looks
        | Counted::Nothing
        | Counted::OffCpu
        | Counted::Given => {
            return Observed::Unknown(Reason::DoesNotApply(Nature::NotProcessorTime));
        }
    };
    Percent::of_time(spent, took).ok_or(Reason::EmptyWindow).into()
}

/// What ends in the kernel, with or without a name.
fn kernel_pct(made: &Made) -> Observed<Percent> {
    let is_in_kernel = |node: u32| {
        let node = usize::try_from(node).ok().and_then(|node| made.nodes.get(node));
        node.is_some_and(|node| matches!(node.place, Place::Kernel(_)))
    };
    let weights = made.weights.iter().filter(|(_, node, _)| is_in_kernel(*node));
    let events: u64 = weights.map(|(_, _, weight)| weight.events).sum();
    Percent::of(events as f64, made.counts.all.events as f64).ok_or(Reason::NoSamples).into()
}

/// The heaviest processes, where there is more than one.
pub(super) fn processes(made: &Made, profile: &Profile) -> Vec<ProcessRow> {
    if made.processes.len() < 2 {
        return Vec::new();
    }
    let mut weights: BTreeMap<u32, u64> = BTreeMap::new();
    for row in profile.ranking(Ranked::Threads, false) {
        let thread = row.index.and_then(|index| usize::try_from(index).ok());
        if let Some(thread) = thread.and_then(|index| profile.threads().get(index)) {
            *weights.entry(thread.pid).or_default() += row.share.own;
        }
    }
    let mut weights: Vec<(u32, u64)> = weights.into_iter().collect();
    order::by_key(&mut weights, |(_, weight)| Reverse(*weight));
    weights.truncate(MOST_PROCESSES);
    let all = profile.weight() as f64;
    let row = |(pid, weight): (u32, u64)| {
        let process = made.processes.iter().rev().find(|process| process.pid == pid);
        let name = process.map(|process| HostText::new(&process.name)).unwrap_or_default();
        ProcessRow { pid, name, pct: Percent::of(weight as f64, all).unwrap_or_default() }
    };
    weights.into_iter().map(row).collect()
}

/// The heaviest stacks, of those that go through each other only the heaviest.
fn stacks(profile: &Profile) -> Vec<StackRow> {
    let all = profile.weight() as f64;
    let share = |stack: &Stack| Percent::of(stack.weight as f64, all).unwrap_or_default();
    let mut shown: Vec<Stack> = Vec::new();
    for stack in profile.stacks(MOST_STACKS * 8) {
        let is_part = |other: &Stack| {
            other.functions.starts_with(&stack.functions)
                || stack.functions.starts_with(&other.functions)
        };
        if shown.len() < MOST_STACKS
            && share(&stack).get() >= LEAST_STACK_PCT
            && !shown.iter().any(is_part)
        {
            shown.push(stack);
        }
    }
    let row = |stack: &Stack| {
        let left_out = stack.functions.len().saturating_sub(MOST_CALLS);
        // The outermost says which program it is.
        let is_shown = |place: usize| place == 0 || place > left_out;
        let calls = (0..).zip(&stack.functions).filter(|(place, _)| is_shown(*place));
        StackRow {
            pct: share(stack),
            calls_left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
            calls: calls.map(|(_, function)| rows::shown(profile, *function)).collect(),
        }
    };
    shown.iter().map(row).collect()
}
