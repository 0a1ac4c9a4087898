//! A private Docker or Podman, with containers of its own, and a look at them from the host.
//!
//! Docker's daemon and all that it starts are in mount and process namespaces of their own, which end
//! with the test. Podman has no daemon; its files are in a folder of the test. Images are made of busybox alone: with a shell, or as a distroless one is, without.

use crate::{
    not_run::{not_here, not_run},
    second_way::{
        self, Seen,
        standing::{self, Mark},
    },
};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Programs that the image with a shell has.
const PROGRAMS: [&str; 15] = [
    "sh",
    "sleep",
    "head",
    "dd",
    "gzip",
    "sha256sum",
    "uname",
    "rm",
    "rmdir",
    "mkdir",
    "chmod",
    "timeout",
    "cat",
    "test",
    "id",
];

/// Folders in which a session may put its file, below a container's root.
const PLACES: [&str; 6] = ["", "dev/shm", "tmp", "var/tmp", "run", "root"];

/// What a container is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// busybox with its shell, and a `/tmp`.
    Shell,
    /// busybox under its own name, and nothing else.
    Distroless,
}

impl Image {
    const ALL: [Self; 2] = [Self::Shell, Self::Distroless];

    const fn name(self) -> &'static str {
        match self {
            Self::Shell => "shell",
            Self::Distroless => "distroless",
        }
    }
}

/// An engine of a test's own.
#[derive(Debug)]
pub struct Engine {
    program: &'static str,
    folder: tempfile::TempDir,
    /// Docker's.
    daemon: Option<Child>,
}

