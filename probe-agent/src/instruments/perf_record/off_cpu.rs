//! Where threads wait, as the answer.

mod followed;
mod rows;
mod subject;
mod wakers;

use super::report::{self, MOST_CALLS};
use crate::{
    call::Context,
    instruments::{perf_report::rows as shown, sampling::Subject},
    rank,
    stack::{
        naming::{self, Names},
        stored::Stored,
        waits::Waits,
    },
};
use protocol::{
    Report as AnyReport,
    error::AgentError,
    host_text::HostText,
    instruments::{
        capabilities::Refusal,
        perf_record::{Of, OffCpu, Report, Request, WaitRow},
        process_inspect::WaitKind,
    },
    loss::Lost,
    message::{Engine, Meta},
    observed::{Nature, Observed, Reason},
    recording::{Counted, Stacks},
    units::Percent,
    view::json,
};
use rows::Group;
use std::{collections::BTreeSet, time::Duration};

/// Rows of those that wait by design.
const MOST_IDLE: usize = 5;

/// Calls of one that waits by design.
const MOST_IDLE_CALLS: usize = 8;

/// What an engine made of the window.
pub(super) struct Seen {
    waits: Waits,
    took: Duration,
    engine: Engine,
    /// Why not a better one.
    refused: Vec<Refusal>,
    stack_each_us: u32,
    /// Whether being woken was seen, so that waiting for a processor is told apart.
    sees_wakings: bool,
}

/// Follows waits through the window.
///
/// # Errors
///
/// Why none can be seen, or when the call reached a limit.
pub(super) fn answer(
    request: &Request,
    subject: Subject,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    let seen = followed::follow(request, &subject, context)?;
    let mut names = naming::name(&seen.waits.stacks, context.root, &mut || context.check().is_ok());
    context.add_cpu(names.cpu_elsewhere);
    context.check()?;
    names.profile = seen.waits.with_kernel_names(names.profile);
    let groups = rows::groups(&seen.waits, &names.profile, request.of() == Of::Host);
    let has_ended = subject.has_ended(request.start_ticks, context);
    let mut recording = subject.described(&seen.waits.stacks, &names, seen.took);
    recording.counted = Counted::OffCpu;
    recording.stacks = Stacks::UnwindTables;
    let threads: BTreeSet<u32> = seen.waits.parts.iter().map(|part| part.way.tid).collect();
    recording.threads = u32::try_from(threads.len()).unwrap_or(u32::MAX);
    let profile = seen.waits.profile(&names.profile);
    let processes = report::processes(&seen.waits.stacks, &profile);
    let stored = Stored { recording, profile, lines: names.lines.clone() };
    let artifact = stored.keep(context);
    let (busy, idle): (Vec<Group<'_>>, Vec<Group<'_>>) =
        groups.into_iter().partition(|group| !group.is_by_design);
    let off_cpu = sums(&seen, &idle);
    let report = Report {
        recording: stored.recording,
        cpu_pct: Observed::Unknown(Reason::DoesNotApply(Nature::NotProcessorTime)),
        kernel_pct: Observed::Unknown(Reason::DoesNotApply(Nature::NotProcessorTime)),
        has_ended,
        functions: Vec::new(),
        stacks: Vec::new(),
        processes,
        refused: seen.refused.clone(),
        looks: None,
        counters: None,
        off_cpu: Some(off_cpu),
    };
    let meta = Meta {
        engine: seen.engine,
        window_ms: Some(report.recording.window_ms),
        truncation: protocol::loss::Truncation::none(0),
        artifact,
        lost: Lost { samples: seen.waits.missed.copies, ..Lost::default() },
        overhead: context.overhead(),
        redacted: 0,
    };
    let made = (&seen, &names);
    Ok(fitted(request, (report, meta), (busy, idle), made, context))
}

