//! Gets a user let in, by the methods that the configuration allows, in its order.

use super::{
    Beyond, Limits, Place, Problem,
    handler::{Checker, Told},
    identities::{self, Candidate, Identities, Source},
    signer::{Agent, NotSigned, Signer, agent_at},
};
use crate::transport::{
    Failure, Prompts,
    meaning::Method,
    terminal::{self, Echo},
};
use protocol::host_text::{HostText, printable};
use russh::{
    MethodKind, MethodSet,
    client::{self, AuthResult, KeyboardInteractiveAuthResponse as Response},
    keys::{HashAlg, PublicKey},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

type Handle = client::Handle<Checker>;

/// How one method ended.
#[derive(Clone, Copy)]
enum Outcome {
    /// The user is in.
    In,
    /// The host wants another method too.
    More,
    /// The host does not take it.
    Refused,
}

/// A login under way.
struct Attempt<'a> {
    place: Place<'a>,
    handle: &'a mut Handle,
    told: &'a Told,
    limits: Limits,
    prompts: Prompts,
    /// What the host still takes, once it has said so.
    takes: Option<MethodSet>,
    /// What somebody would have had to answer.
    unasked: Option<&'static str>,
    /// A key that wants a passphrase.
    locked: Option<String>,
    /// What was tried, for an error.
    tried: Vec<String>,
    /// Whether the host took one method and wants another.
    is_half_in: bool,
    /// Keys that the host took, and then wanted more.
    accepted: Vec<PublicKey>,
    /// Whether the host has refused anything yet.
    has_refused: bool,
    security_keys: bool,
}

/// Logs the user in.
///
/// # Errors
///
/// Why the host lets nobody in.
pub(super) async fn log_in(
    place: Place<'_>,
    handle: &mut Handle,
    told: &Told,
    limits: Limits,
    prompts: Prompts,
) -> Result<(), Problem> {
    let prompts = if place.meaning.is_batch { Prompts::Forbidden } else { prompts };
    let mut attempt = Attempt {
        place,
        handle,
        told,
        limits,
        prompts,
        takes: None,
        unasked: None,
        locked: None,
        tried: Vec::new(),
        is_half_in: false,
        accepted: Vec::new(),
        has_refused: false,
        security_keys: false,
    };
    attempt.run().await
}

