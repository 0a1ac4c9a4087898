//! Opens files as a process sees them, and never one outside of its root.
//!
//! The process chooses what its links say, and the kernel would follow them into our own files. So a
//! path is walked part by part, nothing is followed by the kernel, and what a link says is taken as
//! a path within the same root. `openat2(2)` could do the same; its arguments are in memory, where the
//! sandbox's filter does not look, and before Linux 5.6 there is none.

use rustix::{
    fd::OwnedFd,
    fs::{FileType, Mode, OFlags, Stat},
};

/// Links that are followed on the way to one file; the kernel follows 40.
const MOST_LINKS: usize = 40;

/// Parts of a path, those of links included.
const MOST_PARTS: usize = 256;

const PLACE: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A folder that is the root of some processes.
pub struct Below<'p> {
    proc: &'p OwnedFd,
    root: OwnedFd,
    /// Tells it from others.
    id: (u64, u64),
}

impl<'p> Below<'p> {
    /// The root of a process, by its folder in `/proc`: `1234` or `self`. None where it has ended, or
    /// may not be looked into.
    pub fn of(proc: &'p OwnedFd, process: &str) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // This link leads out of `/proc` on purpose: it is the kernel's.
        let root =
            rustix::fs::openat(proc, format!("{process}/root"), flags, Mode::empty()).ok()?;
        let status = rustix::fs::fstat(&root).ok()?;
        Some(Self { proc, root, id: (status.st_dev, status.st_ino) })
    }

    /// Whether another root is the same folder.
    pub fn is_same(&self, other: &Self) -> bool {
        self.id == other.id
    }

    /// Opens a regular file by a path that begins with a slash, for reading. None where there is
    /// none.
    pub fn open(&self, path: &[u8]) -> Option<(OwnedFd, Stat)> {
        let mut folders: Vec<OwnedFd> = Vec::new();
        let mut left: Vec<Vec<u8>> = parts(path);
        let (mut links, mut steps) = (0, 0);
        while let Some(part) = left.pop() {
            steps += 1;
            if steps > MOST_PARTS {
                return None;
            }
            match part.as_slice() {
                b"" | b"." => continue,
                // Above the root there is the root.
                b".." => {
                    folders.pop();
                    continue;
                }
                _ => {}
            }
            let folder = folders.last().unwrap_or(&self.root);
            let found = rustix::fs::openat(folder, part.as_slice(), PLACE, Mode::empty()).ok()?;
            let status = rustix::fs::fstat(&found).ok()?;
            match FileType::from_raw_mode(status.st_mode) {
                FileType::Directory => folders.push(found),
                FileType::Symlink if links < MOST_LINKS => {
                    links += 1;
                    let link = rustix::fs::readlinkat(&found, "", Vec::new()).ok()?.into_bytes();
                    if link.starts_with(b"/") {
                        folders.clear();
                    }
                    left.extend(parts(&link));
                }
                FileType::RegularFile if left.is_empty() => {
                    return Some((self.read(&found)?, status));
                }
                FileType::Symlink
                | FileType::RegularFile
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown => return None,
            }
        }
        None
    }

    /// Opens the very file that was looked at: another may be in its place by now, as a pipe, which
    /// would hold whoever opens it.
    fn read(&self, found: &OwnedFd) -> Option<OwnedFd> {
        use rustix::fd::AsRawFd as _;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
        let itself = format!("self/fd/{}", found.as_raw_fd());
        rustix::fs::openat(self.proc, itself, flags, Mode::empty()).ok()
    }
}

/// The parts of a path, the last one first.
fn parts(path: &[u8]) -> Vec<Vec<u8>> {
    let parts = path.split(|byte| *byte == b'/').take(MOST_PARTS).map(<[u8]>::to_vec);
    let mut parts: Vec<_> = parts.collect();
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::Root;
    use std::{io::Read as _, os::unix::fs::symlink, path::Path};

    /// What is found in a folder that stands for a root.
    fn found(folder: &Path, path: &str) -> Option<String> {
        let proc = Root::live().unwrap().live_proc().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder, flags, Mode::empty()).unwrap();
        let below = Below { proc: &proc, root, id: (0, 0) };
        let (file, _) = below.open(path.as_bytes())?;
        let mut text = String::new();
        std::fs::File::from(file).read_to_string(&mut text).unwrap();
        Some(text)
    }

    #[test]
    fn links_lead_within_the_root_and_nowhere_else() {
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        std::fs::write(&secret, "secret").unwrap();
        let root = outside.path().join("root");
        std::fs::create_dir_all(root.join("usr/lib")).unwrap();
        std::fs::create_dir_all(root.join("proc/self")).unwrap();
        std::fs::write(root.join("usr/lib/file"), "inside").unwrap();
        let links = [
            ("lib", "usr/lib"),
            ("usr/absolute", "/usr/lib"),
            ("usr/up", "../../../usr/./lib"),
            ("usr/out", "../../secret"),
            ("outside", secret.to_str().unwrap()),
            ("loop", "/loop"),
            ("proc/self/root", "/proc/1/root"),
            ("chain", "usr/chain"),
            ("usr/chain", "../lib/file"),
        ];
        for (link, target) in links {
            symlink(target, root.join(link)).unwrap();
        }
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("pipe"),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let cases = [
            ("/usr/lib/file", true),
            ("//usr/./lib//file", true),
            ("/../../usr/lib/file", true),
            ("/lib/file", true),
            ("/usr/absolute/file", true),
            ("/usr/up/file", true),
            ("/chain", true),
            ("/usr/out", false),
            ("/outside", false),
            ("/../secret", false),
            ("/loop", false),
            ("/proc/self/root/etc/passwd", false),
            ("/usr/lib", false),
            ("/usr/lib/file/more", false),
            ("/pipe", false),
            ("/", false),
            ("", false),
            ("/nothing", false),
        ];
        for (path, is_there) in cases {
            let want = is_there.then(|| "inside".to_owned());
            assert_eq!(found(&root, path), want, "{path}");
        }
        let long = "/usr/lib/..".repeat(200);
        assert_eq!(found(&root, &format!("{long}/usr/lib/file")), None);
    }
}
