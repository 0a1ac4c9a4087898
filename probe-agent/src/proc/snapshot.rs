//! A machine's files as somebody took them at another time.
//!
//! Two forms are read. What `sysmcp capture` writes has both ends of a window: `start/` and `end/`
//! with the files that changed, `same/` with those that did not, and `machine.toml` with the clocks.
//! A plain copy (`proc/` in the folder, such as support tools collect) has one instant: what takes
//! two has no value.
//!
//! Nothing of the machine that reads the copy may get into an answer about another one. Every path
//! is looked up inside the folder, whatever links in it say (`openat2` with `RESOLVE_IN_ROOT`, Linux
//! 5.6); a folder on another file system is not entered; only plain files are read; and clocks, page
//! size and users come from the copy.

mod clocks;

use super::{MAX_FILE_BYTES, ReadError, TOO_LONG, whole_piece};
use crate::proc::parse::{fields, line_of, number};
use clocks::Clocks;
use rustix::{
    fd::OwnedFd,
    fs::{FileType, Mode, OFlags, RawDir, ResolveFlags},
    io::Errno,
};
use std::{
    collections::{BTreeSet, HashMap},
    mem::MaybeUninit,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Stands for a file that nobody took along. No read of a file fails so.
pub(super) const NOT_TAKEN: Errno = Errno::NODATA;

/// Stands for the first of two instants, where there is one. No read of a file fails so.
pub(super) const ONE_INSTANT: Errno = Errno::NOANO;

/// The name under which the reasons are kept for files that could not be read.
const NOT_READ: &str = "not-read";

/// A copy of a machine's files, and which of its instants is looked at.
#[derive(Debug)]
pub(super) struct Snapshot {
    taken: Arc<Taken>,
    is_at_end: AtomicBool,
}

/// What was taken.
#[derive(Debug)]
struct Taken {
    /// `None` where there is one instant.
    start: Option<Instant>,
    end: Instant,
    clocks: Clocks,
}

/// One instant: the folders that a file may be in, and what could not be read then.
#[derive(Debug)]
struct Instant {
    folders: Vec<OwnedFd>,
    not_read: HashMap<Vec<u8>, Errno>,
}

const INSIDE: ResolveFlags =
    ResolveFlags::IN_ROOT.union(ResolveFlags::NO_MAGICLINKS).union(ResolveFlags::NO_XDEV);

/// A pipe in the place of a file must not make the agent wait.
const READ_FLAGS: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY).union(OFlags::NONBLOCK);

const FOLDER_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

impl Snapshot {
    /// Opens a copy.
    ///
    /// # Errors
    ///
    /// That the folder holds none, or what the kernel answered.
    pub(super) fn open(folder: &Path) -> Result<Self, ReadError> {
        let top = rustix::fs::open(folder, FOLDER_FLAGS, Mode::empty())?;
        let layer =
            |name: &str| rustix::fs::openat2(&top, name, FOLDER_FLAGS, Mode::empty(), INSIDE);
        let (start, end) = match layer("end") {
            Ok(end) => {
                let start = Instant::of(vec![layer("start")?, layer("same")?])?;
                (Some(start), Instant::of(vec![end, layer("same")?])?)
            }
            Err(Errno::NOENT) => {
                let proc = layer("proc")?;
                if is_of_the_kernel(&proc) {
                    return Err(Errno::INVAL.into());
                }
                (None, Instant::of(vec![rustix::io::dup(&top)?])?)
            }
            Err(errno) => return Err(errno.into()),
        };
        let whole = Instant { folders: vec![top], not_read: HashMap::new() };
        let mut text = Vec::new();
        let told = whole.read("machine.toml", &mut text).is_ok().then_some(text.as_slice());
        let clocks = Clocks::of(told.unwrap_or_default(), &end);
        Ok(Self {
            taken: Arc::new(Taken { start, end, clocks }),
            is_at_end: AtomicBool::new(false),
        })
    }

