//! What of all that was read is taken: files that every answer needs, the lines of the processes, and
//! everything about those that matter most, as far as it fits.

use super::{Taken, anonymous::Anonymous};
use protocol::instruments::capture::{Instant, Item, LeftOut, MOST_FILE_BYTES};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};

/// The files to be sent, and what was left out.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) files: Vec<Item>,
    pub(super) processes: u32,
    pub(super) left_out: LeftOut,
    /// Secrets that were taken out.
    pub(super) redacted: u32,
}

/// The name under which the reasons are kept for files that could not be read.
const NOT_READ: &str = "not-read";

/// One path at both instants, as it is sent. `None` where it was not read then.
type Both = [Option<Result<Vec<u8>, Errno>>; 2];

/// Chooses among all processes that were there at the end or before.
pub(super) fn select(taken: [&Taken; 2], max_bytes: usize, anonymous: &Anonymous) -> Selection {
    let mut choice =
        Choice { taken, anonymous, chosen: BTreeMap::new(), bytes: 0, redacted: 0, long: 0 };
    let [_, end] = taken;
    let candidates = &end.candidates;
    for path in taken.iter().flat_map(|taken| &taken.by_all).collect::<BTreeSet<_>>() {
        choice.take(path);
    }
    // A long list of lines must leave room for what the busiest are doing.
    let room_for_lines = choice.bytes.max(max_bytes / 2);
    let mut with_line = BTreeSet::new();
    for candidate in candidates {
        if choice.take_all(&lines_of(candidate.pid), room_for_lines) {
            with_line.insert(candidate.pid);
        }
    }
    let mut with_details = 0;
    for candidate in candidates.iter().filter(|candidate| with_line.contains(&candidate.pid)) {
        let needed: BTreeSet<String> = taken
            .iter()
            .filter_map(|taken| taken.needed.get(&candidate.pid))
            .flatten()
            .cloned()
            .collect();
        if !needed.is_empty() && choice.take_all(&needed, max_bytes) {
            with_details += 1;
        }
    }
    let of = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let left_out = LeftOut {
        processes: of(candidates.len() - with_line.len()),
        details: of(with_line.len() - with_details),
        files: choice.long,
    };
    let (redacted, processes) = (choice.redacted, of(with_line.len()));
    Selection { files: choice.items(), processes, left_out, redacted }
}

/// Whether a path is of a process or a thread.
pub(super) fn is_of_process(path: &str) -> bool {
    let first = path.strip_prefix("proc/").and_then(|rest| rest.split('/').next());
    first.is_some_and(|name| name.parse::<u32>().is_ok())
}

fn lines_of(pid: u32) -> BTreeSet<String> {
    BTreeSet::from([format!("proc/{pid}/stat")])
}

struct Choice<'t> {
    taken: [&'t Taken; 2],
    anonymous: &'t Anonymous,
    /// By the path as it was read.
    chosen: BTreeMap<String, Both>,
    bytes: usize,
    redacted: u32,
    /// Files that are too long.
    long: u32,
}

impl Choice<'_> {
    /// Takes all of these, unless they do not fit: then none.
    fn take_all(&mut self, paths: &BTreeSet<String>, max_bytes: usize) -> bool {
        let missing: Vec<&String> =
            paths.iter().filter(|path| !self.chosen.contains_key(*path)).collect();
        let cost: usize = missing.iter().map(|path| cost(path, &self.both(path).0)).sum();
        if self.bytes + cost > max_bytes {
            return false;
        }
        missing.into_iter().for_each(|path| self.take(path));
        true
    }

    fn take(&mut self, path: &str) {
        let (both, redacted) = self.both(path);
        let is_long = |read: &Option<Result<Vec<u8>, Errno>>| matches!(read, Some(Ok(text)) if text.len() > MOST_FILE_BYTES);
        if both.iter().any(is_long) {
            self.long = self.long.saturating_add(1);
            return;
        }
        self.bytes += cost(path, &both);
        self.redacted = self.redacted.saturating_add(redacted);
        self.chosen.insert(path.to_owned(), both);
    }

    /// A path at both instants as it is sent, and how many secrets were taken out.
    fn both(&self, path: &str) -> (Both, u32) {
        let mut redacted = 0;
        let both = self.taken.map(|taken| {
            let read = taken.files.get(path)?;
            Some(read.clone().map(|text| {
                let (text, count) = self.anonymous.content(path, &text);
                redacted += count;
                text
            }))
        });
        (both, redacted)
    }

    /// The files in their order, each once where it did not change.
    fn items(self) -> Vec<Item> {
        let mut files: BTreeMap<(Instant, Vec<u8>), Vec<u8>> = BTreeMap::new();
        let mut not_read: BTreeMap<Instant, Vec<u8>> = BTreeMap::new();
        for (path, both) in self.chosen {
            let path = self.anonymous.path(&path).into_bytes();
            match both {
                [Some(Ok(start)), Some(Ok(end))] if start == end => {
                    files.insert((Instant::Same, path), start);
                }
                [start, end] => {
                    for (instant, read) in [(Instant::Start, start), (Instant::End, end)] {
                        match read {
                            None => {}
                            Some(Ok(text)) => {
                                files.insert((instant, path.clone()), text);
                            }
                            Some(Err(errno)) => {
                                let line = format!("{} ", errno.raw_os_error());
                                let lines = not_read.entry(instant).or_default();
                                lines.extend(line.bytes().chain(path.iter().copied()));
                                lines.push(b'\n');
                            }
                        }
                    }
                }
            }
        }
        for (instant, lines) in not_read {
            files.insert((instant, NOT_READ.as_bytes().to_vec()), lines);
        }
        let item = |((instant, path), bytes)| Item { instant, path, bytes };
        files.into_iter().map(item).collect()
    }
}

/// Bytes that a path takes, also where it could not be read: then a line with its number and path.
fn cost(path: &str, both: &Both) -> usize {
    let noted = path.len() + "4095 \n".len();
    match both {
        [Some(Ok(start)), Some(Ok(end))] if start == end => start.len(),
        reads => reads.iter().flatten().map(|read| read.as_ref().map_or(noted, Vec::len)).sum(),
    }
}
