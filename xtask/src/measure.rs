//! Measures what sysmcp costs, beside what one would type instead, and what it says, beside another
//! server.

use crate::{agents, peers, setup, shell, shell::cargo};
use anyhow::Result;
use std::process::Command;

/// Builds what is released, measures it, and writes `bench/results.md`.
pub fn run() -> Result<()> {
    build()?;
    peers::install_collapse()?;
    // What is sampled there has tables for debuggers.
    shell::run(cargo().args(["build", "--quiet", "--package", "scenarios"]))?;
    bench(&["--out", "bench/results.md"])
}

/// Asks another server the same about a host with faults, and writes the page about it.
pub fn compare() -> Result<()> {
    build()?;
    let peer = peers::install_server()?;
    bench(&["--beside", &peer.to_string_lossy(), "--out", "docs/beside-linux-mcp-server.md"])
}

fn build() -> Result<()> {
    setup::ensure(&[&setup::FOR_A_TARGET, &setup::FOR_TESTS, &setup::FOR_BENCH])?;
    agents::build()?;
    let mut build = cargo();
    build.args(["build", "--release", "--quiet", "--package", "controller", "--package", "bench"]);
    shell::run(build.args(["--package", "scenarios"]))?;
    for floor in ["floor", "iterator"] {
        let (program, source) = (format!("target/release/{floor}"), format!("bench/{floor}.c"));
        shell::run(Command::new("cc").args(["-O2", "-o", &program, &source]))?;
    }
    Ok(())
}

fn bench(arguments: &[&str]) -> Result<()> {
    let mut bench = Command::new(shell::root().join("target/release/bench"));
    shell::run(bench.arg(shell::root()).args(arguments))
}
