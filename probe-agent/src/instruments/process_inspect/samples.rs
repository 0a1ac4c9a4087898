//! What the threads wait in, looked at again and again through the window.
//!
//! A thread that was not put on a processor since the last look still waits in the same place, so
//! one small file tells, and the costlier ones are read only for those that moved.

use crate::{
    instruments::process_files::ProcessFiles,
    proc::{KeptFile, pid_stat, schedstat, waiting, waiting::SyscallLine},
};
use protocol::{
    host_text::HostText,
    instruments::{
        process_inspect::{WaitGroup, WaitKind, Waits},
        process_list::State,
    },
    observed::{Feature, Observed, Reason},
    units::Percent,
};
use std::{collections::BTreeMap, time::Duration};

/// Threads that are looked at each time. Of more, an even spread.
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
    channel: Result<HostText, Unreadable>,
    syscall: Result<HostText, Unreadable>,
}

/// Why a place has no name; ordered, so that equal places count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unreadable {
    /// The thread did not wait in anything.
    Nothing,
    NotPermitted,
    Missing,
}

pub(super) struct Sampler<'c, 's> {
    files: ProcessFiles<'c, 's>,
    watched: Vec<Watched>,
    threads_total: usize,
    looks: u32,
    pause: Duration,
    /// How often each thread was found in each place.
    found: BTreeMap<u32, BTreeMap<Place, u32>>,
    /// Reason for refused reads, once seen.
    refusal: Option<Reason>,
}

/// One thread that is looked at.
#[derive(Debug)]
struct Watched {
    tid: u32,
    stat: Option<KeptFile>,
    schedstat: Option<KeptFile>,
    /// Times it had been put on a processor by the last look.
    slices: Option<u64>,
    /// Where it was then, unless it was running.
    waits_in: Option<Place>,
}

/// All threads that were found in one place.
#[derive(Debug, Default)]
struct Crowd {
    times: u32,
    threads: u32,
    /// Time that they were blocked there, as a share of the window.
    blocked: f64,
}

impl<'c, 's> Sampler<'c, 's> {
    pub(super) fn new(files: ProcessFiles<'c, 's>, tids: impl Iterator<Item = u32>) -> Self {
        let all: Vec<u32> = tids.collect();
        let step = all.len().div_ceil(SAMPLED_THREADS).max(1);
        let watched = all.iter().step_by(step).map(|tid| {
            let keep = |file| {
                files.context.root.keep_proc(&format!("{}/task/{tid}/{file}", files.pid)).ok()
            };
            let (stat, schedstat) = (keep("stat"), keep("schedstat"));
            Watched { tid: *tid, stat, schedstat, slices: None, waits_in: None }
        });
        Self {
            watched: watched.collect(),
            files,
            threads_total: all.len(),
            looks: 0,
            pause: PAUSE,
            found: BTreeMap::new(),
            refusal: None,
        }
    }

    /// When the next look is due, as time since the window's start; `None` when no further one
    /// fits.
    pub(super) fn next_at(&mut self, passed: Duration, window: Duration) -> Option<Duration> {
        self.pause = self.pause.max(window / MOST_LOOKS);
        let next = passed + self.pause;
        (next < window && !self.watched.is_empty()).then_some(next)
    }

    /// Looks at every sampled thread once.
    pub(super) fn look(&mut self) {
        self.looks += 1;
        let mut watched = std::mem::take(&mut self.watched);
        // Those that were awake come first: they move on while we look, and a wait of a tenth of a
        // millisecond is over soon.
        watched.sort_by_key(|thread| thread.waits_in.is_some());
        for thread in &mut watched {
            if let Some(place) = self.place_of(thread) {
                *self.found.entry(thread.tid).or_default().entry(place).or_default() += 1;
            }
        }
        self.watched = watched;
    }

    /// Where a thread is; `None` when it has ended.
    fn place_of(&mut self, thread: &mut Watched) -> Option<Place> {
        if let Some(place) = &thread.waits_in
            && thread.slices.is_some()
            && slices(thread) == thread.slices
        {
            return Some(place.clone());
        }
        let place = self.read_place(thread)?;
        thread.slices = slices(thread);
        thread.waits_in = (place.kind != WaitKind::Running).then(|| place.clone());
        Some(place)
    }

    fn read_place(&mut self, thread: &Watched) -> Option<Place> {
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
        let line = line.ok()?;
        let state = State::from_letter(pid_stat::parse(line).ok()?.state);
        let tid = thread.tid;
        if state == State::Running {
            return Some(Place {
                kind: WaitKind::Running,
                state: state.letter(),
                channel: Err(Unreadable::Nothing),
                syscall: Err(Unreadable::Nothing),
            });
        }
        let (line, syscall) = match self.file(tid, "syscall", Feature::SyscallFile) {
            Ok(text) => {
                let line = waiting::parse_syscall(&text);
                (line, name_of(line).ok_or(Unreadable::Nothing))
            }
            Err(unreadable) => (SyscallLine::Unknown, Err(unreadable)),
        };
        let channel = match self.file(tid, "wchan", Feature::WaitChannel) {
            // To a reader without permission the kernel shows 0 as well.
            Ok(text) if text == b"0" && syscall == Err(Unreadable::NotPermitted) => {
                Err(Unreadable::NotPermitted)
            }
            Ok(text) if text == b"0" => Err(Unreadable::Nothing),
            other => other,
        };
        let kind = waiting::kind(state, channel.as_deref().ok(), line);
        let channel = channel.map(|name| HostText::new(&name));
        Some(Place { kind, state: state.letter(), channel, syscall })
    }

