//! Looks at what threads are in, for a login that may not sample: their state, the system call and the
//! function of the kernel that they wait in, and the calls that led there.
//!
//! A look is at a moment of the clock on the wall, whether a thread runs or waits; so shares are of
//! that time, and not of processor time. Threads that wait are read without being touched: a thread in
//! a system call has its stack where it left it. Of threads that run only that is known, unless the
//! caller wants them stopped for a moment each ([`crate::os::stopper`]). Short waits are seen too
//! seldom: to look takes longer than they last.

mod named;
pub(super) mod sight;
pub(super) mod threads;
pub(super) mod walks;

pub use threads::list as threads_of;

use super::{
    fold::kin,
    record::Window,
    recording::{Counts, Cut, Limits, Place, Process, Recording, Thread, Tree, Weight},
};
use crate::{
    os::{clock, stopper},
    perf::sampler::{Basis, Losses, Reach, Scope},
    proc::{Root, pid_stat, schedstat},
};
use protocol::instruments::process_list::State;
use rustix::io::Errno;
use sight::{Id, Reader, Wait};
use std::{
    collections::{HashMap, HashSet},
    time::{Duration, Instant},
};
use walks::Walks;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// At whose threads.
    pub scope: Scope,
    /// Rounds in a second.
    pub hertz: u64,
    /// Whether threads may be stopped for a moment: those that run, and those whose calls are not known
    /// without. It may end a system call that sleeps with `EINTR`.
    pub may_stop: bool,
    /// Bytes of stack that are copied.
    pub dump_bytes: u32,
}

impl Settings {
    /// What a thread does in half a tenth of a second is missed, and it costs little.
    pub const DEFAULT_HERTZ: u64 = 20;

    /// More often costs more than it shows.
    pub const MOST_HERTZ: u64 = 50;
}

/// Threads that are looked at in one round; of more, others in the next.
const MOST_AT_ONCE: usize = 128;

/// Threads that are stopped in one round.
const MOST_STOPPED: usize = stopper::MOST_AT_ONCE;

/// A round takes no more than one of so many parts of the time.
const PART: u32 = 5;

/// Why there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoLooks<E> {
    /// There is no such process, or it has ended.
    NoSuchProcess,
    /// The window ended before its time.
    Window(E),
}

/// What was seen.
#[derive(Debug)]
pub struct Looks {
    /// Calls in user space, of threads for which they are known. Its threads stand for a thread in a
    /// state each: see [`Looks::profile`].
    pub stacks: Recording,
    /// Rounds.
    pub rounds: u64,
    /// Looks at one thread each.
    pub looks: Counts,
    /// Processes that were seen.
    pub processes: u32,
    /// Threads that were seen.
    pub threads: u32,
    /// Whether there were more threads than are looked at in one round, and they took turns.
    pub took_turns: bool,
    /// What the kernel answered for the first file that is not for everybody: without it nothing is known
    /// but a thread's state.
    pub refused: Option<Errno>,
    /// Threads that were stopped, and what came of it.
    pub stops: Stops,
    /// Processor time of other threads that looked.
    pub cpu_elsewhere: Duration,
    stand_ins: Vec<StandIn>,
    names: HashMap<Id, Vec<u8>>,
    /// Looks at threads whose calls in user space are not known, by stand-in.
    bare: HashMap<u32, u64>,
}

/// Threads that were stopped for a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stops {
    /// How often one was.
    pub count: u64,
    /// How often one could not be.
    pub failed: u64,
    /// What the kernel answered first.
    pub errno: Option<Errno>,
    /// The longest that one stood still, in microseconds.
    pub pause_us_max: u64,
    /// All of them together, in microseconds.
    pub pause_us_total: u64,
}

/// A thread in a state, in place of a thread of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct StandIn {
    id: Id,
    state: State,
    call: Option<&'static str>,
    kernel: Vec<Vec<u8>>,
}

