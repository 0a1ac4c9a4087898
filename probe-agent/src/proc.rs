//! The only reader of `/proc`, `/sys` and the few other files that say who runs what.
//!
//! Everything is opened below a root that is given, so that the same code reads the running
//! machine and a captured one. Parsers are pure functions, one file for each kernel file.

pub mod btf;
pub mod cgroup;
pub mod cpuinfo;
pub mod descendants;
pub mod descriptors;
pub mod diskstats;
pub mod file_system;
mod folder;
pub mod host_stat;
pub mod inside_root;
mod kept;
pub mod limits;
pub mod loadavg;
pub mod memory;
pub mod mountinfo;
mod namespaces;
pub mod net_counters;
pub mod net_dev;
pub mod net_tcp;
pub mod os_release;
pub mod parse;
pub mod passwd;
mod patient;
pub mod pid_credentials;
pub mod pid_io;
pub mod pid_maps;
pub mod pid_smaps;
pub mod pid_stat;
pub mod pid_status;
pub mod placement;
pub mod pressure;
pub mod process_count;
mod read_error;
pub mod recorder;
pub mod schedstat;
mod snapshot;
mod time;
pub mod topology;
pub mod waiting;

pub use kept::KeptFile;
pub use patient::{PATIENCE, Patient, Text};
pub use read_error::ReadError;

