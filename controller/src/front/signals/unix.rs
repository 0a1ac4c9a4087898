//! The signals that end a process on Unix.

use std::io;
use tokio::signal::unix::{Signal, SignalKind, signal};

pub struct Asked {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Asked {
    /// Listens from now on.
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Returns at the next of them.
    pub async fn any(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = self.hangup.recv() => {}
        }
    }

    /// Returns at the next Ctrl-C.
    pub async fn interrupt(&mut self) {
        let _ = self.interrupt.recv().await;
    }
}
