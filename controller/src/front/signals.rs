//! What the user, or the system, says about coming to an end.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask this process to end, from when this was made.
pub struct Signals(Option<Asked>);

struct Asked {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    /// Listens from now on.
    pub fn new() -> Self {
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        Self(match kinds.map(signal) {
            [Ok(interrupt), Ok(terminate), Ok(hangup)] => {
                Some(Asked { interrupt, terminate, hangup })
            }
            // Without handlers the signals end the process, and the agent with its channel.
            _ => None,
        })
    }

    /// Returns when this process is asked to end, in whatever way.
    pub async fn any(&mut self) {
        let Some(asked) = &mut self.0 else { return std::future::pending().await };
        tokio::select! {
            _ = asked.interrupt.recv() => {}
            _ = asked.terminate.recv() => {}
            _ = asked.hangup.recv() => {}
        }
    }

    /// Returns at the next Ctrl-C. The other signals come twice, or after one another, without
    /// anybody having lost patience: a terminal that is closed sends them so.
    pub async fn interrupt(&mut self) {
        let Some(asked) = &mut self.0 else { return std::future::pending().await };
        let _ = asked.interrupt.recv().await;
    }
}
