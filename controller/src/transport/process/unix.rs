//! Processes on Unix: signals, and the groups that a terminal sends them to.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use tokio::process::{Child, Command};

/// Makes a program ignore Ctrl-C and nothing else: at a terminal it would reach the program too, and
/// end the channel before the agent could be stopped in order. `ssh` leaves an ignored signal ignored
/// (`client_loop` in OpenSSH's clientloop.c), except while it asks for a passphrase.
const SHIELD: &str = "trap '' INT; exec \"$@\"";

/// A program that Ctrl-C does not end, and that can ask at the terminal. Its arguments come behind.
pub fn shielded(program: &OsStr) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", SHIELD, "sysmcp"]).arg(program);
    command
}

/// Puts a command into a process group of its own, which Ctrl-C at a terminal does not reach.
pub fn set_apart(command: &mut Command) {
    command.process_group(0);
}

/// Asks a process that was not waited for yet to end.
pub fn ask_to_end(child: &Child) {
    let pid = child.id().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    if let Some(pid) = pid {
        // The child was not waited for yet, so the pid is still its own.
        let _ = kill_process(pid, Signal::TERM);
    }
}
