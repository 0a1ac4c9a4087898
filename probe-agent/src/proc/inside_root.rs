//! Files as a process sees them: below its own root, in its own mount namespace.
//!
//! Source: `/proc/PID/root`, a link that leads to the process's root in its mount namespace (`man 5
//! proc_pid_root`; Linux 2.6.24 and later for namespaces of other processes). The kernel follows it
//! for whoever may inspect the process. An absolute link below it would lead back to the reader's own
//! root, and `..` out of it, so that neither is left to the kernel: each part of a path is opened by
//! itself, without following (`O_PATH | O_NOFOLLOW`), and where a link leads is worked out here, inside
//! the root. `openat2` with `RESOLVE_IN_ROOT` does the same, but its arguments are in memory, where the
//! sandbox does not look.
//!
//! Opened with `O_PATH`, a pipe holds nobody, a device does nothing, and an automounter mounts nothing
//! (`do_dentry_open`, `build_open_flags` in the kernel's `fs/open.c`). Only what is a regular file is
//! then opened for reading.

use rustix::{
    fd::{AsRawFd as _, OwnedFd},
    fs::{FileType, Mode, OFlags, Stat},
    io::Errno,
};
use std::collections::VecDeque;

/// A process's root, as a place to open files below.
#[derive(Debug)]
pub struct InsideRoot<'p> {
    proc: &'p OwnedFd,
    top: OwnedFd,
    /// Where it is below our own root, if it is.
    place: Vec<u8>,
}

/// A regular file, open for reading.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: OwnedFd,
    /// Its path inside the root, without links, `.` and `..`.
    pub path: Vec<u8>,
    /// What the kernel says of it.
    pub status: Stat,
}

/// Why a file was not opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// The path is empty, does not begin with a slash, has a zero byte in it, or is longer than the
    /// kernel takes.
    NoPath,
    /// What the kernel answered on the way.
    Refused(Errno),
    /// It goes through more links than the kernel itself follows, or through more folders than are
    /// walked.
    TooFar,
    /// It leads into files that the kernel makes, such as `/proc`: links there lead anywhere, and
    /// reading there has effects.
    OfTheKernel,
    /// It is a folder, a pipe, a device or a socket.
    NoFile,
}

/// `PATH_MAX` of the kernel, with its zero byte.
const MOST_PATH_BYTES: usize = 4096;

/// As many links as the kernel follows (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

/// Parts of paths that are opened for one file. Each `..` walks anew from the root.
const MOST_STEPS: usize = 1024;

const LOOK: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

const READ: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

impl<'p> InsideRoot<'p> {
    /// The root of a process, by its folder in an open `/proc`: `1234` or `self`.
    ///
    /// # Errors
    ///
    /// What the kernel answered: `ENOENT` where there is no such process, `EACCES` where it may not be
    /// inspected.
    pub fn of(proc: &'p OwnedFd, process: &str) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // This link leads out of `/proc` on purpose: it is the kernel's.
        let top = rustix::fs::openat(proc, format!("{process}/root"), flags, Mode::empty())?;
        let place = rustix::fs::readlinkat(proc, format!("{process}/root"), Vec::new())?;
        Ok(Self { proc, top, place: place.into_bytes() })
    }

    /// Some folder as a root.
    #[cfg(test)]
    pub fn at(proc: &'p OwnedFd, folder: &std::path::Path) -> Self {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(folder, flags, Mode::empty()).unwrap();
        Self { proc, top, place: b"/".to_vec() }
    }

    /// A path of this root, by how the kernel told it to us: after `chroot(2)`, files are shown below
    /// our own root, not below that of the process.
    pub fn path_below<'n>(&self, path: &'n [u8]) -> &'n [u8] {
        let below = path.strip_prefix(self.place.as_slice());
        below.filter(|below| below.starts_with(b"/")).unwrap_or(path)
    }

    /// Device and inode of the root, which tell it from others.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn id(&self) -> Result<(u64, u64), Errno> {
        rustix::fs::fstat(&self.top).map(|status| (status.st_dev, status.st_ino))
    }

    /// Opens a regular file by its path inside the root, and says where it is. May wait for ever where
    /// its file system does not answer: for a [`crate::abandonable::Crew`].
    ///
    /// # Errors
    ///
    /// [`NotOpened`].
    pub fn open(&self, path: &[u8]) -> Result<Opened, NotOpened> {
        if !path.starts_with(b"/") || path.len() >= MOST_PATH_BYTES || path.contains(&0) {
            return Err(NotOpened::NoPath);
        }
        let mut walk = Walk::from(self)?;
        walk.append(path);
        while let Some(part) = walk.left.pop_front() {
            match part.as_slice() {
                b"" | b"." => {}
                b".." => walk.up()?,
                name => walk.enter(name)?,
            }
        }
        walk.into_file()
    }
}

