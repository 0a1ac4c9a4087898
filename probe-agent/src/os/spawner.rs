//! The one process of the agent that may start programs.
//!
//! It is forked before the worker puts a filter on itself, and reads nothing of the machine. The
//! worker asks it over a pair of sockets, one for each program, by numbers alone: which program,
//! what for, and how long. It ends when the worker does, and the programs with it.
//!
//! A program that watches others for a while writes into pipes that the worker reads (`watching.rs`).
//!
//! Over two more pairs it is asked to stop threads for a moment and to copy their stacks, and to follow
//! system calls, which the worker's filter does not let it do itself.

#![expect(unsafe_code, reason = "fork has no safe form")]

mod watching;

pub use watching::{Next, Piece};

use super::{
    clock,
    observer::{End, Errand, MOST_OUTPUT, Observer, Ran, Watched},
    sandbox,
    stopper::{self, Moment},
    tracer,
};
use crate::perf::records::REGISTERS;
use protocol::sweep::SPAWNER;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fd::OwnedFd,
    io::Errno,
    process::{Pid, Signal},
};
use std::{
    io,
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

/// What is asked: program, errand, and how long in milliseconds, the low byte first.
const ASKED_BYTES: usize = 4;

/// What is answered before the output: how it ended, its exit code, the output's length, and the
/// processor time of all programs so far in microseconds.
const HEAD_BYTES: usize = 1 + 4 + 2 + 8;

/// The worker's ends.
static CHANNELS: OnceLock<Channels> = OnceLock::new();

/// One end of each pair.
#[derive(Debug)]
pub struct Channels {
    of: [(Observer, Mutex<OwnedFd>); 3],
    stops: Mutex<OwnedFd>,
    traces: Mutex<OwnedFd>,
    watching: Mutex<watching::Asking>,
    /// What the programs needed, as it was last heard.
    cpu: Mutex<Duration>,
}

/// One for each program, one for stops and one for traces.
const PAIRS: usize = 5;

/// Both ends of each pair, before the fork that parts them.
#[derive(Debug)]
pub struct Pairs {
    worker: [OwnedFd; PAIRS],
    spawner: [OwnedFd; PAIRS],
    watching: (watching::Asking, watching::Answering),
}

impl Pairs {
    /// Makes the pairs.
    ///
    /// # Errors
    ///
    /// When no more files may be open.
    pub fn new() -> io::Result<Self> {
        let pair = || UnixStream::pair().map(|(one, other)| (one.into(), other.into()));
        let [perf, strace, bpftrace, stops, traces]: [(OwnedFd, OwnedFd); PAIRS] =
            [pair()?, pair()?, pair()?, pair()?, pair()?];
        let worker = [perf.0, strace.0, bpftrace.0, stops.0, traces.0];
        let spawner = [perf.1, strace.1, bpftrace.1, stops.1, traces.1];
        Ok(Self { worker, spawner, watching: watching::pair()? })
    }

    /// In the worker: keeps its ends, and closes the others.
    pub fn keep_for_worker(self) {
        let [perf, strace, bpftrace, stops, traces] = self.worker.map(Mutex::new);
        let of =
            [(Observer::Perf, perf), (Observer::Strace, strace), (Observer::Bpftrace, bpftrace)];
        let (watching, cpu) = (Mutex::new(self.watching.0), Mutex::new(Duration::ZERO));
        let _ = CHANNELS.set(Channels { of, stops, traces, watching, cpu });
    }

    /// Forks the spawner, which does not return; it prepares itself by what is given. Without it no
    /// program is started, and nothing else is missing.
    ///
    /// # Errors
    ///
    /// When there is no process to be had.
    pub fn fork(self, prepare: impl FnOnce()) -> io::Result<Pid> {
        let parent = rustix::process::getpid();
        // SAFETY: no thread exists yet, so the child inherits no lock in an unknown state.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
                let _ = rustix::thread::set_name(SPAWNER);
                prepare();
                if rustix::process::getppid() == Some(parent) {
                    drop((self.worker, self.watching.0));
                    drop_channel_to_the_controller();
                    sandbox::guard_spawner();
                    serve(self.spawner, self.watching.1);
                }
                // SAFETY: _exit takes any number and does not return.
                unsafe { libc::_exit(0) }
            }
            child => Pid::from_raw(child).ok_or_else(|| io::ErrorKind::NotFound.into()),
        }
    }
}

