//! Private SSH servers of several makes and ages, each with users of its own.
//!
//! A server runs in mount and process namespaces of its own: those of other releases of Debian in
//! the folders below `target/servers`, where `cargo xtask servers` puts them, and the machine's own
//! in the machine's files, with accounts of its own laid over them. What it starts ends with it.

pub mod login;
mod root;

use crate::{
    not_run::not_run,
    second_way,
    sshd::{self, make_key},
};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Whoever may log in.
pub const USER: &str = "deploy";

pub use root::{INSIDE, PASSWORD};

/// The user's first one-time passwords, in order: each is good for one login (RFC 4226, appendix D).
pub const CODES: [&str; 10] = [
    "755224", "287082", "359152", "969429", "338314", "254676", "287922", "162583", "399871",
    "520489",
];

/// A server, by make and age.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// OpenSSH as this machine has it.
    OpenSshHere,
    /// OpenSSH 8.4.
    OpenSsh8,
    /// OpenSSH 10.0.
    OpenSsh10,
    /// Dropbear 2020.81.
    Dropbear2020,
    /// Dropbear 2025.
    Dropbear2025,
}

impl Kind {
    /// All there are.
    pub const ALL: [Self; 5] = [
        Self::OpenSshHere,
        Self::OpenSsh8,
        Self::OpenSsh10,
        Self::Dropbear2020,
        Self::Dropbear2025,
    ];

    /// Those that know every kind of login.
    pub const OPENSSH: [Self; 3] = [Self::OpenSshHere, Self::OpenSsh8, Self::OpenSsh10];

    /// Its name and version, and where it is from.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenSshHere => "OpenSSH of this machine",
            Self::OpenSsh8 => "OpenSSH 8.4 (Debian 11)",
            Self::OpenSsh10 => "OpenSSH 10.0 (Debian 13)",
            Self::Dropbear2020 => "Dropbear 2020.81 (Debian 11)",
            Self::Dropbear2025 => "Dropbear 2025.89 (Debian 13)",
        }
    }

    /// How its first line begins, by which it says what it is (RFC 4253, section 4.2).
    pub const fn greeting(self) -> &'static str {
        match self {
            Self::OpenSshHere => "SSH-2.0-OpenSSH_",
            Self::OpenSsh8 => "SSH-2.0-OpenSSH_8.4p1 ",
            Self::OpenSsh10 => "SSH-2.0-OpenSSH_10.0p",
            Self::Dropbear2020 => "SSH-2.0-dropbear_2020.81",
            Self::Dropbear2025 => "SSH-2.0-dropbear_2025.89",
        }
    }

    /// Whether it is an OpenSSH.
    pub const fn is_openssh(self) -> bool {
        match self {
            Self::OpenSshHere | Self::OpenSsh8 | Self::OpenSsh10 => true,
            Self::Dropbear2020 | Self::Dropbear2025 => false,
        }
    }

    /// Whether its users can be asked for a one-time password, for which PAM needs a module that this
    /// machine need not have.
    pub const fn has_codes(self) -> bool {
        matches!(self, Self::OpenSsh8 | Self::OpenSsh10)
    }

    /// The root of its files; `None` for those of the machine.
    fn root(self) -> Option<PathBuf> {
        let release = match self {
            Self::OpenSshHere => return None,
            Self::OpenSsh8 | Self::Dropbear2020 => "bullseye",
            Self::OpenSsh10 | Self::Dropbear2025 => "trixie",
        };
        let servers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/servers");
        Some(servers.join(release).join("files"))
    }

    /// Its program, below its root.
    const fn program(self) -> &'static str {
        if self.is_openssh() { "/usr/sbin/sshd" } else { "/usr/sbin/dropbear" }
    }

    /// Whether it can be started here. Where it cannot, notes which check does not run.
    pub fn is_there(self, check: &str) -> bool {
        let check = format!("{check}, at {}", self.name());
        if !rustix::process::geteuid().is_root() {
            not_run(&check, "root, for namespaces");
            return false;
        }
        let is_there = self.has_program();
        if !is_there {
            let needs = match self.root() {
                Some(_) => "`cargo xtask servers`, which fetches it",
                None => "sshd (package openssh-server)",
            };
            not_run(&check, needs);
        }
        is_there
    }

    /// Whether its program is here.
    pub(crate) fn has_program(self) -> bool {
        let program = Path::new(self.program());
        let path = match self.root() {
            Some(root) => root.join(program.strip_prefix("/").unwrap_or(program)),
            None => program.to_owned(),
        };
        path.is_file()
    }
}

