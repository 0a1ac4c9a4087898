//! What one process did between two passes.

use super::{
    counters::{Basis, Key, Span},
    open_files,
    scan::{Sample, Scan},
};
use crate::{instruments::thread_accounts::tick_of, os::clock};
use protocol::{
    host_text::HostText,
    instruments::process_list::{Column, State},
    observed::{Observed, Reason},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

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
    /// Whether it is known that no thread of it ran, so that all that takes running is nothing.
    pub(super) did_not_run: bool,
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
    /// Open files, where those rank.
    pub(super) open_files: Option<Observed<u64>>,
    /// Growth of the counter behind the column to rank by, where that has a file of its own.
    pub(super) ranked: Option<Observed<u64>>,
    /// Its group, where rows are groups.
    pub(super) group: Observed<HostText>,
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
            Column::OpenFiles => {
                let open = self.open_files.clone();
                return open_files::weight(open.unwrap_or(Observed::Unknown(Reason::NotStored)));
            }
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

/// Compares what two passes saw of a process; without an earlier sample it was born in between.
pub(super) fn change(
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
        did_not_run: false,
        window,
        age,
        user: clock::ticks(grown(|sample| sample.user_ticks)),
        system: clock::ticks(grown(|sample| sample.system_ticks)),
        children: Observed::Known(clock::ticks(grown(|sample| sample.children_ticks))),
        minor_faults: grown(|sample| sample.minor_faults),
        major_faults: grown(|sample| sample.major_faults),
        threads: sample.threads,
        resident_pages: sample.resident_pages,
        open_files: sample.open_files.clone(),
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
