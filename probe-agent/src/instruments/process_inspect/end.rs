//! Everything that is read at one end of the window.

use super::threads::{self, Threads};
use crate::{
    call::Context,
    instruments::{
        cgroup_levels::{CgroupEnd, CgroupLevels},
        identity::missing,
        one_process::Line,
        ownership::has_its_own,
        process_files::ProcessFiles,
    },
    proc::{
        host_stat::{self, HostStat},
        parse::only_number,
        pid_io::PidIo,
        pid_stat::{self, Reaped},
        pid_status::{self, MemoryLines},
        pressure,
    },
};
use protocol::{
    error::AgentError,
    instruments::process_list::State,
    observed::{Feature, Observed, Reason, Switch},
};
use std::time::Duration;

/// One end of the window.
#[derive(Debug)]
pub(super) struct End {
    pub(super) line: Line,
    /// Whose files say what the process has: its own, or those of a thread where the first one
    /// ended.
    pub(super) via: u32,
    pub(super) threads: Threads,
    /// Why the threads are not known, where they are not.
    pub(super) threads_listed: Result<(), Reason>,
    pub(super) memory: Observed<MemoryLines>,
    /// Of the process. The kernel counts in it what its children did, once they were waited for.
    pub(super) io: Observed<PidIo>,
    /// What its children left it, read before everything else and after it.
    pub(super) reaped: [Reaped; 2],
    pub(super) open_files: Observed<u64>,
    pub(super) open_files_limit: Observed<u64>,
    pub(super) cgroup: CgroupEnd,
    pub(super) host: Observed<HostStat>,
    pub(super) cpu_pressure: Observed<Duration>,
    pub(super) io_pressure: Observed<Duration>,
    pub(super) memory_pressure: Observed<Duration>,
}

impl End {
    /// Reads one end of the window.
    ///
    /// # Errors
    ///
    /// When the process is gone, or the call reached a limit.
    pub(super) fn read(
        files: &ProcessFiles<'_, '_>,
        levels: &CgroupLevels,
    ) -> Result<Self, AgentError> {
        let context = files.context;
        context.check()?;
        let read_line = || {
            files
                .parsed("stat", Feature::Field, |text| {
                    let stat = pid_stat::parse(text)?;
                    let alive = files.of_a_living_thread(&stat);
                    Ok((Line::of(&stat, context.root), stat.reaped(), alive))
                })
                .map_err(|reason| missing(files.pid, reason))
        };
        let (mut line, reaped, alive) = read_line()?;
        if let Some(alive) = &alive {
            line.state = state(alive).unwrap_or(line.state);
        }
        let own = alive.unwrap_or(*files);
        let has = has_its_own(line.state, line.is_kernel_thread);
        let io = own.io();
        let (threads, threads_listed) = threads::read(files, &io)?;
        Ok(Self {
            via: own.pid,
            threads,
            threads_listed,
            memory: has.clone().and_then(|()| memory(&own)).into(),
            io: io.into(),
            open_files: has.clone().and_then(|()| own.open_files()).into(),
            open_files_limit: has.and_then(|()| own.open_files_limit()).into(),
            cgroup: levels.read(context),
            host: host_stat::read(context.root).into(),
            cpu_pressure: some_waited("cpu", context),
            io_pressure: some_waited("io", context),
            memory_pressure: some_waited("memory", context),
            reaped: [reaped, read_line()?.1],
            line,
        })
    }
}

impl End {
    /// The same without what a difference is formed from: there is no earlier instant.
    pub(super) fn without_counters(mut self, reason: &Reason) -> Self {
        for thread in self.threads.values_mut() {
            thread.forget_counters(reason);
        }
        self.memory = Observed::Unknown(reason.clone());
        self.io = Observed::Unknown(reason.clone());
        self.open_files = Observed::Unknown(reason.clone());
        self.host = Observed::Unknown(reason.clone());
        self.cpu_pressure = Observed::Unknown(reason.clone());
        self.io_pressure = Observed::Unknown(reason.clone());
        self.memory_pressure = Observed::Unknown(reason.clone());
        self.cgroup.forget_counters(reason);
        self
    }
}

fn state(files: &ProcessFiles<'_, '_>) -> Option<State> {
    let state = |text: &[u8]| pid_stat::parse(text).map(|stat| State::from_letter(stat.state));
    files.parsed("stat", Feature::Field, state).ok()
}

fn memory(files: &ProcessFiles<'_, '_>) -> Result<MemoryLines, Reason> {
    files.parsed("status", Feature::Field, pid_status::parse_memory)
}

/// Time since boot for which some task of the host waited for a resource.
fn some_waited(resource: &str, context: &Context<'_>) -> Observed<Duration> {
    pressure::read(context.root, resource).map(|stalled| stalled.some).into()
}

/// Whether the kernel records for how long a process waits for block storage.
///
/// # Errors
///
/// That it is switched off. Kernels before 5.14 have no switch; they recorded it unless booted
/// with `nodelayacct`.
pub(super) fn delay_accounting(context: &Context<'_>) -> Result<(), Reason> {
    let mut text = Vec::new();
    match context.root.read_proc("sys/kernel/task_delayacct", &mut text) {
        Ok(()) if only_number(&text) == Ok(0) => Err(Reason::SwitchedOff(Switch::DelayAccounting)),
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::{FakeMachine, FakeStat};
    use protocol::observed::Nature;

    fn end(machine: &FakeMachine) -> End {
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        End::read(&files, &CgroupLevels::of(&files)).unwrap()
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
