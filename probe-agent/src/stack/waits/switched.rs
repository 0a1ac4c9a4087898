//! Waits as records of context switches show them, where programs in the kernel may not: a thread's stack
//! when it gives its processor up, and when it has one again.
//!
//! What is missing: when it was woken, and by whom, so waiting for a processor is in the time that it was
//! blocked; and arguments of system calls. What waits all through the window is looked at once, at its end.

use super::{
    Waits,
    fold::{Fold, Gathered},
    looked::Sights,
    records::{Open, PREEMPTED, RawSubject, Spent, Totals, UNKNOWN, Way},
};
use crate::{
    os::clock,
    perf::{
        attr::USER_REGISTERS,
        records::{Mode, Record, Sample, Switched, User},
        sampler::{Measure, Sampler, Scope, Settings, UserStack},
    },
    proc::Root,
    stack::{
        looks::{sight::Reader, threads},
        record::{NoRecording, Window},
        recording::Limits,
    },
};
use std::{
    collections::{HashMap, HashSet, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    time::Duration,
};

/// Threads that are looked at after the window.
const MOST_LOOKS: usize = 1_024;

/// A copy of a stack is walked each time that so large a part of its way's time has none.
const PART: u64 = 16;

/// A thread that has no processor.
struct Off {
    way: Way,
    since: u64,
    is_preempted: bool,
    /// Registers and stack, where they are to be walked.
    user: Option<(Vec<u64>, Vec<u8>, bool)>,
}

struct Follower<'r> {
    root: &'r Root,
    own_pid: u32,
    fold: Fold<'r>,
    ways: HashMap<Way, (Spent, u64)>,
    kernel_stacks: HashMap<u64, Vec<u64>>,
    off: HashMap<u32, Off>,
    met: HashSet<u32>,
    totals: Totals,
    sights: Sights<'r>,
}

/// Follows switches as long as the window goes on. Nothing is attached to any process after it.
///
/// # Errors
///
/// Why there is nothing.
pub fn follow<W: Window>(
    root: &Root,
    scope: &Scope,
    (dump_bytes, limits): (u32, Limits),
    window: &mut W,
) -> Result<Waits, NoRecording<W::End>> {
    let settings = Settings {
        measure: Measure::Waits,
        hertz: 1,
        stack: UserStack::UnwindTables { dump_bytes },
        ..Settings::cpu(scope.clone())
    };
    let mut sampler = Sampler::open(root, &settings).map_err(NoRecording::Sampler)?;
    let mut follower = Follower {
        root,
        own_pid: std::process::id(),
        fold: Fold::new(root, dump_bytes, limits),
        ways: HashMap::new(),
        kernel_stacks: HashMap::new(),
        off: HashMap::new(),
        met: HashSet::new(),
        totals: Totals::default(),
        sights: Sights::new(root),
    };
    let start = now();
    sampler.start().map_err(NoRecording::Sampler)?;
    let mut told = Duration::ZERO;
    while window.pass(sampler.pace()).map_err(NoRecording::Window)? {
        sampler.drain(&mut |record| follower.take(record, start));
        let elsewhere = follower.fold.cpu_elsewhere();
        window.add_cpu(elsewhere.saturating_sub(told));
        told = elsewhere;
    }
    let end = now();
    let losses = sampler.finish(&mut |record| follower.take(record, start));
    let mut waits = follower.finish(scope, (dump_bytes, (start, end)));
    waits.missed.copies = losses.lost;
    Ok(waits)
}

fn now() -> u64 {
    u64::try_from(clock::monotonic().as_nanos()).unwrap_or(u64::MAX)
}

