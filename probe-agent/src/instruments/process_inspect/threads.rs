//! The threads at one end of the window, and what they used between both ends.

use super::{end::End, missing};
use crate::{
    instruments::{
        process_files::ProcessFiles,
        thread_accounts::{
            Accounts, Between, Counted, ThreadId, some_came_and_went, tick_of, unless_all_zeros,
        },
    },
    os::clock,
    proc::{
        pid_io::{self, PidIo},
        pid_stat::{self, PidStat},
        pid_status::{self, SwitchLines},
        schedstat::{self, SchedStat},
    },
};
use protocol::{
    budget::MOST_THREADS,
    error::AgentError,
    host_text::HostText,
    instruments::process_list::State,
    observed::{Feature, Observed, Reason},
};
use std::{collections::BTreeMap, time::Duration};

/// One thread at one end of the window.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// When it was read, on the monotonic clock.
    at: Duration,
    name: HostText,
    state: State,
    schedstat: Observed<SchedStat>,
    /// In clock ticks.
    block_delay: Observed<u64>,
    switches: Observed<SwitchLines>,
    io: Observed<PidIo>,
}

impl Thread {
    /// Time on a processor or waiting for one since it started, in nanoseconds.
    pub(super) fn demand_ns(&self) -> u64 {
        self.schedstat.known().map_or(0, SchedStat::demand_ns)
    }
}

/// All threads of the process.
pub(super) type Threads = BTreeMap<ThreadId, Thread>;

/// Reads all threads. A thread that ends meanwhile is left out, as if it had ended before.
///
/// # Errors
///
/// When the process is gone, or the call reached a limit.
pub(super) fn read(files: &ProcessFiles<'_, '_>) -> Result<Threads, AgentError> {
    const CHECK_EVERY: usize = 256;
    let tids = files.thread_ids().map_err(|reason| missing(files.pid, reason))?;
    // The costlier files: one of 1.4 KB and a small one for each thread, twice.
    let (count, limit) = (tids.len() as u64, MOST_THREADS);
    let costly = if count > limit { Err(Reason::TooCostly { count, limit }) } else { Ok(()) };
    let mut threads = Threads::new();
    for (index, tid) in tids.into_iter().enumerate() {
        if index % CHECK_EVERY == 0 {
            files.context.check()?;
        }
        if let Ok((id, thread)) = read_thread(files, tid, &costly) {
            threads.insert(id, thread);
        }
    }
    Ok(threads)
}

/// # Errors
///
/// When it has ended.
fn read_thread(
    files: &ProcessFiles<'_, '_>,
    tid: u32,
    costly: &Result<(), Reason>,
) -> Result<(ThreadId, Thread), Reason> {
    let folder = format!("task/{tid}");
    let of = |stat: &PidStat<'_>| {
        let id = ThreadId { tid, start_ticks: stat.start_ticks };
        let block_delay = stat.block_delay_ticks.ok_or(Reason::KernelLacks(Feature::Field));
        (id, HostText::new(stat.name), State::from_letter(stat.state), block_delay)
    };
    let (id, name, state, block_delay) =
        files.parsed(&format!("{folder}/stat"), Feature::Field, |text| {
            Ok(of(&pid_stat::parse(text)?))
        })?;
    let schedstat = files.parsed(
        &format!("{folder}/schedstat"),
        Feature::SchedulerStatistics,
        schedstat::parse,
    );
    let at = clock::monotonic();
    let switches = costly.clone().and_then(|()| {
        let path = format!("{folder}/status");
        files.parsed(&path, Feature::Field, pid_status::parse_switches)
    });
    let io = costly
        .clone()
        .and_then(|()| files.parsed(&format!("{folder}/io"), Feature::IoAccounting, pid_io::parse));
    if [schedstat.as_ref().err(), switches.as_ref().err(), io.as_ref().err()]
        .contains(&Some(&Reason::Gone))
    {
        return Err(Reason::Gone);
    }
    let thread = Thread {
        at,
        name,
        state,
        schedstat: schedstat.into(),
        block_delay: block_delay.into(),
        switches: switches.into(),
        io: io.into(),
    };
    Ok((id, thread))
}

/// What one thread did in the window.
#[derive(Clone, Debug)]
pub(super) struct ThreadUse {
    pub(super) id: ThreadId,
    pub(super) name: HostText,
    pub(super) state: State,
    /// The part of the window in which it was there.
    pub(super) life: Duration,
    pub(super) used: Observed<SchedStat>,
    /// Time on a processor or waiting for one, in nanoseconds; what threads are ranked by.
    pub(super) demand: Observed<f64>,
}

