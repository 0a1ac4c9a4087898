//! Waits for a processor and off it where nothing may be traced: the kernel's account of each thread,
//! at both ends of the window. It has sums, and nothing of each wait.

use super::{names::Names, rows::Maker};
use crate::{
    call::Context,
    instruments::sampling::Subject,
    order,
    os::clock,
    proc::{
        pid_stat,
        schedstat::{self, SchedStat},
    },
    stack::looks,
};
use protocol::{
    error::AgentError,
    instruments::latency::{Mechanism, OffCpu, Queued, Ran, RunQueue, Sleeper, Waits},
    observed::{Feature, Observed, Reason},
    units::Percent,
};
use std::{cmp::Reverse, collections::BTreeMap, time::Duration};

/// Processor time of a process, with when it started.
type Used = BTreeMap<(u32, u64), u64>;

/// The accounts at one instant.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    at: Duration,
    /// By process and thread.
    threads: BTreeMap<(u32, u32), SchedStat>,
    /// In clock ticks, of the whole host.
    used: Used,
    /// Why a thread could not be read.
    refused: Option<Reason>,
}

impl Accounts {
    /// Reads them.
    ///
    /// # Errors
    ///
    /// When the call reached a limit.
    pub(super) fn read(subject: &Subject, context: &Context<'_>) -> Result<Self, AgentError> {
        let mut accounts = Self { at: context.root.monotonic(), ..Self::default() };
        let mut room = [0; 256];
        for (index, (pid, tid)) in
            looks::threads_of(context.root, &subject.sampled).into_iter().enumerate()
        {
            if index % 64 == 0 {
                context.check()?;
            }
            let path = format!("{pid}/task/{tid}/schedstat");
            match context.root.read_proc_once(&path, &mut room) {
                Ok(text) => {
                    if let Ok(account) = schedstat::parse(text) {
                        accounts.threads.insert((pid, tid), account);
                    }
                }
                Err(error) if error.is_gone() && !context.root.holds("proc/self/schedstat") => {
                    accounts.refused = Some(Reason::KernelLacks(Feature::SchedulerStatistics));
                    break;
                }
                // It ended meanwhile.
                Err(error) if error.is_gone() => {}
                Err(error) => {
                    accounts.refused = Some(error.reason_of_file(Feature::SchedulerStatistics));
                }
            }
        }
        accounts.used = used(context)?;
        Ok(accounts)
    }

    /// What was used since an earlier instant, by process, or why nothing is known of it. A thread that
    /// was not there then is new, and all that it has is of the window.
    fn since(&self, before: &Self) -> Result<BTreeMap<u32, Thread>, Reason> {
        let mut processes: BTreeMap<u32, Thread> = BTreeMap::new();
        for (id, now) in &self.threads {
            let earlier = before.threads.get(id).copied().unwrap_or_default();
            // One that started a program goes on under another thread's number.
            let Some(used) = now.since(&earlier) else { continue };
            let lived = before.threads.contains_key(id).then(|| self.at.saturating_sub(before.at));
            let process = processes.entry(id.0).or_default();
            process.used.add(&used);
            let slept = lived.map_or(0, |lived| nanos(lived).saturating_sub(used.demand_ns()));
            process.slept_ns = process.slept_ns.saturating_add(slept);
        }
        let is_kept = self.threads.values().any(|account| account.switches > 0);
        match (&self.refused, processes.is_empty()) {
            (Some(reason), true) => Err(reason.clone()),
            // Before Linux 5.14 without CONFIG_SCHEDSTATS the file is there, full of zeros.
            (_, false) if !is_kept => Err(Reason::KernelLacks(Feature::SchedulerStatistics)),
            (None, true) => Err(Reason::Gone),
            (_, false) => Ok(processes),
        }
    }

