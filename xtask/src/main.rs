//! The developer's commands. `cargo xtask --help` lists them.

mod agents;
mod shell;

use anyhow::Result;
use clap::{Parser, Subcommand};

/// The developer's commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the agents for both processors, for the controller to embed
    Agents {
        /// Build agents that misbehave on request instead, for the tests
        #[arg(long)]
        faulty: bool,
    },
}

fn main() -> Result<()> {
    match Xtask::parse().command {
        Command::Agents { faulty: false } => agents::build(),
        Command::Agents { faulty: true } => agents::build_faulty(),
    }
}