/// What the threads did in the window, one by one and together.
#[derive(Clone, Debug)]
pub(super) struct Used {
    /// Those that are there at its end.
    pub(super) threads: Vec<ThreadUse>,
    pub(super) schedstat: Observed<SchedStat>,
    /// Of those whose account is known.
    pub(super) known: Observed<SchedStat>,
    pub(super) switches: Observed<SwitchLines>,
    /// In clock ticks.
    pub(super) block_delay: Observed<u64>,
    pub(super) io: Observed<PidIo>,
}

impl Used {
    /// Compares both ends of the window.
    ///
    /// `saw_others` says that there were threads in between that are not at its end.
    pub(super) fn between(first: &End, last: &End, saw_others: bool) -> Self {
        let began_ticks = tick_of(first.line.since_boot);
        let (before, now) = (&first.threads, &last.threads);
        let run_before = accounts(before, |thread| &thread.schedstat);
        let cpu = |end: &End| end.line.cpu.user.saturating_add(end.line.cpu.system);
        let run_now = unless_all_zeros(accounts(now, |thread| &thread.schedstat), cpu(last));
        let run = Between { before: &run_before, now: &run_now, began_ticks };
        let threads = now.iter().map(|(id, thread)| {
            let used = run.used_by(id);
            ThreadUse {
                id: *id,
                name: thread.name.clone(),
                state: thread.state,
                life: life(*id, thread, first, last),
                demand: used.clone().map(|used| used.demand_ns() as f64),
                used,
            }
        });
        let process = clock::ticks(cpu(last).saturating_sub(cpu(first)));
        let schedstat = run.used().and_then(|used| {
            let is_short = some_came_and_went(process, Duration::from_nanos(used.running_ns));
            if is_short || saw_others { Err(Reason::ThreadsEnded) } else { Ok(used) }
        });
        // Threads that came and went show in the running time, not in each of the others.
        let whole = match &schedstat {
            Observed::Unknown(Reason::ThreadsEnded) => Err(Reason::ThreadsEnded),
            Observed::Known(_) | Observed::Unknown(_) => Ok(()),
        };
        Self {
            known: run.used_as_far_as_known(),
            threads: threads.collect(),
            switches: sum(&whole, before, now, began_ticks, |thread| &thread.switches),
            block_delay: sum(&whole, before, now, began_ticks, |thread| &thread.block_delay),
            io: sum(&whole, before, now, began_ticks, |thread| &thread.io),
            schedstat,
        }
    }
}

/// How long a thread was there between both ends of the window.
fn life(id: ThreadId, thread: &Thread, first: &End, last: &End) -> Duration {
    if let Some(before) = first.threads.get(&id) {
        return thread.at.saturating_sub(before.at);
    }
    let since_boot = last.line.since_boot + thread.at.saturating_sub(last.line.at);
    since_boot.saturating_sub(clock::ticks(id.start_ticks))
}

fn accounts<T: Clone>(threads: &Threads, part: fn(&Thread) -> &Observed<T>) -> Accounts<T> {
    threads.iter().map(|(id, thread)| (*id, part(thread).clone())).collect()
}

