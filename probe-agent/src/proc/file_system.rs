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
use std::ffi::CString;

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

/// Where a file system is mounted: all that is needed to ask it, ready before the question, because
/// who puts it may not allocate.
#[derive(Clone, Debug)]
pub struct Place {
    /// Relative to the root.
    path: CString,
    /// Major and minor number; `None` for a file system that gives each of its volumes numbers of
    /// its own.
    device: Option<(u32, u32)>,
}

impl Place {
    /// The place of a mount point, and the device that has to be there.
    ///
    /// # Errors
    ///
    /// When the mount point has a zero byte in it.
    pub fn new(mount_point: &[u8], device: Option<(u32, u32)>) -> Result<Self, Errno> {
        let below: Vec<u8> = mount_point.iter().copied().skip_while(|it| *it == b'/').collect();
        let path = if below.is_empty() { b".".to_vec() } else { below };
        Ok(Self { path: CString::new(path).map_err(|_| Errno::INVAL)?, device })
    }

    /// The place of a mount.
    ///
    /// # Errors
    ///
    /// As for [`Place::new`].
    pub fn of(mount: &Mount) -> Result<Self, Errno> {
        const MANY_DEVICES: [&[u8]; 3] = [b"bcachefs", b"btrfs", b"zfs"];
        let text = std::str::from_utf8(&mount.device).ok();
        let device = text.and_then(|text| text.split_once(':')).and_then(|(major, minor)| {
            Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?))
        });
        let has_many = MANY_DEVICES.contains(&mount.kind.as_slice());
        Self::new(&mount.mount_point, device.filter(|_| !has_many))
    }
}

/// Asks a file system for its space. Allocates nothing.
///
/// # Errors
///
/// What the kernel answered; `ENOENT` where something else is mounted there now.
pub fn space(top: &OwnedFd, place: &Place) -> Result<Space, Errno> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let opened = rustix::fs::openat(top, place.path.as_c_str(), flags, Mode::empty())?;
    let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
    // Linux 4.11 and later; before, what is there is taken for what was there.
    if let Ok(found) = rustix::fs::statx(&opened, c"", flags, StatxFlags::TYPE)
        && place.device.is_some_and(|want| want != (found.stx_dev_major, found.stx_dev_minor))
    {
        return Err(Errno::NOENT);
    }
    let found = rustix::fs::fstatfs(&opened)?;
    Ok(Space {
        blocks: found.f_blocks,
        free: found.f_bfree,
        available: found.f_bavail,
        inodes: found.f_files,
        inodes_free: found.f_ffree,
    })
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
