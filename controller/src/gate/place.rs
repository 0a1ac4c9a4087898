//! One target as the gate sees it: the way there, how many calls run on it, and what it keeps.

use super::{ledger::Ledger, link::Link};
use crate::{audit::Audit, push::Settings, target::Target};
use protocol::artifact::ArtifactId;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// One target.
pub(super) struct Place {
    pub(super) link: Arc<Link>,
    /// Its own: calls that wait for a dead target take no place of another's.
    pub(super) ledger: Ledger,
    /// Handles of results that were stored there with the calls that made them, the newest last.
    handles: Mutex<VecDeque<(ArtifactId, String)>>,
}

/// Handles that are remembered of a target: a recording stays on it while many small results come.
const HANDLES: usize = 256;

/// Of them that are told to whoever asks for one that is not there.
const NEWEST: usize = 4;

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

    /// Notes that a call made a result that is stored there.
    pub(super) fn remember(&self, id: ArtifactId, call: impl FnOnce() -> String) {
        let mut handles = self.handles();
        if handles.iter().any(|(known, _)| *known == id) {
            return;
        }
        if handles.len() == HANDLES {
            handles.pop_front();
        }
        handles.push_back((id, call()));
    }

    /// Whether a result was stored there, and since then not very many.
    pub(super) fn remembers(&self, id: ArtifactId) -> bool {
        self.handles().iter().any(|(known, _)| *known == id)
    }

    /// The call that made a result.
    pub(super) fn made_by(&self, id: ArtifactId) -> Option<String> {
        self.handles().iter().find(|(known, _)| *known == id).map(|(_, call)| call.clone())
    }

    /// The newest results, with the calls that made them.
    pub(super) fn newest(&self) -> Vec<(ArtifactId, String)> {
        self.handles().iter().rev().take(NEWEST).cloned().collect()
    }

    fn handles(&self) -> MutexGuard<'_, VecDeque<(ArtifactId, String)>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
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
            b.remember(ArtifactId(id), || format!("perf_record {id}"));
        }
        assert_eq!(found(a, 256).as_deref(), Some("ssh:b"));
        // It was there, and is not any more.
        assert_eq!(found(b, 256), None);
        // The oldest gives way.
        assert_eq!(found(a, 0), None);
        assert_eq!(b.made_by(ArtifactId(9)).as_deref(), Some("perf_record 9"));
        let newest: Vec<u32> = b.newest().iter().map(|(id, _)| id.0).collect();
        assert_eq!(newest, [256, 255, 254, 253]);
        // Each has its own limit of calls.
        let permit = a.ledger.permit(Duration::ZERO);
        assert!(permit.is_some() && a.ledger.permit(Duration::ZERO).is_none());
        assert!(b.ledger.permit(Duration::ZERO).is_some());
    }
}
