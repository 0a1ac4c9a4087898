//! How many calls run on one target, and until when: a call beyond the limit is refused at once, with the time to
//! come back, because a queue would let an impatient caller pile up work on a sick target.

use super::GateError;
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The running calls.
#[derive(Debug)]
pub(super) struct Ledger {
    limit: usize,
    running: Mutex<Running>,
}

#[derive(Debug, Default)]
struct Running {
    next: u64,
    /// When each call should end.
    ends: HashMap<u64, Instant>,
}

/// The right to run one call; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Permit<'l> {
    ledger: &'l Ledger,
    number: u64,
}

/// What a caller waits at least before it tries again.
const LEAST_WAIT: Duration = Duration::from_millis(100);

impl Ledger {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, running: Mutex::default() }
    }

    /// Permits a call that takes about so long, unless too many run.
    pub(super) fn permit(&self, window: Duration) -> Option<Permit<'_>> {
        let mut running = self.lock();
        if running.ends.len() >= self.limit {
            return None;
        }
        let number = running.next;
        running.next += 1;
        running.ends.insert(number, Instant::now() + window);
        Some(Permit { ledger: self, number })
    }

    /// What a refused caller is told.
    pub(super) fn busy(&self) -> GateError {
        let running = self.lock();
        let now = Instant::now();
        let first = running.ends.values().map(|end| end.saturating_duration_since(now)).min();
        let wait = first.unwrap_or_default().max(LEAST_WAIT);
        GateError::Busy {
            running: running.ends.len(),
            retry_after_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.ledger.lock().ends.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_too_many_is_refused_until_another_ends() {
        let ledger = Ledger::new(2);
        let first = ledger.permit(Duration::from_secs(30)).unwrap();
        let _second = ledger.permit(Duration::from_secs(60)).unwrap();
        assert!(ledger.permit(Duration::ZERO).is_none());
        let GateError::Busy { running: 2, retry_after_ms } = ledger.busy() else {
            panic!("not busy");
        };
        assert!((29_000..=30_000).contains(&retry_after_ms), "{retry_after_ms}");
        drop(first);
        assert!(ledger.permit(Duration::ZERO).is_some());
    }
}
