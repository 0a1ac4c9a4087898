//! One pass over all processes.

use super::{
    counters::{self, Basis, Counter, IoCount, Key},
    iterator::ByIterator,
    lines::KnownLines,
};
use crate::{
    call::Context,
    instruments::{hidden, process_files::ProcessFiles, thread_accounts::tick_of},
    order,
    proc::{
        Root, host_stat,
        host_stat::HostStat,
        pid_stat,
        pid_stat::{PidStat, Reaped},
    },
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::{
        capabilities::Refusal,
        process_list::{Column, HiddenBy},
    },
    loss::Lost,
    message::Engine,
    observed::{Feature, Observed, Reason},
};
use std::time::Duration;

/// A process at one instant.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) pid: u32,
    /// Whose files say what it has: its own, or those of a thread where the first one ended.
    pub(super) via: u32,
    pub(super) start_ticks: u64,
    pub(super) parent_pid: u32,
    pub(super) state: u8,
    pub(super) is_kernel_thread: bool,
    pub(super) user_ticks: u64,
    pub(super) system_ticks: u64,
    pub(super) children_ticks: u64,
    pub(super) minor_faults: u64,
    pub(super) major_faults: u64,
    pub(super) threads: u32,
    pub(super) resident_pages: u64,
    /// Open files, as far as the pass told.
    pub(super) open_files: Option<Observed<u64>>,
    /// Where its name stands in [`Scan::names`].
    pub(super) name: std::ops::Range<u32>,
    /// The counter behind the column to rank by, where that needs another file.
    pub(super) ranked: Option<Box<Counter>>,
    pub(super) reaped: Reaped,
    /// When it was read, on the monotonic clock. On a large host a pass takes long enough that one
    /// time for all would falsify rates.
    pub(super) at: Duration,
}

impl Sample {
    /// Takes what the ended first thread cannot tell from one that lives.
    fn go_by(&mut self, alive: &ProcessFiles<'_, '_>) {
        let read = |text: &[u8]| {
            let stat = pid_stat::parse(text)?;
            Ok((stat.state, stat.resident_pages))
        };
        if let Ok((state, resident_pages)) = alive.parsed("stat", Feature::Field, read) {
            (self.via, self.state, self.resident_pages) = (alive.pid, state, resident_pages);
        }
    }

    pub(super) const fn basis(&self) -> Basis {
        let cpu_ticks = self.user_ticks.saturating_add(self.system_ticks);
        Basis { cpu_ticks, reaped: self.reaped }
    }
}

/// All processes, each at its own instant.
#[derive(Debug)]
pub(super) struct Scan {
    /// By ascending pid.
    pub(super) samples: Vec<Sample>,
    /// In a later pass, processes that have no sample because all is as it was in the first: the same,
    /// or nothing but their memory is another. By ascending pid.
    pub(super) same: Vec<u32>,
    /// The names of all, one after another, raw.
    pub(super) names: Vec<u8>,
    /// Threads of the whole machine.
    pub(super) host_threads: Observed<u64>,
    pub(super) host: Observed<HostStat>,
    /// How it was read.
    pub(super) engine: Engine,
    pub(super) lost: Lost,
    /// When the pass began, on the monotonic clock.
    pub(super) began: Duration,
    /// The same instant as time since boot, the zero point of a process's start.
    pub(super) began_since_boot: Duration,
}

impl Scan {
    /// What hides processes from this pass.
    pub(super) fn hidden_by(&self, context: &Context<'_>) -> Vec<HiddenBy> {
        let shows_first = self.samples.first().is_some_and(|sample| sample.pid == 1);
        let shows_kernel = self.samples.iter().any(|sample| sample.is_kernel_thread);
        hidden::hidden_by(shows_first, shows_kernel, context)
    }

    /// The processes that are first by what one look says of them. Where what they do ranks, that is a
    /// guess: those that do something at the moment, then those that did most for their age.
    pub(super) fn likely(&self, sort: Column, many: usize) -> Vec<Key> {
        const AT_WORK: u64 = 1 << 40;
        let now = tick_of(self.began_since_boot);
        let so_far = |sample: &Sample| {
            let is_at_work = matches!(sample.state, b'R' | b'D');
            let used = sample.user_ticks.saturating_add(sample.system_ticks).saturating_mul(1_000);
            let share = used / now.saturating_sub(sample.start_ticks).max(1);
            if is_at_work { AT_WORK.saturating_add(share) } else { share }
        };
        let size = |sample: &Sample| match (sort, &sample.open_files) {
            (Column::OpenFiles, Some(open)) => open.known().copied().unwrap_or(0),
            (Column::Threads, _) => sample.threads.into(),
            (Column::Rss | Column::OpenFiles, _) => sample.resident_pages,
            (Column::Youngest, _) => sample.start_ticks,
            _ => so_far(sample),
        };
        let mut largest: Vec<(u64, u64, Key)> = self
            .samples
            .iter()
            .map(|it| (size(it), it.resident_pages, (it.pid, it.start_ticks)))
            .collect();
        order::by_key(&mut largest, |(size, pages, _)| std::cmp::Reverse((*size, *pages)));
        largest.into_iter().take(many).map(|(_, _, key)| key).collect()
    }