    /// The same copy for another call, which begins at the first instant.
    pub(super) fn for_call(&self) -> Self {
        Self { taken: Arc::clone(&self.taken), is_at_end: AtomicBool::new(false) }
    }

    /// Lets time pass: to the end of the window, or somewhere into it. A copy of one instant has
    /// nothing before it.
    pub(super) fn pass(&self, is_end: bool) {
        if is_end || self.taken.start.is_none() {
            self.is_at_end.store(true, Ordering::Relaxed);
        }
    }

    pub(super) fn has_one_instant(&self) -> bool {
        self.taken.start.is_none()
    }

    fn now(&self) -> Result<&Instant, ReadError> {
        if self.is_at_end.load(Ordering::Relaxed) {
            Ok(&self.taken.end)
        } else {
            self.taken.start.as_ref().ok_or(ONE_INSTANT.into())
        }
    }

    pub(super) fn clocks(&self) -> &Clocks {
        &self.taken.clocks
    }

    pub(super) fn monotonic(&self) -> Duration {
        self.taken.clocks.monotonic(self.is_at_end.load(Ordering::Relaxed))
    }

    pub(super) fn since_boot(&self) -> Duration {
        self.taken.clocks.since_boot(self.is_at_end.load(Ordering::Relaxed))
    }

    pub(super) fn wall(&self) -> Duration {
        self.taken.clocks.wall(self.is_at_end.load(Ordering::Relaxed))
    }

    /// Gives an error the user for whom it was noted.
    fn as_noted(&self, error: ReadError) -> ReadError {
        ReadError { reader_uid: self.taken.clocks.reader_uid, ..error }
    }

    pub(super) fn read(&self, path: &str, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        self.now()?.read(path, buffer).map_err(|error| self.as_noted(error))
    }

    /// The same into room that is given: as much as fits there.
    pub(super) fn read_once<'b>(
        &self,
        path: &str,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], ReadError> {
        let mut text = Vec::new();
        self.read(path, &mut text)?;
        let length = text.len().min(buffer.len());
        let (room, text) = (buffer.get_mut(..length), text.get(..length));
        if let (Some(room), Some(text)) = (room, text) {
            room.copy_from_slice(text);
        }
        whole_piece(buffer, length)
    }

    pub(super) fn holds(&self, path: &str) -> bool {
        self.now().is_ok_and(|now| now.holds(path))
    }

    /// The names in a folder, in the order of the copy's own file system made one that is always the
    /// same.
    pub(super) fn names(&self, folder: &str) -> Result<BTreeSet<Vec<u8>>, ReadError> {
        self.now()?.names(folder).map_err(|error| self.as_noted(error))
    }

    /// The names of the folders in a folder, in the same order.
    pub(super) fn folders(&self, folder: &str) -> Result<BTreeSet<Vec<u8>>, ReadError> {
        let mut names = self.names(folder)?;
        names.retain(|name| {
            let name = str::from_utf8(name).unwrap_or_default();
            !name.is_empty() && self.holds(&format!("{folder}/{name}/."))
        });
        Ok(names)
    }

    /// The number of open descriptors: as a number where `sysmcp capture` noted it, else the entries
    /// of the folder.
    pub(super) fn count_descriptors(&self, folder: &str) -> Result<u64, ReadError> {
        let mut text = Vec::new();
        match self.read(folder, &mut text) {
            Ok(()) => number(text.trim_ascii(), 1).map_err(|_| Errno::INVAL.into()),
            Err(error) if error.errno == Errno::ISDIR => {
                Ok(u64::try_from(self.names(folder)?.len()).unwrap_or(u64::MAX))
            }
            Err(error) => Err(error),
        }
    }

    /// The effective user of a process or a thread, by its `status`: who owns the copy tells nothing.
    pub(super) fn owner_uid(&self, folder: &str) -> Result<u32, ReadError> {
        let mut text = Vec::new();
        self.read(&format!("{folder}/status"), &mut text)?;
        line_of(&text, "Uid")
            .and_then(|(line_number, rest)| number(fields(rest).nth(1)?, line_number).ok())
            .and_then(|uid| u32::try_from(uid).ok())
            .ok_or(NOT_TAKEN.into())
    }

    /// What a link says: as a link, or as a file that holds it.
    pub(super) fn link(&self, path: &str) -> Option<Vec<u8>> {
        let instant = &self.taken.end;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for folder in &instant.folders {
            let Ok(found) = rustix::fs::openat2(folder, path, flags, Mode::empty(), INSIDE) else {
                continue;
            };
            if let Ok(link) = rustix::fs::readlinkat(&found, "", Vec::new()) {
                return Some(link.into_bytes());
            }
        }
        let mut text = Vec::new();
        instant.read(path, &mut text).ok().map(|()| text)
    }
}

