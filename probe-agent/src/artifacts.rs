//! Full results, kept in memory under a handle for follow-up questions.
//!
//! Nothing is written to a disk. The store is bounded: when a new result does not fit, the one
//! asked for longest ago goes.

use protocol::artifact::ArtifactId;
use std::{collections::HashMap, sync::Arc};

/// Bytes of all results together.
pub const MAX_BYTES: usize = 32 << 20;

/// A stored result, encoded.
#[derive(Clone, Debug)]
pub struct Artifact {
    /// What it is of.
    pub kind: Kind,
    /// The content.
    pub bytes: Arc<Vec<u8>>,
}

/// Which instrument a result belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole process list.
    ProcessList,
    /// Bytes of the self test.
    SelfTest,
    /// Stacks with names.
    Recording,
    /// What works here. There is one at most, and nobody is given its handle.
    Capabilities,
}

/// The results of a session.
#[derive(Debug, Default)]
pub struct Artifacts {
    stored: HashMap<ArtifactId, Stored>,
    bytes: usize,
    /// Counts uses; the smallest mark is the oldest use.
    uses: u64,
}

#[derive(Debug)]
struct Stored {
    artifact: Artifact,
    used: u64,
}

impl Artifacts {
    /// Keeps a result; makes room for it. Returns `None` when it is larger than the whole store,
    /// or when no random handle can be had.
    pub fn keep(&mut self, kind: Kind, bytes: Vec<u8>) -> Option<ArtifactId> {
        if bytes.len() > MAX_BYTES {
            return None;
        }
        while self.bytes + bytes.len() > MAX_BYTES {
            let oldest = *self.stored.iter().min_by_key(|(_, stored)| stored.used)?.0;
            self.forget(oldest);
        }
        let id = self.unused_handle()?;
        self.bytes += bytes.len();
        self.uses += 1;
        let artifact = Artifact { kind, bytes: Arc::new(bytes) };
        self.stored.insert(id, Stored { artifact, used: self.uses });
        Some(id)
    }

    /// Keeps the one result of its kind, in place of an earlier one.
    pub fn replace(&mut self, kind: Kind, bytes: Vec<u8>) {
        if let Some(id) = self.id_of(kind) {
            self.forget(id);
        }
        self.keep(kind, bytes);
    }

    /// The one result of its kind. It counts as used now.
    pub fn find_kind(&mut self, kind: Kind) -> Option<Arc<Vec<u8>>> {
        let id = self.id_of(kind)?;
        self.find(id).map(|artifact| artifact.bytes)
    }

    fn id_of(&self, kind: Kind) -> Option<ArtifactId> {
        let mut stored = self.stored.iter();
        stored.find(|(_, stored)| stored.artifact.kind == kind).map(|(id, _)| *id)
    }

    /// A stored result. It counts as used now.
    pub fn find(&mut self, id: ArtifactId) -> Option<Artifact> {
        self.uses += 1;
        let stored = self.stored.get_mut(&id)?;
        stored.used = self.uses;
        Some(stored.artifact.clone())
    }

    fn forget(&mut self, id: ArtifactId) {
        if let Some(stored) = self.stored.remove(&id) {
            self.bytes -= stored.artifact.bytes.len();
        }
    }

    fn unused_handle(&self) -> Option<ArtifactId> {
        for _ in 0..64 {
            let id = ArtifactId(getrandom::u32().ok()?);
            if !self.stored.contains_key(&id) {
                return Some(id);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_used_longest_ago_gives_way() {
        let mut artifacts = Artifacts::default();
        let third = MAX_BYTES / 3;
        let first = artifacts.keep(Kind::SelfTest, vec![0; third]).unwrap();
        let second = artifacts.keep(Kind::SelfTest, vec![0; third]).unwrap();
        let third_id = artifacts.keep(Kind::SelfTest, vec![0; third]).unwrap();
        assert!(artifacts.find(first).is_some());
        let fourth = artifacts.keep(Kind::SelfTest, vec![0; third]).unwrap();
        assert!(artifacts.find(second).is_none());
        for id in [first, third_id, fourth] {
            assert!(artifacts.find(id).is_some());
        }
    }

    #[test]
    fn a_kind_that_has_one_result_keeps_the_last() {
        let mut artifacts = Artifacts::default();
        assert!(artifacts.find_kind(Kind::Capabilities).is_none());
        artifacts.replace(Kind::Capabilities, vec![1; 10]);
        artifacts.replace(Kind::Capabilities, vec![2; 20]);
        assert_eq!(*artifacts.find_kind(Kind::Capabilities).unwrap(), vec![2; 20]);
        assert_eq!(artifacts.bytes, 20);
    }

    #[test]
    fn a_result_larger_than_the_store_is_not_kept_and_costs_no_other() {
        let mut artifacts = Artifacts::default();
        let kept = artifacts.keep(Kind::SelfTest, vec![1]).unwrap();
        assert!(artifacts.keep(Kind::SelfTest, vec![0; MAX_BYTES + 1]).is_none());
        assert!(artifacts.find(kept).is_some());
    }
}
