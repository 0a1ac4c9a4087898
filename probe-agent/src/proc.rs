//! The only reader of `/proc`, `/sys` and the few other files that say who runs what.
//!
//! Everything is opened below a root that is given, so that the same code reads the running
//! machine and a captured one. Parsers are pure functions, one file for each kernel file.

pub mod cgroup;
pub mod cpuinfo;
pub mod diskstats;
pub mod file_system;
pub mod host_stat;
pub mod limits;
pub mod memory;
pub mod mountinfo;
pub mod net_counters;
pub mod net_dev;
pub mod parse;
pub mod passwd;
pub mod pid_io;
pub mod pid_stat;
pub mod pid_status;
pub mod placement;
pub mod pressure;
pub mod schedstat;
pub mod topology;
pub mod waiting;

use super::abandonable::{Crew, Outcome};
use protocol::{
    host_text::HostText,
    observed::{Feature, Permission, Reason},
};
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags, RawDir},
    io::Errno,
};
use std::{
    mem::MaybeUninit,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A machine's files, below some folder: `/` for the machine we run on.
#[derive(Debug)]
pub struct Root {
    root: OwnedFd,
    proc: Arc<OwnedFd>,
    /// Read what may not let a reader go.
    readers: Crew<String, Result<Text, ReadError>>,
    /// How many more files may be kept open.
    left_to_keep: Arc<AtomicU64>,
    is_in_cgroup_namespace: bool,
    is_live: bool,
}

/// Why a file could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(pub Errno);

impl ReadError {
    /// Whether the process, or the thread, ended. `ESRCH` comes from a file that was opened in
    /// time.
    pub fn is_gone(self) -> bool {
        matches!(self.0, Errno::NOENT | Errno::SRCH)
    }

    /// Whether it says nothing about the file: the agent could not have opened any.
    pub fn is_of_the_agent(self) -> bool {
        matches!(self.0, Errno::MFILE | Errno::NFILE)
    }

    /// Whether the read did not return.
    pub fn is_hanging(self) -> bool {
        self.0 == HANGS
    }

    /// Whether the file is longer than what is read of one. Its start was read then.
    pub fn is_too_long(self) -> bool {
        self.0 == TOO_LONG
    }

    /// The reason to give for a value that comes from a file of the kernel.
    ///
    /// A missing file means that the kernel lacks `feature`; the caller has to know that the
    /// process itself is still there.
    pub fn reason(self, feature: Feature, owner_uid: u32) -> Reason {
        match self.0 {
            Errno::NOENT => Reason::KernelLacks(feature),
            Errno::SRCH => Reason::Gone,
            Errno::ACCESS | Errno::PERM => Reason::NotPermitted(Permission::InspectProcess {
                owner_uid,
                agent_uid: rustix::process::geteuid().as_raw(),
            }),
            Errno::MFILE => Reason::OpenFilesLimit { limit: open_files_limit() },
            TOO_LONG => Reason::TooLong,
            NOT_TRIED => Reason::TooManyHang,
            errno => Reason::Failed { errno: errno.raw_os_error() },
        }
    }

    /// The reason to give for a value that comes from a file of the whole machine. A missing one
    /// means that the kernel lacks `feature`.
    pub fn reason_of_file(self, feature: Feature) -> Reason {
        match self.0 {
            Errno::ACCESS | Errno::PERM => Reason::NotPermitted(Permission::ReadFile {
                agent_uid: rustix::process::geteuid().as_raw(),
            }),
            _ => self.reason(feature, 0),
        }
    }
}

const READ_FLAGS: OFlags = OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NOCTTY);

/// The longest text read from one file. Kernel files that matter here are far shorter; a longer
/// one is refused, because a text without its end is another text.
const MAX_FILE_BYTES: usize = 4 << 20;

/// Descriptors that are never used up by files that are kept open: three standard ones, the roots,
/// one for each call that may run at the same time, and some to spare. Without one the next read
/// would fail, also of another call.
const NEVER_KEPT: u64 = 16;

/// Stands for a file that is longer than the room for it. No read of a kernel file fails so.
const TOO_LONG: Errno = Errno::FBIG;

