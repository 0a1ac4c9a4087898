//! Processes that did nothing between two passes: most, on a large host. What they are is known from the
//! first pass, and takes no more room than that until one is shown.

use super::{
    change::Change,
    open_files,
    scan::{Sample, Scan},
};
use crate::os::clock;
use protocol::{
    host_text::HostText,
    instruments::process_list::{Column, State},
    observed::{Observed, Reason},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A process that did nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Resting {
    pid: u32,
    start_ticks: u64,
    state: u8,
    is_kernel_thread: bool,
    pub(super) threads: u32,
    pub(super) resident_pages: u64,
    /// Where its name stands among all.
    name: (u32, u32),
    /// Open files, where those rank.
    open_files: Option<Box<Observed<u64>>>,
}

/// All of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct AtRest {
    rows: Vec<Resting>,
    #[serde(with = "serde_bytes")]
    names: Vec<u8>,
    window: Duration,
    /// When the later pass began, as time since boot.
    ended_since_boot: Duration,
}

impl AtRest {
    /// Those of the first pass that the later one found the same.
    pub(super) fn between(first: &Scan, last: &Scan, same: &[&Sample]) -> Self {
        let row = |sample: &&Sample| Resting {
            pid: sample.pid,
            start_ticks: sample.start_ticks,
            state: sample.state,
            is_kernel_thread: sample.is_kernel_thread,
            threads: sample.threads,
            resident_pages: sample.resident_pages,
            name: (sample.name.start, sample.name.end),
            open_files: sample.open_files.clone().map(Box::new),
        };
        Self {
            names: if same.is_empty() { Vec::new() } else { first.names.clone() },
            rows: same.iter().map(row).collect(),
            window: last.began.saturating_sub(first.began),
            ended_since_boot: last.began_since_boot,
        }
    }

    pub(super) fn rows(&self) -> &[Resting] {
        &self.rows
    }

    /// What it counts for in a ranking by `column`, as [`Change::weight`].
    pub(super) fn weight(&self, row: &Resting, column: Column) -> Observed<f64> {
        Observed::Known(match column {
            Column::Rss => row.resident_pages as f64,
            Column::Threads => f64::from(row.threads),
            Column::Youngest => 1.0 / self.age(row).as_secs_f64().max(0.001),
            Column::OpenFiles => {
                let open = row.open_files.as_deref().cloned();
                return open_files::weight(open.unwrap_or(Observed::Unknown(Reason::NotStored)));
            }
            Column::RunDelay | Column::Read | Column::Write | Column::Switches => {
                return Observed::Unknown(Reason::NotStored);
            }
            Column::Cpu
            | Column::User
            | Column::System
            | Column::ChildrenCpu
            | Column::MinorFaults
            | Column::MajorFaults => 0.0,
        })
    }

    fn age(&self, row: &Resting) -> Duration {
        self.ended_since_boot.saturating_sub(clock::ticks(row.start_ticks))
    }

    /// The same as what any other process did.
    pub(super) fn change(&self, row: &Resting) -> Change {
        let name = row.name.0 as usize..row.name.1 as usize;
        Change {
            pid: row.pid,
            via: row.pid,
            start_ticks: row.start_ticks,
            name: HostText::new(self.names.get(name).unwrap_or_default()),
            state: State::from_letter(row.state),
            is_kernel_thread: row.is_kernel_thread,
            born: false,
            window: self.window,
            age: self.age(row),
            user: Duration::ZERO,
            system: Duration::ZERO,
            children: Observed::Known(Duration::ZERO),
            minor_faults: 0,
            major_faults: 0,
            threads: row.threads,
            resident_pages: row.resident_pages,
            open_files: row.open_files.as_deref().cloned(),
            ranked: None,
            group: Observed::Unknown(Reason::NotStored),
        }
    }

    /// All of them so, and none is left.
    pub(super) fn take(&mut self) -> Vec<Change> {
        let all = std::mem::take(self);
        all.rows.iter().map(|row| all.change(row)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::changes::Changes, *};

    #[test]
    fn who_rests_weighs_what_the_same_process_would_and_is_no_other() {
        let at = Duration::from_secs;
        let idle = |pid| Sample { resident_pages: u64::from(pid), ..Sample::idle(pid, 100, at(1)) };
        let mut first = Scan::of(vec![idle(5), idle(7), idle(9)], at(1), at(101));
        first.names = b"quiet".to_vec();
        first.samples[1].name = 0..5;
        first.samples[1].open_files = Some(Observed::Unknown(Reason::Gone));
        let mut last = Scan::of(vec![idle(9)], at(2), at(102));
        last.same = vec![7];
        let at_rest = AtRest::between(&first, &last, &first.apart(&last).0);
        let [row] = at_rest.rows() else { panic!("one rests") };
        let change = at_rest.change(row);
        assert_eq!((change.pid, change.name.as_str(), change.age), (7, "quiet", at(101)));
        let columns = [
            Column::Cpu,
            Column::User,
            Column::System,
            Column::ChildrenCpu,
            Column::Rss,
            Column::Threads,
            Column::OpenFiles,
            Column::MinorFaults,
            Column::MajorFaults,
            Column::Youngest,
            Column::Read,
        ];
        for column in columns {
            assert_eq!(at_rest.weight(row, column), change.weight(column), "{column:?}");
        }
        // Who could not be ranked is counted, at rest or not.
        let weights = Changes::between(&first, &last, None).weights(Column::OpenFiles);
        assert_eq!(weights.last(), Some(&Observed::Unknown(Reason::Gone)));
        let bytes = postcard::to_stdvec(&at_rest).unwrap();
        let mut read: AtRest = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(read.take().len(), 1);
        assert!(read.rows().is_empty());
    }
}
