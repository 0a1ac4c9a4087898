//! One connected agent: calls over its channel, heartbeats both ways, and an end that is proven.
//!
//! A task reads what the agent sends and hands it to the calls that wait; another writes. A call
//! that is dropped is cancelled on the target. The session ends with an explicit stop and a
//! receipt; however it ends, the channel closes, and the agent ends itself when it does.

mod life;
mod lost;
mod stopped;
#[cfg(test)]
mod tests;

pub use lost::{CallError, Lost};
pub use stopped::{Cost, Stopped};

use crate::{
    push::{
        self, PushError, Pushed, Settings,
        look::{Look, Looked, WhyNot},
    },
    reporter::{Reporter, Stage},
    target::Target,
    transport::{Carrier, Channel, Ended, Timings, Traffic},
};
use life::Life;
use protocol::{
    Item, Request,
    budget::Budget,
    frame::{self, FrameBuffer},
    handshake::Sha256,
    message::{Answer, Call, FromAgent, Hello, Receipt, RequestId, ToAgent},
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// A connected agent.
pub struct Session {
    target: Target,
    hello: Hello,
    sha256: Sha256,
    to_writer: mpsc::Sender<ToAgent>,
    shared: Arc<Shared>,
    next_id: AtomicU32,
    writer: JoinHandle<()>,
    /// Ends when the session is over, with how the process ended that carried the channel, and with
    /// what was seen of the target after that.
    reader: JoinHandle<(Option<Ended>, Looked)>,
    receipt: oneshot::Receiver<Receipt>,
    timings: Timings,
    traffic: Arc<Traffic>,
}

/// What the reader, the writer and the calls share.
struct Shared {
    waiting: Mutex<Waiting>,
    /// Set when the session is over.
    over: CancellationToken,
    /// When the agent was heard.
    life: Life,
}

enum Waiting {
    /// The calls that wait for an answer.
    Calls(HashMap<RequestId, mpsc::Sender<FromAgent>>),
    /// The session is over, for this reason.
    Over(Lost),
}

impl Default for Waiting {
    fn default() -> Self {
        Self::Calls(HashMap::new())
    }
}

/// Heartbeats within the silence that is allowed.
const HEARTBEATS_PER_LIMIT: u32 = 3;

/// Messages that may wait to be written. A caller beyond that waits.
const QUEUE: usize = 64;

/// What the agent gets beyond a call's deadline to say that it missed it.
const GRACE: Duration = Duration::from_secs(2);

impl Session {
    /// Pushes an agent to a target and takes up the session.
    ///
    /// # Errors
    ///
    /// As for [`push::push`].
    pub async fn connect(
        target: &Target,
        settings: &Settings,
        reporter: &dyn Reporter,
    ) -> Result<Self, PushError> {
        let pushed = push::push(target, settings, reporter).await?;
        reporter.stage(&Stage::connected(&pushed.hello));
        Ok(Self::begin(target, pushed, settings.silence_limit))
    }

    /// Takes up the session with an agent that has said who it is.
    fn begin(target: &Target, pushed: Pushed, limit: Duration) -> Self {
        let Pushed { channel, buffer, hello, sha256, timings, look } = pushed;
        let Channel { reader, writer, carrier, traffic, .. } = channel;
        let (to_writer, messages) = mpsc::channel(QUEUE);
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            over: CancellationToken::new(),
            life: Life::new(limit),
        });
        let (receipt_sender, receipt) = oneshot::channel();
        let writer = tokio::spawn(write(writer, messages, Arc::clone(&shared), limit));
        let reading = Reading { shared: Arc::clone(&shared), receipt: Some(receipt_sender) };
        let reader = tokio::spawn(reading.until_over(reader, buffer, limit, (carrier, look)));
        Self {
            target: target.clone(),
            hello,
            sha256,
            to_writer,
            shared,
            next_id: AtomicU32::new(1),
            writer,
            reader,
            receipt,
            timings,
            traffic,
        }
    }

    /// Who the agent said it is.
    pub const fn hello(&self) -> &Hello {
        &self.hello
    }

    /// The digest of the agent that runs.
    pub const fn sha256(&self) -> &Sha256 {
        &self.sha256
    }

    /// Why the session is over, if it is.
    pub fn lost(&self) -> Option<Lost> {
        match &*self.shared.lock() {
            Waiting::Calls(_) => None,
            Waiting::Over(lost) => Some(lost.clone()),
        }
    }

    /// Makes sure that the agent is there, where there is a doubt: an answer to a call would be waited
    /// for until the silence limit is over. Where there is none, the session is over.
    ///
    /// # Errors
    ///
    /// Why it is over.
    pub async fn make_sure(&self) -> Result<(), Lost> {
        let life = &self.shared.life;
        let Some(silence) = life.doubtful() else { return self.lost().map_or(Ok(()), Err) };
        let heard = life.heard();
        tokio::pin!(heard);
        // From here on, also before it is first waited for.
        heard.as_mut().enable();
        let patience = life.patience();
        let asking = async {
            // One that cannot be written is not answered.
            let _ = self.to_writer.send(ToAgent::Heartbeat { sequence: life.ask() }).await;
            heard.await;
        };
        tokio::select! {
            () = asking => {}
            () = self.shared.over.cancelled() => {}
            () = tokio::time::sleep(patience) => {
                let (silent_s, asked_s) = (silence.as_secs(), patience.as_secs());
                self.shared.end(Lost::Gone { silent_s, asked_s });
            }
        }
        self.lost().map_or(Ok(()), Err)
    }

    /// Asks the agent. Dropping the future cancels the call on the target.
    ///
    /// # Errors
    ///
    /// Why there is no answer.
    pub async fn call(
        &self,
        request: Request,
        budget: Budget,
        reporter: &dyn Reporter,
        mut accept: impl FnMut(Item) + Send,
    ) -> Result<Answer, CallError> {
        let id = RequestId(self.next_id.fetch_add(1, Ordering::Relaxed));
        let (sender, mut messages) = mpsc::channel(QUEUE);
        self.shared.enter(id, sender).map_err(CallError::Lost)?;
        let guard = CallGuard { session: self, id, is_answered: false };
        let call = ToAgent::Call(Call { id, budget, request });
        self.to_writer.send(call).await.map_err(|_| self.over())?;
        let patience = Duration::from_millis(budget.deadline_ms.into()) + GRACE;
        let until = Instant::now() + patience;
        loop {
            let received = tokio::time::timeout_at(until, messages.recv()).await;
            let Ok(message) = received else {
                self.give_up(id, &mut messages).await;
                return Err(CallError::Overdue { seconds: patience.as_secs() });
            };
            match message.ok_or_else(|| self.over())? {
                FromAgent::Progress(progress) => reporter.stage(&Stage::Measuring(progress)),
                FromAgent::Streamed(streamed) => accept(streamed.item),
                FromAgent::Answered(answered) => {
                    guard.answered();
                    return answered.result.map_err(CallError::Agent);
                }
                FromAgent::Hello(_)
                | FromAgent::Heartbeat { .. }
                | FromAgent::Receipt(_)
                | FromAgent::Swept(_) => {}
            }
        }
    }

    /// Withdraws a call that is overdue. An agent that does not even answer that hangs in it, and the
    /// session is over once no other call waits: each such call takes one of the agent's places.
    async fn give_up(&self, id: RequestId, messages: &mut mpsc::Receiver<FromAgent>) {
        let _ = self.to_writer.try_send(ToAgent::Cancel { id });
        let until = Instant::now() + GRACE;
        while let Ok(message) = tokio::time::timeout_at(until, messages.recv()).await {
            match message {
                None | Some(FromAgent::Answered(_)) => return,
                Some(_) => {}
            }
        }
        self.shared.leave(id);
        if !self.shared.is_idle() {
            return;
        }
        match self.shared.life.doubtful() {
            // Not even a heartbeat comes back: there is nobody to be stopped in order.
            Some(silence) => self.shared.end(Lost::Silent { seconds: silence.as_secs() }),
            None => self.shared.refuse(Lost::Stuck),
        }
    }

    fn over(&self) -> CallError {
        CallError::Lost(self.lost().unwrap_or(Lost::Closed))
    }

    /// Ends the session: stops the agent, waits for its receipt and for the channel to close.
    pub async fn stop(mut self, reporter: &dyn Reporter) -> Stopped {
        const PATIENCE: Duration = Duration::from_secs(8);
        let until = Instant::now() + PATIENCE;
        reporter.stage(&Stage::Stopping);
        let _ = tokio::time::timeout_at(until, self.to_writer.send(ToAgent::Stop)).await;
        let receipt = tokio::time::timeout_at(until, &mut self.receipt).await;
        let receipt = receipt.ok().and_then(Result::ok);
        // The writer ends with its queue, and closes the channel; the agent's process ends, and
        // with it the process that carried the channel.
        let (closed, _) = mpsc::channel(1);
        drop(std::mem::replace(&mut self.to_writer, closed));
        if tokio::time::timeout_at(until, self.shared.over.cancelled()).await.is_err() {
            self.shared.end(Lost::Closed);
        }
        // What is left to do has limits of its own.
        let (ended, looked) = (&mut self.reader).await.unwrap_or((None, Looked::Not(WhyNot::Lost)));
        Stopped {
            target: self.target.clone(),
            hello: self.hello.clone(),
            receipt,
            ended,
            looked,
            is_cut_short: false,
            cost: Some(Cost { timings: self.timings.clone(), traffic: Arc::clone(&self.traffic) }),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.writer.abort();
        self.reader.abort();
    }
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, id: RequestId, sender: mpsc::Sender<FromAgent>) -> Result<(), Lost> {
        match &mut *self.lock() {
            Waiting::Calls(calls) => {
                calls.insert(id, sender);
                Ok(())
            }
            Waiting::Over(lost) => Err(lost.clone()),
        }
    }

    fn leave(&self, id: RequestId) {
        if let Waiting::Calls(calls) = &mut *self.lock() {
            calls.remove(&id);
        }
    }

    /// Hands a message to its call. A call takes messages as fast as they can be read; while one
    /// does not, the agent waits too, because the channel fills up.
    async fn deliver(&self, id: RequestId, message: FromAgent) {
        let sender = match &*self.lock() {
            Waiting::Calls(calls) => calls.get(&id).cloned(),
            Waiting::Over(_) => None,
        };
        if let Some(sender) = sender {
            // A call that went away does not want it.
            let _ = sender.send(message).await;
        }
    }

    /// Ends every waiting call and takes no other. The channel stays, for the agent to be stopped
    /// and to say what is left.
    fn refuse(&self, lost: Lost) {
        let mut waiting = self.lock();
        if matches!(*waiting, Waiting::Calls(_)) {
            *waiting = Waiting::Over(lost);
        }
    }

    /// Ends every waiting call, and the channel.
    fn end(&self, lost: Lost) {
        self.refuse(lost);
        self.over.cancel();
    }

    /// Whether no call waits for an answer.
    fn is_idle(&self) -> bool {
        match &*self.lock() {
            Waiting::Calls(calls) => calls.is_empty(),
            Waiting::Over(_) => true,
        }
    }
}

