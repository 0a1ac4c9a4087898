//! Lines of processes that are read again: their files stay open within a call.
//!
//! The kernel makes a line anew for each read from its start, for a third of what opening it costs too;
//! and one that says the same as before, as that of a process that sleeps, is not parsed again. A file
//! that stays open is of one process: once that has ended, nobody else's line is read from it.

use super::scan::Sample;
use crate::{
    call::Context,
    proc::{KeptFile, Root, loadavg},
};
use rustix::io::Errno;
use std::{
    collections::{HashMap, hash_map::Entry},
    ops::Range,
};

/// Files that stay open, and what they said.
#[derive(Debug, Default)]
pub(super) struct KeptLines {
    by_pid: HashMap<u32, Kept>,
    /// The number that the kernel gave last when all were listed.
    last_pid: Option<u32>,
}

#[derive(Debug)]
struct Kept {
    file: KeptFile,
    line: Box<[u8]>,
    /// What the line says, and where the name stands in it.
    known: Option<(Sample, Range<usize>)>,
}

/// What a read of a line brought.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one at a time; a box would be an allocation for each process"
)]
pub(super) enum Line {
    /// It says what it said, so this is known of it, as of then.
    Same(Sample),
    /// So many bytes, that say something else than before, or nothing was known.
    New(usize),
    /// The process whose file was open has ended.
    Ended,
    /// It has no file that is open.
    NotKept,
}

impl KeptLines {
    /// Reads the line of a process whose file is open, or can stay so. The name of one that is known
    /// goes to the end of `names`.
    pub(super) fn read(
        &mut self,
        (pid, path): (u32, &str),
        buffer: &mut [u8],
        names: &mut Vec<u8>,
        root: &Root,
    ) -> Line {
        // Other folders' files may be replaced while they are open.
        if root.live_top().is_none() {
            return Line::NotKept;
        }
        let kept = match self.by_pid.entry(pid) {
            Entry::Occupied(kept) => kept.into_mut(),
            Entry::Vacant(place) => {
                let Ok(file) = root.keep_proc(path) else { return Line::NotKept };
                place.insert(Kept { file, line: Box::default(), known: None })
            }
        };
        let Ok(line) = kept.file.read(buffer) else {
            self.by_pid.remove(&pid);
            return Line::Ended;
        };
        if let Some((sample, place)) = &kept.known
            && *line == *kept.line
        {
            let mut sample = sample.clone();
            let end = |names: &Vec<u8>| u32::try_from(names.len()).unwrap_or(u32::MAX);
            let start = end(names);
            names.extend_from_slice(line.get(place.clone()).unwrap_or_default());
            sample.name = start..end(names);
            return Line::Same(sample);
        }
        (kept.line, kept.known) = (line.into(), None);
        Line::New(line.len())
    }

    /// What a line that was read says.
    pub(super) fn remember(&mut self, sample: &Sample) {
        let Some(kept) = self.by_pid.get_mut(&sample.pid) else { return };
        let open = kept.line.iter().position(|byte| *byte == b'(');
        let close = kept.line.iter().rposition(|byte| *byte == b')');
        if let (Some(open), Some(close)) = (open, close) {
            kept.known = Some((sample.clone(), open + 1..close));
        }
    }

    /// Processes that are there now, without listing all again where no number was given away since;
    /// `None` where they are to be listed. With `are_new_ones_needed` false, only those known.
    pub(super) fn pids(
        &self,
        are_new_ones_needed: bool,
        context: &Context<'_>,
    ) -> Option<Vec<u32>> {
        let last = self.last_pid?;
        if are_new_ones_needed && last_pid(context.root) != Ok(last) {
            return None;
        }
        let mut pids: Vec<u32> = self.by_pid.keys().copied().collect();
        crate::order::ascending(&mut pids);
        Some(pids)
    }

    /// How many files stay open.
    pub(super) fn files(&self) -> u64 {
        u64::try_from(self.by_pid.len()).unwrap_or(u64::MAX)
    }

    /// To be called before all are listed: whoever is born afterwards has a later number.
    pub(super) fn before_listing(&mut self, root: &Root) {
        self.last_pid = last_pid(root).ok();
    }

    /// To be called after all listed ones were read: where a file could not stay open, the list is
    /// needed each time.
    pub(super) fn after_listing(&mut self, listed: usize) {
        if self.by_pid.len() < listed {
            self.last_pid = None;
        }
    }
}

/// The number that the kernel gave away last.
fn last_pid(root: &Root) -> Result<u32, Errno> {
    let mut text = Vec::new();
    root.read_proc("loadavg", &mut text).map_err(|error| error.errno)?;
    loadavg::parse_last_pid(&text).map_err(|_| Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::{fake::FakeMachine, process_list::scan::Scanner};
    use protocol::instruments::process_list::Column;

    #[test]
    fn a_line_is_read_again_as_it_is_and_an_ended_process_is_not_taken_for_another() {
        let root = Root::live().unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let (pid, mut kept) = (child.id(), KeptLines::default());
        let (path, mut buffer, mut names) = (format!("{pid}/stat"), vec![0; 2048], Vec::new());
        let mut read =
            |kept: &mut KeptLines| kept.read((pid, &path), &mut buffer, &mut names, &root);
        assert!(matches!(read(&mut kept), Line::New(_)));
        // Nothing is known of it yet.
        assert!(matches!(read(&mut kept), Line::New(_)));
        kept.remember(&Sample::idle(pid, 1, std::time::Duration::ZERO));
        // It may still have been starting.
        let same = (0..100).any(|_| match read(&mut kept) {
            Line::Same(sample) => sample.pid == pid,
            Line::New(_) | Line::Ended | Line::NotKept => {
                kept.remember(&Sample::idle(pid, 1, std::time::Duration::ZERO));
                std::thread::sleep(std::time::Duration::from_millis(20));
                false
            }
        });
        assert!(same);
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(matches!(read(&mut kept), Line::Ended));
        assert!(matches!(read(&mut kept), Line::NotKept));
        assert_eq!(names, b"sleep");
    }

    #[test]
    fn passes_one_after_another_see_who_came_and_who_went() {
        let root = Root::live().unwrap();
        let machine = FakeMachine::new();
        let fake = machine.context();
        let context = fake.over(&root);
        let mut scanner = Scanner::new(Column::Cpu);
        let mut old = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let first = scanner.pass(&context).unwrap();
        let mut new = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        old.kill().unwrap();
        old.wait().unwrap();
        let known = scanner.pass_over_known(&context).unwrap();
        let last = scanner.pass(&context).unwrap();
        new.kill().unwrap();
        new.wait().unwrap();
        let has = |scan: &super::super::scan::Scan, pid: u32| {
            scan.samples.iter().any(|sample| sample.pid == pid)
        };
        assert!(has(&first, old.id()) && !has(&known, old.id()) && !has(&last, old.id()));
        assert!(!has(&first, new.id()) && has(&last, new.id()));
        // The names are those of the files.
        let own = last.samples.iter().find(|sample| sample.pid == std::process::id()).unwrap();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(last.name(own).as_str(), name.trim_end());
    }
}
