//! Files that stay open, and how many may.

use super::{ReadError, whole_piece};
use rustix::{fd::OwnedFd, io::Errno};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A file of `/proc` that stays open.
#[derive(Debug)]
pub struct KeptFile {
    file: OwnedFd,
    _place: KeptPlace,
}

/// One of so many files that may be kept open; given back when it is dropped.
#[derive(Debug)]
pub(super) struct KeptPlace(Arc<AtomicU64>);

impl KeptPlace {
    pub(super) fn take(left: &Arc<AtomicU64>) -> Result<Self, ReadError> {
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .map(|_| Self(Arc::clone(left)))
            .map_err(|_| Errno::MFILE.into())
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl KeptFile {
    pub(super) const fn new(file: OwnedFd, place: KeptPlace) -> Self {
        Self { file, _place: place }
    }

    /// Reads the file as it is now, with one read.
    ///
    /// # Errors
    ///
    /// What the kernel answered; `ESRCH` once the process or thread has ended. Or that the file
    /// fills the room and may go on.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], ReadError> {
        let length = rustix::io::pread(&self.file, &mut *buffer, 0)?;
        whole_piece(buffer, length)
    }
}