impl Instant {
    fn of(folders: Vec<OwnedFd>) -> Result<Self, ReadError> {
        let mut instant = Self { folders, not_read: HashMap::new() };
        let mut text = Vec::new();
        if instant.read(NOT_READ, &mut text).is_ok() {
            instant.not_read = parse_not_read(&text);
        }
        Ok(instant)
    }

    fn open(&self, path: &str, flags: OFlags) -> Result<OwnedFd, ReadError> {
        for folder in &self.folders {
            match rustix::fs::openat2(folder, path, flags, Mode::empty(), INSIDE) {
                Ok(found) => return Ok(found),
                Err(Errno::NOENT | Errno::NOTDIR) => {}
                // What leads out of the copy is not in it.
                Err(Errno::XDEV | Errno::LOOP) => return Err(NOT_TAKEN.into()),
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(self.why_missing(path).into())
    }

    /// Why a file is not there: it could not be read when the copy was made, its process was not
    /// there, or nobody took it along.
    fn why_missing(&self, path: &str) -> Errno {
        if let Some(errno) = self.not_read.get(path.as_bytes()) {
            return *errno;
        }
        let process = path.strip_prefix("proc/").and_then(|rest| {
            let name = rest.split('/').next().unwrap_or_default();
            name.parse::<u32>().ok().map(|_| name)
        });
        match process {
            Some(name) if !self.holds(&format!("proc/{name}")) => Errno::NOENT,
            Some(_) | None => NOT_TAKEN,
        }
    }

    fn holds(&self, path: &str) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        self.folders
            .iter()
            .any(|folder| rustix::fs::openat2(folder, path, flags, Mode::empty(), INSIDE).is_ok())
    }

    fn read(&self, path: &str, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        let file = self.open(path, READ_FLAGS)?;
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => {}
            FileType::Directory => return Err(Errno::ISDIR.into()),
            // A device would be this machine's.
            FileType::Symlink
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => return Err(NOT_TAKEN.into()),
        }
        buffer.clear();
        while buffer.len() <= MAX_FILE_BYTES {
            buffer.reserve(4096);
            match rustix::io::read(&file, rustix::buffer::spare_capacity(buffer)) {
                Ok(0) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Err(TOO_LONG.into())
    }

    fn names(&self, folder: &str) -> Result<BTreeSet<Vec<u8>>, ReadError> {
        let mut names = BTreeSet::new();
        let mut is_there = false;
        for layer in &self.folders {
            let opened = rustix::fs::openat2(layer, folder, FOLDER_FLAGS, Mode::empty(), INSIDE);
            let Ok(opened) = opened else { continue };
            is_there = true;
            let mut room = [MaybeUninit::uninit(); 32 << 10];
            let mut entries = RawDir::new(opened, &mut room);
            while let Some(entry) = entries.next() {
                let name = entry?.file_name().to_bytes().to_vec();
                if name != b"." && name != b".." {
                    names.insert(name);
                }
            }
        }
        if is_there { Ok(names) } else { Err(self.why_missing(folder).into()) }
    }
}

/// Whether a folder is no copy but the kernel's own.
fn is_of_the_kernel(folder: &OwnedFd) -> bool {
    const PROC_SUPER_MAGIC: u64 = 0x9fa0;
    rustix::fs::fstatfs(folder)
        .is_ok_and(|status| u64::try_from(status.f_type).unwrap_or_default() == PROC_SUPER_MAGIC)
}

/// Lines with an error number and a path. Others are passed over.
fn parse_not_read(text: &[u8]) -> HashMap<Vec<u8>, Errno> {
    let entry = |(line_number, line): (usize, &[u8])| {
        let space = line.iter().position(|byte| *byte == b' ')?;
        let errno = number(line.get(..space)?, line_number).ok()?;
        let errno = i32::try_from(errno).ok().filter(|errno| (1..4096).contains(errno))?;
        Some((line.get(space + 1..)?.to_vec(), Errno::from_raw_os_error(errno)))
    };
    super::parse::lines(text).filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use crate::proc::Root;
    use protocol::observed::{Feature, Permission, Reason};
    use std::{fs, os::unix::fs::symlink, path::Path, time::Duration};
    use tempfile::TempDir;

    fn folder(files: &[(&str, &str)]) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            write(folder.path(), path, text);
        }
        folder
    }

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn text(root: &Root, path: &str) -> Result<String, Reason> {
        let mut text = Vec::new();
        let read = root.read_proc(path, &mut text);
        read.map(|()| String::from_utf8(text).unwrap())
            .map_err(|error| error.reason_of_file(Feature::Field))
    }

