//! From what an engine gathers to a recording.

use super::{
    Part, Waits,
    records::{Copied, OUTSIDE, Open, PREEMPTED, RawSubject, Spent, Totals, Way, Woken},
};
use crate::{
    perf::{
        records::REGISTERS,
        sampler::{Basis, Losses, Reach},
    },
    proc::Root,
    stack::{
        fold::kin,
        looks::{
            sight::{Reader, UserPart},
            walks::{NOT_KNOWN, Walks},
        },
        recording::{Counts, Cut, Limits, Place, Process, Recording, Thread, Tree, Weight},
        unwind::Start,
    },
};
use protocol::instruments::perf_record::Missed;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    time::Duration,
};

/// Waits while they are gathered.
pub struct Fold<'r> {
    root: &'r Root,
    dump_bytes: u32,
    limits: Limits,
    walks: Walks<'r>,
    /// Calls in user space, by way; with a weight each where there are several.
    users: HashMap<Way, Vec<User>>,
    polled: HashMap<Way, RawSubject>,
    cpu: Duration,
}

/// Calls in user space that lead into a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
struct User {
    places: Vec<Place>,
    cut: Option<Cut>,
    weight: u64,
}

/// What an engine gathered beside copies of stacks.
#[derive(Debug, Default)]
pub struct Gathered {
    /// What was waited in each way, with the way's number.
    pub ways: Vec<(Way, u64, Spent)>,
    /// What threads are in after the window.
    pub open: Vec<(Open, u64)>,
    /// Stacks of the kernel by their number, innermost frame first.
    pub kernel_stacks: HashMap<u64, Vec<u64>>,
    /// Names of functions of the kernel by the stack's number, the outermost first, where there are no
    /// addresses.
    pub kernel_names: HashMap<u64, Vec<Vec<u8>>>,
    /// Who ended waits.
    pub wakers: Vec<Woken>,
    /// Sums.
    pub totals: Totals,
    /// From when to when, in nanoseconds of the monotonic clock.
    pub times: (u64, u64),
}

/// Callers of one way that are kept apart.
const MOST_CALLERS: usize = 64;

/// Threads whose stacks are read after the window.
const MOST_OPEN: usize = 2_048;

/// Threads that are read in one go: their copies are in memory together.
const AT_ONCE: usize = 128;

/// The lowest stack pointer of a program that is as wide as this one.
const LIMIT_OF_32_BIT: u64 = 1 << 32;

impl<'r> Fold<'r> {
    /// Nothing yet.
    pub fn new(root: &'r Root, dump_bytes: u32, limits: Limits) -> Self {
        Self {
            root,
            dump_bytes,
            limits,
            walks: Walks::new(root),
            users: HashMap::new(),
            polled: HashMap::new(),
            cpu: Duration::ZERO,
        }
    }

    /// Processor time of other threads that read for this.
    pub fn cpu_elsewhere(&self) -> Duration {
        self.cpu + self.walks.cpu()
    }

    /// Takes the copy of a stack.
    pub fn copied(&mut self, copied: &Copied<'_>) {
        let Copied { way, weight, registers, polled, stack, is_full } = *copied;
        if polled.kind != RawSubject::NONE {
            self.polled.insert(way, polled);
        }
        let start = Start { registers: registers_of(&way, registers), stack, is_full };
        self.walk(way, start, weight);
    }

    /// Takes the stack of a thread with all registers that samples have.
    pub(super) fn sampled(
        &mut self,
        way: Way,
        registers: &[u64],
        (stack, is_full): (&[u8], bool),
        weight: u64,
    ) {
        let Some(registers) = registers.first_chunk().copied() else { return };
        self.walk(way, Start { registers, stack, is_full }, weight);
    }

    /// Takes the stack of a thread that was found waiting.
    pub(super) fn found(&mut self, way: Way, user: &UserPart, weight: u64) {
        let registers = registers_of(&way, [NOT_KNOWN; 2]);
        self.walk(way, Start { registers, stack: &user.stack, is_full: user.is_full }, weight);
    }

    /// Whether a stack is known of a way.
    pub fn has(&self, way: &Way) -> bool {
        self.users.contains_key(way)
    }

    fn walk(&mut self, way: Way, start: Start<'_>, weight: u64) {
        let mut places = Vec::new();
        let cut = if way.sp < LIMIT_OF_32_BIT {
            Some(Cut::Is32Bit)
        } else {
            self.walks.walk(way.pid, start, &mut places)
        };
        let users = self.users.entry(way).or_default();
        if let Some(same) = users.iter_mut().find(|user| user.places == places) {
            same.weight = same.weight.saturating_add(weight);
        } else if users.len() < MOST_CALLERS {
            users.push(User { places, cut, weight });
        } else if let Some(last) = users.last_mut() {
            last.weight = last.weight.saturating_add(weight);
        }
    }

