//! What the commands need beside the toolchain, and how it comes here.
//!
//! Root on a machine with apt gets it installed. Anybody else is told what to install: a developer's
//! command does not ask for a password.

use crate::shell;
use anyhow::{Context as _, Result, bail};
use std::{path::Path, process::Command};

/// A program, and the Debian package that brings it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    name: &'static str,
    package: &'static str,
}

const fn program(name: &'static str, package: &'static str) -> Program {
    Program { name, package }
}

/// For a target of our own on loopback.
pub const FOR_A_TARGET: [Program; 6] = [
    program("sshd", "openssh-server"),
    program("ssh", "openssh-client"),
    program("ssh-keygen", "openssh-client"),
    program("gzip", "gzip"),
    program("ps", "procps"),
    program("bash", "bash"),
];

/// For the tests: what users would type instead, and the clients they use.
pub const FOR_TESTS: [Program; 34] = [
    program("fish", "fish"),
    program("tcsh", "tcsh"),
    program("bsd-csh", "csh"),
    program("zsh", "zsh"),
    program("mksh", "mksh"),
    program("git-shell", "git"),
    program("busybox", "busybox"),
    program("top", "procps"),
    program("pidstat", "sysstat"),
    program("python3", "python3-venv"),
    program("npm", "npm"),
    program("unshare", "util-linux"),
    program("ip", "iproute2"),
    program("perl", "perl"),
    program("strace", "strace"),
    program("dockerd", "docker.io"),
    program("docker", "docker.io"),
    program("podman", "podman"),
    program("sudo", "sudo"),
    program("doas", "opendoas"),
    program("mkfs.btrfs", "btrfs-progs"),
    program("qemu-aarch64-static", "qemu-user-static"),
    program("gcc", "gcc"),
    program("g++", "g++"),
    program("nm", "binutils"),
    program("go", "golang-go"),
    program("dwz", "dwz"),
    program("chromium", "chromium"),
    program("xmllint", "libxml2-utils"),
    program("script", "bsdutils"),
    program("setpriv", "util-linux"),
    program("perf", "linux-perf"),
    program("clang", "clang"),
    program("bpftrace", "bpftrace"),
];

/// For what is measured beside, and no test needs.
pub const FOR_BENCH: [Program; 1] = [program("lsof", "lsof")];

/// For what is compared with perf, beside what the tests need: runtimes that compile while they run.
pub const FOR_ACCURACY: [Program; 5] = [
    program("node", "nodejs"),
    program("javac", "default-jdk-headless"),
    program("jcmd", "default-jdk-headless"),
    program("apt-get", "apt"),
    program("dpkg-deb", "dpkg"),
];

/// For other kernels: what fetches them, what they run in, and what builds the guest's first process,
/// which has C in it.
pub const FOR_KERNELS: [Program; 5] = [
    program("apt-get", "apt"),
    program("dpkg-deb", "dpkg"),
    program("qemu-system-x86_64", "qemu-system-x86"),
    program("setpriv", "util-linux"),
    program("musl-gcc", "musl-tools"),
];

/// For the SSH servers of other releases: what fetches them, and what logs in to them.
pub const FOR_SERVERS: [Program; 5] = [
    program("apt-get", "apt"),
    program("dpkg-deb", "dpkg"),
    program("unshare", "util-linux"),
    program("script", "bsdutils"),
    program("ssh-agent", "openssh-client"),
];

/// For other systems: what compiles the C of a dependency for all of them.
pub const FOR_ELSEWHERE: [Program; 2] = [program("clang", "clang"), program("ar", "binutils")];

/// For the programs that the agent gives to the kernel.
pub const FOR_BPF: [Program; 1] = [program("clang", "clang")];

/// For fuzzing: libFuzzer is compiled from C++.
pub const FOR_FUZZING: [Program; 1] = [program("c++", "g++")];

/// Makes sure that programs are there.
pub fn ensure(programs: &[&[Program]]) -> Result<()> {
    let missing: Vec<&Program> =
        programs.iter().copied().flatten().filter(|program| !is_there(program.name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing.iter().map(|program| program.package).collect();
    packages.sort_unstable();
    packages.dedup();
    let names: Vec<&str> = missing.iter().map(|program| program.name).collect();
    let install = format!("apt-get install {}", packages.join(" "));
    if !is_root()? || !is_there("apt-get") {
        bail!("this needs {}; run as root: {install}", names.join(", "));
    }
    println!("installing {}", packages.join(", "));
    apt(&["update", "-qq"])?;
    let mut arguments = vec!["install", "-y", "-qq", "--no-install-recommends"];
    arguments.extend(&packages);
    apt(&arguments)?;
    match missing.iter().find(|program| !is_there(program.name)) {
        Some(still) => bail!("{} is still missing after `{install}`", still.name),
        None => Ok(()),
    }
}

fn apt(arguments: &[&str]) -> Result<()> {
    shell::run(Command::new("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
        .context("a package could not be installed")
}

/// Whether a program can be run: also where only root's PATH leads.
fn is_there(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([Path::new("/usr/sbin").into(), Path::new("/sbin").into()])
        .any(|folder| folder.join(name).is_file())
}

/// Adds targets to the toolchain, where they are missing.
pub fn add_targets(wanted: &[&str]) -> Result<()> {
    let installed = shell::output(Command::new("rustup").args(["target", "list", "--installed"]))?;
    let missing: Vec<&&str> =
        wanted.iter().filter(|target| !installed.lines().any(|line| line == **target)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    shell::run(Command::new("rustup").args(["target", "add"]).args(missing))
}

/// Whether this runs as root.
pub fn is_root() -> Result<bool> {
    Ok(shell::output(Command::new("id").arg("-u"))?.trim() == "0")
}