    /// A copy of one instant, at that instant.
    fn one_instant(folder: &TempDir) -> Root {
        let root = Root::snapshot(folder.path()).unwrap();
        assert_eq!(text(&root, "stat"), Err(Reason::OneInstant));
        assert_eq!(root.has_two_instants(), Err(Reason::OneInstant));
        root.pass(false);
        root
    }

    #[test]
    fn no_link_leads_to_this_machine() {
        let copy = folder(&[("proc/version", "theirs\n"), ("proc/there", "theirs, too\n")]);
        let proc = copy.path().join("proc");
        symlink("/proc/stat", proc.join("stat")).unwrap();
        symlink("/etc/hostname", proc.join("hostname")).unwrap();
        symlink("../../../../../../../../proc/meminfo", proc.join("meminfo")).unwrap();
        symlink("/proc", proc.join("folder")).unwrap();
        symlink("/proc/there", proc.join("inside")).unwrap();
        let root = one_instant(&copy);
        for path in ["stat", "hostname", "meminfo", "folder/uptime"] {
            assert_eq!(text(&root, path), Err(Reason::NotInSnapshot), "{path}");
        }
        assert_eq!(text(&root, "inside").unwrap(), "theirs, too\n");
        assert_eq!(text(&root, "version").unwrap(), "theirs\n");
    }

    #[test]
    fn what_is_no_plain_file_is_not_read_and_not_waited_for() {
        let copy = folder(&[("proc/1/stat", "")]);
        let proc =
            rustix::fs::open(copy.path().join("proc"), super::FOLDER_FLAGS, super::Mode::empty());
        let mode = super::Mode::RUSR | super::Mode::WUSR;
        rustix::fs::mkfifoat(proc.unwrap(), "meminfo", mode).unwrap();
        let root = one_instant(&copy);
        assert_eq!(text(&root, "meminfo"), Err(Reason::NotInSnapshot));
    }

    #[test]
    fn the_kernels_own_files_are_no_copy() {
        assert!(Root::snapshot(Path::new("/")).is_err());
        let error = Root::open(Some(Path::new("/nowhere/at/all"))).unwrap_err();
        assert!(error.contains("/nowhere/at/all: there is no such folder"), "{error}");
    }

    #[test]
    fn a_process_that_was_not_there_is_told_from_a_file_that_was_not_taken() {
        let copy = folder(&[("proc/7/stat", "7 (it) S")]);
        let root = one_instant(&copy);
        assert_eq!(text(&root, "7/io"), Err(Reason::NotInSnapshot));
        assert!(root.read_proc("8/stat", &mut Vec::new()).unwrap_err().is_gone());
    }