use super::abandonable::Crew;
use crate::order;
use folder::{READ_FLAGS, each_entry, read_at, read_once_at, whole_piece};
use kept::KeptPlace;
use namespaces::Namespaces;
use protocol::{host_text::HostText, observed::Feature};
use recorder::Recorder;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use snapshot::Snapshot;
use std::{
    path::Path,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

/// A machine's files, and its clocks: those of the machine we run on, or what somebody took of
/// another one.
#[derive(Debug)]
pub struct Root {
    source: Source,
    /// How many more files may be kept open.
    left_to_keep: Arc<AtomicU64>,
    namespaces: Namespaces,
    /// Takes note of what is read, where that is wanted.
    recorder: Option<Recorder>,
}

#[derive(Debug)]
enum Source {
    /// Files that are read as they are now, below some folder: `/` for the machine we run on.
    Now(Tree),
    /// Files that somebody took.
    Taken(Snapshot),
}

#[derive(Clone, Debug)]
struct Tree {
    root: Arc<OwnedFd>,
    proc: Arc<OwnedFd>,
    /// Read what may not let a reader go.
    readers: Arc<Crew<String, Result<Text, ReadError>>>,
    is_live: bool,
}

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

impl Root {
    /// The machine the agent runs on.
    ///
    /// # Errors
    ///
    /// When `/proc` is not there.
    pub fn live() -> Result<Self, ReadError> {
        Self::at(Path::new("/"))
    }

    /// A folder with `proc`, `sys` and `etc` below it, which are read as they are now.
    ///
    /// # Errors
    ///
    /// When the folder, or `proc` in it, cannot be opened.
    pub fn at(folder: &Path) -> Result<Self, ReadError> {
        let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(folder, directory, Mode::empty())?;
        let proc = Arc::new(rustix::fs::openat(&root, "proc", directory, Mode::empty())?);
        let namespaces = Namespaces::of(|link| {
            let link = rustix::fs::readlinkat(&proc, link, Vec::new());
            link.ok().map(|link| link.into_bytes())
        });
        let below = Arc::clone(&proc);
        let readers = Crew::new(PATIENCE, move |path: &String| Text::read(&below, path));
        let tree = Tree {
            root: Arc::new(root),
            proc,
            readers: Arc::new(readers),
            is_live: folder == Path::new("/"),
        };
        Ok(Self {
            namespaces,
            source: Source::Now(tree),
            left_to_keep: Arc::new(AtomicU64::new(open_files_limit().saturating_sub(NEVER_KEPT))),
            recorder: None,
        })
    }

    /// A machine's files as somebody took them: what `sysmcp capture` wrote, or a folder with `proc`
    /// in it.
    ///
    /// # Errors
    ///
    /// That the folder holds none, or what the kernel answered.
    pub fn snapshot(folder: &Path) -> Result<Self, ReadError> {
        let snapshot = Snapshot::open(folder)?;
        Ok(Self {
            namespaces: Namespaces::of(|link| snapshot.link(&below_proc(link))),
            source: Source::Taken(snapshot),
            left_to_keep: Arc::new(AtomicU64::new(0)),
            recorder: None,
        })
    }

    /// The snapshot in a folder where one is named, else the machine the agent runs on.
    ///
    /// # Errors
    ///
    /// What is wrong, in a sentence.
    pub fn open(snapshot: Option<&Path>) -> Result<Self, String> {
        let Some(folder) = snapshot else {
            let why = |error: ReadError| error.reason_of_file(Feature::Field);
            return Self::live().map_err(|error| format!("cannot open /proc: {}", why(error)));
        };
        Self::snapshot(folder).map_err(|error| {
            let why = match error.errno {
                Errno::NOENT => "there is no such folder, or no `proc` in it".to_owned(),
                Errno::NOTDIR => "it is not a folder".to_owned(),
                Errno::INVAL => "its `proc` is the kernel's own, not a copy".to_owned(),
                Errno::XDEV => "its `proc` is on another file system".to_owned(),
                Errno::NOSYS => "reading one needs Linux 5.6 or later on this machine".to_owned(),
                errno => errno.to_string(),
            };
            format!("cannot read a snapshot in {}: {why}", folder.display())
        })
    }

    /// The top of the machine the agent runs on, whose file systems can be asked; nothing else can.
    /// What they answer is in no file, so for a capture they are not.
    pub fn live_top(&self) -> Option<Arc<OwnedFd>> {
        match &self.source {
            Source::Now(tree) => {
                (tree.is_live && self.recorder.is_none()).then(|| Arc::clone(&tree.root))
            }
            Source::Taken(_) => None,
        }
    }

    /// `/proc` of the machine the agent runs on, below which files of processes can be opened.
    pub fn live_proc(&self) -> Option<Arc<OwnedFd>> {
        match &self.source {
            Source::Now(tree) => tree.is_live.then(|| Arc::clone(&tree.proc)),
            Source::Taken(_) => None,
        }
    }

    /// Whether there is a file or a folder below the root. The path is relative.
    pub fn holds(&self, path: &str) -> bool {
        let is_there = match &self.source {
            Source::Now(tree) => rustix::fs::statat(&tree.root, path, AtFlags::empty()).is_ok(),
            Source::Taken(snapshot) => snapshot.holds(path),
        };
        // That it is there is all that is asked of it.
        self.note(|| path.to_owned(), if is_there { Ok(b"") } else { Err(Errno::NOENT.into()) });
        is_there
    }

    /// Reads a file below `/proc` into `buffer`, replacing what was there.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read_proc(&self, path: &str, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        let read = match &self.source {
            Source::Now(tree) => read_at(&tree.proc, path, MAX_FILE_BYTES, buffer),
            Source::Taken(snapshot) => snapshot.read(&below_proc(path), buffer),
        };
        self.note(|| below_proc(path), read.map(|()| buffer.as_slice()));
        read
    }

    /// Reads a file below `/proc` that may be longer than the others, up to so many bytes; of a longer
    /// one, its start.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read_long_proc(&self, path: &str, most: usize) -> Result<Text, ReadError> {
        Text::of(|buffer| match &self.source {
            Source::Now(tree) => read_at(&tree.proc, path, most, buffer),
            Source::Taken(snapshot) => snapshot.read(&below_proc(path), buffer),
        })
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
        // Of thousands of files no path is kept for nothing.
        let noted = if self.recorder.is_some() { paths.clone() } else { Vec::new() };
        let patient = match &self.source {
            Source::Now(tree) => tree.read_each_patiently(paths),
            Source::Taken(snapshot) => {
                let read =
                    |path: &String| Text::of(|buffer| snapshot.read(&below_proc(path), buffer));
                Patient { texts: paths.iter().map(read).collect(), cpu: Duration::ZERO }
            }
        };
        for (path, text) in noted.iter().zip(&patient.texts) {
            let bytes = text.as_ref().map(|text| text.bytes.as_slice());
            self.note(|| below_proc(path), bytes.map_err(|error| *error));
        }
        patient
    }

    /// Reads a file below the root into `buffer`, replacing what was there. The path is relative.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn read(&self, path: &str, buffer: &mut Vec<u8>) -> Result<(), ReadError> {
        let read = match &self.source {
            Source::Now(tree) => read_at(&tree.root, path, MAX_FILE_BYTES, buffer),
            Source::Taken(snapshot) => snapshot.read(path, buffer),
        };
        self.note(|| path.to_owned(), read.map(|()| buffer.as_slice()));
        read
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
        let read = match &self.source {
            Source::Now(tree) => read_once_at(&tree.proc, path, buffer),
            Source::Taken(snapshot) => snapshot.read_once(&below_proc(path), buffer),
        };
        self.note(|| below_proc(path), read);
        read
    }

    /// The same of a file below the root. The path is relative.
    ///
    /// # Errors
    ///
    /// As for [`Root::read_proc_once`].
    pub fn read_once<'b>(&self, path: &str, buffer: &'b mut [u8]) -> Result<&'b [u8], ReadError> {
        let read = match &self.source {
            Source::Now(tree) => read_once_at(&tree.root, path, buffer),
            Source::Taken(snapshot) => snapshot.read_once(path, buffer),
        };
        self.note(|| path.to_owned(), read);
        read
    }

    /// Opens a file of `/proc` to be read again and again. The kernel makes its content anew for
    /// each read from the start, for two thirds of what opening costs too.
    ///
    /// # Errors
    ///
    /// What the kernel answered, or that as many files are kept as may be, which for a snapshot is
    /// none: then the file can still be opened for each read.
    pub fn keep_proc(&self, path: &str) -> Result<KeptFile, ReadError> {
        let Source::Now(tree) = &self.source else { return Err(Errno::MFILE.into()) };
        if self.recorder.is_some() {
            return Err(Errno::MFILE.into());
        }
        let place = KeptPlace::take(&self.left_to_keep)?;
        let file = rustix::fs::openat(&tree.proc, path, READ_FLAGS, Mode::empty())?;
        Ok(KeptFile::new(file, place))
    }

    /// Lists the numeric names in a folder below `/proc`, in the kernel's order: pids for `.`,
    /// thread ids for `PID/task`.
    ///
    /// # Errors
    ///
    /// What the kernel answered.
    pub fn list_ids(&self, folder: &str, ids: &mut Vec<u32>) -> Result<(), ReadError> {
        ids.clear();
        let mut visit = |name: &[u8]| {
            let digits = std::str::from_utf8(name).ok();
            ids.extend(digits.and_then(|digits| digits.parse::<u32>().ok()));
        };
        match &self.source {
            Source::Now(tree) => {
                let listed = each_entry(&tree.proc, folder, |name, _| visit(name));
                if let Err(error) = listed {
                    self.note(|| below_proc(folder), Err(error));
                }
                listed
            }
            Source::Taken(snapshot) => {
                snapshot.names(&below_proc(folder))?.iter().for_each(|name| visit(name));
                order::ascending(ids);
                Ok(())
            }
        }
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
        let tree = match &self.source {
            Source::Now(tree) => tree,
            Source::Taken(snapshot) => {
                snapshot.folders(folder)?.iter().for_each(|name| visit(name));
                return Ok(());
            }
        };
        let status = rustix::fs::statat(&tree.root, folder, AtFlags::empty())?;
        // Its own name, and its entry for itself: each folder in it would be one more, except where
        // the file system counts none and says 1.
        if matches!(status.st_nlink, 2) {
            return Ok(());
        }
        each_entry(&tree.root, folder, |name, kind| {
            if kind == FileType::Directory {
                visit(name);
            }
        })
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
        match &self.source {
            Source::Now(tree) => {
                let status = rustix::fs::statat(&tree.proc, folder, AtFlags::empty());
                if self.recorder.is_some() {
                    // Who owns a copy tells nothing; this file tells the same.
                    let _ = self.read_proc(&format!("{folder}/status"), &mut Vec::new());
                }
                Ok(status?.st_uid)
            }
            Source::Taken(snapshot) => snapshot.owner_uid(&below_proc(folder)),
        }
    }
}

/// A path below `/proc` as one below the root.
fn below_proc(path: &str) -> String {
    if path == "." { "proc".to_owned() } else { format!("proc/{path}") }
}

/// How many files this process may have open at once; the largest number where there is no limit.
pub fn open_files_limit() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Escapes what a kernel file holds as one text, without the newline at its end.
pub fn host_text(bytes: &[u8]) -> HostText {
    HostText::new(bytes.strip_suffix(b"\n").unwrap_or(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::observed::{Permission, Reason};

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
            ReadError::from(Errno::ACCESS).reason(Feature::IoAccounting, 7),
            Reason::NotPermitted(Permission::InspectProcess { owner_uid: 7, .. })
        ));
    }
}
