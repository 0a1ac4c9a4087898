//! What strace writes while it watches: calls, put together from their lines.
//!
//! A call of one thread is in two lines where another thread's line came between. Its start is kept until
//! the same thread's end comes; one whose start nobody saw had begun before strace looked, and one without
//! an end is incomplete. Neither took 0 seconds. What cannot be read is counted by its reason.

mod line;

pub use line::{Unread, Value, Width};

use line::{Call, Event, Line, Returned};
use std::{collections::BTreeMap, time::Duration};

/// The longest line that is read: a call with two paths, every byte of which is escaped, is shorter.
const LONGEST_LINE: usize = 64 << 10;

/// Calls under way that are kept; the kernel has more threads than that only by its settings.
const MOST_STARTED: usize = 1 << 16;

/// Bytes of a start's arguments that are kept until its end: a descriptor and a path.
const KEPT_ARGUMENTS: usize = 4 << 10;

/// A call that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<'c> {
    /// The thread; none where strace names none, because it watches one only.
    pub tid: Option<u32>,
    /// The call's name.
    pub name: &'c [u8],
    /// The arguments that were written at its start, or all of them where it is in one line.
    pub arguments: &'c [u8],
    /// What it returned.
    pub value: Value<'c>,
    /// Time between start and end; none where strace does not know it.
    pub took: Option<Duration>,
    /// Whose calls these are.
    pub width: Width,
}

/// A call under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Started {
    /// Its name.
    pub name: Vec<u8>,
    /// The arguments as far as they were written.
    pub arguments: Vec<u8>,
    /// When it began, since 1970.
    pub at: Option<Duration>,
    /// The number that newer ones of strace give it.
    id: Option<u64>,
}

/// What was read, but is not in the calls that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Calls that ended and had begun before strace looked.
    pub begun_before: u64,
    /// Calls whose end strace did not write, although the thread went on or is gone.
    pub incomplete: u64,
    /// Calls that ended, of which nothing more is known: `= ?`, `<unavailable>`.
    pub unavailable: u64,
    /// Calls that do not return: a thread that ended itself.
    pub not_returning: u64,
    /// Signals.
    pub signals: u64,
    /// Threads that ended.
    pub gone: u64,
    /// Lines passed over because they have a time of day, which begins anew at midnight.
    pub clock_time: u64,
    /// Lines passed over because they are cut, or longer than is read.
    pub cut: u64,
    /// Lines passed over because they are nothing that is known of strace.
    pub foreign: u64,
}

impl Beside {
    /// Lines passed over.
    pub const fn passed_over(&self) -> u64 {
        self.clock_time.saturating_add(self.cut).saturating_add(self.foreign)
    }
}

/// Reads what strace writes, as it comes.
#[derive(Debug, Default)]
pub struct Reader {
    /// The start of a line whose end has not come.
    pending: Vec<u8>,
    /// Whether the line that comes is too long, and passed over up to its end.
    is_passing_over: bool,
    started: BTreeMap<Option<u32>, Started>,
    widths: BTreeMap<Option<u32>, Width>,
    beside: Beside,
}

impl Reader {
    /// Takes what came, and tells each call that ended.
    pub fn take(&mut self, bytes: &[u8], tell: &mut dyn FnMut(&Ended<'_>)) {
        let mut rest = bytes;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            let (line, after) = rest.split_at_checked(end).unwrap_or((rest, &[]));
            rest = after.get(1..).unwrap_or_default();
            if std::mem::take(&mut self.is_passing_over) {
                continue;
            }
            if self.pending.is_empty() {
                self.line(line, tell);
                continue;
            }
            let mut whole = std::mem::take(&mut self.pending);
            whole.extend_from_slice(line);
            self.line(&whole, tell);
            whole.clear();
            self.pending = whole;
        }
        if self.is_passing_over {
            return;
        }
        if self.pending.len().saturating_add(rest.len()) > LONGEST_LINE {
            self.pending.clear();
            self.is_passing_over = true;
            self.beside.cut = self.beside.cut.saturating_add(1);
            return;
        }
        self.pending.extend_from_slice(rest);
    }