    /// Waits for a processor.
    pub(super) fn run_queue(
        &self,
        before: &Self,
        maker: &mut Maker<'_>,
    ) -> Result<RunQueue, Reason> {
        let ran = self.ran(before, maker.names);
        let processes = self.since(before)?;
        let mut all = SchedStat::default();
        processes.values().for_each(|process| all.add(&process.used));
        let rows = processes.into_iter().filter(|(_, process)| process.used.run_delay_ns > 0);
        let rows = maker.top(rows.collect(), |(_, process)| process.used.run_delay_ns);
        Ok(RunQueue {
            measured_by: Mechanism::ThreadAccounts,
            all: waited(&all),
            open: Observed::Unknown(Reason::NotByEngine),
            processes: rows
                .into_iter()
                .map(|(pid, process)| Queued {
                    pid,
                    name: maker.names.now(pid),
                    waits: waited(&process.used),
                    open: Observed::Unknown(Reason::NotByEngine),
                })
                .collect(),
            ran,
        })
    }

    /// Waits off the processor: only how long together. Which of it was by choice nobody can tell.
    pub(super) fn off_cpu(&self, before: &Self, maker: &Maker<'_>) -> Result<OffCpu, Reason> {
        let unknown = || Observed::Unknown(Reason::NotByEngine);
        let processes = self.since(before)?;
        let slept = processes.values().map(|process| process.slept_ns).sum();
        let asleep = |ns| Waits::sums(unknown(), Observed::Known(ns));
        // Of several, a rank by sleep would put first whoever has least to do.
        let only = if processes.len() == 1 { processes } else { BTreeMap::new() };
        Ok(OffCpu {
            measured_by: Mechanism::ThreadAccounts,
            uninterruptible: Waits::unknown(&Reason::NotByEngine),
            open: Observed::Unknown(Reason::NotByEngine),
            asleep: asleep(slept),
            processes: only
                .into_iter()
                .map(|(pid, process)| Sleeper {
                    pid,
                    name: maker.names.now(pid),
                    uninterruptible: Waits::unknown(&Reason::NotByEngine),
                    open: Observed::Unknown(Reason::NotByEngine),
                    asleep: asleep(process.slept_ns),
                })
                .collect(),
        })
    }

    /// Who had the processors.
    fn ran(&self, before: &Self, names: &Names<'_>) -> Vec<Ran> {
        let grown = |(id, now): (&(u32, u64), &u64)| {
            (id.0, now.saturating_sub(before.used.get(id).copied().unwrap_or(0)))
        };
        let mut all: Vec<(u32, u64)> = self.used.iter().map(grown).collect();
        order::by_key(&mut all, |(_, ticks)| Reverse(*ticks));
        let window = self.at.saturating_sub(before.at);
        all.into_iter()
            .take(super::rows::MOST_RAN)
            .filter(|(_, ticks)| *ticks > 0)
            .map(|(pid, ticks)| Ran {
                pid,
                name: names.now(pid),
                cpu_pct: Percent::of_time(clock::ticks(ticks), window).unwrap_or_default(),
            })
            .collect()
    }
}

/// What the threads of a process used, and how long they did neither run nor want to.
#[derive(Clone, Copy, Debug, Default)]
struct Thread {
    used: SchedStat,
    slept_ns: u64,
}

fn waited(used: &SchedStat) -> Waits {
    Waits::sums(Observed::Known(used.switches), Observed::Known(used.run_delay_ns))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Processor time of every process but the agent.
fn used(context: &Context<'_>) -> Result<Used, AgentError> {
    let (mut pids, mut room, mut used) = (Vec::new(), [0; 2048], Used::new());
    // What cannot be listed has no row.
    let _ = context.root.list_ids(".", &mut pids);
    for (index, pid) in pids.into_iter().filter(|pid| *pid != std::process::id()).enumerate() {
        if index % 64 == 0 {
            context.check()?;
        }
        let Ok(text) = context.root.read_proc_once(&format!("{pid}/stat"), &mut room) else {
            continue;
        };
        if let Ok(stat) = pid_stat::parse(text) {
            let ticks = stat.user_ticks.saturating_add(stat.system_ticks);
            used.insert((pid, stat.start_ticks), ticks);
        }
    }
    Ok(used)
}
