//! What the threads wait in, looked at again and again through the window.
//!
//! A thread that was not put on a processor since the last look still waits in the same place, so
//! one small file tells, and the costlier ones are read only for those that moved.

use super::threads::Threads;
use crate::{
    instruments::{process_files::ProcessFiles, thread_accounts::ThreadId},
    order,
    proc::{KeptFile, pid_stat, schedstat, waiting, waiting::SyscallLine},
};
use protocol::{
    host_text::HostText,
    instruments::{
        process_inspect::{WaitGroup, WaitKind, Waits},
        process_list::State,
    },
    observed::{Feature, Nature, Observed, Reason},
    units::Percent,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// Threads that are looked at each time. Of more, those that wanted a processor most.
const SAMPLED_THREADS: usize = 64;

/// Pause between two looks; 23 looks fit into a second. Neither divides nor is divided by the
/// periods that programs and kernels like.
const PAUSE: Duration = Duration::from_millis(43);

/// Room for one line of a thread's `stat`.
const LINE_BYTES: usize = 2048;

/// Looks at most, in a long window.
const MOST_LOOKS: u32 = 100;

/// What one thread was found in.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    kind: WaitKind,
    state: char,
    channel: Result<HostText, Reason>,
    syscall: Result<HostText, Reason>,
}

/// Stands where a thread waits in nothing: it runs, or was not in a system call.
fn nothing() -> HostText {
    HostText::new(b"-")
}

pub(super) struct Sampler<'c, 's> {
    files: ProcessFiles<'c, 's>,
    watched: Vec<Watched>,
    /// What threads had used by the start of the window: those that did most come first.
    used: BTreeMap<u32, u64>,
    /// Every thread that was listed at the start or at a look.
    seen: BTreeSet<u32>,
    /// Those of them that are zombies: a first thread that ended before the others stays one.
    ended: BTreeSet<u32>,
    /// Threads looked at in one look, at most.
    most_at_once: usize,
    looks: u32,
    /// Whether a thread was deaf to signals when it was last looked at.
    saw_deaf: bool,
    /// Whether the kernel lets a reader of `syscall` go; else why not.
    exec_lock: Result<(), Reason>,
    pause: Duration,
    /// How often each thread was found in each place.
    found: BTreeMap<ThreadId, BTreeMap<Place, u32>>,
}

/// A thread that is looked at. As far as there is room its files stay open: the kernel then reads
/// no other thread's under the same number.
struct Watched {
    tid: u32,
    /// Known from the first look on.
    start_ticks: Option<u64>,
    stat: Option<KeptFile>,
    schedstat: Option<KeptFile>,
    /// Times it had been put on a processor at the last look.
    slices: Option<u64>,
    /// Where it waited at the last look, if it waited.
    waits_in: Option<Place>,
}

/// Threads in one place.
#[derive(Clone, Debug, Default)]
struct Crowd {
    times: u32,
    threads: u32,
    /// Time blocked there, summed over threads, as a share of the window.
    blocked: f64,
    /// Why some thread's time is not in it.
    unknown: Option<Reason>,
}

impl<'c, 's> Sampler<'c, 's> {
    /// Makes ready to sample threads of one process.
    pub(super) fn new(files: ProcessFiles<'c, 's>, threads: &Threads) -> Self {
        let used: BTreeMap<u32, u64> =
            order::map(threads.iter().map(|(id, thread)| (id.tid, thread.demand_ns())));
        let mut sampler = Self {
            files,
            watched: Vec::new(),
            seen: used.keys().copied().collect(),
            used,
            ended: BTreeSet::new(),
            most_at_once: 0,
            looks: 0,
            saw_deaf: threads.values().any(|thread| is_deaf(thread.state)),
            exec_lock: Ok(()),
            pause: PAUSE,
            found: BTreeMap::new(),
        };
        let busiest = sampler.busiest(|_, used| used.unwrap_or(0));
        sampler.watch(&busiest);
        sampler
    }

