//! What the threads used between both ends of the window.

use super::{
    end::End,
    threads::{Thread, Threads},
};
use crate::{
    instruments::thread_accounts::{
        Accounts, Between, Counted, ThreadId, some_came_and_went, tick_of, unless_all_zeros,
    },
    order,
    os::clock,
    proc::{pid_io::PidIo, pid_status::SwitchLines, schedstat::SchedStat},
};
use protocol::{
    host_text::HostText,
    instruments::process_list::State,
    observed::{Observed, Reason},
};
use std::time::Duration;

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
        let listed = first.threads_listed.clone().and(last.threads_listed.clone());
        let used = Observed::from(listed.clone()).zip(run.used());
        let schedstat = used.and_then(|((), used)| {
            let is_short = some_came_and_went(process, Duration::from_nanos(used.running_ns));
            if is_short || saw_others { Err(Reason::ThreadsEnded) } else { Ok(used) }
        });
        // Threads that came and went show in the running time, not in each of the others.
        let whole = match &schedstat {
            Observed::Unknown(Reason::ThreadsEnded) => Err(Reason::ThreadsEnded),
            Observed::Known(_) | Observed::Unknown(_) => listed.clone(),
        };
        let known = Observed::from(listed).zip(run.used_as_far_as_known());
        Self {
            known: known.map(|((), used)| used),
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
    order::map(threads.iter().map(|(id, thread)| (*id, part(thread).clone())))
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
        cgroup_levels::CgroupLevels,
        fake::{FakeMachine, FakeStat, io},
        process_files::ProcessFiles,
    };
    use protocol::observed::Feature;

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
    fn without_a_list_of_threads_nothing_is_said_of_them() {
        let machine = FakeMachine::new();
        machine.stat("7", FakeStat { threads: 2, ..FakeStat::idle(7, 100) });
        let used = Used::between(&end(&machine), &end(&machine), false);
        let lacks = Reason::KernelLacks(Feature::Field);
        assert_eq!(used.schedstat, Observed::Unknown(lacks.clone()));
        assert_eq!(used.known, Observed::Unknown(lacks.clone()));
        assert_eq!(used.switches, Observed::Unknown(lacks.clone()));
        assert_eq!(used.io, Observed::Unknown(lacks));
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
}