    /// Makes a recording of all of it. Tells how much processor time other threads spent on all.
    pub fn finish(mut self, gathered: Gathered, spent: &mut dyn FnMut(Duration)) -> Waits {
        let Gathered { ways, open, kernel_stacks, kernel_names, wakers, mut totals, times } =
            gathered;
        let open_stacks = self.read_open(&open);
        spent(self.cpu_elsewhere());
        let mut parts: BTreeMap<Way, Part> = BTreeMap::new();
        for (way, number, spent) in ways {
            let subject = self.polled.get(&way).copied().unwrap_or(way.subject);
            parts.insert(way, Part { way, number, spent, still_waiting: 0, subject });
        }
        for (open, number) in open {
            add_open(open, number, &mut parts, &mut totals);
        }
        let still_waiting = parts.values().map(|part| u64::from(part.still_waiting)).sum();
        let accounted: u64 = parts.values().map(|part| part.spent.time()).sum();
        let all = totals.blocked + totals.queued + totals.preempted;
        let missed = Missed {
            without_stack_us: all.saturating_sub(accounted) / 1000,
            ways: totals.lost_ways,
            copies: totals.lost_copies,
            kernel_stacks: totals.lost_kernel_stacks,
            wakers: totals.lost_wakers,
            threads: totals.lost_threads,
            open_stacks,
        };
        let parts: Vec<Part> = parts.into_values().collect();
        let mut by_way: HashMap<u64, Vec<Woken>> = HashMap::new();
        for woken in wakers {
            by_way.entry(woken.way).or_default().push(woken);
        }
        let (stacks, waker_stacks) = self.recording(&parts, &by_way, (&kernel_stacks, times));
        Waits {
            stacks,
            parts,
            totals,
            still_waiting,
            missed,
            kernel_names,
            wakers: by_way,
            waker_stacks,
        }
    }

    /// Reads the stacks of threads that wait still. Gives how many were not.
    fn read_open(&mut self, open: &[(Open, u64)]) -> u64 {
        let mut waiting: Vec<&Open> = open
            .iter()
            .map(|(open, _)| open)
            .filter(|open| open.is_waiting && open.spent.time() > 0)
            .filter(|open| !self.users.contains_key(&open.way))
            .collect();
        crate::order::by_key(&mut waiting, |open| Reverse(open.spent.time()));
        let left = waiting.len().saturating_sub(MOST_OPEN);
        waiting.truncate(MOST_OPEN);
        let mut reader = Reader::new(self.root, self.dump_bytes);
        for some in waiting.chunks(AT_ONCE) {
            let ids = some.iter().map(|open| (open.way.pid, open.way.tid)).collect();
            for (open, seen) in some.iter().zip(reader.read_each(ids)) {
                let Some(user) = seen.user.filter(|user| is_at(user, &open.way)) else { continue };
                let registers = registers_of(&open.way, open.registers);
                let start = Start { registers, stack: &user.stack, is_full: user.is_full };
                self.walk(open.way, start, open.spent.time());
            }
        }
        self.cpu += reader.cpu;
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// The stacks, and the numbers of those that woke.
    fn recording(
        self,
        parts: &[Part],
        wakers: &HashMap<u64, Vec<Woken>>,
        (kernel_stacks, times): (&HashMap<u64, Vec<u64>>, (u64, u64)),
    ) -> (Recording, HashMap<u64, u32>) {
        let mut made = Made::new(self.root, self.limits, times);
        let mut siblings: HashMap<(u32, u32, u64, u64, i32), &Vec<User>> = HashMap::new();
        for (way, users) in &self.users {
            siblings.insert(way.entrance(), users);
        }
        for part in parts {
            let users = self.users.get(&part.way);
            let users = users.or_else(|| siblings.get(&part.way.entrance()).copied());
            let kernel = kernel_stacks.get(&part.way.kernel_stack);
            made.add(part, users.map_or(&[], Vec::as_slice), kernel.map_or(&[], Vec::as_slice));
        }
        let mut waker_stacks = HashMap::new();
        for woken in wakers.values().flatten() {
            let Some(frames) = kernel_stacks.get(&woken.kernel_stack) else { continue };
            waker_stacks.entry(woken.kernel_stack).or_insert_with(|| made.add_waker(frames));
        }
        let basis = Basis::of_waits(self.dump_bytes);
        (made.finish(basis, self.walks), waker_stacks)
    }
}

/// Whether a thread is where the kernel saw it.
const fn is_at(user: &UserPart, way: &Way) -> bool {
    user.stack_pointer == way.sp && user.instruction_pointer == way.ip
}

/// Adds what a thread is in after the window, and what it waited with no way yet.
fn add_open(open: Open, number: u64, parts: &mut BTreeMap<Way, Part>, totals: &mut Totals) {
    let Open { way, spent, preempted, is_waiting, .. } = open;
    if preempted > 0 {
        let nowhere = Way {
            ip: 0,
            sp: 0,
            kernel_stack: 0,
            call: PREEMPTED,
            subject: RawSubject::UNKNOWN,
            ..way
        };
        let spent = Spent {
            queued: preempted,
            name: spent.name.clone(),
            process: spent.process.clone(),
            ..Spent::default()
        };
        let part = parts.entry(nowhere).or_insert_with(|| part_of(nowhere, 0));
        part.spent.add(spent);
    }
    if spent.time() == 0 || !is_waiting {
        return;
    }
    totals.waits = totals.waits.saturating_add(spent.waits);
    totals.began_before = totals.began_before.saturating_add(spent.began_before);
    let part = parts.entry(way).or_insert_with(|| part_of(way, number));
    part.still_waiting += 1;
    part.spent.add(spent);
}

fn part_of(way: Way, number: u64) -> Part {
    Part { way, number, spent: Spent::default(), still_waiting: 0, subject: way.subject }
}

/// A recording while it is made.
struct Made<'r> {
    root: &'r Root,
    tree: Tree,
    counts: Counts,
    processes: Vec<Process>,
    by_pid: HashMap<u32, u32>,
    threads: Vec<Thread>,
    times: (u64, u64),
}

