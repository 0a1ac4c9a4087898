//! Puts the agent on a target and starts it.
//!
//! One channel, one script. The script makes a private folder, opens a file in it, removes the
//! folder, and only then says that it is ready; the controller picks the agent for the machine it
//! runs on and sends it; the script checks it and becomes it. From the first byte on nothing has a
//! name on the target.

mod again;
mod error;
pub mod look;
mod no_shell;
pub mod processor;
pub mod refusal;
pub mod script;
mod sending;
#[cfg(test)]
mod tests;
mod without_shell;

pub use again::push_for;
pub use error::PushError;

use crate::{
    agents::{Agent, Agents},
    reporter::{Reporter, Stage},
    snapshot,
    target::Target,
    transport::{
        self, Carrier, Channel, Ended, Failure, Login, Prompts, Step, Timings, container, openssh,
        root::Rise, wsl,
    },
    words,
};
use look::Look;
pub use no_shell::NoShell;
use protocol::{
    WIRE_ID,
    frame::{self, FrameBuffer, FrameError},
    handshake::{HandshakeError, MarkScanner, Sha256, Token, controller_mark, parse_agent_line},
    host_text::HostText,
    message::{FromAgent, Hello, Terms, ToAgent},
};
use script::{Instructions, Line, Task};
use sending::transfer_patience;
use std::time::Duration;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::Instant,
};

/// A channel with an agent at its other end.
pub struct Pushed {
    /// The channel.
    pub channel: Channel,
    /// What came after the agent's first message.
    pub buffer: FrameBuffer,
    /// Who it is.
    pub hello: Hello,
    /// The digest of what runs there, as it reported and as it was sent.
    pub sha256: Sha256,
    /// What getting there took.
    pub timings: Timings,
    /// How to look at the target again, when the session is over; none where there is no target.
    pub look: Option<Look>,
}

/// How to push.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where agents come from.
    pub agents: Agents,
    /// How long the target may take to let us in and get ready, and then again to start the agent.
    pub patience: Duration,
    /// How long the agent waits for a sign of life before it ends itself.
    pub silence_limit: Duration,
    /// How a login is made.
    pub login: Login,
    /// Whether the agent may start from memory where no folder lets files run.
    pub in_memory: bool,
}

impl Settings {
    /// What the agent reads first: our mark, and its terms.
    fn opening(&self, token: &Token) -> Result<Vec<u8>, FrameError> {
        let silence_limit_ms = u32::try_from(self.silence_limit.as_millis()).unwrap_or(u32::MAX);
        let terms = ToAgent::Terms(Terms { silence_limit_ms });
        Ok([controller_mark(token), frame::encode(&terms)?].concat())
    }
}

/// Pushes the agent and returns once it has said who it is.
///
/// # Errors
///
/// Why there is no agent at the other end. Nothing is left there then.
pub async fn push(
    target: &Target,
    settings: &Settings,
    reporter: &dyn Reporter,
) -> Result<Pushed, PushError> {
    let task = match target {
        Target::Snapshot(folder) => {
            snapshot::check(folder)?;
            Task::Snapshot
        }
        Target::Local | Target::Ssh(_) | Target::Container(_) | Target::Wsl(_) => Task::Machine,
    };
    push_for(target, task, settings, reporter).await
}

