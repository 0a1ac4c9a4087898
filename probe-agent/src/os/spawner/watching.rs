//! Programs that watch others for a while: what they write comes through pipes to whoever asked.
//!
//! The worker asks by numbers, and has the reading ends of two pipes, made before the fork; the program
//! gets the writing ends. The spawner reads nothing of it. One program watches at a time.

use super::{HEAD_BYTES, Head, read_exact, write_all};
use crate::os::observer::{self, MOST_CALLS, MOST_SPARED, MOST_WATCHED, Observer, Watched};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use std::{
    io,
    os::unix::net::UnixStream,
    sync::{Mutex, TryLockError},
    time::{Duration, Instant},
};

/// The worker's ends: for questions, for a word to stop, for what programs write to stdout, and to stderr.
#[derive(Debug)]
pub(super) struct Asking {
    control: OwnedFd,
    stop: OwnedFd,
    out: OwnedFd,
    error: OwnedFd,
    /// Nobody answered in time, so what comes next may be the answer to something else.
    is_broken: bool,
}

/// The spawner's ends of the same.
#[derive(Debug)]
pub(super) struct Answering {
    pub(super) control: OwnedFd,
    stop: OwnedFd,
    out: OwnedFd,
    error: OwnedFd,
}

/// Both ends of each.
///
/// # Errors
///
/// When no more files may be open.
pub(super) fn pair() -> io::Result<(Asking, Answering)> {
    let (control, answering) = UnixStream::pair()?;
    let (stop, stopping) = UnixStream::pair()?;
    let (out, out_in) = pipe_with(PipeFlags::CLOEXEC)?;
    let (error, error_in) = pipe_with(PipeFlags::CLOEXEC)?;
    let asking =
        Asking { control: control.into(), stop: stop.into(), out, error, is_broken: false };
    let (control, stop) = (answering.into(), stopping.into());
    Ok((asking, Answering { control, stop, out: out_in, error: error_in }))
}

impl Asking {
    pub(super) fn copy(&self) -> io::Result<Self> {
        let ends = [&self.control, &self.stop, &self.out, &self.error];
        let [control, stop, out, error] = ends.map(OwnedFd::try_clone);
        let is_broken = self.is_broken;
        Ok(Self { control: control?, stop: stop?, out: out?, error: error?, is_broken })
    }
}

impl Answering {
    pub(super) fn copy(&self) -> io::Result<Self> {
        let ends = [&self.control, &self.stop, &self.out, &self.error];
        let [control, stop, out, error] = ends.map(OwnedFd::try_clone);
        Ok(Self { control: control?, stop: stop?, out: out?, error: error? })
    }
}

/// What comes while a program watches.
#[derive(Clone, Copy, Debug)]
pub enum Piece<'p> {
    /// It wrote this to stdout.
    Out(&'p [u8]),
    /// It wrote this to stderr.
    Error(&'p [u8]),
    /// Nothing for a while.
    Nothing,
}

/// What is to happen then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It watches on.
    On,
    /// It is asked to end. What it still writes is told.
    Stop,
}

/// How often whoever asked hears that nothing came.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// How long beyond all that it may take an answer is waited for.
const PATIENCE_WITH_ANSWER: Duration = Duration::from_secs(10);

/// How much is read at once.
const PIECE_BYTES: usize = 64 << 10;

