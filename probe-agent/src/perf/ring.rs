//! The memory that the kernel writes records into, and what is read out of it.
//!
//! Kernel reference: `struct perf_event_mmap_page` in `include/uapi/linux/perf_event.h`. The kernel
//! writes between the head, which it moves, and the tail, which the reader moves; it overwrites
//! nothing that is not released, and counts what it has no room for.

#![expect(unsafe_code, reason = "memory that the kernel writes to has no safe form")]

use super::event::OpenEvent;
use crate::os::{answer::last_errno, sysconf};
use rustix::{
    fd::{AsFd as _, AsRawFd as _},
    io::Errno,
};
use std::{
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

/// Places in the first page.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// `struct perf_event_header`: kind, kind of processor state, length with the header.
const HEADER: usize = 8;

/// Room for records of one processor.
#[derive(Debug)]
pub struct Ring {
    base: NonNull<u8>,
    page: usize,
    /// Bytes after the first page; a power of two.
    bytes: usize,
    /// How far was read, and how far the kernel had written when it was last looked at.
    tail: u64,
    head: u64,
    /// Holds a record whose end is at the start of the room.
    joined: Vec<u8>,
    /// How often the room held no record where one had to begin.
    broken: u64,
}

// SAFETY: the memory is this process's, whichever thread looks at it, and there is one reader.
unsafe impl Send for Ring {}

/// A record as the kernel wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'r> {
    /// `PERF_RECORD_*`.
    pub kind: u32,
    /// In which state the processor was, and more by kind.
    pub misc: u16,
    /// What follows the header.
    pub body: &'r [u8],
}

