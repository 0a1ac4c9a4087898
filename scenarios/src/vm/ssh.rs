//! A way into a guest over SSH: another server than OpenSSH's, on another kernel than this one.

use super::Guest;
use crate::sysmcp::Sysmcp;
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    io::Read as _,
    net::TcpStream,
    time::{Duration, Instant},
};

/// Where a server's and a client's keys are, in folders of their own.
const SERVER_KEY: &str = "/run/host-key";

/// The server's login banner takes seconds where everything is imitated.
const PATIENCE: Duration = Duration::from_secs(60);

/// A guest that can be logged in to, as root and as nobody.
#[derive(Debug)]
pub struct Login {
    folder: tempfile::TempDir,
    port: u16,
}

impl Guest {
    /// Starts an SSH server in a guest that was booted with a network card, and waits until it
    /// takes logins.
    ///
    /// # Errors
    ///
    /// When there is no card, or the server does not come up.
    pub fn serve_ssh(&mut self) -> Result<Login> {
        let port = self.port.context("the guest was booted without a network card")?;
        let folder = tempfile::tempdir()?;
        crate::sshd::make_key(&folder.path().join("id"), "")?;
        let key = fs::read_to_string(folder.path().join("id.pub"))?;
        // Newer kernels have the first one built in. The address is where QEMU leads connections.
        self.sh("depmod; modprobe virtio_pci; modprobe virtio_net; \
                 ip link set eth0 up && ip addr add 10.0.2.15/24 dev eth0")?;
        for (user, home) in [("root", "/root"), ("nobody", "/home/nobody")] {
            self.sh(&format!(
                "mkdir -p {home}/.ssh && echo '{}' > {home}/.ssh/authorized_keys && \
                 chown -R {user} {home} && chmod -R go= {home}",
                key.trim()
            ))?;
        }
        let made = self.sh(&format!("dropbearkey -t ed25519 -f {SERVER_KEY}"))?;
        let server_key = made.lines().find(|line| line.starts_with("ssh-ed25519 "));
        let server_key = server_key.with_context(|| format!("no public key: {made}"))?;
        self.start(0, &["dropbear", "-F", "-s", "-r", SERVER_KEY])?;
        fs::write(folder.path().join("known_hosts"), format!("[127.0.0.1]:{port} {server_key}\n"))?;
        fs::write(folder.path().join("ssh_config"), client_config(&folder))?;
        wait_for_server(port)?;
        Ok(Login { folder, port })
    }
}

impl Login {
    /// sysmcp with this guest as its target, as a user of the guest.
    ///
    /// # Errors
    ///
    /// When no folder can be made for its audit log.
    pub fn sysmcp(&self, user: &str) -> Result<Sysmcp> {
        let target = format!("ssh:{user}@127.0.0.1:{}", self.port);
        let config = self.folder.path().join("ssh_config");
        Ok(Sysmcp::local()?.at(&target).with_ssh_config(config))
    }
}

fn client_config(folder: &tempfile::TempDir) -> String {
    let at = |name: &str| folder.path().join(name).display().to_string();
    format!(
        "Host 127.0.0.1\n  IdentityFile {}\n  IdentitiesOnly yes\n  IdentityAgent none\n  \
         UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
        at("id"),
        at("known_hosts")
    )
}

/// QEMU takes connections before there is a server behind it, and closes them.
fn wait_for_server(port: u16) -> Result<()> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(5)))?;
        let mut greeting = [0; 4];
        if stream.read_exact(&mut greeting).is_ok() && &greeting == b"SSH-" {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    bail!("the guest's SSH server did not greet within {PATIENCE:?}")
}
