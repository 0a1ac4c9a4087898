//! Tasks that wait deaf to signals, and what in.
//!
//! The load average counts them, and nothing else does: a machine with an idle processor and a load
//! of forty has forty of them.

use crate::{
    call::Context,
    instruments::{hidden, process_files::ProcessFiles},
    order,
    proc::pid_stat,
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::{
        host_snapshot::{Blocked, BlockedGroup},
        process_list::State,
    },
    observed::{Feature, Reason},
};
use std::collections::BTreeMap;

/// Tasks that are looked at; each costs one small file.
const MOST_TASKS: u32 = 20_000;

/// Room for one line of a task's `stat`.
const LINE_BYTES: usize = 1024;

/// Tasks between two looks at the call's limits.
const CHECK_EVERY: u32 = 256;

/// A process, as far as it matters here.
struct Process {
    pid: u32,
    name: HostText,
    threads: u32,
    is_blocked: bool,
    is_of_the_agent: bool,
    is_kernel_thread: bool,
}

struct Look<'c, 's> {
    context: &'c Context<'s>,
    looked_at: u32,
    not_looked_at: u32,
    /// Threads of the processes that are seen.
    seen_threads: u64,
    shows_kernel: bool,
    /// By where they wait: each process's tasks.
    found: BTreeMap<Place, BTreeMap<u32, (HostText, u32)>>,
}

/// Where a task waits, or why that is not known.
type Place = Result<HostText, Reason>;

/// Looks at every task once. All groups are given; the caller cuts.
///
/// # Errors
///
/// When the call reached a limit.
pub(super) fn look(context: &Context<'_>) -> Result<Blocked, AgentError> {
    let mut look = Look {
        context,
        looked_at: 0,
        not_looked_at: 0,
        seen_threads: 0,
        shows_kernel: false,
        found: BTreeMap::new(),
    };
    let mut pids = Vec::new();
    // Without the list there is nothing to be found; `process_list` says why.
    let _ = context.root.list_ids(".", &mut pids);
    let shows_first = pids.contains(&1);
    let is_empty = pids.is_empty() && context.root.is_snapshot();
    for pid in pids {
        look.process(pid)?;
    }
    look.count_hidden(shows_first);
    let mut groups: Vec<BlockedGroup> =
        look.found.iter().filter_map(|(place, processes)| group(place, processes)).collect();
    order::by_key(&mut groups, |group| std::cmp::Reverse(group.tasks));
    let tasks = groups.iter().map(|group| group.tasks).sum();
    // There is no machine without a process.
    let tasks = if is_empty { Err(Reason::NotInSnapshot) } else { Ok(tasks) }.into();
    Ok(Blocked { tasks, not_looked_at: look.not_looked_at, groups })
}

fn group(place: &Place, processes: &BTreeMap<u32, (HostText, u32)>) -> Option<BlockedGroup> {
    let (pid, (name, _)) = processes.iter().max_by_key(|(_, (_, tasks))| *tasks)?;
    let tasks = processes.values().map(|(_, tasks)| tasks).sum();
    Some(BlockedGroup { channel: place.clone().into(), tasks, pid: *pid, name: name.clone() })
}

impl Look<'_, '_> {
    fn process(&mut self, pid: u32) -> Result<(), AgentError> {
        let Some(process) = self.read(&format!("{pid}"), pid)? else { return Ok(()) };
        self.seen_threads = self.seen_threads.saturating_add(process.threads.into());
        self.shows_kernel |= process.is_kernel_thread;
        // What the agent asks of a file system that does not answer hangs, too; `mounts` has that.
        if self.context.root.live_top().is_some() && process.is_of_the_agent {
            return Ok(());
        }
        if process.threads <= 1 {
            if process.is_blocked {
                self.add(&process, pid);
            }
            return Ok(());
        }
        let files = ProcessFiles { pid, context: self.context };
        for tid in files.thread_ids().unwrap_or_default() {
            let thread = self.read(&format!("{pid}/task/{tid}"), pid)?;
            if thread.is_some_and(|thread| thread.is_blocked) {
                self.add(&process, tid);
            }
        }
        Ok(())
    }

    /// Counts the tasks that the machine has and `/proc` does not show.
    fn count_hidden(&mut self, shows_first: bool) {
        if hidden::hidden_by(shows_first, self.shows_kernel, self.context).is_empty() {
            return;
        }
        let all = hidden::host_threads(self.context).known().copied().unwrap_or_default();
        let hidden = all.saturating_sub(self.seen_threads);
        let hidden = u32::try_from(hidden).unwrap_or(u32::MAX);
        self.not_looked_at = self.not_looked_at.saturating_add(hidden);
    }