    fn file(&mut self, tid: u32, file: &str, feature: Feature) -> Result<Vec<u8>, Unreadable> {
        let path = format!("task/{tid}/{file}");
        self.files.parsed(&path, feature, |text| Ok(text.to_vec())).map_err(|reason| match reason {
            Reason::NotPermitted(_) | Reason::OpenFilesLimit { .. } => {
                self.refusal.get_or_insert(reason);
                Unreadable::NotPermitted
            }
            Reason::Gone => Unreadable::Nothing,
            Reason::KernelLacks(_)
            | Reason::SwitchedOff(_)
            | Reason::NoLimitSet
            | Reason::DoesNotApply(_)
            | Reason::TooCostly { .. }
            | Reason::NoBaseline
            | Reason::ThreadsEnded
            | Reason::ChildrenReaped
            | Reason::SteppedBack
            | Reason::NotStored
            | Reason::TooLong
            | Reason::Failed { .. }
            | Reason::NotUnderstood(_)
            | Reason::EmptyWindow
            | Reason::OutOfSight(_) => Unreadable::Missing,
        })
    }

    /// What one thread was found in most often.
    pub(super) fn mostly(&self, tid: u32) -> WaitKind {
        let places = self.found.get(&tid).into_iter().flatten();
        places.max_by_key(|(_, times)| **times).map_or(WaitKind::Other, |(place, _)| place.kind)
    }

    /// All that was found, most often first. `blocked` gives the share of the window for which a
    /// thread was blocked, by the scheduler's account.
    pub(super) fn waits(&self, blocked: impl Fn(u32) -> Observed<f64>) -> Waits {
        let mut crowds: BTreeMap<Place, Crowd> = BTreeMap::new();
        let mut unknown = None;
        for (tid, places) in &self.found {
            let blocked = match blocked(*tid) {
                Observed::Known(blocked) => blocked,
                Observed::Unknown(reason) => {
                    unknown.get_or_insert(reason);
                    0.0
                }
            };
            add(&mut crowds, places, blocked);
        }
        let all: u32 = crowds.values().map(|crowd| crowd.times).sum();
        let mut groups: Vec<(u32, WaitGroup)> = crowds
            .iter()
            .map(|(place, crowd)| (crowd.times, self.group(place, crowd, all, unknown.as_ref())))
            .collect();
        groups.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
        Waits {
            samples: self.looks,
            threads_sampled: count(self.watched.len()),
            threads_total: count(self.threads_total),
            groups: groups.into_iter().map(|(_, group)| group).collect(),
        }
    }

    fn group(&self, place: &Place, crowd: &Crowd, all: u32, unknown: Option<&Reason>) -> WaitGroup {
        let letter = u8::try_from(place.state).unwrap_or(b'?');
        let blocked = Percent::of(crowd.blocked, 1.0).unwrap_or_default();
        WaitGroup {
            kind: place.kind,
            state: State::from_letter(letter),
            channel: self.name(&place.channel, Feature::WaitChannel),
            syscall: self.name(&place.syscall, Feature::SyscallFile),
            threads: crowd.threads,
            share_pct: Percent::of(f64::from(crowd.times), f64::from(all)).unwrap_or_default(),
            blocked_pct: unknown
                .map_or(Observed::Known(blocked), |reason| Observed::Unknown(reason.clone())),
        }
    }

    fn name(&self, name: &Result<HostText, Unreadable>, feature: Feature) -> Observed<HostText> {
        match name {
            Ok(name) => Observed::Known(name.clone()),
            Err(Unreadable::Nothing) => Observed::Known(HostText::new(b"-")),
            Err(Unreadable::NotPermitted) => {
                Observed::Unknown(self.refusal.clone().unwrap_or(Reason::Gone))
            }
            Err(Unreadable::Missing) => Observed::Unknown(Reason::KernelLacks(feature)),
        }
    }
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
/// account says beyond that, only so much is known: waits too short to be seen.
fn add(crowds: &mut BTreeMap<Place, Crowd>, places: &BTreeMap<Place, u32>, blocked: f64) {
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
            channel: Err(Unreadable::Nothing),
            syscall: Err(Unreadable::Nothing),
        }
    }
}

fn name_of(line: SyscallLine) -> Option<HostText> {
    match line {
        SyscallLine::In(call) => Some(HostText::new(call.number.name().as_bytes())),
        SyscallLine::Running | SyscallLine::Outside | SyscallLine::Unknown => None,
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(kind: WaitKind) -> Place {
        Place { kind, ..Place::unseen() }
    }

    #[test]
    fn the_account_says_how_long_and_the_samples_say_where() {
        let mut crowds = BTreeMap::new();
        // Found in storage once in ten looks, and blocked for most of the time: the rest is unseen.
        let caught = BTreeMap::from([(place(WaitKind::Running), 9), (place(WaitKind::Storage), 1)]);
        add(&mut crowds, &caught, 0.75);
        // Really running.
        let running = BTreeMap::from([(place(WaitKind::Running), 10)]);
        add(&mut crowds, &running, 0.001);
        // Found waiting by chance more often than it waited.
        let unlucky = BTreeMap::from([(place(WaitKind::Running), 5), (place(WaitKind::Poll), 5)]);
        add(&mut crowds, &unlucky, 0.25);
        let blocked = |kind| crowds.get(&place(kind)).map(|crowd| crowd.blocked);
        assert_eq!(blocked(WaitKind::Storage), Some(0.1));
        assert_eq!(blocked(WaitKind::TooShortToSee), Some(0.65));
        assert_eq!(blocked(WaitKind::Poll), Some(0.25));
        assert_eq!(blocked(WaitKind::Running), Some(0.0));
        let running = crowds.get(&place(WaitKind::Running)).unwrap();
        assert_eq!((running.times, running.threads), (24, 3));
    }
}
