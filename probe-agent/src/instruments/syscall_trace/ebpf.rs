//! The engine of eBPF: `probe-agent/bpf/syscalls.bpf.c` adds up in the kernel, and what it has is read
//! once, after the window.

mod classes;
mod layout;
mod subjects;
mod under_way;

use super::{
    call::Call,
    cost::Trial,
    engine::{Asked, NoTrace},
    seen::{Knows, Seen, Tally, Trace},
};
use crate::{
    bpf::{Attached, Loaded, Loan, Map, NoBpf, Object, Scope},
    call::Context,
    instruments::{capabilities::refusals, sampling::Passing},
    perf::sampler,
    proc::{Root, descendants},
    stack::record::Window as _,
};
use classes::Classes;
use layout::{CallKey, Name, SubjectKey, text, u32_at, u64_at};
use protocol::{
    host_text::HostText,
    instruments::{
        capabilities::CheckId,
        syscall_trace::{LostOn, SubjectKind},
    },
    message::Engine,
    observed::Observed,
};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use subjects::Names;

/// Entries of the maps where subjects are wanted, and where not.
const ROOM_DETAILED: [(&str, u32); 2] = [("calls", 32_768), ("subject_names", 8_192)];
const ROOM_SUMMARY: [(&str, u32); 2] = [("calls", 8_192), ("subject_names", 1)];

/// The programs at the ends of calls. What ends is watched first: a call that is seen to begin is seen
/// to end.
const PROGRAMS: [&str; 2] = ["leave_call", "enter_call"];

/// The section with the window, and the map that it becomes.
const WINDOW: &str = ".data.window";

/// Watches through the window.
pub(super) fn trace(asked: &Asked<'_>, context: &Context<'_>) -> Result<Trace, NoTrace> {
    let refused = |why: &NoBpf| refusals::of_bpf(context.root, CheckId::BpfTpBtf, why);
    let loaded = lend(asked, context.root).map_err(|why| refused(&why))?;
    let trial = Trial::before();
    let start = context.root.monotonic();
    let attached =
        attach(asked, context, &loaded, start.as_nanos()).map_err(|why| refused(&why))?;
    let added_per_call = trial.measured();
    let mut window = Passing::new(context, asked.window());
    while window.pass(asked.window())? {}
    let took = window.passed();
    drop(attached);
    let end = context.root.monotonic();
    let mut found = read(asked, &loaded).map_err(|why| refused(&why))?;
    let under_way = under_way::read(asked, context, &loaded, end).map_err(|why| refused(&why))?;
    let pending = under_way.into_iter().map(|row| row.pending(&mut found.names)).collect();
    Ok(Trace {
        engine: Engine::Ebpf,
        took,
        knows: Knows::ALL,
        seen: found.seen,
        subjects: found.names.subjects,
        names: found.names.processes,
        begun_before: Observed::Known(found.begun_before),
        pending,
        lost_on: found.lost_on,
        lost_elsewhere: 0,
        malformed: 0,
        added_per_call,
        pause_us_max: 0,
    })
}

/// The programs as this question needs them: loaded, and attached to nothing.
fn lend(asked: &Asked<'_>, root: &Root) -> Result<Loan, NoBpf> {
    let classes = Classes::of(asked);
    let is_detailed = u32::from(asked.wants_subjects()).to_ne_bytes();
    let constants = [
        ("classes", classes.by_number.as_slice()),
        ("class_beyond", classes.beyond.as_slice()),
        ("is_detailed", is_detailed.as_slice()),
    ];
    let room = if asked.wants_subjects() { ROOM_DETAILED } else { ROOM_SUMMARY };
    Loaded::lend(root, Object::Syscalls, &constants, &room)
}

/// Tells the programs who is watched, and lets them run. Children are followed before the descendants
/// that there are are listed, so that none is born between.
fn attach(
    asked: &Asked<'_>,
    context: &Context<'_>,
    loaded: &Loaded,
    start_ns: u128,
) -> Result<[Attached; 2], NoBpf> {
    let scope = Scope::of(&asked.subject.sampled, context.root)?;
    scope.apply(loaded)?;
    let mut window = u64::try_from(start_ns).unwrap_or(u64::MAX).to_ne_bytes().to_vec();
    let own_thread = rustix::thread::gettid().as_raw_nonzero().get();
    window.extend(own_thread.to_ne_bytes());
    window.extend(0_u32.to_ne_bytes());
    loaded.map(WINDOW)?.set(&0_u32.to_ne_bytes(), &window)?;
    let is_followed = asked.request.descendants;
    let follower = loaded.attach(if is_followed { scope.follower() } else { &[] })?;
    if let (sampler::Scope::Process(pid), true) = (&asked.subject.sampled, is_followed) {
        let watched = loaded.map("watched")?;
        for pid in descendants::of(context.root, *pid) {
            if !scope.apart().contains(&pid) {
                watched.set(&pid.to_ne_bytes(), &[1])?;
            }
        }
    }
    let calls = loaded.attach(&PROGRAMS)?;
    Ok([calls, follower])
}

