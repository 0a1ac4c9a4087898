//! Every process of the machine, as the iterator in `probe-agent/bpf/tasks.bpf.c` gives them.
//!
//! A process here is what `/proc/PID/stat` says of it, in nanoseconds: all its threads, and those that
//! ended. Kernel reference: `bpf_iter_task` in `kernel/bpf/task_iter.c`, `do_task_stat` in
//! `fs/proc/array.c`, `cputime_adjust` in `kernel/sched/cputime.c`.

use super::{Loaded, NoBpf};
use crate::{order, stack::elf::Reader};
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
    /// When it was read.
    pub at: Duration,
}

/// What a pass saw.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// By ascending number.
    pub processes: Vec<Process>,
    /// Threads, those of the kernel too.
    pub threads: u64,
}

/// What a later pass is compared with.
#[derive(Clone, Debug, Default)]
pub struct Before {
    /// All threads, in the order in which the kernel goes through them, each with whether it is a
    /// process's first.
    tids: Vec<(u32, bool)>,
}

/// What a later pass saw.
#[derive(Clone, Debug, Default)]
pub struct Since {
    /// Processes of one thread that did something since, and new ones, by ascending number.
    pub processes: Vec<Process>,
    /// Processes of several threads that did, by ascending number: which, and no more.
    pub busy: Vec<u32>,
    /// Those that are as they were, but for their memory, by ascending number.
    pub same: Vec<u32>,
    /// Threads, those of the kernel too.
    pub threads: u64,
}

/// Bytes of `struct thread_row` and `struct process_row`.
const THREAD_BYTES: usize = 56;
const PROCESS_BYTES: usize = 128;

/// What stands for a number of open files that is not told.
const NOT_COUNTED: u32 = u32::MAX;

/// What a pass is for, as `enum` in `probe-agent/bpf/tasks.bpf.c` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    First = 0,
    Later = 1,
}

/// The section with what a pass is for and where it is, and the map that it becomes.
const PASS: &str = ".data.pass";

/// What `struct pass` says after one.
#[derive(Clone, Copy, Debug)]
struct Passed {
    place: u32,
    seen: u32,
    is_full: bool,
}

impl Passed {
    fn read(loaded: &Loaded) -> Result<Self, NoBpf> {
        let bytes = loaded.map(PASS)?.get(&0_u32.to_ne_bytes())?.unwrap_or_default();
        let mut words = Reader::new(&bytes);
        let mut next = || words.u32().unwrap_or_default();
        let (_, _, place, _, seen, _) = (next(), next(), next(), next(), next(), next());
        Ok(Self { place, seen, is_full: next() != 0 })
    }
}

/// Goes through all, for a later pass to be compared with; `None` in its place where there are too many
/// threads for that. `now` tells the time.
///
/// # Errors
///
/// Why the iterator could not run.
pub fn read(loaded: &Loaded, now: impl Fn() -> Duration) -> Result<(Seen, Option<Before>), NoBpf> {
    let rows = pass(loaded, Kind::First, 0, now)?;
    let is_full = Passed::read(loaded)?.is_full;
    let before = Before { tids: rows.tids.clone() };
    Ok((rows.finish(), (!is_full).then_some(before)))
}

/// What changed since a first pass of the same window.
///
/// # Errors
///
/// As for [`read`].
pub fn read_since(
    loaded: &Loaded,
    before: &Before,
    now: impl Fn() -> Duration,
) -> Result<Since, NoBpf> {
    let written = u32::try_from(before.tids.len()).unwrap_or(u32::MAX);
    let rows = pass(loaded, Kind::Later, written, now)?;
    let after = Passed::read(loaded)?;
    let place = usize::try_from(after.place).unwrap_or(usize::MAX);
    // The kernel came to its end before it came to those.
    let rest = before.tids.get(place..).unwrap_or_default();
    let mut since = rows.since(before, rest.iter().map(|(tid, _)| *tid));
    since.threads = after.seen.into();
    Ok(since)
}

/// One pass, with as many tasks as the first one wrote down.
fn pass(
    loaded: &Loaded,
    kind: Kind,
    written: u32,
    now: impl Fn() -> Duration,
) -> Result<Rows, NoBpf> {
    const ROOM: usize = 64 << 10;
    let begin = [kind as u32, written, 0, 0, 0, 0, 0].map(u32::to_ne_bytes);
    loaded.map(PASS)?.set(&0_u32.to_ne_bytes(), begin.as_flattened())?;
    let mut file = loaded.iterate("each_task")?;
    let mut rows = Rows::default();
    let (mut buffer, mut kept) = (vec![0; ROOM], 0);
    loop {
        let at = now();
        let room = buffer.get_mut(kept..).unwrap_or_default();
        let length = match file.read(room) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                let errno = rustix::io::Errno::from_io_error(&error);
                return Err(NoBpf::of(errno.unwrap_or(rustix::io::Errno::IO)));
            }
        };
        let filled = kept + length;
        let used = rows.take(buffer.get(..filled).unwrap_or_default(), at);
        // A row may be cut by the end of the room.
        buffer.copy_within(used..filled, 0);
        kept = filled - used;
    }
    Ok(rows)
}