fn sum<T: Counted>(
    whole: &Result<(), Reason>,
    before: &Threads,
    now: &Threads,
    began_ticks: u64,
    part: fn(&Thread) -> &Observed<T>,
) -> Observed<T> {
    let (before, now) = (accounts(before, part), accounts(now, part));
    let used = Between { before: &before, now: &now, began_ticks }.used();
    Observed::from(whole.clone()).zip(used).map(|((), used)| used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::{
        fake::{FakeMachine, FakeStat, io},
        process_inspect::cgroup_levels::CgroupLevels,
    };
    use protocol::observed::Nature;

    /// Process 7 with two threads that have counted something before the window.
    fn machine() -> FakeMachine {
        let machine = FakeMachine::new();
        machine.stat("7", FakeStat { threads: 2, ..FakeStat::idle(7, 100) });
        machine.write("7/io", io(5000));
        machine.thread(7, FakeStat { block_delay_ticks: 5, ..FakeStat::idle(7, 100) }, 1000);
        machine.thread(7, FakeStat { block_delay_ticks: 9, ..FakeStat::idle(8, 101) }, 1000);
        machine
    }

    fn end(machine: &FakeMachine) -> End {
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        End::read(&files, &CgroupLevels::of(&files)).unwrap()
    }

    #[test]
    fn sums_over_threads_that_lived_are_those_of_the_process() {
        let machine = machine();
        let first = end(&machine);
        machine.thread(7, FakeStat { block_delay_ticks: 6, ..FakeStat::idle(7, 100) }, 1001);
        machine.thread(7, FakeStat { block_delay_ticks: 11, ..FakeStat::idle(8, 101) }, 1002);
        // Born in the window, by the clock of the machine that runs the test.
        let born = tick_of(clock::since_boot()) + 1;
        machine.thread(7, FakeStat { block_delay_ticks: 4, ..FakeStat::idle(9, born) }, 4);
        let used = Used::between(&first, &end(&machine), false);
        assert_eq!(used.schedstat.map(|used| used.run_delay_ns), Observed::Known(7));
        assert_eq!(used.switches.map(|used| used.voluntary), Observed::Known(7));
        assert_eq!(used.io.map(|used| used.storage_read_bytes), Observed::Known(7));
        assert_eq!(used.block_delay, Observed::Known(7));
    }

    #[test]
    fn a_thread_that_ended_leaves_the_sum_unknown_and_the_others_known() {
        let machine = machine();
        let first = end(&machine);
        machine.remove("7/task/8");
        machine.thread(7, FakeStat::idle(7, 100), 1001);
        let used = Used::between(&first, &end(&machine), false);
        let ended = Reason::ThreadsEnded;
        assert_eq!(used.schedstat, Observed::Unknown(ended.clone()));
        assert_eq!(used.switches, Observed::Unknown(ended.clone()));
        assert_eq!(used.block_delay, Observed::Unknown(ended));
        let [thread] = used.threads.as_slice() else { panic!("one thread") };
        assert_eq!(thread.used.known().unwrap().run_delay_ns, 1);
    }

    #[test]
    fn threads_that_came_and_went_unseen_show_in_the_processor_time() {
        let machine = machine();
        let first = end(&machine);
        machine.stat("7", FakeStat { threads: 2, user_ticks: 50, ..FakeStat::idle(7, 100) });
        let used = Used::between(&first, &end(&machine), false);
        assert_eq!(used.schedstat, Observed::Unknown(Reason::ThreadsEnded));
        assert_eq!(used.switches, Observed::Unknown(Reason::ThreadsEnded));
    }

    #[test]
    fn a_process_whose_first_thread_ended_is_known_by_another() {
        let machine = FakeMachine::new();
        let ended = FakeStat { state: 'Z', threads: 2, ..FakeStat::idle(7, 100) };
        machine.stat("7", ended);
        machine.write("7/status", "Tgid:\t7\n");
        machine.thread(7, ended, 0);
        machine.thread(7, FakeStat { threads: 2, ..FakeStat::idle(8, 101) }, 0);
        machine.stat("8", FakeStat { threads: 2, ..FakeStat::idle(8, 101) });
        machine.write("8/status", "Tgid:\t7\nVmRSS:\t512 kB\n");
        machine.write("8/limits", "Max open files 1024 4096 files\n");
        machine.write("8/fd/0", "");
        let end = end(&machine);
        assert_eq!((end.via, end.line.state, end.line.start_ticks), (8, State::Sleeping, 100));
        assert_eq!(end.memory.map(|lines| lines.resident.0), Observed::Known(524_288));
        assert_eq!(end.open_files_limit, Observed::Known(1024));
    }

    #[test]
    fn a_zombie_has_nothing_of_its_own() {
        let machine = FakeMachine::new();
        let zombie = FakeStat { state: 'Z', ..FakeStat::idle(7, 100) };
        machine.stat("7", zombie);
        machine.thread(7, zombie, 0);
        machine.write("7/limits", "Max open files 1024 4096 files\n");
        let end = end(&machine);
        let nature = Reason::DoesNotApply(Nature::Zombie);
        assert_eq!((end.via, end.line.is_over()), (7, true));
        assert_eq!(end.memory, Observed::Unknown(nature.clone()));
        assert_eq!(end.open_files_limit, Observed::Unknown(nature.clone()));
        assert_eq!(end.open_files, Observed::Unknown(nature));
    }
}
