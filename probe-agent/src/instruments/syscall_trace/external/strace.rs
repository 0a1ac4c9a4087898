//! strace, which stops each thread at each call.

mod subject;

use super::{
    super::{
        call::Call,
        engine::{Asked, NoTrace},
        ptrace,
        seen::{Knows, Pending, SubjectId, Subjects, Trace},
    },
    Names, Sums, Watch, call_named, errno_named, failed, is_there, process_of, wanted_calls, watch,
    watched_pids,
};
use crate::{
    call::Context,
    external::strace::{Beside, Ended, Reader, Value, Width},
    os::{
        observer::{MOST_WATCHED, Observer, Watched},
        spawner::Piece,
    },
};
use protocol::{
    instruments::syscall_trace::SubjectKind,
    message::Engine,
    observed::{Observed, Reason},
    units::Micros,
};
use std::{
    collections::{BTreeMap, HashSet},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Lets strace watch.
pub(in crate::instruments::syscall_trace) fn strace(
    asked: &Asked<'_>,
    context: &Context<'_>,
) -> Result<Trace, NoTrace> {
    is_there(Observer::Strace, context)?;
    let (mut pids, left_out) = watched_pids(asked, MOST_WATCHED, context);
    if let Some(pid) = asked.subject.pid {
        ptrace::refuse_tracers(pid, asked, context.root)?;
    }
    // Descendants that another holds are left to it.
    pids.retain(|pid| ptrace::tracer_of(context.root, *pid).is_none());
    let tids = threads_of(&pids, context);
    let stood: HashSet<u32> =
        tids.iter().copied().filter(|tid| ptrace::is_stopped(context.root, *tid)).collect();
    let watched = Watched {
        observer: Observer::Strace,
        pids: pids.clone(),
        spared: Vec::new(),
        calls: wanted_calls(asked),
        with_subjects: asked.wants_subjects(),
    };
    let mut reader = Reader::default();
    let mut seen = Adding { context, asked, state: State::default() };
    let watching = watch(&watched, asked, context, &mut |piece| match piece {
        Piece::Out(bytes) => {
            reader.take(bytes, &mut |call| seen.add(call));
            true
        }
        // `strace: Process 7 attached`.
        Piece::Error(text) => text.windows(9).any(|part| part == b" attached"),
        Piece::Nothing => false,
    });
    let state = seen.state;
    // Also where the call is over, and those that were born meanwhile.
    let tids: Vec<u32> = tids.into_iter().chain(state.processes.keys().copied()).collect();
    ptrace::check_let_go(context.root, &tids, &stood)?;
    let watching = watching?;
    let (started, beside) = reader.finish();
    let has_seen = !state.sums.0.is_empty() || !started.is_empty() || beside.begun_before > 0;
    let is_attached = watching.said.windows(9).any(|part| part == b" attached");
    if !has_seen && !is_attached {
        if let Some(pid) = asked.subject.pid {
            ptrace::refuse_tracers(pid, asked, context.root)?;
        }
        return Err(failed(Observer::Strace, &watching, context));
    }
    Ok(trace(state, (started, beside), (&watching, left_out), context))
}

fn threads_of(pids: &[u32], context: &Context<'_>) -> Vec<u32> {
    let (mut all, mut tids) = (Vec::new(), Vec::new());
    for pid in pids {
        if context.root.list_ids(&format!("{pid}/task"), &mut tids).is_ok() {
            all.extend_from_slice(&tids);
        }
    }
    all
}

/// Adds calls up as they come.
struct Adding<'a, 'r, 'c> {
    context: &'a Context<'c>,
    asked: &'a Asked<'r>,
    state: State,
}

#[derive(Default)]
struct State {
    sums: Sums,
    names: Names,
    subjects: Subjects,
    processes: BTreeMap<u32, u32>,
    calls: BTreeMap<(Vec<u8>, bool), Option<Call>>,
    unknown: u64,
    count: u64,
}

impl State {
    fn call(&mut self, name: &[u8], is_32_bit: bool) -> Option<Call> {
        let known = self.calls.entry((name.to_vec(), is_32_bit));
        *known.or_insert_with(|| call_named(name, is_32_bit))
    }

    fn process(&mut self, tid: Option<u32>, context: &Context<'_>) -> u32 {
        let tid = tid.unwrap_or_default();
        let process = *self.processes.entry(tid).or_insert_with(|| process_of(tid, context));
        self.names.note(process, context);
        process
    }

    fn subject(
        &mut self,
        name: &[u8],
        arguments: &[u8],
    ) -> (Option<SubjectId>, Option<SubjectKind>) {
        match subject::of(name, arguments) {
            Some(subject) => {
                let kind = subject.kind;
                (Some(self.subjects.id(subject)), Some(kind))
            }
            None => (None, None),
        }
    }
}

impl Adding<'_, '_, '_> {
    fn add(&mut self, ended: &Ended<'_>) {
        let state = &mut self.state;
        let is_32_bit = ended.width == Width::Bits32;
        let Some(call) = state.call(ended.name, is_32_bit) else {
            state.unknown = state.unknown.saturating_add(1);
            return;
        };
        if !self.asked.wants(call) {
            return;
        }
        let errno = match ended.value {
            Value::Failure(name) | Value::Interrupted(name) => errno_named(name).unwrap_or(4095),
            Value::Success(_) | Value::Unknown => 0,
        };
        let pid = state.process(ended.tid, self.context);
        let (subject, kind) = match self.asked.wants_subjects() {
            true => state.subject(ended.name, ended.arguments),
            false => (None, None),
        };
        state.count = state.count.saturating_add(1);
        let tally = state.sums.of(pid, call, (subject, call.is_wait(kind)), errno);
        match ended.took {
            Some(took) => tally.add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)),
            // How many is known, and not how long.
            None => tally.count = tally.count.saturating_add(1),
        }
    }
}

fn trace(
    mut state: State,
    (started, beside): (BTreeMap<Option<u32>, crate::external::strace::Started>, Beside),
    (watching, left_out): (&Watch, u64),
    context: &Context<'_>,
) -> Trace {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut pending = Vec::new();
    for (tid, started) in started {
        let Some(call) = state.call(&started.name, false) else { continue };
        let pid = state.process(tid, context);
        let (subject, kind) = state.subject(&started.name, &started.arguments);
        let name = state.names.0.get(&pid).cloned().unwrap_or_default();
        pending.push(Pending {
            call,
            is_wait: call.is_wait(kind),
            pid,
            tid: tid.unwrap_or(pid),
            name: Observed::Known(name),
            subject,
            since: Some(started.at.map_or(Duration::ZERO, |at| now.saturating_sub(at))),
        });
    }
    let cpu_ns = u64::try_from(watching.cpu.as_nanos()).unwrap_or(u64::MAX);
    Trace {
        engine: Engine::Strace,
        took: watching.took,
        knows: Knows::ALL,
        seen: state.sums.into_seen(),
        subjects: state.subjects,
        names: state.names.0,
        begun_before: Observed::Known(beside.begun_before),
        pending,
        lost_on: Vec::new(),
        lost_elsewhere: beside.incomplete.saturating_add(beside.unavailable),
        malformed: beside
            .passed_over()
            .saturating_add(state.unknown)
            .saturating_add(left_out)
            .saturating_add(u64::from(watching.is_cut)),
        // A thread stands still for as long as strace works on its call, and longer for two switches.
        added_per_call: match cpu_ns.checked_div(state.count) {
            Some(ns) => Observed::Known(Micros::from_ns(ns)),
            None => Observed::Unknown(Reason::NotByEngine),
        },
        pause_us_max: 0,
    }
}