/// One attempt, which has to be at the target by a given time.
async fn once(
    target: &Target,
    task: Task,
    settings: &Settings,
    until: Instant,
    reporter: &dyn Reporter,
) -> Result<Pushed, PushError> {
    let largest = settings.agents.largest().map_err(PushError::NoAgent)?;
    let token = new_token()?;
    let patience = settings.patience.max(transfer_patience(largest));
    let Settings { in_memory, .. } = *settings;
    let instructions = Instructions { room_bytes: largest, patience, task, in_memory };
    let script = script::for_session(&token, instructions);
    let Login { as_root, prompts, .. } = settings.login;
    let rise = Rise::of(target, as_root, prompts)
        .map_err(|error| PushError::Transport(error.to_string()))?;
    let script = match &rise {
        Some(rise) => rise.wrap(&script),
        None => script,
    };
    let mut timings = Timings::start();
    let opening = transport::open(target, &script, &settings.login, &mut timings, reporter);
    let channel = match tokio::time::timeout_at(until, opening).await {
        Ok(Ok(channel)) => channel,
        Ok(Err(not_opened)) => return Err(not_opened.into()),
        Err(_) => return Err(PushError::late(Stage::NAME_CONNECTING, settings.patience)),
    };
    let began = timings.clone();
    let attempt = Attempt { target, settings, token, channel, rise, largest, timings, until };
    let pushed = attempt.finish(reporter).await;
    match (pushed, target) {
        (
            Err(PushError::Container(container::Problem::NoShell { .. })),
            Target::Container(container),
        ) => without_shell::push(target, container, task, settings, began, reporter).await,
        (pushed, _) => pushed,
    }
}

fn new_token() -> Result<Token, PushError> {
    script::new_token().map_err(|error| PushError::Transport(error.to_string()))
}

/// Why an attempt stopped.
enum Interruption {
    /// For a reason we know.
    Error(Box<PushError>),
    /// The channel ended; the process that carried it may know why.
    Ended {
        /// What came instead of a mark.
        noise: Vec<u8>,
    },
}

impl<E: Into<PushError>> From<E> for Interruption {
    fn from(error: E) -> Self {
        Self::Error(Box::new(error.into()))
    }
}

struct Attempt<'a> {
    target: &'a Target,
    settings: &'a Settings,
    token: Token,
    channel: Channel,
    /// How root is become, where the script has to.
    rise: Option<Rise>,
    largest: usize,
    timings: Timings,
    /// When the target has to be ready.
    until: Instant,
}

type Started = (FrameBuffer, Hello, Sha256);

