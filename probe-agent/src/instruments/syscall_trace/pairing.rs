//! Beginnings and ends of calls, each of its thread, made to rows.
//!
//! An end without a beginning is of a call that began before the window where it is the first of its
//! thread; a later one is incomplete, as is a beginning after which another comes. Neither took 0 seconds.

use super::{
    call::Call,
    engine::Asked,
    naming::{Naming, Sees, Token},
    seen::{Pending, Seen, Subjects, Tally},
};
use crate::proc::{self, Root, waiting};
use protocol::{
    host_text::HostText,
    observed::{Feature, Observed, Reason},
};
use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    time::Duration,
};

/// A call as it begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begins<'m> {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) time_ns: u64,
    pub(super) call: Call,
    pub(super) arguments: &'m [u64; 6],
    /// What the arguments point to, where it was copied before the call.
    pub(super) memory: Option<&'m [Vec<u8>]>,
}

/// A call as it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    pub(super) tid: u32,
    pub(super) time_ns: u64,
    /// The call's number, where that is told.
    pub(super) number: Option<u32>,
    /// What it answered; below 0 an error's number.
    pub(super) answer: i64,
}

/// Rows that are told apart at most. Calls beyond keep their numbers, and lose what they are about.
const MOST_ROWS: usize = 20_000;

/// Threads that are looked at, at the end, for calls that went on all the time.
const MOST_LOOKED_AT: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Begun {
    pid: u32,
    call: Call,
    arguments: [u64; 6],
    about: Option<Token>,
    /// `None` where it began before the window.
    since_ns: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    pid: u32,
    call: Call,
    about: Option<Token>,
    errno: u16,
}

/// See above.
pub(super) struct Pairing<'a> {
    asked: &'a Asked<'a>,
    naming: Option<Naming>,
    under_way: HashMap<u32, Begun>,
    /// What threads were in before the first that was seen of them.
    before: HashMap<u32, (Call, [u64; 6])>,
    met: BTreeSet<u32>,
    rows: BTreeMap<Key, Tally>,
    /// Names that were told, of processes that may be gone.
    told: BTreeMap<u32, HostText>,
    begun_before: u64,
    incomplete: u64,
    calls: u64,
}

/// All that was paired.
#[derive(Debug)]
pub(super) struct Paired {
    pub(super) seen: Vec<Seen>,
    pub(super) subjects: Subjects,
    pub(super) names: BTreeMap<u32, HostText>,
    pub(super) begun_before: u64,
    pub(super) pending: Vec<Pending>,
    /// Calls of which one end is missing.
    pub(super) incomplete: u64,
    /// Calls that were seen, whole or not.
    pub(super) calls: u64,
}

impl<'a> Pairing<'a> {
    pub(super) fn new(asked: &'a Asked<'a>, root: &Root, sees: Sees) -> Self {
        let proc = root.live_proc().filter(|_| asked.wants_subjects());
        Self {
            asked,
            naming: proc.map(|proc| Naming::new(proc, sees)),
            under_way: HashMap::new(),
            before: HashMap::new(),
            met: BTreeSet::new(),
            rows: BTreeMap::new(),
            told: BTreeMap::new(),
            begun_before: 0,
            incomplete: 0,
            calls: 0,
        }
    }

    /// Takes note of what threads are in, before they are watched.
    pub(super) fn note_calls(&mut self, root: &Root, threads: &[(u32, u32)]) {
        for ((_, tid), call) in calls_of(root, threads) {
            self.before.insert(tid, call);
        }
    }

    /// A process has a name from now on.
    pub(super) fn named(&mut self, pid: u32, name: HostText) {
        self.told.insert(pid, name);
    }

