//! The programs of `scenarios/src/accuracy/programs.rs`, looked at by `perf_record` and by perf at the
//! same time: what both found is written to `docs/accuracy.md`.

use crate::{
    agents,
    debian::{Apt, once},
    setup,
    shell::{self, cargo},
};
use anyhow::{Result, bail};
use std::process::Command;

/// The release whose files are the root of a container: its Python names what it runs for perf, which
/// takes 3.12.
const RELEASE: &str = "trixie";

/// What runs there. apt does not count what every Debian has.
const PACKAGES: [&str; 5] = ["base-files", "coreutils", "dash", "mount", "python3"];

/// Looks at all programs and writes the page, or at those with a word in their name.
pub fn run(program: Option<&str>) -> Result<()> {
    if !setup::is_root()? {
        bail!("this needs root: the kernel's part of a profile, and namespaces");
    }
    setup::ensure(&[&setup::FOR_A_TARGET, &setup::FOR_TESTS, &setup::FOR_ACCURACY])?;
    agents::build()?;
    prepare()?;
    shell::run(cargo().args(["build", "--quiet", "--workspace"]))?;
    let mut tests = cargo();
    tests.args(["test", "--quiet", "--package", "scenarios", "--test", "accuracy", "--"]);
    tests.args(program).env("SYSMCP_TEST_FULL", "1");
    if program.is_some() {
        return shell::run(&mut tests);
    }
    shell::run(tests.env("SYSMCP_BLESS", "1"))?;
    println!("written to docs/accuracy.md; read the difference with `git diff`");
    Ok(())
}

/// Puts the release below `target/accuracy`.
pub fn prepare() -> Result<()> {
    let folder = shell::root().join("target/accuracy");
    let arch = shell::output(Command::new("dpkg").arg("--print-architecture"))?;
    let into = folder.join(RELEASE);
    let what = format!("{} of Debian {RELEASE} for {}", PACKAGES.join(" "), arch.trim());
    once(&into, &what, || {
        println!("fetching Debian {RELEASE}");
        let apt = Apt::of(&folder, RELEASE, arch.trim())?;
        apt.fetch_with_dependencies(&PACKAGES, &into)
    })
}
