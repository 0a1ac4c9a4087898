//! What the threads of a process had used at one instant, and what they used between two.
//!
//! Run delay, context switches and waits for storage are kept by the kernel for each thread, and
//! are forgotten with it. A difference is therefore formed thread by thread, and a sum over the
//! threads is one of the process only while no thread ended.

use crate::{
    os::clock,
    proc::{pid_io::PidIo, pid_status::SwitchLines, schedstat::SchedStat},
};
use protocol::observed::{Feature, Observed, Reason};
use std::{collections::BTreeMap, time::Duration};

/// A thread, named so that no later one under the same number is taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreadId {
    pub(super) tid: u32,
    /// When it started, in clock ticks after boot.
    pub(super) start_ticks: u64,
}

/// What each thread had used at one instant.
pub(super) type Accounts<T> = BTreeMap<ThreadId, Observed<T>>;

/// Counters of a thread.
pub(super) trait Counted: Clone + Default {
    /// What happened since an earlier read; `None` when a counter is smaller than it was.
    fn since(&self, earlier: &Self) -> Option<Self>;

    /// Adds another thread's.
    fn add(&mut self, other: &Self);
}

impl Counted for SchedStat {
    fn since(&self, earlier: &Self) -> Option<Self> {
        self.since(earlier)
    }

    fn add(&mut self, other: &Self) {
        self.add(other);
    }
}

impl Counted for SwitchLines {
    fn since(&self, earlier: &Self) -> Option<Self> {
        self.since(earlier)
    }

    fn add(&mut self, other: &Self) {
        self.add(other);
    }
}

impl Counted for PidIo {
    fn since(&self, earlier: &Self) -> Option<Self> {
        self.since(earlier)
    }

    fn add(&mut self, other: &Self) {
        self.add(other);
    }
}

impl Counted for u64 {
    fn since(&self, earlier: &Self) -> Option<Self> {
        self.checked_sub(*earlier)
    }

    fn add(&mut self, other: &Self) {
        *self = self.saturating_add(*other);
    }
}

/// Two looks at the threads of a process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between<'a, T> {
    pub(super) before: &'a Accounts<T>,
    pub(super) now: &'a Accounts<T>,
    /// When the earlier look began, in clock ticks after boot. A thread that is not in it and is
    /// older was missed by it, not born since.
    pub(super) began_ticks: u64,
}

impl<T: Counted> Between<'_, T> {
    /// What a thread of the later look used. One that was born in between had used nothing.
    pub(super) fn used_by(&self, id: &ThreadId) -> Observed<T> {
        let Some(now) = self.now.get(id) else { return Observed::Unknown(Reason::ThreadsEnded) };
        let before = match self.before.get(id) {
            Some(before) => before.clone(),
            None if id.start_ticks >= self.began_ticks => Observed::Known(T::default()),
            None => Observed::Unknown(Reason::NoBaseline),
        };
        // A thread that calls exec goes on under the first thread's number and start, with its own
        // counters.
        let difference = |(now, before): (T, T)| now.since(&before).ok_or(Reason::SteppedBack);
        now.clone().zip(before).and_then(difference)
    }

    /// What the threads used together whose account is known; unknown where none is.
    pub(super) fn used_as_far_as_known(&self) -> Observed<T> {
        let mut sum: Option<T> = None;
        let mut unknown = Reason::ThreadsEnded;
        for id in self.now.keys() {
            match self.used_by(id) {
                Observed::Known(used) => sum.get_or_insert_default().add(&used),
                Observed::Unknown(reason) => unknown = reason,
            }
        }
        sum.ok_or(unknown).into()
    }

    /// What all threads used together.
    pub(super) fn used(&self) -> Observed<T> {
        if self.before.keys().any(|id| !self.now.contains_key(id)) {
            return Observed::Unknown(Reason::ThreadsEnded);
        }
        let mut sum = Observed::Known(T::default());
        for id in self.now.keys() {
            sum = sum.zip(self.used_by(id)).map(|(mut sum, used)| {
                sum.add(&used);
                sum
            });
        }
        sum
    }
}

