//! One call under way: its limits, whether it was withdrawn, and what it sends meanwhile.

use crate::{
    artifacts::{Artifacts, Kind},
    launch::Launch,
    os::clock,
    proc::Root,
};
use protocol::{
    artifact::ArtifactId,
    budget::Budget,
    error::{AgentError, Defect},
    instruments::Item,
    loss::Overhead,
    message::{Progress, RequestId, Step, Streamed},
};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Where progress and streamed items go: to the controller, or to a person's terminal.
pub trait Listener: Send + Sync {
    /// The call has come further.
    fn progress(&self, progress: Progress);
    /// A piece of the result. False when nobody takes it any more.
    fn item(&self, streamed: Streamed) -> bool;
}

/// Lets another thread withdraw a call, and wakes it if it sleeps.
#[derive(Debug, Default)]
pub struct Withdrawal {
    is_withdrawn: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Withdrawal {
    /// Withdraws the call.
    pub fn withdraw(&self) {
        let _guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.is_withdrawn.store(true, Ordering::Release);
        self.changed.notify_all();
    }

    fn is_withdrawn(&self) -> bool {
        self.is_withdrawn.load(Ordering::Acquire)
    }

    /// Sleeps until `end`, or until the call is withdrawn.
    fn sleep_until(&self, end: Instant) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.is_withdrawn() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            guard = match self.changed.wait_timeout(guard, left) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

/// What an instrument works with.
pub struct Context<'s> {
    /// The machine's files.
    pub root: &'s Root,
    /// Stored results.
    pub artifacts: &'s Mutex<Artifacts>,
    /// The call's limits.
    pub budget: Budget,
    /// A command that a person launched to see its calls. No session has one.
    pub launch: Option<&'s Launch>,
    id: RequestId,
    started: Instant,
    cpu_at_start: Duration,
    /// Processor time of other threads that worked for the call, in nanoseconds.
    cpu_elsewhere_ns: AtomicU64,
    withdrawal: Arc<Withdrawal>,
    listener: &'s dyn Listener,
    items_sent: AtomicU64,
    /// When progress was last reported, in milliseconds after the start.
    reported_ms: AtomicU64,
}

/// How often a window that passes is reported.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

impl<'s> Context<'s> {
    /// Starts the call's clocks. The thread that calls this must be the one that does the work:
    /// its processor time is what the call costs.
    pub fn new(
        root: &'s Root,
        artifacts: &'s Mutex<Artifacts>,
        listener: &'s dyn Listener,
        (id, budget, withdrawal): (RequestId, Budget, Arc<Withdrawal>),
    ) -> Self {
        Self {
            root,
            artifacts,
            budget,
            launch: None,
            id,
            started: Instant::now(),
            cpu_at_start: clock::thread_cpu(),
            cpu_elsewhere_ns: AtomicU64::new(0),
            withdrawal,
            listener,
            items_sent: AtomicU64::new(0),
            reported_ms: AtomicU64::new(0),
        }
    }

    /// The same call over another root. What it spends on other threads is its own.
    pub fn over<'r>(&self, root: &'r Root) -> Context<'r>
    where
        's: 'r,
    {
        Context {
            root,
            artifacts: self.artifacts,
            budget: self.budget,
            launch: self.launch,
            id: self.id,
            started: self.started,
            cpu_at_start: self.cpu_at_start,
            withdrawal: Arc::clone(&self.withdrawal),
            listener: self.listener,
            items_sent: AtomicU64::new(0),
            reported_ms: AtomicU64::new(0),
            cpu_elsewhere_ns: AtomicU64::new(self.cpu_elsewhere_ns.load(Ordering::Relaxed)),
        }
    }

    /// Takes over what the same call over another root spent on other threads.
    pub fn take_over(&self, other: &Context<'_>) {
        let spent = other.cpu_elsewhere_ns.load(Ordering::Relaxed);
        self.cpu_elsewhere_ns.fetch_max(spent, Ordering::Relaxed);
    }

    /// Checks that the call is still wanted and within its limits.
    ///
    /// # Errors
    ///
    /// [`AgentError::Cancelled`], [`AgentError::DeadlineExceeded`] or
    /// [`AgentError::CostExceeded`].
    pub fn check(&self) -> Result<(), AgentError> {
        if self.withdrawal.is_withdrawn() {
            return Err(AgentError::Cancelled);
        }
        let Budget { deadline_ms, cpu_ms, .. } = self.budget;
        if self.started.elapsed() > Duration::from_millis(deadline_ms.into()) {
            return Err(AgentError::DeadlineExceeded { deadline_ms });
        }
        if self.cpu_spent() > Duration::from_millis(cpu_ms.into()) {
            return Err(AgentError::CostExceeded { cpu_ms });
        }
        Ok(())
    }

    /// Processor time that the call has used.
    pub fn cpu_spent(&self) -> Duration {
        let elsewhere = Duration::from_nanos(self.cpu_elsewhere_ns.load(Ordering::Relaxed));
        clock::thread_cpu().saturating_sub(self.cpu_at_start) + elsewhere
    }

    /// Counts what another thread spent on the call.
    pub fn add_cpu(&self, spent: Duration) {
        let spent = u64::try_from(spent.as_nanos()).unwrap_or(u64::MAX);
        self.cpu_elsewhere_ns.fetch_add(spent, Ordering::Relaxed);
    }

