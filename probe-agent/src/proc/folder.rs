//! Files below a folder that is open, read as they are now.

use super::{ReadError, Root, Source, TOO_LONG};
use rustix::{
    fd::OwnedFd,
    fs::{FileType, Mode, OFlags, RawDir},
    io::Errno,
};
use std::mem::MaybeUninit;

pub(super) const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

pub(super) fn read_once_at<'b>(
    folder: &OwnedFd,
    path: &str,
    buffer: &'b mut [u8],
) -> Result<&'b [u8], ReadError> {
    let file = rustix::fs::openat(folder, path, READ_FLAGS, Mode::empty())?;
    let length = rustix::io::read(&file, &mut *buffer)?;
    whole_piece(buffer, length)
}

impl Root {
    /// Lists everything in a folder below the root, links too, by name. The path is relative.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn list_names(&self, folder: &str, mut visit: impl FnMut(&[u8])) -> Result<(), ReadError> {
        match &self.source {
            Source::Now(tree) => each_entry(&tree.root, folder, |name, _| visit(name)),
            Source::Taken(snapshot) => {
                snapshot.names(folder)?.iter().for_each(|name| visit(name));
                Ok(())
            }
        }
    }
}

pub(super) fn each_entry(
    base: &OwnedFd,
    folder: &str,
    mut visit: impl FnMut(&[u8], FileType),
) -> Result<(), ReadError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(base, folder, flags, Mode::empty())?;
    let mut room = [MaybeUninit::uninit(); 32 << 10];
    let mut entries = RawDir::new(folder, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            visit(name, entry.file_type());
        }
    }
    Ok(())
}

pub(super) fn whole_piece(buffer: &[u8], length: usize) -> Result<&[u8], ReadError> {
    if length < buffer.len() {
        Ok(buffer.get(..length).unwrap_or_default())
    } else {
        Err(TOO_LONG.into())
    }
}

/// Takes no more memory than the text: a page that is touched for the first time costs as much as
/// reading a short file.
pub(super) fn read_at(
    folder: &OwnedFd,
    path: &str,
    most: usize,
    buffer: &mut Vec<u8>,
) -> Result<(), ReadError> {
    let file = rustix::fs::openat(folder, path, READ_FLAGS, Mode::empty())?;
    let mut room = [0; 4096];
    buffer.clear();
    while buffer.len() <= most {
        match rustix::io::read(&file, &mut room) {
            Ok(0) => return Ok(()),
            Ok(length) => buffer.extend_from_slice(room.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Err(TOO_LONG.into())
}