impl Follower<'_> {
    fn take(&mut self, record: &Record<'_>, start: u64) {
        match record {
            Record::Sample(sample) if sample.pid != 0 && sample.pid != self.own_pid => {
                self.left(sample);
            }
            Record::Switched(switched) if switched.pid != 0 && switched.pid != self.own_pid => {
                if switched.is_out {
                    if let Some(off) = self.off.get_mut(&switched.tid) {
                        off.is_preempted = switched.is_preempted;
                    }
                } else {
                    self.came(switched, start);
                }
            }
            Record::Ended(family) => {
                self.off.remove(&family.tid);
            }
            Record::Sample(_)
            | Record::Switched(_)
            | Record::Mapped(_)
            | Record::Named(_)
            | Record::Born(_)
            | Record::Lost(_)
            | Record::LostSamples(_)
            | Record::Throttled
            | Record::Unthrottled
            | Record::Other(_) => {}
        }
    }

    /// A thread gives its processor up.
    fn left(&mut self, sample: &Sample<'_>) {
        let kernel: Vec<u64> = sample
            .chain
            .frames()
            .filter(|(mode, _)| *mode == Mode::Kernel)
            .map(|(_, address)| address)
            .collect();
        let mut hasher = DefaultHasher::new();
        kernel.hash(&mut hasher);
        let kernel_stack = hasher.finish().max(1);
        self.kernel_stacks.entry(kernel_stack).or_insert(kernel);
        let User::Known { registers, stack, is_full } = &sample.user else {
            // Threads of the kernel, and those that end.
            self.met.insert(sample.tid);
            return;
        };
        let way = Way {
            pid: sample.pid,
            tid: sample.tid,
            ip: register(registers, IP),
            sp: register(registers, SP),
            kernel_stack,
            call: UNKNOWN,
            subject: RawSubject::UNKNOWN,
        };
        let (known, not_walked) =
            self.ways.get(&way).map_or((0, 0), |(spent, not_walked)| (spent.time(), *not_walked));
        let wants_walk = !self.fold.has(&way) || not_walked >= known / PART;
        let user = wants_walk.then(|| (registers.to_vec(), stack.to_vec(), *is_full));
        self.met.insert(sample.tid);
        let off = Off { way, since: sample.time_ns, is_preempted: false, user };
        self.off.insert(sample.tid, off);
    }

    /// A thread has a processor again.
    fn came(&mut self, switched: &Switched, start: u64) {
        let Switched { pid, tid, time_ns, .. } = *switched;
        let Some(off) = self.off.remove(&tid) else {
            if self.met.insert(tid) {
                let time = time_ns.saturating_sub(start);
                let way = nowhere(pid, tid, UNKNOWN);
                self.add(way, Spent { began_before: 1, ..waited(time) });
                self.totals.began_before += 1;
            }
            return;
        };
        let time = time_ns.saturating_sub(off.since);
        if off.is_preempted {
            self.totals.preempted = self.totals.preempted.saturating_add(time);
            let spent = Spent { queued: time, waits: 1, ..Spent::default() };
            return self.add(nowhere(pid, tid, PREEMPTED), spent);
        }
        self.add(off.way, waited(time));
        if let Some((registers, stack, is_full)) = off.user {
            let not_walked = self.ways.get_mut(&off.way).map(|(_, not_walked)| not_walked);
            let weight = not_walked.map_or(time, std::mem::take);
            self.fold.sampled(off.way, &registers, (&stack, is_full), weight);
        }
    }

    fn add(&mut self, way: Way, spent: Spent) {
        if way.call != PREEMPTED {
            self.totals.blocked = self.totals.blocked.saturating_add(spent.blocked);
            self.totals.waits += spent.waits;
        }
        let (root, sights) = (self.root, &self.sights);
        let (known, not_walked) = self.ways.entry(way).or_insert_with(|| {
            let mut room = [0; 64];
            let path = format!("{}/task/{}/comm", way.pid, way.tid);
            let name = root.read_proc_once(&path, &mut room).unwrap_or_default();
            let name = name.strip_suffix(b"\n").unwrap_or(name).to_vec();
            (Spent { name, process: sights.process_name(way.pid), ..Spent::default() }, 0)
        });
        *not_walked = not_walked.saturating_add(spent.time());
        let (name, process) = (known.name.clone(), known.process.clone());
        known.add(Spent { name, process, ..spent });
    }

    fn finish(mut self, scope: &Scope, (dump_bytes, times): (u32, (u64, u64))) -> Waits {
        let (start, end) = times;
        let mut waiting: HashMap<u32, (u64, bool)> = HashMap::new();
        for (tid, off) in self.off.drain() {
            waiting.insert(tid, (off.since, off.is_preempted));
        }
        let ids = threads::list(self.root, scope).into_iter();
        let ids = ids.filter(|(_, tid)| waiting.contains_key(tid) || !self.met.contains(tid));
        let ids: Vec<(u32, u32)> = ids.take(MOST_LOOKS).collect();
        let mut reader = Reader::new(self.root, dump_bytes);
        let mut open = Vec::new();
        for some in ids.chunks(128) {
            for (id, wait) in some.iter().zip(reader.read_each(some.to_vec())) {
                let Some((way, spent)) = self.sights.way_of(*id, &wait) else { continue };
                let (since, is_preempted) = waiting.get(&id.1).copied().unwrap_or((start, false));
                if is_preempted {
                    continue;
                }
                let time = end.saturating_sub(since);
                if let Some(user) = &wait.user {
                    self.fold.found(way, user, time);
                }
                let began_before = u64::from(since == start);
                let spent = Spent { blocked: time, waits: 1, longest: time, began_before, ..spent };
                let open_one =
                    Open { way, spent, preempted: 0, registers: [0; 2], is_waiting: true };
                open.push((open_one, 0));
                self.totals.blocked = self.totals.blocked.saturating_add(time);
            }
        }
        let gathered = Gathered {
            ways: self.ways.into_iter().map(|(way, (spent, _))| (way, 0, spent)).collect(),
            open,
            kernel_stacks: self.kernel_stacks,
            kernel_names: self.sights.names,
            totals: self.totals,
            times,
            ..Gathered::default()
        };
        self.fold.finish(gathered, &mut |_| {})
    }
}

/// One wait.
fn waited(time: u64) -> Spent {
    Spent { blocked: time, waits: 1, longest: time, ..Spent::default() }
}

/// A way of which only the thread is known.
fn nowhere(pid: u32, tid: u32, call: i32) -> Way {
    Way { pid, tid, ip: 0, sp: 0, kernel_stack: 0, call, subject: RawSubject::UNKNOWN }
}

/// The places of the stack pointer and of the instruction pointer among the registers of a sample: their
/// bits in [`USER_REGISTERS`], of which these are the last two.
const IP: u32 = USER_REGISTERS.count_ones() - 1;
const SP: u32 = USER_REGISTERS.count_ones() - 2;

/// A register of a sample.
fn register(registers: &[u64], place: u32) -> u64 {
    let place = usize::try_from(place).unwrap_or(usize::MAX);
    registers.get(place).copied().unwrap_or_default()
}