    /// The threads for which there is room, largest first.
    fn busiest(&self, weight: impl Fn(u32, Option<u64>) -> u64) -> Vec<u32> {
        let weighed = |tid: &u32| (weight(*tid, self.used.get(tid).copied()), *tid);
        let mut tids: Vec<(u64, u32)> = self.seen.iter().map(weighed).collect();
        order::by_key(&mut tids, |(weight, tid)| (std::cmp::Reverse(*weight), *tid));
        tids.into_iter().take(SAMPLED_THREADS).map(|(_, tid)| tid).collect()
    }

    /// Looks at these threads from now on, as far as there is room.
    fn watch(&mut self, tids: &[u32]) {
        for tid in tids {
            let is_watched = self.watched.iter().any(|watched| watched.tid == *tid);
            let is_full = self.watched.len() >= SAMPLED_THREADS;
            if is_watched || is_full || self.ended.contains(tid) {
                continue;
            }
            let keep = |file| {
                let path = format!("{}/task/{tid}/{file}", self.files.pid);
                self.files.context.root.keep_proc(&path).ok()
            };
            let (stat, schedstat) = (keep("stat"), keep("schedstat"));
            let (tid, start_ticks, slices, waits_in) = (*tid, None, None, None);
            self.watched.push(Watched { tid, start_ticks, stat, schedstat, slices, waits_in });
        }
    }

    /// Lists the threads anew: some have ended, and others were born.
    fn list_again(&mut self) {
        let Ok(tids) = self.files.thread_ids() else { return };
        self.seen.extend(&tids);
        if self.looks == 1 && tids.len() > SAMPLED_THREADS {
            self.choose_again();
        }
        self.watched.retain(|watched| tids.contains(&watched.tid));
        self.watch(&tids);
    }

    /// Chooses those that did most since the start of the window, instead of in their lives.
    fn choose_again(&mut self) {
        let now = |tid| {
            let path = format!("task/{tid}/schedstat");
            let read = self.files.parsed(&path, Feature::SchedulerStatistics, schedstat::parse);
            read.map_or(0, |now| now.demand_ns())
        };
        let busiest = self.busiest(|tid, used| now(tid).saturating_sub(used.unwrap_or(0)));
        self.watched.retain(|watched| busiest.contains(&watched.tid));
        self.watch(&busiest);
    }

    /// When the next look is due, as time since the window's start; `None` when no further one
    /// fits.
    pub(super) fn next_at(&mut self, passed: Duration, window: Duration) -> Option<Duration> {
        self.pause = self.pause.max(window / MOST_LOOKS);
        let next = passed + self.pause;
        (next < window).then_some(next)
    }

    /// Looks at every sampled thread once.
    pub(super) fn look(&mut self) {
        self.looks += 1;
        self.list_again();
        self.try_exec_lock();
        let mut watched = std::mem::take(&mut self.watched);
        // Those that were awake come first: they move on while we look, and a wait of a tenth of a
        // millisecond is over soon.
        order::by_key(&mut watched, |thread| thread.waits_in.is_some());
        // One that has ended makes room, and lets a later thread under its number be looked at.
        watched.retain_mut(|thread| {
            let Some((id, place)) = self.place_of(thread) else { return false };
            *self.found.entry(id).or_default().entry(place).or_default() += 1;
            true
        });
        self.most_at_once = self.most_at_once.max(watched.len());
        self.watched = watched;
    }

    /// Finds out whether the process holds the lock that the kernel takes for `syscall`, and would
    /// not let a reader go. A thread that is handed each read would be too late for short waits, so
    /// one file that takes the same lock is read before the threads are looked at.
    ///
    /// Whoever holds the lock for good is deaf to signals: the first thread, which `execve` leaves,
    /// or before Linux 5.8 any.
    fn try_exec_lock(&mut self) {
        let first = self.watched.iter().find(|thread| thread.tid == self.files.pid);
        // Of more threads than are looked at, the first may not be one that is.
        let may_be_deaf = first.and_then(state_of).is_none_or(is_deaf);
        if may_be_deaf || self.saw_deaf {
            self.exec_lock = match self.files.io() {
                Err(reason @ Reason::DidNotReturn { .. }) => Err(reason),
                Ok(_) | Err(_) => Ok(()),
            };
        }
        self.saw_deaf = false;
    }