/// Starts the spawner for a process without a supervisor, and keeps the channel to it.
pub fn start() {
    start_prepared(|| ());
}

/// The same, and lets it prepare itself before it gives anything up.
pub(super) fn start_prepared(prepare: impl FnOnce()) {
    let Ok(pairs) = Pairs::new() else { return };
    let Ok(copy) = pairs.copy() else { return };
    if copy.fork(prepare).is_ok() {
        pairs.keep_for_worker();
    }
}

impl Pairs {
    /// The same ends once more.
    ///
    /// # Errors
    ///
    /// When no more files may be open.
    pub fn copy(&self) -> io::Result<Self> {
        let copy = |ends: &[OwnedFd; PAIRS]| -> io::Result<[OwnedFd; PAIRS]> {
            let [perf, strace, bpftrace, stops, traces] = ends;
            let programs = (perf.try_clone()?, strace.try_clone()?, bpftrace.try_clone()?);
            Ok([programs.0, programs.1, programs.2, stops.try_clone()?, traces.try_clone()?])
        };
        let watching = (self.watching.0.copy()?, self.watching.1.copy()?);
        Ok(Self { worker: copy(&self.worker)?, spawner: copy(&self.spawner)?, watching })
    }
}

/// Its stdin and stdout are the channel, which closes when nobody has it open any more.
fn drop_channel_to_the_controller() {
    let Ok(nothing) = std::fs::File::open("/dev/null") else { return };
    let _ = rustix::stdio::dup2_stdin(&nothing);
    let _ = rustix::stdio::dup2_stdout(&nothing);
    let _ = rustix::stdio::dup2_stderr(&nothing);
}

/// Lets a program be run, no longer than until the deadline.
pub fn run(observer: Observer, errand: Errand, deadline: Instant) -> Ran {
    let asked = ask(observer, errand_number(errand), deadline);
    asked.unwrap_or(Ran { end: End::NotStarted, output: Vec::new() })
}

/// Lets a program watch others, no longer than `patience` and what it may take at most. What it writes is
/// taken piece by piece; `take` says when it is to end, and hears until then at least every 20 ms.
pub fn watch(
    watched: &Watched,
    patience: Duration,
    take: &mut dyn FnMut(Piece<'_>) -> Next,
) -> End {
    #[cfg(test)]
    serve_in_a_thread();
    let Some(channels) = CHANNELS.get() else { return End::NotStarted };
    let head = watching::watch(&channels.watching, watched, patience, take);
    head.map_or(End::NotStarted, |head| head.noted(channels).end)
}

/// Lets threads be stopped one after another, and what they execute copied. `EPIPE` where there is no
/// spawner.
pub(super) fn stop_each(tids: &[u32], stack_bytes: u32) -> Vec<Result<Moment, Errno>> {
    let mut copied = ask_to_stop(tids, stack_bytes).unwrap_or_default();
    copied.resize(tids.len(), Err(Errno::PIPE));
    copied
}

/// What is asked: how many threads, and how much of their stacks in KiB; then the threads' numbers.
const STOPS_BYTES: usize = 2;

/// What is answered for each before its stack: an error number or 0, the pause in microseconds, the
/// stack's length, whether it is all that was asked for, and the registers.
const STOPPED_BYTES: usize = 4 + 4 + 4 + 1 + 8 * REGISTERS;

fn ask_to_stop(tids: &[u32], stack_bytes: u32) -> Option<Vec<Result<Moment, Errno>>> {
    #[cfg(test)]
    serve_in_a_thread();
    let channel = CHANNELS.get()?.stops.lock().unwrap_or_else(PoisonError::into_inner);
    let kib = u8::try_from(stack_bytes.div_ceil(1024)).unwrap_or(u8::MAX);
    let mut asked = vec![u8::try_from(tids.len()).ok()?, kib];
    asked.extend(tids.iter().flat_map(|tid| tid.to_le_bytes()));
    write_all(&channel, &asked)?;
    let mut copied = Vec::with_capacity(tids.len());
    for _ in tids {
        let mut head = [0; STOPPED_BYTES];
        read_exact(&channel, &mut head)?;
        let (numbers, rest) = head.split_first_chunk::<12>()?;
        let ([errno, pause, length], _) = numbers.as_chunks::<4>().0.split_first_chunk::<3>()?;
        let ([is_full], words) = rest.split_first_chunk::<1>()?;
        let mut registers = [0; REGISTERS];
        for (register, word) in registers.iter_mut().zip(words.as_chunks::<8>().0) {
            *register = u64::from_le_bytes(*word);
        }
        let length = u32::from_le_bytes(*length).min(stopper::MOST_STACK_BYTES);
        let mut stack = vec![0; usize::try_from(length).ok()?];
        read_exact(&channel, &mut stack)?;
        let pause = Duration::from_micros(u32::from_le_bytes(*pause).into());
        copied.push(match i32::from_le_bytes(*errno) {
            0 => Ok(Moment { registers, stack, is_full: *is_full != 0, pause }),
            errno => Err(Errno::from_raw_os_error(errno)),
        });
    }
    Some(copied)
}

/// Where it is asked to follow system calls; `None` where there is no spawner.
pub(super) fn traces() -> Option<&'static Mutex<OwnedFd>> {
    #[cfg(test)]
    serve_in_a_thread();
    CHANNELS.get().map(|channels| &channels.traces)
}