    /// A call begins.
    pub(super) fn begins(&mut self, begins: Begins<'_>) {
        let Begins { pid, tid, time_ns, call, arguments, memory } = begins;
        let is_first = self.met.insert(tid);
        let (mut call, mut arguments, mut since_ns) = (call, *arguments, Some(time_ns));
        if let Some((was_in, was_with)) = self.before.remove(&tid).filter(|_| is_first)
            && (call.own_name() == Some("restart_syscall")
                || (call, arguments) == (was_in, was_with))
        {
            // It was interrupted to be watched, and goes on.
            (call, arguments, since_ns) = (was_in, was_with, None);
        }
        let about =
            self.naming.as_mut().and_then(|naming| naming.begun(pid, (call, &arguments), memory));
        let begun = Begun { pid, call, arguments, about, since_ns };
        if let Some(earlier) = self.under_way.insert(tid, begun)
            && self.asked.wants(earlier.call)
            && !never_returns(earlier.call)
        {
            self.incomplete += 1;
        }
    }

    /// A call ends.
    pub(super) fn ends(&mut self, ends: Ends) {
        let Ends { tid, time_ns, number, answer } = ends;
        let is_first = self.met.insert(tid);
        let begun = self.under_way.remove(&tid);
        let begun = begun.filter(|begun| number.is_none_or(|number| number == begun.call.number));
        let Some(begun) = begun else {
            if number.is_none_or(|number| self.asked.wants(Call::new(number))) {
                self.calls += 1;
                *if is_first { &mut self.begun_before } else { &mut self.incomplete } += 1;
            }
            return;
        };
        let errno = answer.checked_neg().and_then(|errno| u16::try_from(errno).ok());
        let errno = errno.filter(|errno| *errno <= 4095).unwrap_or(0);
        if errno == 0
            && let Some(naming) = &mut self.naming
        {
            let (about, made) = (begun.about, (begun.call, &begun.arguments));
            naming.succeeded(begun.pid, made, (about, answer), time_ns);
        }
        if !self.asked.wants(begun.call) {
            return;
        }
        self.calls += 1;
        let Some(since_ns) = begun.since_ns else {
            self.begun_before += 1;
            return;
        };
        let mut key = Key { pid: begun.pid, call: begun.call, about: begun.about, errno };
        if self.rows.len() >= MOST_ROWS && !self.rows.contains_key(&key) {
            key.about = None;
        }
        self.rows.entry(key).or_default().add(time_ns.saturating_sub(since_ns));
    }

    /// A process runs another program. Its thread has the process's number from then on.
    pub(super) fn ran(&mut self, pid: u32, former_tid: Option<u32>) {
        let is_exec = |begun: &Begun| matches!(begun.call.own_name(), Some("execve" | "execveat"));
        let former = former_tid.or_else(|| {
            let mut all = self.under_way.iter();
            all.find(|(_, begun)| begun.pid == pid && is_exec(begun)).map(|(tid, _)| *tid)
        });
        if let Some(begun) =
            former.filter(|tid| *tid != pid).and_then(|tid| self.under_way.remove(&tid))
        {
            self.under_way.insert(pid, begun);
        }
        // The others have ended in the middle of what they did.
        self.under_way.retain(|tid, begun| begun.pid != pid || *tid == pid);
        if let Some(naming) = &mut self.naming {
            naming.ran(pid);
        }
    }

    /// A process runs the command that the agent launched.
    pub(super) fn launched(&mut self, pid: u32) {
        if let Some(naming) = &mut self.naming {
            naming.launched(pid);
        }
    }

    /// A thread has ended.
    pub(super) fn ended(&mut self, tid: u32) {
        self.under_way.remove(&tid);
    }

    /// Looks up what was met since the last time.
    pub(super) fn look(&mut self, now_ns: u64) {
        if let Some(naming) = &mut self.naming {
            naming.look(now_ns);
        }
    }

