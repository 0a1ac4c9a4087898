//! The one call path: validate, permit, audit the intent, budget, run, render, audit the result.
//!
//! Whatever the front door, nothing reaches an agent any other way.

mod error;
mod export;
mod ledger;
mod link;
mod place;
mod rendered;
mod sweep;

pub use error::GateError;
pub use link::End;
pub use rendered::Rendered;

use crate::{
    audit::{Audit, AuditError, bounded, record::Event},
    config::Config,
    push::{PushError, Settings},
    reporter::Reporter,
    session::{CallError, Session},
    target::Target,
    targets::Targets,
    tools::{self, Entry, Selection},
    transport::{Doors, Login, Prompts},
};
use futures::{FutureExt as _, future::join_all};
use ledger::Permit;
use place::{Place, elsewhere};
use protocol::{
    Item, error::AgentError, host_text::HostText, message::Answer, question::Question, redact,
};
use rendered::Form;
use serde_json::{Map, Value};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Answers calls about its targets. What happens at one of them delays no call about another.
pub struct Gate {
    selection: Selection,
    audit: Arc<Audit>,
    settings: Arc<Settings>,
    targets: Targets,
    /// One for each target, in the same order.
    places: Vec<Place>,
    next_call: AtomicU64,
    form: Form,
}

/// Bytes of a name that is no tool's. Those of tools are shorter.
const TOOL_NAME_BYTES: usize = 64;

/// Bytes of the reason for which a call was refused: it repeats the value that was wrong.
const REASON_BYTES: usize = 512;

/// Bytes of a call that is told again.
const CALL_BYTES: usize = 300;

/// A call, as the front door got it.
#[derive(Clone, Debug)]
pub struct Call {
    /// The tool's name.
    pub tool: String,
    /// Its arguments.
    pub arguments: Map<String, Value>,
}

impl Gate {
    /// Makes ready to answer. Touches no target, but the audit log must be writable.
    ///
    /// # Errors
    ///
    /// When the audit log cannot be opened.
    pub fn new(config: &Config, prompts: Prompts, is_one_shot: bool) -> Result<Self, GateError> {
        let audit = Arc::new(Audit::open(&config.audit_log)?);
        let settings = Arc::new(Settings {
            agents: config.agents.clone(),
            patience: config.connect_timeout,
            silence_limit: config.silence_limit,
            login: Login {
                prompts,
                ssh_config: config.ssh_config.clone(),
                accepts_new_hosts: config.accept_new,
                answer_limit: Login::ANSWER_LIMIT,
                as_root: config.as_root,
                doors: Doors::default(),
            },
            in_memory: config.in_memory,
        });
        let place = |target: &Target| {
            Place::new(target.clone(), Arc::clone(&settings), Arc::clone(&audit), config.max_calls)
        };
        let places = config.targets.iter().map(place).collect();
        let form = Form { is_one_shot, names_target: config.targets.only().is_none() };
        Ok(Self {
            selection: config.selection.clone(),
            audit,
            settings,
            targets: config.targets.clone(),
            places,
            next_call: AtomicU64::new(1),
            form,
        })
    }

    /// The tools that are offered.
    pub const fn selection(&self) -> &Selection {
        &self.selection
    }

    /// The targets.
    pub const fn targets(&self) -> &Targets {
        &self.targets
    }

    /// Answers one call. Dropping the future cancels it on the target, and that is audited too.
    ///
    /// # Errors
    ///
    /// Why there is no answer, with what to do next.
    pub async fn call(&self, call: Call, reporter: &dyn Reporter) -> Result<Rendered, GateError> {
        self.call_keeping(call, reporter, &mut |_| {}).await
    }

    /// The same for a call whose streamed items are kept.
    ///
    /// # Errors
    ///
    /// As for [`Gate::call`].
    pub async fn call_keeping(
        &self,
        call: Call,
        reporter: &dyn Reporter,
        keep: &mut (dyn FnMut(&Item) + Send),
    ) -> Result<Rendered, GateError> {
        let admitted = self.admitted(&call, &self.selection)?;
        let (target, tool) = (admitted.place.link.target(), admitted.entry.name());
        let mut entered = self.enter(target, tool, &Value::Object(admitted.own.clone()))?;
        let result = self.run(&admitted, reporter, keep).await;
        drop(admitted);
        entered.finish(&result)?;
        result
    }

