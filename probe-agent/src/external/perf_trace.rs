//! What `perf trace -s --errno-summary` writes: a table for each thread.
//!
//! ```text
//!  loop (19975), 420 events, 1.3%
//!
//!    syscall            calls  errors  total       min       avg       max       stddev
//!                                      (msec)    (msec)    (msec)    (msec)        (%)
//!    --------------- --------  ------ -------- --------- --------- ---------     ------
//!    openat               100     50     1.751     0.013     0.018     0.053      3.40%
//!                 ENOENT: 50
//! ```
//!
//! A thread's name is in it as the thread chose it, so a line is what its numbers make it. perf before
//! 5.7 does not count errors. What perf leaves out is told by it only in part: a thread that has ended
//! is not shown, its calls are in no table, and of its events no more than a share is missing in the
//! percentages.
//!
//! Reference: `thread__dump_stats` and `trace__fprintf_thread` in `tools/perf/builtin-trace.c`.

/// The longest line that is read.
const LONGEST_LINE: usize = 4 << 10;

/// The most threads that are read.
const MOST_THREADS: usize = 1 << 16;

/// One thread's table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: Vec<u8>,
    /// Starts and ends of calls that perf saw of it.
    pub events: u64,
    /// Its share of all events that perf saw, in tenths of a percent.
    pub per_mille: u64,
    /// Its calls.
    pub calls: Vec<Row>,
}

/// Calls of one kind of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The call's name.
    pub name: Vec<u8>,
    /// How many ended.
    pub count: u64,
    /// How many of them failed; none where perf does not tell.
    pub failed: Option<u64>,
    /// How long all took together, in microseconds: what failed too.
    pub total_us: u64,
    /// The longest, in microseconds.
    pub max_us: u64,
    /// Those that failed, by the error's name; perf has none for those by which the kernel begins a
    /// call again.
    pub errors: Vec<(Vec<u8>, u64)>,
}

/// All tables.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Threads.
    pub threads: Vec<Thread>,
    /// Events that there was no room for.
    pub lost: u64,
    /// Lines within tables that were not understood.
    pub malformed: u64,
}

impl Summary {
    /// Events that perf saw of threads that it does not show, as far as its percentages tell; they are
    /// of a tenth of a percent.
    pub fn events_of_others(&self) -> u64 {
        let shown: u64 =
            self.threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.events));
        let share: u64 =
            self.threads.iter().fold(0, |sum, thread| sum.saturating_add(thread.per_mille));
        let missing = 1000_u64.saturating_sub(share);
        // Each share is rounded by half a unit.
        let rounding = u64::try_from(self.threads.len()).unwrap_or(u64::MAX).div_ceil(2);
        if share == 0 || missing <= rounding {
            return 0;
        }
        let others = u128::from(shown) * u128::from(missing) / u128::from(share);
        u64::try_from(others).unwrap_or(u64::MAX)
    }
}

/// Reads what perf writes, as it comes.
#[derive(Debug, Default)]
pub struct Reader {
    pending: Vec<u8>,
    is_passing_over: bool,
    part: Part,
    has_errors: bool,
    summary: Summary,
}

/// Where in a table the next line is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Part {
    /// Before the first thread, or behind a table.
    #[default]
    Between,
    /// Behind a thread's line.
    Heading,
    /// Among its rows.
    Rows,
}