/// A thread as it was last seen.
struct Seen {
    name: Vec<u8>,
    /// Times that it had been put on a processor.
    slices: Option<u64>,
    /// Where it waited; nothing where it ran.
    waits: Option<(u32, Vec<Place>, Option<Cut>)>,
}

/// What is looked at in a round and was not seen before as it is.
struct Fresh {
    id: Id,
    state: State,
    slices: Option<u64>,
}

struct Looker<'r> {
    root: &'r Root,
    settings: &'r Settings,
    reader: Reader,
    walks: Walks<'r>,
    tree: Tree,
    seen: HashMap<Id, Seen>,
    pids: HashSet<u32>,
    stand_ins: Vec<StandIn>,
    numbers: HashMap<StandIn, u32>,
    weights: Vec<Weight>,
    bare: HashMap<u32, u64>,
    looks: Counts,
    rounds: u64,
    turn: usize,
    took_turns: bool,
    refused: Option<Errno>,
    stops: Stops,
}

const ONE: Weight = Weight { samples: 1, events: 1 };

/// Looks again and again as long as the window goes on. Nothing is attached to any process after it.
///
/// # Errors
///
/// Why there is nothing.
pub fn take<W: Window>(
    root: &Root,
    settings: &Settings,
    limits: Limits,
    window: &mut W,
) -> Result<Looks, NoLooks<W::End>> {
    let mut looker = Looker::new(root, settings, limits);
    let hertz = settings.hertz.clamp(1, Settings::MOST_HERTZ);
    let pause = Duration::from_nanos(1_000_000_000 / hertz);
    let mut told = Duration::ZERO;
    let (started, began) = (Instant::now(), clock::monotonic());
    loop {
        let round = Instant::now();
        if !looker.round() && looker.rounds == 0 {
            return Err(NoLooks::NoSuchProcess);
        }
        let took = round.elapsed();
        let elsewhere = looker.cpu_elsewhere();
        window.add_cpu(elsewhere.saturating_sub(told));
        told = elsewhere;
        // The next is due on the beat, or after a rest where this one took long.
        let due = pause.saturating_sub(took).max(took.saturating_mul(PART - 1));
        let until = Instant::now() + due;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if !window.pass(left).map_err(NoLooks::Window)? {
                let times = (began, began + started.elapsed());
                return Ok(looker.finish(hertz, times));
            }
            if until <= Instant::now() {
                break;
            }
        }
    }
}

impl<'r> Looker<'r> {
    fn new(root: &'r Root, settings: &'r Settings, limits: Limits) -> Self {
        Self {
            root,
            settings,
            reader: Reader::new(root, settings.dump_bytes),
            walks: Walks::new(root),
            tree: Tree::new(limits),
            seen: HashMap::new(),
            pids: HashSet::new(),
            stand_ins: Vec::new(),
            numbers: HashMap::new(),
            weights: Vec::new(),
            bare: HashMap::new(),
            looks: Counts::default(),
            rounds: 0,
            turn: 0,
            took_turns: false,
            refused: None,
            stops: Stops::default(),
        }
    }

    fn cpu_elsewhere(&self) -> Duration {
        self.reader.cpu + self.walks.cpu()
    }

    /// Looks at every thread once, or at the next of too many. False when there is none.
    fn round(&mut self) -> bool {
        let mut ids = threads::list(self.root, &self.settings.scope);
        if ids.is_empty() {
            return false;
        }
        self.rounds += 1;
        if ids.len() > MOST_AT_ONCE {
            self.took_turns = true;
            let start = self.turn % ids.len();
            ids.rotate_left(start);
            ids.truncate(MOST_AT_ONCE);
            self.turn = start + MOST_AT_ONCE;
        }
        let mut fresh = Vec::new();
        for id in ids {
            if !self.is_as_before(id) {
                fresh.extend(self.state_of(id));
            }
        }
        let waits = |state| matches!(state, State::Sleeping | State::UninterruptibleSleep);
        let waiting = fresh.iter().filter(|fresh| waits(fresh.state)).map(|fresh| fresh.id);
        let mut shown: HashMap<Id, Wait> = HashMap::new();
        let waiting: Vec<Id> = waiting.collect();
        for (id, wait) in waiting.iter().zip(self.reader.read_each(waiting.clone())) {
            self.refused = self.refused.or(wait.refused);
            shown.insert(*id, wait);
        }
        let mut to_stop = Vec::new();
        for fresh in fresh {
            let wait = shown.remove(&fresh.id).unwrap_or_default();
            self.add(fresh, wait, &mut to_stop);
        }
        self.stop_each(to_stop);
        true
    }