    /// The rows. `threads` are those that there are at the end.
    pub(super) fn finish(mut self, root: &Root, now_ns: u64, threads: &[(u32, u32)]) -> Paired {
        self.add_still_in(root, threads);
        self.look(now_ns);
        let mut subjects = Subjects::default();
        let named = self.naming.map(|naming| naming.finish(&mut subjects)).unwrap_or_default();
        let mut rows: BTreeMap<_, Tally> = BTreeMap::new();
        for (key, tally) in &self.rows {
            let about = named.get(key.about);
            let is_wait = key.call.is_wait(about.map(|(_, kind)| kind));
            let row = (key.pid, key.call, about.map(|(id, _)| id), is_wait, key.errno);
            rows.entry(row).or_default().merge(tally);
        }
        let seen = rows.into_iter().map(|((pid, call, subject, is_wait, errno), tally)| Seen {
            pid,
            call,
            subject,
            is_wait,
            errno,
            tally,
        });
        let seen: Vec<Seen> = seen.collect();
        let mut pending = Vec::new();
        for (tid, begun) in self.under_way {
            if !self.asked.wants(begun.call) || never_returns(begun.call) {
                continue;
            }
            let about = named.get(begun.about);
            let name = comm(root, &format!("{}/task/{tid}", begun.pid));
            let name = name.or_else(|| self.told.get(&begun.pid).cloned());
            // It has ended with what it did.
            if name.is_none() {
                continue;
            }
            pending.push(Pending {
                call: begun.call,
                is_wait: begun.call.is_wait(about.map(|(_, kind)| kind)),
                pid: begun.pid,
                tid,
                name: name.map_or(Observed::Unknown(Reason::Gone), Observed::Known),
                subject: about.map(|(id, _)| id),
                since: begun
                    .since_ns
                    .map(|since| Duration::from_nanos(now_ns.saturating_sub(since))),
            });
        }
        let pids: BTreeSet<u32> = seen.iter().map(|row| row.pid).collect();
        let told = &self.told;
        let name = |pid: u32| told.get(&pid).cloned().or_else(|| comm(root, &pid.to_string()));
        let names = pids.into_iter().filter_map(|pid| Some((pid, name(pid)?))).collect();
        let Self { begun_before, incomplete, calls, .. } = self;
        Paired { seen, subjects, names, begun_before, pending, incomplete, calls }
    }

    /// Adds what threads have been in all the time: nothing was seen of them.
    fn add_still_in(&mut self, root: &Root, threads: &[(u32, u32)]) {
        let unseen = |(_, tid): &&(u32, u32)| !self.met.contains(tid);
        let unseen: Vec<(u32, u32)> = threads.iter().filter(unseen).copied().collect();
        for ((pid, tid), (call, arguments)) in calls_of(root, &unseen) {
            let about =
                self.naming.as_mut().and_then(|naming| naming.begun(pid, (call, &arguments), None));
            self.under_way.insert(tid, Begun { pid, call, arguments, about, since_ns: None });
        }
    }
}

/// `sys_exit` tells of a thread that is gone by then; of this one it tells with another number.
fn never_returns(call: Call) -> bool {
    matches!(call.own_name(), Some("exit" | "exit_group" | "rt_sigreturn"))
}

/// A thread, by process and number.
type Thread = (u32, u32);

/// What threads are in, of those that are in a call and show it.
fn calls_of(root: &Root, threads: &[(u32, u32)]) -> Vec<(Thread, (Call, [u64; 6]))> {
    let threads = threads.get(..MOST_LOOKED_AT).unwrap_or(threads);
    let paths = threads.iter().map(|(pid, tid)| format!("{pid}/task/{tid}/syscall"));
    let texts = root.read_each_patiently(paths.collect()).texts;
    let in_call = |(thread, text): (&(u32, u32), Result<proc::Text, proc::ReadError>)| {
        let waiting::SyscallLine::In(call) = waiting::parse_syscall(&text.ok()?.bytes) else {
            return None;
        };
        let number = u32::try_from(call.number.id()).ok()?;
        Some((*thread, (Call::new(number), call.arguments)))
    };
    threads.iter().zip(texts).filter_map(in_call).collect()
}