impl Attempt<'_> {
    async fn finish(mut self, reporter: &dyn Reporter) -> Result<Pushed, PushError> {
        match self.run(reporter).await {
            Ok((buffer, hello, sha256)) => {
                let Self { target, settings, token, channel, timings, .. } = self;
                let look = Some(Look::new(target, &settings.login, &token, &hello));
                Ok(Pushed { channel, buffer, hello, sha256, timings, look })
            }
            Err(Interruption::Error(error)) => Err(*error),
            Err(Interruption::Ended { noise }) => Err(self.explain_end(&noise).await),
        }
    }

    async fn run(&mut self, reporter: &dyn Reporter) -> Result<Started, Interruption> {
        let mut lines = MarkScanner::for_line(&script::mark(&self.token));
        let left = self.until.saturating_duration_since(Instant::now());
        let ready = tokio::time::timeout(left, async {
            let Channel { reader, writer, carrier, .. } = &mut self.channel;
            let scanning = scan(reader, &mut lines);
            let found = match &self.rise {
                None => scanning.await?,
                Some(rise) => tokio::select! {
                    found = scanning => found?,
                    error = rise.answer(carrier.as_ref(), writer) => {
                        return Err(PushError::Root(rise.no_answer(&error)).into());
                    }
                },
            };
            let line = Line::parse(&found.line);
            match line.ok_or_else(|| PushError::Script { line: shown(&found.line) })? {
                Line::Ready { processor, unpacks } => {
                    let program = rest_of_line(reader, found.rest).await?;
                    let arch = processor.agent(&program).map_err(PushError::NoAgent)?;
                    Ok::<_, Interruption>((arch, unpacks))
                }
                Line::Refused(refusal) => {
                    Err(PushError::Refused { refusal, bytes: self.largest }.into())
                }
            }
        });
        let ready = match ready.await {
            Ok(ready) => ready,
            Err(_) => Err(self.nothing_came(lines.noise()).into()),
        };
        self.timings.mark(Step::Ready);
        let (arch, unpacks) = ready?;
        // Whoever runs the script is let in.
        self.channel.login = None;
        let agent = self.settings.agents.for_machine(arch).map_err(PushError::NoAgent)?;
        let payload = if unpacks { agent.packed.clone() } else { unpacked(&agent)? };
        let header = script::header(payload.len(), &agent.sha256, unpacks);
        let tail = self.settings.opening(&self.token)?;
        let patience = self.settings.patience.max(transfer_patience(payload.len()));
        within(patience, PushError::late(Stage::NAME_SENDING, patience), async {
            let account = sending::Account::begin(&self.channel, payload.len());
            let Channel { reader, writer, .. } = &mut self.channel;
            let sending = sending::send(writer, &header, &payload, &tail);
            let starting = wait_for_start(reader, &self.token, &agent);
            // Reading goes on while we write: a script that gives up early says why.
            let (sent, started) = tokio::select! {
                stalled = account.tell(reporter, self.settings.silence_limit) => {
                    return Err(stalled.into());
                }
                both = async { tokio::join!(sending, starting) } => both,
            };
            self.timings.mark(Step::Started);
            let (buffer, hello) = started?;
            sent.map_err(|_| Interruption::Ended { noise: Vec::new() })?;
            Ok((buffer, hello, agent.sha256))
        })
        .await
    }

    /// The error for a script that has not spoken in time.
    fn nothing_came(&self, noise: &[u8]) -> PushError {
        let limit = self.settings.patience;
        // An `ssh` does not tell whether it was let in; what runs behind the login does.
        let is_let_in = match &self.channel.carrier {
            Some(Carrier::Connection(_)) => true,
            Some(Carrier::Process(_)) | None => !noise.is_empty(),
        };
        match self.target {
            Target::Ssh(ssh) if is_let_in => {
                let config = self.settings.login.ssh_config.as_deref();
                Failure::silent(ssh, config, first_of(noise), limit).into()
            }
            Target::Ssh(_)
            | Target::Local
            | Target::Container(_)
            | Target::Wsl(_)
            | Target::Snapshot(_) => PushError::late(Stage::NAME_CONNECTING, limit),
        }
    }

    /// Finds out why the channel ended, from the process that carried it.
    async fn explain_end(self, noise: &[u8]) -> PushError {
        const PATIENCE: Duration = Duration::from_secs(2);
        let Some(carrier) = self.channel.carrier else {
            return PushError::NoShell(NoShell::told_by(None, noise, b""));
        };
        drop(self.channel.writer);
        let is_ssh = carrier.is_ssh();
        let Ended { code, stderr, lost, .. } = carrier.end(PATIENCE).await;
        if let Some(failure) = lost {
            return PushError::Ssh(failure);
        }
        if let Target::Ssh(ssh) = self.target
            && is_ssh
        {
            let Login { prompts, ssh_config, .. } = &self.settings.login;
            let config = ssh_config.as_deref();
            let failure = openssh::explain(ssh, config, code, &stderr);
            if let Some(Failure::LoginRefused { host, said, by_hand, .. }) = &failure
                && *prompts == Prompts::Forbidden
            {
                if let Some(key) = openssh::encrypted_key(ssh, config).await {
                    return PushError::Ssh(Failure::Passphrase { key });
                }
                if let Some(wanted) = openssh::wants_answers(said.as_str()) {
                    let (host, by_hand) = (host.clone(), by_hand.clone());
                    return PushError::Ssh(Failure::NobodyToAsk { host, wanted, by_hand });
                }
            }
            if let Some(failure) = failure {
                return PushError::Ssh(failure);
            }
        }
        if let Some(problem) = self.rise.and_then(|rise| rise.explain(&stderr)) {
            return PushError::Root(problem);
        }
        if let Target::Container(target) = self.target
            && let Some(problem) = container::explain(target, code, &[noise, &stderr].concat())
        {
            return PushError::Container(problem);
        }
        if let Target::Wsl(name) = self.target
            && let Some(problem) = wsl::explain(name, noise, &stderr)
        {
            return PushError::Wsl(problem);
        }
        PushError::NoShell(NoShell::told_by(code, noise, &stderr))
    }
}

fn unpacked(agent: &Agent) -> Result<Vec<u8>, PushError> {
    agent.unpacked().map_err(|error| PushError::Transport(error.to_string()))
}