    /// Counts a thread that was not put on a processor since it was last seen waiting: it waits still.
    fn is_as_before(&mut self, id: Id) -> bool {
        let Some(seen) = self.seen.get(&id) else { return false };
        let (Some(slices), Some((stand_in, places, cut))) = (seen.slices, &seen.waits) else {
            return false;
        };
        if slices_of(self.root, id) != Some(slices) {
            return false;
        }
        let (stand_in, places, cut) = (*stand_in, places.clone(), *cut);
        self.count(stand_in, &places, cut);
        true
    }

    /// The state of a thread now; nothing where it has ended.
    fn state_of(&mut self, id: Id) -> Option<Fresh> {
        let mut room = [0; 2048];
        let path = format!("{}/task/{}/stat", id.0, id.1);
        let stat = pid_stat::parse(self.root.read_proc_once(&path, &mut room).ok()?).ok()?;
        let state = State::from_letter(stat.state);
        if matches!(state, State::Zombie | State::Dead) {
            return None;
        }
        self.pids.insert(id.0);
        let slices = slices_of(self.root, id);
        self.seen.insert(id, Seen { name: stat.name.to_vec(), slices, waits: None });
        Some(Fresh { id, state, slices })
    }

    /// Counts a thread, or notes that it is to be stopped for that.
    fn add(&mut self, fresh: Fresh, wait: Wait, to_stop: &mut Vec<(u32, Id)>) {
        let Fresh { id, state, slices } = fresh;
        let Wait { call, kernel, user, .. } = wait;
        let stand_in = self.stand_in(StandIn { id, state, call, kernel });
        let mut places = Vec::new();
        let cut = match &user {
            Some(user) => self.walks.of_waiting(id.0, user, &mut places),
            None => Some(Cut::StackNotReadable),
        };
        // What sleeps deeply cannot be stopped, and what is stopped is another's.
        let can_stop = matches!(state, State::Running | State::Sleeping);
        let helps = matches!(cut, Some(Cut::StackNotReadable | Cut::NoUnwindInfo));
        if self.settings.may_stop && can_stop && helps && to_stop.len() < MOST_STOPPED {
            to_stop.push((stand_in, id));
            return;
        }
        if state != State::Running
            && let Some(seen) = self.seen.get_mut(&id)
        {
            // Read before the rest: had it run meanwhile, it would not be the same at the next look.
            (seen.slices, seen.waits) = (slices, Some((stand_in, places.clone(), cut)));
        }
        self.count(stand_in, &places, cut);
    }

    fn stop_each(&mut self, to_stop: Vec<(u32, Id)>) {
        if to_stop.is_empty() {
            return;
        }
        let tids: Vec<u32> = to_stop.iter().map(|(_, (_, tid))| *tid).collect();
        let moments = stopper::copy_each(&tids, self.settings.dump_bytes);
        for ((stand_in, (pid, _)), moment) in to_stop.into_iter().zip(moments) {
            let mut places = Vec::new();
            let cut = match moment {
                Ok(moment) => {
                    let pause = u64::try_from(moment.pause.as_micros()).unwrap_or(u64::MAX);
                    self.stops.count += 1;
                    self.stops.pause_us_max = self.stops.pause_us_max.max(pause);
                    self.stops.pause_us_total = self.stops.pause_us_total.saturating_add(pause);
                    self.walks.of_stopped(pid, &moment, &mut places)
                }
                // It ended.
                Err(Errno::SRCH) => continue,
                Err(errno) => {
                    self.stops.failed += 1;
                    self.stops.errno = self.stops.errno.or(Some(errno));
                    let is_32_bit = errno == Errno::OPNOTSUPP;
                    Some(if is_32_bit { Cut::Is32Bit } else { Cut::StackNotReadable })
                }
            };
            self.count(stand_in, &places, cut);
        }
    }

