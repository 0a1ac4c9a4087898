//! How much space a mounted file system has.
//!
//! Source: `fstatfs` of a handle that was opened with `O_PATH` (Linux 3.12 and later). Kernel
//! reference: `fs/statfs.c`, `fs/namei.c`. Opened so, the mount point of an automounter mounts
//! nothing, and no request goes to the server of a network file system for opening it.
//! May wait for ever where such a server does not answer.

use super::mountinfo::Mount;
use protocol::units::Percent;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, Mode, OFlags, StatxFlags},
    io::Errno,
};
use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

/// Space in blocks, and inodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// All blocks.
    pub blocks: u64,
    /// Of them, those that are free.
    pub free: u64,
    /// Of those, what somebody who is not root may use.
    pub available: u64,
    /// All inodes; 0 where there are as many as one likes.
    pub inodes: u64,
    /// Of them, those that are free.
    pub inodes_free: u64,
}

impl Space {
    /// The share of the space that is used, as `df` shows it; `None` for a file system that does not
    /// say.
    pub fn used(&self) -> Option<Percent> {
        let used = self.blocks.saturating_sub(self.free);
        Percent::of(used as f64, used.saturating_add(self.available) as f64)
    }

    /// The share of the inodes that is used; `None` where there are as many as one likes.
    pub fn inodes_used(&self) -> Option<Percent> {
        let used = self.inodes.saturating_sub(self.inodes_free);
        Percent::of(used as f64, self.inodes as f64)
    }
}

/// Asks a file system for its space. The mount point is relative to `top`.
///
/// # Errors
///
/// What the kernel answered; `ENOENT` where something else is mounted there now.
pub fn space(top: &OwnedFd, mount: &Mount) -> Result<Space, Errno> {
    let below: Vec<u8> = mount.mount_point.iter().copied().skip_while(|it| *it == b'/').collect();
    let path =
        Path::new(if below.is_empty() { OsStr::new(".") } else { OsStr::from_bytes(&below) });
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let place = rustix::fs::openat(top, path, flags, Mode::empty())?;
    if !is_device_of(&place, mount) {
        return Err(Errno::NOENT);
    }
    let found = rustix::fs::fstatfs(&place)?;
    Ok(Space {
        blocks: found.f_blocks,
        free: found.f_bfree,
        available: found.f_bavail,
        inodes: found.f_files,
        inodes_free: found.f_ffree,
    })
}

/// Whether what was opened is of the file system of a mount. One that gives each of its volumes a
/// device of its own cannot be told by that.
fn is_device_of(place: &OwnedFd, mount: &Mount) -> bool {
    const MANY_DEVICES: [&[u8]; 3] = [b"bcachefs", b"btrfs", b"zfs"];
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    // Linux 4.11 and later.
    let Ok(found) = rustix::fs::statx(place, "", flags, StatxFlags::TYPE) else { return true };
    let device = format!("{}:{}", found.stx_dev_major, found.stx_dev_minor);
    MANY_DEVICES.contains(&mount.kind.as_slice()) || device.as_bytes() == mount.device
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_those_of_df() {
        let space = Space { blocks: 1000, free: 300, available: 250, inodes: 0, inodes_free: 0 };
        // 700 used of 950: what is reserved for root is nobody's.
        assert_eq!(space.used().unwrap().get(), 73.7);
        assert_eq!(space.inodes_used(), None);
        let full = Space { free: 50, available: 0, inodes: 10, inodes_free: 1, ..space };
        assert_eq!(full.used().unwrap().get(), 100.0);
        assert_eq!(full.inodes_used().unwrap().get(), 90.0);
        let none = Space { blocks: 0, free: 0, available: 0, ..space };
        assert_eq!(none.used(), None);
    }
}