/// Rows that are added up.
#[derive(Debug, Default)]
struct Rows {
    /// Processes of one thread.
    processes: Vec<Process>,
    /// Those of several, each with what it used without its other threads.
    with_others: Vec<(Process, Used)>,
    /// Those other threads.
    others: Vec<Thread>,
    /// All threads, in the order in which they came, each with whether it is a process's first.
    tids: Vec<(u32, bool)>,
    /// Threads that ended since the first pass.
    gone: Vec<u32>,
    /// Processes of which another thread did something since the first pass.
    worked: Vec<u32>,
}

/// What is added up over threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Used {
    runtime_ns: u64,
    user_ns: u64,
    system_ns: u64,
    minor_faults: u64,
    major_faults: u64,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    tgid: u32,
    pid: u32,
    used: Used,
    state: u8,
}

impl Used {
    fn add(&mut self, other: Self) {
        self.runtime_ns = self.runtime_ns.saturating_add(other.runtime_ns);
        self.user_ns = self.user_ns.saturating_add(other.user_ns);
        self.system_ns = self.system_ns.saturating_add(other.system_ns);
        self.minor_faults = self.minor_faults.saturating_add(other.minor_faults);
        self.major_faults = self.major_faults.saturating_add(other.major_faults);
    }

    /// Time in user space and in the kernel. What was used is known exactly; which part is which, as
    /// the clock's ticks found it.
    fn split(self) -> (u64, u64) {
        let (user, system, all) = (self.user_ns, self.system_ns, self.runtime_ns);
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
}

impl Rows {
    /// Takes whole rows from the start of some bytes. How many bytes these were.
    fn take(&mut self, bytes: &[u8], at: Duration) -> usize {
        let mut reader = Reader::new(bytes);
        loop {
            let used = bytes.len() - reader.rest().len();
            let rest = reader.rest();
            if self.take_short(rest) {
                reader.bytes(8);
                continue;
            }
            let Some(thread) = thread(rest) else { return used };
            let is_process = thread.pid == thread.tgid;
            let length = if is_process { PROCESS_BYTES } else { THREAD_BYTES };
            let Some(row) = reader.bytes(length) else { return used };
            self.tids.push((thread.pid, is_process));
            if !is_process {
                self.others.push(thread);
                continue;
            }
            match process(row, &thread, at) {
                Some(process) if process.threads > 1 => {
                    self.with_others.push((process, thread.used));
                }
                Some(process) => self.processes.push(whole(process, thread.used)),
                None => {}
            }
        }
    }

    /// Takes what has a number in the place of a row: see `IS_GONE` in `probe-agent/bpf/tasks.bpf.c`.
    fn take_short(&mut self, bytes: &[u8]) -> bool {
        const HAS_WORKED: u32 = 1 << 31;
        let mut fields = Reader::new(bytes);
        let (Some(what), Some(tid)) = (fields.u32(), fields.u32()) else { return false };
        if what == 0 {
            self.gone.push(tid);
        } else if what & HAS_WORKED != 0 {
            self.worked.push(what & !HAS_WORKED);
        }
        what == 0 || what & HAS_WORKED != 0
    }

    fn finish(mut self) -> Seen {
        let threads = u64::try_from(self.tids.len()).unwrap_or(u64::MAX);
        order::by_key(&mut self.others, |thread| (thread.tgid, thread.pid));
        for (process, mut used) in self.with_others {
            let start = self.others.partition_point(|thread| thread.tgid < process.pid);
            let rest = self.others.get(start..).unwrap_or_default().iter();
            let own = rest.take_while(|thread| thread.tgid == process.pid);
            own.for_each(|thread| used.add(thread.used));
            self.processes.push(whole(process, used));
        }
        order::by_key(&mut self.processes, |process| process.pid);
        Seen { processes: self.processes, threads }
    }

