//! Building and starting the programs that are looked at.

use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// Enters the root `$TOP` as the first process of a container does, with `$FOLDER` at `/mnt` and files in
/// memory at `/tmp`, and becomes a command.
const ENTER: &str = r#"
set -e
mount --rbind "$TOP" "$TOP"
cd "$TOP"
mkdir -p proc dev tmp mnt old
mount -t proc proc proc
mount --rbind /dev dev
mount -t tmpfs -o mode=1777 tmpfs tmp
mount --bind "$FOLDER" mnt
pivot_root . old
exec chroot . /bin/sh -c "umount -l /old && cd / && $1"
"#;

/// How long a program may take until it has warmed up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program that runs until this is dropped.
#[derive(Debug)]
pub struct Running {
    started: Child,
    /// The process that works.
    pub pid: u32,
    /// A copy of its file and where perf looks for it, where the file was deleted.
    pub deleted: Option<(PathBuf, PathBuf)>,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.started.kill();
        let _ = self.started.wait();
        // What runtimes leave where profilers look for it.
        for left in [format!("/tmp/perf-{}.map", self.pid), format!("/tmp/.java_pid{}", self.pid)] {
            let _ = fs::remove_file(left);
        }
    }
}

/// Where the sources are.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/workloads").join(name)
}

/// Runs a compiler in a folder; fails when it does.
///
/// # Errors
///
/// When it cannot be started, or fails.
pub fn compile(folder: &Path, command: &[&str]) -> Result<()> {
    let (compiler, arguments) = command.split_first().context("an empty command")?;
    let output = Command::new(compiler)
        .args(arguments)
        .current_dir(folder)
        // Go wants a folder for what it has compiled.
        .env("GOCACHE", folder.join("go-cache"))
        .env("GO111MODULE", "off")
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not run {compiler}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {said}", command.join(" "));
    Ok(())
}

/// Builds the program in C.
///
/// # Errors
///
/// When the compiler fails.
pub fn build_c(folder: &Path) -> Result<PathBuf> {
    let source = source("shares.c").display().to_string();
    compile(folder, &["gcc", "-O2", "-fomit-frame-pointer", "-o", "shares-c", &source])?;
    Ok(folder.join("shares-c"))
}

/// Starts a program and waits until it says that it is ready.
///
/// # Errors
///
/// When it cannot be started, or ends before.
pub fn start(command: &mut Command) -> Result<Running> {
    let shown = format!("{command:?}");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut started = command.spawn().with_context(|| format!("could not start {shown}"))?;
    let stdout = started.stdout.take();
    let mut running = Running { pid: started.id(), started, deleted: None };
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let lines = stdout.map(BufReader::new).into_iter().flat_map(BufRead::lines);
        for line in lines.map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(line) if line == "ready" => Ok(running),
        Ok(line) => bail!("{shown} says {line:?} instead of that it is ready"),
        Err(_) => {
            let _ = running.started.kill();
            let mut said = String::new();
            if let Some(mut stderr) = running.started.stderr.take() {
                let _ = std::io::Read::read_to_string(&mut stderr, &mut said);
            }
            bail!("{shown} does not get ready: {}", said.trim())
        }
    }
}

/// Starts a command of a shell as the first process of a container with its own root, processes and
/// mounts: `folder` is its `/mnt`.
///
/// # Errors
///
/// As for [`start`].
pub fn start_in_container(root: &Path, folder: &Path, command: &str) -> Result<Running> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", ENTER, "sh"]);
    unshare.arg(format!("exec {command}")).env("TOP", root).env("FOLDER", folder);
    let mut running = start(&mut unshare)?;
    running.pid = only_child(running.pid)?;
    Ok(running)
}

/// The one child of a process.
fn only_child(pid: u32) -> Result<u32> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    let mut children = children.split_whitespace();
    match (children.next(), children.next()) {
        (Some(child), None) => Ok(child.parse()?),
        (None, _) | (_, Some(_)) => bail!("process {pid} has not one child"),
    }
}

/// Waits until a file is there, and no longer grows.
///
/// # Errors
///
/// When it does not come in time.
pub fn wait_for_file(path: &Path) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    let length = || fs::metadata(path).map_or(0, |file| file.len());
    while Instant::now() < until {
        let before = length();
        sleep(Duration::from_millis(300));
        if before > 0 && length() == before {
            return Ok(());
        }
    }
    bail!("{} was not written", path.display())
}