/// The accounts, unless the kernel keeps none and prints zeros all the same: before Linux 5.14
/// without `CONFIG_SCHEDSTATS`, unless delay accounting was on. A process that ever used a processor
/// has a thread that was put on one.
pub(super) fn unless_all_zeros(
    accounts: Accounts<SchedStat>,
    cpu_ticks: u64,
) -> Accounts<SchedStat> {
    let mut known = accounts.values().filter_map(Observed::known).peekable();
    if cpu_ticks == 0 || known.peek().is_none() || known.any(|account| account.switches > 0) {
        return accounts;
    }
    let lacks = || Observed::Unknown(Reason::KernelLacks(Feature::SchedulerStatistics));
    accounts.into_keys().map(|id| (id, lacks())).collect()
}

/// Whether threads must have come and gone unseen: the process, which keeps the processor time of
/// its ended threads, used more than its threads account for.
///
/// The process's own time comes in ticks, and is read at another moment than its threads'.
pub(super) fn some_came_and_went(process: Duration, threads: Duration) -> bool {
    let rounding = clock::tick() * 4;
    let reading = process / 20;
    process > threads + rounding + reading
}

/// The clock tick of an instant, as time since boot.
pub(super) fn tick_of(since_boot: Duration) -> u64 {
    let ticks = since_boot.as_nanos() / clock::tick().as_nanos().max(1);
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thread id, start, counter.
    type Row = (u32, u64, u64);

    fn accounts(threads: &[Row]) -> Accounts<u64> {
        let account = |(tid, start_ticks, count): &Row| {
            (ThreadId { tid: *tid, start_ticks: *start_ticks }, Observed::Known(*count))
        };
        threads.iter().map(account).collect()
    }

    #[test]
    fn threads_are_compared_with_themselves_and_with_no_other() {
        let before = [(7, 100, 50), (8, 101, 1000)];
        let unknown = Observed::Unknown;
        let cases: [(&str, &[Row], Observed<u64>, u64); 6] = [
            ("both lived", &[(7, 100, 55), (8, 101, 1001)], Observed::Known(6), 6),
            ("one was born", &[(7, 100, 55), (8, 101, 1001), (9, 500, 4)], Observed::Known(10), 10),
            ("one ended", &[(7, 100, 55)], unknown(Reason::ThreadsEnded), 5),
            (
                "one ended and its number was reused",
                &[(7, 100, 55), (8, 501, 2000)],
                unknown(Reason::ThreadsEnded),
                2005,
            ),
            (
                "one was missed by the first look",
                &[(7, 100, 55), (8, 101, 1001), (9, 499, 4)],
                unknown(Reason::NoBaseline),
                6,
            ),
            (
                "one goes on in another's place",
                &[(7, 100, 49), (8, 101, 1001)],
                unknown(Reason::SteppedBack),
                1,
            ),
        ];
        let before = accounts(&before);
        for (name, now, want, at_least) in cases {
            let now = accounts(now);
            let between = Between { before: &before, now: &now, began_ticks: 500 };
            assert_eq!(between.used(), want, "{name}");
            assert_eq!(between.used_as_far_as_known(), Observed::Known(at_least), "{name}");
        }
    }

    #[test]
    fn time_that_no_thread_has_is_that_of_threads_that_came_and_went() {
        let ms = Duration::from_millis;
        assert!(!some_came_and_went(ms(20), ms(0)));
        assert!(!some_came_and_went(ms(1000), ms(990)));
        assert!(some_came_and_went(ms(100), ms(20)));
    }

    #[test]
    fn zeros_of_a_process_that_ran_are_no_account() {
        let account = |switches| {
            let id = ThreadId { tid: 7, start_ticks: 7 };
            Accounts::from([(id, Observed::Known(SchedStat { switches, ..SchedStat::default() }))])
        };
        let lacks = Observed::Unknown(Reason::KernelLacks(Feature::SchedulerStatistics));
        let cases = [
            ("it ran", 5, 0, lacks),
            ("it never ran", 0, 0, Observed::Known(SchedStat::default())),
            (
                "it has an account",
                5,
                1,
                Observed::Known(SchedStat { switches: 1, ..Default::default() }),
            ),
        ];
        for (name, cpu_ticks, switches, want) in cases {
            let found = unless_all_zeros(account(switches), cpu_ticks);
            assert_eq!(found.into_values().next(), Some(want), "{name}");
        }
    }
}