/// Lets a program watch, and hears what it writes. `None` where another one watches all the time until
/// `take` is tired of waiting, and without a spawner.
pub(super) fn watch(
    asking: &Mutex<Asking>,
    watched: &Watched,
    patience: Duration,
    take: &mut dyn FnMut(Piece<'_>) -> Next,
) -> Option<Head> {
    let mut asking = loop {
        match asking.try_lock() {
            Ok(asking) => break asking,
            Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
        }
        if take(Piece::Nothing) == Next::Stop {
            return None;
        }
    };
    if asking.is_broken {
        return None;
    }
    // What a program wrote that was killed in the middle of it.
    while drain(&asking, &mut |_| Next::On) {}
    asking.is_broken = true;
    write_all(&asking.control, &asked(watched, patience)?)?;
    let longest = patience.min(watched.longest()) + watched.patience_with_end();
    let head = hear(&asking, Instant::now() + longest + PATIENCE_WITH_ANSWER, take)?;
    asking.is_broken = false;
    Some(head)
}

fn hear(
    asking: &Asking,
    deadline: Instant,
    take: &mut dyn FnMut(Piece<'_>) -> Next,
) -> Option<Head> {
    let mut is_stopped = false;
    let mut stop_at = |next: Next| {
        if next == Next::Stop && !std::mem::replace(&mut is_stopped, true) {
            let _ = write_all(&asking.stop, &[STOP]);
        }
    };
    loop {
        let mut waiting = [
            PollFd::new(&asking.control, PollFlags::IN),
            PollFd::new(&asking.out, PollFlags::IN),
            PollFd::new(&asking.error, PollFlags::IN),
        ];
        let ready = poll(&mut waiting, Some(&LOOK_EVERY));
        if Instant::now() > deadline || ready.is_err_and(|errno| errno != Errno::INTR) {
            return None;
        }
        let is_answered = waiting.first().is_some_and(|control| !control.revents().is_empty());
        if drain(asking, &mut |piece| {
            stop_at(take(piece));
            Next::On
        }) {
            continue;
        }
        if is_answered {
            let mut head = [0; HEAD_BYTES];
            read_exact(&asking.control, &mut head)?;
            // The program is gone, and what it wrote is in the pipes.
            while drain(asking, &mut |piece| take(piece)) {}
            return Some(Head::from_bytes(head));
        }
        stop_at(take(Piece::Nothing));
    }
}

/// Reads once from each pipe that has something. Whether one had.
fn drain(asking: &Asking, take: &mut dyn FnMut(Piece<'_>) -> Next) -> bool {
    let mut bytes = vec![0; PIECE_BYTES];
    let mut had_some = false;
    for (pipe, is_out) in [(&asking.out, true), (&asking.error, false)] {
        if !has_some(pipe) {
            continue;
        }
        let length = rustix::io::read(pipe, &mut bytes[..]).unwrap_or(0);
        if let Some(piece) = bytes.get(..length).filter(|piece| !piece.is_empty()) {
            had_some = true;
            take(if is_out { Piece::Out(piece) } else { Piece::Error(piece) });
        }
    }
    had_some
}

fn has_some(end: &OwnedFd) -> bool {
    let mut waiting = [PollFd::new(end, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut waiting, Some(&now)).is_ok_and(|ready| ready > 0)
}

const STOP: u8 = 1;

/// How a question begins: program, whether subjects are wanted, milliseconds, and how many processes are
/// watched, spared, and how many calls are meant.
const QUESTION_BYTES: usize = 1 + 1 + 4 + 3 * 2;

fn asked(watched: &Watched, patience: Duration) -> Option<Vec<u8>> {
    let place = Observer::ALL.iter().position(|of| *of == watched.observer)?;
    let mut bytes = vec![u8::try_from(place).ok()?, u8::from(watched.with_subjects)];
    bytes.extend(u32::try_from(patience.as_millis()).unwrap_or(u32::MAX).to_le_bytes());
    let lists = [
        (&watched.pids, MOST_WATCHED),
        (&watched.spared, MOST_SPARED),
        (&watched.calls, MOST_CALLS),
    ];
    for (list, most) in lists {
        let count = u16::try_from(list.len()).ok().filter(|count| usize::from(*count) <= most)?;
        bytes.extend(count.to_le_bytes());
    }
    bytes.extend(
        lists.iter().flat_map(|(list, _)| list.iter()).flat_map(|number| number.to_le_bytes()),
    );
    Some(bytes)
}

/// In the spawner: takes a question whole, and lets the program watch. `None` when nobody asks any more.
pub(super) fn heard(answering: &Answering) -> Option<(Watched, Duration)> {
    let mut head = [0; QUESTION_BYTES];
    read_exact(&answering.control, &mut head)?;
    let [place, with_subjects, m0, m1, m2, m3, p0, p1, s0, s1, c0, c1] = head;
    let list = |count: [u8; 2]| -> Option<Vec<u32>> {
        let mut numbers = vec![0; usize::from(u16::from_le_bytes(count)) * 4];
        read_exact(&answering.control, &mut numbers)?;
        Some(numbers.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect())
    };
    let (pids, spared, calls) = (list([p0, p1])?, list([s0, s1])?, list([c0, c1])?);
    let observer = *Observer::ALL.get(usize::from(place))?;
    let patience = Duration::from_millis(u32::from_le_bytes([m0, m1, m2, m3]).into());
    let with_subjects = with_subjects != 0;
    Some((Watched { observer, pids, spared, calls, with_subjects }, patience))
}

/// Lets the program watch, and answers when it is gone.
pub(super) fn answer(answering: &Answering, watched: &Watched, patience: Duration) {
    // A word to stop that came when the last one had ended by itself.
    let mut stop = [0; 1];
    while has_some(&answering.stop) && read_exact(&answering.stop, &mut stop).is_some() {}
    let ends = (&answering.out, &answering.error);
    let end = observer::watch_others(watched, ends, &answering.stop, patience);
    // Nobody may be there any more.
    let _ = write_all(&answering.control, &Head::new(end, 0).to_bytes());
}
