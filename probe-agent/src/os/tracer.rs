//! Following the system calls of processes by `ptrace`, for a moment.
//!
//! Every call stops its thread twice, so this is the slowest way there is, and is gone only where it is
//! asked for. Threads are seized, not attached to: none gets a `SIGSTOP`, and the kernel lets all go when
//! the tracer ends, however it ends (`exit_ptrace` in `kernel/ptrace.c`; `PTRACE_O_EXITKILL` is not set).
//! A command that the agent launched for a person ([`super::launcher`]) is followed from its first call
//! until all of it has ended, and ends with the tracer (`launched.rs`).
//!
//! The tracer is a thread of the spawner that ends with what was asked; the worker's filter lets the
//! worker trace nobody. What is seen is sent to the worker as it comes, and counted where the worker does
//! not take it: a thread never stands still for that.
//!
//! Linux 5.3 for `PTRACE_GET_SYSCALL_INFO`. Kernel reference: `man 2 ptrace`.

mod answering;
mod following;
mod launched;
mod memory;
mod requests;

pub(super) use answering::serve;

use super::{launcher::Step, spawner};
use protocol::error::NoTracer;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::Errno,
};
use serde::{Deserialize, Serialize};
use std::{os::fd::AsFd as _, sync::PoisonError, time::Duration};

/// For so long is anything traced at most, from the first thread that is seized.
pub const LONGEST: Duration = Duration::from_secs(2);

/// The same of a command that was launched to be traced: nobody else waits for it.
pub const LONGEST_LAUNCHED: Duration = Duration::from_secs(60);

/// Threads that are seized at most, with those that are born meanwhile.
pub const MOST_THREADS: usize = 4096;

/// Processes that are asked for at most.
pub const MOST_PROCESSES: usize = 1024;

/// What a tracer sees, in the order in which it sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Sight {
    /// A thread makes a call.
    Entered(Entered),
    /// It is back from one.
    Returned {
        /// The thread.
        tid: u32,
        /// When, in nanoseconds of the monotonic clock.
        time_ns: u64,
        /// What the call answered; below 0 an error's number.
        answer: i64,
    },
    /// The name of a process of a command that was launched, whenever it gets one. It may be gone before
    /// anybody could look.
    Named {
        /// The process.
        pid: u32,
        /// Its name.
        name: Vec<u8>,
    },
    /// A process runs another program. Of its threads one is left, which has the process's number.
    Ran {
        /// The process.
        pid: u32,
        /// The number of that thread until now.
        former_tid: u32,
    },
    /// A thread has ended.
    Ended {
        /// The thread.
        tid: u32,
    },
    /// Nobody is traced any more.
    End(End),
}

/// A call as it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entered {
    /// The process.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// When, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// Whether it is a call of another processor than the agent's: that of a program of 32 bits, whose
    /// numbers are others.
    pub is_foreign: bool,
    /// Its number.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// What the arguments point to that is a text or an address of a socket, in their order, as far as it
    /// could be read.
    pub memory: Vec<Vec<u8>>,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Threads that were traced, with those born meanwhile.
    pub tids: Vec<u32>,
    /// Processes that were not, with the error's number.
    pub refused: Vec<(u32, i32)>,
    /// Whether there were more threads than are traced.
    pub is_full: bool,
    /// How often a thread was stopped.
    pub stops: u64,
    /// The longest that one stood still, in microseconds.
    pub pause_us_max: u64,
    /// All of them together, in microseconds.
    pub pause_us_total: u64,
    /// Sights that the worker did not take in time.
    pub lost: u64,
    /// Threads that were left to the kernel to let go, because they did not stop.
    pub left_to_the_kernel: u32,
    /// From the first thread that was seized until none was any more, in microseconds.
    pub attached_us: u64,
    /// What came of a command that was launched.
    pub launched: Option<Launched>,
}

/// What came of a command.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launched {
    /// What was not done in its place: it never ran.
    pub not_run: Option<(Step, i32)>,
    /// How its first process ended.
    pub outcome: Option<Outcome>,
    /// Why it ended.
    pub ended: Ended,
    /// When it was run, and when it was watched no longer, in nanoseconds of the monotonic clock.
    pub watched_ns: (u64, u64),
    /// Threads that did not end when they were killed, because they sleep and cannot be woken. They end when
    /// they wake up.
    pub left: u32,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Why a command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// It did, and all that it had started.
    #[default]
    Itself,
    /// The window was over: what was left of it was ended.
    Window,
    /// The agent was asked to end: the same.
    Asked,
}