impl Attempt<'_> {
    async fn run(&mut self) -> Result<(), Problem> {
        /// A host may want several methods in turn, but not without end.
        const ROUNDS: usize = 8;
        let methods = self.place.meaning.methods.clone();
        for _ in 0..ROUNDS {
            let mut has_more = false;
            let mut at = 0;
            while let Some(method) = methods.get(at).copied() {
                if !self.is_taken(method) {
                    at += 1;
                    continue;
                }
                match self.try_method(method).await? {
                    Outcome::In => return Ok(()),
                    Outcome::More => {
                        has_more = true;
                        self.is_half_in = true;
                        break;
                    }
                    Outcome::Refused => at += 1,
                }
            }
            if !has_more {
                break;
            }
        }
        if self.is_let_in_by_nothing().await {
            return Ok(());
        }
        Err(self.refused())
    }

    /// Asks the host what it takes, where nothing of ours has made it say so: that may be something
    /// that `ssh` has. Some hosts let a user in by that question alone (RFC 4252, section 5.2).
    async fn is_let_in_by_nothing(&mut self) -> bool {
        // One that does not answer this is one that lets nobody in.
        self.takes.is_none()
            && !self.handle.is_closed()
            && matches!(self.ask_for_nothing().await, Ok(Outcome::In))
    }

    /// The method `none`, to which the answer is what the host takes.
    async fn ask_for_nothing(&mut self) -> Result<Outcome, Problem> {
        let asking = self.handle.authenticate_none(self.place.meaning.user.clone());
        let answer = timeout(self.limits.answer, asking).await;
        Ok(self.outcome(self.answered(answer)?))
    }

    /// Whether the host may take a method; it says so with the first answer.
    fn is_taken(&self, method: Method) -> bool {
        let kind = match method {
            Method::PublicKey => MethodKind::PublicKey,
            Method::KeyboardInteractive => MethodKind::KeyboardInteractive,
            Method::Password => MethodKind::Password,
        };
        self.takes.as_ref().is_none_or(|takes| takes.contains(&kind))
    }

    async fn try_method(&mut self, method: Method) -> Result<Outcome, Problem> {
        match method {
            Method::PublicKey => self.keys().await,
            Method::KeyboardInteractive | Method::Password if self.takes.is_none() => {
                // Nobody is asked before the host has said that it wants an answer.
                match self.ask_for_nothing().await? {
                    Outcome::Refused if self.is_taken(method) => self.ask(method).await,
                    outcome @ (Outcome::In | Outcome::More | Outcome::Refused) => Ok(outcome),
                }
            }
            Method::KeyboardInteractive | Method::Password => self.ask(method).await,
        }
    }

    async fn ask(&mut self, method: Method) -> Result<Outcome, Problem> {
        let wanted = match method {
            Method::Password => "a password",
            Method::PublicKey | Method::KeyboardInteractive => {
                "an answer, such as a password or a code"
            }
        };
        if self.prompts == Prompts::Forbidden {
            self.unasked = Some(wanted);
            return Ok(Outcome::Refused);
        }
        match method {
            Method::Password => self.password().await,
            Method::PublicKey | Method::KeyboardInteractive => self.questions().await,
        }
    }

    /// Tries every key and certificate.
    async fn keys(&mut self) -> Result<Outcome, Problem> {
        let mut agent = self.agent().await;
        let held = timeout(self.limits.answer, identities::held(agent.as_mut())).await;
        let found = Identities::collect(self.place.meaning, held.unwrap_or_default());
        self.tried.extend(found.passed_over);
        self.security_keys |= !found.security_keys.is_empty();
        let mut rsa = None;
        // A host that wants two keys takes none of them twice.
        let accepted = self.accepted.clone();
        let is_new = |candidate: &&Candidate| !accepted.contains(&candidate.key);
        for candidate in found.candidates.iter().filter(is_new) {
            if self.handle.is_closed() || !self.is_taken(Method::PublicKey) {
                break;
            }
            if candidate.key.algorithm().is_rsa() && rsa.is_none() {
                rsa = Some(self.rsa_hash().await?);
            }
            let allowed = &self.place.meaning.algorithms.user_keys;
            let offered = candidate.offered_as(allowed, rsa.flatten());
            let Some(hash) = offered.filter(|_| !candidate.is_weak(self.place.meaning.rsa_bits))
            else {
                self.tried.push(format!("{}: not allowed by the configuration", candidate.name()));
                continue;
            };
            match self.offer(candidate, hash, agent.as_mut()).await? {
                Outcome::Refused => {}
                outcome @ (Outcome::In | Outcome::More) => return Ok(outcome),
            }
        }
        Ok(Outcome::Refused)
    }

    /// The ssh-agent, told which host this is for, so that it can keep to what a key is meant for.
    async fn agent(&self) -> Option<Agent> {
        let socket = self.place.meaning.agent_socket.as_ref()?;
        let connecting = timeout(self.limits.answer, agent_at(socket)).await;
        let mut agent = connecting.ok()?.ok()?;
        if let Some(binding) = self.handle.agent_session_binding() {
            // An agent that does not know of it has no such keys either.
            let _ = timeout(self.limits.answer, agent.bind_session(binding, false)).await;
        }
        Some(agent)
    }

    /// The best hash that the host takes for an RSA key; none stands for SHA-1.
    async fn rsa_hash(&self) -> Result<Option<HashAlg>, Problem> {
        let asking = self.handle.best_supported_rsa_hash();
        Ok(self.answered(timeout(self.limits.answer, asking).await)?.flatten())
    }

    async fn offer(
        &mut self,
        candidate: &Candidate,
        hash: Option<HashAlg>,
        agent: Option<&mut Agent>,
    ) -> Result<Outcome, Problem> {
        let user = self.place.meaning.user.clone();
        let limit = self.limits.answer;
        let is_signing = Arc::new(AtomicBool::new(false));
        let busy = Arc::clone(&is_signing);
        let mut signer = Signer { candidate, agent, prompts: self.prompts, is_signing: busy };
        let answer = match &candidate.certificate {
            Some(certificate) => {
                let certificate = certificate.clone();
                let offering =
                    self.handle.authenticate_certificate_with(user, certificate, hash, &mut signer);
                within(limit, &is_signing, offering).await
            }
            None => {
                let key = candidate.key.clone();
                let offering =
                    self.handle.authenticate_publickey_with(user, key, hash, &mut signer);
                within(limit, &is_signing, offering).await
            }
        };
        match answer {
            Ok(Ok(result)) => {
                let outcome = self.outcome(result);
                match outcome {
                    Outcome::In => {}
                    Outcome::More => self.accepted.push(candidate.key.clone()),
                    Outcome::Refused => self.tried.push(candidate.name()),
                }
                Ok(outcome)
            }
            Ok(Err(NotSigned::Closed)) => Err(self.broken(&NotSigned::Closed)),
            Ok(Err(why)) => {
                if let (NotSigned::Passphrase, Source::File(path)) = (&why, &candidate.source) {
                    let shown = || printable(&path.to_string_lossy()).into_owned();
                    self.locked.get_or_insert_with(shown);
                }
                self.tried.push(format!("{}: {why}", candidate.name()));
                Ok(Outcome::Refused)
            }
            Err(_) => Err(self.place.timed_out("logging in", limit).into()),
        }
    }

    async fn password(&mut self) -> Result<Outcome, Problem> {
        let user = self.place.meaning.user.clone();
        let question =
            format!("{}@{}'s password: ", printable(&user), printable(&self.place.meaning.host));
        for _ in 0..self.place.meaning.password_prompts {
            let Ok(typed) = terminal::ask(&question, Echo::Off).await else { break };
            let typed = terminal::into_string(typed);
            let trying = self.handle.authenticate_password(user.clone(), typed);
            let Ok(answer) = timeout(self.limits.answer, trying).await else {
                // The library does not hear it when a host wants the password changed.
                let step = "the answer to the password, which may have to be changed,";
                return Err(self.place.timed_out(step, self.limits.answer).into());
            };
            match self.outcome(self.answered(Ok(answer))?) {
                Outcome::Refused if self.is_taken(Method::Password) => {}
                outcome @ (Outcome::In | Outcome::More | Outcome::Refused) => return Ok(outcome),
            }
        }
        Ok(Outcome::Refused)
    }

    /// Answers what the host asks, as it asks it.
    async fn questions(&mut self) -> Result<Outcome, Problem> {
        /// Rounds of questions, so that a host cannot ask for ever.
        const ROUNDS: usize = 32;
        /// Questions in one round.
        const AT_ONCE: usize = 32;
        let user = self.place.meaning.user.clone();
        let starting = self.handle.authenticate_keyboard_interactive_start(user, None);
        let mut answer = timeout(self.limits.answer, starting).await;
        for _ in 0..ROUNDS {
            let answers = match self.answered(answer)? {
                Response::Success => return Ok(Outcome::In),
                Response::Failure { remaining_methods, partial_success } => {
                    let failure = AuthResult::Failure { remaining_methods, partial_success };
                    return Ok(self.outcome(failure));
                }
                Response::InfoRequest { prompts, .. } if prompts.len() > AT_ONCE => {
                    let said = format!("it asks {} questions at once", prompts.len());
                    return Err(self.place.unreachable(&said).into());
                }
                Response::InfoRequest { name, instructions, prompts } => {
                    self.answers(&name, &instructions, &prompts).await
                }
            };
            let responding = self.handle.authenticate_keyboard_interactive_respond(answers);
            answer = timeout(self.limits.answer, responding).await;
        }
        // The library waits for an answer to the last one and would try nothing else.
        let said = format!("it went on asking after {ROUNDS} rounds of questions");
        Err(self.place.unreachable(&said).into())
    }

    /// Asks a person. Everything that the host says is shown as text that can do nothing.
    async fn answers(
        &self,
        name: &str,
        instructions: &str,
        prompts: &[client::Prompt],
    ) -> Vec<String> {
        const SHOWN_BYTES: usize = 1024;
        let shown =
            |text: &str| HostText::capped(text.trim_end().as_bytes(), SHOWN_BYTES).to_string();
        let mut before = String::new();
        for line in [name, instructions].into_iter().filter(|line| !line.trim().is_empty()) {
            before.push_str(&format!("{}\r\n", shown(line)));
        }
        let who = format!(
            "({}@{})",
            printable(&self.place.meaning.user),
            printable(&self.place.meaning.host)
        );
        let mut answers = Vec::new();
        for client::Prompt { prompt, echo } in prompts {
            let echo = if *echo { Echo::On } else { Echo::Off };
            let question = format!("{before}{who} {} ", shown(prompt));
            before.clear();
            // The host gets an empty answer where there is none, and says that it is wrong.
            let typed = terminal::ask(&question, echo).await.unwrap_or_default();
            answers.push(terminal::into_string(typed));
        }
        answers
    }

    /// What the host said, if it did in time.
    fn answered<T, E: std::fmt::Display>(
        &self,
        answer: Result<Result<T, E>, tokio::time::error::Elapsed>,
    ) -> Result<T, Problem> {
        match answer {
            Ok(Ok(result)) => Ok(result),
            Ok(Err(error)) => Err(self.broken(&error)),
            Err(_) => Err(self.place.timed_out("logging in", self.limits.answer).into()),
        }
    }

    /// The session ended during the login.
    fn broken(&self, error: &dyn std::fmt::Display) -> Problem {
        if self.told.is_unreadable() {
            return Beyond::Unreadable.into();
        }
        let why = self.told.why_over();
        if why.as_ref().is_none_or(|why| !why.is_of_host && why.is_end) {
            return self.place.closed_at_login(&self.told.banner()).into();
        }
        let said = why.map_or_else(|| error.to_string(), |why| why.said);
        self.place.unreachable(&format!("the connection closed during the login: {said}")).into()
    }

    fn outcome(&mut self, result: AuthResult) -> Outcome {
        match result {
            AuthResult::Success => Outcome::In,
            AuthResult::Failure { remaining_methods, partial_success } => {
                // With no method left the session is over, or will be at once.
                self.has_refused |= !remaining_methods.is_empty();
                self.takes = Some(remaining_methods);
                if partial_success { Outcome::More } else { Outcome::Refused }
            }
        }
    }

    /// Why nobody was let in, with what helps.
    fn refused(&self) -> Problem {
        let Place { meaning, .. } = self.place;
        let takes = |name: &String| {
            let is_it = |kind: &MethodKind| <&'static str>::from(kind) == name.as_str();
            self.takes.as_ref().is_some_and(|takes| takes.iter().any(is_it))
        };
        let names: Vec<String> =
            meaning.methods_of_ssh_alone.iter().filter(|name| takes(name)).cloned().collect();
        if !names.is_empty() {
            return Problem::Beyond(Beyond::Methods { names });
        }
        if self.security_keys && self.is_taken(Method::PublicKey) {
            let names = vec!["a security key".to_owned()];
            return Problem::Beyond(Beyond::Methods { names });
        }
        if let Some(key) = &self.locked {
            return Failure::Passphrase { key: key.clone() }.into();
        }
        let why_over = self.told.why_over();
        let is_silent = why_over.is_none_or(|why| !why.is_of_host);
        if self.handle.is_closed() && !self.has_refused && is_silent {
            return self.broken(&"it said nothing");
        }
        let host = self.place.host();
        // A key that was refused is what went wrong, also where the host would take a password.
        let has_no_key_to_take = self.is_half_in || self.tried.is_empty();
        let is_for_a_person = has_no_key_to_take || !self.is_taken(Method::PublicKey);
        if let Some(wanted) = self.unasked.filter(|_| is_for_a_person) {
            return Failure::NobodyToAsk { host, wanted, by_hand: self.place.by_hand() }.into();
        }
        let said = self.said();
        Failure::LoginRefused {
            host,
            user: meaning.user.clone(),
            said: HostText::capped(said.as_bytes(), 400),
            by_hand: self.place.by_hand(),
        }
        .into()
    }

    fn said(&self) -> String {
        if self.handle.is_closed() {
            let tried = self.tried.join(", ");
            return match self.told.why_over().filter(|why| why.is_of_host) {
                Some(why) => format!("{}; tried: {tried}", why.said),
                None => format!(
                    "Too many authentication failures: it closed the connection after {tried}"
                ),
            };
        }
        let methods: Vec<&'static str> = match &self.takes {
            Some(takes) => takes.iter().map(Into::into).collect(),
            None => Vec::new(),
        };
        let tried = if self.tried.is_empty() { "no key".to_owned() } else { self.tried.join(", ") };
        let asks =
            if self.unasked.is_some() { "; it would ask, with a terminal to ask at" } else { "" };
        format!("Permission denied ({}); tried: {tried}{asks}", methods.join(","))
    }
}

/// Waits for a host's answer to an offer. It does not count while it is signed: somebody may have to
/// find a passphrase, or to touch a key, and the whole connection has a limit too.
async fn within<T>(
    limit: Duration,
    is_signing: &AtomicBool,
    offering: impl Future<Output = T>,
) -> Result<T, tokio::time::error::Elapsed> {
    let mut offering = std::pin::pin!(offering);
    loop {
        match timeout(limit, &mut offering).await {
            Err(_) if is_signing.load(Ordering::Relaxed) => {}
            answer => return answer,
        }
    }
}
