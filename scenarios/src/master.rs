//! A connection that a user keeps open, over which others are made (`ControlMaster` of ssh_config(5)).

use crate::sshd::{Sshd, user_name};
use anyhow::{Context as _, Result, ensure};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The connection, which ends when this is dropped.
#[derive(Debug)]
pub struct Master {
    /// The client's configuration, which says where the socket is.
    pub config: PathBuf,
    destination: Vec<String>,
}

impl Master {
    /// Logs in with a key and goes on in the background.
    ///
    /// # Errors
    ///
    /// When the login fails.
    pub fn start(sshd: &Sshd, config: &Path) -> Result<Self> {
        let master = Self::by_hand(config, sshd.port, &user_name());
        let status = master.ssh(&["-M", "-N", "-f"]).status();
        let status = status.context("could not run ssh; install openssh-client")?;
        ensure!(status.success(), "no connection to share ({status}): {}", sshd.log());
        Ok(master)
    }

    /// One that a person starts by logging in.
    pub fn by_hand(config: &Path, port: u16, user: &str) -> Self {
        let destination = ["-p".to_owned(), port.to_string(), format!("{user}@127.0.0.1")].into();
        Self { config: config.to_owned(), destination }
    }

    fn ssh(&self, words: &[&str]) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(&self.config).args(words).args(&self.destination);
        // What goes on in the background must not hold anything of ours.
        ssh.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        ssh
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        let _ = self.ssh(&["-O", "exit"]).status();
    }
}
