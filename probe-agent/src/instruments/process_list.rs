//! Agent side of `process_list`.
//!
//! Three passes over all processes: at the start of the window, early in it, and at its end. Each reads
//! `/proc/PID/stat`; where there are thousands of processes, a program in the kernel that goes through
//! all costs a fraction of that, and is asked where the login may.
//! The first and the last give every process's counters; the later two only of those that did
//! something, and what is at rest is taken from the first. The one in between finds those that are
//! likely to be shown, and only for them the costlier files are read, then and at the end. Where a
//! pass is dear, or a column tells what a process is and not what it did, the first one finds them.
//! Ranking by a column of such a file reads it for every process, at both ends of the window.

mod at_rest;
mod change;
mod changes;
mod children;
mod columns;
mod counters;
mod groups;
mod iterator;
mod lines;
mod open_files;
mod rates;
mod report;
mod scan;

use crate::{
    artifacts::Kind,
    call::Context,
    instruments::{
        Collect,
        ownership::{self, Placement, Users},
    },
    order,
};
use changes::Changes;
use columns::{is_beside_the_line, is_known_at_once};
use counters::{Counters, Key};
use protocol::{
    error::AgentError,
    instruments::{
        capabilities::Refusal,
        process_list::{Column, GroupBy, ProcessList, Report, Request, State},
    },
    message::{Engine, Meta},
    observed::Reason,
};
use rates::Details;
use scan::{Scan, Scanner};
use std::time::{Duration, Instant};

impl Collect for ProcessList {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if let Some(id) = request.artifact {
            let measured = context.kept(id, Kind::ProcessList)?;
            return report::answer(&request, measured, Details::default(), context);
        }
        let (measured, details) = measure(&request, context)?;
        report::answer(&request, measured, details, context)
    }
}

/// A process, and what it counts for when not all can be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
}

/// All processes: those that wait deaf to signals first, then by what they used within a short
/// while, then by their memory.
///
/// # Errors
///
/// When `/proc` cannot be listed, or the call reached a limit.
pub(super) fn by_weight(
    watched_for: Duration,
    context: &Context<'_>,
) -> Result<Vec<Candidate>, AgentError> {
    let mut scanner = Scanner::new(Column::Cpu);
    let started = Instant::now();
    let first = scanner.pass(context)?;
    context.wait_until(started, watched_for, watched_for)?;
    let last = scanner.pass_since(&first, true, context)?;
    let mut changes = Changes::between(&first, &last, None);
    changes.wake();
    let mut processes = changes.processes;
    order::by_key(&mut processes, |process| {
        let is_blocked = process.state == State::UninterruptibleSleep;
        std::cmp::Reverse((is_blocked, process.user + process.system, process.resident_pages))
    });
    let candidate =
        |process: &change::Change| Candidate { pid: process.pid, start_ticks: process.start_ticks };
    Ok(processes.iter().map(candidate).collect())
}

/// Reads what every answer begins with: each process's line, and the machine's. Gives the processes.
///
/// # Errors
///
/// When `/proc` cannot be listed, or the call reached a limit.
pub(super) fn read_lines(context: &Context<'_>) -> Result<Vec<Candidate>, AgentError> {
    let scan = Scanner::new(Column::Cpu).pass(context)?;
    let candidate =
        |sample: &scan::Sample| Candidate { pid: sample.pid, start_ticks: sample.start_ticks };
    Ok(scan.samples.iter().map(candidate).collect())
}

/// Reads what the row of one process is made of.
///
/// # Errors
///
/// When the call reached a limit.
pub(super) fn read_row(candidate: Candidate, context: &Context<'_>) -> Result<(), AgentError> {
    let Candidate { pid, start_ticks } = candidate;
    Counters::read_each(&[(pid, start_ticks)], context)?;
    let _ = Users::read(context.root).of(pid, context);
    let _ = Placement::of(pid, context);
    let _ = ownership::command(pid, report::COMMAND_BYTES, context);
    Ok(())
}