/// Processor time of all programs that were run so far.
pub fn programs_cpu() -> Duration {
    CHANNELS.get().map_or(Duration::ZERO, |channels| {
        *channels.cpu.lock().unwrap_or_else(PoisonError::into_inner)
    })
}

/// Lets a child be planted that nobody waits for.
#[cfg(feature = "fault-injection")]
pub fn plant(is_grandchild: bool) {
    let errand = if is_grandchild { PLANT_GRANDCHILD } else { PLANT_CHILD };
    let _ = ask(Observer::Perf, errand, Instant::now());
}

const fn errand_number(errand: Errand) -> u8 {
    match errand {
        Errand::Version => 0,
        Errand::Trial => 1,
    }
}

#[cfg(feature = "fault-injection")]
const PLANT_CHILD: u8 = 100;
#[cfg(feature = "fault-injection")]
const PLANT_GRANDCHILD: u8 = 101;

fn ask(observer: Observer, errand: u8, deadline: Instant) -> Option<Ran> {
    #[cfg(test)]
    serve_in_a_thread();
    let channels = CHANNELS.get()?;
    let (_, channel) = channels.of.iter().find(|(of, _)| *of == observer)?;
    let channel = channel.lock().unwrap_or_else(PoisonError::into_inner);
    let left = deadline.saturating_duration_since(Instant::now()).as_millis();
    let [low, high] = u16::try_from(left).unwrap_or(u16::MAX).to_le_bytes();
    let place = Observer::ALL.iter().position(|of| *of == observer)?;
    write_all(&channel, &[u8::try_from(place).ok()?, errand, low, high])?;
    let mut head = [0; HEAD_BYTES];
    read_exact(&channel, &mut head)?;
    let Head { end, length, .. } = Head::from_bytes(head).noted(channels);
    let mut output = vec![0; usize::from(length).min(MOST_OUTPUT)];
    read_exact(&channel, &mut output)?;
    Some(Ran { end, output })
}

/// What is answered first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    end: End,
    /// Bytes of output that follow.
    length: u16,
    /// What all programs needed so far.
    cpu: Duration,
}

impl Head {
    /// In the spawner: of a program that has just ended.
    fn new(end: End, length: u16) -> Self {
        Self { end, length, cpu: clock::children_cpu() }
    }

    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let (kind, code): (u8, i32) = match self.end {
            End::Code(code) => (0, code),
            End::Signal => (1, 0),
            End::TimedOut => (2, 0),
            End::NotStarted => (3, 0),
        };
        let [c0, c1, c2, c3] = code.to_le_bytes();
        let [l0, l1] = self.length.to_le_bytes();
        let cpu = u64::try_from(self.cpu.as_micros()).unwrap_or(u64::MAX);
        let [u0, u1, u2, u3, u4, u5, u6, u7] = cpu.to_le_bytes();
        [kind, c0, c1, c2, c3, l0, l1, u0, u1, u2, u3, u4, u5, u6, u7]
    }

    fn from_bytes([kind, c0, c1, c2, c3, l0, l1, cpu @ ..]: [u8; HEAD_BYTES]) -> Self {
        let end = match kind {
            0 => End::Code(i32::from_le_bytes([c0, c1, c2, c3])),
            1 => End::Signal,
            2 => End::TimedOut,
            _ => End::NotStarted,
        };
        let cpu = Duration::from_micros(u64::from_le_bytes(cpu));
        Self { end, length: u16::from_le_bytes([l0, l1]), cpu }
    }

    /// In the worker: keeps what the programs needed.
    fn noted(self, channels: &Channels) -> Self {
        *channels.cpu.lock().unwrap_or_else(PoisonError::into_inner) = self.cpu;
        self
    }
}

