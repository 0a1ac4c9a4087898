//! Measures what sysmcp costs, beside what one would type instead.

use crate::{agents, setup, shell, shell::cargo};
use anyhow::Result;
use std::process::Command;

/// Builds what is released, measures it, and writes `bench/results.md`.
pub fn run() -> Result<()> {
    setup::ensure(&[&setup::FOR_A_TARGET, &setup::FOR_TESTS])?;
    agents::build()?;
    let mut build = cargo();
    build.args(["build", "--release", "--quiet", "--package", "controller", "--package", "bench"]);
    shell::run(build.args(["--package", "scenarios"]))?;
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-o", "target/release/floor", "bench/floor.c"]);
    shell::run(&mut cc)?;
    let mut bench = Command::new(shell::root().join("target/release/bench"));
    bench.arg(shell::root()).arg("--out").arg(shell::root().join("bench/results.md"));
    shell::run(&mut bench)
}
