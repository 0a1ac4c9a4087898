//! A private sshd on loopback: keys of its own, no port that anybody else knows, gone when dropped.

use crate::second_way;
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    io::Read as _,
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// A running sshd, and what a client needs to log in.
#[derive(Debug)]
pub struct Sshd {
    folder: tempfile::TempDir,
    server: Child,
    /// The words that start it.
    words: Vec<String>,
    address: Ipv4Addr,
    /// The port on which it listens, at 127.0.0.1 unless its settings say otherwise.
    pub port: u16,
}

/// How a server differs from the usual one.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Further lines for `sshd_config`.
    pub server: Vec<String>,
    /// A passphrase for the client's key.
    pub passphrase: Option<String>,
    /// What is wrong with the places where a session could put its file.
    pub places: Places,
    /// A network other than this process's own.
    pub network: Option<Network>,
}

/// A network that the server is in, and this process is not.
#[derive(Clone, Debug)]
pub struct Network {
    /// Where it listens there.
    pub address: Ipv4Addr,
    /// The words that run a command in there, when put before it.
    pub enter: Vec<String>,
}

/// What is wrong with the places where a session could put its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Places {
    /// Nothing.
    #[default]
    Good,
    /// Each is a file system of its own, and full. Needs root.
    Full,
    /// Each is a file system of its own, mounted `noexec`. Needs root.
    NoExec,
}

impl Places {
    /// Commands that bring it about in a mount namespace of the server's own, ending with `;`. They
    /// find the server's folder in `$FOLDER`.
    fn commands(self) -> String {
        let (options, fill) = match self {
            Self::Good => return String::new(),
            Self::Full => (
                "size=64k",
                "for place in $places; do head -c 65536 /dev/zero > $place/filler 2>/dev/null; done; ",
            ),
            Self::NoExec => ("noexec", ""),
        };
        // The home that a login gets, which need not be that of whoever runs the tests. The server's
        // folder may be below one of the places: it is put back where it was.
        format!(
            "home=$(getent passwd \"$(id -u)\" | cut -d: -f6); \
             places=\"/dev/shm /tmp /var/tmp /run $home\"; \
             mount --bind \"$FOLDER\" /mnt || exit 1; \
             for place in $places; do mkdir -p $place; \
             mount -t tmpfs -o {options} tmpfs $place || exit 1; done; \
             mkdir -p /run/sshd \"$FOLDER\"; mount --bind /mnt \"$FOLDER\" || exit 1; {fill}"
        )
    }
}

/// Where Debian, and most others, keep it: not in an ordinary user's PATH.
const SSHD: [&str; 2] = ["/usr/sbin/sshd", "/usr/local/sbin/sshd"];

impl Sshd {
    /// Starts one.
    ///
    /// # Errors
    ///
    /// When there is no sshd on this machine, or it does not come up.
    pub fn start(settings: &Settings) -> Result<Self> {
        let program = program()?;
        let folder = folder()?;
        let at = |name: &str| folder.path().join(name);
        make_key(&at("host"), "")?;
        make_key(&at("id"), settings.passphrase.as_deref().unwrap_or_default())?;
        fs::copy(at("id.pub"), at("authorized_keys"))?;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        let network = settings.network.as_ref();
        let address = network.map_or(Ipv4Addr::LOCALHOST, |network| network.address);
        let place = format!("ListenAddress {address}\n");
        let config = place + &server_config(folder.path(), port, &settings.server);
        fs::write(at("sshd_config"), config)?;
        let mut words = network.map(|network| network.enter.clone()).unwrap_or_default();
        let commands = settings.places.commands();
        if !commands.is_empty() {
            let script = format!("{commands}exec \"$@\"");
            words.extend(["unshare", "--mount", "sh", "-c", &script, "sh"].map(str::to_owned));
        }
        words.push(program.to_owned());
        let server = listen(&words, folder.path())?;
        let mut sshd = Self { folder, server, words, address, port };
        sshd.wait_until_up(0, network.is_some())?;
        sshd.write_client_config(&[])?;
        Ok(sshd)
    }

    /// Ends the server. The sessions that there are go on.
    ///
    /// # Errors
    ///
    /// When it cannot be waited for.
    pub fn end_listener(&mut self) -> Result<()> {
        self.server.kill()?;
        self.server.wait()?;
        Ok(())
    }

    /// Starts it again, at the same port and with the same keys.
    ///
    /// # Errors
    ///
    /// When it does not come up.
    pub fn listen_again(&mut self) -> Result<()> {
        let said_before = self.log().len();
        self.server = listen(&self.words, self.folder.path())?;
        self.wait_until_up(said_before, true)
    }

