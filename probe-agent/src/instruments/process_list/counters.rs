//! The counters that cost a file of their own: run delay, storage, context switches.

use crate::{
    call::Context,
    instruments::{
        process_files::{ProcessFiles, io_of_each},
        thread_accounts::{
            Accounts, Between, Counted, some_came_and_went, tick_of, unless_all_zeros,
        },
    },
    os::clock,
    proc::{
        pid_io::PidIo,
        pid_stat::{self, PidStat, Reaped},
        pid_status::{self, SwitchLines},
        schedstat::{self, SchedStat},
    },
};
use protocol::{
    error::AgentError,
    instruments::process_list::Column,
    observed::{Feature, Observed, Reason},
};
use std::{collections::HashMap, time::Duration};

/// Whether ranking by a column reads a counter of its own for every process, at both ends of the window.
pub(super) const fn needs_own_file(column: Column) -> bool {
    match column {
        Column::RunDelay | Column::Read | Column::Write | Column::Switches => true,
        Column::Cpu
        | Column::User
        | Column::System
        | Column::ChildrenCpu
        | Column::Rss
        | Column::Threads
        | Column::OpenFiles
        | Column::MinorFaults
        | Column::MajorFaults
        | Column::Youngest => false,
    }
}

/// Threads of one process that are read for a row; four files each, twice.
const ROW_THREADS: u32 = 128;

/// Threads of one process that are read when every process is ranked by their sum.
const RANKED_THREADS: u32 = 8192;

/// What a process's own line says that decides what its other counters mean.
#[derive(Clone, Copy, Debug)]
pub(super) struct Basis {
    /// Processor time of all threads, ended ones included.
    pub(super) cpu_ticks: u64,
    pub(super) reaped: Reaped,
}

impl Basis {
    /// A process that has done nothing.
    pub(super) fn at_birth() -> Self {
        Self { cpu_ticks: 0, reaped: Reaped::default() }
    }

    pub(super) const fn of(stat: &PidStat<'_>) -> Self {
        let cpu_ticks = stat.user_ticks.saturating_add(stat.system_ticks);
        Self { cpu_ticks, reaped: stat.reaped() }
    }
}

/// Input and output of a process.
#[derive(Clone, Debug)]
pub(super) struct IoCount {
    counted: Observed<PidIo>,
    /// What its children had left it just after, and the [`Basis`] says what just before: a child
    /// that is waited for while both are read is seen by one of them.
    reaped_after: Reaped,
    /// When it was read, on the monotonic clock.
    at: Duration,
}

impl IoCount {
    fn none(at: Duration) -> Self {
        let counted = Observed::Known(PidIo::default());
        Self { counted, reaped_after: Reaped::default(), at }
    }

    /// Reads those of several processes.
    pub(super) fn read_each(pids: &[u32], context: &Context<'_>) -> Vec<Self> {
        let paths = pids.iter().map(|pid| format!("{pid}/io")).collect();
        let counted = io_of_each(paths, context);
        let at = context.root.monotonic();
        let reaped = |text: &[u8]| pid_stat::parse(text).map(|stat| stat.reaped());
        let check = |(counted, pid): (Result<PidIo, Reason>, &u32)| {
            let files = ProcessFiles { pid: *pid, context };
            match files.parsed("stat", Feature::Field, reaped) {
                Ok(reaped_after) => Self { counted: counted.into(), reaped_after, at },
                Err(reason) => Self { counted: Observed::Unknown(reason), ..Self::none(at) },
            }
        };
        counted.into_iter().zip(pids).map(check).collect()
    }
}

/// The counter behind a column, of one process at one instant.
#[derive(Clone, Debug)]
pub(super) enum Counter {
    Io(IoCount),
    RunDelay(Observed<Accounts<SchedStat>>),
    /// The switches, and the running time that tells whether some thread's are missing.
    Switches(Observed<Accounts<SwitchLines>>, Observed<Accounts<SchedStat>>),
}

