//! The calls that run, each on a thread of its own.

use super::Outbox;
use crate::{
    artifacts::Artifacts,
    call::{Context, Listener, Withdrawal, millis},
    instruments,
    proc::Root,
};
use protocol::{
    error::{AgentError, Defect},
    message::{Answered, Call, FromAgent, Progress, RequestId, Streamed},
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Calls that run at the same time. A further one is refused at once, with the time to come back.
const MAX_RUNNING: usize = 8;

/// Stack of a call's thread. Nothing recurses deeply, and eight of them count on a small machine.
const STACK_BYTES: usize = 512 << 10;

/// The running calls of a session.
pub(super) struct Calls {
    pub(super) outbox: Arc<Outbox>,
    shared: Arc<Shared>,
}

struct Shared {
    root: Root,
    artifacts: Mutex<Artifacts>,
    running: Mutex<HashMap<RequestId, Running>>,
}

struct Running {
    withdrawal: Arc<Withdrawal>,
    ends_at: Instant,
}

/// What a refused caller waits at least before it tries again: also where the running calls are late.
const LEAST_WAIT: Duration = Duration::from_millis(100);

impl Calls {
    pub(super) fn new(root: Root, outbox: Arc<Outbox>) -> Self {
        let shared = Shared { root, artifacts: Mutex::default(), running: Mutex::default() };
        Self { outbox, shared: Arc::new(shared) }
    }

    /// Starts a call, or answers at once why not.
    pub(super) fn start(&self, call: Call) {
        let id = call.id;
        let withdrawal = match self.admit(&call) {
            Ok(withdrawal) => withdrawal,
            Err(error) => {
                self.answer(id, error);
                return;
            }
        };
        let (shared, outbox) = (Arc::clone(&self.shared), Arc::clone(&self.outbox));
        let thread = std::thread::Builder::new()
            .name("call".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || run(&shared, &outbox, call, withdrawal));
        if thread.is_err() {
            self.shared.forget(id);
            self.answer(id, AgentError::Defect(Defect::NoThread));
        }
    }

    /// Withdraws a call; one that has ended already is not missed.
    pub(super) fn withdraw(&self, id: RequestId) {
        if let Some(running) = self.shared.running().get(&id) {
            running.withdrawal.withdraw();
        }
    }

    fn admit(&self, call: &Call) -> Result<Arc<Withdrawal>, AgentError> {
        call.request.check().map_err(|_| AgentError::ParametersRefused)?;
        let mut running = self.shared.running();
        if running.len() >= MAX_RUNNING {
            let now = Instant::now();
            let first = running.values().map(|call| call.ends_at.saturating_duration_since(now));
            return Err(AgentError::Busy {
                running: u32::try_from(running.len()).unwrap_or(u32::MAX),
                retry_after_ms: millis(first.min().unwrap_or_default().max(LEAST_WAIT)),
            });
        }
        let window = Duration::from_millis(call.request.window_ms().into());
        let withdrawal = Arc::new(Withdrawal::default());
        let entry =
            Running { withdrawal: Arc::clone(&withdrawal), ends_at: Instant::now() + window };
        running.insert(call.id, entry);
        Ok(withdrawal)
    }

    fn answer(&self, id: RequestId, error: AgentError) {
        self.outbox.send(&FromAgent::Answered(Answered { id, result: Err(error) }));
    }
}

impl Shared {
    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn forget(&self, id: RequestId) {
        self.running().remove(&id);
    }
}

fn run(shared: &Shared, outbox: &Outbox, call: Call, withdrawal: Arc<Withdrawal>) {
    let Call { id, budget, request } = call;
    let limits = (id, budget, withdrawal);
    let root = shared.root.for_call();
    let context = Context::new(&root, &shared.artifacts, outbox, limits);
    let result = instruments::run(request, &context);
    // Before the answer: whoever has it may start the next call at once.
    shared.forget(id);
    outbox.send(&FromAgent::Answered(Answered { id, result }));
}

impl Listener for Outbox {
    fn progress(&self, progress: Progress) {
        self.send(&FromAgent::Progress(progress));
    }

    fn item(&self, streamed: Streamed) -> bool {
        self.send(&FromAgent::Streamed(streamed))
    }
}
