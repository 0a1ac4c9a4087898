//! What an engine saw, added up: the one form that every engine fills.

use super::call::Call;
use protocol::{
    histogram::Log2,
    host_text::HostText,
    instruments::syscall_trace::{LostOn, Subject},
    message::Engine,
    observed::Observed,
    units::Micros,
};
use std::{collections::BTreeMap, time::Duration};

/// Calls of one kind, added up.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// The process.
    pub(super) pid: u32,
    /// Which call.
    pub(super) call: Call,
    /// What it is about, where that was asked for and could be told.
    pub(super) subject: Option<SubjectId>,
    /// Whether it sleeps by nature, by [`Call::is_wait`].
    pub(super) is_wait: bool,
    /// The error's number; 0 for those that succeeded.
    pub(super) errno: u16,
    /// How many and how long.
    pub(super) tally: Tally,
}

/// How many there were, and how long they took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// How many.
    pub(super) count: u64,
    /// All together, in nanoseconds.
    pub(super) total_ns: u64,
    /// The longest, in nanoseconds.
    pub(super) max_ns: u64,
    /// By powers of two.
    pub(super) latency: Log2,
}

impl Tally {
    /// Counts one that took so long.
    pub(super) fn add(&mut self, ns: u64) {
        self.count = self.count.saturating_add(1);
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        self.latency.add(ns);
    }

    /// Adds all of another.
    pub(super) fn merge(&mut self, other: &Self) {
        self.count = self.count.saturating_add(other.count);
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.latency.merge(&other.latency);
    }
}

/// A subject, by its place among all of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct SubjectId(u32);

/// The subjects of a trace, each once.
#[derive(Clone, Debug, Default)]
pub(super) struct Subjects {
    ids: BTreeMap<Subject, SubjectId>,
    all: Vec<Subject>,
}

impl Subjects {
    /// Its place; a new one where it is new.
    pub(super) fn id(&mut self, subject: Subject) -> SubjectId {
        if let Some(id) = self.ids.get(&subject) {
            return *id;
        }
        let id = SubjectId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.ids.insert(subject.clone(), id);
        self.all.push(subject);
        id
    }

    /// How many other ends of it are known.
    pub(super) fn ends(&self, id: SubjectId) -> usize {
        self.get(id).map_or(0, |subject| subject.other_end.len())
    }

    /// Tells one who has the other end of it.
    pub(super) fn add_end(&mut self, id: SubjectId, end: HostText) {
        let place = usize::try_from(id.0).ok().and_then(|place| self.all.get_mut(place));
        if let Some(subject) = place {
            subject.other_end.push(end);
        }
    }

    /// The subject of a place.
    pub(super) fn get(&self, id: SubjectId) -> Option<&Subject> {
        self.all.get(usize::try_from(id.0).ok()?)
    }
}

/// What an engine can tell at all. What it cannot is unknown in the answer, and not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Knows {
    /// How many calls there were: without, `Tally::count` is of looks.
    pub(super) counts: bool,
    /// How they ended: without, nothing is known of failures.
    pub(super) errors: bool,
    /// How long all of a kind took together.
    pub(super) totals: bool,
    /// The longest.
    pub(super) maxima: bool,
    /// How they are distributed.
    pub(super) latency: bool,
    /// How long those that failed took, apart from those that did not.
    pub(super) times_apart: bool,
    /// What calls are about.
    pub(super) subjects: bool,
}

impl Knows {
    /// Everything.
    pub(super) const ALL: Self = Self {
        counts: true,
        errors: true,
        totals: true,
        maxima: true,
        latency: true,
        times_apart: true,
        subjects: true,
    };

    /// What of it is known of those that succeeded or failed alone, of some of which each did.
    pub(super) const fn of_part(self, is_all: bool) -> Self {
        let is_known = self.times_apart || is_all;
        Self { totals: self.totals && is_known, maxima: self.maxima && is_known, ..self }
    }
}

/// A call that had not ended when the window did.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    /// Which call.
    pub(super) call: Call,
    /// Whether it sleeps by nature.
    pub(super) is_wait: bool,
    /// The process.
    pub(super) pid: u32,
    /// The thread.
    pub(super) tid: u32,
    /// The thread's name.
    pub(super) name: Observed<HostText>,
    /// What it is about.
    pub(super) subject: Option<SubjectId>,
    /// How long it had taken; `None` where it began before the window.
    pub(super) since: Option<Duration>,
}

/// What an engine saw in a window.
#[derive(Debug)]
pub(super) struct Trace {
    /// Which engine.
    pub(super) engine: Engine,
    /// How long it watched.
    pub(super) took: Duration,
    /// What it can tell.
    pub(super) knows: Knows,
    /// The calls.
    pub(super) seen: Vec<Seen>,
    /// What they are about.
    pub(super) subjects: Subjects,
    /// Names of the processes.
    pub(super) names: BTreeMap<u32, HostText>,
    /// Calls that ended in the window and had begun before.
    pub(super) begun_before: Observed<u64>,
    /// Calls that had not ended.
    pub(super) pending: Vec<Pending>,
    /// Calls that there was no room for, by processor.
    pub(super) lost_on: Vec<LostOn>,
    /// Calls that are in no count either, on processors that are not known.
    pub(super) lost_elsewhere: u64,
    /// Records that were not understood.
    pub(super) malformed: u64,
    /// What watching added to each call, as it was measured.
    pub(super) added_per_call: Observed<Micros>,
    /// The longest that a thread was stopped, in microseconds.
    pub(super) pause_us_max: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::instruments::syscall_trace::SubjectKind;

    #[test]
    fn a_subject_has_one_place() {
        let subject = |name: &str| Subject {
            kind: SubjectKind::Path,
            name: HostText::new(name.as_bytes()),
            is_partial: false,
            other_end: Vec::new(),
        };
        let mut subjects = Subjects::default();
        let first = subjects.id(subject("/a"));
        let second = subjects.id(subject("/b"));
        assert_eq!((subjects.id(subject("/a")), first == second), (first, false));
        assert_eq!(subjects.get(second), Some(&subject("/b")));
    }

    #[test]
    fn tallies_add_up() {
        let mut sum = Tally::default();
        let mut other = Tally::default();
        sum.add(5);
        other.add(700);
        sum.merge(&other);
        assert_eq!((sum.count, sum.total_ns, sum.max_ns, sum.latency.count()), (2, 705, 700, 2));
    }
}
