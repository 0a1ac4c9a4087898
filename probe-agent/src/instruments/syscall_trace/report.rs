//! From what an engine saw to the answer: grouped, ranked, cut.

mod rows;
#[cfg(test)]
mod tests;

use super::{
    engine::Asked,
    seen::{Pending, Seen, Trace},
};
use crate::{
    call::{Context, millis},
    order, rank,
};
use protocol::{
    Report as AnyReport,
    error::AgentError,
    instruments::{
        capabilities::Refusal,
        syscall_trace::{Cut, Mode, Report, Unfinished},
    },
    loss::{CutBy, Lost, Overhead, Truncation},
    message::Meta,
    observed::{Observed, Reason},
    recording::ProcessRow,
    units::{Micros, PerSecond, Percent},
    view::json,
};
use rows::{Lists, if_known};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Calls that had not ended, in an answer.
const MOST_UNFINISHED: usize = 10;

/// Processes in an answer.
const MOST_PROCESSES: usize = 5;

/// Makes the answer.
///
/// # Errors
///
/// When the call reached a limit.
pub(super) fn answer(
    asked: &Asked<'_>,
    trace: Trace,
    refused: Vec<Refusal>,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    let limit = usize::try_from(asked.request.limit).unwrap_or(usize::MAX);
    let lists = Lists::of(&trace, (asked.request.mode, asked.request.sort));
    let mut meta = meta(&trace, context);
    let budget = usize::try_from(context.budget.answer_bytes).unwrap_or(usize::MAX);
    let mut report = frame(asked, &trace, refused);
    let kept = rank::most_that_fit(1, limit, budget, |rows| {
        fill(&mut report, &lists, rows);
        json::bytes(&AnyReport::SyscallTrace(report.clone()), &meta)
    });
    fill(&mut report, &lists, kept);
    if kept < limit {
        let cut = &mut report.cut;
        for list in [&mut cut.calls, &mut cut.waits, &mut cut.subjects, &mut cut.waited_for] {
            if list.cut_by == CutBy::Limit {
                list.cut_by = CutBy::AnswerBytes;
            }
        }
    }
    meta.truncation = match asked.request.mode {
        Mode::Summary => report.cut.calls,
        Mode::Detailed => report.cut.subjects,
    };
    context.check()?;
    meta.overhead.agent_cpu_ms = context.overhead().agent_cpu_ms;
    Ok((report, meta))
}

fn fill(report: &mut Report, lists: &Lists, rows: usize) {
    (report.calls, report.cut.calls) = lists.calls(rows);
    (report.waits, report.cut.waits) = lists.waits(rows);
    (report.subjects, report.cut.subjects) = lists.subjects(rows);
    (report.waited_for, report.cut.waited_for) = lists.waited_for(rows);
}

fn meta(trace: &Trace, context: &Context<'_>) -> Meta {
    let lost_on = trace.lost_on.iter().map(|lost| lost.calls);
    let events = lost_on.fold(trace.lost_elsewhere, u64::saturating_add);
    Meta {
        engine: trace.engine,
        window_ms: Some(millis(trace.took).into()),
        truncation: Truncation::none(0),
        artifact: None,
        lost: Lost { malformed: trace.malformed, events, ..Lost::default() },
        overhead: Overhead { target_pause_us_max: trace.pause_us_max, ..context.overhead() },
        redacted: 0,
    }
}

/// Everything but the ranked lists.
fn frame(asked: &Asked<'_>, trace: &Trace, refused: Vec<Refusal>) -> Report {
    let Trace { knows, seen, .. } = trace;
    let sum = |of: fn(&Seen) -> u64| seen.iter().map(of).fold(0, u64::saturating_add);
    let ended = if_known(knows.counts, sum(|row| row.tally.count));
    let failed = sum(|row| if row.errno == 0 { 0 } else { row.tally.count });
    let time = |is_wait: bool| {
        let rows = seen.iter().filter(|row| row.is_wait == is_wait);
        let total = rows.map(|row| row.tally.total_ns).fold(0, u64::saturating_add);
        if_known(knows.totals, Micros::from_ns(total))
    };
    let none = Truncation::none(0);
    let processes: BTreeSet<u32> = seen.iter().map(|row| row.pid).collect();
    Report {
        scope: asked.subject.scope,
        pid: asked.subject.pid,
        name: asked.subject.name.clone(),
        ended_per_s: ended
            .clone()
            .and_then(|ended| PerSecond::over(ended, trace.took).ok_or(Reason::EmptyWindow)),
        ended,
        failed: if_known(knows.counts && knows.errors, failed),
        begun_before: trace.begun_before.clone(),
        processes: u32::try_from(processes.len()).unwrap_or(u32::MAX),
        working_us: time(false),
        waiting_us: time(true),
        calls: Vec::new(),
        waits: Vec::new(),
        subjects: Observed::Unknown(Reason::NotAskedFor),
        waited_for: Observed::Unknown(Reason::NotAskedFor),
        unfinished: unfinished(trace),
        unfinished_total: u32::try_from(trace.pending.len()).unwrap_or(u32::MAX),
        most_calls_by: most_calls_by(trace),
        cut: Cut { calls: none, waits: none, subjects: none, waited_for: none },
        lost_on: trace.lost_on.iter().filter(|lost| lost.calls > 0).copied().collect(),
        measured_us_per_call: trace.added_per_call.clone(),
        refused,
    }
}

/// Calls that had not ended: those that work first, of these those that take longest.
fn unfinished(trace: &Trace) -> Vec<Unfinished> {
    let mut pending: Vec<&Pending> = trace.pending.iter().collect();
    // What began before the window has taken longer than anything that began in it.
    let longest = |pending: &Pending| pending.since.unwrap_or(trace.took);
    order::by_key(&mut pending, |pending| {
        (pending.is_wait, Reverse(longest(pending)), pending.since.is_some())
    });
    let row = |pending: &&Pending| Unfinished {
        call: pending.call.name(),
        is_wait: pending.is_wait,
        pid: pending.pid,
        tid: pending.tid,
        name: pending.name.clone(),
        subject: pending.subject.and_then(|id| trace.subjects.get(id)).cloned(),
        since_ms: match pending.since {
            Some(since) => Observed::Known(millis(since).into()),
            None => Observed::Unknown(Reason::BegunBefore),
        },
        is_begun_before: pending.since.is_none(),
    };
    pending.iter().take(MOST_UNFINISHED).map(row).collect()
}

/// The processes with most calls, where there is more than one.
fn most_calls_by(trace: &Trace) -> Vec<ProcessRow> {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    for row in &trace.seen {
        *counts.entry(row.pid).or_default() += row.tally.count;
    }
    if counts.len() < 2 {
        return Vec::new();
    }
    let all: u64 = counts.values().sum();
    let mut counts: Vec<(u32, u64)> = counts.into_iter().collect();
    order::by_key(&mut counts, |(_, count)| Reverse(*count));
    let row = |(pid, count): (u32, u64)| ProcessRow {
        pid,
        name: trace.names.get(&pid).cloned().unwrap_or_default(),
        pct: Percent::of(count as f64, all as f64).unwrap_or_default(),
    };
    counts.into_iter().take(MOST_PROCESSES).map(row).collect()
}