/// What the maps had.
struct Found {
    seen: Vec<Seen>,
    names: Names,
    lost_on: Vec<LostOn>,
    begun_before: u64,
}

fn read(asked: &Asked<'_>, loaded: &Loaded) -> Result<Found, NoBpf> {
    let processes = processes(loaded.map("processes")?)?;
    let mut names = Names::new(names(loaded.map("subject_names")?)?, processes);
    let mut seen = Vec::new();
    let own = std::process::id();
    for (key, tally) in counted(loaded)? {
        let call = Call { number: key.number.into(), is_32_bit: key.is_32_bit };
        // The agent's own are the trial; that of a call that was not asked for is among them.
        let is_trial = key.tgid == own && !is_asked_for(asked, own);
        if is_trial || !asked.wants(call) || tally.count == 0 {
            continue;
        }
        let subject = names.id(key.subject);
        let kind = match subject.and_then(|id| names.subjects.get(id)) {
            Some(subject) => Some(subject.kind),
            None => kind_of_wait(key.on),
        };
        seen.push(Seen {
            pid: key.tgid,
            call,
            subject,
            is_wait: call.is_wait(kind),
            errno: key.error,
            tally,
        });
    }
    let (lost_on, begun_before) = counts(loaded.map("counts")?)?;
    Ok(Found { seen, names, lost_on, begun_before })
}

/// Calls with their counts. One may stand in both maps, and for each processor.
fn counted(loaded: &Loaded) -> Result<Vec<(CallKey, Tally)>, NoBpf> {
    let entries = loaded.map("calls")?.entries()?;
    let read = |(key, value): (&[u8], &[u8])| Some((CallKey::read(key)?, layout::tally(value)?));
    let mut counted: Vec<(CallKey, Tally)> = entries.iter().filter_map(read).collect();
    let hot = loaded.map("hot_calls")?;
    for (_, value) in hot.entries()?.iter() {
        counted.extend(hot.each(value).filter_map(layout::hot));
    }
    Ok(counted)
}

fn processes(map: &Map) -> Result<BTreeMap<u32, HostText>, Errno> {
    let entries = map.entries()?;
    let named = entries
        .iter()
        .filter_map(|(key, name)| Some((u32_at(key, 0)?, crate::proc::host_text(text(name)))));
    Ok(named.collect())
}

fn is_asked_for(asked: &Asked<'_>, pid: u32) -> bool {
    asked.request.pid == Some(pid)
}

/// What a wait was on, the numbers of `syscalls.bpf.c`.
const fn kind_of_wait(on: u8) -> Option<SubjectKind> {
    match on {
        1 => Some(SubjectKind::Socket),
        2 => Some(SubjectKind::Pipe),
        3 => Some(SubjectKind::Eventfd),
        4 => Some(SubjectKind::Terminal),
        _ => None,
    }
}

fn names(map: &Map) -> Result<HashMap<SubjectKey, Name>, Errno> {
    let entries = map.entries()?;
    let named =
        entries.iter().filter_map(|(key, name)| Some((SubjectKey::read(key)?, Name::read(name)?)));
    Ok(named.collect())
}

/// What there was no room for, by processor, and how many had begun before.
fn counts(map: &Map) -> Result<(Vec<LostOn>, u64), Errno> {
    let values = map.per_cpu(&0_u32.to_ne_bytes())?.unwrap_or_default();
    let mut before = 0_u64;
    let mut lost_on = Vec::new();
    for (processor, value) in (0..).zip(&values) {
        let calls = u64_at(value, 0).unwrap_or_default();
        before = before.saturating_add(u64_at(value, 8).unwrap_or_default());
        lost_on.push(LostOn { processor, calls });
    }
    Ok((lost_on, before))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        bpf::tests::{ONE_AT_A_TIME, if_permitted},
        instruments::sampling::Subject,
    };
    use protocol::instruments::syscall_trace::{Mode, Request};

    /// What is loaded with subjects is another program than without: a verifier sees what cannot be
    /// reached as not there.
    #[test]
    fn the_programs_load_for_each_mode() {
        let _guard = ONE_AT_A_TIME.lock();
        let root = Root::live().unwrap();
        let subject = Subject::host();
        for mode in [Mode::Summary, Mode::Detailed] {
            let request = Request { mode, ..Request::default() };
            let loaded = lend(&Asked::new(&request, &subject), &root);
            let Some(loaded) = if_permitted(loaded) else { return };
            for (name, program) in loaded.programs() {
                assert!(program.is_ok(), "{mode:?} {name}: {program:?}");
            }
        }
    }
}