/// The name in a folder below `/proc`.
pub(super) fn comm(root: &Root, folder: &str) -> Option<HostText> {
    let mut room = [0; 64];
    let name = root.read_proc_once(&format!("{folder}/comm"), &mut room);
    name.map_err(|error| error.reason_of_file(Feature::Field)).ok().map(proc::host_text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::sampling::Subject;
    use protocol::instruments::syscall_trace::Request;

    fn call(name: &str) -> Call {
        Call::all_named(name).into_iter().find(|call| !call.is_32_bit).unwrap()
    }

    fn begins(pairing: &mut Pairing<'_>, tid: u32, time_ns: u64, call: Call) {
        let arguments = &[0; 6];
        pairing.begins(Begins { pid: 1, tid, time_ns, call, arguments, memory: None });
    }

    fn ends(pairing: &mut Pairing<'_>, tid: u32, time_ns: u64, call: Call, answer: i64) {
        pairing.ends(Ends { tid, time_ns, number: Some(call.number), answer });
    }

    #[test]
    fn calls_are_paired_by_thread_and_what_misses_an_end_is_not_counted_as_short() {
        let request = Request::default();
        let subject = Subject::host();
        let asked = Asked::new(&request, &subject);
        let root = Root::live().unwrap();
        let mut pairing = Pairing::new(&asked, &root, Sees::All);
        let (read, openat) = (call("read"), call("openat"));
        // One in the middle of another's.
        begins(&mut pairing, 7, 100, read);
        begins(&mut pairing, 8, 150, openat);
        ends(&mut pairing, 7, 1_100, read, 5);
        ends(&mut pairing, 8, 1_150, openat, -2);
        // Began before the window; its number is another than that of the one seen next.
        ends(&mut pairing, 9, 200, read, 1);
        // Its beginning was lost, and then its end.
        ends(&mut pairing, 9, 300, read, 1);
        begins(&mut pairing, 9, 400, read);
        begins(&mut pairing, 9, 500, openat);
        ends(&mut pairing, 9, 600, read, 1);
        // Ends never, and is no call that goes on.
        begins(&mut pairing, 7, 2_000, call("exit_group"));
        let found = pairing.finish(&root, 3_000, &[]);
        let rows: Vec<_> = found
            .seen
            .iter()
            .map(|row| (row.call, row.errno, row.tally.count, row.tally.total_ns))
            .collect();
        assert_eq!(rows, [(read, 0, 1, 1_000), (openat, 2, 1, 1_000)]);
        assert_eq!((found.begun_before, found.incomplete), (1, 3));
        assert!(found.pending.is_empty());
    }

    #[test]
    fn what_was_interrupted_to_be_watched_began_before() {
        let request = Request::default();
        let subject = Subject::host();
        let asked = Asked::new(&request, &subject);
        let root = Root::live().unwrap();
        let mut pairing = Pairing::new(&asked, &root, Sees::All);
        let own = std::process::id();
        pairing.before.insert(own, (call("nanosleep"), [1, 2, 3, 4, 5, 6]));
        let arguments = &[0; 6];
        let restarts = call("restart_syscall");
        pairing.begins(Begins {
            pid: own,
            tid: own,
            time_ns: 5,
            call: restarts,
            arguments,
            memory: None,
        });
        let found = pairing.finish(&root, 3_000, &[]);
        assert_eq!(found.pending.len(), 1);
        let pending = &found.pending[0];
        assert_eq!((pending.call, pending.since, pending.is_wait), (call("nanosleep"), None, true));
    }

    #[test]
    fn a_thread_that_runs_another_program_ends_its_call_under_its_new_number() {
        let request = Request::default();
        let subject = Subject::host();
        let asked = Asked::new(&request, &subject);
        let root = Root::live().unwrap();
        let mut pairing = Pairing::new(&asked, &root, Sees::All);
        let execve = call("execve");
        begins(&mut pairing, 5, 100, execve);
        begins(&mut pairing, 6, 100, call("read"));
        pairing.ran(1, None);
        ends(&mut pairing, 1, 300, execve, 0);
        let found = pairing.finish(&root, 3_000, &[]);
        assert_eq!((found.seen.len(), found.seen[0].tally.total_ns, found.incomplete), (1, 200, 0));
    }
}