/// On the way to a file.
struct Walk<'r> {
    root: &'r InsideRoot<'r>,
    /// Where it is; `None` at the root itself.
    here: Option<OwnedFd>,
    /// What is there.
    status: Stat,
    /// How that is reached from the root: names, none of which is a link.
    names: Vec<Vec<u8>>,
    /// What of the path is not walked yet.
    left: VecDeque<Vec<u8>>,
    links: usize,
    steps: usize,
}

impl<'r> Walk<'r> {
    fn from(root: &'r InsideRoot<'_>) -> Result<Self, NotOpened> {
        let status = rustix::fs::fstat(&root.top).map_err(NotOpened::Refused)?;
        refuse_the_kernels(&root.top)?;
        let (here, names, left) = (None, Vec::new(), VecDeque::new());
        Ok(Self { root, here, status, names, left, links: 0, steps: 0 })
    }

    /// Puts a path before what is left, after which it goes on from there.
    fn append(&mut self, path: &[u8]) {
        for part in path.rsplit(|byte| *byte == b'/') {
            self.left.push_front(part.to_vec());
        }
    }

    /// Opens something in the folder where it is.
    fn look(&mut self, name: &[u8]) -> Result<(OwnedFd, Stat), NotOpened> {
        self.steps += 1;
        if self.steps > MOST_STEPS {
            return Err(NotOpened::TooFar);
        }
        let folder = self.here.as_ref().unwrap_or(&self.root.top);
        let found = rustix::fs::openat(folder, name, LOOK, Mode::empty());
        let found = found.map_err(NotOpened::Refused)?;
        let status = rustix::fs::fstat(&found).map_err(NotOpened::Refused)?;
        if status.st_dev != self.status.st_dev {
            refuse_the_kernels(&found)?;
        }
        Ok((found, status))
    }

    fn enter(&mut self, name: &[u8]) -> Result<(), NotOpened> {
        let (found, status) = self.look(name)?;
        if kind(&status) != FileType::Symlink {
            (self.here, self.status) = (Some(found), status);
            self.names.push(name.to_vec());
            return Ok(());
        }
        self.links += 1;
        if self.links > MOST_LINKS {
            return Err(NotOpened::TooFar);
        }
        // The empty name: of the very link that was opened (Linux 2.6.39).
        let target = rustix::fs::readlinkat(&found, "", Vec::new()).map_err(NotOpened::Refused)?;
        let target = target.as_bytes();
        if target.is_empty() {
            return Err(NotOpened::Refused(Errno::NOENT));
        }
        if target.starts_with(b"/") {
            self.names.clear();
            self.again()?;
        }
        self.append(target);
        Ok(())
    }

    /// To the folder above, which for the root is the root.
    fn up(&mut self) -> Result<(), NotOpened> {
        if kind(&self.status) != FileType::Directory {
            return Err(NotOpened::Refused(Errno::NOTDIR));
        }
        self.names.pop();
        self.again()
    }

    /// Walks the names anew from the root. Whoever exchanges a folder for a link meanwhile gets an
    /// error: nothing is opened below a link.
    fn again(&mut self) -> Result<(), NotOpened> {
        self.here = None;
        self.status = rustix::fs::fstat(&self.root.top).map_err(NotOpened::Refused)?;
        for name in std::mem::take(&mut self.names) {
            let (found, status) = self.look(&name)?;
            (self.here, self.status) = (Some(found), status);
            self.names.push(name);
        }
        Ok(())
    }

    /// Opens where it is for reading, if it is a file: the very one that was looked at. Another may be
    /// at its path by now, as a pipe or a device.
    fn into_file(self) -> Result<Opened, NotOpened> {
        let Some(here) = self.here.filter(|_| kind(&self.status) == FileType::RegularFile) else {
            return Err(NotOpened::NoFile);
        };
        let itself = format!("self/fd/{}", here.as_raw_fd());
        let file = rustix::fs::openat(self.root.proc, itself, READ, Mode::empty());
        let file = file.map_err(NotOpened::Refused)?;
        let path = self.names.iter().flat_map(|name| [b"/", name.as_slice()].concat()).collect();
        Ok(Opened { file, path, status: self.status })
    }
}

