//! What carries a channel: a process of ours, or a connection of ours.

use super::{Failure, Traffic, native::Connection, process::Process};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// What carries a channel. Dropping it ends it, in the background.
pub enum Carrier {
    /// A local shell, or `ssh`.
    Process(Box<Process>),
    /// A connection that sysmcp made itself.
    Connection(Box<Connection>),
}

/// How a command ended, as far as what carried its channel can tell.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit code; none when it had none, or when it had to be cut off.
    pub code: Option<i32>,
    /// The last it wrote to stderr.
    pub stderr: Vec<u8>,
    /// What went through below SSH, where it was ours.
    pub under: Option<Arc<Traffic>>,
    /// Why a connection of ours ended under the command, where it did.
    pub lost: Option<Failure>,
}

impl Carrier {
    /// Waits for the command to end by itself; cuts it off when it takes longer than `patience`.
    pub async fn end(self, patience: Duration) -> Ended {
        match self {
            Self::Process(process) => process.end(patience).await,
            Self::Connection(connection) => connection.end(patience).await,
        }
    }

    /// What the command writes to stderr.
    pub(super) fn said(&self) -> Arc<Said> {
        match self {
            Self::Process(process) => process.said(),
            Self::Connection(connection) => connection.said(),
        }
    }

    /// Whether the exit code 255 may be that of `ssh`, which says nothing about the command.
    pub const fn is_ssh(&self) -> bool {
        matches!(self, Self::Process(_))
    }
}

/// The end of what somebody writes to stderr: for an error, and for whoever waits for a prompt there.
#[derive(Debug, Default)]
pub(crate) struct Said {
    tail: Mutex<Vec<u8>>,
    more: Notify,
}

impl Said {
    /// Bytes that are kept, the last ones: that is where the reason stands.
    const BYTES: usize = 8192;

    pub(super) fn push(&self, bytes: &[u8]) {
        let mut tail = self.lock();
        tail.extend_from_slice(bytes);
        let surplus = tail.len().saturating_sub(Self::BYTES);
        tail.drain(..surplus);
        self.more.notify_one();
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.lock().clone()
    }

    /// Waits until more was written since this was last waited for. One may wait at a time.
    pub(super) async fn more(&self) {
        self.more.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.tail.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
