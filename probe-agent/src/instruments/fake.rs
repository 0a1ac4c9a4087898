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
    os::unix::fs::symlink,
    sync::{Arc, Mutex},
};
use tempfile::TempDir;

/// A machine that was made up.
pub(super) struct FakeMachine {
    folder: TempDir,
    root: Root,
    artifacts: Mutex<Artifacts>,
}

/// The cgroup namespace of a machine itself.
pub(super) const FIRST: &str = "cgroup:[4026531835]";

/// Any other.
pub(super) const OF_A_CONTAINER: &str = "cgroup:[4026532573]";

/// The one process of [`machine`].
pub(super) const PID: u32 = 7;

/// Looks at a machine of one process that consists of these files, from a cgroup namespace.
pub(super) fn machine<T>(
    files: &[(&str, &str)],
    namespace: &str,
    look: impl FnOnce(&Context<'_>) -> T,
) -> T {
    let machine = FakeMachine::in_namespace(namespace);
    fs::create_dir_all(machine.folder.path().join("proc").join(PID.to_string())).unwrap();
    for (path, text) in files {
        machine.write_below_root(path, text);
    }
    look(&machine.context())
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
        Self::in_namespace(FIRST)
    }

    pub(super) fn in_namespace(cgroup_namespace: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let namespaces = folder.path().join("proc/self/ns");
        fs::create_dir_all(&namespaces).unwrap();
        symlink(cgroup_namespace, namespaces.join("cgroup")).unwrap();
        let root = Root::at(folder.path()).unwrap();
        Self { folder, root, artifacts: Mutex::default() }
    }

    /// The machine that runs the test, for what cannot be made up. It is not written to.
    pub(super) fn live() -> Self {
        Self { root: Root::live().unwrap(), ..Self::new() }
    }

    /// Writes a file below `/proc`.
    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        self.write_below_root(&format!("proc/{path}"), text);
    }

    pub(super) fn write_below_root(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.path().join(path);
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

    /// Makes a file below `/proc` whose reader waits forever: opening a pipe waits for a writer.
    pub(super) fn hang(&self, path: &str) {
        let path = self.folder.path().join("proc").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, mode).unwrap();
    }

    /// Removes a file below `/proc`, if it is there.
    pub(super) fn remove_file(&self, path: &str) {
        let _ = fs::remove_file(self.folder.path().join("proc").join(path));
    }

    /// Removes a folder below `/proc`.
    pub(super) fn remove(&self, folder: &str) {
        fs::remove_dir_all(self.folder.path().join("proc").join(folder)).unwrap();
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