impl Counter {
    /// Reads the counter behind a column; `None` for a column that has none.
    pub(super) fn read(
        column: Column,
        pid: u32,
        stat: &PidStat<'_>,
        context: &Context<'_>,
    ) -> Option<Self> {
        let files = ProcessFiles { pid, context };
        match column {
            Column::RunDelay => Some(Self::RunDelay(run_delay(&files, stat, RANKED_THREADS))),
            Column::Switches => Some(Self::Switches(
                switches(&files, stat, RANKED_THREADS),
                run_delay(&files, stat, RANKED_THREADS),
            )),
            // Of several processes together: see `read_io` in `scan.rs`.
            Column::Read
            | Column::Write
            | Column::Cpu
            | Column::User
            | Column::System
            | Column::ChildrenCpu
            | Column::Rss
            | Column::Threads
            | Column::OpenFiles
            | Column::MinorFaults
            | Column::MajorFaults
            | Column::Youngest => None,
        }
    }

    /// What a process that was not there at the earlier look had counted then.
    pub(super) fn at_birth(&self) -> Self {
        match self {
            Self::Io(now) => Self::Io(IoCount::none(now.at)),
            Self::RunDelay(_) => Self::RunDelay(none()),
            Self::Switches(..) => Self::Switches(none(), none()),
        }
    }

    /// What was counted for a column since an earlier look.
    pub(super) fn growth(&self, before: &Self, column: Column, span: &Span) -> Observed<u64> {
        match (self, before) {
            (Self::Io(now), Self::Io(before)) => {
                let io = span.io(now, before);
                let is_write = column == Column::Write;
                io.map(|io| if is_write { io.storage_write_bytes } else { io.storage_read_bytes })
            }
            (Self::RunDelay(now), Self::RunDelay(before)) => {
                span.run_delay(now, before).map(|used| used.run_delay_ns)
            }
            (Self::Switches(now, run_now), Self::Switches(before, run_before)) => {
                let run = span.run_delay(run_now, run_before);
                span.switches(now, before, &run).map(|used| used.all())
            }
            (Self::Io(_) | Self::RunDelay(_) | Self::Switches(..), _) => {
                Observed::Unknown(Reason::NoBaseline)
            }
        }
    }
}

/// What is between two looks at one process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) before: Basis,
    pub(super) now: Basis,
    /// When the earlier look began, in clock ticks after boot.
    pub(super) began_ticks: u64,
}

impl Span {
    /// Input and output. The kernel gives a process that of its children, all they ever did, once
    /// it has waited for them.
    fn io(&self, now: &IoCount, before: &IoCount) -> Observed<PidIo> {
        if now.reaped_after != self.before.reaped && now.counted.known().is_some() {
            return Observed::Unknown(Reason::ChildrenReaped);
        }
        let both = now.counted.clone().zip(before.counted.clone());
        both.and_then(|(now, before)| now.since(&before).ok_or(Reason::SteppedBack))
    }

    fn run_delay(
        &self,
        now: &Observed<Accounts<SchedStat>>,
        before: &Observed<Accounts<SchedStat>>,
    ) -> Observed<SchedStat> {
        let process = clock::ticks(self.now.cpu_ticks.saturating_sub(self.before.cpu_ticks));
        let now = now.clone().map(|now| unless_all_zeros(now, self.now.cpu_ticks));
        self.used(&now, before).and_then(|used| {
            let is_short = some_came_and_went(process, Duration::from_nanos(used.running_ns));
            if is_short { Err(Reason::ThreadsEnded) } else { Ok(used) }
        })
    }

    /// Context switches. Whether threads came and went unseen shows in their running time.
    fn switches(
        &self,
        now: &Observed<Accounts<SwitchLines>>,
        before: &Observed<Accounts<SwitchLines>>,
        run: &Observed<SchedStat>,
    ) -> Observed<SwitchLines> {
        if *run == Observed::Unknown(Reason::ThreadsEnded) {
            return Observed::Unknown(Reason::ThreadsEnded);
        }
        self.used(now, before)
    }