impl<'r> Made<'r> {
    fn new(root: &'r Root, limits: Limits, times: (u64, u64)) -> Self {
        Self {
            root,
            tree: Tree::new(limits),
            counts: Counts::default(),
            processes: Vec::new(),
            by_pid: HashMap::new(),
            threads: Vec::new(),
            times,
        }
    }

    fn add(&mut self, part: &Part, users: &[User], kernel: &[u64]) {
        let process = self.process_of(part.way.pid, &part.spent.process);
        let weight = Weight { samples: part.spent.waits, events: part.spent.time() };
        let number = self.stand_in(process, weight);
        let in_kernel = kernel_places(kernel);
        if users.is_empty() {
            let mut places = in_kernel;
            let cut = outside(&part.way, &mut places);
            return self.count(number, &places, cut, (part.spent.blocked, part.spent.queued));
        }
        let shares = shares(users, (part.spent.blocked, part.spent.queued));
        for (user, share) in users.iter().zip(shares) {
            let mut places = in_kernel.clone();
            places.extend_from_slice(&user.places);
            self.count(number, &places, user.cut, share);
        }
    }

    /// A stack that woke: it weighs nothing, and is here to be named.
    fn add_waker(&mut self, frames: &[u64]) -> u32 {
        let number = self.stand_in(0, Weight::default());
        self.tree.add(number, &kernel_places(frames), Weight::default());
        number
    }

    fn stand_in(&mut self, process: u32, weight: Weight) -> u32 {
        let number = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let (first_ns, last_ns) = self.times;
        let (tid, name) = (number, Vec::new());
        self.threads.push(Thread { process, tid, name, weight, first_ns, last_ns });
        number
    }

    fn count(
        &mut self,
        number: u32,
        places: &[Place],
        cut: Option<Cut>,
        (blocked, queued): (u64, u64),
    ) {
        let mut places = places.to_vec();
        places.extend(cut.map(Place::Cut));
        let weight = Weight { samples: 1, events: blocked.saturating_add(queued) };
        let mut fits = true;
        if blocked > 0 {
            fits &= self.tree.add(number, &places, Weight { samples: 1, events: blocked });
        }
        if queued > 0 {
            places.insert(0, Place::RunQueue);
            fits &= self.tree.add(number, &places, Weight { samples: 1, events: queued });
        }
        self.counts.all.add(weight);
        match (fits, cut) {
            (false, _) => self.counts.add_cut(Cut::ByMemory, weight),
            (true, Some(cut)) => self.counts.add_cut(cut, weight),
            (true, None) => self.counts.complete.add(weight),
        }
    }

    fn process_of(&mut self, pid: u32, name: &[u8]) -> u32 {
        if let Some(known) = self.by_pid.get(&pid) {
            return *known;
        }
        let (inner_pid, parent) = kin(self.root, pid);
        let number = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        self.processes.push(Process { pid, inner_pid, parent, name: name.to_vec() });
        self.by_pid.insert(pid, number);
        number
    }