/// Lets processes be followed until the limit, or until `goes_on` says no. `goes_on` is asked some fifty
/// times a second. However it ends, nobody is traced any more when this returns.
///
/// # Errors
///
/// Why nothing was seen.
pub fn follow(
    pids: &[u32],
    limit: Duration,
    take: &mut dyn FnMut(Sight),
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<End, NoTracer> {
    let pids = pids.iter().copied().take(MOST_PROCESSES).collect();
    fulfil(&Wish { pids, limit, is_launched: false }, take, goes_on)
}

/// Lets the command that was launched run and follows it, with all that it starts, until it has ended or the
/// limit is over, or until `goes_on` says no: then it is ended. However it ends, nothing is left of it when
/// this returns.
///
/// # Errors
///
/// Why nothing was seen.
pub fn follow_launched(
    limit: Duration,
    take: &mut dyn FnMut(Sight),
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<End, NoTracer> {
    fulfil(&Wish { pids: Vec::new(), limit, is_launched: true }, take, goes_on)
}

fn fulfil(
    wish: &Wish,
    take: &mut dyn FnMut(Sight),
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<End, NoTracer> {
    let channel = spawner::traces().ok_or(NoTracer::Missing)?;
    let channel = match channel.try_lock() {
        Ok(channel) => channel,
        Err(std::sync::TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        Err(std::sync::TryLockError::WouldBlock) => return Err(NoTracer::Busy),
    };
    spawner::write_all(&channel, &wish.bytes()).ok_or(NoTracer::Broken)?;
    let mut asked_to_stop = false;
    loop {
        if !asked_to_stop && !goes_on() {
            spawner::write_all(&channel, &[STOP]).ok_or(NoTracer::Broken)?;
            asked_to_stop = true;
        }
        if !is_readable(&channel, Duration::from_millis(20)) {
            continue;
        }
        let mut length = [0; 4];
        spawner::read_exact(&channel, &mut length).ok_or(NoTracer::Broken)?;
        let length = usize::try_from(u32::from_le_bytes(length)).map_err(|_| NoTracer::Broken)?;
        let mut bytes = vec![0; length.min(MOST_CHUNK_BYTES)];
        spawner::read_exact(&channel, &mut bytes).ok_or(NoTracer::Broken)?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (sight, after) = postcard::take_from_bytes(rest).map_err(|_| NoTracer::Broken)?;
            rest = after;
            if let Sight::End(end) = sight {
                // It waits for this word, so that none of this call is left for the next.
                if !asked_to_stop {
                    spawner::write_all(&channel, &[STOP]).ok_or(NoTracer::Broken)?;
                }
                return Ok(end);
            }
            take(sight);
        }
    }
}

/// The word by which the worker ends a trace.
const STOP: u8 = 1;

/// What is sent at once at most: all that may wait, and the end.
const MOST_CHUNK_BYTES: usize = 16 << 20;

/// Whom to follow, and for how long.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wish {
    pids: Vec<u32>,
    limit: Duration,
    /// Of the command that was launched, and not of those.
    is_launched: bool,
}

/// How many processes, the low byte first, for how many milliseconds, and whether it is of what was
/// launched; then their numbers.
const WISH_BYTES: usize = 5;

impl Wish {
    fn bytes(&self) -> Vec<u8> {
        let count = u16::try_from(self.pids.len()).unwrap_or(u16::MAX);
        let millis = u16::try_from(self.limit.as_millis()).unwrap_or(u16::MAX);
        let mut bytes = [count.to_le_bytes(), millis.to_le_bytes()].concat();
        bytes.push(u8::from(self.is_launched));
        bytes.extend(self.pids.iter().flat_map(|pid| pid.to_le_bytes()));
        bytes
    }

    fn read(channel: &OwnedFd) -> Option<Self> {
        let mut head = [0; WISH_BYTES];
        spawner::read_exact(channel, &mut head)?;
        let [c0, c1, m0, m1, is_launched] = head;
        let is_launched = is_launched != 0;
        let mut numbers = vec![0; usize::from(u16::from_le_bytes([c0, c1])) * 4];
        spawner::read_exact(channel, &mut numbers)?;
        let pids = numbers.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number));
        let limit = Duration::from_millis(u16::from_le_bytes([m0, m1]).into());
        let longest = if is_launched { LONGEST_LAUNCHED } else { LONGEST };
        let pids = pids.take(MOST_PROCESSES).collect();
        Some(Self { pids, limit: limit.min(longest), is_launched })
    }
}

fn is_readable(channel: &OwnedFd, patience: Duration) -> bool {
    let mut waiting = [PollFd::from_borrowed_fd(channel.as_fd(), PollFlags::IN)];
    let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(patience.subsec_nanos()) };
    // An error shows at the read.
    !matches!(poll(&mut waiting, Some(&timeout)), Ok(0) | Err(Errno::INTR))
}

#[cfg(test)]
mod tests;