    /// What looking has cost so far.
    pub fn overhead(&self) -> Overhead {
        let micros = self.cpu_spent().as_micros();
        Overhead { agent_cpu_ms: micros as f64 / 1000.0, target_pause_us_max: 0 }
    }

    /// Lets time pass until `window` after `start`, with progress on the way. In a snapshot it has
    /// passed already.
    ///
    /// # Errors
    ///
    /// As for [`Context::check`].
    pub fn wait_until(
        &self,
        start: Instant,
        end: Duration,
        window: Duration,
    ) -> Result<(), AgentError> {
        if self.root.is_snapshot() {
            self.root.pass(end >= window);
            return self.check();
        }
        loop {
            self.check()?;
            let passed = start.elapsed();
            if passed >= end {
                return Ok(());
            }
            let next = PROGRESS_EVERY.min(end.saturating_sub(passed));
            self.withdrawal.sleep_until(Instant::now() + next);
            if window >= 2 * PROGRESS_EVERY && self.is_due(start, window) {
                self.progress(Step::Measuring, millis(start.elapsed().min(window)), millis(window));
            }
        }
    }

    /// Whether a report is due: an instrument may wake far more often to look.
    fn is_due(&self, start: Instant, window: Duration) -> bool {
        let now = u64::from(millis(self.started.elapsed()));
        let since = now.saturating_sub(self.reported_ms.load(Ordering::Relaxed));
        let is_due = since >= u64::from(millis(PROGRESS_EVERY)) || start.elapsed() >= window;
        if is_due {
            self.reported_ms.store(now, Ordering::Relaxed);
        }
        is_due
    }

    /// The stored results.
    pub fn artifacts(&self) -> MutexGuard<'s, Artifacts> {
        self.artifacts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a result for follow-up questions. `None` when it is too large to keep.
    pub fn keep(&self, kind: Kind, result: &impl Serialize) -> Option<ArtifactId> {
        let bytes = postcard::to_stdvec(result).ok()?;
        self.artifacts().keep(kind, bytes)
    }

    /// The bytes of a result that was kept.
    ///
    /// # Errors
    ///
    /// When it is not there any more, or is of another kind.
    pub fn kept_bytes(&self, id: ArtifactId, kind: Kind) -> Result<Arc<Vec<u8>>, AgentError> {
        let found = self.artifacts().find(id).ok_or(AgentError::NoSuchArtifact { id })?;
        if found.kind != kind {
            return Err(AgentError::OtherArtifact { id });
        }
        Ok(found.bytes)
    }

    /// A result that [`Context::keep`] kept.
    ///
    /// # Errors
    ///
    /// As for [`Context::kept_bytes`].
    pub fn kept<T: DeserializeOwned>(&self, id: ArtifactId, kind: Kind) -> Result<T, AgentError> {
        postcard::from_bytes(&self.kept_bytes(id, kind)?)
            .map_err(|_| AgentError::Defect(Defect::StoredResultUnreadable))
    }

    /// Reports how far the call has come.
    pub fn progress(&self, step: Step, done: u32, total: u32) {
        self.listener.progress(Progress { id: self.id, step, done, total });
    }

    /// Sends a piece of the result.
    ///
    /// # Errors
    ///
    /// [`AgentError::Cancelled`] when nobody takes it any more.
    pub fn send(&self, item: Item) -> Result<(), AgentError> {
        let sequence = self.items_sent.fetch_add(1, Ordering::Relaxed);
        if self.listener.item(Streamed { id: self.id, sequence, item }) {
            Ok(())
        } else {
            Err(AgentError::Cancelled)
        }
    }
}

/// Whole milliseconds, as messages carry them.
pub fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{Request, instruments::self_test};

    struct Nobody;

    impl Listener for Nobody {
        fn progress(&self, _: Progress) {}

        fn item(&self, _: Streamed) -> bool {
            true
        }
    }

    /// A call that would take a minute ends at the first limit that it reaches.
    fn end_of_a_long_call(budget: Budget, interval_ms: u32, withdraw: bool) -> AgentError {
        let (root, artifacts) = (Root::live().unwrap(), Mutex::default());
        let withdrawal = Arc::new(Withdrawal::default());
        if withdraw {
            let withdrawal = Arc::clone(&withdrawal);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(30));
                withdrawal.withdraw();
            });
        }
        let context = Context::new(&root, &artifacts, &Nobody, (RequestId(1), budget, withdrawal));
        let request = self_test::Request { count: 1_000_000, interval_ms, ..Default::default() };
        crate::instruments::run(Request::SelfTest(request), &context).unwrap_err()
    }

    #[test]
    fn each_limit_ends_a_call() {
        let budget = Budget::default();
        let deadline = Budget { deadline_ms: 50, ..budget };
        let cost = Budget { cpu_ms: 10, ..budget };
        assert_eq!(
            end_of_a_long_call(deadline, 10, false),
            AgentError::DeadlineExceeded { deadline_ms: 50 }
        );
        assert_eq!(end_of_a_long_call(cost, 0, false), AgentError::CostExceeded { cpu_ms: 10 });
        assert_eq!(end_of_a_long_call(budget, 10, true), AgentError::Cancelled);
    }

    #[test]
    fn a_withdrawn_sleep_ends_at_once() {
        let withdrawal = Arc::new(Withdrawal::default());
        let other = Arc::clone(&withdrawal);
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            other.withdraw();
        });
        let started = Instant::now();
        withdrawal.sleep_until(started + Duration::from_secs(60));
        assert!(started.elapsed() < Duration::from_secs(30));
        thread.join().unwrap();
    }
}
