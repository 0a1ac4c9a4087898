//! What an SSH configuration finds on this machine: who runs this program, what a whole path is, and
//! what OpenSSH has of its own there.

#[cfg(unix)]
#[path = "here/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "here/windows.rs"]
mod system;

pub use system::{
    SHOWS_WHO_MAY_WRITE, STARTS_PROXY_COMMANDS, USUAL_AGENT, account, configuration_folder,
    machine, no_account, whole,
};