impl Reader {
    /// Takes what came.
    pub fn take(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let is_whole = piece.ends_with(b"\n");
            if self.is_passing_over {
                self.is_passing_over = !is_whole;
            } else if self.pending.len().saturating_add(piece.len()) > LONGEST_LINE {
                self.pending.clear();
                self.is_passing_over = !is_whole;
                self.malformed();
            } else {
                self.pending.extend_from_slice(piece);
                if is_whole {
                    let line = std::mem::take(&mut self.pending);
                    self.line(line.strip_suffix(b"\n").unwrap_or(&line));
                }
            }
        }
    }

    /// Nothing more comes.
    pub fn finish(mut self) -> Summary {
        if !self.pending.is_empty() {
            self.malformed();
        }
        self.summary
    }

    const fn malformed(&mut self) {
        self.summary.malformed = self.summary.malformed.saturating_add(1);
    }

    fn line(&mut self, line: &[u8]) {
        let text = line.trim_ascii();
        if let Some(lost) = lost(text) {
            self.summary.lost = self.summary.lost.saturating_add(lost);
            return;
        }
        match self.part {
            Part::Between | Part::Heading if is_heading(text) => {
                self.has_errors = words(text).any(|word| word == b"errors");
            }
            Part::Heading if text.starts_with(b"---") => self.part = Part::Rows,
            Part::Heading if text.is_empty() || text.starts_with(b"(msec)") => {}
            Part::Between | Part::Heading => self.heading(line),
            Part::Rows if text.is_empty() => self.part = Part::Between,
            Part::Rows => self.row(line),
        }
    }

    /// A thread's line; whatever else there is between tables is none of ours.
    fn heading(&mut self, line: &[u8]) {
        let Some(thread) = thread(line) else { return };
        if self.summary.threads.len() < MOST_THREADS {
            self.summary.threads.push(thread);
            self.part = Part::Heading;
        } else {
            self.malformed();
        }
    }

    fn row(&mut self, line: &[u8]) {
        let has_errors = self.has_errors;
        let calls = self.summary.threads.last_mut().map(|thread| &mut thread.calls);
        let understood = calls.and_then(|calls| {
            if let Some(error) = error(line) {
                let row = calls.last_mut()?;
                row.errors.push(error);
                return Some(());
            }
            calls.push(row(line, has_errors)?);
            Some(())
        });
        if understood.is_none() {
            self.malformed();
        }
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn is_heading(text: &[u8]) -> bool {
    let mut words = words(text);
    words.next() == Some(b"syscall") && words.next() == Some(b"calls")
}

/// `LOST 123 events!`.
fn lost(text: &[u8]) -> Option<u64> {
    number(text.strip_prefix(b"LOST ")?.strip_suffix(b" events!")?)
}

/// ` loop (19975), 420 events, 1.3%`, where the name may be anything.
fn thread(line: &[u8]) -> Option<Thread> {
    let line = line.strip_prefix(b" ")?;
    let end = line.windows(3).rposition(|part| part == b"), ")?;
    let (before, behind) = (line.get(..end)?, line.get(end + 3..)?);
    let open = before.windows(2).rposition(|part| part == b" (")?;
    let tid = u32::try_from(number(before.get(open + 2..)?)?).ok()?;
    let mut behind = words(behind);
    let events = number(behind.next()?)?;
    behind.next().filter(|word| word.starts_with(b"events"))?;
    let per_mille = behind.next().and_then(percent).unwrap_or_default();
    let name = before.get(..open)?.to_vec();
    Some(Thread { tid, name, events, per_mille, calls: Vec::new() })
}

/// `1.3%`, in tenths.
fn percent(word: &[u8]) -> Option<u64> {
    let word = word.strip_suffix(b",").unwrap_or(word).strip_suffix(b"%")?;
    let (whole, tenths) = decimal(word, 1)?;
    whole.checked_mul(10)?.checked_add(tenths)
}

/// Digits, a point, and so many digits.
fn decimal(word: &[u8], places: usize) -> Option<(u64, u64)> {
    let point = word.iter().position(|byte| *byte == b'.')?;
    let (whole, fraction) = (word.get(..point)?, word.get(point + 1..)?);
    (fraction.len() == places).then_some(())?;
    Some((number(whole)?, number(fraction)?))
}

fn number(word: &[u8]) -> Option<u64> {
    let is_plain = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
    is_plain.then(|| std::str::from_utf8(word).ok()?.parse().ok()).flatten()
}

/// Milliseconds with three decimals, as microseconds.
fn microseconds(word: &[u8]) -> Option<u64> {
    let (whole, thousandths) = decimal(word, 3)?;
    whole.checked_mul(1000)?.checked_add(thousandths)
}

/// Name, calls, errors where there are any, total, min, avg, max, deviation.
fn row(line: &[u8], has_errors: bool) -> Option<Row> {
    let mut words = words(line);
    let name = words.next()?.to_vec();
    let count = number(words.next()?)?;
    let failed = if has_errors { Some(number(words.next()?)?) } else { None };
    let total_us = microseconds(words.next()?)?;
    let (_min, _avg) = (microseconds(words.next()?)?, microseconds(words.next()?)?);
    let max_us = microseconds(words.next()?)?;
    words.next()?.strip_suffix(b"%")?;
    let is_whole = words.next().is_none() && failed.is_none_or(|failed| failed <= count);
    is_whole.then_some(Row { name, count, failed, total_us, max_us, errors: Vec::new() })
}

/// `ENOENT: 50`, behind tabs.
fn error(line: &[u8]) -> Option<(Vec<u8>, u64)> {
    let text = line.strip_prefix(b"\t")?.trim_ascii();
    let colon = text.iter().rposition(|byte| *byte == b':')?;
    let (name, count) = (text.get(..colon)?, text.get(colon + 1..)?);
    Some((name.to_vec(), number(count.trim_ascii())?))
}

#[cfg(test)]
mod tests;