    fn used<T: Counted>(
        &self,
        now: &Observed<Accounts<T>>,
        before: &Observed<Accounts<T>>,
    ) -> Observed<T> {
        match (now, before) {
            (Observed::Known(now), Observed::Known(before)) => {
                Between { before, now, began_ticks: self.began_ticks }.used()
            }
            (Observed::Unknown(reason), _) | (_, Observed::Unknown(reason)) => {
                Observed::Unknown(reason.clone())
            }
        }
    }
}

fn none<T>() -> Observed<Accounts<T>> {
    Observed::Known(Accounts::new())
}

fn run_delay(
    files: &ProcessFiles<'_, '_>,
    stat: &PidStat<'_>,
    most_threads: u32,
) -> Observed<Accounts<SchedStat>> {
    let file = ("schedstat", Feature::SchedulerStatistics);
    files.of_threads(file, stat, most_threads, schedstat::parse).into()
}

fn switches(
    files: &ProcessFiles<'_, '_>,
    stat: &PidStat<'_>,
    most_threads: u32,
) -> Observed<Accounts<SwitchLines>> {
    let file = ("status", Feature::Field);
    files.of_threads(file, stat, most_threads, pid_status::parse_switches).into()
}

/// All such counters of one process at one instant.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    basis: Basis,
    run_delay: Observed<Accounts<SchedStat>>,
    io: IoCount,
    switches: Observed<Accounts<SwitchLines>>,
    pub(super) at: Duration,
    began_ticks: u64,
}

/// What such counters grew by.
#[derive(Clone, Debug)]
pub(super) struct Used {
    pub(super) run_delay: Observed<SchedStat>,
    pub(super) io: Observed<PidIo>,
    pub(super) switches: Observed<SwitchLines>,
    pub(super) window: Duration,
    /// The time over which the input and output were counted.
    pub(super) io_window: Duration,
}

/// A process, so that no later one under its pid is taken for it: the pid, and when it started in
/// clock ticks after boot.
pub(super) type Key = (u32, u64);

impl Counters {
    /// Those of a process that was born in the window, at its beginning: it had done nothing.
    pub(super) fn at_birth(at: Duration, start_ticks: u64) -> Self {
        Self {
            basis: Basis::at_birth(),
            run_delay: none(),
            io: IoCount::none(at),
            switches: none(),
            at,
            began_ticks: start_ticks,
        }
    }

    /// Reads those of several processes now. Each has them, or why they could not be read: it is
    /// gone, or its line was not understood.
    ///
    /// # Errors
    ///
    /// When the call reached a limit.
    pub(super) fn read_each(
        processes: &[Key],
        context: &Context<'_>,
    ) -> Result<HashMap<Key, Result<Self, Reason>>, AgentError> {
        let mut read = HashMap::with_capacity(processes.len());
        let mut there = Vec::with_capacity(processes.len());
        for (pid, start_ticks) in processes {
            context.check()?;
            let counters = Self::read_all_but_io(*pid, *start_ticks, context);
            if counters.is_ok() {
                there.push((*pid, *start_ticks));
            }
            read.insert((*pid, *start_ticks), counters);
        }
        let pids: Vec<u32> = there.iter().map(|(pid, _)| *pid).collect();
        for (key, io) in there.iter().zip(IoCount::read_each(&pids, context)) {
            if let Some(Ok(counters)) = read.get_mut(key) {
                counters.io = io;
            }
        }
        Ok(read)
    }

    fn read_all_but_io(pid: u32, start_ticks: u64, context: &Context<'_>) -> Result<Self, Reason> {
        let files = ProcessFiles { pid, context };
        let began_ticks = tick_of(context.root.since_boot());
        let line = files.whole("stat", Feature::Field)?;
        let stat = pid_stat::parse(&line).map_err(|error| Reason::NotUnderstood(error.shown()))?;
        if stat.start_ticks != start_ticks {
            return Err(Reason::Gone);
        }
        let at = context.root.monotonic();
        Ok(Self {
            basis: Basis::of(&stat),
            run_delay: run_delay(&files, &stat, ROW_THREADS),
            io: IoCount { counted: Observed::Unknown(Reason::NoBaseline), ..IoCount::none(at) },
            switches: switches(&files, &stat, ROW_THREADS),
            at: context.root.monotonic(),
            began_ticks,
        })
    }

