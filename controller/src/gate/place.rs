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

/// Handles that are remembered of a target: a recording stays on it while many small results come.
const HANDLES: usize = 256;

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

    /// Whether a result was stored there, and since then not very many.
    pub(super) fn remembers(&self, id: ArtifactId) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{agents::Agents, transport::Login};
    use std::time::Duration;

    #[test]
    fn a_result_is_known_to_be_at_another_place_only_if_it_was_stored_there() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Arc::new(Audit::open(&folder.path().join("log")).unwrap());
        let settings = Arc::new(Settings {
            agents: Agents::Embedded,
            patience: Duration::from_secs(1),
            silence_limit: Duration::from_secs(3),
            login: Login::without_questions(None),
            in_memory: false,
        });
        let places = ["ssh:a", "ssh:b"].map(|name| {
            Place::new(name.parse().unwrap(), Arc::clone(&settings), Arc::clone(&audit), 1)
        });
        let [a, b] = &places;
        let found = |here, id| {
            elsewhere(&places, here, ArtifactId(id)).map(|place| place.link.target().to_string())
        };
        assert_eq!(found(a, 0), None);
        for id in 0..=256 {
            b.remember(ArtifactId(id));
        }
        assert_eq!(found(a, 256).as_deref(), Some("ssh:b"));
        // It was there, and is not any more.
        assert_eq!(found(b, 256), None);
        // The oldest gives way.
        assert_eq!(found(a, 0), None);
        // Each has its own limit of calls.
        let permit = a.ledger.permit(Duration::ZERO);
        assert!(permit.is_some() && a.ledger.permit(Duration::ZERO).is_none());
        assert!(b.ledger.permit(Duration::ZERO).is_some());
    }
}
