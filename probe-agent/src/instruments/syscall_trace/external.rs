//! Engines that are programs of others: strace, perf and bpftrace, where a caller asks for one by name.
//!
//! The spawner starts them, each with words that are made of numbers. What a program writes is read as it
//! comes, with bounds; it is asked to end when the window is over, when the call is withdrawn or when it
//! writes too much, and killed where it does not end.

mod bpftrace;
mod perf;
mod strace;

pub(super) use bpftrace::bpftrace;
pub(super) use perf::perf;
pub(super) use strace::strace;

use super::{
    call::Call,
    engine::{Asked, NoTrace},
    seen::{Seen, SubjectId, Tally},
    threads,
};
use crate::{
    call::Context,
    instruments::capabilities::refusals,
    os::{
        observer::{End, MOST_CALLS, MOST_SPARED, Observer, Watched},
        spawner::{self, Next, Piece},
    },
};
use protocol::{host_text::HostText, recording::Scope};
use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Bytes that are read of one program. It is asked to end when it has written more.
const MOST_BYTES: u64 = 512 << 20;

/// Bytes that are kept of what a program says on stderr.
const SAID_BYTES: usize = 4 << 10;

/// How long a program may take before it has begun.
const PATIENCE_WITH_START: Duration = Duration::from_secs(15);

/// Makes sure that a program is there: another one is never taken in its place.
fn is_there(observer: Observer, context: &Context<'_>) -> Result<(), NoTrace> {
    match refusals::of_missing_program(context.root, observer) {
        Some(refusal) => Err(refusal.into()),
        None => Ok(()),
    }
}

/// The processes that are watched; none where it is the machine. More than a program takes are left out,
/// and how many is told.
fn watched_pids(asked: &Asked<'_>, most: usize, context: &Context<'_>) -> (Vec<u32>, u64) {
    if asked.subject.scope == Scope::Host {
        return (Vec::new(), 0);
    }
    let scope = threads::scope(asked, context.root);
    let threads = threads::list(asked, &scope, context.root);
    let mut pids: Vec<u32> = threads.into_iter().map(|(pid, _)| pid).collect();
    pids.dedup();
    let left_out = pids.len().saturating_sub(most);
    pids.truncate(most);
    (pids, u64::try_from(left_out).unwrap_or(u64::MAX))
}

/// The agent's own processes, which are no part of what is looked at.
fn spared(asked: &Asked<'_>, context: &Context<'_>) -> Vec<u32> {
    let mut own = threads::apart(asked, context.root);
    own.truncate(MOST_SPARED);
    own
}

/// The process of a thread, by its number alone; itself where it has ended.
fn process_of(tid: u32, context: &Context<'_>) -> u32 {
    let mut text = Vec::new();
    let read = context.root.read_proc(&format!("{tid}/status"), &mut text);
    let line =
        |line: &[u8]| std::str::from_utf8(line.strip_prefix(b"Tgid:")?).ok()?.trim().parse().ok();
    let tgid = read.ok().and_then(|()| text.split(|byte| *byte == b'\n').find_map(line));
    tgid.unwrap_or(tid)
}

/// The numbers of the calls that were asked for, of this machine's own programs.
fn wanted_calls(asked: &Asked<'_>) -> Vec<u32> {
    let own = asked.calls.iter().filter(|call| !call.is_32_bit);
    own.map(|call| call.number).take(MOST_CALLS).collect()
}

/// What came of a program.
struct Watch {
    end: End,
    /// How long it watched, as far as it can be told from outside.
    took: Duration,
    /// What all programs of the session needed for it.
    cpu: Duration,
    /// The start of what it said on stderr.
    said: Vec<u8>,
    /// Whether it was ended because it wrote more than is read.
    is_cut: bool,
}