/// Takes what is asked until the worker is gone. Each program has a thread while it runs: they are
/// asked for side by side.
fn serve(channels: [OwnedFd; PAIRS], watching: watching::Answering) {
    let [perf, strace, bpftrace, stops, traces] = channels;
    // A trace takes its time, and its channel has words in the middle of it.
    let _ = std::thread::Builder::new().name("traces".into()).spawn(|| tracer::serve(traces));
    let channels = [perf, strace, bpftrace, stops].map(Arc::new);
    let [_, _, _, stops] = &channels;
    let watching = Arc::new(watching);
    loop {
        let borrow = |channel| PollFd::from_borrowed_fd(channel, PollFlags::IN);
        let [perf, strace, bpftrace, stop] = channels.each_ref().map(|channel| channel.as_fd());
        let all = [watching.control.as_fd(), perf, strace, bpftrace, stop];
        let mut waiting = all.map(borrow);
        if poll(&mut waiting, None).is_err_and(|errno| errno != Errno::INTR) {
            return;
        }
        let [is_to_watch, has_news @ ..] =
            waiting.each_ref().map(|channel| !channel.revents().is_empty());
        if is_to_watch {
            let Some((watched, patience)) = watching::heard(&watching) else { return };
            let watching = Arc::clone(&watching);
            let work = move || watching::answer(&watching, &watched, patience);
            if std::thread::Builder::new().name("watcher".to_owned()).spawn(work).is_err() {
                return;
            }
        }
        for (channel, _) in channels.iter().zip(has_news).filter(|(_, has_news)| *has_news) {
            if Arc::ptr_eq(channel, stops) {
                if answer_stops(channel).is_none() {
                    return;
                }
                continue;
            }
            let mut asked = [0; ASKED_BYTES];
            if read_exact(channel, &mut asked).is_none() {
                return;
            }
            let channel = Arc::clone(channel);
            let work = move || answer(&channel, asked);
            if std::thread::Builder::new().name("observer".to_owned()).spawn(work).is_err() {
                return;
            }
        }
    }
}

/// Stops threads as it is asked. All are let go before anything is answered.
fn answer_stops(channel: &OwnedFd) -> Option<()> {
    let mut asked = [0; STOPS_BYTES];
    read_exact(channel, &mut asked)?;
    let [count, kib] = asked;
    let mut numbers = vec![0; usize::from(count) * 4];
    read_exact(channel, &mut numbers)?;
    let tids = numbers.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number));
    let tids: Vec<u32> = tids.take(stopper::MOST_AT_ONCE).collect();
    let kib = u32::from(kib).min(stopper::MOST_STACK_BYTES >> 10);
    let mut bytes = Vec::new();
    for moment in stopper::copy_each_here(&tids, kib << 10) {
        let (errno, moment) = match moment {
            Ok(moment) => (0, moment),
            Err(errno) => (errno.raw_os_error(), Moment::default()),
        };
        let Moment { registers, stack, is_full, pause } = moment;
        let pause = u32::try_from(pause.as_micros()).unwrap_or(u32::MAX);
        bytes.extend(errno.to_le_bytes());
        bytes.extend(pause.to_le_bytes());
        bytes.extend(u32::try_from(stack.len()).unwrap_or_default().to_le_bytes());
        bytes.push(u8::from(is_full));
        bytes.extend(registers.iter().flat_map(|register| register.to_le_bytes()));
        bytes.extend(stack);
    }
    write_all(channel, &bytes)
}

