//! Which part of what ended children left to their parents belongs to the window.
//!
//! When a parent waits for a child, the kernel adds the child's whole life to the parent's count of
//! children's time (`wait_task_zombie` in `kernel/exit.c`). What the child had used when the window
//! began was read then, and is taken out.

use super::{
    change::Change,
    scan::{Sample, Scan},
};
use crate::os::clock;
use protocol::observed::{Observed, Reason};
use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

/// Takes out of the parents' children time what those children had used before the window. Returns
/// the sum that is left: the time used in the window by processes that ended.
///
/// The passes are the first and the last; `died` are the processes that are in the first one only.
/// `most` is what all processors did in the window: a process whose children seem to have done
/// more had some that were not seen.
pub(super) fn settle(
    processes: &mut [Change],
    passes: (&Scan, &Scan),
    died: &[&Sample],
    most: Option<Duration>,
) -> Observed<Duration> {
    let family = Family::of(passes, died);
    let mut older: HashMap<u32, Duration> = HashMap::new();
    for sample in died {
        let ticks = sample.user_ticks.saturating_add(sample.system_ticks);
        let used = clock::ticks(ticks.saturating_add(sample.children_ticks));
        for heir in family.heirs(sample) {
            // Those at rest waited for nobody.
            let place = processes.binary_search_by_key(&heir, |process| process.pid).ok();
            let grown = place.and_then(|place| processes.get(place));
            let grown = grown.and_then(|process| process.children.known());
            // One whose count grew by less did not wait for this child.
            if grown.is_some_and(|grown| *grown >= used) {
                *older.entry(heir).or_default() += used;
            }
        }
    }
    let mut sum = Observed::Known(Duration::ZERO);
    for process in processes {
        let used = older.get(&process.pid).copied().unwrap_or_default();
        let left = |grown: Duration| {
            let left = grown.saturating_sub(used);
            if most.is_some_and(|most| left > most) {
                Err(Reason::ChildrenReaped)
            } else {
                Ok(left)
            }
        };
        process.children = process.children.clone().and_then(left);
        sum = sum.zip(process.children.clone()).map(|(sum, children)| sum + children);
    }
    sum
}

/// Who is whose parent.
struct Family<'s> {
    first: &'s Scan,
    last: &'s Scan,
    dead: HashMap<u32, u32>,
}

impl<'s> Family<'s> {
    fn of((first, last): (&'s Scan, &'s Scan), died: &[&Sample]) -> Self {
        let mut family = Self { first, last, dead: HashMap::new() };
        let dead = died.iter().map(|sample| (sample.pid, sample.parent_pid));
        // A pid that was reused is the later process's.
        family.dead = dead.filter(|(pid, _)| family.living(*pid).is_none()).collect();
        family
    }

    /// The parent of a process that lives.
    fn living(&self, pid: u32) -> Option<u32> {
        let as_before = || {
            self.last.same.binary_search(&pid).ok()?;
            self.first.find(pid)
        };
        self.last.find(pid).or_else(as_before).map(|sample| sample.parent_pid)
    }

    /// The processes that may have got the time of one that ended: its parent, where that lives.
    /// Else nobody saw whether the parent waited for it or it was handed to an ancestor that adopts
    /// orphans, so every living ancestor may have.
    fn heirs(&self, sample: &Sample) -> HashSet<u32> {
        let mut heirs = HashSet::new();
        let mut passed = HashSet::new();
        let mut ancestor = sample.parent_pid;
        if self.living(ancestor).is_some() {
            return HashSet::from([ancestor]);
        }
        // The way up ends at pid 0, or goes in a circle in what a pass saw of a changing machine.
        while passed.insert(ancestor) {
            if let Some(parent) = self.living(ancestor) {
                heirs.insert(ancestor);
                ancestor = parent;
            } else if let Some(parent) = self.dead.get(&ancestor) {
                ancestor = *parent;
            } else {
                break;
            }
        }
        heirs
    }
}

#[cfg(test)]
mod tests {
    use super::{super::changes::Changes, *};

    fn sample(pid: u32, parent_pid: u32, used_ticks: u64, children_ticks: u64) -> Sample {
        let idle = Sample::idle(pid, u64::from(pid), Duration::ZERO);
        Sample { parent_pid, user_ticks: used_ticks, children_ticks, ..idle }
    }

    /// Compares two passes; gives every process's children time, by pid, and the sum.
    fn settled(
        before: Vec<Sample>,
        after: Vec<Sample>,
        busy_ticks: u64,
    ) -> Vec<(u32, Observed<u64>)> {
        let at = Duration::from_secs;
        let mut last = Scan::of(after, at(101), at(101));
        let mut first = Scan::of(before, at(100), at(100));
        first.host = Observed::Known(crate::proc::host_stat::HostStat::default());
        last.host = first.host.clone().map(|mut host| {
            host.user_ticks = busy_ticks;
            host
        });
        let changes = Changes::between(&first, &last, None);
        let ticks = |time: Duration| u64::try_from(time.as_millis()).unwrap() / 10;
        let mut all: Vec<_> = changes
            .processes
            .iter()
            .map(|process| (process.pid, process.children.clone().map(ticks)))
            .collect();
        all.push((0, changes.ended_cpu.map(ticks)));
        all.sort_by_key(|(pid, _)| *pid);
        all
    }

    #[test]
    fn a_child_counts_only_for_the_window() {
        // A child with 3 s of life before the window uses 0.5 s more, ends, and its parent waits. A
        // grandchild of 1 s ends together with its own parent.
        let before = vec![sample(10, 1, 0, 0), sample(11, 10, 300, 0), sample(12, 11, 100, 0)];
        let after = vec![sample(10, 1, 0, 300 + 100 + 50)];
        let known = Observed::Known;
        assert_eq!(settled(before, after, 100), [(0, known(50)), (10, known(50))]);
    }

    #[test]
    fn an_orphan_is_taken_out_of_whichever_ancestor_waited_for_it() {
        // The daemon's parent ends first, without a trace; pid 1 adopts the daemon of 90 s and
        // waits for it. The shell above the parent has waited for the parent, which did nothing.
        let before = vec![
            sample(1, 0, 0, 0),
            sample(10, 1, 0, 0),
            sample(11, 10, 0, 0),
            sample(12, 11, 9000, 0),
        ];
        let after = vec![sample(1, 0, 0, 9003), sample(10, 1, 0, 4)];
        let known = Observed::Known;
        assert_eq!(settled(before, after, 100), [(0, known(7)), (1, known(3)), (10, known(4))]);
    }

    #[test]
    fn more_than_all_processors_did_is_unknown_and_no_number() {
        // A child that no pass saw, such as one that is hidden, lived long before the window.
        let before = vec![sample(10, 1, 0, 0)];
        let after = vec![sample(10, 1, 0, 5000)];
        let unknown = Observed::Unknown(Reason::ChildrenReaped);
        assert_eq!(settled(before, after, 100), [(0, unknown.clone()), (10, unknown)]);
    }

    #[test]
    fn a_circle_of_parents_comes_to_an_end() {
        let before = vec![sample(10, 11, 5, 0), sample(11, 10, 5, 0)];
        assert_eq!(settled(before, Vec::new(), 100), [(0, Observed::Known(0))]);
    }
}
