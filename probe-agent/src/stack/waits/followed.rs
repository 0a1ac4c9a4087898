//! Waits as programs in the kernel follow them: `probe-agent/bpf/off_cpu.bpf.c`.
//!
//! Loaded once in a session, attached for the window only. What is still open at its end is read by an
//! iterator once nothing is attached any more.

use super::{
    Waits,
    fold::{Fold, Gathered},
    records::{Copied, Open, Spent, Totals, Way, Woken, kernel_frames},
};
use crate::{
    bpf::{Loaded, NoBpf, Object, Ring, Scope},
    os::clock,
    perf::sampler,
    proc::Root,
    stack::{record::Window, recording::Limits},
};
use std::{io::Read as _, time::Duration};
use syscalls::Sysno;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose waits.
    pub scope: sampler::Scope,
    /// Bytes of stack that are copied of threads that wait at the window's end.
    pub dump_bytes: u32,
}

/// Why there is nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotFollowed<E> {
    /// No program could be loaded or attached.
    Bpf(NoBpf),
    /// The window ended before its time.
    Window(E),
}

/// A stack is taken for each so much of a thread's waits.
pub const STACK_EACH: Duration = Duration::from_micros(100);

/// How often copies are taken out of the ring: it has room for five hundred.
const PACE: Duration = Duration::from_millis(25);

/// System calls that the programs know by number.
const CALLS: u32 = 512;

/// What the arguments of a system call say of what it waits for: the numbers of `off_cpu.bpf.c`.
pub(super) const SAYS_DESCRIPTOR: u32 = 1;
pub(super) const SAYS_FUTEX: u32 = 2;
pub(super) const SAYS_POLL: u32 = 3;

/// Programs that are attached.
const PROGRAMS: [&str; 4] = ["born", "waking", "returned", "switched"];

/// Follows waits as long as the window goes on. Nothing is attached after it.
///
/// # Errors
///
/// Why there is nothing.
pub fn follow<W: Window>(
    root: &Root,
    settings: &Settings,
    limits: Limits,
    window: &mut W,
) -> Result<Waits, NotFollowed<W::End>> {
    let bpf = NotFollowed::Bpf;
    let scope = Scope::of(&settings.scope, root).map_err(bpf)?;
    let loaded = Loaded::lend(root, Object::OffCpu, &[], &[]).map_err(bpf)?;
    scope.apply(&loaded).map_err(bpf)?;
    tell_calls(&loaded).map_err(bpf)?;
    let mut fold = Fold::new(root, settings.dump_bytes, limits);
    let copies = loaded.map("copies").map_err(bpf)?;
    let mut ring = Ring::of(copies).map_err(|errno| bpf(errno.into()))?;
    let start = now();
    tell_window(&loaded, (start, 0)).map_err(bpf)?;
    let programs: Vec<&str> = scope.follower().iter().chain(&PROGRAMS).copied().collect();
    let attached = loaded.attach(&programs).map_err(bpf)?;
    let mut told = Duration::ZERO;
    loop {
        let goes_on = window.pass(PACE).map_err(NotFollowed::Window)?;
        if !goes_on {
            break;
        }
        take(&mut ring, &mut fold);
        let elsewhere = fold.cpu_elsewhere();
        window.add_cpu(elsewhere.saturating_sub(told));
        told = elsewhere;
    }
    drop(attached);
    let end = now();
    take(&mut ring, &mut fold);
    tell_window(&loaded, (start, end)).map_err(bpf)?;
    let gathered = gather(&loaded, (start, end)).map_err(bpf)?;
    let mut waits = fold.finish(gathered, &mut |spent| window.add_cpu(spent.saturating_sub(told)));
    let unfollowed = Scope::unfollowed(&loaded).map_err(bpf)?;
    waits.missed.threads = waits.missed.threads.saturating_add(unfollowed);
    Ok(waits)
}

fn take(ring: &mut Ring<'_>, fold: &mut Fold<'_>) {
    /// Of each round: the program may write as fast as this reads.
    const MOST: usize = 4_096;
    ring.take(MOST, |record| {
        if let Some(copied) = Copied::parse(record) {
            fold.copied(&copied);
        }
    });
}

