//! The counters that cost a file of their own: run delay, storage, context switches.

use crate::{call::Context, instruments::process_files::ProcessFiles, os::clock};
use protocol::{instruments::process_list::Column, observed::Observed};
use std::time::Duration;

/// Whether ranking by a column reads a file of its own for every process.
pub(super) const fn needs_own_file(column: Column) -> bool {
    match column {
        Column::RunDelay | Column::Read | Column::Write | Column::Switches => true,
        Column::Cpu
        | Column::User
        | Column::System
        | Column::ChildrenCpu
        | Column::Rss
        | Column::Threads
        | Column::MinorFaults
        | Column::MajorFaults
        | Column::Youngest => false,
    }
}

/// Threads of one process that are read for a row; two files each, twice.
const ROW_THREADS: u32 = 128;

/// Threads of one process that are read when every process is ranked by their sum.
const RANKED_THREADS: u32 = 8192;

/// Reads the counter behind a column; `None` for a column that has none.
pub(super) fn ranked(
    column: Column,
    pid: u32,
    threads: u32,
    context: &Context<'_>,
) -> Option<Observed<u64>> {
    let files = ProcessFiles { pid, context };
    let counter = match column {
        Column::RunDelay => files.schedstat(threads, RANKED_THREADS).map(|stat| stat.run_delay_ns),
        Column::Read => files.io().map(|io| io.storage_read_bytes),
        Column::Write => files.io().map(|io| io.storage_write_bytes),
        Column::Switches => files.switches(threads, RANKED_THREADS).map(|lines| lines.all()),
        Column::Cpu
        | Column::User
        | Column::System
        | Column::ChildrenCpu
        | Column::Rss
        | Column::Threads
        | Column::MinorFaults
        | Column::MajorFaults
        | Column::Youngest => return None,
    };
    Some(counter.into())
}

/// All such counters of one process at one instant.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    pub(super) run_delay_ns: Observed<u64>,
    pub(super) read_bytes: Observed<u64>,
    pub(super) write_bytes: Observed<u64>,
    pub(super) voluntary: Observed<u64>,
    pub(super) involuntary: Observed<u64>,
    pub(super) at: Duration,
}

impl Counters {
    /// Those of a process that was born in the window, at its beginning: it had done nothing.
    pub(super) const fn at_birth(at: Duration) -> Self {
        Self {
            run_delay_ns: Observed::Known(0),
            read_bytes: Observed::Known(0),
            write_bytes: Observed::Known(0),
            voluntary: Observed::Known(0),
            involuntary: Observed::Known(0),
            at,
        }
    }

    /// Reads them now.
    pub(super) fn read(pid: u32, threads: u32, context: &Context<'_>) -> Self {
        let files = ProcessFiles { pid, context };
        let io = Observed::from(files.io());
        let switches = Observed::from(files.switches(threads, ROW_THREADS));
        let schedstat = Observed::from(files.schedstat(threads, ROW_THREADS));
        Self {
            run_delay_ns: schedstat.map(|stat| stat.run_delay_ns),
            read_bytes: io.clone().map(|io| io.storage_read_bytes),
            write_bytes: io.map(|io| io.storage_write_bytes),
            voluntary: switches.clone().map(|lines| lines.voluntary),
            involuntary: switches.map(|lines| lines.involuntary),
            at: clock::monotonic(),
        }
    }
}