impl Ring {
    /// Room for the records of an event, and of those that write with it: a power of two in KiB, and
    /// a page before it.
    ///
    /// # Errors
    ///
    /// What the kernel answered; `EPERM` where the limit of locked memory does not allow it.
    pub fn map(event: &OpenEvent, kib: u32) -> Result<Self, Errno> {
        let page = usize::try_from(sysconf::page_bytes()).map_err(|_| Errno::INVAL)?;
        let bytes = usize::try_from(kib).ok().and_then(|kib| kib.checked_mul(1024));
        let bytes = bytes.ok_or(Errno::NOMEM)?.max(page);
        let length = bytes.checked_add(page).ok_or(Errno::NOMEM)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let descriptor = event.as_fd().as_raw_fd();
        let nowhere = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let place =
            unsafe { libc::mmap(nowhere, length, protection, libc::MAP_SHARED, descriptor, 0) };
        if place == libc::MAP_FAILED {
            return Err(last_errno());
        }
        let base = NonNull::new(place.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, page, bytes, tail: 0, head: 0, joined: Vec::new(), broken: 0 })
    }

    /// Bytes of room for records.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// How often what was found was no record. All that was written until then is given up.
    pub const fn broken(&self) -> u64 {
        self.broken
    }

    /// Looks how far the kernel has written. What it writes later waits for the next look.
    pub fn look(&mut self) {
        // Whatever was written before the head was moved is seen after this.
        self.head = self.position(HEAD).load(Ordering::Acquire);
        let behind = self.head.wrapping_sub(self.tail);
        if behind > self.bytes_u64() {
            self.give_up();
        }
    }

    /// The next record that has been looked for.
    pub fn peek(&mut self) -> Option<RawRecord<'_>> {
        let left = usize::try_from(self.head.wrapping_sub(self.tail)).ok()?;
        if left == 0 {
            return None;
        }
        let size = self.size_of_next(left);
        if size < HEADER {
            self.give_up();
            return None;
        }
        let at = self.offset(self.tail);
        let before_the_end = size.min(self.bytes - at);
        let record = if before_the_end == size {
            self.piece(at, size)
        } else {
            let mut joined = std::mem::take(&mut self.joined);
            joined.clear();
            joined.extend_from_slice(self.piece(at, before_the_end));
            joined.extend_from_slice(self.piece(0, size - before_the_end));
            self.joined = joined;
            &self.joined
        };
        let (header, body) = record.split_first_chunk::<HEADER>()?;
        let [a, b, c, d, e, f, _, _] = *header;
        let kind = u32::from_ne_bytes([a, b, c, d]);
        Some(RawRecord { kind, misc: u16::from_ne_bytes([e, f]), body })
    }

    /// Goes on to the record after the next one.
    pub fn advance(&mut self) {
        let left = usize::try_from(self.head.wrapping_sub(self.tail)).unwrap_or_default();
        let size = self.size_of_next(left);
        self.tail = self.tail.wrapping_add(u64::try_from(size).unwrap_or_default());
    }

    /// Lets the kernel use what was read again.
    pub fn release(&mut self) {
        // Whatever was read is read before this is seen.
        self.position(TAIL).store(self.tail, Ordering::Release);
    }

    /// The length of the next record; 0 where there is none, or what is there cannot be one.
    fn size_of_next(&self, left: usize) -> usize {
        if left < HEADER {
            return 0;
        }
        // Records begin at multiples of 8, so a header is never cut by the end of the room.
        let header = self.piece(self.offset(self.tail), HEADER);
        let size =
            header.last_chunk::<2>().map_or(0, |size| usize::from(u16::from_ne_bytes(*size)));
        if size >= HEADER && size <= left && size.is_multiple_of(8) { size } else { 0 }
    }

    fn give_up(&mut self) {
        self.broken += 1;
        self.tail = self.head;
    }

    fn bytes_u64(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(u64::MAX)
    }

    fn offset(&self, position: u64) -> usize {
        usize::try_from(position & (self.bytes_u64() - 1)).unwrap_or_default()
    }

    fn position(&self, at: usize) -> &AtomicU64 {
        // SAFETY: both are 64-bit numbers in the first page, at multiples of 8, which the kernel
        // reads and writes whole; the page is mapped as long as this lives.
        unsafe { &*self.base.add(at).cast::<AtomicU64>().as_ptr() }
    }

    /// A piece of the room; an empty one where it would reach further.
    fn piece(&self, at: usize, length: usize) -> &[u8] {
        if at.checked_add(length).is_none_or(|end| end > self.bytes) {
            return &[];
        }
        // SAFETY: within the room, which is mapped as long as this lives. Only what is between tail
        // and head is asked for, where the kernel writes nothing until it is released.
        unsafe { std::slice::from_raw_parts(self.base.add(self.page + at).as_ptr(), length) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes + self.page) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Room of our own in place of the kernel's: anonymous memory that is unmapped the same way.
    fn ring(bytes: usize) -> Ring {
        let page = usize::try_from(sysconf::page_bytes()).unwrap();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let place = unsafe {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), bytes + page, protection, flags, -1, 0)
        };
        let base = NonNull::new(place.cast::<u8>()).unwrap();
        Ring { base, page, bytes, tail: 0, head: 0, joined: Vec::new(), broken: 0 }
    }

    /// Writes as the kernel does.
    fn write(ring: &Ring, bytes: &[u8]) {
        let head = ring.position(HEAD).load(Ordering::Relaxed);
        for (index, byte) in (0_u64..).zip(bytes) {
            // SAFETY: within the room.
            unsafe { ring.base.add(ring.page + ring.offset(head + index)).write(*byte) };
        }
        ring.position(HEAD).store(head + bytes.len() as u64, Ordering::Release);
    }

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(body.len() + HEADER).unwrap();
        [&kind.to_ne_bytes()[..], &7_u16.to_ne_bytes(), &size.to_ne_bytes(), body].concat()
    }

    #[test]
    fn records_come_out_as_they_went_in_also_over_the_end() {
        let mut ring = ring(4096);
        for byte in 0..100_u8 {
            let round = u32::from(byte);
            let body = vec![byte; 8 * (usize::from(byte) % 50 + 1)];
            write(&ring, &record(round, &body));
            write(&ring, &record(round + 1000, &body));
            ring.look();
            for kind in [round, round + 1000] {
                assert_eq!(ring.peek(), Some(RawRecord { kind, misc: 7, body: &body }));
                ring.advance();
            }
            assert_eq!(ring.peek(), None);
            ring.release();
            assert_eq!(ring.position(TAIL).load(Ordering::Relaxed), ring.head);
        }
        assert_eq!(ring.broken(), 0);
    }

    #[test]
    fn what_is_no_record_is_given_up_and_counted() {
        for size in [0_u16, 4, 12, 9000] {
            let mut ring = ring(4096);
            let mut bytes = record(9, &[0; 8]);
            bytes[6..8].copy_from_slice(&size.to_ne_bytes());
            write(&ring, &bytes);
            ring.look();
            assert_eq!(ring.peek(), None, "{size}");
            assert_eq!((ring.broken(), ring.tail), (1, ring.head), "{size}");
            write(&ring, &record(9, &[1; 8]));
            ring.look();
            assert!(ring.peek().is_some(), "{size}");
        }
    }

    #[test]
    fn a_head_that_no_kernel_would_set_is_given_up() {
        let mut ring = ring(4096);
        ring.position(HEAD).store(1 << 40, Ordering::Release);
        ring.look();
        assert_eq!(ring.peek(), None);
        assert_eq!(ring.broken(), 1);
    }
}