/// Lets a program watch for the window. `take` gets what it writes to stdout, or to stderr where that is
/// what it reports on, and tells whether it has begun.
///
/// # Errors
///
/// When the call reached a limit, or the program could not be started.
fn watch(
    watched: &Watched,
    asked: &Asked<'_>,
    context: &Context<'_>,
    take: &mut dyn FnMut(Piece<'_>) -> bool,
) -> Result<Watch, NoTrace> {
    let (started, cpu) = (Instant::now(), spawner::programs_cpu());
    let (mut begun, mut ended) = (None, None);
    let (mut said, mut bytes, mut limit) = (Vec::new(), 0_u64, None);
    let end = spawner::watch(watched, asked.window() + PATIENCE_WITH_START, &mut |piece| {
        if let Piece::Out(piece) | Piece::Error(piece) = piece {
            bytes = bytes.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        }
        if let Piece::Error(piece) = piece {
            let room = SAID_BYTES.saturating_sub(said.len());
            said.extend(piece.iter().take(room));
        }
        if bytes <= MOST_BYTES && take(piece) && begun.is_none() {
            begun = Some(Instant::now());
        }
        if let Err(error) = context.check() {
            limit.get_or_insert(error);
        }
        let is_over = begun.is_some_and(|begun| begun.elapsed() >= asked.window());
        if is_over || limit.is_some() || bytes > MOST_BYTES {
            ended.get_or_insert_with(Instant::now);
            return Next::Stop;
        }
        Next::On
    });
    if let Some(error) = limit {
        return Err(error.into());
    }
    let cpu = spawner::programs_cpu().saturating_sub(cpu);
    context.add_cpu(cpu);
    if end == End::NotStarted {
        context.check()?;
        return Err(refusals::of_program(context.root, watched.observer, None, &said).into());
    }
    let ended = ended.unwrap_or_else(Instant::now);
    let took = ended.saturating_duration_since(begun.unwrap_or(started));
    Ok(Watch { end, took, cpu, said, is_cut: bytes > MOST_BYTES })
}

/// That a program ran, and saw nothing because it could not.
fn failed(observer: Observer, watching: &Watch, context: &Context<'_>) -> NoTrace {
    let code = match watching.end {
        End::Code(code) => Some(code),
        End::Signal | End::TimedOut | End::NotStarted => None,
    };
    refusals::of_program(context.root, observer, code, &watching.said).into()
}

/// Sums of calls, by what they have in common.
#[derive(Debug, Default)]
struct Sums(BTreeMap<(u32, Call, Option<SubjectId>, bool, u16), Tally>);

impl Sums {
    fn of(
        &mut self,
        pid: u32,
        call: Call,
        (subject, is_wait): (Option<SubjectId>, bool),
        errno: u16,
    ) -> &mut Tally {
        self.0.entry((pid, call, subject, is_wait, errno)).or_default()
    }

    fn into_seen(self) -> Vec<Seen> {
        let seen = |((pid, call, subject, is_wait, errno), tally)| Seen {
            pid,
            call,
            subject,
            is_wait,
            errno,
            tally,
        };
        self.0.into_iter().map(seen).collect()
    }
}

/// Names of processes, asked for while they are there.
#[derive(Debug, Default)]
struct Names(BTreeMap<u32, HostText>);

impl Names {
    fn note(&mut self, pid: u32, context: &Context<'_>) {
        self.0.entry(pid).or_insert_with(|| {
            let mut buffer = [0; 64];
            let name = context.root.read_proc_once(&format!("{pid}/comm"), &mut buffer);
            HostText::new(name.map_or(&b""[..], <[u8]>::trim_ascii_end))
        });
    }
}

/// The number of an error by its name; of those by which the kernel begins a call again, the first.
fn errno_named(name: &[u8]) -> Option<u16> {
    if name.starts_with(b"ERESTART") {
        return Some(512);
    }
    let name = std::str::from_utf8(name).ok()?;
    if let Ok(number) = name.parse() {
        return Some(number);
    }
    (1..=133_u16).find(|number| syscalls::Errno::new(i32::from(*number)).name() == Some(name))
}

/// A call by the name that a program gives it: `openat`, or `syscall_0x1d6` for one that it does not know.
fn call_named(name: &[u8], is_32_bit: bool) -> Option<Call> {
    let name = std::str::from_utf8(name).ok()?;
    if let Some(number) = name.strip_prefix("syscall_") {
        let number = match number.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return Some(Call { number: number.ok()?, is_32_bit });
    }
    Call::all_named(name).into_iter().find(|call| call.is_32_bit == is_32_bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_errors_and_calls_are_numbers() {
        for (name, want) in
            [("ENOENT", Some(2)), ("ERESTARTSYS", Some(512)), ("524", Some(524)), ("E", None)]
        {
            assert_eq!(errno_named(name.as_bytes()), want, "{name}");
        }
        let close = call_named(b"close", false).unwrap();
        assert_eq!(close.name().as_str(), "close");
        assert_eq!(call_named(b"syscall_0x1d6", false), Some(Call::new(470)));
        assert_eq!(call_named(b"syscall_470", false), Some(Call::new(470)));
        assert_eq!(call_named(b"no_such", false), None);
        #[cfg(target_arch = "x86_64")]
        assert_ne!(call_named(b"close", true).unwrap(), close);
    }
}
