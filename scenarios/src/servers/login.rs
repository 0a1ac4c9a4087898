//! The client's side of a login: keys, certificates, an agent that holds keys, a configuration.

use super::{Server, USER};
use anyhow::{Context as _, Result, ensure};
use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How sysmcp gets to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the user's own `ssh`.
    OpenSsh,
    /// By what is built into sysmcp.
    Russh,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::OpenSsh, Self::Russh];

    /// How a target begins that is reached so.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenSsh => "openssh",
            Self::Russh => "russh",
        }
    }

    /// A server as a target.
    pub fn target(self, server: &Server) -> String {
        format!("{}:{USER}@127.0.0.1:{}", self.name(), server.port)
    }

    /// A host of the client's configuration as a target.
    pub fn alias(self, host: &str) -> String {
        format!("{}:{host}", self.name())
    }
}

/// Makes a key of a type that `ssh-keygen` knows.
///
/// # Errors
///
/// When `ssh-keygen` does not make it.
pub fn make_key(path: &Path, kind: &[&str], passphrase: &str) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t"]).args(kind).args(["-N", passphrase, "-C", "scenario", "-f"]);
    done(command.arg(path))
}

/// Signs a public key with an authority's: `certifies` are the words that say for whom.
///
/// # Errors
///
/// When `ssh-keygen` does not sign it.
pub fn certify(authority: &Path, key: &Path, certifies: &[&str]) -> Result<()> {
    let mut command = Command::new("ssh-keygen");
    command.arg("-q").arg("-s").arg(authority).args(["-I", "scenario", "-V", "-1m:+1h"]);
    let mut public = key.as_os_str().to_owned();
    public.push(".pub");
    done(command.args(certifies).arg(public))
}

/// Runs a command that says nothing when it does what it should.
fn done(command: &mut Command) -> Result<()> {
    let output = command.stdin(Stdio::null()).output().context("install openssh-client")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {said}");
    Ok(())
}

/// An ssh-agent of our own.
#[derive(Debug)]
pub struct Agent {
    process: Child,
    socket: PathBuf,
}

impl Agent {
    /// Starts one whose owner confirms nothing.
    ///
    /// # Errors
    ///
    /// When there is no `ssh-agent` on this machine, or it does not come up.
    pub fn start(folder: &Path) -> Result<Self> {
        let socket = folder.join("agent");
        let process = Command::new("ssh-agent")
            .args(["-D", "-a"])
            .arg(&socket)
            .env("SSH_ASKPASS", "false")
            .env("SSH_ASKPASS_REQUIRE", "force")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("could not run ssh-agent; install openssh-client")?;
        let agent = Self { process, socket };
        let started = Instant::now();
        // The socket is there before anybody listens.
        while UnixStream::connect(&agent.socket).is_err() {
            ensure!(started.elapsed() < Duration::from_secs(10), "ssh-agent did not come up");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(agent)
    }

    /// Where it listens.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Gives it a key, with what limits its use.
    ///
    /// # Errors
    ///
    /// When it does not take it.
    pub fn add(&self, key: &Path, limits: &[&str]) -> Result<()> {
        let mut command = Command::new("ssh-add");
        command.arg("-q").args(limits).arg(key);
        done(command.env("SSH_AUTH_SOCK", &self.socket))
    }
}

/// The lines by which keys come from an ssh-agent alone: one that is named by its socket, or by
/// `SSH_AUTH_SOCK`, which stands for the variable.
pub fn from_agent(socket: impl std::fmt::Display) -> [String; 3] {
    let agent = format!("IdentityAgent {socket}");
    ["IdentitiesOnly no".to_owned(), "IdentityFile none".to_owned(), agent]
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Where the client's configuration is to send the lines about a host: to a server, under a name.
pub fn host_lines(host: &str, server: &Server, lines: &[String]) -> String {
    // The first line of a keyword counts, so what differs comes first.
    let mut config = format!("Host {host}\n");
    for line in lines {
        config.push_str(&format!("  {line}\n"));
    }
    config.push_str(&format!(
        "  HostName 127.0.0.1\n  Port {}\n  User {USER}\n  IdentitiesOnly yes\n  \
         IdentityAgent none\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
        server.port,
        server.file("known_hosts").display()
    ));
    config
}

/// Writes a configuration for a server by its address, with further lines.
///
/// # Errors
///
/// When it cannot be written.
pub fn write_config(server: &Server, name: &str, lines: &[String]) -> Result<PathBuf> {
    let path = server.file(name);
    fs::write(&path, host_lines("127.0.0.1", server, lines))?;
    Ok(path)
}

/// The line that names a key of the client's.
pub fn identity(server: &Server, key: &str) -> String {
    format!("IdentityFile {}", server.file(key).display())
}