    /// What differs from before; `rest` are threads of before that ended, beside those that were told.
    fn since(mut self, before: &Before, rest: impl Iterator<Item = u32>) -> Since {
        let mut gone = std::mem::take(&mut self.gone);
        gone.extend(rest);
        let mut busy = std::mem::take(&mut self.worked);
        busy.extend(self.with_others.iter().map(|(process, _)| process.pid));
        for list in [&mut gone, &mut busy] {
            order::ascending(list);
            list.dedup();
        }
        order::by_key(&mut self.processes, |process| process.pid);
        let is_other = |pid: &u32| {
            gone.binary_search(pid).is_ok()
                || busy.binary_search(pid).is_ok()
                || self.processes.binary_search_by_key(pid, |process| process.pid).is_ok()
        };
        let first = before.tids.iter().filter(|(_, is_first)| *is_first).map(|(tid, _)| *tid);
        let same = first.filter(|pid| !is_other(pid)).collect();
        Since { processes: self.processes, busy, same, threads: 0 }
    }
}

/// A process with what all its threads used.
fn whole(process: Process, used: Used) -> Process {
    let (user_ns, system_ns) = used.split();
    let Used { minor_faults, major_faults, .. } = used;
    Process { user_ns, system_ns, minor_faults, major_faults, ..process }
}

/// `struct thread_row`.
fn thread(bytes: &[u8]) -> Option<Thread> {
    let mut fields = Reader::new(bytes.get(..THREAD_BYTES)?);
    let (tgid, pid) = (fields.u32()?, fields.u32()?);
    let used = Used {
        runtime_ns: fields.u64()?,
        user_ns: fields.u64()?,
        system_ns: fields.u64()?,
        minor_faults: fields.u64()?,
        major_faults: fields.u64()?,
    };
    let state = letter(fields.u32()?, fields.u32()?);
    Some(Thread { tgid, pid, used, state })
}

/// The rest of `struct process_row`.
fn process(bytes: &[u8], thread: &Thread, at: Duration) -> Option<Process> {
    let mut fields = Reader::new(bytes.get(THREAD_BYTES..)?);
    let start_ns = fields.u64()?;
    let children_ns = fields.u64()?;
    let (children_minor_faults, children_major_faults) = (fields.u64()?, fields.u64()?);
    let resident_pages = fields.u64()?;
    let (parent, threads, flags) = (fields.u32()?, fields.u32()?, fields.u32()?);
    Some(Process {
        pid: thread.pid,
        parent,
        start_ns,
        user_ns: 0,
        system_ns: 0,
        children_ns,
        minor_faults: 0,
        major_faults: 0,
        children_minor_faults,
        children_major_faults,
        // Counters of processors that are not in step may make less than nothing.
        resident_pages: u64::try_from(resident_pages.cast_signed()).unwrap_or_default(),
        threads,
        flags,
        state: thread.state,
        name: *fields.bytes(16)?.first_chunk()?,
        open_files: Some(fields.u32()?).filter(|count| *count != NOT_COUNTED),
        at,
    })
}

/// The letter that `/proc/PID/stat` has for a state: `task_state_array` in `fs/proc/array.c`.
const fn letter(state: u32, exit_state: u32) -> u8 {
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
        let used = |user_ns, system_ns, runtime_ns| Used {
            user_ns,
            system_ns,
            runtime_ns,
            ..Used::default()
        };
        let cases = [
            (used(0, 0, 7), (7, 0)),
            (used(4, 0, 7), (7, 0)),
            (used(0, 4, 7), (0, 7)),
            (used(30, 10, 80), (60, 20)),
            (used(u64::MAX, u64::MAX, 8), (4, 4)),
        ];
        for (used, want) in cases {
            assert_eq!(used.split(), want, "{used:?}");
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
            assert_eq!(letter(state, exit_state), want, "{state:#x} {exit_state:#x}");
        }
    }

    fn row(tgid: u32, pid: u32, runtime: u64) -> Vec<u8> {
        let mut bytes = [tgid, pid].map(u32::to_le_bytes).concat();
        bytes.extend([runtime, runtime, 0, 1, 0].map(u64::to_le_bytes).concat());
        bytes.extend([1_u32, 0].map(u32::to_le_bytes).concat());
        if tgid == pid {
            bytes.extend([5_u64, 6, 7, 8, 9].map(u64::to_le_bytes).concat());
            bytes.extend([1_u32, 2, 0].map(u32::to_le_bytes).concat());
            bytes.extend(b"program\0garbage!");
            let open_files = if tgid == 1 { 3 } else { NOT_COUNTED };
            bytes.extend(open_files.to_le_bytes());
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
        let seen = all.finish();
        assert_eq!(seen.threads, 5);
        let times: Vec<_> = seen.processes.iter().map(|one| (one.pid, one.user_ns)).collect();
        assert_eq!(times, [(1, 30), (9, 106)]);
        let first = seen.processes.first().unwrap();
        assert_eq!((first.start_ns, first.resident_pages, first.minor_faults), (5, 9, 2));
        let open_files: Vec<_> = seen.processes.iter().map(|one| one.open_files).collect();
        assert_eq!(open_files, [Some(3), None]);
    }
}