async fn within<T>(
    patience: Duration,
    late: PushError,
    work: impl Future<Output = Result<T, Interruption>>,
) -> Result<T, Interruption> {
    match tokio::time::timeout(patience, work).await {
        Ok(result) => result,
        Err(_) => Err(late.into()),
    }
}

/// Reads until the scanner finds its mark.
async fn scan(
    reader: &mut (impl AsyncRead + Unpin),
    scanner: &mut MarkScanner,
) -> Result<protocol::handshake::Found, Interruption> {
    let mut bytes = vec![0; 4096];
    loop {
        let read = reader.read(&mut bytes).await.unwrap_or(0);
        if read == 0 {
            return Err(Interruption::Ended { noise: scanner.noise().to_vec() });
        }
        match scanner.push(bytes.get(..read).unwrap_or_default()) {
            Ok(None) => {}
            Ok(Some(found)) => return Ok(found),
            Err(_) => return Err(Interruption::Ended { noise: scanner.noise().to_vec() }),
        }
    }
}

/// Reads the line that follows on what was read already, which may hold any bytes. A line without
/// end ends where no line of the script's is that long.
async fn rest_of_line(
    reader: &mut (impl AsyncRead + Unpin),
    mut line: Vec<u8>,
) -> Result<Vec<u8>, Interruption> {
    const MAX_BYTES: usize = 64;
    loop {
        if let Some(length) = line.iter().position(|byte| *byte == b'\n') {
            line.truncate(length);
            return Ok(line);
        }
        if line.len() > MAX_BYTES {
            return Ok(line);
        }
        let mut bytes = [0; MAX_BYTES];
        let read = reader.read(&mut bytes).await.unwrap_or(0);
        if read == 0 {
            return Err(Interruption::Ended { noise: Vec::new() });
        }
        line.extend_from_slice(bytes.get(..read).unwrap_or_default());
    }
}

/// Waits for the agent's mark and its first message, or for the script's reason why not.
async fn wait_for_start(
    reader: &mut (impl AsyncRead + Unpin),
    token: &Token,
    agent: &Agent,
) -> Result<(FrameBuffer, Hello), Interruption> {
    let mut agent_mark = MarkScanner::for_agent(token);
    let mut script_line = MarkScanner::for_line(&script::mark(token));
    let mut buffer = FrameBuffer::default();
    let mut is_running = false;
    let mut bytes = vec![0; 4096];
    loop {
        let read = reader.read(&mut bytes).await.unwrap_or(0);
        if read == 0 {
            return Err(Interruption::Ended { noise: agent_mark.noise().to_vec() });
        }
        let received = bytes.get(..read).unwrap_or_default();
        if is_running {
            buffer.push(received);
        } else if let Some(found) = agent_mark.push(received)? {
            parse_agent_line(token, &found.line)?.check(&agent.sha256, WIRE_ID)?;
            buffer.push(&found.rest);
            is_running = true;
        } else if let Some(found) = script_line.push(received)? {
            let line = Line::parse(&found.line);
            let error = match line {
                Some(Line::Refused(refusal)) => PushError::Refused { refusal, bytes: agent.bytes },
                Some(Line::Ready { .. }) | None => PushError::Script { line: shown(&found.line) },
            };
            return Err(error.into());
        }
        if let Some(message) = buffer.take::<FromAgent>()? {
            return match message {
                FromAgent::Hello(hello) => Ok((buffer, hello)),
                FromAgent::Progress(_)
                | FromAgent::Streamed(_)
                | FromAgent::Answered(_)
                | FromAgent::Heartbeat { .. }
                | FromAgent::Receipt(_)
                | FromAgent::Swept(_) => Err(PushError::Handshake(HandshakeError::BadLine).into()),
            };
        }
    }
}

fn shown(line: &str) -> HostText {
    HostText::capped(line.as_bytes(), 200)
}

fn first_of(bytes: &[u8]) -> HostText {
    let text = String::from_utf8_lossy(bytes);
    words::of_others(&text, 400)
}
