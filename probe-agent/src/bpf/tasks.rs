//! Every process of the machine, as the programs in `probe-agent/bpf/` give them that go through all tasks.
//!
//! A process here is what `/proc/PID/stat` says of it, in nanoseconds: all its threads, and those that
//! ended. Kernel reference: `bpf_iter_task` in `kernel/bpf/task_iter.c`, `do_task_stat` in
//! `fs/proc/array.c`, `cputime_adjust` in `kernel/sched/cputime.c`.

use super::{Constants, Loaded, Loan, NoBpf, Object, Rooms};
use crate::{mark::Marker, order, proc::Root, stack::elf::Reader};
use std::{io::Read as _, time::Duration};

/// A process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number, in the first pid namespace.
    pub pid: u32,
    /// That of its parent; 0 where it has none.
    pub parent: u32,
    /// When it started, in nanoseconds after boot.
    pub start_ns: u64,
    /// Time in user space.
    pub user_ns: u64,
    /// Time in the kernel.
    pub system_ns: u64,
    /// Time of children that were waited for.
    pub children_ns: u64,
    /// Faults served without storage.
    pub minor_faults: u64,
    /// Faults that waited for it.
    pub major_faults: u64,
    /// Of children that were waited for.
    pub children_minor_faults: u64,
    /// Of children that were waited for.
    pub children_major_faults: u64,
    /// Resident memory, as the kernel counts it for the first thread.
    pub resident_pages: u64,
    /// Threads that live.
    pub threads: u32,
    /// `PF_*`.
    pub flags: u32,
    /// The letter of `/proc/PID/stat`, of its first thread.
    pub state: u8,
    /// Its name, up to the first zero.
    pub name: [u8; 16],
    /// Open files, where they were to be counted and their table is a small one.
    pub open_files: Option<u32>,
}

/// Words of `struct thread_row` and `struct process_row` in `probe-agent/bpf/tasks.h`.
const THREAD_WORDS: usize = 7;
const PROCESS_WORDS: usize = 16;

/// Bytes of one.
const WORD: usize = size_of::<u64>();

/// A process as a program wrote it.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    words: [u64; PROCESS_WORDS],
    /// When it was read.
    pub at: Duration,
}

impl Row {
    /// Its number, in the first pid namespace.
    pub const fn pid(&self) -> u32 {
        let [ids, ..] = self.words;
        halves(ids).1
    }

    /// Differs where anything differs but its memory, which others take away, and the time.
    pub fn mark(&self, marker: &Marker) -> u64 {
        let [a, b, c, d, e, f, g, h, i, j, k, _resident_pages, l, m, n, o] = self.words;
        marker.of([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o])
    }

    /// What it says.
    pub fn process(&self) -> Process {
        let [ids, runtime_ns, user_ns, system_ns, minor_faults, major_faults, states, rest @ ..] =
            self.words;
        let [start_ns, children_ns, children_minor_faults, children_major_faults, rest @ ..] = rest;
        let [resident_pages, parent_and_threads, flags_and_files, names @ ..] = rest;
        let (parent, threads) = halves(parent_and_threads);
        let (flags, open_files) = halves(flags_and_files);
        let (user_ns, system_ns) = split(runtime_ns, user_ns, system_ns);
        let mut name = [0; 16];
        let halves_of_name = name.as_chunks_mut().0.iter_mut();
        halves_of_name.zip(names).for_each(|(half, word)| *half = word.to_ne_bytes());
        Process {
            pid: halves(ids).1,
            parent,
            start_ns,
            user_ns,
            system_ns,
            children_ns,
            minor_faults,
            major_faults,
            children_minor_faults,
            children_major_faults,
            // Counters of processors that are not in step may make less than nothing.
            resident_pages: u64::try_from(resident_pages.cast_signed()).unwrap_or_default(),
            threads,
            flags,
            state: letter(halves(states)),
            name,
            open_files: Some(open_files).filter(|count| *count != NOT_COUNTED),
        }
    }

    const fn threads(&self) -> u32 {
        let [.., parent_and_threads, _, _, _] = self.words;
        halves(parent_and_threads).1
    }

