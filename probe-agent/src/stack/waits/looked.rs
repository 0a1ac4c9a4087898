//! Waits as looks at threads show them, for a login that may do no more: each look at a thread that waits
//! stands for the time since the one before.
//!
//! What is missing: waits between two looks, waiting for a processor, and who woke a thread.

use super::{
    Waits,
    fold::{Fold, Gathered},
    records::{OUTSIDE, RawSubject, Spent, Totals, UNKNOWN, Way},
};
use crate::{
    os::clock,
    perf::sampler::Scope,
    proc::{Root, parse, pid_stat, waiting::InSyscall},
    stack::{
        looks::{
            sight::{Id, Reader, Wait},
            threads,
        },
        record::Window,
        recording::Limits,
    },
};
use rustix::io::Errno;
use std::{
    collections::{HashMap, HashSet, hash_map::DefaultHasher},
    hash::{Hash as _, Hasher as _},
    time::{Duration, Instant},
};

/// How often threads are looked at, and threads of one look; of more, others in the next.
const PAUSE: Duration = Duration::from_millis(50);
const MOST_AT_ONCE: usize = 128;

/// A round takes no more than one of so many parts of the time.
const PART: u32 = 5;

/// Bits of a thread's state, `include/linux/sched.h`.
const INTERRUPTIBLE: u32 = 1;
const UNINTERRUPTIBLE: u32 = 2;

/// What was seen, and what was refused.
#[derive(Debug)]
pub struct Looked {
    /// Waits.
    pub waits: Waits,
    /// What the kernel answered for the first file that is not for everybody.
    pub refused: Option<Errno>,
}

/// Why there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLooked<E> {
    /// There is no such process, or it has ended.
    NoSuchProcess,
    /// The window ended before its time.
    Window(E),
}

/// Ways of threads that were looked at.
pub(super) struct Sights<'r> {
    root: &'r Root,
    /// Functions of the kernel by the number of their stack.
    pub(super) names: HashMap<u64, Vec<Vec<u8>>>,
}

struct Looker<'r> {
    root: &'r Root,
    scope: &'r Scope,
    reader: Reader,
    fold: Fold<'r>,
    ways: HashMap<Way, Spent>,
    sights: Sights<'r>,
    /// Where a thread waited at the last look at it, and when that was.
    last: HashMap<Id, (Option<Way>, Instant)>,
    began: Instant,
    turn: usize,
    refused: Option<Errno>,
    totals: Totals,
}

/// Looks again and again as long as the window goes on. No thread is stopped, and none is touched.
///
/// # Errors
///
/// Why there is nothing.
pub fn look<W: Window>(
    root: &Root,
    scope: &Scope,
    (dump_bytes, limits): (u32, Limits),
    window: &mut W,
) -> Result<Looked, NotLooked<W::End>> {
    let mut looker = Looker {
        root,
        scope,
        reader: Reader::new(root, dump_bytes),
        fold: Fold::new(root, dump_bytes, limits),
        ways: HashMap::new(),
        sights: Sights::new(root),
        last: HashMap::new(),
        began: Instant::now(),
        turn: 0,
        refused: None,
        totals: Totals::default(),
    };
    let start = clock::monotonic();
    let (mut told, mut rounds) = (Duration::ZERO, 0_u64);
    loop {
        let round = Instant::now();
        if !looker.round() && rounds == 0 {
            return Err(NotLooked::NoSuchProcess);
        }
        rounds += 1;
        let elsewhere = looker.reader.cpu + looker.fold.cpu_elsewhere();
        window.add_cpu(elsewhere.saturating_sub(told));
        told = elsewhere;
        let took = round.elapsed();
        let due = PAUSE.saturating_sub(took).max(took.saturating_mul(PART - 1));
        if !pass(window, due).map_err(NotLooked::Window)? {
            return Ok(looker.finish(start));
        }
    }
}

/// Lets time pass. False when the window is over.
fn pass<W: Window>(window: &mut W, due: Duration) -> Result<bool, W::End> {
    let until = Instant::now() + due;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if !window.pass(left)? {
            return Ok(false);
        }
        if until <= Instant::now() {
            return Ok(true);
        }
    }
}