    fn finish(self, basis: Basis, walks: Walks<'_>) -> Recording {
        let (nodes, weights) = self.tree.into_parts();
        Recording {
            basis,
            reach: Reach::default(),
            losses: Losses::default(),
            counts: self.counts,
            images: walks.into_images(),
            processes: self.processes,
            threads: self.threads,
            nodes,
            weights,
        }
    }
}

/// What blocked and what queued time each caller has, by the weights of its copies; together all of it.
fn shares(users: &[User], (blocked, queued): (u64, u64)) -> Vec<(u64, u64)> {
    let all: u64 = users.iter().map(|user| user.weight).sum();
    let part = |time: u64, weight: u64| {
        let part = u128::from(time) * u128::from(weight) / u128::from(all.max(1));
        u64::try_from(part).unwrap_or(time)
    };
    let mut shares: Vec<(u64, u64)> =
        users.iter().map(|user| (part(blocked, user.weight), part(queued, user.weight))).collect();
    let given = shares.iter().fold((0, 0), |sum, share| (sum.0 + share.0, sum.1 + share.1));
    if let Some(first) = shares.first_mut() {
        first.0 += blocked.saturating_sub(given.0);
        first.1 += queued.saturating_sub(given.1);
    }
    shares
}

/// Without a copy of the stack: where user space was left is known, and not who called that.
fn outside(way: &Way, places: &mut Vec<Place>) -> Option<Cut> {
    if way.call == PREEMPTED {
        return None;
    }
    if way.call == OUTSIDE && way.ip != 0 {
        places.push(Place::Unmapped(way.ip));
    }
    Some(Cut::StackNotReadable)
}

/// Frames as places. All but the innermost are return addresses.
fn kernel_places(frames: &[u64]) -> Vec<Place> {
    let place =
        |(at, address): (usize, &u64)| Place::Kernel(address.saturating_sub(u64::from(at > 0)));
    frames.iter().enumerate().map(place).collect()
}

#[cfg(target_arch = "x86_64")]
const fn registers_of(way: &Way, [frame, _]: [u64; 2]) -> [u64; REGISTERS] {
    [frame, way.sp, way.ip]
}

#[cfg(target_arch = "aarch64")]
const fn registers_of(way: &Way, [frame, link]: [u64; 2]) -> [u64; REGISTERS] {
    [frame, link, way.sp, way.ip]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(at: u64, weight: u64) -> User {
        User { places: vec![Place::Unmapped(at)], cut: None, weight }
    }

    #[test]
    fn callers_of_one_way_share_its_time_and_nothing_is_lost() {
        let cases = [
            (vec![user(1, 5)], (7, 3), vec![(7, 3)]),
            (vec![user(1, 1), user(2, 2)], (10, 0), vec![(4, 0), (6, 0)]),
            (vec![user(1, 0), user(2, 0)], (10, 1), vec![(10, 1), (0, 0)]),
        ];
        for (users, time, want) in cases {
            assert_eq!(shares(&users, time), want);
        }
        let (large, half) = (u64::MAX, u64::MAX / 2);
        let found = shares(&[user(1, half), user(2, half)], (large, 0));
        assert_eq!(found.iter().map(|share| share.0).sum::<u64>(), large);
    }

    #[test]
    fn what_is_open_at_the_end_is_added_to_its_way_and_what_was_preempted_to_none() {
        let way = Way {
            pid: 7,
            tid: 8,
            ip: 1,
            sp: LIMIT_OF_32_BIT,
            kernel_stack: 5,
            call: 0,
            subject: RawSubject::UNKNOWN,
        };
        let spent = Spent { blocked: 40, waits: 1, longest: 40, ..Spent::default() };
        let mut totals = Totals::default();
        let known = Spent { blocked: 2, waits: 1, longest: 2, ..Spent::default() };
        let mut parts = BTreeMap::from([(way, Part { spent: known, ..part_of(way, 9) })]);
        let open = Open { way, spent, preempted: 3, registers: [0; 2], is_waiting: true };
        let gone = Open { is_waiting: false, preempted: 0, ..open.clone() };
        add_open(open, 9, &mut parts, &mut totals);
        add_open(gone, 9, &mut parts, &mut totals);
        let times: Vec<(i32, u64, u32)> = parts
            .values()
            .map(|part| (part.way.call, part.spent.time(), part.still_waiting))
            .collect();
        assert_eq!(times, [(PREEMPTED, 3, 0), (0, 42, 1)]);
        assert_eq!((totals.waits, parts[&way].spent.longest), (1, 40));
    }
}
