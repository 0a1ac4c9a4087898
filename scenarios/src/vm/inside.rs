//! The inside of a guest: its first process, and the one that does what the host asks.
//!
//! The first process mounts what a system has, and reaps. Its child takes orders from the second
//! serial line: the first is the kernel's console, and what the kernel writes there would get in
//! between.

use super::orders::{Order, Outcome, Ready};
use anyhow::{Context as _, Result};
use rustix::{
    fs::{Mode, chmod},
    mount::{MountFlags, mount},
    process::{WaitOptions, getpid, wait},
    system::{RebootCommand, reboot, uname},
    termios::{OptionalActions, tcgetattr, tcsetattr},
};
use serde::Serialize;
use std::{
    fs::{self, File},
    io::{BufRead as _, BufReader, ErrorKind, Write as _},
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
};

/// The line on which orders come.
const LINE: &str = "/dev/ttyS1";

/// Where programs are.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// What is mounted, in this order: file system, place, options.
const MOUNTS: [(&str, &str, Option<&std::ffi::CStr>); 11] = [
    ("devtmpfs", "/dev", None),
    ("proc", "/proc", None),
    ("sysfs", "/sys", None),
    ("devpts", "/dev/pts", Some(c"mode=620,ptmxmode=666")),
    ("tmpfs", "/dev/shm", Some(c"mode=1777")),
    ("tmpfs", "/tmp", Some(c"mode=1777")),
    ("tmpfs", "/run", Some(c"mode=755")),
    ("cgroup2", "/sys/fs/cgroup", None),
    ("tracefs", "/sys/kernel/tracing", None),
    ("securityfs", "/sys/kernel/security", None),
    ("bpf", "/sys/fs/bpf", Some(c"mode=700")),
];

/// Runs as the first process of a machine, and as the one that takes orders.
///
/// # Errors
///
/// When it is not in a guest, or the guest lacks something that every kernel here must have.
pub fn run() -> Result<()> {
    if !getpid().is_init() {
        return serve();
    }
    for (kind, place, options) in MOUNTS {
        let _ = fs::create_dir_all(place);
        mount(kind, place, kind, MountFlags::empty(), options)
            .with_context(|| format!("could not mount {kind} on {place}"))?;
    }
    // The folder of a file system in memory is everybody's who unpacked it.
    chmod("/", Mode::from_raw_mode(0o755))?;
    // A link for each of its programs; what is there already it leaves alone.
    run_alone(&["/bin/busybox", "--install", "-s"])?;
    run_alone(&["/bin/busybox", "ip", "link", "set", "lo", "up"])?;
    let mut server = Command::new(std::env::current_exe()?);
    server.arg("guest").env_clear().env("PATH", PATH).env("HOME", "/root");
    let server = server.spawn().context("could not start the process that takes orders")?;
    // Every orphan becomes a child of this process.
    while let Ok(Some((ended, _))) = wait(WaitOptions::empty()) {
        if u32::try_from(ended.as_raw_pid()) == Ok(server.id()) {
            break;
        }
    }
    reboot(RebootCommand::PowerOff).context("could not power off")
}

/// Runs a program before anything else does.
fn run_alone(words: &[&str]) -> Result<()> {
    let (program, arguments) = words.split_first().context("no program")?;
    Command::new(program)
        .args(arguments)
        .stderr(Stdio::null())
        .status()
        .with_context(|| format!("could not run {program}"))?;
    Ok(())
}

/// Takes orders until the line is closed.
fn serve() -> Result<()> {
    let line = File::options().read(true).write(true).open(LINE);
    let mut line = line.with_context(|| format!("could not open {LINE}"))?;
    let mut settings = tcgetattr(&line)?;
    settings.make_raw();
    tcsetattr(&line, OptionalActions::Now, &settings)?;
    fs::write("/sys/fs/cgroup/cgroup.subtree_control", controllers()?)
        .context("could not enable the controllers of cgroups")?;
    let release = uname().release().to_string_lossy().into_owned();
    say(&mut line, &Ready { release })?;
    let mut orders = BufReader::new(line.try_clone()?);
    let mut order = String::new();
    while orders.read_line(&mut order)? > 0 {
        let outcome = match serde_json::from_str(&order) {
            Ok(order) => carry_out(&order),
            Err(error) => not_started(format!("not an order: {error}: {order}")),
        };
        say(&mut line, &outcome)?;
        order.clear();
    }
    Ok(())
}

/// All controllers that there are, as the kernel takes them to enable them.
fn controllers() -> Result<String> {
    let there = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers")?;
    Ok(there.split_whitespace().map(|name| format!("+{name} ")).collect())
}

fn say(line: &mut File, message: &impl Serialize) -> Result<()> {
    let mut text = serde_json::to_string(message)?;
    text.push('\n');
    line.write_all(text.as_bytes()).context("could not answer")
}

fn carry_out(order: &Order) -> Outcome {
    let Some((program, arguments)) = order.words.split_first() else {
        return not_started("an order without a program".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).current_dir("/");
    if order.uid != 0 {
        command.uid(order.uid).gid(order.uid);
    }
    match command.output() {
        Ok(output) => Outcome {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        },
        Err(error) if error.kind() == ErrorKind::NotFound && !Path::new(program).exists() => {
            not_started(format!("there is no {program} in the guest"))
        }
        Err(error) => not_started(format!("could not start {program}: {error}")),
    }
}

fn not_started(why: String) -> Outcome {
    Outcome { code: None, stdout: String::new(), stderr: why }
}
