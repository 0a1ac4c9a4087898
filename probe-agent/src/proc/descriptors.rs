//! The open descriptors of a process: how many, and of which kinds.
//!
//! Source: the folder `/proc/PID/fd`. How many is its size since Linux 6.2, which everybody may ask;
//! before, its entries are counted, which takes the right to look into the process, as their kinds do.
//! Kernel reference: `proc_readfd_count` and `proc_fd_getattr` in `fs/proc/fd.c`.

use super::{ReadError, Root, Source, below_proc, each_entry, snapshot};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, StatxFlags},
};

/// How many descriptors of some of a process's are of which kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Files and folders.
    pub files: u64,
    /// Sockets.
    pub sockets: u64,
    /// Ends of pipes, with a name or without.
    pub pipes: u64,
    /// Devices, terminals among them.
    pub devices: u64,
    /// What has no place in any folder: epoll, eventfd, timers and such.
    pub anonymous: u64,
}

impl Kinds {
    /// All of them.
    pub const fn all(&self) -> u64 {
        let Self { files, sockets, pipes, devices, anonymous } = *self;
        files
            .saturating_add(sockets)
            .saturating_add(pipes)
            .saturating_add(devices)
            .saturating_add(anonymous)
    }

    const fn add(&mut self, kind: FileType) {
        let kind = match kind {
            FileType::RegularFile | FileType::Directory | FileType::Symlink => &mut self.files,
            FileType::Socket => &mut self.sockets,
            FileType::Fifo => &mut self.pipes,
            FileType::CharacterDevice | FileType::BlockDevice => &mut self.devices,
            FileType::Unknown => &mut self.anonymous,
        };
        *kind = kind.saturating_add(1);
    }
}

impl Root {
    /// Counts the open descriptors of a process.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn count_descriptors(&self, pid: u32) -> Result<u64, ReadError> {
        let folder = format!("{pid}/fd");
        let counted = match &self.source {
            Source::Now(tree) => count_entries(&tree.proc, &folder),
            Source::Taken(snapshot) => snapshot.count_descriptors(&below_proc(&folder)),
        };
        let text = counted.map(|count| count.to_string());
        self.note(|| below_proc(&folder), text.as_ref().map(String::as_bytes).map_err(|it| *it));
        counted
    }

    /// The kinds of a process's open descriptors, the first so many of them.
    ///
    /// # Errors
    ///
    /// What the kernel answered. What descriptors lead to, nobody takes along in a snapshot.
    pub fn kinds_of_descriptors(&self, pid: u32, most: u64) -> Result<Kinds, ReadError> {
        let Source::Now(tree) = &self.source else { return Err(snapshot::NOT_TAKEN.into()) };
        let path = format!("{pid}/fd");
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(&tree.proc, &path, flags, Mode::empty())?;
        let mut kinds = Kinds::default();
        each_entry(&tree.proc, &path, |name, _| {
            if kinds.all() >= most {
                return;
            }
            // Only what the kernel knows already: a server of files may not answer.
            let how = AtFlags::STATX_DONT_SYNC;
            // One that was closed meanwhile is none.
            if let Ok(status) = rustix::fs::statx(&folder, name, how, StatxFlags::TYPE) {
                kinds.add(FileType::from_raw_mode(status.stx_mode.into()));
            }
        })?;
        Ok(kinds)
    }
}

/// The number of entries in a folder of descriptors.
fn count_entries(proc: &OwnedFd, folder: &str) -> Result<u64, ReadError> {
    let status = rustix::fs::statat(proc, folder, AtFlags::empty())?;
    let mut count = u64::try_from(status.st_size).unwrap_or_default();
    if count == 0 {
        each_entry(proc, folder, |_, _| count += 1)?;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::net::UnixStream,
        process::{Command, Stdio},
    };

    /// What a program has open whose output and errors go where they are told to.
    fn kinds_with(stdout: Stdio, stderr: Stdio) -> Kinds {
        let mut command = Command::new("sleep");
        command.arg("600").stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let mut child = command.spawn().unwrap();
        let kinds = Root::live().unwrap().kinds_of_descriptors(child.id(), 100);
        child.kill().unwrap();
        child.wait().unwrap();
        kinds.unwrap()
    }

    #[test]
    fn descriptors_are_told_apart_by_what_they_lead_to() {
        let (socket, _other_end) = UnixStream::pair().unwrap();
        // Who runs the tests may leave descriptors to all; and a program that starts opens files.
        let before = kinds_with(Stdio::null(), Stdio::null());
        let after = kinds_with(Stdio::piped(), Stdio::from(OwnedFd::from(socket)));
        assert_eq!(after.sockets, before.sockets + 1);
        assert_eq!(after.pipes, before.pipes + 1);
        assert_eq!(after.devices + 2, before.devices);
    }

    #[test]
    fn no_more_are_looked_at_than_may_be() {
        let kinds = Root::live().unwrap().kinds_of_descriptors(std::process::id(), 2).unwrap();
        assert_eq!(kinds.all(), 2);
    }
}
