//! What the spawner does for a trace: it starts the tracer, hands on what that sees, and ends it.

use super::{End, Sight, Wish, following, requests};
use crate::os::spawner;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::OwnedFd,
    io::Errno,
};
use std::{
    os::{fd::AsFd as _, unix::net::UnixStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicI32, Ordering},
    },
    time::{Duration, Instant},
};

/// What waits to be sent at most. What comes after it is counted and not kept.
const MOST_WAITING_BYTES: usize = 8 << 20;

/// How often is sent what was seen.
const BEAT: Duration = Duration::from_millis(5);

/// What the tracer has seen and the worker has not taken yet.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    is_closed: AtomicBool,
    /// The tracer's thread, 0 before it has begun.
    tracer: AtomicI32,
}

#[derive(Debug, Default)]
struct Waiting {
    bytes: Vec<u8>,
    lost: u64,
}

impl Outbox {
    /// Takes what was seen, if there is room.
    pub(super) fn put(&self, sight: &Sight) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.bytes.len() >= MOST_WAITING_BYTES {
            waiting.lost += 1;
            return;
        }
        let bytes = std::mem::take(&mut waiting.bytes);
        let length = bytes.len();
        match postcard::to_extend(sight, bytes) {
            Ok(bytes) => waiting.bytes = bytes,
            // It has no values that cannot be written.
            Err(_) => waiting.lost += u64::try_from(length).unwrap_or(u64::MAX).max(1),
        }
    }

    /// Nothing more is wanted.
    fn close(&self) {
        self.is_closed.store(true, Ordering::Release);
    }

    /// Whether nothing more is wanted.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    fn take(&self) -> Vec<u8> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut waiting.bytes)
    }

    fn lost(&self) -> u64 {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).lost
    }
}

/// Answers each wish in turn, until the worker is gone.
pub(in crate::os) fn serve(channel: OwnedFd) {
    requests::be_wakeable();
    while answer(&channel).is_some() {}
    drop(channel);
}

fn answer(channel: &OwnedFd) -> Option<()> {
    let wish = Wish::read(channel)?;
    let outbox = Arc::new(Outbox::default());
    let work = {
        let (wish, outbox) = (wish.clone(), Arc::clone(&outbox));
        move || {
            outbox.tracer.store(requests::own_tid(), Ordering::Release);
            following::run(&wish, &outbox)
        }
    };
    let tracer = std::thread::Builder::new().name("tracer".to_owned()).spawn(work);
    let mut relay = Relay { channel, unsent: Vec::new(), heard_stop: false, is_alone: false };
    let end = match tracer {
        Ok(tracer) => {
            let until = Instant::now() + wish.limit;
            while !tracer.is_finished() {
                relay.pass(&outbox);
                if outbox.is_closed() || Instant::now() >= until {
                    requests::wake(outbox.tracer.load(Ordering::Acquire));
                }
            }
            tracer.join().unwrap_or_default()
        }
        Err(_) => End {
            refused: wish.pids.iter().map(|pid| (*pid, Errno::AGAIN.raw_os_error())).collect(),
            ..End::default()
        },
    };
    relay.finish(&outbox, End { lost: outbox.lost(), ..end })
}

/// Between the tracer and the worker.
struct Relay<'c> {
    channel: &'c OwnedFd,
    /// What was taken and not sent yet, with the lengths before it.
    unsent: Vec<u8>,
    heard_stop: bool,
    /// The worker is gone.
    is_alone: bool,
}

impl Relay<'_> {
    /// Sends what can be sent without waiting, and hears whether it is enough.
    fn pass(&mut self, outbox: &Outbox) {
        if self.unsent.is_empty() {
            self.unsent = framed(&outbox.take());
        }
        if self.is_alone || self.heard_stop {
            outbox.close();
            std::thread::sleep(BEAT / 5);
            self.send();
            return;
        }
        let mut waiting = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::IN)];
        let timeout = Timespec { tv_sec: 0, tv_nsec: i64::from(BEAT.subsec_nanos()) };
        if matches!(poll(&mut waiting, Some(&timeout)), Ok(1..)) {
            let mut word = [0; 1];
            match spawner::read_exact(self.channel, &mut word) {
                Some(()) => self.heard_stop = true,
                None => self.is_alone = true,
            }
            outbox.close();
        }
        self.send();
    }

    /// Writes as much as fits: a worker that takes nothing keeps nobody waiting.
    fn send(&mut self) {
        let Ok(copy) = self.channel.try_clone() else { return };
        let stream = UnixStream::from(copy);
        let mut sent = 0;
        // A flag of this end alone, which only this thread uses.
        let _ = stream.set_nonblocking(true);
        while let Some(rest) = self.unsent.get(sent..).filter(|rest| !rest.is_empty()) {
            match rustix::io::write(&stream, rest) {
                Ok(length) => sent += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    self.is_alone = true;
                    sent = self.unsent.len();
                }
            }
        }
        let _ = stream.set_nonblocking(false);
        self.unsent.drain(..sent);
    }

    /// Nobody is traced any more: the worker may take its time.
    fn finish(mut self, outbox: &Outbox, end: End) -> Option<()> {
        outbox.put_last(&end);
        self.unsent.extend(framed(&outbox.take()));
        if self.is_alone {
            return None;
        }
        spawner::write_all(self.channel, &self.unsent)?;
        if !self.heard_stop {
            spawner::read_exact(self.channel, &mut [0; 1])?;
        }
        Some(())
    }
}

impl Outbox {
    fn put_last(&self, end: &End) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(bytes) = postcard::to_extend(&Sight::End(end.clone()), Vec::new()) {
            waiting.bytes.extend(bytes);
        }
    }
}

/// With a length before it. A sight must not be parted, so it is one piece whatever its length.
fn framed(bytes: &[u8]) -> Vec<u8> {
    if bytes.is_empty() {
        return Vec::new();
    }
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut framed = length.to_le_bytes().to_vec();
    framed.extend(bytes);
    framed
}