    /// One task's line; `None` when it has ended, or when there are too many.
    fn read(&mut self, folder: &str, pid: u32) -> Result<Option<Process>, AgentError> {
        if self.looked_at >= MOST_TASKS {
            self.not_looked_at = self.not_looked_at.saturating_add(1);
            return Ok(None);
        }
        if self.looked_at.is_multiple_of(CHECK_EVERY) {
            self.context.check()?;
        }
        self.looked_at += 1;
        let mut room = [0; LINE_BYTES];
        let Ok(line) = self.context.root.read_proc_once(&format!("{folder}/stat"), &mut room)
        else {
            return Ok(None);
        };
        let Ok(stat) = pid_stat::parse(line) else { return Ok(None) };
        Ok(Some(Process {
            pid,
            name: HostText::new(stat.name),
            threads: stat.threads,
            is_kernel_thread: stat.is_kernel_thread(),
            is_of_the_agent: [pid, stat.parent_pid].contains(&std::process::id()),
            is_blocked: State::from_letter(stat.state) == State::UninterruptibleSleep,
        }))
    }

    fn add(&mut self, process: &Process, tid: u32) {
        let files = ProcessFiles { pid: process.pid, context: self.context };
        let file = |name, feature| files.whole(&format!("task/{tid}/{name}"), feature);
        let place = match file("wchan", Feature::WaitChannel) {
            // What the kernel shows for a task that has gone on meanwhile, and to a reader without
            // permission, whom another file refuses.
            Ok(text) if text == b"0" => match file("syscall", Feature::SyscallFile) {
                Err(reason @ Reason::NotPermitted(_)) => Err(reason),
                Ok(_) | Err(_) => Ok(HostText::new(b"-")),
            },
            Ok(text) => Ok(HostText::new(&text)),
            Err(Reason::Gone) => return,
            Err(reason) => Err(reason),
        };
        let tasks = self.found.entry(place).or_default().entry(process.pid);
        tasks.or_insert_with(|| (process.name.clone(), 0)).1 += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::{FakeMachine, FakeStat};
    use protocol::observed::Observed;

    #[test]
    fn tasks_that_are_hidden_are_not_taken_for_tasks_that_do_not_hang() {
        let machine = FakeMachine::new();
        machine.write("loadavg", "9.00 9.00 9.00 1/80 11206\n");
        machine.stat("7", FakeStat { threads: 3, ..FakeStat::idle(7, 1) });
        let not_looked_at = || look(&machine.context()).unwrap().not_looked_at;
        assert_eq!(not_looked_at(), 0);
        let mount = "22 1 0:5 / /proc rw - proc proc rw,hidepid=invisible\n";
        machine.write("self/mountinfo", mount);
        assert_eq!(not_looked_at(), 77);
        // Who sees the first process sees all.
        machine.stat("1", FakeStat::idle(1, 1));
        assert_eq!(not_looked_at(), 0);
    }

    #[test]
    fn blocked_tasks_are_grouped_by_what_they_wait_in() {
        let machine = FakeMachine::new();
        let blocked = |pid| FakeStat { state: 'D', ..FakeStat::idle(pid, 1) };
        machine.stat("5", FakeStat::idle(5, 1));
        for pid in [6, 7] {
            machine.stat(&pid.to_string(), blocked(pid));
            machine.write(&format!("{pid}/task/{pid}/wchan"), "rpc_wait_bit_killable");
        }
        // A process with three threads, of which two are blocked, its first one not.
        machine.stat("8", FakeStat { threads: 3, ..FakeStat::idle(8, 1) });
        machine.stat("8/task/8", FakeStat::idle(8, 1));
        for tid in [9, 10] {
            machine.stat(&format!("8/task/{tid}"), blocked(tid));
            machine.write(&format!("8/task/{tid}/wchan"), "rpc_wait_bit_killable");
        }
        // On a kernel without the file.
        machine.stat("11", blocked(11));
        machine.stat("11/task/11", blocked(11));
        let found = look(&machine.context()).unwrap();
        assert_eq!(found.tasks, Observed::Known(5));
        assert_eq!((found.not_looked_at, found.groups.len()), (0, 2));
        let group = &found.groups[0];
        assert_eq!((group.tasks, group.pid), (4, 8), "most of them are threads of 8");
        assert_eq!(group.channel, Observed::Known(HostText::new(b"rpc_wait_bit_killable")));
        let lacks = Reason::KernelLacks(Feature::WaitChannel);
        assert_eq!(found.groups[1].channel, Observed::Unknown(lacks));
    }
}