    /// Writes down that a call was refused, also one that a front door could not read.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn refuse(&self, tool: &str, parameters: &Value, reason: &str) -> Result<(), AuditError> {
        let (parameters, parameters_bytes) = bounded::parameters(parameters);
        self.audit.write(&Event::Refused {
            tool: HostText::capped(tool.as_bytes(), TOOL_NAME_BYTES).to_string(),
            parameters,
            parameters_bytes,
            reason: bounded::sentence(reason, REASON_BYTES),
        })
    }

    /// Validates a call of one of some tools and permits it, or writes down that it was refused.
    fn admitted(&self, call: &Call, among: &Selection) -> Result<Admitted<'_>, GateError> {
        self.admit(call, among).or_else(|error| {
            let parameters = Value::Object(call.arguments.clone());
            self.refuse(&call.tool, &parameters, &error.to_string())?;
            Err(error)
        })
    }

    fn admit(&self, call: &Call, among: &Selection) -> Result<Admitted<'_>, GateError> {
        let entry = *among.find(&call.tool).ok_or_else(|| GateError::UnknownTool {
            name: HostText::capped(call.tool.as_bytes(), TOOL_NAME_BYTES),
            offered: among.names(),
        })?;
        let mut own = call.arguments.clone();
        let target = self
            .targets
            .take(&mut own)
            .map_err(|problem| GateError::Target { tool: entry.name(), problem })?;
        let question = Question::read(entry.id, own.clone())
            .map_err(|problem| GateError::Arguments { tool: entry.name(), problem })?;
        let place = self
            .places
            .iter()
            .find(|place| place.link.target() == target)
            .ok_or_else(|| GateError::Defect(format!("nothing was made ready for {target}")))?;
        let window = Duration::from_millis(question.request.window_ms().into());
        let permit = place.ledger.permit(window).ok_or_else(|| place.ledger.busy())?;
        Ok(Admitted { entry, own, question, place, _permit: permit })
    }

    /// Writes down what is about to be done. If that fails, it is not done.
    fn enter(
        &self,
        target: &Target,
        tool: &str,
        parameters: &Value,
    ) -> Result<Entered<'_>, GateError> {
        let parameters_digest = self.audit.digest(parameters);
        let (parameters, parameters_bytes) = bounded::parameters(parameters);
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        self.audit.write(&Event::Intent {
            call: number,
            target: target.to_string(),
            tool: tool.to_owned(),
            parameters,
            parameters_bytes,
            parameters_digest,
        })?;
        let started = Instant::now();
        Ok(Entered { audit: &self.audit, call: number, started, is_finished: false })
    }

    async fn run(
        &self,
        admitted: &Admitted<'_>,
        reporter: &dyn Reporter,
        keep: &mut (dyn FnMut(&Item) + Send),
    ) -> Result<Rendered, GateError> {
        let Admitted { entry, question, place, .. } = admitted;
        let session = place.link.session(reporter).await?;
        let mut stream = tools::Stream::of(entry.id);
        let mut keep = |item| {
            keep(&item);
            stream.accept(item);
        };
        let answer = self.ask(admitted, &session, reporter, &mut keep).await?;
        Rendered::new(place.link.target(), question, answer, &stream, self.form)
    }

    /// Asks an agent.
    async fn ask(
        &self,
        admitted: &Admitted<'_>,
        session: &Session,
        reporter: &dyn Reporter,
        keep: &mut (dyn FnMut(Item) + Send),
    ) -> Result<Answer, GateError> {
        let Admitted { entry, question, place, .. } = admitted;
        let answer = session
            .call(question.request.clone(), question.budget, reporter, keep)
            .await
            .map_err(|error| self.with_place(place, error))?;
        if answer.report.id() != entry.id {
            return Err(GateError::Defect("the agent answered another question".to_owned()));
        }
        if let Some(id) = answer.meta.artifact {
            place.remember(id, || written_short(entry.name(), &admitted.own));
        }
        Ok(answer)
    }

    /// An error of a call at one place. A handle that is not there may be at another, or have been
    /// there.
    fn with_place(&self, place: &Place, error: CallError) -> GateError {
        let CallError::Agent(AgentError::NoSuchArtifact { id }) = error else {
            return error.into();
        };
        if let Some(other) = elsewhere(&self.places, place, id) {
            let (asked, stored) =
                (place.link.target().to_string(), other.link.target().to_string());
            return GateError::Elsewhere { id, asked, stored };
        }
        match place.made_by(id) {
            Some(call) => GateError::GaveWay { id, call },
            None => GateError::NotStored { id, newest: place.newest() },
        }
    }

    /// Ends all sessions that there are, at the same time: it takes as long as the slowest of them,
    /// and no longer than until `cut` is over. Each end is told, in the order of the targets; an
    /// error is that what is left there cannot be told.
    pub async fn stop(
        &self,
        reporter: &dyn Reporter,
        cut: impl Future<Output = ()>,
    ) -> Vec<Result<End, GateError>> {
        let cut = cut.shared();
        let ends = self.places.iter().map(|place| place.link.stop(reporter, cut.clone()));
        join_all(ends).await.into_iter().filter_map(Result::transpose).collect()
    }
}

