//! The machine the controller runs on: the same script in a local shell, so that one way in serves
//! every target.

use super::{Channel, NotOpened, process};
use std::path::Path;
use tokio::process::Command;

/// Where the script finds the folder of a snapshot. A path may hold anything, so it is no part of
/// the script.
pub const SNAPSHOT_VARIABLE: &str = "SYSMCP_SNAPSHOT_FOLDER";

/// Starts the script in a shell of its own process group: Ctrl-C at the terminal is for the
/// controller, which then stops the agent in order. For a snapshot, the agent there answers from a
/// folder instead of the machine.
///
/// # Errors
///
/// When this machine does not run Linux, or has no `/bin/sh`.
pub fn open(script: &str, snapshot: Option<&Path>) -> Result<Channel, NotOpened> {
    if !cfg!(target_os = "linux") {
        return Err(NotOpened::NotLinux);
    }
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(script);
    process::set_apart(&mut command);
    if let Some(folder) = snapshot {
        command.env(SNAPSHOT_VARIABLE, std::path::absolute(folder)?);
    }
    // It becomes the supervisor, which has its descendants to end.
    Ok(process::start_tidy(command)?)
}