    /// Nothing more comes: what was under way, by thread, and what is in no call. A line that has no end
    /// was cut with strace's.
    pub fn finish(mut self) -> (BTreeMap<Option<u32>, Started>, Beside) {
        if !self.pending.is_empty() {
            self.beside.cut = self.beside.cut.saturating_add(1);
        }
        (self.started, self.beside)
    }

    fn line(&mut self, line: &[u8], tell: &mut dyn FnMut(&Ended<'_>)) {
        if line.len() > LONGEST_LINE {
            self.beside.cut = self.beside.cut.saturating_add(1);
            return;
        }
        let Line { tid, at, event } = match line::parse(line) {
            Ok(line) => line,
            Err(unread) => return self.pass_over(unread),
        };
        match event {
            Event::Whole(call, end) => {
                self.forget(tid);
                self.ended(tid, call, end, tell);
            }
            Event::Started(call, id) => {
                self.forget(tid);
                self.start(tid, call, at, id);
            }
            Event::Resumed(call, id, end) => self.resume(tid, call, id, end, tell),
            Event::Signal => count(&mut self.beside.signals),
            Event::Gone => {
                self.forget(tid);
                self.widths.remove(&tid);
                count(&mut self.beside.gone);
            }
            Event::Superseded(other) => {
                self.forget(tid);
                if let Some(started) = self.started.remove(&Some(other)) {
                    self.started.insert(tid, started);
                }
                count(&mut self.beside.gone);
            }
            Event::Width(width) => {
                if self.widths.len() < MOST_STARTED {
                    self.widths.insert(tid, width);
                }
            }
            Event::Detached | Event::Remark => {}
        }
    }

    const fn pass_over(&mut self, unread: Unread) {
        match unread {
            Unread::ClockTime => count(&mut self.beside.clock_time),
            Unread::Cut => count(&mut self.beside.cut),
            Unread::Foreign => count(&mut self.beside.foreign),
        }
    }

    fn start(&mut self, tid: Option<u32>, call: Call<'_>, at: Option<Duration>, id: Option<u64>) {
        if self.started.len() >= MOST_STARTED {
            return count(&mut self.beside.incomplete);
        }
        let kept = call.arguments.get(..KEPT_ARGUMENTS).unwrap_or(call.arguments);
        let (name, arguments) = (call.name.to_vec(), kept.to_vec());
        self.started.insert(tid, Started { name, arguments, at, id });
    }

    fn resume(
        &mut self,
        tid: Option<u32>,
        call: Call<'_>,
        id: Option<u64>,
        end: Returned<'_>,
        tell: &mut dyn FnMut(&Ended<'_>),
    ) {
        match self.started.remove(&tid) {
            Some(started) if started.name == call.name && started.id == id => {
                let arguments = &started.arguments;
                self.ended(tid, Call { name: call.name, arguments }, end, tell);
            }
            Some(_) => {
                count(&mut self.beside.incomplete);
                count(&mut self.beside.begun_before);
            }
            None => count(&mut self.beside.begun_before),
        }
    }

    fn ended(
        &mut self,
        tid: Option<u32>,
        call: Call<'_>,
        end: Returned<'_>,
        tell: &mut dyn FnMut(&Ended<'_>),
    ) {
        let Call { name, arguments } = call;
        if end.value == Value::Unknown {
            let counter = match name {
                b"exit" | b"exit_group" => &mut self.beside.not_returning,
                _ => &mut self.beside.unavailable,
            };
            return count(counter);
        }
        // strace stopped the thread in its sleep, and the kernel sleeps on by a call of its own.
        if arguments.starts_with(b"<... resuming interrupted ") {
            return count(&mut self.beside.begun_before);
        }
        let width = self.widths.get(&tid).copied().unwrap_or(Width::Bits64);
        tell(&Ended { tid, name, arguments, value: end.value, took: end.took, width });
    }

    /// Whatever the thread had begun will not end any more.
    fn forget(&mut self, tid: Option<u32>) {
        match self.started.remove(&tid) {
            Some(started) if matches!(&*started.name, b"exit" | b"exit_group") => {
                count(&mut self.beside.not_returning);
            }
            Some(_) => count(&mut self.beside.incomplete),
            None => {}
        }
    }
}

const fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

#[cfg(test)]
mod tests;