/// What was measured, before it is ranked for one question. This is what is stored.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
struct Measured {
    window_ms: u64,
    changes: Changes,
    /// The column that was read for every process beside those of the first pass.
    ranked_column: Option<Column>,
    /// What the processes were grouped by; their group is stored with them.
    grouped_by: GroupBy,
    /// How the last pass was made, and what would have cost less and was refused.
    engine: Engine,
    refused: Vec<Refusal>,
}

/// The part of the window after which the likely rows are chosen.
const EARLY: u32 = 5;

/// The share of its processor time that one pass may take of a call's budget; above, the pass in
/// between is left out, and who is likely to be shown is guessed from the first.
const PASS_SHARE: u32 = 25;

fn measure(request: &Request, context: &Context<'_>) -> Result<(Measured, Details), AgentError> {
    let window = Duration::from_millis(request.window_ms.into());
    let mut scanner = Scanner::new(request.sort);
    let started = Instant::now();
    if let Err(reason) = context.root.has_two_instants() {
        context.wait_until(started, window, window)?;
        return one_instant(request, &mut scanner, &reason, context);
    }
    let mut first = scanner.pass(context)?;
    open_files::count(request.sort, &mut first, context)?;
    let mut details = Details::default();
    let budget = Duration::from_millis(context.budget.cpu_ms.into());
    if request.group_by == GroupBy::Process {
        let is_dear = context.cpu_spent() >= budget / PASS_SHARE;
        let early = if is_dear || is_known_at_once(request.sort) {
            None
        } else {
            context.wait_until(started, window / EARLY, window)?;
            Some(scanner.pass_since(&first, false, context)?)
        };
        details = likely_rows(request, &scanner, &first, early.as_ref(), context)?;
    }
    context.wait_until(started, window, window)?;
    let mut last = scanner.pass_since(&first, true, context)?;
    open_files::count(request.sort, &mut last, context)?;
    let mut changes = Changes::between(&first, &last, scanner.column());
    changes.hidden_by = first.hidden_by(context);
    groups::assign(request.group_by, &mut changes, context)?;
    let measured = Measured {
        window_ms: u64::try_from(last.began.saturating_sub(first.began).as_millis())
            .unwrap_or(u64::MAX),
        changes,
        ranked_column: is_beside_the_line(request.sort).then_some(request.sort),
        grouped_by: request.group_by,
        engine: last.engine,
        refused: scanner.refused(context.root),
    };
    Ok((measured, details))
}

/// All processes of a snapshot that has no beginning: what they are, and not what they did.
fn one_instant(
    request: &Request,
    scanner: &mut Scanner,
    reason: &Reason,
    context: &Context<'_>,
) -> Result<(Measured, Details), AgentError> {
    let mut only = scanner.pass(context)?;
    open_files::count(request.sort, &mut only, context)?;
    let mut changes = Changes::between(&only, &only, scanner.column());
    changes.host.forget_what_happened(reason);
    groups::assign(request.group_by, &mut changes, context)?;
    let measured = Measured {
        window_ms: 0,
        changes,
        ranked_column: is_beside_the_line(request.sort).then_some(request.sort),
        grouped_by: request.group_by,
        engine: only.engine,
        refused: scanner.refused(context.root),
    };
    Ok((measured, Details::default()))
}

/// Chooses the processes that are likely to be shown and reads their costlier files. By what they
/// did from the first pass to an early one, or by what they are at the first.
fn likely_rows(
    request: &Request,
    scanner: &Scanner,
    first: &Scan,
    early: Option<&Scan>,
    context: &Context<'_>,
) -> Result<Details, AgentError> {
    const SPARE: usize = 16;
    const MOST: usize = 400;
    let wanted = (request.offset as usize).saturating_add(request.limit as usize);
    let many = wanted.saturating_mul(2).saturating_add(SPARE).min(MOST);
    let likely: Vec<Key> = match early {
        Some(early) => Changes::first_between((first, early), scanner.column(), request.sort, many),
        None => first.likely(request.sort, many),
    };
    Details::begin(&likely, context)
}
