//! Processes on Windows, which has no signals.

use std::ffi::OsStr;
use tokio::process::{Child, Command};

/// `CREATE_NEW_PROCESS_GROUP`: Ctrl-C is off in a group that was made so (Microsoft's "Process Creation
/// Flags").
const NEW_GROUP: u32 = 0x200;

/// A program that Ctrl-C does not end. Its arguments come behind.
pub fn shielded(program: &OsStr) -> Command {
    let mut command = Command::new(program);
    set_apart(&mut command);
    command
}

/// Puts a command into a process group of its own, which Ctrl-C at a console does not reach.
pub fn set_apart(command: &mut Command) {
    command.creation_flags(NEW_GROUP);
}

/// Nothing asks a process to end: its stdin is closed, and what carries a channel ends with that.
pub const fn ask_to_end(_child: &Child) {}
