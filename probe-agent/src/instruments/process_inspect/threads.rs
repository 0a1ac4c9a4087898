//! The threads at one end of the window.

use crate::{
    instruments::{
        identity::missing,
        process_files::{ProcessFiles, io_of_each},
        thread_accounts::ThreadId,
    },
    proc::{
        pid_io::PidIo,
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
    pub(super) at: Duration,
    pub(super) name: HostText,
    pub(super) state: State,
    pub(super) schedstat: Observed<SchedStat>,
    /// In clock ticks.
    pub(super) block_delay: Observed<u64>,
    pub(super) switches: Observed<SwitchLines>,
    pub(super) io: Observed<PidIo>,
}

impl Thread {
    /// Forgets what a difference is formed from.
    pub(super) fn forget_counters(&mut self, reason: &Reason) {
        self.schedstat = Observed::Unknown(reason.clone());
        self.block_delay = Observed::Unknown(reason.clone());
        self.switches = Observed::Unknown(reason.clone());
        self.io = Observed::Unknown(reason.clone());
    }

    /// Time on a processor or waiting for one since it started, in nanoseconds.
    pub(super) fn demand_ns(&self) -> u64 {
        self.schedstat.known().map_or(0, SchedStat::demand_ns)
    }
}

/// All threads of the process.
pub(super) type Threads = BTreeMap<ThreadId, Thread>;

/// Reads all threads. A thread that ends meanwhile is left out, as if it had ended before. Without
/// a list of threads there is none, and why that is so.
///
/// `io_of_process` is what came of the process's own input and output: the kernel takes the same
/// lock for that of each thread.
///
/// # Errors
///
/// When the process is gone, or the call reached a limit.
pub(super) fn read(
    files: &ProcessFiles<'_, '_>,
    io_of_process: &Result<PidIo, Reason>,
) -> Result<(Threads, Result<(), Reason>), AgentError> {
    const CHECK_EVERY: usize = 256;
    let tids = match files.thread_ids() {
        Ok(tids) => tids,
        Err(reason @ Reason::Gone) => return Err(missing(files.pid, reason)),
        Err(reason) => return Ok((Threads::new(), Err(reason))),
    };
    // The costlier files: one of 1.4 KB and a small one for each thread, twice.
    let (count, limit) = (tids.len() as u64, MOST_THREADS);
    let costly = if count > limit { Err(Reason::TooCostly { count, limit }) } else { Ok(()) };
    let hangs = match io_of_process {
        Err(reason @ Reason::DidNotReturn { .. }) => Err(reason.clone()),
        Ok(_) | Err(_) => Ok(()),
    };
    let io = costly.clone().and(hangs);
    let mut threads = Threads::new();
    for (index, tid) in tids.into_iter().enumerate() {
        if index % CHECK_EVERY == 0 {
            files.context.check()?;
        }
        if let Ok((id, thread)) = read_thread(files, tid, &costly, &io) {
            threads.insert(id, thread);
        }
    }
    if io.is_ok() {
        read_io(files, &mut threads);
    }
    Ok((threads, Ok(())))
}

/// # Errors
///
/// When it has ended.
fn read_thread(
    files: &ProcessFiles<'_, '_>,
    tid: u32,
    costly: &Result<(), Reason>,
    io: &Result<(), Reason>,
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
    let at = files.context.root.monotonic();
    let switches = costly.clone().and_then(|()| {
        let path = format!("{folder}/status");
        files.parsed(&path, Feature::Field, pid_status::parse_switches)
    });
    if [schedstat.as_ref().err(), switches.as_ref().err()].contains(&Some(&Reason::Gone)) {
        return Err(Reason::Gone);
    }
    let thread = Thread {
        at,
        name,
        state,
        schedstat: schedstat.into(),
        block_delay: block_delay.into(),
        switches: switches.into(),
        io: io.clone().map(|()| PidIo::default()).into(),
    };
    Ok((id, thread))
}

/// Reads the input and output of every thread; one that has ended meanwhile is left out.
fn read_io(files: &ProcessFiles<'_, '_>, threads: &mut Threads) {
    let path = |id: &ThreadId| format!("{}/task/{}/io", files.pid, id.tid);
    let read = io_of_each(threads.keys().map(path).collect(), files.context);
    for (thread, io) in threads.values_mut().zip(read) {
        thread.io = io.into();
    }
    threads.retain(|_, thread| thread.io != Observed::Unknown(Reason::Gone));
}
