//! What is read of files that may not let a reader go.

use super::{HANGS, NOT_TRIED, ReadError, TOO_LONG, Tree, read_at};
use crate::abandonable::Outcome;
use rustix::fd::OwnedFd;
use std::time::Duration;

/// For how long a read that may hang is waited for. One that waits for a page from a slow disk is
/// faster than this.
pub const PATIENCE: Duration = Duration::from_millis(100);

/// The most that is read of a file of a process that may not let a reader go. Its arguments may be of
/// two megabytes, little more than their start is shown, and those of many are held together.
const MAX_PATIENT_BYTES: usize = 16 << 10;

/// The most that is read of a process's mappings, of which each counts. A line is of some hundred
/// bytes, and a process may have 65,530 of them (`vm.max_map_count`).
const MAX_MAPS_BYTES: usize = 16 << 20;

/// The most that is read of the sizes by mapping: some 700 bytes each.
const MAX_SMAPS_BYTES: usize = 48 << 20;

/// What was read on other threads, in the order in which it was asked for.
#[derive(Debug)]
pub struct Patient {
    /// Of each file, in the order asked.
    pub texts: Vec<Result<Text, ReadError>>,
    /// What reading them cost.
    pub cpu: Duration,
}

/// The text of a file, or the start of one that is longer than what is read of one.
#[derive(Debug)]
pub struct Text {
    /// What was read.
    pub bytes: Vec<u8>,
    /// Whether that is all there is.
    pub is_whole: bool,
}

impl Text {
    pub(super) fn read(folder: &OwnedFd, path: &str) -> Result<Self, ReadError> {
        let most = match path.rsplit_once('/') {
            Some((_, "maps")) => MAX_MAPS_BYTES,
            Some((_, "smaps")) => MAX_SMAPS_BYTES,
            Some(_) | None => MAX_PATIENT_BYTES,
        };
        Self::of(|buffer| read_at(folder, path, most, buffer))
    }

    pub(super) fn of(
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), ReadError>,
    ) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        match read(&mut bytes) {
            Ok(()) => Ok(Self { bytes, is_whole: true }),
            Err(error) if error.is_too_long() => Ok(Self { bytes, is_whole: false }),
            Err(error) => Err(error),
        }
    }

    /// # Errors
    ///
    /// That the file is longer than what is read of one.
    pub fn whole(self) -> Result<Vec<u8>, ReadError> {
        if self.is_whole { Ok(self.bytes) } else { Err(TOO_LONG.into()) }
    }
}

impl Tree {
    /// Reads files below `/proc` on threads that can be left behind.
    pub(super) fn read_each_patiently(&self, paths: Vec<String>) -> Patient {
        let done = self.readers.each(paths);
        let text = |outcome| match outcome {
            Outcome::Returned(text) => text,
            Outcome::Hangs => Err(HANGS.into()),
            Outcome::NotTried => Err(NOT_TRIED.into()),
        };
        Patient { texts: done.outcomes.into_iter().map(text).collect(), cpu: done.cpu }
    }
}