/// Stands for a read that did not return. No read of a kernel file fails so.
const HANGS: Errno = Errno::TIMEDOUT;

/// Stands for a read that was not tried, because too many hang. No read of a kernel file fails so.
const NOT_TRIED: Errno = Errno::TIME;

/// For how long a read that may hang is waited for. One that waits for a page from a slow disk is
/// faster than this.
pub const PATIENCE: Duration = Duration::from_millis(100);

impl Root {
    /// The machine the agent runs on.
    ///
    /// # Errors
    ///
    /// When `/proc` is not there.
    pub fn live() -> Result<Self, ReadError> {
        Self::at(Path::new("/"))
    }

    /// A captured machine: a folder with `proc`, `sys` and `etc` below it.
    ///
    /// # Errors
    ///
    /// When the folder, or `proc` in it, cannot be opened.
    pub fn at(folder: &Path) -> Result<Self, ReadError> {
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder, directory, Mode::empty()).map_err(ReadError)?;
        let proc =
            rustix::fs::openat(&root, "proc", directory, Mode::empty()).map_err(ReadError)?;
        let left_to_keep = open_files_limit().saturating_sub(NEVER_KEPT);
        let proc = Arc::new(proc);
        let below = Arc::clone(&proc);
        Ok(Self {
            is_in_cgroup_namespace: is_in_cgroup_namespace(&proc),
            is_live: folder == Path::new("/"),
            root,
            proc,
            readers: Crew::new(PATIENCE, move |path: &String| Text::read(&below, path)),
            left_to_keep: Arc::new(AtomicU64::new(left_to_keep)),
        })
    }

    /// Whether cgroups are shown as from within a container: paths begin at the namespace's top,
    /// and what is above it is not shown.
    pub const fn is_in_cgroup_namespace(&self) -> bool {
        self.is_in_cgroup_namespace
    }

    /// Whether this is the machine the agent runs on, whose file systems can be asked.
    pub const fn is_live(&self) -> bool {
        self.is_live
    }

    /// The root once more, for a thread that may outlive the call.
    ///
    /// # Errors
    ///
    /// When no more files may be open.
    pub fn duplicate(&self) -> Result<OwnedFd, ReadError> {
        rustix::io::fcntl_dupfd_cloexec(&self.root, 0).map_err(ReadError)
    }

    /// Whether there is a file or a folder below the root. The path is relative.
    pub fn holds(&self, path: &str) -> bool {
        rustix::fs::statat(&self.root, path, AtFlags::empty()).is_ok()
    }

    /// Reads a file below `/proc` into `buffer`, replacing what was there.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read_proc(&self, path: &str, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        read_at(&self.proc, path, buffer)
    }

    /// Reads files below `/proc` that may not let a reader go, on threads that can be left behind,
    /// and gives the processor time that took.
    ///
    /// These are the files for which the kernel takes a lock of the process that the process may
    /// hold for good, or looks into its memory:
    ///
    /// - `cmdline`, `environ`, `maps`, `smaps`, `smaps_rollup`, `numa_maps` take `mmap_lock`
    ///   (`fs/proc/base.c`, `fs/proc/task_mmu.c`). Whoever holds it may wait for a page from
    ///   storage that does not answer.
    /// - `io`, `syscall`, `stack`, `personality` take `exec_update_lock`, before Linux 5.8
    ///   `cred_guard_mutex` (`do_io_accounting`, `lock_trace` in `fs/proc/base.c`). `execve` holds
    ///   it, before 5.8 also while it reads the program.
    ///
    /// `stat`, `status`, `statm`, `schedstat`, `wchan`, `limits`, `cgroup` and `fd` take neither.
    pub fn read_each_patiently(&self, paths: Vec<String>) -> Patient {
        let done = self.readers.each(paths);
        let text = |outcome| match outcome {
            Outcome::Returned(text) => text,
            Outcome::Hangs => Err(ReadError(HANGS)),
            Outcome::NotTried => Err(ReadError(NOT_TRIED)),
        };
        Patient { texts: done.outcomes.into_iter().map(text).collect(), cpu: done.cpu }
    }

    /// Reads a file below the root into `buffer`, replacing what was there. The path is relative.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read(&self, path: &str, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        read_at(&self.root, path, buffer)
    }

    /// Reads a file of `/proc` that the kernel prints in one piece, with one read: an end of file
    /// is not waited for. Returns the bytes read.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or that the file fills the room and may go on.
    pub fn read_proc_once<'b>(
        &self,
        path: &str,
        buffer: &'b mut [u8],
    ) -> Result<&'b [u8], ReadError> {
        let file =
            rustix::fs::openat(&self.proc, path, READ_FLAGS, Mode::empty()).map_err(ReadError)?;
        let length = rustix::io::read(&file, &mut *buffer).map_err(ReadError)?;
        whole_piece(buffer, length)
    }

    /// Opens a file of `/proc` to be read again and again. The kernel makes its content anew for
    /// each read from the start, for less than half of what opening costs too.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or that as many files are kept as may be: then the file can still
    /// be opened for each read.
    pub fn keep_proc(&self, path: &str) -> Result<KeptFile, ReadError> {
        let place = KeptPlace::take(&self.left_to_keep)?;
        let file = rustix::fs::openat(&self.proc, path, READ_FLAGS, Mode::empty());
        file.map(|file| KeptFile { file, _place: place }).map_err(ReadError)
    }

    /// Lists the numeric names in a folder below `/proc`, in the kernel's order: pids for `.`,
    /// thread ids for `PID/task`.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn list_ids(&self, folder: &str, ids: &mut Vec<u32>) -> Result<(), ReadError> {
        ids.clear();
        each_entry(&self.proc, folder, |name, _| {
            let digits = std::str::from_utf8(name).ok();
            ids.extend(digits.and_then(|digits| digits.parse::<u32>().ok()));
        })
    }

    /// Lists the folders in a folder below the root, by name. The path is relative.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn list_folders(
        &self,
        folder: &str,
        mut visit: impl FnMut(&[u8]),
    ) -> Result<(), ReadError> {
        let status = rustix::fs::statat(&self.root, folder, AtFlags::empty()).map_err(ReadError)?;
        // Its own name, and its entry for itself: each folder in it would be one more, except where
        // the file system counts none and says 1.
        if matches!(status.st_nlink, 2) {
            return Ok(());
        }
        each_entry(&self.root, folder, |name, kind| {
            if kind == FileType::Directory {
                visit(name);
            }
        })
    }

    /// Counts the open descriptors of a process.
    ///
    /// The size of `/proc/PID/fd` is their number since Linux 6.2 and 0 before; then its entries
    /// are counted.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn count_descriptors(&self, pid: u32) -> Result<u64, ReadError> {
        let folder = format!("{pid}/fd");
        let status =
            rustix::fs::statat(&self.proc, &folder, AtFlags::empty()).map_err(ReadError)?;
        let mut count = u64::try_from(status.st_size).unwrap_or_default();
        if count == 0 {
            each_entry(&self.proc, &folder, |_, _| count += 1)?;
        }
        Ok(count)
    }

    /// The user who owns a process, or a thread, by the owner of its folder: `PID`, or
    /// `PID/task/TID`.
    ///
    /// The folder is readable to everyone, and its owner is the effective user even of a process
    /// that may not be dumped (`task_dump_owner` in `fs/proc/base.c`).
    ///
    /// # Errors
    ///
    /// What the kernel answered, mostly that the process ended.
    pub fn owner_uid(&self, folder: &str) -> Result<u32, ReadError> {
        let status = rustix::fs::statat(&self.proc, folder, AtFlags::empty()).map_err(ReadError)?;
        Ok(status.st_uid)
    }
}

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
    fn read(folder: &OwnedFd, path: &str) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        match read_at(folder, path, &mut bytes) {
            Ok(()) => Ok(Self { bytes, is_whole: true }),
            Err(error) if error.is_too_long() => Ok(Self { bytes, is_whole: false }),
            Err(error) => Err(error),
        }
    }

    /// # Errors
    ///
    /// That the file is longer than what is read of one.
    pub fn whole(self) -> Result<Vec<u8>, ReadError> {
        if self.is_whole { Ok(self.bytes) } else { Err(ReadError(TOO_LONG)) }
    }
}

