//! The programs of the scenarios: a service, its clients, a link that can be slow or cut.

use anyhow::Result;
use clap::{Parser, Subcommand};
use scenarios::{
    delayed_link::{self, Conditions},
    demo,
    faults::Fault,
    load, many_connections, many_targets, relay, service, silent_mount, vm,
};
use std::{process::ExitCode, time::Duration};

#[derive(Debug, Parser)]
#[command(name = "scenarios", about = "Faulty services with a known cause")]
struct Scenarios {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Find a fault through a private sshd, and tell the story
    Demo,
    /// Serve requests on loopback, with a fault; prints the port
    Serve {
        /// What is wrong
        #[arg(long, value_enum)]
        fault: Fault,
        /// Seconds after which the service ends by itself
        #[arg(long, default_value_t = 120)]
        seconds: u64,
    },
    /// Send requests to a service, as fast as it answers
    Load {
        /// Its port
        port: u16,
        /// Clients at the same time
        #[arg(long, default_value_t = 4)]
        clients: usize,
        /// Seconds to go on
        #[arg(long, default_value_t = 120)]
        seconds: u64,
    },
    /// Use a processor and nothing else
    Burn {
        /// Seconds to go on
        #[arg(long, default_value_t = 120)]
        seconds: u64,
        /// Seconds to sleep before
        #[arg(long, default_value_t = 0)]
        idle: u64,
        /// Processor to stay on
        #[arg(long)]
        cpu: Option<usize>,
    },
    /// Carry bytes between stdin, stdout and a port on loopback, slowly, until a file appears
    Relay {
        /// The port
        port: u16,
        /// Bytes per second at most
        #[arg(long)]
        rate: Option<u64>,
        /// When this file exists, nothing is carried any more, and nothing is closed
        #[arg(long)]
        cut: Option<std::path::PathBuf>,
        /// After so many bytes of the server's, nothing is carried any more either
        #[arg(long)]
        stall: Option<u64>,
    },
    /// Join two networks by a link that takes its time, until stdin closes; prints how to enter them
    DelayedLink {
        /// Milliseconds of a round trip
        #[arg(long, default_value_t = 100)]
        round_trip_ms: u64,
        /// Bytes a second each way
        #[arg(long)]
        rate: Option<u64>,
        /// How many of a thousand packets are lost
        #[arg(long, default_value_t = 0)]
        lost_per_mille: u32,
    },
    /// Connect to many servers at once, and print as JSON what it costs
    ManyConnections {
        /// The way of getting there: russh, openssh or ssh
        #[arg(long, default_value = "ssh")]
        way: String,
        /// Servers, each with one connection
        #[arg(long, default_value_t = 100)]
        connections: u8,
        /// Calls over each connection
        #[arg(long, default_value_t = 20)]
        calls: u32,
    },
    /// Ask many targets through one MCP server, and print as JSON what it costs
    ManyTargets {
        /// Targets in all
        #[arg(long, default_value_t = 50)]
        targets: u8,
        /// How many of them are dead
        #[arg(long, default_value_t = 5)]
        dead: u8,
    },
    /// Be the first process of a guest, and do what its host asks
    Guest,
    /// Mount a file system that answers nothing, until the end
    SilentMount {
        /// Where
        folder: std::path::PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Scenarios::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("scenarios: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Demo => demo::run(),
        Command::Serve { fault, seconds } => service::run(fault, Duration::from_secs(seconds)),
        Command::Load { port, clients, seconds } => {
            load::run(port, clients, Duration::from_secs(seconds));
            Ok(())
        }
        Command::Burn { seconds, idle, cpu } => {
            service::burn(Duration::from_secs(idle), Duration::from_secs(seconds), cpu);
            Ok(())
        }
        Command::Relay { port, rate, cut, stall } => relay::run(port, rate, cut.as_deref(), stall),
        Command::DelayedLink { round_trip_ms, rate, lost_per_mille } => {
            let delayed = Conditions::delayed(Duration::from_millis(round_trip_ms));
            let conditions = delayed.losing(lost_per_mille);
            delayed_link::run(Conditions { bytes_per_s: rate, ..conditions })
        }
        Command::ManyConnections { way, connections, calls } => {
            let account = many_connections::run(&way, connections, calls)?;
            println!("{}", serde_json::to_string(&account)?);
            Ok(())
        }
        Command::ManyTargets { targets, dead } => {
            println!("{}", serde_json::to_string(&many_targets::run(targets, dead)?)?);
            Ok(())
        }
        Command::Guest => vm::inside::run(),
        Command::SilentMount { folder } => silent_mount::serve(&folder),
    }
}