impl Engine {
    /// Makes a Podman. Where that cannot be done here, notes which check does not run.
    ///
    /// # Errors
    ///
    /// When an image cannot be made.
    pub fn podman(check: &str) -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            not_run(check, "root, for a Podman of its own");
            return Ok(None);
        }
        if find("podman").is_err() {
            not_run(check, "podman (package podman)");
            return Ok(None);
        }
        let folder = tempfile::tempdir()?;
        let podman = Self { program: "podman", folder, daemon: None };
        let at = |name: &str| podman.folder.path().join(name).display().to_string();
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\nrunroot = \"{}\"\ngraphroot = \"{}\"\n",
            at("run"),
            at("root")
        );
        fs::write(podman.folder.path().join("storage.conf"), storage)?;
        // Limits as the machine may have them, and locks that are gone with the folder.
        let engine = format!(
            "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=1024:1024\"]\n\
             [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"none\"\n\
             lock_type = \"file\"\nruntime = \"runc\"\ntmp_dir = \"{}\"\n",
            at("tmp")
        );
        fs::write(podman.folder.path().join("containers.conf"), engine)?;
        for image in Image::ALL {
            podman.import(image)?;
        }
        match podman.run(Image::Shell, &[]) {
            Ok(_) => {}
            Err(error) => {
                not_here(check, &format!("podman runs no container here: {error:#}"));
                return Ok(None);
            }
        }
        Ok(Some(podman))
    }

    /// Starts a Docker. Where that cannot be done here, notes which check does not run.
    ///
    /// # Errors
    ///
    /// When an image cannot be made.
    pub fn docker(check: &str) -> Result<Option<Self>> {
        if !rustix::process::geteuid().is_root() {
            not_run(check, "root, for a Docker of its own");
            return Ok(None);
        }
        if !Path::new("/usr/sbin/dockerd").exists() {
            not_run(check, "dockerd (package docker.io)");
            return Ok(None);
        }
        let mut docker = Self::spawn()?;
        if let Err(error) = docker.wait_until_up() {
            not_here(check, &format!("dockerd does not run here: {error:#}"));
            return Ok(None);
        }
        for image in Image::ALL {
            docker.import(image)?;
        }
        Ok(Some(docker))
    }

    fn spawn() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let at = |name: &str| folder.path().join(name);
        let log = fs::File::create(at("log"))?;
        let daemon = Command::new("unshare")
            .args(["--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "dockerd"])
            .args(["--iptables=false", "--ip6tables=false", "--bridge=none"])
            .args(["--storage-driver", "vfs", "--data-root"])
            .arg(at("data"))
            .arg("--exec-root")
            .arg(at("exec"))
            .arg("--pidfile")
            .arg(at("pid"))
            .arg("--host")
            .arg(format!("unix://{}", at("socket").display()))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("could not run unshare; install util-linux")?;
        Ok(Self { program: "docker", folder, daemon: Some(daemon) })
    }

    fn wait_until_up(&mut self) -> Result<()> {
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(30) {
            if self.command(&["version"]).is_ok() {
                return Ok(());
            }
            if let Some(daemon) = &mut self.daemon
                && let Some(status) = daemon.try_wait()?
            {
                bail!("it ended at once ({status}): {}", self.last_words());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("it did not come up: {}", self.last_words())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        log.lines().rev().take(3).collect::<Vec<_>>().join(" | ")
    }

    /// Makes an image of the machine's busybox and the libraries that it needs.
    fn import(&self, image: Image) -> Result<()> {
        let root = self.folder.path().join(image.name());
        let busybox = fs::canonicalize(find("busybox")?)?;
        for file in libraries(&busybox)? {
            copy(&file, &root.join(file.strip_prefix("/").unwrap_or(&file)))?;
        }
        match image {
            Image::Distroless => copy(&busybox, &root.join("busybox"))?,
            Image::Shell => {
                copy(&busybox, &root.join("bin/busybox"))?;
                for name in PROGRAMS {
                    std::os::unix::fs::symlink("busybox", root.join("bin").join(name))?;
                }
                fs::create_dir(root.join("tmp"))?;
                fs::set_permissions(root.join("tmp"), fs::Permissions::from_mode(0o1777))?;
            }
        }
        let tar = self.folder.path().join(format!("{}.tar", image.name()));
        let packed =
            Command::new("tar").arg("-cf").arg(&tar).arg("-C").arg(&root).arg(".").status();
        ensure!(packed.context("could not run tar")?.success(), "tar failed");
        self.command(&["import", &tar.display().to_string(), image.name()]).map(|_| ())
    }

    /// What makes the engine's program talk to this very engine.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        if self.daemon.is_some() {
            return vec![("DOCKER_HOST", format!("unix://{}", at("socket")))];
        }
        vec![
            ("CONTAINERS_STORAGE_CONF", at("storage.conf")),
            ("CONTAINERS_CONF", at("containers.conf")),
        ]
    }

    /// Runs the engine's program with some words, and gives what it printed.
    ///
    /// # Errors
    ///
    /// When it fails, with what it said.
    pub fn command(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(self.program);
        command.args(words).envs(self.variables()).stdin(Stdio::null());
        let output = command.output().with_context(|| format!("install {}", self.program))?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{} {words:?}: {said}", self.program);
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    /// Starts a container that sleeps.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn run(&self, image: Image, options: &[&str]) -> Result<Container<'_>> {
        let name = format!("scenario-{:016x}", fastrand());
        let variable = format!("SCENARIO={name}");
        let sleep: &[&str] = match image {
            Image::Shell => &["/bin/sleep", "86400"],
            Image::Distroless => &["/busybox", "sleep", "86400"],
        };
        let own = ["run", "-d", "--network", "none", "--name", &name, "-e", &variable];
        self.command(&[&own, options, &[image.name()], sleep].concat())?;
        Ok(Container { engine: self, name: name.clone() })
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // In order first, so that no cgroup and no mount is left; whatever stays is killed.
        if let Ok(all) = self.command(&["ps", "-aq"]) {
            let all: Vec<&str> = all.split_whitespace().collect();
            if !all.is_empty() {
                let _ = self.command(&[&["rm", "-f"], all.as_slice()].concat());
            }
        }
        if let Some(daemon) = &mut self.daemon {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

/// A container of an engine of ours.
#[derive(Debug)]
pub struct Container<'e> {
    engine: &'e Engine,
    /// Its name, which no other has.
    pub name: String,
}

impl Container<'_> {
    /// It as a target.
    pub fn target(&self) -> String {
        format!("{}:{}", self.engine.program, self.name)
    }

    /// Does something to it: `pause`, `stop`, `kill`.
    ///
    /// # Errors
    ///
    /// When the engine does not do it.
    pub fn make(&self, words: &[&str]) -> Result<()> {
        self.engine.command(&[words, &[self.name.as_str()]].concat()).map(|_| ())
    }

    /// What is started in it inherits its environment, and with it this.
    pub fn mark(&self) -> Mark {
        Mark { name: "SCENARIO", value: self.name.clone() }
    }

    /// Starts a program in it that nobody waits for.
    ///
    /// # Errors
    ///
    /// When the engine does not do it.
    pub fn start(&self, words: &[&str]) -> Result<()> {
        self.engine.command(&[&["exec", "-d", &self.name], words].concat()).map(|_| ())
    }

    /// All processes in it, as the host sees them. The program that `docker run` was started with
    /// names the variable too, as an argument only.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn processes(&self) -> Result<Vec<Seen>> {
        Ok(standing::here(&self.mark())?.all)
    }

    /// Those of sessions: all but the one that sleeps.
    ///
    /// # Errors
    ///
    /// When `/proc` cannot be read.
    pub fn session(&self) -> Result<Vec<Seen>> {
        let mut seen = self.processes()?;
        seen.retain(|seen| !seen.command.contains("sleep 86400"));
        Ok(seen)
    }

    /// Files of sessions in it that have a name: through the eyes of its first process, and in what the
    /// engine says was added.
    ///
    /// # Errors
    ///
    /// When it is not there.
    pub fn files(&self) -> Result<Vec<String>> {
        let all = self.processes()?;
        let first = all.iter().find(|seen| seen.command.contains("sleep 86400"));
        let first = first.context("the container has ended")?;
        let root = PathBuf::from(format!("/proc/{}/root", first.pid));
        let mut files = Vec::new();
        for place in PLACES {
            for entry in fs::read_dir(root.join(place)).into_iter().flatten() {
                let name = entry?.file_name().to_string_lossy().into_owned();
                if name.starts_with(".sysmcp") {
                    files.push(format!("/{place}/{name}"));
                }
            }
        }
        let changes = self.engine.command(&["diff", &self.name])?;
        files.extend(changes.lines().filter(|line| line.contains("sysmcp")).map(str::to_owned));
        Ok(files)
    }

    /// Waits until nothing of any session is left. Gives what still is when the patience ends.
    ///
    /// # Errors
    ///
    /// When it cannot be looked at.
    pub fn left_after(&self, patience: Duration) -> Result<Vec<String>> {
        second_way::still_left(patience, || {
            let mut left = self.files()?;
            left.extend(self.session()?.into_iter().map(|seen| format!("process {seen:?}")));
            Ok(left)
        })
    }
}

/// A number that no other test has.
fn fastrand() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(std::process::id())
}

fn find(program: &str) -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(program));
    found.into_iter().find(|path| path.is_file()).with_context(|| format!("install {program}"))
}

/// The libraries that a program needs, none where it is static.
fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).output().context("could not run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let path = |word: &str| word.starts_with('/').then(|| PathBuf::from(word));
    Ok(text.split_whitespace().filter_map(path).collect())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("no folder")?)?;
    fs::copy(from, to).with_context(|| format!("could not copy {}", from.display()))?;
    Ok(())
}
