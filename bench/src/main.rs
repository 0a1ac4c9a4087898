//! What sysmcp costs, beside what one would type instead, in one run on one machine.
//!
//! Processor seconds are compared, not wall time: the machine is shared. Only connecting is compared
//! by wall time, because most of it is waiting. Rounds are interleaved, so that a change of the
//! machine's speed meets every row alike.

mod agent;
mod beside;
mod calls;
mod connecting;
mod memory;
mod overhead;
mod ranking;
mod sampling;
mod session;
mod table;
mod tracing;

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use std::{path::PathBuf, process::ExitCode};

/// Measures, and writes the results.
#[derive(Debug, Parser)]
#[command(name = "bench")]
struct Arguments {
    /// Folder of the project
    root: PathBuf,
    /// Rounds of the ranking
    #[arg(long, default_value_t = 8)]
    rounds: u32,
    /// Processes on the crowded host
    #[arg(long, default_value_t = 5000)]
    crowd: usize,
    /// Instead of measuring the cost, asks this program and sysmcp the same about a host with faults
    #[arg(long)]
    beside: Option<PathBuf>,
    /// Measure what connecting costs and nothing else, and show it packet by packet
    #[arg(long)]
    only_connecting: bool,
    /// Measure what sampling costs and nothing else
    #[arg(long, conflicts_with = "only_connecting")]
    only_sampling: bool,
    /// Measure what tracing system calls costs and nothing else
    #[arg(long, conflicts_with_all = ["only_connecting", "only_sampling"])]
    only_tracing: bool,
    /// Measure what ranking processes costs and nothing else
    #[arg(long, conflicts_with_all = ["only_connecting", "only_sampling", "only_tracing"])]
    only_ranking: bool,
    /// File to write
    #[arg(long)]
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let programs = Programs::find(&arguments.root)?;
    let text = match &arguments.beside {
        Some(peer) => beside::compare(&programs, peer)?,
        None => cost(arguments, &programs)?,
    };
    println!("{text}");
    if let Some(out) = &arguments.out {
        std::fs::write(out, text).with_context(|| format!("could not write {}", out.display()))?;
    }
    Ok(())
}

fn cost(arguments: &Arguments, programs: &Programs) -> Result<String> {
    let mut text = table::heading("What it costs", "cargo xtask bench")?;
    if arguments.only_connecting {
        text.push_str(&connecting::measure(programs, true)?);
        text.push_str(&memory::measure()?);
        return Ok(text);
    }
    if arguments.only_sampling {
        text.push_str(&sampling::measure(programs, arguments.rounds)?);
        return Ok(text);
    }
    if arguments.only_tracing {
        text.push_str(&tracing::measure(programs, arguments.rounds)?);
        return Ok(text);
    }
    if arguments.only_ranking {
        text.push_str(&rankings(arguments, programs)?);
        return Ok(text);
    }
    text.push_str(&agent::measure(programs)?);
    text.push_str(&rankings(arguments, programs)?);
    text.push_str(&overhead::measure(programs, arguments.crowd)?);
    text.push_str(&sampling::measure(programs, arguments.rounds)?);
    text.push_str(&tracing::measure(programs, arguments.rounds)?);
    text.push_str(&calls::measure(programs)?);
    text.push_str(&connecting::measure(programs, false)?);
    text.push_str(&memory::measure()?);
    Ok(text)
}

/// On hosts of several sizes.
fn rankings(arguments: &Arguments, programs: &Programs) -> Result<String> {
    let (rounds, crowd) = (arguments.rounds, arguments.crowd);
    let sizes = [(200, rounds * 2), (crowd, rounds), (crowd * 3, rounds.div_ceil(2))];
    let measure = |(processes, rounds)| ranking::measure(programs, processes, rounds);
    sizes.into_iter().map(measure).collect()
}

/// User and system time in a `stat` file, in seconds; `first` is the number of the first of the two
/// fields in proc_pid_stat(5): 14 for the process itself, 16 for children it waited for.
fn cpu_s(stat: &str, first: usize) -> Result<f64> {
    const TICKS_PER_S: f64 = 100.0;
    const FIELD_AFTER_NAME: usize = 3;
    let stat = std::fs::read_to_string(stat)?;
    let (_, rest) = stat.rsplit_once(')').context("no name in stat")?;
    let fields = rest.split_whitespace().skip(first - FIELD_AFTER_NAME).take(2);
    let ticks = fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>();
    Ok(ticks / TICKS_PER_S)
}

/// The programs that are measured, as they are released.
struct Programs {
    sysmcp: PathBuf,
    agent: PathBuf,
    floor: PathBuf,
    /// The floor of a pass by a program in the kernel.
    iterator: PathBuf,
    /// Where the packed agents are.
    agents: PathBuf,
    /// What folds the text that perf prints.
    collapse: PathBuf,
    /// A program with tables for debuggers, as it is built without optimizing.
    debug: PathBuf,
}

impl Programs {
    fn find(root: &std::path::Path) -> Result<Self> {
        let arch = std::env::consts::ARCH;
        let programs = Self {
            sysmcp: root.join("target/release/sysmcp"),
            agent: root.join(format!("target/{arch}-unknown-linux-musl/agent/probe-agent")),
            floor: root.join("target/release/floor"),
            iterator: root.join("target/release/iterator"),
            agents: root.join("target/agents"),
            collapse: root.join("target/peers/inferno/bin/inferno-collapse-perf"),
            debug: root.join("target/debug/scenarios"),
        };
        there(&[&programs.sysmcp, &programs.agent, &programs.floor, &programs.iterator])?;
        Ok(programs)
    }
}

/// Checks that programs have been built.
fn there(programs: &[&std::path::Path]) -> Result<()> {
    for program in programs {
        let shown = program.display();
        ensure!(program.exists(), "{shown} is not there; run `cargo xtask bench`");
    }
    Ok(())
}