    /// Adds what another of its threads used.
    fn add(&mut self, thread: [u64; THREAD_WORDS]) {
        let [_, used @ .., _] = thread;
        let own = self.words.iter_mut().skip(1);
        own.zip(used).for_each(|(own, used)| *own = own.saturating_add(used));
    }
}

/// The two numbers of a word, in their order.
const fn halves(word: u64) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes([e, f, g, h]))
}

/// What stands for a number of open files that is not told.
const NOT_COUNTED: u32 = u32::MAX;

/// The section with how far a pass came, and the map that it becomes.
const PASS: &str = ".data.pass";

/// What `struct pass` says after one.
#[derive(Clone, Copy, Debug)]
struct Passed {
    processes: u32,
    tasks: u32,
    is_cut: bool,
}

impl Passed {
    const BYTES: usize = 12;

    fn read(loaded: &Loaded) -> Result<Self, NoBpf> {
        let bytes = loaded.map(PASS)?.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let mut words = Reader::new(&bytes);
        let mut next = || words.u32().unwrap_or_default();
        Ok(Self { processes: next(), tasks: next(), is_cut: next() != 0 })
    }
}

/// What goes through all tasks.
#[derive(Debug)]
pub struct Walk {
    loan: Loan,
    is_at_once: bool,
    are_files_counted: bool,
}

/// As `MOST_TASKS` in `probe-agent/bpf/all_tasks.bpf.c`.
const MOST_AT_ONCE: u64 = 32_768;

impl Walk {
    /// One for a machine of about so many threads.
    ///
    /// # Errors
    ///
    /// Why there is none.
    pub fn new(root: &Root, threads: u64, are_files_counted: bool) -> Result<Self, NoBpf> {
        // In steps, so that the next one finds the same loaded.
        const STEP: u64 = 4_096;
        let room = threads.saturating_add(threads / 4).min(MOST_AT_ONCE).next_multiple_of(STEP);
        let is_at_once =
            threads < MOST_AT_ONCE && Loaded::has_place(root, "call/bpf_iter_task_new")?;
        if !is_at_once {
            return Self::one_by_one(root, are_files_counted);
        }
        let room = [("processes", u32::try_from(room).unwrap_or(u32::MAX))];
        let loan = lend(root, Object::AllTasks, are_files_counted, &room)?;
        Ok(Self { loan, is_at_once, are_files_counted })
    }

    fn one_by_one(root: &Root, are_files_counted: bool) -> Result<Self, NoBpf> {
        let loan = lend(root, Object::Tasks, are_files_counted, &[])?;
        Ok(Self { loan, is_at_once: false, are_files_counted })
    }

    /// Goes through all of them, in no order that holds everywhere. Gives how many threads there are,
    /// those of the kernel too.
    ///
    /// # Errors
    ///
    /// Why the iterator could not run.
    pub fn each(&mut self, root: &Root, mut see: impl FnMut(&Row)) -> Result<u64, NoBpf> {
        if self.is_at_once {
            match all_at_once(&self.loan, root, &mut see) {
                Ok(Some(threads)) => return Ok(threads),
                // There are more than there is room for, or the kernel's function is another one.
                Ok(None) | Err(NoBpf::Verifier { .. }) => {
                    *self = Self::one_by_one(root, self.are_files_counted)?;
                }
                Err(other) => return Err(other),
            }
        }
        let (processes, threads) = one_by_one(&self.loan, root)?;
        processes.iter().for_each(see);
        Ok(threads)
    }
}

fn lend(
    root: &Root,
    object: Object,
    are_files_counted: bool,
    rooms: Rooms<'_>,
) -> Result<Loan, NoBpf> {
    let counted = 1_u32.to_ne_bytes();
    let constants = [("are_files_counted", counted.as_slice())];
    let wanted: Constants<'_> = if are_files_counted { &constants } else { &[] };
    Loaded::lend(root, object, wanted, rooms)
}