    /// Where a thread is; `None` when it has ended.
    fn place_of(&mut self, thread: &mut Watched) -> Option<(ThreadId, Place)> {
        let tid = thread.tid;
        if let (Some(place), Some(start_ticks)) = (&thread.waits_in, thread.start_ticks)
            && thread.slices.is_some()
            && slices(thread) == thread.slices
        {
            self.saw_deaf |= place.state == State::UninterruptibleSleep.letter();
            return Some((ThreadId { tid, start_ticks }, place.clone()));
        }
        let (id, place) = self.read_place(thread)?;
        thread.start_ticks = Some(id.start_ticks);
        thread.slices = slices(thread);
        thread.waits_in = (place.kind != WaitKind::Running).then(|| place.clone());
        Some((id, place))
    }

    fn read_place(&mut self, thread: &Watched) -> Option<(ThreadId, Place)> {
        let mut room = [0; LINE_BYTES];
        // Its state before anything else.
        let line = match &thread.stat {
            Some(kept) => kept.read(&mut room),
            // As many files are kept as may be, or it has ended.
            None => {
                let path = format!("{}/task/{}/stat", self.files.pid, thread.tid);
                self.files.context.root.read_proc_once(&path, &mut room)
            }
        };
        let stat = pid_stat::parse(line.ok()?).ok()?;
        let state = State::from_letter(stat.state);
        let tid = thread.tid;
        self.saw_deaf |= is_deaf(state);
        let id = ThreadId { tid, start_ticks: stat.start_ticks };
        if matches!(state, State::Zombie | State::Dead) {
            self.ended.insert(tid);
            return None;
        }
        if state == State::Running {
            let (kind, state) = (WaitKind::Running, state.letter());
            return Some((
                id,
                Place { kind, state, channel: Ok(nothing()), syscall: Ok(nothing()) },
            ));
        }
        let syscall = self.exec_lock.clone().and_then(|()| {
            let file = format!("task/{tid}/syscall");
            self.files.whole_at_once(&file, Feature::SyscallFile)
        });
        let (line, syscall) = match syscall {
            Ok(text) => {
                let line = waiting::parse_syscall(&text);
                (line, name_of(line))
            }
            Err(Reason::Gone) => (SyscallLine::Unknown, Ok(nothing())),
            Err(reason) => (SyscallLine::Unknown, Err(reason)),
        };
        let channel = match self.files.whole(&format!("task/{tid}/wchan"), Feature::WaitChannel) {
            // To a reader without permission the kernel shows 0 as well.
            Ok(text) if text == b"0" => match &syscall {
                Err(reason @ Reason::NotPermitted(_)) => Err(reason.clone()),
                Ok(_) | Err(_) => Ok(None),
            },
            Ok(text) => Ok(Some(text)),
            Err(Reason::Gone) => Ok(None),
            Err(reason) => Err(reason),
        };
        let known = channel.as_ref().ok().and_then(Option::as_deref);
        let kind = waiting::kind(state, known, line);
        let channel = channel.map(|name| name.map_or_else(nothing, |name| HostText::new(&name)));
        Some((id, Place { kind, state: state.letter(), channel, syscall }))
    }

    /// Whether a thread was listed that is not among these.
    pub(super) fn saw_others(&self, threads: &Threads) -> bool {
        let there: BTreeSet<u32> = threads.keys().map(|id| id.tid).collect();
        !self.seen.is_subset(&there)
    }

    /// What one thread was found in most often.
    pub(super) fn mostly(&self, id: ThreadId) -> Observed<WaitKind> {
        let places = self.found.get(&id).into_iter().flatten();
        let most = places.max_by_key(|(_, times)| **times).map(|(place, _)| place.kind);
        let is_zombie = self.ended.contains(&id.tid);
        let without =
            if is_zombie { Reason::DoesNotApply(Nature::Zombie) } else { Reason::NotSampled };
        most.ok_or(without).into()
    }

