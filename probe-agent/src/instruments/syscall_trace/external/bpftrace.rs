//! bpftrace, by fixed programs that add up in the kernel.

use super::{
    super::{
        call::Call,
        engine::{Asked, NoTrace},
        seen::{Knows, Pending, Subjects, Trace},
    },
    Names, Sums, failed, is_there, spared, watch, watched_pids,
};
use crate::{
    call::Context,
    external::bpftrace::{MOST_PROCESSES, Reader},
    os::{
        observer::{Observer, Watched},
        spawner::Piece,
    },
};
use protocol::{
    message::Engine,
    observed::{Observed, Reason},
};
use std::time::Duration;

/// Lets bpftrace watch.
pub(in crate::instruments::syscall_trace) fn bpftrace(
    asked: &Asked<'_>,
    context: &Context<'_>,
) -> Result<Trace, NoTrace> {
    is_there(Observer::Bpftrace, context)?;
    let (pids, left_out) = watched_pids(asked, MOST_PROCESSES, context);
    let mut names = Names::default();
    let watched = Watched {
        observer: Observer::Bpftrace,
        pids,
        spared: spared(asked, context),
        calls: Vec::new(),
        with_subjects: false,
    };
    let mut reader = Reader::default();
    let watching = watch(&watched, asked, context, &mut |piece| {
        if let Piece::Out(bytes) = piece {
            reader.take(bytes);
        }
        reader.has_begun()
    })?;
    let counted = reader.finish();
    let Some(window_ns) = counted.window_ns else {
        return Err(failed(Observer::Bpftrace, &watching, context));
    };
    let mut sums = Sums::default();
    for (key, sum) in counted.sums {
        let call = Call::new(key.call);
        if asked.wants(call) {
            names.note(key.pid, context);
            let tally = sums.of(key.pid, call, (None, call.is_wait(None)), key.errno);
            tally.count = sum.count;
            tally.total_ns = sum.total_ns;
            tally.max_ns = sum.max_ns;
            tally.latency = sum.latency;
        }
    }
    let ends_thread = |call: Call| matches!(call.name().as_str(), "exit" | "exit_group");
    let mut pending = Vec::new();
    for (tid, of) in counted.pending {
        let call = Call::new(of.call);
        // A thread that ended itself is not in its last call any more.
        if asked.wants(call) && !ends_thread(call) {
            names.note(of.pid, context);
            let name = Observed::Known(names.0.get(&of.pid).cloned().unwrap_or_default());
            let since = Some(Duration::from_nanos(of.since_ns));
            let is_wait = call.is_wait(None);
            pending.push(Pending { call, is_wait, pid: of.pid, tid, name, subject: None, since });
        }
    }
    Ok(Trace {
        engine: Engine::Bpftrace,
        took: Duration::from_nanos(window_ns),
        // Distributions are of those that succeeded, and of none that failed.
        knows: Knows { subjects: false, ..Knows::ALL },
        seen: sums.into_seen(),
        subjects: Subjects::default(),
        names: names.0,
        begun_before: Observed::Known(counted.begun_before),
        pending,
        lost_on: Vec::new(),
        lost_elsewhere: counted
            .missed
            .saturating_add(counted.lost)
            .saturating_add(u64::from(counted.is_full)),
        malformed: counted.malformed.saturating_add(left_out),
        added_per_call: Observed::Unknown(Reason::NotByEngine),
        pause_us_max: 0,
    })
}