/// By one call, for less than half of what it takes otherwise; `None` where there are too many.
fn all_at_once(
    loaded: &Loaded,
    root: &Root,
    see: &mut impl FnMut(&Row),
) -> Result<Option<u64>, NoBpf> {
    loaded.map(PASS)?.set(&0_u32.to_ne_bytes(), &[0; Passed::BYTES])?;
    let before = root.monotonic();
    loaded.run("all_tasks")?;
    // It takes some milliseconds, and all passes go the same way.
    let at = (before + root.monotonic()) / 2;
    let passed = Passed::read(loaded)?;
    let count = usize::try_from(passed.processes).unwrap_or_default();
    if passed.is_cut || count == 0 {
        return Ok(None);
    }
    let row_bytes = PROCESS_WORDS * WORD;
    let rows = loaded.map("processes")?.mapped(count.saturating_mul(row_bytes))?;
    let mut row = Row { words: [0; PROCESS_WORDS], at };
    for place in 0..count {
        if rows.read(place.saturating_mul(row_bytes), &mut row.words) {
            see(&row);
        }
    }
    Ok(Some(passed.tasks.into()))
}

/// By one call for each task: the processes, and how many threads there are.
fn one_by_one(loaded: &Loaded, root: &Root) -> Result<(Vec<Row>, u64), NoBpf> {
    const ROOM: usize = 64 << 10;
    let mut file = loaded.iterate("each_task")?;
    let mut rows = Rows::default();
    let (mut buffer, mut kept) = (vec![0; ROOM], 0);
    loop {
        let at = root.monotonic();
        let room = buffer.get_mut(kept..).unwrap_or_default();
        let length = match file.read(room) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        let filled = kept + length;
        let used = rows.take(buffer.get(..filled).unwrap_or_default(), at);
        // A row may be cut by the end of the room.
        buffer.copy_within(used..filled, 0);
        kept = filled - used;
    }
    Ok(rows.finish())
}

/// Rows that are added up.
#[derive(Debug, Default)]
struct Rows {
    /// Processes of one thread.
    processes: Vec<Row>,
    /// Those of several, each without its other threads.
    with_others: Vec<Row>,
    /// Those other threads.
    others: Vec<[u64; THREAD_WORDS]>,
    threads: u64,
}

impl Rows {
    /// Takes whole rows from the start of some bytes. How many bytes these were.
    fn take(&mut self, bytes: &[u8], at: Duration) -> usize {
        let mut rest = bytes.as_chunks().0;
        loop {
            let used = bytes.len() / WORD - rest.len();
            let Some(thread) = rest.first_chunk().map(words) else { return used * WORD };
            let [ids, ..]: [u64; THREAD_WORDS] = thread;
            let (process, thread_id) = halves(ids);
            if process != thread_id {
                self.others.push(thread);
                rest = rest.get(THREAD_WORDS..).unwrap_or_default();
            } else if let Some(all) = rest.first_chunk().map(words) {
                let row = Row { words: all, at };
                let is_one = row.threads() <= 1;
                if is_one { &mut self.processes } else { &mut self.with_others }.push(row);
                rest = rest.get(PROCESS_WORDS..).unwrap_or_default();
            } else {
                return used * WORD;
            }
            self.threads += 1;
        }
    }

    fn finish(mut self) -> (Vec<Row>, u64) {
        let process_of = |[ids, ..]: &[u64; THREAD_WORDS]| halves(*ids).0;
        order::by_key(&mut self.others, process_of);
        for row in self.with_others {
            let start = self.others.partition_point(|thread| process_of(thread) < row.pid());
            let rest = self.others.get(start..).unwrap_or_default().iter();
            let own = rest.take_while(|thread| process_of(thread) == row.pid());
            let mut whole = row;
            own.for_each(|thread| whole.add(*thread));
            self.processes.push(whole);
        }
        (self.processes, self.threads)
    }
}

fn words<const WORDS: usize>(bytes: &[[u8; WORD]; WORDS]) -> [u64; WORDS] {
    bytes.map(u64::from_ne_bytes)
}

/// Time in user space and in the kernel. What was used is known exactly; which part is which, as the
/// clock's ticks found it.
fn split(all: u64, user: u64, system: u64) -> (u64, u64) {
    let system = match (user, system) {
        (_, 0) => 0,
        (0, _) => all,
        (user, system) => {
            let (part, of) = (u128::from(system), u128::from(user) + u128::from(system));
            u64::try_from(part * u128::from(all) / of).unwrap_or(all)
        }
    };
    (all - system.min(all), system.min(all))
}

