//! What the user, or the system, says about coming to an end.

#[cfg(unix)]
#[path = "signals/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "signals/windows.rs"]
mod system;

use system::Asked;

/// What asks this process to end, from when this was made.
pub struct Signals(Option<Asked>);

impl Signals {
    /// Listens from now on.
    pub fn new() -> Self {
        // Without handlers the signals end the process, and the agent with its channel.
        Self(Asked::listen().ok())
    }

    /// Returns when this process is asked to end, in whatever way.
    pub async fn any(&mut self) {
        match &mut self.0 {
            Some(asked) => asked.any().await,
            None => std::future::pending().await,
        }
    }

    /// Returns at the next Ctrl-C. The other signals come twice, or after one another, without
    /// anybody having lost patience: a terminal that is closed sends them so.
    pub async fn interrupt(&mut self) {
        match &mut self.0 {
            Some(asked) => asked.interrupt().await,
            None => std::future::pending().await,
        }
    }
}