fn kind(status: &Stat) -> FileType {
    FileType::from_raw_mode(status.st_mode)
}

/// File systems whose files the kernel makes as they are read, by their numbers in its
/// `include/uapi/linux/magic.h` and the sources of each.
const OF_THE_KERNEL: [u64; 16] = [
    0x9fa0,      // proc
    0x6265_6572, // sysfs
    0x6462_6720, // debugfs
    0x7472_6163, // tracefs
    0x7363_6673, // securityfs
    0x0027_e0eb, // cgroup
    0x6367_7270, // cgroup2
    0xcafe_4a11, // bpf
    0x1cd1,      // devpts
    0x6265_6570, // configfs
    0xde5e_81e4, // efivarfs
    0x6165_676c, // pstore
    0xf97c_ff8c, // selinux
    0x4341_5d53, // smack
    0x4249_4e4d, // binfmt_misc
    0x6573_5543, // fusectl
];

/// Refuses what is on such a file system.
fn refuse_the_kernels(place: &OwnedFd) -> Result<(), NotOpened> {
    let found = rustix::fs::fstatfs(place).map_err(NotOpened::Refused)?;
    // The field's width and sign differ between processors and C libraries.
    let number = i128::from(found.f_type) & 0xffff_ffff;
    match OF_THE_KERNEL.iter().any(|known| i128::from(*known) == number) {
        true => Err(NotOpened::OfTheKernel),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        io::Read as _,
        os::unix::fs::symlink,
        path::{Path, PathBuf},
        process::Command,
        sync::Arc,
    };

    fn proc() -> Arc<OwnedFd> {
        crate::proc::Root::live().unwrap().live_proc().unwrap()
    }

    /// A root with a file in it that may be read, and one beside it that may not.
    struct Place {
        top: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let top = tempfile::tempdir().unwrap();
            for folder in ["root/src/deep/er", "root/etc", "etc"] {
                fs::create_dir_all(top.path().join(folder)).unwrap();
            }
            fs::write(top.path().join("root/src/a.c"), "inside").unwrap();
            fs::write(top.path().join("root/etc/x"), "inside").unwrap();
            fs::write(top.path().join("etc/x"), "outside").unwrap();
            fs::write(top.path().join("outside"), "outside").unwrap();
            Self { top }
        }

        fn path(&self, inside: &str) -> PathBuf {
            self.top.path().join("root").join(inside)
        }

        fn link(&self, from: &str, to: impl AsRef<Path>) {
            symlink(to, self.path(from)).unwrap();
        }

        /// The text and the path of a file.
        fn read(&self, path: &str) -> Result<(String, String), NotOpened> {
            let proc = proc();
            let root = InsideRoot::at(&proc, &self.path(""));
            let opened = root.open(path.as_bytes())?;
            let mut text = String::new();
            fs::File::from(opened.file).read_to_string(&mut text).unwrap();
            Ok((text, String::from_utf8(opened.path).unwrap()))
        }
    }

    #[test]
    fn links_and_dots_lead_to_files_inside_and_never_out() {
        let place = Place::new();
        place.link("absolute", "/etc/x");
        place.link("relative", "src/../src/./a.c");
        place.link("above", "../../../../../../etc/x");
        place.link("src/deep/er/up", "../../a.c");
        place.link("folder", "/src");
        place.link("beside", place.top.path().join("outside"));
        let inside = |path: &str| Ok(("inside".to_owned(), path.to_owned()));
        let missing = Err(NotOpened::Refused(Errno::NOENT));
        let not_a_folder = Err(NotOpened::Refused(Errno::NOTDIR));
        let cases = [
            ("/src/a.c", inside("/src/a.c")),
            ("//src//.//a.c", inside("/src/a.c")),
            ("/absolute", inside("/etc/x")),
            ("/relative", inside("/src/a.c")),
            ("/above", inside("/etc/x")),
            ("/../../../etc/x", inside("/etc/x")),
            ("/src/deep/../../etc/x", inside("/etc/x")),
            ("/src/deep/er/up", inside("/src/a.c")),
            ("/folder/deep/../a.c", inside("/src/a.c")),
            // The folder of where a link leads, not of where it is.
            ("/folder/../etc/x", inside("/etc/x")),
            ("/beside", missing.clone()),
            ("/../outside", missing.clone()),
            ("/missing/../src/a.c", missing.clone()),
            ("/src/a.c/../a.c", not_a_folder.clone()),
            ("/src/a.c/b", not_a_folder),
            ("/src", Err(NotOpened::NoFile)),
            ("/", Err(NotOpened::NoFile)),
            ("src/a.c", Err(NotOpened::NoPath)),
            ("", Err(NotOpened::NoPath)),
            ("/src/a.c\0", Err(NotOpened::NoPath)),
        ];
        for (path, want) in cases {
            assert_eq!(place.read(path), want, "{path:?}");
        }
        assert_eq!(place.read(&format!("/{}", "x".repeat(5000))), Err(NotOpened::NoPath));
        let back_and_forth = format!("/src/deep/er{}/up", "/../er".repeat(600));
        assert_eq!(place.read(&back_and_forth), Err(NotOpened::TooFar));
    }

    #[test]
    fn links_that_lead_to_each_other_end() {
        let place = Place::new();
        place.link("a", "b");
        place.link("b", "/a");
        place.link("self", "self/self/self");
        // Each doubles what is left to walk.
        place.link("l0", "src");
        for step in 1..30 {
            let below = format!("l{}/../l{}", step - 1, step - 1);
            place.link(&format!("l{step}"), below);
        }
        for path in ["/a", "/self", "/l29/a.c"] {
            assert_eq!(place.read(path), Err(NotOpened::TooFar), "{path}");
        }
    }

    #[test]
    fn what_is_no_file_holds_nobody_and_is_not_read() {
        let place = Place::new();
        let make = |name: &str, kind: FileType, device: u64| {
            let mode = Mode::from_raw_mode(0o644);
            let at = place.path(name);
            rustix::fs::mknodat(rustix::fs::CWD, &at, kind, mode, device)
        };
        make("pipe", FileType::Fifo, 0).unwrap();
        make("socket", FileType::Socket, 0).unwrap();
        place.link("to-pipe", "/pipe");
        let refused = [
            ("/pipe", NotOpened::NoFile),
            ("/to-pipe", NotOpened::NoFile),
            ("/socket", NotOpened::NoFile),
            ("/pipe/x", NotOpened::Refused(Errno::NOTDIR)),
            ("/to-pipe/../src/a.c", NotOpened::Refused(Errno::NOTDIR)),
        ];
        for (path, want) in refused {
            assert_eq!(place.read(path), Err(want), "{path}");
        }
    }

    #[test]
    fn the_kernels_own_files_are_not_entered() {
        let through = format!("/proc/self/root{}", "/etc/passwd");
        let proc = proc();
        let root = InsideRoot::at(&proc, Path::new("/"));
        let paths = [&through, "/proc/version", "/sys/kernel/mm", "/proc/1/maps"];
        for path in paths {
            assert_eq!(root.open(path.as_bytes()).unwrap_err(), NotOpened::OfTheKernel, "{path}");
        }
        let place = Place::new();
        place.link("out", &through);
        assert_eq!(place.read("/out"), Err(NotOpened::Refused(Errno::NOENT)));
        let top = InsideRoot::at(&proc, Path::new("/proc"));
        assert_eq!(top.open(b"/version").unwrap_err(), NotOpened::OfTheKernel);
    }

    #[test]
    fn the_root_of_a_process_is_found_and_that_of_none_is_not() {
        let proc = proc();
        let own = InsideRoot::of(&proc, &std::process::id().to_string()).unwrap();
        let file = std::env::current_exe().unwrap();
        let opened = own.open(file.as_os_str().as_encoded_bytes()).unwrap();
        assert_eq!(opened.path, file.as_os_str().as_encoded_bytes());
        let mut child = Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(InsideRoot::of(&proc, &child.id().to_string()).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn a_root_that_was_removed_has_no_files() {
        let place = Place::new();
        let proc = proc();
        let root = InsideRoot::at(&proc, &place.path(""));
        fs::remove_dir_all(place.path("")).unwrap();
        assert_eq!(root.open(b"/src/a.c").unwrap_err(), NotOpened::Refused(Errno::NOENT));
        assert_eq!(root.open(b"/../outside").unwrap_err(), NotOpened::Refused(Errno::NOENT));
    }
}
