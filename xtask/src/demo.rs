//! The demonstration: a real faulty service, found through a real, pushed agent.

use crate::{agents, setup, shell, shell::cargo};
use anyhow::Result;
use std::process::Command;

/// Sets up, builds, and runs it.
pub fn run() -> Result<()> {
    setup::ensure(&[&setup::FOR_A_TARGET])?;
    println!("building the agents and the controller; the first time this takes some minutes");
    agents::build()?;
    shell::run(cargo().args([
        "build",
        "--quiet",
        "--package",
        "controller",
        "--package",
        "scenarios",
    ]))?;
    let program = shell::root().join("target/debug/scenarios");
    shell::run(Command::new(program).arg("demo"))
}
