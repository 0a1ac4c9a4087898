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
    message::Engine,
    observed::{Observed, Reason},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A process that did nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resting {
    /// Where it stands among all of them.
    place: usize,
    pid: u32,
    start_ticks: u64,
    state: u8,
    is_kernel_thread: bool,
    pub(super) threads: u32,
    pub(super) resident_pages: u64,
    /// Where its name begins among all names, and how long it is.
    name: u32,
    name_bytes: u8,
}

/// All of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct AtRest {
    /// Each as [`Resting::packed`]: field by field there are a hundred thousand numbers to store.
    #[serde(with = "serde_bytes")]
    rows: Vec<u8>,
    #[serde(with = "serde_bytes")]
    names: Vec<u8>,
    /// Of each, where those rank.
    open_files: Vec<Observed<u64>>,
    window: Duration,
    /// When the later pass began, as time since boot.
    ended_since_boot: Duration,
    /// Whether they would have differed had they run at all, as time is told in nanoseconds.
    is_exact: bool,
}

/// Words of a row, and bytes of a word.
const WORDS: usize = 4;
const WORD: usize = size_of::<u64>();

impl Resting {
    pub(super) fn of(sample: &Sample) -> Self {
        let name = &sample.name;
        Self {
            place: 0,
            pid: sample.pid,
            start_ticks: sample.start_ticks,
            state: sample.state,
            is_kernel_thread: sample.is_kernel_thread,
            threads: sample.threads,
            resident_pages: sample.resident_pages,
            name: name.start,
            name_bytes: u8::try_from(name.end.saturating_sub(name.start)).unwrap_or(u8::MAX),
        }
    }

    fn packed(&self) -> [[u8; WORD]; WORDS] {
        let [n0, n1, n2, n3] = self.name.to_le_bytes();
        [
            (u64::from(self.threads) << 32 | u64::from(self.pid)).to_le_bytes(),
            self.start_ticks.to_le_bytes(),
            self.resident_pages.to_le_bytes(),
            [n0, n1, n2, n3, self.name_bytes, self.state, self.is_kernel_thread.into(), 0],
        ]
    }

    fn unpacked(place: usize, row: &[[u8; WORD]; WORDS]) -> Self {
        let [numbers, start_ticks, resident_pages, rest] = *row;
        let [p0, p1, p2, p3, t0, t1, t2, t3] = numbers;
        let [n0, n1, n2, n3, name_bytes, state, is_kernel_thread, _] = rest;
        Self {
            place,
            pid: u32::from_le_bytes([p0, p1, p2, p3]),
            start_ticks: u64::from_le_bytes(start_ticks),
            state,
            is_kernel_thread: is_kernel_thread != 0,
            threads: u32::from_le_bytes([t0, t1, t2, t3]),
            resident_pages: u64::from_le_bytes(resident_pages),
            name: u32::from_le_bytes([n0, n1, n2, n3]),
            name_bytes,
        }
    }
}

impl AtRest {
    /// Those of the first pass that the later one found the same.
    pub(super) fn between(first: &Scan, last: &Scan, same: &[&Sample]) -> Self {
        let mut rows = Vec::with_capacity(same.len() * WORDS * WORD);
        for sample in same {
            rows.extend_from_slice(Resting::of(sample).packed().as_flattened());
        }
        // Where open files rank, each sample has their number, or why there is none.
        let open_files = same.iter().filter_map(|sample| sample.open_files.clone());
        Self {
            rows,
            names: if same.is_empty() { Vec::new() } else { first.names.clone() },
            open_files: open_files.collect(),
            ..Self::none_between(first, last)
        }
    }

    /// None of them yet.
    pub(super) fn none_between(first: &Scan, last: &Scan) -> Self {
        Self {
            window: last.began.saturating_sub(first.began),
            ended_since_boot: last.began_since_boot,
            is_exact: last.engine == Engine::Ebpf,
            ..Self::default()
        }
    }

    /// How many.
    pub(super) fn len(&self) -> usize {
        self.packed().len()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = Resting> {
        self.packed().iter().enumerate().map(|(place, row)| Resting::unpacked(place, row))
    }

    pub(super) fn row(&self, place: usize) -> Option<Resting> {
        self.packed().get(place).map(|row| Resting::unpacked(place, row))
    }

    fn packed(&self) -> &[[[u8; WORD]; WORDS]] {
        self.rows.as_chunks().0.as_chunks().0
    }

    /// What it counts for in a ranking by `column`, as [`Change::weight`].
    pub(super) fn weight(&self, row: &Resting, column: Column) -> Observed<f64> {
        Observed::Known(match column {
            Column::Rss => row.resident_pages as f64,
            Column::Threads => f64::from(row.threads),
            Column::Youngest => 1.0 / self.age(row).as_secs_f64().max(0.001),
            Column::OpenFiles => {
                let open = self.open_files.get(row.place).cloned();
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

    /// Whether it is known that it did not run. One that is ready to may have waited for a processor
    /// all the time, and of one that ended there is less to know.
    pub(super) fn did_not_run(&self, row: &Resting) -> bool {
        self.is_exact && matches!(row.state, b'S' | b'D' | b'I' | b'T' | b't')
    }

    fn age(&self, row: &Resting) -> Duration {
        self.ended_since_boot.saturating_sub(clock::ticks(row.start_ticks))
    }

    /// The same as what any other process did.
    pub(super) fn change(&self, row: &Resting) -> Change {
        let name = row.name as usize..row.name as usize + usize::from(row.name_bytes);
        Change {
            pid: row.pid,
            via: row.pid,
            start_ticks: row.start_ticks,
            name: HostText::new(self.names.get(name).unwrap_or_default()),
            state: State::from_letter(row.state),
            is_kernel_thread: row.is_kernel_thread,
            born: false,
            did_not_run: self.did_not_run(row),
            window: self.window,
            age: self.age(row),
            user: Duration::ZERO,
            system: Duration::ZERO,
            children: Observed::Known(Duration::ZERO),
            minor_faults: 0,
            major_faults: 0,
            threads: row.threads,
            resident_pages: row.resident_pages,
            open_files: self.open_files.get(row.place).cloned(),
            ranked: None,
            group: Observed::Unknown(Reason::NotStored),
        }
    }

    /// All of them so, and none is left.
    pub(super) fn take(&mut self) -> Vec<Change> {
        let all = std::mem::take(self);
        all.rows().map(|row| all.change(&row)).collect()
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
        let Some(row) = at_rest.row(0) else { panic!("one rests") };
        let change = at_rest.change(&row);
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
            assert_eq!(at_rest.weight(&row, column), change.weight(column), "{column:?}");
        }
        // Who could not be ranked is counted, at rest or not.
        let changes = Changes::between(&first, &last, None);
        let weights = changes.weights(Column::OpenFiles);
        assert_eq!(weights.last(), Some(Observed::Unknown(Reason::Gone)));
        let bytes = postcard::to_stdvec(&at_rest).unwrap();
        let mut read: AtRest = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(read.take().len(), 1);
        assert_eq!(read.len(), 0);
    }
}
