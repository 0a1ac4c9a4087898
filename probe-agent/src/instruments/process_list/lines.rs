//! What processes' lines said in the first pass: one that says the same, as that of a process that
//! sleeps, is not parsed again.
//!
//! No file stays open for that. Reading one again costs two thirds of opening it anew, and then what the
//! kernel keeps for each open file, four KiB of its memory, has to be made and given back: over two passes
//! that is more, and with fifteen thousand processes sixty MiB.

use crate::{
    call::Context,
    instruments::identity,
    mark::{Marker, Marks},
    proc::{Root, loadavg},
};
use rustix::io::Errno;

/// The lines of the first pass.
#[derive(Debug, Default)]
pub(super) struct KnownLines {
    marker: Marker,
    /// Of processes of which their lines told all there is to know.
    marks: Marks,
    /// The number that the kernel had given last when all were listed.
    last_pid: Option<u32>,
}

/// So many numbers at most are looked at one by one for processes that were born.
const MOST_NUMBERS: u32 = 1024;

impl KnownLines {
    /// To be called before all are listed: whoever is born afterwards has a later number.
    pub(super) fn before_listing(&mut self, root: &Root) {
        // Other folders' files are not those of running processes.
        self.last_pid = root.live_top().and_then(|_| last_pid(root).ok());
    }

    /// To be called at the start of a first pass.
    pub(super) fn begin(&mut self) {
        self.marks = Marks::default();
    }

    /// That a line tells all there is to know of a process.
    pub(super) fn remember(&mut self, pid: u32, line: &[u8]) {
        if self.last_pid.is_some() {
            self.marks.push(pid, self.marker.of_bytes(line));
        }
    }

    /// Whether a process's line says what it said first.
    pub(super) fn is_known(&mut self, pid: u32, line: &[u8]) -> bool {
        self.marks.is(pid, self.marker.of_bytes(line))
    }

    /// Processes that were born since all were listed; `None` where they are to be listed again. With
    /// `are_needed` false, none of them.
    pub(super) fn born(&self, are_needed: bool, context: &Context<'_>) -> Option<Vec<u32>> {
        let last = self.last_pid?;
        if !are_needed {
            return Some(Vec::new());
        }
        let now = last_pid(context.root).ok()?;
        // The kernel counts upwards, and begins anew at some time.
        let given = now.checked_sub(last).filter(|given| *given <= MOST_NUMBERS)?;
        let is_process = |pid: &u32| identity::is_process(*pid, context);
        Some((last + 1..=last + given).filter(is_process).collect())
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
    fn a_line_is_known_where_it_was_remembered_and_says_the_same() {
        let root = Root::live().unwrap();
        let mut lines = KnownLines::default();
        lines.before_listing(&root);
        lines.begin();
        lines.remember(3, b"3 (a) S");
        lines.remember(9, b"9 (b) S");
        let cases: [(u32, &[u8], bool); 6] = [
            (3, b"3 (a) S", true),
            (5, b"5 (c) S", false),
            (9, b"9 (b) S", true),
            (9, b"9 (b) R", false),
            (3, b"3 (a) S", true),
            (11, b"9 (b) S", false),
        ];
        for (pid, line, want) in cases {
            assert_eq!(lines.is_known(pid, line), want, "{pid}");
        }
        lines.begin();
        assert!(!lines.is_known(3, b"3 (a) S"));
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