/// A call as one would make it again. A parameter may be a long text.
fn written_short(tool: &str, arguments: &Map<String, Value>) -> String {
    let (arguments, _) = bounded::parameters(&Value::Object(arguments.clone()));
    bounded::sentence(&format!("{tool} {arguments}"), CALL_BYTES)
}

/// A call that is understood and permitted.
struct Admitted<'g> {
    entry: Entry,
    /// The tool's own arguments: which target is not among them.
    own: Map<String, Value>,
    question: Question,
    place: &'g Place,
    /// Given back when this is dropped.
    _permit: Permit<'g>,
}

/// What is written down of an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    answer_bytes: u64,
    agent_cpu_ms: Option<f64>,
    redacted: Option<u32>,
}

/// A call whose intent is written down. One that is dropped before it ends was cancelled, and that
/// is written down too.
struct Entered<'g> {
    audit: &'g Audit,
    call: u64,
    started: Instant,
    is_finished: bool,
}

impl Entered<'_> {
    fn finish(&mut self, result: &Result<Rendered, GateError>) -> Result<(), GateError> {
        self.finish_as(match result {
            Ok(answer) => Ok(Measured {
                answer_bytes: answer.text.len() as u64,
                agent_cpu_ms: Some(answer.meta.overhead.agent_cpu_ms),
                redacted: Some(answer.meta.redacted),
            }),
            Err(failure) => Err(failure.to_string()),
        })
    }

    /// The same by what is written down of an answer.
    fn finish_as(&mut self, result: Result<Measured, String>) -> Result<(), GateError> {
        self.is_finished = true;
        let done = result.as_ref().err().cloned();
        // An answer that is not in the log is not given.
        self.audit.write(&self.outcome(result)).map_err(|error| GateError::Unwritten {
            done: done.unwrap_or_else(|| "the call was answered".to_owned()),
            error,
        })
    }

    fn outcome(&self, result: Result<Measured, String>) -> Event {
        let duration_ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let (answered, measured, error) = match result {
            Ok(measured) => (true, measured, None),
            Err(error) => (false, Measured::default(), Some(redact::text(&error).0.into_owned())),
        };
        let Measured { answer_bytes, agent_cpu_ms, redacted } = measured;
        let call = self.call;
        Event::Outcome { call, answered, error, duration_ms, answer_bytes, agent_cpu_ms, redacted }
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // The caller is gone; there is nobody to tell that the log cannot be written.
            let _ = self.audit.write(&self.outcome(Err("cancelled".to_owned())));
        }
    }
}

impl From<CallError> for GateError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<PushError> for GateError {
    fn from(error: PushError) -> Self {
        Self::Push(Box::new(error))
    }
}
