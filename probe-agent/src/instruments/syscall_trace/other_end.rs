//! Who has the other end of a pipe that calls are about.

use super::seen::{Seen, SubjectId, Trace};
use crate::{order, proc::Root};
use protocol::{host_text::HostText, instruments::syscall_trace::SubjectKind};
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Pipes of which it is looked for.
const MOST_PIPES: usize = 16;

/// Processes of one pipe that are told.
const MOST_ENDS: usize = 3;

/// Descriptors that are looked at. A machine may have very many.
const MOST_LINKS: usize = 20_000;

/// Finds who has the pipes on which most time was spent, and writes it to their subjects.
pub(super) fn find(trace: &mut Trace, root: &Root) {
    let wanted = wanted(trace);
    if wanted.is_empty() {
        return;
    }
    let mut pids = Vec::new();
    let _ = root.list_ids(".", &mut pids);
    let (mut descriptors, mut links) = (Vec::new(), 0);
    for pid in pids {
        let _ = root.list_ids(&format!("{pid}/fd"), &mut descriptors);
        links += descriptors.len();
        if links > MOST_LINKS {
            break;
        }
        let mut held = BTreeSet::new();
        for descriptor in &descriptors {
            let link = root.link_of_proc(&format!("{pid}/fd/{descriptor}"));
            held.extend(link.ok().and_then(|link| wanted.get(&link)));
        }
        for (id, callers) in held.into_iter().map(|wanted| (wanted.id, &wanted.callers)) {
            // Of one caller the other end is wanted; of several each may have either.
            let is_the_caller = callers.len() == 1 && callers.contains(&pid);
            if !is_the_caller && trace.subjects.ends(id) < MOST_ENDS {
                let end = named(pid, root);
                trace.subjects.add_end(id, end);
            }
        }
    }
}

/// A pipe, and who made calls on it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wanted {
    id: SubjectId,
    callers: BTreeSet<u32>,
}

/// The pipes on which most time was spent, by the links that their descriptors have.
fn wanted(trace: &Trace) -> BTreeMap<Vec<u8>, Wanted> {
    let is_pipe = |id: &SubjectId| {
        trace.subjects.get(*id).is_some_and(|subject| subject.kind == SubjectKind::Pipe)
    };
    let mut pipes: BTreeMap<SubjectId, (u64, BTreeSet<u32>)> = BTreeMap::new();
    let seen = trace.seen.iter().filter_map(|row: &Seen| Some((row.subject?, row)));
    for (id, row) in seen.filter(|(id, _)| is_pipe(id)) {
        let (total_ns, callers) = pipes.entry(id).or_default();
        *total_ns = total_ns.saturating_add(row.tally.total_ns);
        callers.insert(row.pid);
    }
    for row in &trace.pending {
        if let Some(id) = row.subject.filter(is_pipe) {
            let (total_ns, callers) = pipes.entry(id).or_default();
            let since = row.since.unwrap_or(trace.took).as_nanos();
            *total_ns = total_ns.saturating_add(u64::try_from(since).unwrap_or(u64::MAX));
            callers.insert(row.pid);
        }
    }
    let mut pipes: Vec<_> = pipes.into_iter().collect();
    order::by_key(&mut pipes, |(_, (total_ns, _))| Reverse(*total_ns));
    let link = |id: SubjectId| Some(trace.subjects.get(id)?.name.raw());
    let wanted = pipes.into_iter().take(MOST_PIPES);
    wanted.filter_map(|(id, (_, callers))| Some((link(id)?, Wanted { id, callers }))).collect()
}

/// A process by its number and name.
fn named(pid: u32, root: &Root) -> HostText {
    let mut buffer = [0; 64];
    let name = root.read_proc_once(&format!("{pid}/comm"), &mut buffer).unwrap_or_default();
    HostText::new(&[format!("{pid} ").as_bytes(), name.trim_ascii_end()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        instruments::syscall_trace::Subject,
        observed::{Observed, Reason},
    };
    use std::{fs::read_link, io::pipe, os::fd::AsRawFd as _, time::Duration};

    #[test]
    fn who_else_has_a_pipe_is_told() {
        let (reader, _writer) = pipe().unwrap();
        let link = read_link(format!("/proc/self/fd/{}", reader.as_raw_fd())).unwrap();
        let mut subjects = super::super::seen::Subjects::default();
        let id = subjects.id(Subject {
            kind: SubjectKind::Pipe,
            name: HostText::new(link.to_string_lossy().as_bytes()),
            is_partial: false,
            other_end: Vec::new(),
        });
        let call = super::super::call::Call::new(0);
        let seen = |pid| Seen {
            pid,
            call,
            subject: Some(id),
            is_wait: true,
            errno: 0,
            tally: super::super::seen::Tally::default(),
        };
        for (pid, want) in [(1, 1), (std::process::id(), 0)] {
            let mut trace = Trace {
                engine: protocol::message::Engine::Ebpf,
                took: Duration::from_secs(1),
                knows: super::super::seen::Knows::ALL,
                seen: vec![seen(pid)],
                subjects: subjects.clone(),
                names: BTreeMap::new(),
                begun_before: Observed::Known(0),
                pending: Vec::new(),
                lost_on: Vec::new(),
                lost_elsewhere: 0,
                malformed: 0,
                added_per_call: Observed::Unknown(Reason::NotAskedFor),
                pause_us_max: 0,
            };
            find(&mut trace, &Root::live().unwrap());
            assert_eq!(trace.subjects.ends(id), want, "{:?}", trace.subjects);
        }
    }
}
