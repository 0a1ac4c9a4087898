//! The memory of a map, as the kernel shares it with this process.
//!
//! Kernel reference: `array_map_mmap` in `kernel/bpf/arraymap.c`, `ringbuf_map_mmap_kern` in
//! `kernel/bpf/ringbuf.c`.

#![expect(unsafe_code, reason = "memory that the kernel writes to has no safe form")]

use crate::os::answer::last_errno;
use rustix::{
    fd::{AsRawFd as _, BorrowedFd},
    io::Errno,
};
use std::{
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

#[derive(Debug)]
pub(super) struct Mapped {
    pub(super) base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the memory is this process's, whichever thread looks at it.
unsafe impl Send for Mapped {}

impl Mapped {
    /// `bytes` of a map from `offset` on, a multiple of a page.
    ///
    /// # Errors
    ///
    /// What the kernel answered: `EINVAL` where the map is of a kind or a size for which there is no such
    /// thing.
    pub(super) fn new(
        map: BorrowedFd<'_>,
        bytes: usize,
        offset: usize,
        is_written: bool,
    ) -> Result<Self, Errno> {
        let protection =
            if is_written { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_READ };
        let offset = libc::off_t::try_from(offset).map_err(|_| Errno::INVAL)?;
        let nowhere = std::ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses.
        let place = unsafe {
            libc::mmap(nowhere, bytes, protection, libc::MAP_SHARED, map.as_raw_fd(), offset)
        };
        if place == libc::MAP_FAILED {
            return Err(last_errno());
        }
        let base = NonNull::new(place.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, bytes })
    }

    /// The number at the start of it.
    pub(super) fn position(&self) -> &AtomicU64 {
        // SAFETY: a page at least, at a page's start; the kernel changes it as a whole.
        unsafe { &*self.base.as_ptr().cast::<AtomicU64>() }
    }

    /// Reads the numbers from a place on; whether all of them are within it. The place is a multiple of
    /// a number's size. A program that runs meanwhile may have changed some of them.
    pub(super) fn read(&self, from: usize, to: &mut [u64]) -> bool {
        let end = from.checked_add(size_of_val(to));
        if end.is_none_or(|end| end > self.bytes) || !from.is_multiple_of(size_of::<u64>()) {
            return false;
        }
        for (place, number) in to.iter_mut().enumerate() {
            // SAFETY: within what is mapped and at a multiple of its size, by the check above; the kernel
            // changes it as a whole.
            let there = unsafe {
                &*self.base.as_ptr().add(from + place * size_of::<u64>()).cast::<AtomicU64>()
            };
            *number = there.load(Ordering::Relaxed);
        }
        true
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: mapped with this length, and nothing borrowed from it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}
