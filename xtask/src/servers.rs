//! The SSH servers of other releases of Debian, each with what it needs to run in a folder of its own:
//! fetched once, and never installed. `scenarios/src/servers.rs` starts them.

use crate::{
    agents,
    debian::{Apt, once},
    setup,
    shell::{self, cargo},
};
use anyhow::{Result, bail};
use std::process::Command;

/// The releases: the oldest that people still log in to, and the newest.
const RELEASES: [&str; 2] = ["bullseye", "trixie"];

/// Both servers, a second factor for logins, and what the start of a session needs. apt does not
/// count what every Debian has.
const PACKAGES: [&str; 9] = [
    "base-files",
    "bash",
    "coreutils",
    "dash",
    "dropbear-bin",
    "gzip",
    "libpam-oath",
    "openssh-server",
    "procps",
];

/// Runs the checks on every server, and shows what they print.
pub fn run(check: Option<&str>) -> Result<()> {
    if !setup::is_root()? {
        bail!("this needs root: the servers run in folders and namespaces of their own");
    }
    setup::ensure(&[&setup::FOR_A_TARGET, &setup::FOR_SERVERS])?;
    agents::build()?;
    prepare()?;
    shell::run(cargo().args(["build", "--quiet", "--workspace"]))?;
    let mut tests = cargo();
    tests.args(["test", "--package", "scenarios", "--test", "servers", "--"]);
    tests.args(["--nocapture", "--test-threads", "1"]);
    shell::run(tests.args(check))
}

/// Puts the releases below `target/servers`.
pub fn prepare() -> Result<()> {
    let folder = shell::root().join("target/servers");
    let arch = shell::output(Command::new("dpkg").arg("--print-architecture"))?;
    for release in RELEASES {
        let into = folder.join(release);
        let what = format!("{} of Debian {release} for {}", PACKAGES.join(" "), arch.trim());
        once(&into, &what, || {
            println!("fetching the SSH servers of Debian {release}");
            let apt = Apt::of(&folder, release, arch.trim())?;
            apt.fetch_with_dependencies(&PACKAGES, &into)
        })?;
    }
    Ok(())
}