/// Withdraws a call that is dropped before its answer came.
struct CallGuard<'s> {
    session: &'s Session,
    id: RequestId,
    is_answered: bool,
}

impl CallGuard<'_> {
    fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.session.shared.leave(self.id);
        if !self.is_answered {
            // With a full queue the agent's own deadline ends the call.
            let _ = self.session.to_writer.try_send(ToAgent::Cancel { id: self.id });
        }
    }
}

/// Writes messages, and a heartbeat when there are none for a while.
async fn write(
    mut writer: Box<dyn AsyncWrite + Send + Unpin>,
    mut messages: mpsc::Receiver<ToAgent>,
    shared: Arc<Shared>,
    silence_limit: Duration,
) {
    let pause = silence_limit / HEARTBEATS_PER_LIMIT;
    loop {
        let message = match tokio::time::timeout(pause, messages.recv()).await {
            Ok(Some(message)) => message,
            Ok(None) => break,
            Err(_) => ToAgent::Heartbeat { sequence: shared.life.ask() },
        };
        let Ok(bytes) = frame::encode(&message) else { continue };
        // A write that hangs is ended by the reader, which hears nothing either.
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            break;
        }
    }
    let _ = writer.shutdown().await;
}

/// Reads what the agent sends.
struct Reading {
    shared: Arc<Shared>,
    receipt: Option<oneshot::Sender<Receipt>>,
}