    #[test]
    fn who_owns_the_copy_owns_no_process() {
        let copy = folder(&[("proc/7/status", "Uid:\t1\t42\t3\t4\n"), ("proc/8/stat", "")]);
        let root = one_instant(&copy);
        assert_eq!(root.owner_uid("7"), Ok(42));
        let unknown = root.owner_uid("8").unwrap_err();
        assert_eq!(unknown.reason(Feature::Field, 0), Reason::NotInSnapshot);
        assert!(root.owner_uid("9").unwrap_err().is_gone());
    }

    #[test]
    fn descriptors_are_counted_and_not_measured_by_a_folder() {
        let copy = folder(&[("proc/7/fd", "400\n"), ("proc/8/fd/0", ""), ("proc/8/fd/1", "")]);
        let root = one_instant(&copy);
        assert_eq!((root.count_descriptors(7), root.count_descriptors(8)), (Ok(400), Ok(2)));
    }

    #[test]
    fn each_call_goes_from_the_first_instant_to_the_second() {
        let copy = folder(&[
            ("same/proc/version", "both\n"),
            ("same/proc/7/cmdline", "it"),
            ("start/proc/stat", "before\n"),
            ("start/proc/8/stat", "8 (gone) S"),
            ("end/proc/stat", "after\n"),
            ("end/proc/9/stat", "9 (born) S"),
            ("end/not-read", "13 proc/7/io\n2 proc/pressure/cpu\nnonsense\n"),
            (
                "machine.toml",
                "agent_uid = 1000\npage_bytes = 65536\nstart_monotonic_us = 5\n\
                 end_monotonic_us = 1000005\nend_since_boot_us = 7000000\n",
            ),
        ]);
        let root = Root::snapshot(copy.path()).unwrap();
        let at = |root: &Root| {
            let mut pids = Vec::new();
            root.list_ids(".", &mut pids).unwrap();
            (text(root, "stat").unwrap(), text(root, "version").unwrap(), pids, root.monotonic())
        };
        let us = Duration::from_micros;
        let before = ("before\n".to_owned(), "both\n".to_owned(), vec![7, 8], us(5));
        let after = ("after\n".to_owned(), "both\n".to_owned(), vec![7, 9], us(1_000_005));
        assert_eq!(at(&root), before);
        root.pass(false);
        assert_eq!(at(&root), before);
        root.pass(true);
        assert_eq!(at(&root), after);
        assert_eq!(at(&root.for_call()), before);
        assert_eq!((root.page_bytes(), root.since_boot()), (65_536, us(7_000_000)));
        let refused = root.read_proc("7/io", &mut Vec::new()).unwrap_err();
        let needed = Permission::InspectProcess { owner_uid: 5, agent_uid: 1000 };
        assert_eq!(refused.reason(Feature::Field, 5), Reason::NotPermitted(needed));
        let lacks = Reason::KernelLacks(Feature::Pressure);
        let missing = root.read_proc("pressure/cpu", &mut Vec::new()).unwrap_err();
        assert_eq!(missing.reason_of_file(Feature::Pressure), lacks);
    }

    #[test]
    fn a_plain_copy_tells_its_page_size_and_how_long_the_machine_was_up() {
        let line = "7 (it) S 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 100 0 0 0\n";
        let copy = folder(&[
            ("proc/7/stat", line),
            ("proc/7/status", "VmRSS:\t6336 kB\n"),
            ("proc/uptime", "46901.13 46856.66\n"),
        ]);
        let root = one_instant(&copy);
        assert_eq!(root.page_bytes(), 65_536);
        assert_eq!(root.since_boot(), Duration::from_millis(46_901_130));
        let without = one_instant(&folder(&[("proc/7/stat", line)]));
        assert_eq!(without.knows_uptime(), Err(Reason::NotInSnapshot));
    }
}