    /// The processes of this pass that are as they were in a later one, and the others.
    pub(super) fn apart<'s>(&'s self, later: &Self) -> (Vec<&'s Sample>, Vec<&'s Sample>) {
        let mut same = later.same.iter().peekable();
        self.samples.iter().partition(|sample| {
            while same.next_if(|pid| **pid < sample.pid).is_some() {}
            same.next_if(|pid| **pid == sample.pid).is_some()
        })
    }

    /// The process of a number.
    pub(super) fn find(&self, pid: u32) -> Option<&Sample> {
        let place = self.samples.binary_search_by_key(&pid, |sample| sample.pid).ok()?;
        self.samples.get(place)
    }

    pub(super) fn name(&self, sample: &Sample) -> HostText {
        let range = sample.name.start as usize..sample.name.end as usize;
        HostText::new(self.names.get(range).unwrap_or_default())
    }
}

/// Reads all processes, again and again, with buffers that are kept.
#[derive(Debug)]
pub(super) struct Scanner {
    column: Option<Column>,
    /// All processes, when they were listed last.
    pids: Vec<u32>,
    path: String,
    buffer: Vec<u8>,
    /// What a program in the kernel is asked with, where that costs less.
    iterator: ByIterator,
    lines: KnownLines,
    /// Whether the processes of this pass were listed for it.
    is_listed: bool,
    /// Whether processes that are as they were need no sample in a later pass.
    may_rest: bool,
}

/// Room for one line of `/proc/PID/stat`: 52 numbers and a name.
const LINE_BYTES: usize = 2048;

/// Processes between two looks at the clock and at the call's limits. Their input and output is read
/// together.
const TOGETHER: usize = 64;

impl Scanner {
    /// A scanner that reads what ranking by `sort` needs.
    pub(super) fn new(sort: Column) -> Self {
        let has_own_file = counters::needs_own_file(sort);
        Self {
            column: has_own_file.then_some(sort),
            // Who did nothing opened nothing either, but may have lost memory to others.
            may_rest: !has_own_file && sort != Column::Rss,
            pids: Vec::new(),
            path: String::with_capacity(32),
            buffer: vec![0; LINE_BYTES],
            iterator: ByIterator::new(sort),
            lines: KnownLines::default(),
            is_listed: true,
        }
    }

    /// What was refused that would have cost less.
    pub(super) fn refused(&self, root: &Root) -> Vec<Refusal> {
        self.iterator.refused(root)
    }

    /// The column that is read beside those of `/proc/PID/stat`.
    pub(super) const fn column(&self) -> Option<Column> {
        self.column
    }

    /// Reads every process once.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be listed, or the call reached a limit.
    pub(super) fn pass(&mut self, context: &Context<'_>) -> Result<Scan, AgentError> {
        self.pass_over(None, true, context)
    }

    /// Reads every process once more, where processes that are as they were in the first pass need no
    /// sample. With `with_new` false, those born since may be among them or not.
    ///
    /// # Errors
    ///
    /// As for [`Scanner::pass`].
    pub(super) fn pass_since(
        &mut self,
        first: &Scan,
        with_new: bool,
        context: &Context<'_>,
    ) -> Result<Scan, AgentError> {
        self.pass_over(Some(first).filter(|_| self.may_rest), with_new, context)
    }