fn answer(channel: &OwnedFd, [observer, errand, low, high]: [u8; ASKED_BYTES]) {
    let patience = Duration::from_millis(u16::from_le_bytes([low, high]).into());
    let observer = Observer::ALL.get(usize::from(observer));
    let ran = match (observer, errand) {
        (Some(observer), 0) => observer.run(Errand::Version, Instant::now() + patience),
        (Some(observer), 1) => observer.run(Errand::Trial, Instant::now() + patience),
        #[cfg(feature = "fault-injection")]
        (_, PLANT_CHILD | PLANT_GRANDCHILD) => {
            super::observer::plant(errand == PLANT_GRANDCHILD);
            Ran { end: End::Code(0), output: Vec::new() }
        }
        _ => Ran { end: End::NotStarted, output: Vec::new() },
    };
    let length = u16::try_from(ran.output.len()).unwrap_or_default();
    let mut bytes = Head::new(ran.end, length).to_bytes().to_vec();
    bytes.extend(ran.output.iter().take(length.into()));
    // Nobody may be there any more.
    let _ = write_all(channel, &bytes);
}

/// Reads all of it; `None` when nobody is at the other end any more.
pub(super) fn read_exact(channel: &OwnedFd, mut room: &mut [u8]) -> Option<()> {
    while !room.is_empty() {
        match rustix::io::read(channel, &mut *room) {
            Ok(0) => return None,
            Ok(length) => room = room.get_mut(length..)?,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// Writes all of it; `None` when nobody is at the other end any more.
pub(super) fn write_all(channel: &OwnedFd, mut bytes: &[u8]) -> Option<()> {
    while !bytes.is_empty() {
        match rustix::io::write(channel, bytes) {
            Ok(length) => bytes = bytes.get(length..)?,
            Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// A test has threads already, and must not fork.
#[cfg(test)]
fn serve_in_a_thread() {
    static STARTED: std::sync::Once = std::sync::Once::new();
    STARTED.call_once(|| {
        let Pairs { worker, spawner, watching } = Pairs::new().unwrap();
        let held = Pairs::new().unwrap();
        std::thread::spawn(|| serve(spawner, watching.1));
        let watching = (watching.0, held.watching.1);
        Pairs { worker, spawner: held.spawner, watching }.keep_for_worker();
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::os::observer::Found;

    #[test]
    fn a_program_is_asked_for_by_numbers_and_its_words_come_back() {
        let deadline = Instant::now() + Duration::from_secs(20);
        for observer in Observer::ALL {
            let ran = run(observer, Errand::Version, deadline);
            match observer.find() {
                Found::Nowhere | Found::Untrusted(_) => {
                    assert_eq!(ran, Ran { end: End::NotStarted, output: Vec::new() });
                }
                Found::At(_) => assert!(!ran.output.is_empty(), "{observer:?}: {ran:?}"),
            }
        }
    }

    /// A program that calls the kernel all the time.
    fn busy() -> std::process::Child {
        use std::process::{Command, Stdio};
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", "of=/dev/null", "bs=1"]);
        command.stderr(Stdio::null()).spawn().unwrap()
    }

    #[test]
    fn what_a_program_writes_comes_as_it_writes_it_until_it_is_told_to_stop() {
        let Found::At(_) = Observer::Strace.find() else { return };
        let mut busy = busy();
        let watched = Watched {
            observer: Observer::Strace,
            pids: vec![busy.id()],
            spared: Vec::new(),
            calls: Vec::new(),
            with_subjects: false,
        };
        let mut reader = crate::external::strace::Reader::default();
        let (mut ended, mut is_attached) = (0, false);
        let end = watch(&watched, Duration::from_secs(20), &mut |piece| {
            match piece {
                Piece::Out(bytes) => reader.take(bytes, &mut |_| ended += 1),
                Piece::Error(text) => is_attached |= text.ends_with(b" attached\n"),
                Piece::Nothing => {}
            }
            if ended > 100 { Next::Stop } else { Next::On }
        });
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", busy.id())).unwrap();
        busy.kill().unwrap();
        busy.wait().unwrap();
        // Unless this may trace nobody.
        if is_attached {
            assert!(ended > 100 && matches!(end, End::Code(_) | End::Signal), "{ended} {end:?}");
            assert_eq!(reader.finish().1.foreign, 0);
            assert!(!["T", "t"].contains(&stat.split(' ').nth(2).unwrap()), "{stat}");
        }
    }

    #[test]
    fn what_is_no_number_of_ours_starts_nothing() {
        let deadline = Instant::now() + Duration::from_secs(20);
        let ran = ask(Observer::Strace, 200, deadline).unwrap();
        assert_eq!(ran.end, End::NotStarted);
    }
}
