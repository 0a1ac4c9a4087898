//! What every process did between two passes.

use super::{
    children,
    counters::{Basis, Key, Span},
    scan::{Sample, Scan},
};
use crate::{instruments::thread_accounts::tick_of, os::clock, proc::host_stat::HostStat};
use protocol::{
    host_text::HostText,
    instruments::process_list::{Column, HiddenBy, State},
    loss::Lost,
    observed::{Observed, Reason},
    units::{PerSecond, Percent},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Everything that changed between two passes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Changes {
    /// The processes of the later pass, the largest first.
    pub(super) processes: Vec<Change>,
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

/// What one process did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Change {
    pub(super) pid: u32,
    /// Whose files say what it has: its own, or those of a thread where the first one ended.
    pub(super) via: u32,
    pub(super) start_ticks: u64,
    pub(super) name: HostText,
    pub(super) state: State,
    pub(super) is_kernel_thread: bool,
    pub(super) born: bool,
    /// The window as it was measured for it: between the two passes. Also for one that was born in
    /// between: what a hundred short-lived ones used must add up to what the processors did.
    pub(super) window: Duration,
    /// How old it is at the later pass.
    pub(super) age: Duration,
    pub(super) user: Duration,
    pub(super) system: Duration,
    pub(super) children: Observed<Duration>,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) threads: u32,
    pub(super) resident_pages: u64,
    /// Growth of the counter behind the column to rank by, where that has a file of its own.
    pub(super) ranked: Option<Observed<u64>>,
    /// Its group, where rows are groups.
    pub(super) group: Observed<HostText>,
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

impl Change {
    /// The process that it is.
    pub(super) const fn key(&self) -> Key {
        (self.pid, self.start_ticks)
    }

    /// What it counts for in a ranking by `column`; larger ranks higher.
    pub(super) fn weight(&self, column: Column) -> Observed<f64> {
        let share = |time: Duration| per(time.as_secs_f64(), self.window);
        Observed::Known(match column {
            Column::Cpu => share(self.user + self.system),
            Column::User => share(self.user),
            Column::System => share(self.system),
            Column::ChildrenCpu => return self.children.clone().map(share),
            Column::Rss => self.resident_pages as f64,
            Column::Threads => f64::from(self.threads),
            Column::MinorFaults => per(self.minor_faults as f64, self.window),
            Column::MajorFaults => per(self.major_faults as f64, self.window),
            Column::Youngest => 1.0 / self.age.as_secs_f64().max(0.001),
            Column::RunDelay | Column::Read | Column::Write | Column::Switches => {
                let growth = self.ranked.clone().unwrap_or(Observed::Unknown(Reason::NotStored));
                return growth.map(|growth| per(growth as f64, self.window));
            }
        })
    }
}

/// A rate, zero for an empty window: only for ordering.
fn per(amount: f64, window: Duration) -> f64 {
    let seconds = window.as_secs_f64();
    if seconds > 0.0 { amount / seconds } else { 0.0 }
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
        let mut earlier = first.samples.iter().peekable();
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
        // Of processes that weigh the same, mostly nothing, the larger ones are of more interest.
        processes.sort_by_key(|process| std::cmp::Reverse(process.resident_pages));
        let host = HostChange::between(first, last);
        let ended_cpu =
            children::settle(&mut processes, &last.samples, &died, host.most.known().copied());
        Self {
            died: u32::try_from(died.len()).unwrap_or(u32::MAX),
            processes,
            ended_cpu,
            host,
            host_threads: last.host_threads.clone(),
            hidden_by: Vec::new(),
            lost: last.lost,
        }
    }
}

fn change(
    sample: &Sample,
    before: Option<&Sample>,
    (first, last): (&Scan, &Scan),
    column: Option<Column>,
) -> Change {
    // A process that was not there before has done since its birth all that its counters say.
    let age = (last.began_since_boot + sample.at.saturating_sub(last.began))
        .saturating_sub(clock::ticks(sample.start_ticks));
    let window = sample.at.saturating_sub(before.map_or(first.began, |before| before.at));
    let grown =
        |counter: fn(&Sample) -> u64| counter(sample).saturating_sub(before.map_or(0, counter));
    Change {
        pid: sample.pid,
        via: sample.via,
        start_ticks: sample.start_ticks,
        name: last.name(sample),
        state: State::from_letter(sample.state),
        is_kernel_thread: sample.is_kernel_thread,
        born: before.is_none(),
        window,
        age,
        user: clock::ticks(grown(|sample| sample.user_ticks)),
        system: clock::ticks(grown(|sample| sample.system_ticks)),
        children: Observed::Known(clock::ticks(grown(|sample| sample.children_ticks))),
        minor_faults: grown(|sample| sample.minor_faults),
        major_faults: grown(|sample| sample.major_faults),
        threads: sample.threads,
        resident_pages: sample.resident_pages,
        ranked: ranked(sample, before, first, column),
        group: Observed::Unknown(Reason::NotStored),
    }
}

/// Growth of the counter behind the column to rank by.
fn ranked(
    sample: &Sample,
    before: Option<&Sample>,
    first: &Scan,
    column: Option<Column>,
) -> Option<Observed<u64>> {
    let (now, column) = (sample.ranked.as_ref()?, column?);
    let span = Span {
        before: before.map_or_else(Basis::at_birth, Sample::basis),
        now: sample.basis(),
        began_ticks: tick_of(first.began_since_boot),
    };
    Some(match before.map(|before| before.ranked.as_ref()) {
        None => now.growth(&now.at_birth(), column, &span),
        Some(Some(earlier)) => now.growth(earlier, column, &span),
        Some(None) => Observed::Unknown(Reason::NoBaseline),
    })
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