    /// What they grew by since an earlier look.
    pub(super) fn since(&self, before: &Self) -> Used {
        let span = Span { before: before.basis, now: self.basis, began_ticks: before.began_ticks };
        let run_delay = span.run_delay(&self.run_delay, &before.run_delay);
        Used {
            switches: span.switches(&self.switches, &before.switches, &run_delay),
            io: span.io(&self.io, &before.io),
            run_delay,
            window: self.at.saturating_sub(before.at),
            io_window: self.io.at.saturating_sub(before.io.at),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::{FakeMachine, FakeStat, io};

    fn counters(machine: &FakeMachine) -> Result<Counters, Reason> {
        let mut read = Counters::read_each(&[(7, 100)], &machine.context()).unwrap();
        read.remove(&(7, 100)).unwrap()
    }

    /// Process 7 with two threads.
    fn machine() -> FakeMachine {
        let machine = FakeMachine::new();
        machine.stat("7", FakeStat { threads: 2, ..FakeStat::idle(7, 100) });
        machine.write("7/io", io(5000));
        machine.thread(7, FakeStat::idle(7, 100), 1000);
        machine.thread(7, FakeStat::idle(8, 101), 1000);
        machine
    }

    #[test]
    fn a_thread_that_ended_leaves_no_wrong_difference() {
        let machine = machine();
        let before = counters(&machine).unwrap();
        machine.thread(7, FakeStat::idle(7, 100), 1003);
        machine.write("7/io", io(5009));
        let used = counters(&machine).unwrap().since(&before);
        assert_eq!(used.run_delay.map(|used| used.run_delay_ns), Observed::Known(3));
        assert_eq!(used.switches.map(|used| used.voluntary), Observed::Known(3));
        assert_eq!(used.io.map(|used| used.storage_read_bytes), Observed::Known(9));

        machine.remove("7/task/8");
        let used = counters(&machine).unwrap().since(&before);
        assert_eq!(used.run_delay, Observed::Unknown(Reason::ThreadsEnded));
        assert_eq!(used.switches, Observed::Unknown(Reason::ThreadsEnded));
    }

    #[test]
    fn what_a_child_read_in_its_life_is_not_the_parents() {
        let machine = machine();
        let before = counters(&machine).unwrap();
        let parent = FakeStat { threads: 2, children_minor_faults: 80, ..FakeStat::idle(7, 100) };
        machine.stat("7", parent);
        machine.write("7/io", io(1 << 30));
        let used = counters(&machine).unwrap().since(&before);
        assert_eq!(used.io, Observed::Unknown(Reason::ChildrenReaped));
    }

    #[test]
    fn another_process_under_the_pid_is_not_read() {
        let machine = machine();
        machine.stat("7", FakeStat::idle(7, 200));
        assert_eq!(counters(&machine).unwrap_err(), Reason::Gone);
    }

    #[test]
    fn a_child_that_ends_between_two_reads_of_its_parent_is_noticed() {
        let machine = machine();
        let parent = FakeStat { threads: 2, children_minor_faults: 80, ..FakeStat::idle(7, 100) };
        machine.stat("7", parent);
        let after = counters(&machine).unwrap().io;
        // The line was read before the child was waited for, and the count after.
        let (before, now) = (Basis::at_birth(), Basis::at_birth());
        let span = Span { before, now, began_ticks: 0 };
        let found = span.io(&after, &IoCount::none(Duration::ZERO));
        assert_eq!(found, Observed::Unknown(Reason::ChildrenReaped));
    }
}