impl Reading {
    /// Reads until the session is over, and then ends the process that carried the channel.
    async fn until_over(
        mut self,
        reader: Box<dyn AsyncRead + Send + Unpin>,
        buffer: FrameBuffer,
        silence_limit: Duration,
        (carrier, look): (Option<Carrier>, Option<Look>),
    ) -> (Option<Ended>, Looked) {
        /// What a process gets to end by itself, once its channel is closed.
        const PATIENCE: Duration = Duration::from_secs(3);
        let over = self.shared.over.clone();
        let lost = tokio::select! {
            lost = self.run(reader, buffer, silence_limit) => lost,
            () = over.cancelled() => Lost::Closed,
        };
        let patience =
            if lost == Lost::Closed && !over.is_cancelled() { PATIENCE } else { Duration::ZERO };
        self.shared.end(lost);
        // Nobody is to wait for a receipt that cannot come any more.
        self.receipt = None;
        match (carrier, look) {
            (Some(carrier), Some(look)) if !patience.is_zero() => {
                let (ended, looked) = carrier.end_and_look(patience, &look).await;
                (Some(ended), looked)
            }
            (Some(carrier), _) => (Some(carrier.end(patience).await), Looked::Not(WhyNot::Lost)),
            (None, _) => (None, Looked::Not(WhyNot::Lost)),
        }
    }

