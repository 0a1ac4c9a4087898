//! Another kernel: a virtual machine that does what a test asks, and is gone with it.
//!
//! `cargo xtask kernels` puts kernels and their first file system below `target/kernels`; this boots
//! one in QEMU, without any hardware's help, so that it does the same everywhere. The guest runs
//! programs as any user and hands back what they print. What to run, and what must come of it, is
//! the test's.

pub mod inside;
pub mod orders;
mod ssh;

use anyhow::{Context as _, Result, bail};
use orders::{Order, Outcome, Ready};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    time::{Duration, Instant},
};

/// Time for a kernel to come up. It takes two seconds on a machine with little else to do.
const BOOT: Duration = Duration::from_secs(120);

/// Time for one order, as long as nobody says otherwise.
const PATIENCE: Duration = Duration::from_secs(60);

/// A processor with all that QEMU can imitate; of this maker, so that every kernel believes the
/// topology that QEMU tells of.
const PROCESSOR: &str = "max,vendor=GenuineIntel";

/// No hardware's help, and one thread for all processors: with several, one may run what another is
/// just rewriting, as the kernel does with its own code, and the guest dies of it now and then.
const ACCELERATOR: &str = "tcg,thread=single";

/// Nobody: a user without any right of its own.
pub const NOBODY: u32 = 65534;

/// How a guest is booted.
#[derive(Clone, Copy, Debug)]
pub struct Boot<'b> {
    /// What QEMU's `-smp` takes.
    pub processors: &'b str,
    /// Further words of the kernel's command line.
    pub command_line: &'b str,
    /// Whether it has a network card, behind which is nothing but [`Guest::serve_ssh`].
    pub has_network: bool,
}

impl Default for Boot<'_> {
    fn default() -> Self {
        Self { processors: "2", command_line: "", has_network: false }
    }
}

/// A running guest. It ends when this is dropped, and when the program ends that holds it.
#[derive(Debug)]
pub struct Guest {
    machine: Child,
    orders: ChildStdin,
    answers: Receiver<String>,
    console: PathBuf,
    /// The port on the host's loopback that leads to the guest's port 22.
    port: Option<u16>,
    /// Time for one order.
    pub patience: Duration,
    /// The kernel's release, as `uname -r` has it.
    pub release: String,
    /// From the start of the machine to its readiness.
    pub boot_time: Duration,
}

/// The folder with what a kernel boots from.
pub fn folder(kernel: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/kernels").join(kernel)
}

impl Guest {
    /// Boots a kernel, named by the first two numbers of its version, and waits until it is up.
    ///
    /// # Errors
    ///
    /// When there is no such kernel, or it does not come up; the error has the console's last lines.
    pub fn boot(kernel: &str, boot: &Boot<'_>) -> Result<Self> {
        let folder = folder(kernel);
        if !folder.join("initramfs").exists() {
            bail!("there is no Linux {kernel} in target/kernels; `cargo xtask kernels` brings it");
        }
        let console = folder.join("console");
        let _ = fs::remove_file(&console);
        let port = if boot.has_network { Some(free_port()?) } else { None };
        let started = Instant::now();
        let (mut machine, answers) = start(command(&folder, &console, boot, port))?;
        let orders = machine.stdin.take().context("QEMU has no stdin")?;
        let mut guest = Self {
            machine,
            orders,
            answers,
            console,
            port,
            patience: PATIENCE,
            release: format!("{kernel}, booting"),
            boot_time: BOOT,
        };
        let ready: Ready = guest.hear(BOOT).context("the guest did not come up")?;
        (guest.release, guest.boot_time) = (ready.release, started.elapsed());
        Ok(guest)
    }