/// How a server differs from the usual one, which takes the user's keys.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Further lines for `sshd_config`. Files of the server are in [`INSIDE`].
    pub lines: Vec<String>,
    /// Further words for Dropbear's command line.
    pub words: Vec<String>,
    /// Whether a one-time password is asked for behind the password.
    pub wants_code: bool,
    /// Further files of `/etc`, each with its text: `sudoers`, `doas.conf`.
    pub etc: Vec<(&'static str, String)>,
    /// Programs that are not there, by their path.
    pub without: Vec<&'static str>,
    /// The user's login shell; bash unless said otherwise.
    pub shell: Option<&'static str>,
    /// Where the user's entry says that the home is; the folder `home` of [`INSIDE`] unless said
    /// otherwise, where the keys are in any case.
    pub home: Option<&'static str>,
    /// What root does before the server starts, in the server's namespaces: lines of shell, which find
    /// the server's root in `$TOP`.
    pub first: String,
}

impl Settings {
    /// The usual ones, with further lines for `sshd_config`.
    pub fn lines(lines: &[&str]) -> Self {
        let lines = lines.iter().map(ToString::to_string).collect();
        Self { lines, ..Self::default() }
    }
}

/// What a server will have, before it runs.
#[derive(Debug)]
pub struct Draft {
    kind: Kind,
    folder: tempfile::TempDir,
}

impl Draft {
    /// A folder with the server's accounts and its own key.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn new(kind: Kind) -> Result<Self> {
        let draft = Self { kind, folder: sshd::folder()? };
        root::write_accounts(draft.folder.path())?;
        if kind.is_openssh() {
            make_key(&draft.file("host"), "")?;
        }
        // For a look past sysmcp.
        make_key(&draft.file("second_way"), "")?;
        draft.authorize("second_way")?;
        Ok(draft)
    }

    /// A file of the server or its client.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Lets whoever has a key log in.
    ///
    /// # Errors
    ///
    /// When there is no such key.
    pub fn authorize(&self, key: &str) -> Result<()> {
        self.authorize_with(key, "")
    }

    /// The same, with options that stand before the key (sshd(8), "AUTHORIZED_KEYS FILE FORMAT").
    ///
    /// # Errors
    ///
    /// When there is no such key.
    pub fn authorize_with(&self, key: &str, options: &str) -> Result<()> {
        let public = fs::read_to_string(self.file(&format!("{key}.pub")))?;
        let line = format!("{options} {public}");
        root::append(&self.file("home/.ssh/authorized_keys"), line.trim_start())
    }

    /// Writes a file of the user's home.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn write_home(&self, name: &str, bytes: &[u8]) -> Result<()> {
        root::write_owned(&self.file("home").join(name), bytes)
    }

    /// Starts the server.
    ///
    /// # Errors
    ///
    /// When it does not come up, or is another than it should be.
    pub fn start(self, settings: &Settings) -> Result<Server> {
        let Self { kind, folder } = self;
        let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
        if settings.shell.is_some() || settings.home.is_some() {
            root::write_passwd(folder.path(), settings.shell, settings.home)?;
        }
        root::write_pam(folder.path(), settings.wants_code)?;
        root::write_further(folder.path(), &settings.etc)?;
        let further: Vec<&str> = settings.etc.iter().map(|(name, _)| *name).collect();
        let command = if kind.is_openssh() {
            let config = root::sshd_config(kind, port, &settings.lines);
            fs::write(folder.path().join("sshd_config"), config)?;
            format!("exec {} -D -e -f {}/sshd_config", kind.program(), INSIDE)
        } else {
            let words = settings.words.join(" ");
            root::dropbear_command(port, &words)
        };
        let log = fs::File::create(folder.path().join("log"))?;
        let mut unshare = Command::new("unshare");
        unshare
            .args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", root::ENTER, "sh"])
            .arg(command)
            .env("TOP", kind.root().unwrap_or_default())
            .env("FOLDER", folder.path())
            .env("FURTHER", further.join(" "))
            .env("WITHOUT", settings.without.join(" "))
            .env("FIRST", &settings.first)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = unshare.spawn().context("could not run unshare; install util-linux")?;
        let mut server = Server { kind, folder, process, port };
        server.wait_until_up()?;
        server.learn_host_key()?;
        Ok(server)
    }
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    kind: Kind,
    folder: tempfile::TempDir,
    process: Child,
    /// Where it listens, on 127.0.0.1.
    pub port: u16,
}