/// The letter that `/proc/PID/stat` has for a state: `task_state_array` in `fs/proc/array.c`.
const fn letter((state, exit_state): (u32, u32)) -> u8 {
    /// `TASK_UNINTERRUPTIBLE` with `TASK_NOLOAD`: a kernel thread that waits for work.
    const IDLE: u32 = 0x402;
    const REPORTED: u32 = 0x7f;
    if state == IDLE {
        return b'I';
    }
    let all = state | exit_state;
    match (all & REPORTED).checked_ilog2() {
        None if all == 0 => b'R',
        // Waits for a lock as on kernels for real time, or is frozen.
        None => b'D',
        Some(0) => b'S',
        Some(1) => b'D',
        Some(2) => b'T',
        Some(3) => b't',
        Some(4) => b'X',
        Some(5) => b'Z',
        Some(_) => b'P',
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_split_as_ticks_found_it_and_adds_up() {
        let cases = [
            ((7, 0, 0), (7, 0)),
            ((7, 4, 0), (7, 0)),
            ((7, 0, 4), (0, 7)),
            ((80, 30, 10), (60, 20)),
            ((8, u64::MAX, u64::MAX), (4, 4)),
        ];
        for ((all, user, system), want) in cases {
            assert_eq!(split(all, user, system), want, "{all} {user} {system}");
        }
    }

    #[test]
    fn states_have_the_letters_of_proc() {
        let cases = [
            (0, 0, b'R'),
            (1, 0, b'S'),
            (2, 0, b'D'),
            (0x402, 0, b'I'),
            (4, 0, b'T'),
            (8, 0, b't'),
            (0x40, 0, b'P'),
            (0x80, 0x20, b'Z'),
            (0x80, 0x10, b'X'),
            (0x8000, 0, b'D'),
        ];
        for (state, exit_state, want) in cases {
            assert_eq!(letter((state, exit_state)), want, "{state:#x} {exit_state:#x}");
        }
    }

    fn row(tgid: u32, pid: u32, runtime: u64) -> Vec<u8> {
        let mut bytes = [tgid, pid].map(u32::to_le_bytes).concat();
        bytes.extend([runtime, runtime, 0, 1, 0].map(u64::to_le_bytes).concat());
        bytes.extend([1_u32, 0].map(u32::to_le_bytes).concat());
        if tgid == pid {
            bytes.extend([5_u64, 6, 7, 8, 9].map(u64::to_le_bytes).concat());
            let (threads, open_files) = if tgid == 1 { (2_u32, 3) } else { (3, NOT_COUNTED) };
            bytes.extend([1, threads, 0, open_files].map(u32::to_le_bytes).concat());
            bytes.extend(b"program\0garbage!");
        }
        bytes
    }

    #[test]
    fn threads_are_added_to_their_process_before_and_after_it() {
        let rows = [row(1, 1, 10), row(9, 3, 100), row(1, 4, 20), row(9, 9, 1), row(9, 11, 5)];
        let bytes = rows.concat();
        let mut all = Rows::default();
        // In pieces, as the kernel may give them.
        let mut kept: Vec<u8> = Vec::new();
        for piece in bytes.chunks(50) {
            kept.extend(piece);
            let used = all.take(&kept, Duration::from_secs(1));
            kept.drain(..used);
        }
        assert!(kept.is_empty());
        let (processes, threads) = all.finish();
        assert_eq!(threads, 5);
        let processes: Vec<Process> = processes.iter().map(Row::process).collect();
        let times: Vec<_> = processes.iter().map(|one| (one.pid, one.user_ns)).collect();
        assert_eq!(times, [(1, 30), (9, 106)]);
        let first = processes.first().unwrap();
        assert_eq!((first.start_ns, first.resident_pages, first.minor_faults), (5, 9, 2));
        let open_files: Vec<_> = processes.iter().map(|one| one.open_files).collect();
        assert_eq!(open_files, [Some(3), None]);
    }
}