    async fn run(
        &mut self,
        mut reader: Box<dyn AsyncRead + Send + Unpin>,
        mut buffer: FrameBuffer,
        silence_limit: Duration,
    ) -> Lost {
        let mut bytes = vec![0; 64 << 10];
        loop {
            loop {
                match buffer.take::<FromAgent>() {
                    Ok(Some(message)) => self.handle(message).await,
                    Ok(None) => break,
                    Err(error) => return Lost::Garbled(error.to_string()),
                }
            }
            match tokio::time::timeout(silence_limit, reader.read(&mut bytes)).await {
                Ok(Ok(0) | Err(_)) => return Lost::Closed,
                Ok(Ok(read)) => {
                    self.shared.life.hear();
                    buffer.push(bytes.get(..read).unwrap_or_default());
                }
                Err(_) => return Lost::Silent { seconds: silence_limit.as_secs() },
            }
        }
    }

    async fn handle(&mut self, message: FromAgent) {
        let id = match &message {
            FromAgent::Progress(progress) => progress.id,
            FromAgent::Streamed(streamed) => streamed.id,
            FromAgent::Answered(answered) => answered.id,
            FromAgent::Receipt(receipt) => {
                if let Some(sender) = self.receipt.take() {
                    let _ = sender.send(*receipt);
                }
                return;
            }
            FromAgent::Heartbeat { sequence } => {
                self.shared.life.answered(*sequence);
                return;
            }
            FromAgent::Hello(_) | FromAgent::Swept(_) => return,
        };
        self.shared.deliver(id, message).await;
    }
}
