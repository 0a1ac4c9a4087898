//! What every process did between two passes, and the machine.

use super::{
    at_rest::{AtRest, Resting},
    change::{Change, change},
    children,
    counters::Key,
    scan::{Sample, Scan},
};
use crate::{
    os::clock,
    proc::host_stat::HostStat,
    rank::{self, Page, Weighed},
};
use protocol::{
    instruments::process_list::{Column, HiddenBy},
    loss::Lost,
    observed::{Observed, Reason},
    units::{PerSecond, Percent},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Everything that changed between two passes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Changes {
    /// The processes of the later pass that did something, or of which more is to be known than that
    /// they did not, by ascending pid.
    pub(super) processes: Vec<Change>,
    /// The others.
    pub(super) at_rest: AtRest,
    /// Processes of the earlier pass that are gone.
    pub(super) died: u32,
    /// Processor time of processes that ended, as far as a parent still there waited for them.
    pub(super) ended_cpu: Observed<Duration>,
    pub(super) host: HostChange,
    /// Threads of the whole machine, at the later pass.
    pub(super) host_threads: Observed<u64>,
    /// What hides processes. Filled in by whoever stores or shows this.
    pub(super) hidden_by: Vec<HiddenBy>,
    pub(super) lost: Lost,
}

/// What the machine did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct HostChange {
    pub(super) cpus: Observed<u32>,
    pub(super) busy_pct: Observed<Percent>,
    pub(super) steal_pct: Observed<Percent>,
    pub(super) forks_per_s: Observed<PerSecond>,
    /// Time in which a processor did something for this machine.
    pub(super) busy: Observed<Duration>,
    /// What all processes can have used, at most.
    most: Observed<Duration>,
}

/// Forgets a value, and not why there is none.
fn forget<T>(value: &mut Observed<T>, reason: &Reason) {
    if matches!(value, Observed::Known(_) | Observed::Unknown(Reason::EmptyWindow)) {
        *value = Observed::Unknown(reason.clone());
    }
}

impl Changes {
    /// Compares two passes. A pid that was reused in between is two processes: one died, one was
    /// born.
    ///
    /// `column` is the one that both passes read a file of its own for.
    pub(super) fn between(first: &Scan, last: &Scan, column: Option<Column>) -> Self {
        let (same, changed) = first.apart(last);
        let at_rest = AtRest::between(first, last, &same);
        Self { at_rest, ..Self::of_changed(changed, (first, last), column) }
    }

    /// The processes that are first in a ranking by `sort` of what they did between two passes.
    pub(super) fn first_between(
        (first, last): (&Scan, &Scan),
        column: Option<Column>,
        sort: Column,
        many: usize,
    ) -> Vec<Key> {
        let (same, changed) = first.apart(last);
        let Self { processes, at_rest, .. } = Self::of_changed(changed, (first, last), column);
        let did = processes.iter().map(|change| (change.weight(sort), change.resident_pages));
        // Of one that did not run so far, and does not later, nothing has to be read.
        let may_have_run = |sample: &&&Sample| !at_rest.did_not_run(&Resting::of(sample));
        let rest: Vec<&&Sample> = same.iter().filter(may_have_run).collect();
        let weight = |sample: &&&Sample| {
            let row = Resting::of(sample);
            (at_rest.weight(&row, sort), row.resident_pages)
        };
        let weighed = did.chain(rest.iter().map(weight));
        let weighed = weighed.map(|(weight, tie)| Weighed::new(&weight, tie));
        let (places, _) = rank::places(weighed, 0, many);
        let key = |place: usize| match processes.get(place) {
            Some(change) => Some(change.key()),
            None => rest.get(place - processes.len()).map(|it| (it.pid, it.start_ticks)),
        };
        places.into_iter().filter_map(key).collect()
    }

    /// Those that are not as they were, out of the first pass.
    fn of_changed(
        changed: Vec<&Sample>,
        (first, last): (&Scan, &Scan),
        column: Option<Column>,
    ) -> Self {
        let mut earlier = changed.into_iter().peekable();
        let mut processes = Vec::with_capacity(last.samples.len());
        let mut died = Vec::new();
        for sample in &last.samples {
            while let Some(gone) = earlier.next_if(|earlier| earlier.pid < sample.pid) {
                died.push(gone);
            }
            let same_pid = earlier.next_if(|earlier| earlier.pid == sample.pid);
            let before = match same_pid {
                Some(before) if before.start_ticks == sample.start_ticks => Some(before),
                Some(replaced) => {
                    died.push(replaced);
                    None
                }
                None => None,
            };
            processes.push(change(sample, before, (first, last), column));
        }
        died.extend(earlier);
        let host = HostChange::between(first, last);
        let most = host.most.known().copied();
        let ended_cpu = children::settle(&mut processes, (first, last), &died, most);
        Self {
            died: u32::try_from(died.len()).unwrap_or(u32::MAX),
            processes,
            at_rest: AtRest::none_between(first, last),
            ended_cpu,
            host,
            host_threads: last.host_threads.clone(),
            hidden_by: Vec::new(),
            lost: last.lost,
        }
    }

