//! The machine the controller runs on: the same script in a local shell, so that one way in serves
//! every target.

use super::{Channel, process};
use tokio::process::Command;

/// Starts the script in a shell of its own process group: Ctrl-C at the terminal is for the
/// controller, which then stops the agent in order.
///
/// # Errors
///
/// When there is no `/bin/sh`.
pub fn open(script: &str) -> std::io::Result<Channel> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script).process_group(0);
    process::start(command)
}
