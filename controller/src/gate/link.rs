//! The one session with a target: connected when it is first needed, shared by all calls,
//! connected anew when it is lost.
//!
//! Connecting belongs to no call. Those that come meanwhile wait for the same attempt and share its
//! result, success or not; when the last of them goes away, the attempt ends.

use super::GateError;
use crate::{
    audit::{Audit, record::Event},
    push::Settings,
    reporter::{Reporter, Silent, Stage},
    session::{Lost, Session, Stopped},
    target::Target,
};
use futures::{
    FutureExt as _,
    future::{BoxFuture, Shared, WeakShared},
};
use protocol::{handshake::Sha256, message::Hello};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::sync::broadcast;

/// The way to the target.
pub(super) struct Link {
    target: Target,
    settings: Arc<Settings>,
    audit: Arc<Audit>,
    state: Mutex<State>,
}

enum State {
    /// Not connected.
    Idle,
    /// An attempt, for as long as somebody waits for it, and what it tells.
    Connecting(WeakShared<Attempt>, broadcast::WeakSender<Stage>),
    /// Connected, at least when it was last looked at.
    Connected(Arc<Session>),
}

/// Stages that a call may be behind; it misses those before.
const UNTOLD_STAGES: usize = 64;

/// After which a stage is told again that goes on: whoever waits sees that it does.
const SILENCE: Duration = Duration::from_secs(2);

type Attempt = BoxFuture<'static, Result<Arc<Session>, GateError>>;

impl Link {
    pub(super) fn new(target: Target, settings: Arc<Settings>, audit: Arc<Audit>) -> Arc<Self> {
        Arc::new(Self { target, settings, audit, state: Mutex::new(State::Idle) })
    }

    pub(super) const fn target(&self) -> &Target {
        &self.target
    }

    /// The connected session; connects where there is none, or none any more.
    ///
    /// # Errors
    ///
    /// Why there is none, the same for all that waited.
    pub(super) async fn session(
        self: &Arc<Self>,
        reporter: &dyn Reporter,
    ) -> Result<Arc<Session>, GateError> {
        let (mut attempt, mut stages) = loop {
            match self.look() {
                Look::Connected(session) => {
                    if session.make_sure().await.is_ok() {
                        return Ok(session);
                    }
                }
                Look::Connecting(attempt, stages) => break (attempt, stages),
            }
        };
        let mut last = None;
        let result = loop {
            tokio::select! {
                Ok(stage) = stages.recv() => {
                    reporter.stage(&stage);
                    last = Some(stage);
                }
                result = &mut attempt => break result,
                () = tokio::time::sleep(SILENCE), if last.is_some() => {
                    if let Some(stage) = &last {
                        reporter.stage(stage);
                    }
                }
            }
        };
        // What was told is told before the result.
        while let Ok(stage) = stages.try_recv() {
            reporter.stage(&stage);
        }
        result
    }

    /// The session that there is, without connecting where there is none.
    pub(super) async fn connected(&self) -> Option<Arc<Session>> {
        let session = match &*self.lock() {
            State::Connected(session) => Arc::clone(session),
            State::Idle | State::Connecting(..) => return None,
        };
        session.make_sure().await.is_ok().then_some(session)
    }

    fn look(self: &Arc<Self>) -> Look {
        let mut state = self.lock();
        let lost = match &*state {
            State::Connected(session) if session.lost().is_none() => {
                return Look::Connected(Arc::clone(session));
            }
            State::Connecting(attempt, told) => {
                if let (Some(attempt), Some(told)) = (attempt.upgrade(), told.upgrade()) {
                    return Look::Connecting(attempt, told.subscribe());
                }
                None
            }
            State::Connected(session) => Some(Arc::clone(session)),
            State::Idle => None,
        };
        let (told, stages) = broadcast::channel(UNTOLD_STAGES);
        let weak_told = told.downgrade();
        let attempt = Arc::clone(self).connect(lost, Told(told)).boxed().shared();
        // A shared future that was just made can be downgraded.
        if let Some(weak) = attempt.downgrade() {
            *state = State::Connecting(weak, weak_told);
        }
        Look::Connecting(attempt, stages)
    }

