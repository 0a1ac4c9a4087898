//! The developer's commands. `cargo xtask --help` lists them.

mod accuracy;
mod agents;
mod bless;
mod bpf;
mod check;
mod debian;
mod demo;
mod elsewhere;
mod fuzz;
mod hosts;
mod kernels;
mod measure;
mod peers;
mod processors;
mod servers;
mod setup;
mod shell;
mod suite;
#[cfg(test)]
mod tidy;

use anyhow::Result;
use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// The developer's commands.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask")]
struct Xtask {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find a real fault in a real service, through a real, pushed agent
    Demo,
    /// Check everything that CI checks; sets up what is missing
    Test {
        /// Also the slow matrices, whole instead of sampled
        #[arg(long)]
        full: bool,
    },
    /// Build the agents for both processors, for the controller to embed
    Agents {
        /// Build agents that misbehave on request instead, for the tests
        #[arg(long)]
        faulty: bool,
    },
    /// Compile the agent's eBPF programs, for machines without the compiler
    Bpf,
    /// Check the controller's types for Windows and macOS, where it is not run
    Elsewhere,
    /// Fuzz what reads foreign bytes
    Fuzz {
        /// Only this target
        target: Option<String>,
        /// Each reader of a kernel file by itself instead
        #[arg(long, conflicts_with = "target")]
        each_reader: bool,
        /// Readers at a time; as many as there are processors unless said otherwise
        #[arg(long, value_name = "COUNT", requires = "each_reader")]
        jobs: Option<usize>,
        /// Seconds for each target, or each reader
        #[arg(long, default_value_t = 600)]
        seconds: u64,
    },
    /// Boot other kernels with the agent inside, and check what it says there
    Kernels {
        /// Only this one, as 6.1
        #[arg(long)]
        kernel: Option<String>,
        /// Only checks whose name begins so
        #[arg(long)]
        check: Option<String>,
    },
    /// Log in to SSH servers of other releases, by every kind of login
    Servers {
        /// Only checks whose name begins so
        #[arg(long)]
        check: Option<String>,
    },
    /// Make hosts of all kinds, ask each for an answer, and write down what came of it
    Hosts {
        /// Only hosts whose name has this in it
        #[arg(long)]
        host: Option<String>,
    },
    /// Look at programs together with perf, and write down what both found
    Accuracy {
        /// Only programs whose name has this in it; shows what was found, and writes nothing
        #[arg(long)]
        program: Option<String>,
    },
    /// Measure what it costs, beside what one would type instead
    Bench,
    /// Ask linux-mcp-server and sysmcp the same about a host with known faults
    Compare,
    /// Write goldens and generated documentation anew; then read the difference
    Bless,
}

fn main() -> ExitCode {
    match run(Xtask::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cargo xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo => demo::run(),
        Command::Test { full } => check::run(full),
        Command::Agents { faulty: false } => agents::build(),
        Command::Agents { faulty: true } => agents::build_faulty(),
        Command::Bpf => bpf::run(),
        Command::Elsewhere => elsewhere::run(),
        Command::Fuzz { each_reader: true, seconds, jobs, .. } => fuzz::each_reader(seconds, jobs),
        Command::Fuzz { target, seconds, .. } => fuzz::run(target.as_deref(), seconds),
        Command::Kernels { kernel, check } => kernels::run(kernel.as_deref(), check.as_deref()),
        Command::Servers { check } => servers::run(check.as_deref()),
        Command::Hosts { host } => hosts::run(host.as_deref()),
        Command::Accuracy { program } => accuracy::run(program.as_deref()),
        Command::Bench => measure::run(),
        Command::Compare => measure::compare(),
        Command::Bless => bless::run(),
    }
}