    fn pass_over(
        &mut self,
        first: Option<&Scan>,
        with_new: bool,
        context: &Context<'_>,
    ) -> Result<Scan, AgentError> {
        let mut scan = Scan {
            samples: Vec::new(),
            same: Vec::new(),
            names: Vec::new(),
            host_threads: hidden::host_threads(context),
            host: host_stat::read(context.root).into(),
            engine: Engine::Procfs,
            lost: Lost::default(),
            began: context.root.monotonic(),
            began_since_boot: context.root.since_boot(),
        };
        if self.column.is_none()
            && let Some(others) = self.iterator.pass(&mut scan, first.is_some(), context)
        {
            for pid in others {
                self.read_process(pid, false, context, &mut scan)?;
            }
            order::by_key(&mut scan.samples, |sample| sample.pid);
            context.check()?;
            return Ok(scan);
        }
        let is_later = first.is_some();
        let born = if is_later { self.lines.born(with_new, context) } else { None };
        self.is_listed = born.is_none();
        if self.is_listed {
            self.list(context)?;
        }
        if !is_later {
            self.lines.begin();
            scan.samples.reserve_exact(self.pids.len());
            scan.names.reserve_exact(self.pids.len() * 12);
        }
        let mut pids = std::mem::take(&mut self.pids);
        let listed = pids.len();
        pids.extend(born.unwrap_or_default());
        for some in pids.chunks(TOGETHER) {
            context.check()?;
            let first = scan.samples.len();
            for pid in some {
                self.read_process(*pid, is_later, context, &mut scan)?;
            }
            if matches!(self.column, Some(Column::Read | Column::Write)) {
                read_io(scan.samples.get_mut(first..).unwrap_or_default(), context);
            }
        }
        pids.truncate(listed);
        self.pids = pids;
        order::by_key(&mut scan.samples, |sample| sample.pid);
        Ok(scan)
    }

    fn list(&mut self, context: &Context<'_>) -> Result<(), AgentError> {
        self.lines.before_listing(context.root);
        context.root.list_ids(".", &mut self.pids).map_err(|error| AgentError::Unreadable {
            path: HostText::new(b"/proc"),
            reason: error.reason_of_file(Feature::Field),
        })?;
        if self.pids.is_empty() && context.root.is_snapshot() {
            // There is no machine without a process.
            let (path, reason) = (HostText::new(b"/proc/PID"), Reason::NotInSnapshot);
            return Err(AgentError::Unreadable { path, reason });
        }
        Ok(())
    }

    /// Reads one process; in a later pass it has no sample where all is as it was in the first. Only
    /// that no file can be opened at all ends the pass: counted as processes that ended, the rest of
    /// the machine would look idle.
    fn read_process(
        &mut self,
        pid: u32,
        is_later: bool,
        context: &Context<'_>,
        scan: &mut Scan,
    ) -> Result<(), AgentError> {
        self.path.clear();
        push_number(pid, &mut self.path);
        self.path.push_str("/stat");
        let text = match context.root.read_proc_once(&self.path, &mut self.buffer) {
            Ok(text) => text,
            Err(error) if error.is_of_the_agent() => {
                let reason = error.reason_of_file(Feature::Field);
                return Err(AgentError::Unreadable { path: HostText::new(b"/proc"), reason });
            }
            // Of those that are not listed anew, some have ended since they were.
            Err(error) if error.is_gone() && !self.is_listed => return Ok(()),
            // With hidepid, /proc lists processes that it lets nobody else read.
            Err(error) if error.is_gone() => {
                scan.lost.vanished += 1;
                return Ok(());
            }
            Err(_) => {
                scan.lost.refused += 1;
                return Ok(());
            }
        };
        if is_later && self.lines.is_known(pid, text) {
            scan.same.push(pid);
            return Ok(());
        }
        let Ok(stat) = pid_stat::parse(text) else {
            scan.lost.malformed += 1;
            return Ok(());
        };
        let start = u32::try_from(scan.names.len()).unwrap_or(u32::MAX);
        scan.names.extend_from_slice(stat.name);
        let end = u32::try_from(scan.names.len()).unwrap_or(u32::MAX);
        let mut sample = sample(pid, &stat, start..end, context.root.monotonic());
        match (ProcessFiles { pid, context }).of_a_living_thread(&stat) {
            Some(alive) => sample.go_by(&alive),
            // With a column of its own more is needed than the line.
            // What was born since is not in the first pass.
            None if self.column.is_none() && !is_later => self.lines.remember(pid, text),
            None => {}
        }
        if let Some(column) = self.column {
            sample.ranked = Counter::read(column, pid, &stat, context).map(Box::new);
        }
        scan.samples.push(sample);
        Ok(())
    }
}

/// Writes a number, without the ways by which anything can be written: on a large host tens of thousands
/// are.
fn push_number(number: u32, text: &mut String) {
    let mut place = 10_u32.pow(number.checked_ilog10().unwrap_or(0));
    while place > 0 {
        text.extend(char::from_digit(number / place % 10, 10));
        place /= 10;
    }
}

/// Reads the counter behind the columns of input and output.
fn read_io(samples: &mut [Sample], context: &Context<'_>) {
    let pids: Vec<u32> = samples.iter().map(|sample| sample.pid).collect();
    for (sample, io) in samples.iter_mut().zip(IoCount::read_each(&pids, context)) {
        sample.ranked = Some(Box::new(Counter::Io(io)));
    }
}