    /// Runs a program as a user and waits for its end.
    ///
    /// # Errors
    ///
    /// When the guest is gone or does not answer in time; the error has the console's last lines.
    /// A program that fails, or that there is not, is no error: the outcome has it.
    pub fn run(&mut self, uid: u32, words: &[&str]) -> Result<Outcome> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        let shown = words.join(" ");
        let mut line = serde_json::to_string(&Order { uid, words })?;
        line.push('\n');
        self.orders
            .write_all(line.as_bytes())
            .map_err(anyhow::Error::from)
            .or_else(|error| self.fail(&error.to_string()))
            .and_then(|()| self.hear(self.patience))
            .with_context(|| format!("Linux {}: `{shown}`", self.release))
    }

    /// Runs a line of shell as root; it must succeed. Returns what it printed, without the last
    /// line's end.
    ///
    /// # Errors
    ///
    /// As for [`Guest::run`], and when the line fails.
    pub fn sh(&mut self, line: &str) -> Result<String> {
        let outcome = self.run(0, &["sh", "-c", line])?;
        if outcome.code != Some(0) {
            bail!("Linux {}: `{line}` failed: {outcome:?}", self.release);
        }
        Ok(outcome.stdout.trim_end().to_owned())
    }

    /// Starts a program that goes on beside what follows. Returns its pid.
    ///
    /// # Errors
    ///
    /// As for [`Guest::run`], and when it cannot be started.
    pub fn start(&mut self, uid: u32, words: &[&str]) -> Result<u32> {
        let mut line = vec!["sh", "-c", "\"$@\" >/dev/null 2>&1 & echo $!", "sh"];
        line.extend(words);
        let outcome = self.run(uid, &line)?;
        outcome.stdout.trim().parse().with_context(|| format!("no pid: {outcome:?}"))
    }

    /// What the guest's own agent answers, asked by hand as a user.
    ///
    /// # Errors
    ///
    /// As for [`Guest::run`], and when there is no answer; the error has what the agent said.
    pub fn ask(&mut self, uid: u32, tool: &str, parameters: &Value) -> Result<Value> {
        let parameters = parameters.to_string();
        let words = ["/probe-agent", "--local", tool, "--params", &parameters, "--json"];
        let outcome = self.run(uid, &words)?;
        serde_json::from_str(&outcome.stdout)
            .with_context(|| format!("no answer from {tool} as uid {uid}: {outcome:?}"))
    }

    /// Waits for the next message.
    fn hear<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T> {
        match self.answers.recv_timeout(patience) {
            Ok(line) => serde_json::from_str(&line)
                .with_context(|| format!("not a message of the guest: {line}")),
            Err(RecvTimeoutError::Timeout) => {
                // A late answer would be taken for that to the next order.
                let _ = self.machine.kill();
                self.fail(&format!("no answer in {patience:?}"))
            }
            Err(RecvTimeoutError::Disconnected) => self.fail("the guest has ended"),
        }
    }

    /// Fails with what the console shows.
    fn fail<T>(&self, why: &str) -> Result<T> {
        // What a panic prints is longer than a screen.
        const LINES: usize = 60;
        let console = fs::read(&self.console).unwrap_or_default();
        let console = String::from_utf8_lossy(&console);
        let lines: Vec<&str> = console.lines().collect();
        let last = lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default();
        bail!("{why}; the last lines of {}:\n{}", self.console.display(), last.join("\n"))
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.machine.kill();
        let _ = self.machine.wait();
    }
}

/// A port that nobody has now.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// How QEMU is called.
fn command(folder: &Path, console: &Path, boot: &Boot<'_>, port: Option<u16>) -> Command {
    // It goes with the thread that starts it, however that ends.
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "qemu-system-x86_64"]);
    command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
    command.args(["-machine", "q35", "-accel", ACCELERATOR, "-cpu", PROCESSOR, "-m", "512M"]);
    command.args(["-smp", boot.processors]);
    command.arg("-kernel").arg(folder.join("vmlinuz"));
    command.arg("-initrd").arg(folder.join("initramfs"));
    command
        .arg("-append")
        .arg(format!("console=ttyS0 panic=-1 rdinit=/scenarios {} -- guest", boot.command_line));
    let mut file = std::ffi::OsString::from("file:");
    file.push(console);
    command.arg("-serial").arg(file).args(["-serial", "stdio"]);
    if let Some(port) = port {
        let network = format!("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22");
        command.args(["-netdev", &network, "-device", "virtio-net-pci,netdev=net,romfile="]);
    }
    command
}

/// Starts a machine on a thread that lives as long as the machine. Its lines come through the
/// channel.
fn start(mut command: Command) -> Result<(Child, Receiver<String>)> {
    let (started, machine) = channel();
    let (sender, answers) = channel();
    std::thread::spawn(move || {
        let mut machine = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let stdout = machine.as_mut().ok().and_then(|machine| machine.stdout.take());
        if started.send(machine).is_err() {
            return;
        }
        let lines = stdout.into_iter().flat_map(|stdout| BufReader::new(stdout).lines());
        for line in lines.map_while(std::result::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let machine = machine.recv().context("nothing was started")?;
    Ok((machine.context("could not run setpriv, of util-linux")?, answers))
}