    /// One attempt: ends what was lost, and connects.
    async fn connect(
        self: Arc<Self>,
        lost: Option<Arc<Session>>,
        told: Told,
    ) -> Result<Arc<Session>, GateError> {
        if let Some(lost) = lost {
            let why = lost.lost().unwrap_or(Lost::Closed);
            told.stage(&Stage::Lost { target: self.target.clone(), why });
            self.clear_away(lost).await?;
        }
        self.audit.write(&Event::Connecting { target: self.target.to_string() })?;
        let mut written = Written { link: &self, is_complete: false };
        let connected = Session::connect(&self.target, &self.settings, &told).await;
        written.is_complete = true;
        match connected {
            Ok(session) => {
                if let Err(error) = self.audit.write(&connected_event(
                    &self.target,
                    session.hello(),
                    session.sha256(),
                )) {
                    let done = session.stop(&told).await.sentence();
                    return Err(GateError::Unwritten { done, error });
                }
                let session = Arc::new(session);
                *self.lock() = State::Connected(Arc::clone(&session));
                Ok(session)
            }
            Err(error) => {
                let written = self.audit.write(&self.not_connected(error.to_string()));
                *self.lock() = State::Idle;
                Err(match written {
                    Ok(()) => error.into(),
                    Err(unwritten) => {
                        GateError::Unwritten { done: error.to_string(), error: unwritten }
                    }
                })
            }
        }
    }

    /// Ends what is left of a session that is over, and writes down what is known of the target then.
    async fn clear_away(&self, lost: Arc<Session>) -> Result<(), GateError> {
        let unfinished = Stopped::cut_short(&self.target, lost.hello());
        // The calls that waited are told that it is over, and let go of it.
        let stopped = match owned(lost).await {
            Some(lost) => lost.stop(&Silent).await,
            None => unfinished,
        };
        let written = self.audit.write(&self.stopped(&stopped));
        written.map_err(|error| GateError::Unwritten { done: stopped.sentence(), error })
    }

    /// Ends the session, if there is one. Waits no longer than until `cut` is over.
    ///
    /// # Errors
    ///
    /// When what is left cannot be told.
    pub(super) async fn stop(
        &self,
        reporter: &dyn Reporter,
        cut: impl Future<Output = ()>,
    ) -> Result<Option<End>, GateError> {
        let state = std::mem::replace(&mut *self.lock(), State::Idle);
        let State::Connected(session) = state else { return Ok(None) };
        // A call that still holds the session was dropped already, or is about to be.
        let Some(session) = owned(session).await else {
            return Err(GateError::Defect(format!(
                "a call does not let go of the session with {}; there is no receipt",
                self.target
            )));
        };
        let unfinished = Stopped::cut_short(&self.target, session.hello());
        let stopped = tokio::select! {
            stopped = session.stop(reporter) => stopped,
            () = cut => unfinished,
        };
        let written = self.audit.write(&self.stopped(&stopped)).map_err(GateError::from);
        Ok(Some(End { stopped, written }))
    }

    fn not_connected(&self, reason: String) -> Event {
        Event::NotConnected { target: self.target.to_string(), reason }
    }

    fn stopped(&self, stopped: &Stopped) -> Event {
        Event::Stopped {
            target: stopped.target.to_string(),
            clean: stopped.is_clean(),
            receipt: stopped.sentence(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is written down of an agent that has said who it is.
pub(super) fn connected_event(target: &Target, hello: &Hello, agent_sha256: &Sha256) -> Event {
    Event::Connected {
        target: target.to_string(),
        host: hello.host_name.to_string(),
        uid: hello.uid,
        pids: [hello.supervisor_pid, hello.worker_pid],
        agent_sha256: agent_sha256.to_string(),
    }
}

/// How the session ended. What is left on the target is told even if it cannot be written down.
#[derive(Debug)]
pub struct End {
    /// What is left.
    pub stopped: Stopped,
    /// Whether the log says so.
    pub written: Result<(), GateError>,
}

enum Look {
    Connected(Arc<Session>),
    Connecting(Shared<Attempt>, broadcast::Receiver<Stage>),
}

/// Passes on to all that wait what an attempt tells.
struct Told(broadcast::Sender<Stage>);

impl Reporter for Told {
    fn stage(&self, stage: &Stage) {
        // Nobody may be listening.
        let _ = self.0.send(stage.clone());
    }
}

/// Writes down that an attempt was given up, when it is dropped before it has a result.
struct Written<'l> {
    link: &'l Link,
    is_complete: bool,
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if !self.is_complete {
            let event = self.link.not_connected("every call that waited was withdrawn".to_owned());
            // There is nobody to tell that it could not be written.
            let _ = self.link.audit.write(&event);
        }
    }
}

/// Waits until nobody else holds the session.
async fn owned(mut session: Arc<Session>) -> Option<Session> {
    for _ in 0..100 {
        session = match Arc::try_unwrap(session) {
            Ok(session) => return Some(session),
            Err(shared) => shared,
        };
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    None
}
