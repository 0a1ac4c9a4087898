//! Records that a program sends one by one, in the order in which it wrote them.
//!
//! Kernel reference: `Documentation/bpf/ringbuf.rst`, `kernel/bpf/ringbuf.c`. A page with how far was
//! read, which this process writes; a page with how far the kernel wrote; and the room for records,
//! mapped twice in a row so that none is ever cut.

#![expect(unsafe_code, reason = "memory that the kernel writes to has no safe form")]

use super::{map::Map, mapped::Mapped};
use crate::os::sysconf;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    fd::BorrowedFd,
    io::Errno,
};
use std::{
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

/// A record that is still being written, and one that was given up.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;

/// Length and place of the record, before each.
const HEADER_BYTES: usize = 8;

/// The reader of a map of kind `RINGBUF`. There is one at a time.
#[derive(Debug)]
pub struct Ring<'m> {
    map: BorrowedFd<'m>,
    /// The page that is written here.
    read: Mapped,
    /// The kernel's page, and twice the room.
    written: Mapped,
    page: usize,
    bytes: usize,
}

impl<'m> Ring<'m> {
    /// Begins to read.
    ///
    /// # Errors
    ///
    /// What the kernel answered: `EINVAL` where the map is of another kind.
    pub fn of(map: &'m Map) -> Result<Self, Errno> {
        let page = usize::try_from(sysconf::page_bytes()).map_err(|_| Errno::INVAL)?;
        let bytes = usize::try_from(map.room()).map_err(|_| Errno::INVAL)?;
        let twice = bytes.checked_mul(2).and_then(|twice| twice.checked_add(page));
        let descriptor = map.as_fd();
        Ok(Self {
            map: descriptor,
            read: Mapped::new(descriptor, page, 0, true)?,
            written: Mapped::new(descriptor, twice.ok_or(Errno::NOMEM)?, page, false)?,
            page,
            bytes,
        })
    }

    /// Waits for a record, no longer than that.
    pub fn wait(&self, patience: Duration) {
        let time = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        let _ = poll(&mut [PollFd::from_borrowed_fd(self.map, PollFlags::IN)], Some(&time));
    }

    /// Hands out what was written, up to `most` records. How many there were.
    pub fn take(&mut self, most: usize, mut take: impl FnMut(&[u8])) -> usize {
        let (mut taken, mut tail) = (0, self.read.position().load(Ordering::Relaxed));
        while taken < most {
            let head = self.written.position().load(Ordering::Acquire);
            // A program may be at it still: in order means to wait for it.
            let Some((length, record)) = self.record(tail, head) else { break };
            if let Some(record) = record {
                take(record);
                taken += 1;
            }
            tail = tail.wrapping_add(length);
            // Whatever was read is read before this is seen.
            self.read.position().store(tail, Ordering::Release);
        }
        taken
    }

    /// Passes over what was written.
    pub fn skip(&mut self) {
        let head = self.written.position().load(Ordering::Acquire);
        self.read.position().store(head, Ordering::Release);
    }

    /// What the next record takes, and its bytes unless it was given up.
    fn record(&self, tail: u64, head: u64) -> Option<(u64, Option<&[u8]>)> {
        let left = usize::try_from(head.wrapping_sub(tail)).ok()?;
        if left < HEADER_BYTES || left > self.bytes {
            return None;
        }
        let place = usize::try_from(tail).ok()? & self.bytes.checked_sub(1)?;
        // SAFETY: records begin at multiples of 8 within the room, which is mapped after the page; the
        // kernel changes the number as a whole.
        let header =
            unsafe { &*self.written.base.as_ptr().add(self.page + place).cast::<AtomicU32>() };
        let header = header.load(Ordering::Acquire);
        if header & BUSY != 0 {
            return None;
        }
        let length = usize::try_from(header & !DISCARDED).ok()?;
        let whole = length.checked_add(HEADER_BYTES)?.checked_next_multiple_of(8)?;
        if whole > left {
            return None;
        }
        let is_given_up = header & DISCARDED != 0;
        // SAFETY: within twice the room, by the checks above; the kernel does not write to a record
        // that was submitted until it is released.
        let record = unsafe {
            let start = self.written.base.as_ptr().add(self.page + place + HEADER_BYTES);
            std::slice::from_raw_parts(start, length)
        };
        Some((u64::try_from(whole).ok()?, (!is_given_up).then_some(record)))
    }
}
