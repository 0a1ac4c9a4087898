//! A made-up `/proc` for tests: real files below a folder of their own.

use crate::{
    artifacts::Artifacts,
    call::{Context, Listener, Withdrawal},
    proc::Root,
};
use protocol::{
    budget::Budget,
    message::{Progress, RequestId, Streamed},
};
use std::{
    fs,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

/// A machine that was made up.
pub(super) struct FakeMachine {
    folder: Folder,
    root: Root,
    artifacts: Mutex<Artifacts>,
}

/// A folder that goes with what uses it.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One line of `/proc/PID/stat`. What is not named is 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct FakeStat {
    pub(super) pid: u32,
    pub(super) state: char,
    pub(super) parent_pid: u32,
    pub(super) children_minor_faults: u64,
    pub(super) user_ticks: u64,
    pub(super) children_ticks: u64,
    pub(super) threads: u32,
    pub(super) start_ticks: u64,
    pub(super) block_delay_ticks: u64,
}

impl FakeStat {
    /// A process, or a thread, that sleeps and has done nothing.
    pub(super) const fn idle(pid: u32, start_ticks: u64) -> Self {
        Self {
            pid,
            state: 'S',
            parent_pid: 1,
            children_minor_faults: 0,
            user_ticks: 0,
            children_ticks: 0,
            threads: 1,
            start_ticks,
            block_delay_ticks: 0,
        }
    }
}

struct Nobody;

impl Listener for Nobody {
    fn progress(&self, _: Progress) {}

    fn item(&self, _: Streamed) -> bool {
        true
    }
}

impl FakeMachine {
    /// A machine without a process.
    pub(super) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let made = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("sysmcp-fake-{}-{made}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(folder.join("proc")).unwrap();
        let root = Root::at(&folder).unwrap();
        Self { folder: Folder(folder), root, artifacts: Mutex::default() }
    }

    /// The machine that runs the test, for what cannot be made up. It is not written to.
    pub(super) fn live() -> Self {
        Self { root: Root::live().unwrap(), ..Self::new() }
    }

    /// Writes a file below `/proc`.
    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.0.join("proc").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes the line of a process or a thread, whose folder below `/proc` is given.
    pub(super) fn stat(&self, folder: &str, stat: FakeStat) {
        let FakeStat { pid, state, parent_pid, threads, start_ticks, .. } = stat;
        let zeros = "0 ".repeat(17);
        let text = format!(
            "{pid} (it) {state} {parent_pid} 0 0 0 -1 0 0 {} 0 0 {} 0 {} 0 20 0 {threads} 0 \
             {start_ticks} 0 100 {zeros}{} 0 0\n",
            stat.children_minor_faults,
            stat.user_ticks,
            stat.children_ticks,
            stat.block_delay_ticks
        );
        self.write(&format!("{folder}/stat"), text);
    }

    /// Writes a thread's run delay, its voluntary switches and the bytes that it read, all the
    /// same number.
    pub(super) fn thread(&self, pid: u32, stat: FakeStat, count: u64) {
        let folder = format!("{pid}/task/{}", stat.pid);
        self.stat(&folder, stat);
        self.write(&format!("{folder}/schedstat"), format!("0 {count} 1\n"));
        self.write(
            &format!("{folder}/status"),
            format!("voluntary_ctxt_switches:\t{count}\nnonvoluntary_ctxt_switches:\t0\n"),
        );
        self.write(&format!("{folder}/io"), io(count));
    }

    /// Removes a folder below `/proc`.
    pub(super) fn remove(&self, folder: &str) {
        fs::remove_dir_all(self.folder.0.join("proc").join(folder)).unwrap();
    }

    /// What an instrument works with.
    pub(super) fn context(&self) -> Context<'_> {
        let call = (RequestId(1), Budget::default(), Arc::new(Withdrawal::default()));
        Context::new(&self.root, &self.artifacts, &Nobody, call)
    }
}

/// The text of an `io` file.
pub(super) fn io(read_bytes: u64) -> String {
    format!("rchar: 0\nwchar: 0\nsyscr: 0\nsyscw: 0\nread_bytes: {read_bytes}\nwrite_bytes: 0\n")
}
