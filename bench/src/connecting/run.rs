//! One command, timed as a whole, and by the messages it writes on the way.

use crate::Programs;
use anyhow::{Context as _, Result, ensure};
use scenarios::{sshd::Sshd, without_settings::without_settings};
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

/// A part of what sysmcp does, which ends when it says something.
pub struct Stage {
    pub name: &'static str,
    /// How the message begins that ends it; the last ends with the process.
    until: Option<&'static str>,
}

/// All parts, in their order.
pub const STAGES: [Stage; 6] = [
    Stage { name: "start of sysmcp", until: Some("sysmcp: connecting") },
    Stage { name: "login, and a place for the agent", until: Some("sysmcp: sending") },
    Stage { name: "sending and starting the agent", until: Some("sysmcp: connected") },
    Stage { name: "the call", until: Some("sysmcp: stopping") },
    Stage { name: "stopping the agent, until its receipt", until: Some("sysmcp: receipt") },
    Stage { name: "the end of the process", until: None },
];

/// The part with which the agent is there.
pub const CONNECTED: usize = 2;

/// A command, and what it took each time.
pub struct Row {
    pub name: String,
    /// The key exchange and the cipher.
    pub negotiated: String,
    pub wall_ms: Vec<f64>,
    command: Command,
    /// For each time, when each of [`STAGES`] ended; empty for a command that does not say.
    stages_ms: Vec<Vec<f64>>,
}

impl Row {
    pub fn new(name: &str, mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let (name, negotiated) = (name.to_owned(), String::new());
        Self { name, negotiated, wall_ms: Vec::new(), command, stages_ms: Vec::new() }
    }

    /// What was being done at a time of the last run, in milliseconds since its start.
    pub fn stage_at(&self, ms: f64) -> &'static str {
        let ends = self.stages_ms.last().map(Vec::as_slice).unwrap_or_default();
        let mut stages = STAGES.iter().zip(ends);
        stages.find(|(_, end)| ms < **end).map_or("", |(stage, _)| stage.name)
    }

    /// When the agent had said who it is, each time; `None` where nothing is said about it.
    pub fn connected_ms(&self) -> Option<Vec<f64>> {
        self.stages_ms.iter().map(|ends| ends.get(CONNECTED).copied()).collect()
    }

    /// How long a part took, each time.
    pub fn stage_ms(&self, index: usize) -> Vec<f64> {
        let took = |ends: &Vec<f64>| {
            let began = index.checked_sub(1).map_or(Some(&0.0), |before| ends.get(before))?;
            Some(ends.get(index)? - began)
        };
        self.stages_ms.iter().filter_map(took).collect()
    }
}

/// sysmcp, up to and without the subcommand.
pub fn sysmcp(programs: &Programs, sshd: &Sshd, way: &str, config: &Path) -> Command {
    let mut command = without_settings(&programs.sysmcp);
    command.arg("--target").arg(sshd.target_by(way)).arg("--ssh-config").arg(config);
    command.arg("--audit-log").arg(sshd.file("audit.jsonl")).args(["--toolsets", "selftest"]);
    command
}

/// Runs every row as often as is said, in turn. What is run first finds nothing in any cache, so one
/// round more comes before and does not count.
pub fn rounds(rows: &mut [Row], rounds: usize) -> Result<()> {
    for round in 0..=rounds {
        for row in rows.iter_mut() {
            once(row)?;
            if round == 0 {
                row.wall_ms.clear();
                row.stages_ms.clear();
            }
        }
    }
    Ok(())
}

/// Runs a row once.
pub fn once(row: &mut Row) -> Result<()> {
    let started = Instant::now();
    let mut running = row.command.spawn().with_context(|| format!("could not run {}", row.name))?;
    let passed_ms = || started.elapsed().as_secs_f64() * 1e3;
    let stderr = running.stderr.take().context("no stderr")?;
    let said: Vec<(f64, String)> = BufReader::new(stderr)
        .lines()
        .map_while(Result::ok)
        .map(|line| (passed_ms(), line))
        .collect();
    let status = running.wait()?;
    let wall_ms = passed_ms();
    ensure!(status.success(), "{} ended with {status}: {said:?}", row.name);
    row.wall_ms.push(wall_ms);
    let mut ends_ms = Vec::new();
    for stage in &STAGES {
        let end_ms = match stage.until {
            Some(until) => said.iter().find(|(_, line)| line.starts_with(until)).map(|said| said.0),
            None => Some(wall_ms),
        };
        ends_ms.extend(end_ms);
    }
    // ssh says nothing of the kind.
    row.stages_ms.push(if ends_ms.len() == STAGES.len() { ends_ms } else { Vec::new() });
    Ok(())
}