/// A file of `/proc` that stays open.
#[derive(Debug)]
pub struct KeptFile {
    file: OwnedFd,
    _place: KeptPlace,
}

/// One of so many files that may be kept open; given back when it is dropped.
#[derive(Debug)]
struct KeptPlace(Arc<AtomicU64>);

impl KeptPlace {
    fn take(left: &Arc<AtomicU64>) -> Result<Self, ReadError> {
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .map(|_| Self(Arc::clone(left)))
            .map_err(|_| ReadError(Errno::MFILE))
    }
}

impl Drop for KeptPlace {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl KeptFile {
    /// Reads the file as it is now, with one read.
    ///
    /// # Errors
    ///
    /// What the kernel answered; `ESRCH` once the process or thread has ended. Or that the file
    /// fills the room and may go on.
    pub fn read<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], ReadError> {
        let length = rustix::io::pread(&self.file, &mut *buffer, 0).map_err(ReadError)?;
        whole_piece(buffer, length)
    }
}

fn each_entry(
    base: &OwnedFd,
    folder: &str,
    mut visit: impl FnMut(&[u8], FileType),
) -> Result<(), ReadError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let folder = rustix::fs::openat(base, folder, flags, Mode::empty()).map_err(ReadError)?;
    let mut room = [MaybeUninit::uninit(); 32 << 10];
    let mut entries = RawDir::new(folder, &mut room);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(ReadError)?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            visit(name, entry.file_type());
        }
    }
    Ok(())
}

