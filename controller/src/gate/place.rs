//! One target as the gate sees it: the way there, how many calls run on it, and what it keeps.

use super::{ledger::Ledger, link::Link};
use crate::{audit::Audit, push::Settings, target::Target};
use protocol::artifact::ArtifactId;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

/// One target.
pub(super) struct Place {
    pub(super) link: Arc<Link>,
    /// Its own: calls that wait for a dead target take no place of another's.
    pub(super) ledger: Ledger,
    /// Handles of results that were stored there, the newest last.
    handles: Mutex<VecDeque<ArtifactId>>,
}

/// Handles that are remembered of a target. An agent keeps about as many results.
const HANDLES: usize = 64;

impl Place {
    pub(super) fn new(
        target: Target,
        settings: Arc<Settings>,
        audit: Arc<Audit>,
        max_calls: usize,
    ) -> Self {
        Self {
            link: Link::new(target, settings, audit),
            ledger: Ledger::new(max_calls),
            handles: Mutex::default(),
        }
    }

    /// Notes that a result is stored there.
    pub(super) fn remember(&self, id: ArtifactId) {
        let mut handles = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if handles.contains(&id) {
            return;
        }
        if handles.len() == HANDLES {
            handles.pop_front();
        }
        handles.push_back(id);
    }

    fn remembers(&self, id: ArtifactId) -> bool {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }
}

/// The place, if there is one beside this one, at which a result was stored.
pub(super) fn elsewhere<'p>(
    places: &'p [Place],
    here: &Place,
    id: ArtifactId,
) -> Option<&'p Place> {
    // A result of this place that gave way to newer ones is nowhere else.
    if here.remembers(id) {
        return None;
    }
    places.iter().find(|place| place.remembers(id))
}
