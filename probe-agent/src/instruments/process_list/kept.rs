//! Lines of processes that are read again: their files stay open within a call.
//!
//! The kernel makes a line anew for each read from its start, for a third of what opening it costs too;
//! and one that says what it said first, as that of a process that sleeps, is not parsed again. A file
//! that stays open is of one process: once that has ended, nobody else's line is read from it.

use crate::{
    call::Context,
    proc::{KeptFile, Root, loadavg},
};
use rustix::io::Errno;

/// Files that stay open, and what they said.
#[derive(Debug, Default)]
pub(super) struct KeptLines {
    /// By ascending pid.
    lines: Vec<(u32, Kept)>,
    /// Behind the one that was read last: they are read in their order.
    next: usize,
    /// The number that the kernel gave last when all were listed.
    last_pid: Option<u32>,
}

#[derive(Debug)]
struct Kept {
    file: KeptFile,
    /// What it said first.
    line: Box<[u8]>,
    /// Whether that is all there is to know of the process.
    is_known: bool,
}

/// What a read of a line brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// So many bytes, that say what they said first; and what that is, is known.
    Same(usize),
    /// So many bytes, that say something else, or nothing was known.
    New(usize),
    /// The process whose file was open has ended.
    Ended,
    /// It has no file that is open.
    NotKept,
}

impl KeptLines {
    /// Reads the line of a process whose file is open, or can stay so.
    pub(super) fn read(
        &mut self,
        (pid, path): (u32, &str),
        buffer: &mut [u8],
        root: &Root,
    ) -> Line {
        // Other folders' files may be replaced while they are open.
        if root.live_top().is_none() {
            return Line::NotKept;
        }
        let place = match self.find(pid) {
            Ok(place) => place,
            Err(place) => {
                let Ok(file) = root.keep_proc(path) else { return Line::NotKept };
                self.lines
                    .insert(place, (pid, Kept { file, line: Box::default(), is_known: false }));
                place
            }
        };
        self.next = place + 1;
        let Some((_, kept)) = self.lines.get_mut(place) else { return Line::NotKept };
        let Ok(line) = kept.file.read(buffer) else {
            self.lines.remove(place);
            self.next = place;
            return Line::Ended;
        };
        if !kept.is_known {
            kept.line = line.into();
        } else if *line == *kept.line {
            return Line::Same(line.len());
        }
        Line::New(line.len())
    }

    /// That the line which a process's file said first is known, and tells all of it.
    pub(super) fn remember(&mut self, pid: u32) {
        if let Ok(place) = self.find(pid)
            && let Some((_, kept)) = self.lines.get_mut(place)
        {
            kept.is_known = true;
        }
    }

    /// Where a process is, or would be.
    fn find(&self, pid: u32) -> Result<usize, usize> {
        for place in [self.next, self.next.saturating_sub(1)] {
            if self.lines.get(place).is_some_and(|(other, _)| *other == pid) {
                return Ok(place);
            }
        }
        if self.lines.last().is_none_or(|(last, _)| *last < pid) {
            return Err(self.lines.len());
        }
        self.lines.binary_search_by_key(&pid, |(other, _)| *other)
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
        Some(self.lines.iter().map(|(pid, _)| *pid).collect())
    }

    /// How many files stay open.
    pub(super) fn files(&self) -> u64 {
        u64::try_from(self.lines.len()).unwrap_or(u64::MAX)
    }

    /// To be called before all are listed: whoever is born afterwards has a later number.
    pub(super) fn before_listing(&mut self, root: &Root) {
        self.last_pid = last_pid(root).ok();
    }

    /// To be called after all listed ones were read: where a file could not stay open, the list is
    /// needed each time.
    pub(super) fn after_listing(&mut self, listed: usize) {
        if self.lines.len() < listed {
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
    use crate::instruments::{
        fake::FakeMachine,
        process_list::scan::{Scan, Scanner},
    };
    use protocol::instruments::process_list::Column;

    #[test]
    fn a_line_is_read_again_as_it_is_and_an_ended_process_is_not_taken_for_another() {
        let root = Root::live().unwrap();
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let (pid, mut kept) = (child.id(), KeptLines::default());
        let (path, mut buffer) = (format!("{pid}/stat"), vec![0; 2048]);
        let mut read = |kept: &mut KeptLines| kept.read((pid, &path), &mut buffer, &root);
        assert!(matches!(read(&mut kept), Line::New(_)));
        // Nothing is known of it yet.
        assert!(matches!(read(&mut kept), Line::New(_)));
        // It may still be starting.
        std::thread::sleep(std::time::Duration::from_millis(300));
        assert!(matches!(read(&mut kept), Line::New(_)));
        kept.remember(pid);
        assert!(matches!(read(&mut kept), Line::Same(_)));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(read(&mut kept), Line::Ended);
        assert_eq!(read(&mut kept), Line::NotKept);
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
        let known = scanner.pass_since(&first, false, &context).unwrap();
        let last = scanner.pass_since(&first, true, &context).unwrap();
        let whole = scanner.pass(&context).unwrap();
        new.kill().unwrap();
        new.wait().unwrap();
        let has = |scan: &Scan, pid: u32| {
            scan.same.contains(&pid) || scan.samples.iter().any(|sample| sample.pid == pid)
        };
        assert!(has(&first, old.id()) && !has(&first, new.id()));
        assert!(!has(&known, old.id()));
        assert!(!has(&last, old.id()) && has(&last, new.id()));
        assert!(!has(&whole, old.id()) && has(&whole, new.id()) && whole.same.is_empty());
        // The names are those of the files.
        let own = whole.samples.iter().find(|sample| sample.pid == std::process::id()).unwrap();
        let name = std::fs::read_to_string("/proc/self/comm").unwrap();
        assert_eq!(whole.name(own).as_str(), name.trim_end());
    }
}
