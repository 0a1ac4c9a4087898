//! Many private sshd on loopback, each at an address of its own: 127.0.1.1, 127.0.1.2 and so on, on
//! one port and with one key between them, so that a hundred are up within seconds.

use crate::sshd::{self, make_key, program, server_config, user_name};
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Servers that run, and what a client needs to log in; gone when dropped.
#[derive(Debug)]
pub struct Fleet {
    folder: tempfile::TempDir,
    servers: Vec<Child>,
    port: u16,
}

impl Fleet {
    /// Starts as many servers as are asked for.
    ///
    /// # Errors
    ///
    /// When there is no sshd on this machine, or one does not come up.
    pub fn start(count: u8) -> Result<Self> {
        let program = program()?;
        let folder = sshd::folder()?;
        let at = |name: &str| folder.path().join(name);
        make_key(&at("host"), "")?;
        make_key(&at("id"), "")?;
        fs::copy(at("id.pub"), at("authorized_keys"))?;
        // Free at every address.
        let port = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0))?.local_addr()?.port();
        fs::write(at("sshd_config"), server_config(folder.path(), port, &[]))?;
        let mut fleet = Self { folder, servers: Vec::new(), port };
        for index in 0..count {
            let listen = format!("ListenAddress={}", address(index));
            let mut server = Command::new(program);
            server.args(["-D", "-e", "-o", &listen, "-f"]).arg(fleet.file("sshd_config"));
            server.stdin(Stdio::null()).stdout(Stdio::null());
            server.stderr(fs::File::create(fleet.log(index))?);
            fleet.servers.push(server.spawn().context("could not start sshd")?);
        }
        for index in 0..count {
            fleet.wait_until_up(index)?;
        }
        fleet.write_client_config()?;
        Ok(fleet)
    }

    fn wait_until_up(&self, index: u8) -> Result<()> {
        let started = Instant::now();
        loop {
            let said = fs::read_to_string(self.log(index)).unwrap_or_default();
            if said.contains("Server listening on") {
                return Ok(());
            }
            if started.elapsed() > Duration::from_secs(30) {
                bail!("the sshd at {} did not come up: {said}", address(index));
            }
            sleep(Duration::from_millis(20));
        }
    }

    fn write_client_config(&self) -> Result<()> {
        let host_key = fs::read_to_string(self.file("host.pub"))?;
        let known: String = (0..self.len())
            .map(|index| format!("[{}]:{} {host_key}", address(index), self.port))
            .collect();
        fs::write(self.file("known_hosts"), known)?;
        let config = format!(
            "Host 127.0.1.*\n  IdentityFile {}\n  IdentitiesOnly yes\n  IdentityAgent none\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
            self.file("id").display(),
            self.file("known_hosts").display()
        );
        fs::write(self.client_config(), config)?;
        Ok(())
    }

    /// How many there are.
    fn len(&self) -> u8 {
        u8::try_from(self.servers.len()).unwrap_or(u8::MAX)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn log(&self, index: u8) -> PathBuf {
        self.file(&format!("log.{index}"))
    }

    /// The client's configuration, for all of them.
    #[must_use]
    pub fn client_config(&self) -> PathBuf {
        self.file("ssh_config")
    }

    /// The targets, with the way of getting there that is named: `ssh`, `russh` or `openssh`.
    #[must_use]
    pub fn targets(&self, way: &str) -> Vec<String> {
        let user = user_name();
        let target = |index| format!("{way}:{user}@{}:{}", address(index), self.port);
        (0..self.len()).map(target).collect()
    }

    /// The sessions that there are now: pids of the servers' children.
    ///
    /// # Errors
    ///
    /// When a server has ended.
    pub fn sessions(&self) -> Result<Vec<u32>> {
        let mut sessions = Vec::new();
        for server in &self.servers {
            let pid = server.id();
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
                .with_context(|| format!("the sshd with pid {pid} has ended"))?;
            sessions.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        Ok(sessions)
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.kill();
        }
        for server in &mut self.servers {
            let _ = server.wait();
        }
    }
}

/// The address of a server.
fn address(index: u8) -> Ipv4Addr {
    Ipv4Addr::new(127, 0, 1, index.saturating_add(1))
}
