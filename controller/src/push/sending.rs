//! The agent on its way, and how far it is: what has arrived at the next machine as far as that can be
//! known, because what is only handed on may wait in buffers of this machine for a minute.

use super::PushError;
use crate::{
    reporter::{Reporter, Sending, Stage},
    transport::{Channel, Outgoing, Traffic},
};
use std::{sync::Arc, time::Duration};
use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    time::Instant,
};

/// Between two looks at how far it is.
const PAUSE: Duration = Duration::from_millis(500);

/// Sends everything that the start-up script and the agent read.
pub(super) async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    header: &str,
    payload: &[u8],
    tail: &[u8],
) -> std::io::Result<()> {
    for part in [header.as_bytes(), payload, tail] {
        writer.write_all(part).await?;
    }
    writer.flush().await
}

/// After a loss TCP tries again after a second, two, four: nothing is called lost before.
const LEAST_LIMIT: Duration = Duration::from_secs(10);

/// The patience for a transfer: a slow link, 20 kB/s, on top of what starting takes.
pub(super) fn transfer_patience(bytes: usize) -> Duration {
    Duration::from_secs(20) + Duration::from_millis(u64::try_from(bytes / 20).unwrap_or(u64::MAX))
}

/// How far it is.
pub(super) struct Account {
    outgoing: Outgoing,
    traffic: Arc<Traffic>,
    /// What had been written before, below and above.
    before: (u64, u64),
    total: usize,
    began: Instant,
}

impl Account {
    /// For so many bytes, of which none was written yet.
    pub(super) fn begin(channel: &Channel, total: usize) -> Self {
        let (outgoing, traffic) = (channel.outgoing.clone(), Arc::clone(&channel.traffic));
        let before = (outgoing.written().unwrap_or_default(), traffic.sent());
        Self { outgoing, traffic, before, total, began: Instant::now() }
    }

    fn look(&self) -> Sending {
        let (below, above) = self.before;
        let arrived = self.outgoing.arrived().map(|arrived| arrived.saturating_sub(below));
        let handed_on = self.traffic.sent().saturating_sub(above);
        // What SSH adds is below a hundredth. What was not handed on has not arrived either.
        let sent = arrived.unwrap_or(handed_on).min(handed_on);
        Sending {
            sent: usize::try_from(sent).unwrap_or(usize::MAX).min(self.total),
            total: self.total,
            took: self.began.elapsed(),
            has_arrived: arrived.is_some(),
        }
    }

    /// Tells how far it is, again and again, until it does not get any further: where what has
    /// arrived is known, and nothing more did within a limit.
    pub(super) async fn tell(&self, reporter: &dyn Reporter, limit: Duration) -> PushError {
        let limit = limit.max(LEAST_LIMIT);
        let (mut furthest, mut moved) = (0, Instant::now());
        reporter.stage(&Stage::Sending(Sending::begins(self.total)));
        loop {
            tokio::time::sleep(PAUSE).await;
            let mut sending = self.look();
            if sending.sent > furthest {
                (furthest, moved) = (sending.sent, Instant::now());
            }
            // A queue is looked at after what went into it: it may seem to grow.
            sending.sent = furthest;
            reporter.stage(&Stage::Sending(sending));
            let is_on_its_way = sending.has_arrived && furthest < self.total;
            if is_on_its_way && moved.elapsed() >= limit {
                return PushError::Stalled { sent: furthest, seconds: limit.as_secs() };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tokio::io::{AsyncReadExt as _, duplex};

    /// Notes what it is told.
    #[derive(Default)]
    struct Noted(Mutex<Vec<String>>);

    impl Reporter for Noted {
        fn stage(&self, stage: &Stage) {
            self.0.lock().unwrap().push(stage.to_string());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn where_only_a_pipe_is_known_nothing_is_said_to_have_arrived() {
        let (ours, mut theirs) = duplex(50_000);
        let mut channel = Channel::new(tokio::io::empty(), ours, None);
        let account = Account::begin(&channel, 100_000);
        let noted = Noted::default();
        let payload = vec![7; 100_000];
        let reading = async {
            tokio::time::sleep(PAUSE * 3 / 2).await;
            let mut read = vec![0; 100_000];
            theirs.read_exact(&mut read).await.unwrap();
            tokio::time::sleep(PAUSE).await;
        };
        tokio::select! {
            stalled = account.tell(&noted, LEAST_LIMIT) => panic!("{stalled}"),
            _ = async { tokio::join!(send(&mut channel.writer, "", &payload, b""), reading) } => {}
        }
        assert_eq!(
            *noted.0.lock().unwrap(),
            [
                "sending the agent: 100 kB",
                "sending the agent: 50 of 100 kB handed on",
                "sending the agent: 100 of 100 kB handed on"
            ]
        );
    }
}
