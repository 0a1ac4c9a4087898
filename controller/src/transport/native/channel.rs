//! A command on a host: its stdin and stdout as a channel, and the connection under it.

use super::{
    Place, Problem,
    dial::Connected,
    handler::{Checker, Told},
    stream::Severable,
};
use crate::{
    push::look::{self, Look, Looked, WhyNot},
    transport::{Carrier, Channel, Ended, Failure, carrier::Said},
};
use protocol::host_text::HostText;
use russh::{ChannelMsg, ChannelReadHalf, Disconnect, client::Handle};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};
use tokio::{
    io::{AsyncWriteExt as _, DuplexStream},
    task::JoinHandle,
    time::timeout,
};
use tokio_util::sync::CancellationToken;

/// A connection with one command at its end. Dropping it cuts everything off.
pub struct Connection {
    /// None once it is over.
    connected: Option<Connected>,
    /// The host, for errors.
    host: String,
    outcome: Arc<Mutex<Outcome>>,
    pump: JoinHandle<()>,
}

/// What is known of the command's end.
#[derive(Default)]
struct Outcome {
    code: Option<i32>,
    stderr: Arc<Said>,
    /// Whether the host closed the channel, as it does behind a command that has ended.
    is_closed: bool,
}

/// What is kept of the command's output until somebody reads it. Beyond that the command waits.
const OUTPUT_BYTES: usize = 256 << 10;

/// Starts a command.
pub(super) async fn start(
    place: Place<'_>,
    connected: Connected,
    script: &str,
    patience: Duration,
) -> Result<Channel, Problem> {
    let opening = async {
        let channel = connected.handle.channel_open_session().await?;
        // The login shell may be any: it is only asked to become /bin/sh. Its answer comes with
        // what the command writes.
        channel.exec(true, crate::push::script::for_login_shell(script)).await?;
        Ok::<_, russh::Error>(channel)
    };
    let channel = match timeout(patience, opening).await {
        Ok(Ok(channel)) => channel,
        Ok(Err(error)) => {
            let said = format!("{error}{}", connected.told.and_why());
            if matches!(error, russh::Error::ChannelOpenFailure(_)) {
                return Err(place.no_session(&said).into());
            }
            let said = format!("it lets the user in and opens no channel: {said}");
            return Err(place.unreachable(&said).into());
        }
        Err(_) => return Err(place.timed_out("opening a channel", patience).into()),
    };
    let (from_command, sender) = channel.split();
    let (output, reader) = tokio::io::duplex(OUTPUT_BYTES);
    let over = CancellationToken::new();
    // A write waits for the host to make room, and the library forgets those that wait when the
    // connection ends: so each looks out for that too.
    let writer = Severable::new(Box::pin(sender.make_writer()), over.clone());
    let outcome = Arc::new(Mutex::new(Outcome::default()));
    // The sending half says that the channel is closed when it is dropped.
    let kept = (sender, over.drop_guard());
    let pump = tokio::spawn(pump(from_command, output, Arc::clone(&outcome), kept));
    let outgoing = connected.outgoing.clone();
    let connection = Connection { connected: Some(connected), host: place.host(), outcome, pump };
    let channel = Channel::new(reader, writer, Some(Carrier::Connection(Box::new(connection))));
    Ok(Channel { outgoing, ..channel })
}

/// Carries what the command writes, until the channel is over. Nothing else reads the channel, and
/// one that is not read stops the whole connection: it is read also when nobody wants it any more.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "it is the library's, has no end, and most of it is for servers"
)]
async fn pump<K>(
    mut from_command: ChannelReadHalf,
    output: DuplexStream,
    outcome: Arc<Mutex<Outcome>>,
    kept: K,
) {
    let mut output = Some(output);
    while let Some(message) = from_command.wait().await {
        match message {
            ChannelMsg::Data { data } => {
                if let Some(open) = &mut output
                    && open.write_all(&data).await.is_err()
                {
                    output = None;
                }
            }
            ChannelMsg::ExtendedData { data, .. } => lock(&outcome).stderr.push(&data),
            ChannelMsg::ExitStatus { exit_status } => {
                lock(&outcome).code = i32::try_from(exit_status).ok();
            }
            ChannelMsg::Failure => {
                let mut outcome = lock(&outcome);
                outcome.stderr.push(b"the host does not run commands");
                outcome.is_closed = true;
                break;
            }
            ChannelMsg::Eof => output = None,
            ChannelMsg::Close => {
                lock(&outcome).is_closed = true;
                break;
            }
            _ => {}
        }
    }
    drop(kept);
}