fn whole_piece(buffer: &[u8], length: usize) -> Result<&[u8], ReadError> {
    if length < buffer.len() {
        Ok(buffer.get(..length).unwrap_or_default())
    } else {
        Err(ReadError(TOO_LONG))
    }
}

/// Takes no more memory than the text: a page that is touched for the first time costs as much as
/// reading a short file.
fn read_at(folder: &OwnedFd, path: &str, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
    let file = rustix::fs::openat(folder, path, READ_FLAGS, Mode::empty()).map_err(ReadError)?;
    let mut room = [0; 4096];
    buffer.clear();
    while buffer.len() <= MAX_FILE_BYTES {
        match rustix::io::read(&file, &mut room) {
            Ok(0) => return Ok(()),
            Ok(length) => buffer.extend_from_slice(room.get(..length).unwrap_or_default()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(ReadError(errno)),
        }
    }
    Err(ReadError(TOO_LONG))
}

/// How many files this process may have open at once; the largest number where there is no limit.
fn open_files_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Looks for a cgroup namespace other than the first one, whose number is the same in all kernels
/// (`CGROUP_NS_INIT_INO` in `include/uapi/linux/nsfs.h`). A kernel before 4.6 has none.
fn is_in_cgroup_namespace(proc: &OwnedFd) -> bool {
    const FIRST: &[u8] = b"cgroup:[4026531835]";
    rustix::fs::readlinkat(proc, "self/ns/cgroup", Vec::new())
        .is_ok_and(|namespace| namespace.as_bytes() != FIRST)
}

/// Escapes what a kernel file holds as one text, without the newline at its end.
pub fn host_text(bytes: &[u8]) -> HostText {
    HostText::new(bytes.strip_suffix(b"\n").unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_live_root_lists_this_very_process() {
        let root = Root::live().unwrap();
        let mut pids = Vec::new();
        root.list_ids(".", &mut pids).unwrap();
        assert!(pids.contains(&std::process::id()));
    }

    #[test]
    fn a_process_that_ended_is_told_from_a_refusal() {
        let root = Root::live().unwrap();
        let mut buffer = Vec::new();
        let error = root.read_proc("4194305/stat", &mut buffer).unwrap_err();
        assert!(error.is_gone());
        assert_eq!(
            error.reason(Feature::IoAccounting, 0),
            Reason::KernelLacks(Feature::IoAccounting)
        );
        assert!(matches!(
            ReadError(Errno::ACCESS).reason(Feature::IoAccounting, 7),
            Reason::NotPermitted(Permission::InspectProcess { owner_uid: 7, .. })
        ));
    }
}