    fn stand_in(&mut self, stand_in: StandIn) -> u32 {
        if let Some(number) = self.numbers.get(&stand_in) {
            return *number;
        }
        let number = u32::try_from(self.stand_ins.len()).unwrap_or(u32::MAX);
        self.stand_ins.push(stand_in.clone());
        self.weights.push(Weight::default());
        self.numbers.insert(stand_in, number);
        number
    }

    fn count(&mut self, stand_in: u32, places: &[Place], cut: Option<Cut>) {
        self.looks.all.add(ONE);
        if places.is_empty() {
            *self.bare.entry(stand_in).or_default() += 1;
            return self.looks.add_cut(cut.unwrap_or(Cut::StackNotReadable), ONE);
        }
        let mut places = places.to_vec();
        places.extend(cut.map(Place::Cut));
        if let Some(weight) = usize::try_from(stand_in).ok().and_then(|at| self.weights.get_mut(at))
        {
            weight.add(ONE);
        }
        let fits = self.tree.add(stand_in, &places, ONE);
        match (fits, cut) {
            (false, _) => self.looks.add_cut(Cut::ByMemory, ONE),
            (true, Some(cut)) => self.looks.add_cut(cut, ONE),
            (true, None) => self.looks.complete.add(ONE),
        }
    }

    fn finish(self, hertz: u64, (first, last): (Duration, Duration)) -> Looks {
        let cpu_elsewhere = self.cpu_elsewhere();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let mut pids: Vec<u32> = self.pids.iter().copied().collect();
        crate::order::ascending(&mut pids);
        let processes = pids.iter().map(|pid| {
            let (inner_pid, parent) = kin(self.root, *pid);
            let name = self.seen.get(&(*pid, *pid)).map_or_else(Vec::new, |seen| seen.name.clone());
            Process { pid: *pid, inner_pid, parent, name }
        });
        let processes: Vec<Process> = processes.collect();
        let process_of =
            |pid: u32| pids.binary_search(&pid).ok().and_then(|at| u32::try_from(at).ok());
        let threads = (0_u32..).zip(self.stand_ins.iter().zip(&self.weights));
        let threads = threads.map(|(number, (stand_in, weight))| Thread {
            process: process_of(stand_in.id.0).unwrap_or_default(),
            tid: number,
            name: Vec::new(),
            weight: *weight,
            first_ns: nanos(first),
            last_ns: nanos(last),
        });
        let threads: Vec<Thread> = threads.collect();
        let (nodes, weights) = self.tree.into_parts();
        let seen = self.seen.len();
        let names = self.seen.into_iter().map(|(id, seen)| (id, seen.name)).collect();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        Looks {
            rounds: self.rounds,
            looks: self.looks.clone(),
            processes: count(processes.len()),
            threads: count(seen),
            took_turns: self.took_turns,
            refused: self.refused,
            stops: self.stops,
            cpu_elsewhere,
            stand_ins: self.stand_ins,
            bare: self.bare,
            names,
            stacks: Recording {
                basis: Basis::of_looks(hertz, self.settings.dump_bytes),
                reach: Reach::default(),
                losses: Losses::default(),
                counts: self.looks,
                images: self.walks.into_images(),
                processes,
                threads,
                nodes,
                weights,
            },
        }
    }
}

/// Times that a thread was put on a processor; `None` where the kernel does not say, or counts none.
pub(crate) fn slices_of(root: &Root, (pid, tid): Id) -> Option<u64> {
    let mut room = [0; 128];
    let text = root.read_proc_once(&format!("{pid}/task/{tid}/schedstat"), &mut room).ok()?;
    let switches = schedstat::parse(text).ok()?.switches;
    (switches > 0).then_some(switches)
}

#[cfg(test)]
mod tests;