    /// Makes of those at rest what the others are: for who has to know of each what group it is in.
    pub(super) fn wake(&mut self) {
        let woken = self.at_rest.take();
        self.processes.extend(woken);
    }

    /// What each process counts for in a ranking by `column`, those at rest behind the others.
    pub(super) fn weights(&self, column: Column) -> impl Iterator<Item = Observed<f64>> {
        let did = self.processes.iter().map(move |change| change.weight(column));
        let rest = self.at_rest.rows().map(move |row| self.at_rest.weight(&row, column));
        did.chain(rest)
    }

    /// Of all processes, ranked by these weights: of those that weigh the same, mostly nothing, the
    /// larger ones are of more interest.
    pub(super) fn page(
        &self,
        weights: impl Iterator<Item = Observed<f64>>,
        offset: usize,
        limit: usize,
    ) -> Page<Change> {
        let did = self.processes.iter().map(|change| change.resident_pages);
        let pages = did.chain(self.at_rest.rows().map(|row| row.resident_pages));
        let weighed = weights.zip(pages).map(|(weight, tie)| Weighed::new(&weight, tie));
        let (places, truncation) = rank::places(weighed, offset, limit);
        let awake = self.processes.len();
        let change = |place: usize| match self.processes.get(place) {
            Some(change) => Some(change.clone()),
            None => Some(self.at_rest.change(&self.at_rest.row(place - awake)?)),
        };
        Page { rows: places.into_iter().filter_map(change).collect(), truncation }
    }
}

impl HostChange {
    /// Forgets what takes two instants.
    pub(super) fn forget_what_happened(&mut self, reason: &Reason) {
        let shares = [&mut self.busy_pct, &mut self.steal_pct];
        shares.into_iter().for_each(|share| forget(share, reason));
        forget(&mut self.forks_per_s, reason);
        forget(&mut self.busy, reason);
    }

    fn between(first: &Scan, last: &Scan) -> Self {
        let window = last.began.saturating_sub(first.began);
        let delta: Observed<HostStat> =
            last.host.clone().zip(first.host.clone()).map(|(last, first)| last.since(&first));
        let share =
            |ticks: fn(&HostStat) -> u64| delta.clone().and_then(|delta| delta.share(ticks));
        let forks = |delta: HostStat| PerSecond::over(delta.forks, window).unwrap_or_default();
        Self {
            cpus: delta.clone().map(|delta| delta.cpus),
            busy_pct: share(HostStat::not_idle_ticks),
            steal_pct: share(|delta| delta.steal_ticks),
            forks_per_s: delta.clone().map(forks),
            busy: delta.clone().map(|delta| clock::ticks(delta.busy_ticks())),
            most: delta.map(|delta| clock::ticks(delta.most_ticks())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(pid: u32, start_ticks: u64, parent_pid: u32, at_ms: u64) -> Sample {
        Sample { parent_pid, ..Sample::idle(pid, start_ticks, Duration::from_millis(at_ms)) }
    }

    fn scan(at_ms: u64, samples: Vec<Sample>) -> Scan {
        Scan::of(samples, Duration::from_millis(at_ms), Duration::from_millis(at_ms))
    }

    #[test]
    fn a_process_busy_only_now_outranks_one_that_was_busy_for_weeks() {
        let mut veteran = sample(1, 0, 0, 0);
        veteran.user_ticks = 100_000_000;
        let mut sleeper = sample(2, 0, 0, 0);
        sleeper.user_ticks = 5;
        let first = scan(0, vec![veteran.clone(), sleeper.clone()]);
        veteran.at = Duration::from_secs(1);
        sleeper.at = Duration::from_secs(1);
        sleeper.user_ticks += 100;
        let changes = Changes::between(&first, &scan(1000, vec![veteran, sleeper]), None);
        let weights: Vec<_> =
            changes.processes.iter().map(|change| change.weight(Column::Cpu)).collect();
        assert_eq!(weights, [Observed::Known(0.0), Observed::Known(1.0)]);
    }

    #[test]
    fn a_reused_pid_is_two_processes() {
        let mut old = sample(7, 100, 1, 0);
        old.user_ticks = 1_000_000;
        let first = scan(100_000, vec![old]);
        let mut new = sample(7, 10_050, 1, 101_000);
        new.user_ticks = 25;
        let changes = Changes::between(&first, &scan(101_000, vec![new]), None);
        let [process] = changes.processes.as_slice() else { panic!("one process") };
        assert!(process.born && changes.died == 1);
        // Born half a second before it was read, it used a quarter of the window, not half.
        assert_eq!(process.age, Duration::from_millis(500));
        assert_eq!(process.window, Duration::from_secs(1));
        assert_eq!(process.weight(Column::Cpu), Observed::Known(0.25));
    }

    #[test]
    fn counters_that_step_back_are_no_growth() {
        let mut before = sample(7, 100, 1, 0);
        before.user_ticks = 50;
        let mut after = sample(7, 100, 1, 1000);
        after.user_ticks = 49;
        let changes = Changes::between(&scan(0, vec![before]), &scan(1000, vec![after]), None);
        assert_eq!(changes.processes[0].user, Duration::ZERO);
    }
}