fn sample(pid: u32, stat: &PidStat<'_>, name: std::ops::Range<u32>, at: Duration) -> Sample {
    Sample {
        pid,
        via: pid,
        start_ticks: stat.start_ticks,
        parent_pid: stat.parent_pid,
        state: stat.state,
        is_kernel_thread: stat.is_kernel_thread(),
        user_ticks: stat.user_ticks,
        system_ticks: stat.system_ticks,
        children_ticks: stat.children_ticks,
        minor_faults: stat.minor_faults,
        major_faults: stat.major_faults,
        threads: stat.threads,
        resident_pages: stat.resident_pages,
        open_files: None,
        name,
        ranked: None,
        reaped: stat.reaped(),
        at,
    }
}

#[cfg(test)]
impl Sample {
    /// A process that was made up and has done nothing.
    pub(super) fn idle(pid: u32, start_ticks: u64, at: Duration) -> Self {
        Self {
            pid,
            via: pid,
            start_ticks,
            parent_pid: 1,
            state: b'S',
            is_kernel_thread: false,
            user_ticks: 0,
            system_ticks: 0,
            children_ticks: 0,
            minor_faults: 0,
            major_faults: 0,
            threads: 1,
            resident_pages: 1,
            open_files: None,
            name: 0..0,
            ranked: None,
            reaped: Reaped::default(),
            at,
        }
    }
}

#[cfg(test)]
impl Scan {
    /// A pass that was made up.
    pub(super) fn of(samples: Vec<Sample>, began: Duration, began_since_boot: Duration) -> Self {
        Self {
            samples,
            same: Vec::new(),
            names: Vec::new(),
            host_threads: Observed::Unknown(protocol::observed::Reason::EmptyWindow),
            host: Observed::Unknown(protocol::observed::Reason::EmptyWindow),
            engine: Engine::Procfs,
            lost: Lost::default(),
            began,
            began_since_boot,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::{FakeMachine, FakeStat};

    #[test]
    fn the_likely_are_so_by_what_ranks_and_of_equals_by_memory() {
        let sample = |pid, threads, resident_pages, open: u64| Sample {
            threads,
            resident_pages,
            open_files: Some(Observed::Known(open)),
            ..Sample::idle(pid, 100, Duration::ZERO)
        };
        let mut samples = vec![sample(1, 9, 10, 5), sample(2, 1, 30, 5), sample(3, 2, 20, 7)];
        samples.push(Sample { state: b'R', ..sample(4, 1, 1, 1) });
        samples.push(Sample { user_ticks: 900, ..sample(5, 1, 1, 1) });
        let scan = Scan::of(samples, Duration::ZERO, Duration::ZERO);
        let cases = [
            (Column::OpenFiles, [3, 2]),
            (Column::Threads, [1, 3]),
            (Column::Rss, [2, 3]),
            (Column::Cpu, [4, 5]),
        ];
        for (sort, want) in cases {
            let found: Vec<u32> = scan.likely(sort, 2).iter().map(|(pid, _)| *pid).collect();
            assert_eq!(found, want, "{sort:?}");
        }
    }

    #[test]
    fn numbers_are_written_as_others_write_them() {
        for number in [0, 1, 9, 10, 99, 100, 4_194_304, u32::MAX] {
            let mut text = "/".to_owned();
            push_number(number, &mut text);
            assert_eq!(text, format!("/{number}"));
        }
    }

    #[test]
    fn a_process_that_may_not_be_read_is_told_from_one_that_ended() {
        let machine = FakeMachine::new();
        machine.stat("7", FakeStat::idle(7, 100));
        machine.write("8/cmdline", "it has no line any more");
        // A read of a folder fails, as one that is refused does.
        machine.write("9/stat/refused", "");
        machine.write("10/stat", "no line");
        let scan = Scanner::new(Column::Cpu).pass(&machine.context()).unwrap();
        assert_eq!(scan.samples.len(), 1);
        assert_eq!(
            scan.lost,
            Lost { vanished: 1, refused: 1, malformed: 1, samples: 0, events: 0 }
        );
    }

    #[test]
    fn a_process_whose_first_thread_ended_is_no_zombie() {
        let machine = FakeMachine::new();
        let ended = FakeStat { state: 'Z', threads: 2, ..FakeStat::idle(7, 100) };
        machine.stat("7", ended);
        machine.thread(7, ended, 0);
        let alive = FakeStat { threads: 2, ..FakeStat::idle(7_000_008, 101) };
        machine.thread(7, alive, 0);
        machine.stat("7000008", alive);
        let scan = Scanner::new(Column::Cpu).pass(&machine.context()).unwrap();
        let process = scan.samples.iter().find(|sample| sample.pid == 7).unwrap();
        assert_eq!((process.via, process.state, process.start_ticks), (7_000_008, b'S', 100));
    }
}