impl Looker<'_> {
    /// Looks at every thread once, or at the next of too many. False when there is none.
    fn round(&mut self) -> bool {
        let mut ids = threads::list(self.root, self.scope);
        if ids.is_empty() {
            return false;
        }
        if ids.len() > MOST_AT_ONCE {
            let start = self.turn % ids.len();
            ids.rotate_left(start);
            ids.truncate(MOST_AT_ONCE);
            self.turn = start + MOST_AT_ONCE;
        }
        for (id, wait) in ids.iter().zip(self.reader.read_each(ids.clone())) {
            self.refused = self.refused.or(wait.refused);
            self.take(*id, &wait);
        }
        true
    }

    fn take(&mut self, id: Id, wait: &Wait) {
        let now = Instant::now();
        let before = self.last.get(&id).copied();
        let since = before.map_or(self.began, |(_, when)| when);
        let time = u64::try_from((now - since).as_nanos()).unwrap_or(u64::MAX);
        let found = self.sights.way_of(id, wait);
        self.last.insert(id, (found.as_ref().map(|(way, _)| *way), now));
        let Some((way, mut spent)) = found else { return };
        if let Some(user) = &wait.user
            && !self.fold.has(&way)
        {
            self.fold.found(way, user, time);
        }
        // It is one wait as long as it is found there each time.
        let goes_on = before.is_some_and(|(last, _)| last == Some(way));
        spent.blocked = time;
        spent.waits = u64::from(!goes_on);
        let known = self.ways.entry(way).or_default();
        let longest = if goes_on { known.longest.saturating_add(time) } else { time };
        known.add(spent);
        known.longest = known.longest.max(longest);
        self.totals.blocked = self.totals.blocked.saturating_add(time);
        self.totals.waits += u64::from(!goes_on);
    }

    fn finish(self, start: Duration) -> Looked {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let waiting: HashSet<Way> = self.last.values().filter_map(|(way, _)| *way).collect();
        let numbered = (1_u64..).zip(self.ways);
        let gathered = Gathered {
            ways: numbered.map(|(number, (way, spent))| (way, number, spent)).collect(),
            kernel_names: self.sights.names,
            totals: self.totals,
            times: (nanos(start), nanos(clock::monotonic())),
            ..Gathered::default()
        };
        let mut waits = self.fold.finish(gathered, &mut |_| {});
        for part in &mut waits.parts {
            part.still_waiting = u32::from(waiting.contains(&part.way));
        }
        waits.still_waiting = waits.parts.iter().map(|part| u64::from(part.still_waiting)).sum();
        Looked { waits, refused: self.refused }
    }
}

impl<'r> Sights<'r> {
    pub(super) fn new(root: &'r Root) -> Self {
        Self { root, names: HashMap::new() }
    }

    /// The way that a thread is found in; nothing where it runs, or ended.
    pub(super) fn way_of(&mut self, (pid, tid): Id, wait: &Wait) -> Option<(Way, Spent)> {
        if wait.refused.is_none() && wait.user.is_none() {
            return None;
        }
        let mut room = [0; 2048];
        let path = format!("{pid}/task/{tid}/stat");
        let stat = pid_stat::parse(self.root.read_proc_once(&path, &mut room).ok()?).ok()?;
        let state = match stat.state {
            b'S' => INTERRUPTIBLE,
            b'D' => UNINTERRUPTIBLE,
            _ => return None,
        };
        let name = stat.name.to_vec();
        let (sp, ip) = wait
            .user
            .as_ref()
            .map_or((0, 0), |user| (user.stack_pointer, user.instruction_pointer));
        let call = match (&wait.entered, &wait.user) {
            (Some(call), _) => call.number.id(),
            (None, Some(_)) => OUTSIDE,
            (None, None) => UNKNOWN,
        };
        let kernel_stack = self.kernel_stack(&wait.kernel);
        let subject =
            wait.entered.map_or(RawSubject::UNKNOWN, |call| subject_of(self.root, pid, call));
        let way = Way { pid, tid, ip, sp, kernel_stack, call, subject };
        let [a, b, c, d, ..] = wait.entered.map_or([0; 6], |call| call.arguments);
        let process = if pid == tid { name.clone() } else { self.process_name(pid) };
        let arguments = [a, b, c, d];
        Some((way, Spent { arguments, state, name, process, ..Spent::default() }))
    }

    pub(super) fn process_name(&self, pid: u32) -> Vec<u8> {
        let mut room = [0; 64];
        let name = self.root.read_proc_once(&format!("{pid}/comm"), &mut room).unwrap_or_default();
        name.strip_suffix(b"\n").unwrap_or(name).to_vec()
    }

    /// The number of functions of the kernel.
    fn kernel_stack(&mut self, names: &[Vec<u8>]) -> u64 {
        if names.is_empty() {
            return 0;
        }
        let mut hasher = DefaultHasher::new();
        names.hash(&mut hasher);
        let number = hasher.finish().max(1);
        self.names.entry(number).or_insert_with(|| names.to_vec());
        number
    }
}

/// What a call waits for, by its arguments and by what is open.
fn subject_of(root: &Root, pid: u32, call: InSyscall) -> RawSubject {
    /// `S_IFMT >> 12`.
    const FIFO: u32 = 1;
    const SOCKET: u32 = 12;
    const REGULAR: u32 = 8;
    let unknown = RawSubject::UNKNOWN;
    let [first, second, ..] = call.arguments;
    match super::followed::says(call.number.name()) {
        super::followed::SAYS_FUTEX => {
            RawSubject { kind: RawSubject::FUTEX, inode: first, ..unknown }
        }
        super::followed::SAYS_POLL => {
            RawSubject { kind: RawSubject::SEVERAL, inode: second, ..unknown }
        }
        super::followed::SAYS_DESCRIPTOR => {
            let Ok(link) = root.link_of_proc(&format!("{pid}/fd/{first}")) else { return unknown };
            let numbered = |start: &[u8]| {
                let number = link.strip_prefix(start)?.strip_suffix(b"]")?;
                parse::number(number, 1).ok()
            };
            if let Some(inode) = numbered(b"pipe:[") {
                return RawSubject { kind: FIFO, inode, ..unknown };
            }
            if let Some(inode) = numbered(b"socket:[") {
                return RawSubject { kind: SOCKET, inode, ..unknown };
            }
            let mut text = Vec::new();
            let _ = root.read_proc(&format!("{pid}/fdinfo/{first}"), &mut text);
            let inode = parse::number_of(&text, "ino").unwrap_or_default();
            let kind = if link.starts_with(b"/") { REGULAR } else { 0 };
            RawSubject { kind, inode, ..unknown }
        }
        _ => unknown,
    }
}