    /// All that was found, most often first. `blocked` gives the share of the window for which a
    /// thread was blocked, by the scheduler's account.
    pub(super) fn waits(&self, blocked: impl Fn(ThreadId) -> Observed<f64>) -> Waits {
        let mut crowds: BTreeMap<Place, Crowd> = BTreeMap::new();
        for (id, places) in &self.found {
            add(&mut crowds, places, &blocked(*id));
        }
        let all: u32 = crowds.values().map(|crowd| crowd.times).sum();
        let mut groups: Vec<(u32, WaitGroup)> = crowds
            .iter()
            .map(|(place, crowd)| (crowd.times, self.group(place, crowd, all)))
            .collect();
        order::by_key(&mut groups, |(times, _)| std::cmp::Reverse(*times));
        let looked_at: BTreeSet<u32> =
            self.found.keys().map(|id| id.tid).chain(self.ended.iter().copied()).collect();
        Waits {
            samples: self.looks,
            threads_sampled: count(self.most_at_once),
            threads_total: count(self.seen.len()),
            threads_never_sampled: count(self.seen.difference(&looked_at).count()),
            groups_total: count(groups.len()),
            groups: groups.into_iter().map(|(_, group)| group).collect(),
        }
    }

    fn group(&self, place: &Place, crowd: &Crowd, all: u32) -> WaitGroup {
        let letter = u8::try_from(place.state).unwrap_or(b'?');
        let blocked = Percent::of(crowd.blocked, 1.0).unwrap_or_default();
        WaitGroup {
            kind: place.kind,
            state: State::from_letter(letter),
            channel: place.channel.clone().into(),
            syscall: place.syscall.clone().into(),
            threads: crowd.threads,
            share_pct: Percent::of(f64::from(crowd.times), f64::from(all)).unwrap_or_default(),
            blocked_pct: match &crowd.unknown {
                None => Observed::Known(blocked),
                Some(reason) => Observed::Unknown(reason.clone()),
            },
        }
    }
}

const fn is_deaf(state: State) -> bool {
    matches!(state, State::UninterruptibleSleep)
}

/// The state of a thread now; `None` where its line could not be kept open.
fn state_of(thread: &Watched) -> Option<State> {
    let mut room = [0; LINE_BYTES];
    let line = thread.stat.as_ref()?.read(&mut room).ok()?;
    pid_stat::parse(line).ok().map(|stat| State::from_letter(stat.state))
}

/// Times that a thread was put on a processor; `None` where the kernel does not say.
fn slices(thread: &Watched) -> Option<u64> {
    let mut room = [0; LINE_BYTES];
    let text = thread.schedstat.as_ref()?.read(&mut room).ok()?;
    Some(schedstat::parse(text).ok()?.switches)
}

/// Adds one thread's places to those of all.
///
/// A wait that is long beside a look is found in its share of the looks. Of what the scheduler's
/// account says beyond that, only so much is known: waits too short to be seen. Without an account,
/// it is unknown for how long it was blocked wherever it was found.
fn add(
    crowds: &mut BTreeMap<Place, Crowd>,
    places: &BTreeMap<Place, u32>,
    account: &Observed<f64>,
) {
    let (blocked, unknown) = match account {
        Observed::Known(blocked) => (*blocked, None),
        Observed::Unknown(reason) => (0.0, Some(reason)),
    };
    let is_waiting = |place: &Place| place.kind != WaitKind::Running;
    let looks: u32 = places.values().sum();
    let waiting = places.iter().filter(|(place, _)| is_waiting(place));
    let seen = f64::from(waiting.map(|(_, times)| times).sum::<u32>()) / f64::from(looks.max(1));
    // Few looks may overstate; the account does not.
    let scale = if seen > blocked { blocked / seen } else { 1.0 };
    for (place, times) in places {
        let crowd = crowds.entry(place.clone()).or_default();
        crowd.times += times;
        crowd.threads += 1;
        if is_waiting(place) {
            crowd.blocked += scale * f64::from(*times) / f64::from(looks);
            crowd.unknown = crowd.unknown.take().or_else(|| unknown.cloned());
        }
    }
    // A look is a few percent; less than that is the noise of looking.
    const WORTH_NAMING: f64 = 0.05;
    let unseen = blocked - seen;
    if unseen >= WORTH_NAMING {
        let crowd = crowds.entry(Place::unseen()).or_default();
        crowd.threads += 1;
        crowd.blocked += unseen;
    }
}

impl Place {
    /// Where a thread was that is never caught waiting, while the scheduler says that it was
    /// blocked.
    fn unseen() -> Self {
        Self {
            kind: WaitKind::TooShortToSee,
            state: State::Other.letter(),
            channel: Ok(nothing()),
            syscall: Ok(nothing()),
        }
    }
}