fn lock(outcome: &Mutex<Outcome>) -> std::sync::MutexGuard<'_, Outcome> {
    outcome.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Connection {
    /// What the command writes to stderr.
    pub(in crate::transport) fn said(&self) -> Arc<Said> {
        Arc::clone(&lock(&self.outcome).stderr)
    }

    /// Waits for the command to end by itself, and says goodbye; cuts everything off when it takes
    /// longer than `patience`.
    pub(in crate::transport) async fn end(self, patience: Duration) -> Ended {
        self.finish(patience, None).await.0
    }

    /// The same, and looks at the host once more before it says goodbye.
    pub(in crate::transport) async fn end_and_look(
        self,
        patience: Duration,
        look: &Look,
    ) -> (Ended, Looked) {
        self.finish(patience, Some(look)).await
    }

    async fn finish(mut self, patience: Duration, look: Option<&Look>) -> (Ended, Looked) {
        const GOODBYE: Duration = Duration::from_millis(500);
        /// As much of a reason as an error shows.
        const SHOWN_BYTES: usize = 300;
        let is_over = timeout(patience, &mut self.pump).await.is_ok();
        let looked = match (look, &self.connected) {
            (Some(look), Some(connected)) if is_over && lock(&self.outcome).is_closed => {
                timeout(look::PATIENCE, look_again(&connected.handle, look))
                    .await
                    .unwrap_or(Looked::Not(WhyNot::Late))
            }
            _ => Looked::Not(WhyNot::Lost),
        };
        let under = self.connected.as_ref().map(|connected| Arc::clone(&connected.traffic));
        let told = self.connected.as_ref().map(|connected| connected.told.clone());
        if let Some(connected) = self.connected.take() {
            if is_over {
                let _ = timeout(GOODBYE, goodbye(connected.handle)).await;
                for jump in connected.jumps.into_iter().rev() {
                    let _ = timeout(GOODBYE, goodbye(jump)).await;
                }
            }
            connected.sever.cancel();
            if let Some(command) = connected.command {
                // Its connection is gone, so it ends by itself; or it is made to.
                Box::pin(command.end(GOODBYE)).await;
            }
        }
        let Outcome { code, stderr, is_closed } = &*lock(&self.outcome);
        let lost = (is_over && !is_closed).then(|| {
            let why = told.as_ref().map(Told::and_why).unwrap_or_default();
            let said = format!("the connection was lost{why}");
            let said = HostText::capped(said.as_bytes(), SHOWN_BYTES);
            Failure::Unreachable { host: self.host.clone(), said }
        });
        let code = code.filter(|_| is_over);
        (Ended { code, stderr: stderr.bytes(), under, lost }, looked)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.pump.abort();
        if let Some(connected) = &self.connected {
            connected.sever.cancel();
        }
    }
}

/// Looks at the host over a further channel. The first is closed by then, so a host that grants one
/// at a time grants this one.
async fn look_again(handle: &Handle<Checker>, look: &Look) -> Looked {
    /// How often one is asked for: a host that has not yet done with the first refuses.
    const TRIES: u32 = 6;
    let mut pause = Duration::from_millis(10);
    let mut opened = handle.channel_open_session().await;
    for _ in 1..TRIES {
        if !matches!(opened, Err(russh::Error::ChannelOpenFailure(_))) {
            break;
        }
        tokio::time::sleep(pause).await;
        pause *= 3;
        opened = handle.channel_open_session().await;
    }
    let script = crate::push::script::for_login_shell(&look.script());
    let begun = match opened {
        Ok(channel) => channel.exec(true, script).await.map(|()| channel),
        Err(error) => Err(error),
    };
    match begun {
        Ok(channel) => look.read(&mut channel.into_stream()).await,
        Err(error) => look::no_answer(&error.to_string()),
    }
}

/// Tells a host that the connection is over, and waits until it is.
async fn goodbye(handle: Handle<Checker>) {
    let _ = handle.disconnect(Disconnect::ByApplication, "", "").await;
    let _ = handle.await;
}