fn now() -> u64 {
    u64::try_from(clock::monotonic().as_nanos()).unwrap_or(u64::MAX)
}

/// `struct window`: its number, when it began, when it ended, and the time that is worth a stack.
fn tell_window(loaded: &Loaded, (start, end): (u64, u64)) -> Result<(), NoBpf> {
    let each = u64::try_from(STACK_EACH.as_nanos()).unwrap_or(u64::MAX);
    let words = [start, start, end, each];
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    Ok(loaded.map("window")?.set(&0_u32.to_ne_bytes(), &bytes)?)
}

/// Tells the programs which calls name what they wait for.
fn tell_calls(loaded: &Loaded) -> Result<(), NoBpf> {
    let map = loaded.map("says")?;
    for number in 0..CALLS {
        let call = usize::try_from(number).ok().and_then(Sysno::new);
        let says = call.map_or(0, |call| says(call.name()));
        if says != 0 {
            map.set(&number.to_ne_bytes(), &says.to_ne_bytes())?;
        }
    }
    Ok(())
}

/// What the first argument of a system call is.
pub(super) fn says(call: &str) -> u32 {
    match call {
        "futex" => SAYS_FUTEX,
        "poll" | "ppoll" => SAYS_POLL,
        "read" | "write" | "pread64" | "pwrite64" | "readv" | "writev" | "preadv" | "pwritev"
        | "preadv2" | "pwritev2" | "fsync" | "fdatasync" | "syncfs" | "sync_file_range"
        | "ftruncate" | "fallocate" | "connect" | "accept" | "accept4" | "sendto" | "recvfrom"
        | "sendmsg" | "recvmsg" | "sendmmsg" | "recvmmsg" | "epoll_wait" | "epoll_pwait"
        | "epoll_pwait2" | "flock" | "fcntl" | "ioctl" | "getdents64" | "sendfile" | "splice"
        | "tee" | "vmsplice" | "copy_file_range" | "io_uring_enter" => SAYS_DESCRIPTOR,
        _ => 0,
    }
}

/// Reads everything that the programs added up.
fn gather(loaded: &Loaded, times: (u64, u64)) -> Result<Gathered, NoBpf> {
    let mut gathered = Gathered { times, ..Gathered::default() };
    let mut text = Vec::new();
    let read = loaded.iterate("still")?.read_to_end(&mut text);
    read.map_err(|error| {
        NoBpf::from(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO))
    })?;
    for bytes in text.chunks_exact(Open::BYTES) {
        let open = Open::parse(bytes).zip(Way::number(bytes));
        gathered.open.extend(open);
    }
    for (key, value) in loaded.map("ways")?.entries()?.iter() {
        let way = Way::parse(key).zip(Way::number(key)).zip(Spent::parse(value));
        gathered.ways.extend(way.map(|((way, number), spent)| (way, number, spent)));
    }
    for (key, value) in loaded.map("kernel_stacks")?.entries()?.iter() {
        if let Some(number) = key.first_chunk().map(|key| u64::from_ne_bytes(*key)) {
            gathered.kernel_stacks.insert(number, kernel_frames(value));
        }
    }
    for (key, value) in loaded.map("wakers")?.entries()?.iter() {
        gathered.wakers.extend(Woken::parse(key, value));
    }
    let mut totals = Totals::default();
    for bytes in loaded.map("totals")?.per_cpu(&0_u32.to_ne_bytes())?.unwrap_or_default() {
        totals.add(&bytes);
    }
    gathered.totals = totals;
    Ok(gathered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_wait_for_a_descriptor_a_futex_or_several_are_told_apart() {
        let cases = [
            ("fsync", SAYS_DESCRIPTOR),
            ("connect", SAYS_DESCRIPTOR),
            ("futex", SAYS_FUTEX),
            ("ppoll", SAYS_POLL),
            ("nanosleep", 0),
            ("wait4", 0),
        ];
        for (call, want) in cases {
            assert_eq!(says(call), want, "{call}");
        }
    }
}