impl Server {
    /// Starts one that takes a key of the client's, in the file `id`.
    ///
    /// # Errors
    ///
    /// As for [`Draft::start`].
    pub fn with_key(kind: Kind, settings: &Settings) -> Result<Self> {
        let draft = Draft::new(kind)?;
        make_key(&draft.file("id"), "")?;
        draft.authorize("id")?;
        draft.start(settings)
    }

    fn wait_until_up(&mut self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(20) {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", self.port)) {
                stream.set_read_timeout(Some(Duration::from_secs(10)))?;
                let mut greeting = String::new();
                // It may listen before it can serve; then the log says why it never does.
                if BufReader::new(stream).read_line(&mut greeting).is_err() {
                    std::thread::sleep(Duration::from_millis(10));
                    continue;
                }
                let want = self.kind.greeting();
                ensure!(greeting.starts_with(want), "{want}… was expected, and it is {greeting}");
                return Ok(());
            }
            if let Some(status) = self.process.try_wait()? {
                bail!("{} ended at once ({status}): {}", self.kind.name(), self.log());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        bail!("{} did not come up: {}", self.kind.name(), self.log())
    }

    /// Writes down the server's key as the client knows it.
    fn learn_host_key(&self) -> Result<()> {
        let public = if self.kind.is_openssh() {
            fs::read_to_string(self.file("host.pub"))?
        } else {
            let said = fs::read_to_string(self.file("host.said"))?;
            let is_key = |line: &&str| line.starts_with("ssh-ed25519 ");
            said.lines().find(is_key).context("dropbearkey showed no key")?.to_owned()
        };
        let known = format!("{} {}\n", self.known_name(), public.trim());
        fs::write(self.file("known_hosts"), known)?;
        Ok(())
    }

    /// Which server this is.
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// A file of the server or its client.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The name under which known_hosts has it.
    pub fn known_name(&self) -> String {
        format!("[127.0.0.1]:{}", self.port)
    }

    /// What the server has logged.
    pub fn log(&self) -> String {
        fs::read(self.file("log"))
            .map_or_else(|_| String::new(), |log| String::from_utf8_lossy(&log).into_owned())
    }
}

/// A way into a server that takes no login: root enters its namespaces. It finds the home and the
/// folder of the session where the user's entry and the server say they are.
#[derive(Debug)]
pub struct Beside<'a> {
    /// The server.
    pub server: &'a Server,
    /// What `$HOME` and `$XDG_RUNTIME_DIR` are to a login, where they are not the usual ones.
    pub variables: &'a [(&'static str, &'static str)],
}

impl Beside<'_> {
    /// The first process of the server's namespace, as this one sees it.
    fn first(&self) -> Option<String> {
        let pid = self.server.process.id();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_whitespace().next().map(str::to_owned)
    }
}

impl second_way::Server for Beside<'_> {
    fn pid(&self) -> u32 {
        1
    }

    fn ssh(&self) -> Command {
        let mut enter = Command::new("nsenter");
        // Without a first process it fails, which is what there is to say.
        enter.arg("--target").arg(self.first().unwrap_or_default());
        enter.args(["--mount", "--pid", "--root", "--wd", "env", "-i"]);
        enter.arg("PATH=/usr/sbin:/usr/bin:/sbin:/bin").arg(format!("HOME={INSIDE}/home"));
        enter.args(self.variables.iter().map(|(name, value)| format!("{name}={value}")));
        enter.args(["/bin/sh", "-c"]).stdin(Stdio::null());
        enter
    }
}

impl second_way::Server for Server {
    fn pid(&self) -> u32 {
        // It is the first of its process namespace.
        1
    }

    fn ssh(&self) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.args(["-F", "/dev/null", "-oBatchMode=yes", "-oIdentitiesOnly=yes"])
            .arg(format!("-oUserKnownHostsFile={}", self.file("known_hosts").display()))
            .arg("-i")
            .arg(self.file("second_way"))
            .args(["-p", &self.port.to_string()])
            .arg(format!("{USER}@127.0.0.1"))
            .env_remove("SSH_AUTH_SOCK")
            .stdin(Stdio::null());
        ssh
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // What `unshare` started dies with it, and with the first process of a namespace all others.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
