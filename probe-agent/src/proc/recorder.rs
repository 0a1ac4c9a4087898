//! Takes note of every file that is read, so that what a copy has to hold is what the readers read,
//! and no second list of it.

use super::{ReadError, Root};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

/// Files by their path below the root: their content, or why they could not be read.
pub type Files = BTreeMap<String, Result<Vec<u8>, Errno>>;

/// What was read so far.
#[derive(Debug, Default)]
pub struct Recorder {
    noted: Mutex<Noted>,
}

#[derive(Debug, Default)]
struct Noted {
    files: Files,
    bytes: usize,
    /// The files that were read since it was last asked, also those that were read before.
    touched: BTreeSet<String>,
}

/// Bytes that are kept at most. A capture is far smaller; this bounds the agent's memory.
const MOST_BYTES: usize = 64 << 20;

impl Root {
    /// The same machine, with note taken of every file that is read. Nothing stays open then.
    pub fn recorded(&self) -> Self {
        let root = Self { recorder: Some(Recorder::default()), ..self.for_call() };
        for kind in ["cgroup", "pid"] {
            let path = format!("self/ns/{kind}");
            let link = root.link_of_proc(&path);
            let read = link.as_ref().map(Vec::as_slice).map_err(|error| *error);
            root.note(|| format!("proc/{path}"), read);
        }
        root
    }

    /// What was noted, where note was taken.
    pub const fn recorder(&self) -> Option<&Recorder> {
        self.recorder.as_ref()
    }

    /// What was noted, where note was taken.
    pub fn into_recorder(self) -> Option<Recorder> {
        self.recorder
    }

    pub(super) fn note(&self, path: impl FnOnce() -> String, read: Result<&[u8], ReadError>) {
        if let Some(recorder) = &self.recorder {
            recorder.note(&path(), read.map_err(|error| error.errno));
        }
    }
}

impl Recorder {
    /// Notes a file. The first reading counts: an instant is as short as it can be.
    fn note(&self, path: &str, read: Result<&[u8], Errno>) {
        let path: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let path = path.join("/");
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        noted.touched.insert(path.clone());
        let length = read.map_or(0, <[u8]>::len) + path.len();
        if noted.bytes + length <= MOST_BYTES && !noted.files.contains_key(&path) {
            noted.bytes += length;
            noted.files.insert(path, read.map(<[u8]>::to_vec));
        }
    }

    /// The paths that were read since this was last asked.
    pub fn touched(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.noted.lock().unwrap_or_else(PoisonError::into_inner).touched)
    }

    /// All that was read.
    pub fn into_files(self) -> Files {
        self.noted.into_inner().unwrap_or_else(PoisonError::into_inner).files
    }
}
