//! The agent by itself: its size, how fast it starts, how much memory it holds.

use crate::{Programs, table};
use anyhow::{Context as _, Result};
use std::{
    fs,
    io::Read as _,
    process::{Command, Stdio},
    time::Instant,
};

const STARTS: usize = 30;

pub fn measure(programs: &Programs) -> Result<String> {
    let mut rows = Vec::new();
    for arch in ["x86_64", "aarch64"] {
        let manifest = fs::read_to_string(programs.agents.join(format!("{arch}.json")))?;
        let manifest: serde_json::Value = serde_json::from_str(&manifest)?;
        let packed = fs::metadata(programs.agents.join(format!("{arch}.gz")))?.len();
        let bytes = manifest.get("bytes").map(ToString::to_string).unwrap_or_default();
        rows.push(vec![format!("file, {arch}, bytes (packed)"), format!("{bytes} ({packed})")]);
    }
    let mut starts = Vec::new();
    let mut memory = (0, 0);
    for _ in 0..STARTS {
        let (start_ms, resident, proportional) = start(programs)?;
        starts.push(start_ms);
        memory = (resident, proportional);
    }
    let (resident, proportional) = memory;
    rows.push(vec![
        "start to first byte, ms, median".to_owned(),
        format!("{:.1}", table::median(&mut starts)),
    ]);
    rows.push(vec![
        "resident memory, all its processes, kB (proportional)".to_owned(),
        format!("{resident} ({proportional})"),
    ]);
    let controller = fs::metadata(&programs.sysmcp)?.len();
    rows.push(vec!["sysmcp with both agents inside, bytes".to_owned(), controller.to_string()]);
    Ok(table::section("The agent", "Started and asked nothing.", &["", "value"], &rows))
}

/// Starts an agent, and waits for its first bytes.
fn start(programs: &Programs) -> Result<(f64, u64, u64)> {
    let token = "ab".repeat(16);
    let started = Instant::now();
    let mut agent = Command::new(&programs.agent)
        .args(["serve", &token])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut first = [0; 1];
    agent.stdout.as_mut().context("no stdout")?.read_exact(&mut first)?;
    let start_ms = started.elapsed().as_secs_f64() * 1e3;
    let supervisor = agent.id();
    let children = fs::read_to_string(format!("/proc/{supervisor}/task/{supervisor}/children"))?;
    let mut pids = vec![supervisor];
    for child in children.split_whitespace() {
        pids.push(child.parse()?);
    }
    let all = |field: &str| pids.iter().map(|pid| kib(*pid, field)).sum::<u64>();
    let memory = (all("Rss:"), all("Pss:"));
    drop(agent.stdin.take());
    agent.wait()?;
    Ok((start_ms, memory.0, memory.1))
}

fn kib(pid: u32, field: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).unwrap_or_default()
}
