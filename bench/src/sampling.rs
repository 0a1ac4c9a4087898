//! Sampling stacks: what it costs the program that is sampled, and what a ranked report costs, beside
//! perf in the same way of walking stacks.

mod overhead;
mod report;
mod session;
mod tables;

use crate::{Programs, there};
use anyhow::{Context as _, Result, ensure};
use scenarios::accuracy::workload::{compile, source};
use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

/// A way of walking stacks, as both call it.
#[derive(Clone, Copy)]
struct Walk {
    name: &'static str,
    ours: &'static str,
    perf: &'static str,
}

const WALKS: [Walk; 2] = [
    Walk { name: "frame pointers", ours: "frame_pointers", perf: "fp" },
    Walk { name: "unwind tables", ours: "unwind_tables", perf: "dwarf,8192" },
];

/// Measures it.
pub fn measure(programs: &Programs, rounds: u32) -> Result<String> {
    there(&[&programs.collapse, &programs.debug])?;
    let folder = tempfile::tempdir()?;
    let workload = build(folder.path())?;
    let rounds = rounds.div_ceil(3).max(2);
    let mut text = overhead::measure(programs, folder.path(), &workload, rounds)?;
    text.push_str(&report::measure(programs, folder.path(), &workload, rounds)?);
    text.push_str(&session::measure(programs, &workload)?);
    text.push_str(&tables::measure(programs, folder.path())?);
    Ok(text)
}

/// The program in C that is sampled, with frame pointers, so that both ways find the same. It has its C
/// library in itself: on a machine with the library's tables for debuggers, `perf_record` would read
/// lines from them, which `perf report` does not. What these cost is measured apart.
fn build(folder: &Path) -> Result<PathBuf> {
    let source = source("shares.c").display().to_string();
    let arguments = ["gcc", "-O2", "-static", "-fno-omit-frame-pointer", "-o", "workload", &source];
    compile(folder, &arguments)?;
    Ok(folder.join("workload"))
}

/// What a command used.
#[derive(Clone, Copy, Default)]
struct Used {
    cpu_s: f64,
    wall_s: f64,
    /// Of its stdout.
    bytes: usize,
}

/// Runs a command to its end.
fn run(command: &mut Command) -> Result<Used> {
    let (started, before) = (Instant::now(), children_cpu_s()?);
    let output = command.stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("could not run {command:?}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} failed: {}: {said}", output.status);
    let wall_s = started.elapsed().as_secs_f64();
    Ok(Used { cpu_s: children_cpu_s()? - before, wall_s, bytes: output.stdout.len() })
}

/// Processor time of this process's children that were waited for, in seconds.
fn children_cpu_s() -> Result<f64> {
    crate::cpu_s("/proc/self/stat", 16)
}

/// The agent, by itself, asked to record a process.
fn ours(programs: &Programs, pid: u32, parameters: &[(&str, serde_json::Value)]) -> Command {
    let mut asked = serde_json::json!({"pid": pid});
    if let Some(asked) = asked.as_object_mut() {
        asked.extend(parameters.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    }
    let mut command = Command::new(&programs.agent);
    command.args(["--local", "perf_record", "--json", "--params", &asked.to_string()]);
    command
}

/// perf, with neither the user's configuration nor the user's cache.
fn perf(folder: &Path) -> Command {
    let mut command = Command::new("perf");
    command.env("PERF_CONFIG", "/dev/null").env("PERF_BUILDID_DIR", folder.join("build-ids"));
    command
}

/// perf, asked to record a process for some seconds.
fn perf_record(folder: &Path, pid: u32, walk: Walk, hertz: u32, event: &str, s: &str) -> Command {
    let mut command = perf(folder);
    command.args(["record", "-q", "-e", event, "-F", &hertz.to_string()]);
    command.args(["--call-graph", walk.perf, "-p", &pid.to_string(), "-o"]);
    command.arg(folder.join("perf.data")).args(["--", "sleep", s]);
    command
}