fn name_of(line: SyscallLine) -> Result<HostText, Reason> {
    match line {
        SyscallLine::In(call) => Ok(HostText::new(call.number.name().as_bytes())),
        SyscallLine::Running | SyscallLine::Outside => Ok(nothing()),
        SyscallLine::Unknown => Err(Reason::ForeignSyscall),
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::{
        fake::{FakeMachine, FakeStat},
        process_inspect::threads,
    };

    fn place(kind: WaitKind) -> Place {
        Place { kind, ..Place::unseen() }
    }

    #[test]
    fn the_account_says_how_long_and_the_samples_say_where() {
        let mut crowds = BTreeMap::new();
        // Found in storage once in ten looks, and blocked for most of the time: the rest is unseen.
        let caught = BTreeMap::from([(place(WaitKind::Running), 9), (place(WaitKind::Storage), 1)]);
        add(&mut crowds, &caught, &Observed::Known(0.75));
        // Really running.
        let running = BTreeMap::from([(place(WaitKind::Running), 10)]);
        add(&mut crowds, &running, &Observed::Known(0.001));
        // Found waiting by chance more often than it waited.
        let unlucky = BTreeMap::from([(place(WaitKind::Running), 5), (place(WaitKind::Poll), 5)]);
        add(&mut crowds, &unlucky, &Observed::Known(0.25));
        let blocked = |kind| crowds.get(&place(kind)).map(|crowd| crowd.blocked);
        assert_eq!(blocked(WaitKind::Storage), Some(0.1));
        assert_eq!(blocked(WaitKind::TooShortToSee), Some(0.65));
        assert_eq!(blocked(WaitKind::Poll), Some(0.25));
        assert_eq!(blocked(WaitKind::Running), Some(0.0));
        let running = crowds.get(&place(WaitKind::Running)).unwrap();
        assert_eq!((running.times, running.threads), (24, 3));
    }

    #[test]
    fn a_thread_without_an_account_leaves_unknown_where_it_waited_and_nothing_else() {
        let mut crowds = BTreeMap::new();
        let waited = BTreeMap::from([(place(WaitKind::Running), 1), (place(WaitKind::Pipe), 1)]);
        add(&mut crowds, &waited, &Observed::Unknown(Reason::ThreadsEnded));
        let other = BTreeMap::from([(place(WaitKind::Poll), 2)]);
        add(&mut crowds, &other, &Observed::Known(1.0));
        let unknown = |kind| crowds.get(&place(kind)).and_then(|crowd| crowd.unknown.clone());
        assert_eq!(unknown(WaitKind::Pipe), Some(Reason::ThreadsEnded));
        assert_eq!((unknown(WaitKind::Running), unknown(WaitKind::Poll)), (None, None));
    }

    fn write_thread(machine: &FakeMachine, tid: u32, demand_ns: u64, syscall: &str) -> ThreadId {
        let start_ticks = u64::from(tid);
        machine.thread(7, FakeStat::idle(tid, start_ticks), demand_ns);
        machine.write(&format!("7/task/{tid}/syscall"), syscall);
        machine.write(&format!("7/task/{tid}/wchan"), "do_sys_poll");
        ThreadId { tid, start_ticks }
    }

    const IN_POLL: &str = "7 0x1 0x2 0x3 0x4 0x5 0x6 0x7ffd00000000 0x7f0000000000";

    #[test]
    fn those_that_did_most_are_looked_at_and_the_others_are_counted() {
        let machine = FakeMachine::new();
        machine.stat("7", FakeStat { threads: 100, ..FakeStat::idle(7, 7) });
        // The one that did most by far is the last of a hundred, and did nothing of it now.
        let ids: Vec<_> = (7..107)
            .map(|tid| write_thread(&machine, tid, u64::from(tid / 106) * 9000, IN_POLL))
            .collect();
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let mut sampler = Sampler::new(files, &threads::read(&files, &files.io()).unwrap().0);
        assert!(sampler.watched.iter().any(|watched| watched.tid == 106));
        // Before the first look, the last but one does something.
        let busy = write_thread(&machine, 105, 500, IN_POLL);
        sampler.look();
        assert_eq!(sampler.mostly(busy), Observed::Known(WaitKind::Poll));
        let waits = sampler.waits(|_| Observed::Known(1.0));
        let threads = (waits.threads_sampled, waits.threads_total, waits.threads_never_sampled);
        assert_eq!(threads, (64, 100, 36));
        let unseen = ids.iter().filter(|id| sampler.mostly(**id).known().is_none()).count();
        assert_eq!(unseen, 36);
    }

    #[test]
    fn threads_that_come_and_go_between_the_ends_are_seen() {
        let machine = FakeMachine::new();
        machine.stat("7", FakeStat::idle(7, 7));
        write_thread(&machine, 7, 0, IN_POLL);
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let mut sampler = Sampler::new(files, &threads::read(&files, &files.io()).unwrap().0);
        sampler.look();
        let born = write_thread(&machine, 8, 0, IN_POLL);
        sampler.look();
        assert_eq!(sampler.mostly(born), Observed::Known(WaitKind::Poll));
        assert!(!sampler.saw_others(&threads::read(&files, &files.io()).unwrap().0));
        machine.remove("7/task/8");
        sampler.look();
        assert!(sampler.saw_others(&threads::read(&files, &files.io()).unwrap().0));
    }

    #[test]
    fn a_system_call_without_a_name_is_unknown_and_not_none() {
        let machine = FakeMachine::new();
        machine.stat("7", FakeStat::idle(7, 7));
        // A 32-bit program: call 7 is waitpid there, and poll here.
        write_thread(&machine, 7, 0, "7 0x1 0x2 0x3 0x4 0x5 0x6 0xffe00000 0xf7000000");
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let mut sampler = Sampler::new(files, &threads::read(&files, &files.io()).unwrap().0);
        sampler.look();
        let waits = sampler.waits(|_| Observed::Known(1.0));
        let [group] = waits.groups.as_slice() else { panic!("one group") };
        assert_eq!(group.syscall, Observed::Unknown(Reason::ForeignSyscall));
    }

    #[test]
    fn a_zombie_waits_for_nothing() {
        let machine = FakeMachine::new();
        let ended = FakeStat { state: 'Z', threads: 2, ..FakeStat::idle(7, 7) };
        machine.stat("7", ended);
        machine.thread(7, ended, 0);
        let alive = write_thread(&machine, 8, 0, IN_POLL);
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let mut sampler = Sampler::new(files, &threads::read(&files, &files.io()).unwrap().0);
        sampler.look();
        sampler.look();
        let waits = sampler.waits(|_| Observed::Known(1.0));
        assert_eq!((waits.groups.len(), waits.threads_never_sampled), (1, 0));
        assert_eq!(sampler.mostly(alive), Observed::Known(WaitKind::Poll));
        let zombie = ThreadId { tid: 7, start_ticks: 7 };
        let nature = Reason::DoesNotApply(Nature::Zombie);
        assert_eq!(sampler.mostly(zombie), Observed::Unknown(nature));
    }

    #[test]
    fn a_process_that_holds_its_exec_lock_is_not_asked_for_its_system_calls() {
        let machine = FakeMachine::new();
        let deaf = FakeStat { state: 'D', ..FakeStat::idle(7, 7) };
        machine.stat("7", deaf);
        machine.thread(7, deaf, 0);
        machine.write("7/task/7/wchan", "exec_mmap");
        for file in ["7/io", "7/task/7/io", "7/task/7/syscall"] {
            machine.remove_file(file);
            machine.hang(file);
        }
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let threads = threads::read(&files, &files.io()).unwrap().0;
        let mut sampler = Sampler::new(files, &threads);
        sampler.look();
        let waits = sampler.waits(|_| Observed::Known(1.0));
        let [group] = waits.groups.as_slice() else { panic!("one group") };
        let after_ms = crate::call::millis(crate::proc::PATIENCE);
        let held = Reason::DidNotReturn { after_ms, lock: protocol::observed::Lock::Exec };
        assert_eq!(group.syscall, Observed::Unknown(held));
        assert_eq!(group.channel, Observed::Known(HostText::new(b"exec_mmap")));
    }
}
