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

/// A machine that was made up. Its folder goes with it.
pub(super) struct FakeMachine {
    folder: PathBuf,
    root: Root,
    artifacts: Mutex<Artifacts>,
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
        Self { folder, root, artifacts: Mutex::default() }
    }

    /// Writes a file below `/proc`.
    pub(super) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.folder.join("proc").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// What an instrument works with.
    pub(super) fn context(&self) -> Context<'_> {
        let call = (RequestId(1), Budget::default(), Arc::new(Withdrawal::default()));
        Context::new(&self.root, &self.artifacts, &Nobody, call)
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
