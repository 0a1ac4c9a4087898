//! The clocks of a machine, and its instants: now, or those at which somebody took its files.

use super::{Root, Source};
use crate::os::{clock, sysconf};
use protocol::observed::Reason;
use std::{sync::Arc, time::Duration};

impl Root {
    /// The same machine for one call, which has a window of its own.
    pub fn for_call(&self) -> Self {
        Self {
            source: match &self.source {
                Source::Now(tree) => Source::Now(tree.clone()),
                Source::Taken(snapshot) => Source::Taken(snapshot.for_call()),
            },
            left_to_keep: Arc::clone(&self.left_to_keep),
            namespaces: self.namespaces,
            recorder: None,
        }
    }

    /// Whether the files were taken at another time.
    pub const fn is_snapshot(&self) -> bool {
        matches!(self.source, Source::Taken(_))
    }

    /// Whether there are two instants, so that something can have happened between them.
    ///
    /// # Errors
    ///
    /// That there is one.
    pub fn has_two_instants(&self) -> Result<(), Reason> {
        match &self.source {
            Source::Taken(snapshot) if snapshot.has_one_instant() => Err(Reason::OneInstant),
            Source::Taken(_) | Source::Now(_) => Ok(()),
        }
    }

    /// Lets the time of a snapshot pass: into the window, or to its end. Files that are read as they
    /// are now have their own time.
    pub fn pass(&self, is_end: bool) {
        if let Source::Taken(snapshot) = &self.source {
            snapshot.pass(is_end);
        }
    }

    /// Monotonic time, for windows.
    pub fn monotonic(&self) -> Duration {
        match &self.source {
            Source::Now(_) => clock::monotonic(),
            Source::Taken(snapshot) => snapshot.monotonic(),
        }
    }

    /// Time since boot, time asleep included: the zero point of a process's start.
    pub fn since_boot(&self) -> Duration {
        match &self.source {
            Source::Now(_) => clock::since_boot(),
            Source::Taken(snapshot) => snapshot.since_boot(),
        }
    }

    /// Whether [`Root::since_boot`] is known.
    ///
    /// # Errors
    ///
    /// That nobody took it along.
    pub fn knows_uptime(&self) -> Result<(), Reason> {
        match &self.source {
            Source::Taken(snapshot) if !snapshot.clocks().has_uptime() => {
                Err(Reason::NotInSnapshot)
            }
            Source::Taken(_) | Source::Now(_) => Ok(()),
        }
    }

    /// The wall clock, as time since 1970.
    pub fn wall(&self) -> Duration {
        match &self.source {
            Source::Now(_) => clock::wall(),
            Source::Taken(snapshot) => snapshot.wall(),
        }
    }

    /// Bytes of a page of memory.
    pub fn page_bytes(&self) -> u64 {
        match &self.source {
            Source::Now(_) => sysconf::page_bytes(),
            Source::Taken(snapshot) => snapshot.clocks().page_bytes,
        }
    }
}