    /// Waits until it listens. Where it cannot be asked from here, its log says so, behind what was said
    /// before.
    fn wait_until_up(&mut self, said_before: usize, is_elsewhere: bool) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(20) {
            let is_up = if is_elsewhere {
                let log = self.log();
                log.get(said_before..).is_some_and(|said| said.contains("Server listening on"))
            } else {
                TcpStream::connect((self.address, self.port)).is_ok()
            };
            if is_up {
                return Ok(());
            }
            if let Some(status) = self.server.try_wait()? {
                bail!("sshd ended at once ({status}): {}", self.log());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("sshd did not come up: {}", self.log())
    }

    /// Takes one of the places that a server has for logins (`MaxStartups`), until this is dropped: a
    /// connection over which nothing is said.
    ///
    /// # Errors
    ///
    /// When there is no place for it.
    pub fn take_place(&self) -> Result<TcpStream> {
        let started = Instant::now();
        loop {
            let mut place = TcpStream::connect((self.address, self.port))?;
            let mut said = [0; 4];
            // Whoever looked whether it is up may still have one.
            if place.read_exact(&mut said).is_ok() && said == *b"SSH-" {
                return Ok(place);
            }
            if started.elapsed() > Duration::from_secs(10) {
                bail!("sshd turns everybody away: {}", self.log());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Writes the client's configuration, with further lines for this host.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write_client_config(&self, lines: &[String]) -> Result<()> {
        let host_key = fs::read_to_string(self.file("host.pub"))?;
        let known = format!("[{}]:{} {host_key}", self.address, self.port);
        if !self.file("known_hosts").exists() {
            fs::write(self.file("known_hosts"), known)?;
        }
        let mut config = format!(
            "Host {}\n  IdentityFile {}\n  IdentitiesOnly yes\n  IdentityAgent none\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
            self.address,
            self.file("id").display(),
            self.file("known_hosts").display()
        );
        for line in lines {
            config.push_str(&format!("  {line}\n"));
        }
        fs::write(self.file("ssh_config"), config)?;
        Ok(())
    }

    /// A file of the server or its client.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The client's configuration.
    pub fn client_config(&self) -> PathBuf {
        self.file("ssh_config")
    }

    /// The target, as sysmcp takes it.
    pub fn target(&self) -> String {
        self.target_by("ssh")
    }

    /// The target, with the way of getting there that is named: `ssh`, `russh` or `openssh`.
    pub fn target_by(&self, way: &str) -> String {
        format!("{way}:{}@{}:{}", user_name(), self.address, self.port)
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read_to_string(self.file("log")).unwrap_or_default()
    }

    /// A plain ssh to it, with another configuration.
    pub fn ssh_by(&self, config: &Path) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F")
            .arg(config)
            .args(["-oBatchMode=yes", "-p", &self.port.to_string()])
            .arg(format!("{}@{}", user_name(), self.address));
        ssh.stdin(Stdio::null());
        ssh
    }
}

impl second_way::Server for Sshd {
    fn pid(&self) -> u32 {
        self.server.id()
    }

    fn ssh(&self) -> Command {
        self.ssh_by(&self.client_config())
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// Starts a server whose files are in a folder.
fn listen(words: &[String], folder: &Path) -> Result<Child> {
    let log = fs::OpenOptions::new().create(true).append(true).open(folder.join("log"))?;
    let (first, rest) = words.split_first().context("no program")?;
    Command::new(first)
        .args(rest)
        .env("FOLDER", folder)
        .args(["-D", "-e", "-f"])
        .arg(folder.join("sshd_config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .context("could not start sshd")
}

/// The server's program, with what it needs on this machine.
pub(crate) fn program() -> Result<&'static str> {
    if rustix::process::geteuid().is_root() {
        // Root's sshd separates privileges, and wants this folder for it.
        fs::create_dir_all("/run/sshd")?;
    }
    SSHD.into_iter()
        .find(|path| Path::new(path).exists())
        .context("there is no sshd on this machine; install openssh-server")
}

/// A folder for a server and its client, not below a place that the server may see otherwise.
///
/// # Errors
///
/// When sysmcp is not built, or the folder cannot be made.
pub fn folder() -> Result<tempfile::TempDir> {
    let base = crate::programs::sysmcp();
    let base = base.parent().filter(|base| base.is_dir()).context("sysmcp is not built")?;
    Ok(tempfile::tempdir_in(base)?)
}

/// The user this runs as.
pub fn user_name() -> String {
    let uid = rustix::process::getuid().as_raw().to_string();
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let line = passwd.lines().find(|line| line.split(':').nth(2) == Some(&uid));
    line.and_then(|line| line.split(':').next()).unwrap_or("root").to_owned()
}

pub(crate) fn make_key(path: &Path, passphrase: &str) -> Result<()> {
    let status = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", passphrase, "-C", "scenario", "-f"])
        .arg(path)
        .stdin(Stdio::null())
        .status()
        .context("could not run ssh-keygen; install openssh-client")?;
    if !status.success() {
        bail!("ssh-keygen failed: {status}");
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(())
}

/// The server's configuration, but for where it listens.
pub(crate) fn server_config(folder: &Path, port: u16, further: &[String]) -> String {
    let at = |name: &str| folder.join(name).display().to_string();
    let mut config = format!(
        "Port {port}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         UsePAM no\nStrictModes no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nPrintMotd no\n",
        at("host"),
        at("authorized_keys")
    );
    // Of this keyword the last line counts (`sMaxStartups` in OpenSSH's servconf.c).
    if !further.iter().any(|line| line.starts_with("MaxStartups ")) {
        config.push_str("MaxStartups 100\n");
    }
    // Of all others the first line of a keyword counts, so what differs comes first.
    let further: String = further.iter().map(|line| format!("{line}\n")).collect();
    config.insert_str(0, &further);
    config
}