/// Sums, with no row yet.
fn sums(seen: &Seen, idle: &[Group<'_>]) -> OffCpu {
    let totals = &seen.waits.totals;
    let us = |nanos: u64| Observed::Known(nanos / 1000);
    let of_wakings = |nanos: u64| {
        if seen.sees_wakings { us(nanos) } else { Observed::Unknown(Reason::NotByEngine) }
    };
    let of_wakings_count = |count: u64| {
        if seen.sees_wakings {
            Observed::Known(count)
        } else {
            Observed::Unknown(Reason::NotByEngine)
        }
    };
    // What is open at the end is in the parts only.
    let parts = &seen.waits.parts;
    let is_preempted = |preempted: bool| {
        parts.iter().filter(move |part| {
            (part.way.call == crate::stack::waits::records::PREEMPTED) == preempted
        })
    };
    let blocked: u64 = is_preempted(false).map(|part| part.spent.blocked).sum();
    let queued: u64 = is_preempted(false).map(|part| part.spent.queued).sum();
    let preempted: u64 = is_preempted(true).map(|part| part.spent.queued).sum();
    OffCpu {
        blocked_us: us(blocked.max(totals.blocked)),
        idle_us: us(idle.iter().map(|group| group.times().0).sum()),
        run_queue_us: of_wakings(queued.max(totals.queued)),
        preempted_us: of_wakings(preempted.max(totals.preempted)),
        waits: Observed::Known(totals.waits),
        began_before: of_wakings_count(totals.began_before),
        still_waiting: Observed::Known(seen.waits.still_waiting),
        stack_each_us: seen.stack_each_us,
        rows: Vec::new(),
        idle: Vec::new(),
        missed: seen.waits.missed,
    }
}

/// With as many rows as were asked for and fit.
fn fitted(
    request: &Request,
    (mut report, mut meta): (Report, Meta),
    (busy, idle): (Vec<Group<'_>>, Vec<Group<'_>>),
    made: (&Seen, &Names),
    context: &Context<'_>,
) -> (Report, Meta) {
    let weight = |group: &Group<'_>| Observed::Known(group.time() as f64);
    let all = |groups: &[Group<'_>]| groups.iter().map(Group::time).sum::<u64>();
    let (of_busy, of_idle) = (all(&busy), all(&idle));
    let limit = usize::try_from(request.limit).unwrap_or(usize::MAX);
    let mut page = rank::page(busy, weight, 0, limit);
    let row = |group: &Group<'_>, all: u64, calls: usize| row(group, (all, calls), made, context);
    let rows: Vec<WaitRow> =
        page.rows.iter().map(|group| row(group, of_busy, MOST_CALLS)).collect();
    let idle: Vec<WaitRow> =
        idle.iter().take(MOST_IDLE).map(|group| row(group, of_idle, MOST_IDLE_CALLS)).collect();
    let budget = usize::try_from(context.budget.answer_bytes).unwrap_or(usize::MAX);
    let with = |report: &mut Report, kept: usize, of_idle: usize| {
        if let Some(off_cpu) = &mut report.off_cpu {
            off_cpu.rows = rows.iter().take(kept).cloned().collect();
            off_cpu.idle = idle.iter().take(of_idle).cloned().collect();
        }
    };
    // Who waits by design goes before the last row of the others does.
    let mut of_idle = idle.len();
    let least = page.rows.len().min(3);
    let bytes =
        |report: &Report, meta: &Meta| json::bytes(&AnyReport::PerfRecord(report.clone()), meta);
    with(&mut report, least, of_idle);
    while of_idle > 0 && bytes(&report, &meta) > budget {
        of_idle -= 1;
        with(&mut report, least, of_idle);
    }
    rank::fit(&mut page, weight, budget, |_, kept| {
        with(&mut report, kept, of_idle);
        bytes(&report, &meta)
    });
    with(&mut report, page.rows.len(), of_idle);
    meta.truncation = page.truncation;
    meta.overhead = context.overhead();
    (report, meta)
}

/// A row. `all` is the time of its list.
fn row(
    group: &Group<'_>,
    (all, most_calls): (u64, usize),
    (seen, names): (&Seen, &Names),
    context: &Context<'_>,
) -> WaitRow {
    let (blocked, queued) = group.times();
    let parts = || group.parts.iter().map(|(part, ..)| *part);
    let threads: BTreeSet<u32> = parts().map(|part| part.way.tid).collect();
    let text = |name: Option<&[u8]>| HostText::new(name.unwrap_or_default());
    let first = parts().next();
    let longest = parts().map(|part| part.spent.longest).max().unwrap_or_default();
    let left_out = group.functions.len().saturating_sub(most_calls);
    let is_shown = |place: usize| place == 0 || place > left_out;
    let calls = (0..).zip(&group.functions).filter(|(place, _)| is_shown(*place));
    let still: u32 = parts().map(|part| part.still_waiting).sum();
    // What is still waited for can still be asked for.
    let asked = parts().max_by_key(|part| part.still_waiting);
    let subject = asked.and_then(|part| subject::named(part, group.call, context.root));
    let held_by = asked.and_then(|part| subject::holder(part, group.kind, context.root));
    let of_wakings = if seen.sees_wakings || group.kind == WaitKind::Running {
        Observed::Known(queued / 1000)
    } else {
        Observed::Unknown(Reason::NotByEngine)
    };
    let is_preempted = group.kind == WaitKind::Running;
    WaitRow {
        pct: Percent::of(group.time() as f64, all as f64).unwrap_or_default(),
        blocked_us: blocked / 1000,
        run_queue_us: of_wakings,
        waits: parts().map(|part| part.spent.waits).sum(),
        longest_us: if is_preempted {
            Observed::Unknown(Reason::NotByEngine)
        } else {
            Observed::Known(longest / 1000)
        },
        still_waiting: still,
        pid: first.map_or(0, |part| part.way.pid),
        process: text(first.map(|part| part.spent.process.as_slice())),
        threads: u32::try_from(threads.len()).unwrap_or(u32::MAX),
        tid: first.map_or(0, |part| part.way.tid),
        thread: text(first.map(|part| part.spent.name.as_slice())),
        kind: group.kind,
        is_preempted,
        call: group.call.map(|call| HostText::new(call.as_bytes())),
        subject,
        held_by,
        wakers: wakers::told(&group.wakers, group.time()),
        calls_left_out: u32::try_from(left_out).unwrap_or(u32::MAX),
        calls: calls.map(|(_, function)| shown::shown(&names.profile, *function)).collect(),
    }
}
