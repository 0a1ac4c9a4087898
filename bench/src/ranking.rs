//! Ranking processes by what they do now: the agent, what one would type instead, and the floor.

use crate::{Programs, table};
use anyhow::{Context as _, Result, ensure};
use scenarios::victim::{Victim, built};
use std::{
    process::{Command, Stdio},
    time::Instant,
};
use tempfile::TempDir;

/// Idle processes, gone when dropped.
pub struct Crowd {
    _all: Victim,
    _folder: TempDir,
}

impl Crowd {
    pub fn gather(processes: usize) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut crowd = Command::new(built("scale/crowd.c", folder.path())?);
        let arguments = ["processes", &processes.to_string()];
        let (all, _) = Victim::start_and_wait(crowd.args(arguments))?;
        Ok(Self { _all: all, _folder: folder })
    }
}

/// Takes away what loading programs into the kernel takes: as root otherwise.
const WITHOUT_BPF: [&str; 2] = ["setpriv", "--bounding-set=-sys_admin,-bpf,-perfmon"];

/// One row: a command, and what it came to.
struct Row {
    name: String,
    command: Vec<String>,
    cpu_s: f64,
    wall_s: Vec<f64>,
    bytes: usize,
}

impl Row {
    fn new(name: &str, command: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            command: command.iter().map(ToString::to_string).collect(),
            cpu_s: 0.0,
            wall_s: Vec::new(),
            bytes: 0,
        }
    }
}

pub fn measure(programs: &Programs, processes: usize, rounds: u32) -> Result<String> {
    let crowd = Crowd::gather(processes)?;
    let agent = programs.agent.display().to_string();
    let floor = programs.floor.display().to_string();
    let iterator = programs.iterator.display().to_string();
    let asked = [agent.as_str(), "--local", "process_list", "--json"];
    let without_bpf = [&WITHOUT_BPF[..], &asked].concat();
    let busy = [
        Row::new("process_list (15 rows)", &asked),
        Row::new("the same without eBPF", &without_bpf),
        Row::new("top -b -n2 -d1", &["top", "-b", "-n2", "-d1"]),
        Row::new("ps aux, once, by lifetime averages", &["ps", "aux"]),
        Row::new("pidstat 1 1", &["pidstat", "1", "1"]),
        Row::new("floor: two passes over stat, in C", &[&floor]),
        Row::new("floor: the same with files that stay open, in C", &[&floor, "kept"]),
    ];
    let by_files = ["--params", r#"{"sort":"open_files"}"#];
    let leaking = [
        Row::new("process_list sort=open_files (15 rows)", &[&asked[..], &by_files].concat()),
        Row::new("the same without eBPF", &[&without_bpf[..], &by_files].concat()),
        Row::new("lsof -n -P", &["lsof", "-n", "-P"]),
        Row::new("floor: one pass by a program in the kernel, in C", &[&iterator]),
    ];
    let busy = section(
        &format!("Ranking {processes} idle processes and what else runs, over one second"),
        "`top` and `pidstat` name no container, no storage and no wait.",
        busy,
        rounds,
    )?;
    let leaking = section(
        &format!("Ranking the same {processes} by their open files"),
        "`lsof` lists every file, also those that are mapped, and adds nothing up.",
        leaking,
        rounds,
    )?;
    drop(crowd);
    Ok(busy + &leaking)
}

/// Runs the commands in turn, and says what they cost.
fn section<const ROWS: usize>(
    title: &str,
    remark: &str,
    mut rows: [Row; ROWS],
    rounds: u32,
) -> Result<String> {
    for _ in 0..rounds {
        rows.iter_mut().try_for_each(once)?;
    }
    let ours = rows.first().map_or(0.0, |row| row.cpu_s);
    let cells: Vec<Vec<String>> = rows
        .iter_mut()
        .map(|row| {
            vec![
                row.name.clone(),
                format!("{:.1}", row.cpu_s / f64::from(rounds) * 1e3),
                format!("{:.1}", row.cpu_s / ours),
                format!("{:.2}", table::median(&mut row.wall_s)),
                row.bytes.to_string(),
            ]
        })
        .collect();
    Ok(table::section(
        title,
        &format!(
            "Processor time of whole commands, {rounds} interleaved rounds. {remark} The agent is \
             started anew for each: what a session loads once is in every round."
        ),
        &["", "CPU ms", "CPU ÷ ours", "wall s", "bytes"],
        &cells,
    ))
}

fn once(row: &mut Row) -> Result<()> {
    let (program, arguments) = row.command.split_first().context("an empty command")?;
    let (started, before) = (Instant::now(), children_cpu_s()?);
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {}: {said}", output.status);
    row.cpu_s += children_cpu_s()? - before;
    row.wall_s.push(started.elapsed().as_secs_f64());
    row.bytes = output.stdout.len();
    Ok(())
}

/// Processor time of this process's children that were waited for, in seconds.
fn children_cpu_s() -> Result<f64> {
    crate::cpu_s("/proc/self/stat", 16)
}
