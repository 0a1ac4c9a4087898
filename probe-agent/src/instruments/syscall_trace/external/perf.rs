//! perf, by its summary of each thread.

use super::{
    super::{
        engine::{Asked, NoTrace},
        seen::{Knows, Subjects, Trace},
    },
    Names, Sums, Watch, call_named, errno_named, failed, is_there, process_of, spared,
    wanted_calls, watch, watched_pids,
};
use crate::{
    call::Context,
    external::perf_trace::{Reader, Row, Summary, Thread},
    os::{
        observer::{End, MOST_WATCHED, Observer, Watched},
        spawner::Piece,
    },
};
use protocol::{
    host_text::HostText,
    message::Engine,
    observed::{Observed, Reason},
};

/// Lets perf watch.
///
/// Its summary has threads that are there when it ends; of those that ended before nothing is in it but,
/// at most, their share of events.
pub(in crate::instruments::syscall_trace) fn perf(
    asked: &Asked<'_>,
    context: &Context<'_>,
) -> Result<Trace, NoTrace> {
    is_there(Observer::Perf, context)?;
    let (pids, mut left_out) = watched_pids(asked, MOST_WATCHED, context);
    let mut watched = Watched {
        observer: Observer::Perf,
        pids,
        spared: spared(asked, context),
        calls: wanted_calls(asked),
        with_subjects: false,
    };
    let (mut summary, mut watching) = summary(&watched, asked, context)?;
    let is_refused = |summary: &Summary, watching: &Watch| {
        summary.threads.is_empty() && !matches!(watching.end, End::Code(0) | End::Signal)
    };
    // It gives up where one of them ends before it has begun, as short-lived children do.
    if is_refused(&summary, &watching)
        && watched.pids.len() > 1
        && let Some(first) = asked.request.pid
    {
        let others = watched.pids.len() - 1;
        left_out = left_out.saturating_add(u64::try_from(others).unwrap_or(u64::MAX));
        watched.pids = vec![first];
        (summary, watching) = self::summary(&watched, asked, context)?;
    }
    if is_refused(&summary, &watching) {
        return Err(failed(Observer::Perf, &watching, context));
    }
    let (mut sums, mut names, mut unknown) = (Sums::default(), Names::default(), 0_u64);
    let mut knows_errors = true;
    for thread in &summary.threads {
        let pid = process_of(thread.tid, context);
        names.0.entry(pid).or_insert_with(|| HostText::new(&thread.name));
        for row in &thread.calls {
            knows_errors &= row.failed.is_some();
            if add(&mut sums, asked, (pid, thread), row).is_none() {
                unknown = unknown.saturating_add(1);
            }
        }
    }
    Ok(Trace {
        engine: Engine::Perf,
        took: watching.took,
        knows: Knows {
            errors: knows_errors,
            times_apart: false,
            latency: false,
            subjects: false,
            ..Knows::ALL
        },
        seen: sums.into_seen(),
        subjects: Subjects::default(),
        names: names.0,
        begun_before: Observed::Unknown(Reason::NotByEngine),
        pending: Vec::new(),
        lost_on: Vec::new(),
        // Two events are a call.
        lost_elsewhere: summary.lost.saturating_add(summary.events_of_others()).div_ceil(2),
        malformed: summary.malformed.saturating_add(unknown).saturating_add(left_out),
        added_per_call: Observed::Unknown(Reason::NotByEngine),
        pause_us_max: 0,
    })
}

/// What perf sums up of a window.
fn summary(
    watched: &Watched,
    asked: &Asked<'_>,
    context: &Context<'_>,
) -> Result<(Summary, Watch), NoTrace> {
    let mut reader = Reader::default();
    let watching = watch(watched, asked, context, &mut |piece| match piece {
        // Its tables go to stderr. It does not say when it has begun; nothing is written before it ends.
        Piece::Error(bytes) => {
            reader.take(bytes);
            true
        }
        Piece::Out(_) | Piece::Nothing => true,
    })?;
    Ok((reader.finish(), watching))
}

/// Adds a row. perf tells how long all calls of it took, and not how long those that failed.
fn add(sums: &mut Sums, asked: &Asked<'_>, (pid, _): (u32, &Thread), row: &Row) -> Option<()> {
    let call = call_named(&row.name, false)?;
    if !asked.wants(call) {
        return Some(());
    }
    let on = (None, call.is_wait(None));
    let mut named = 0_u64;
    for (name, count) in &row.errors {
        // perf has no name for errors that no program sees: those by which the kernel begins again.
        let errno = errno_named(name).unwrap_or(512);
        let tally = sums.of(pid, call, on, errno);
        tally.count = tally.count.saturating_add(*count);
        named = named.saturating_add(*count);
    }
    let failed = row.failed.unwrap_or_default();
    if failed > named {
        let tally = sums.of(pid, call, on, 4095);
        tally.count = tally.count.saturating_add(failed - named);
    }
    let tally = sums.of(pid, call, on, 0);
    tally.count = tally.count.saturating_add(row.count.saturating_sub(failed.max(named)));
    tally.total_ns = tally.total_ns.saturating_add(row.total_us.saturating_mul(1000));
    tally.max_ns = tally.max_ns.max(row.max_us.saturating_mul(1000));
    Some(())
}
