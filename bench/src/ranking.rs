//! Ranking processes by what they do now: the agent, what one would type instead, and the floor.

use crate::{
    Programs,
    session::{PATIENCE, Session},
    table,
};
use anyhow::{Context as _, Result, ensure};
use scenarios::victim::{Victim, built};
use serde_json::{Value, json};
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

/// How often a session is asked for one measurement.
const CALLS: u32 = 5;

/// What is done for a row.
enum Work<'s> {
    Command(Vec<String>),
    /// `process_list`, in a session in which it was asked before.
    Call(&'s mut Session, Value),
}

/// One row, and what it came to.
struct Row<'s> {
    name: String,
    work: Work<'s>,
    cpu_s: f64,
    wall_s: Vec<f64>,
    bytes: usize,
}

impl<'s> Row<'s> {
    fn new(name: &str, command: &[&str]) -> Self {
        let command = command.iter().map(ToString::to_string).collect();
        Self::of(name, Work::Command(command))
    }

    /// The first question of a kind loads what it is asked with, and is no part of it.
    fn of_session(name: &str, session: &'s mut Session, asked: Value) -> Result<Self> {
        session.client.call("process_list", &asked, PATIENCE)?;
        Ok(Self::of(name, Work::Call(session, asked)))
    }

    fn of(name: &str, work: Work<'s>) -> Self {
        Self { name: name.to_owned(), work, cpu_s: 0.0, wall_s: Vec::new(), bytes: 0 }
    }
}

pub fn measure(programs: &Programs, processes: usize, rounds: u32) -> Result<String> {
    let crowd = Crowd::gather(processes)?;
    let agent = programs.agent.display().to_string();
    let floor = programs.floor.display().to_string();
    let iterator = programs.iterator.display().to_string();
    let asked = [agent.as_str(), "--local", "process_list", "--json"];
    let without_bpf = [&WITHOUT_BPF[..], &asked].concat();
    let folders = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let [by_bpf, by_files, of_files] = &folders;
    let mut by_bpf = Session::start(programs, by_bpf.path())?;
    let mut by_files = Session::start_within(&WITHOUT_BPF, programs, by_files.path())?;
    let mut of_files = Session::start(programs, of_files.path())?;
    let busy = [
        Row::of_session("process_list (15 rows), in a session", &mut by_bpf, json!({}))?,
        Row::of_session("the same without eBPF", &mut by_files, json!({}))?,
        Row::new("process_list, and nothing else", &asked),
        Row::new("the same without eBPF", &without_bpf),
        Row::new("top -b -n2 -d1", &["top", "-b", "-n2", "-d1"]),
        Row::new("ps aux, once, by lifetime averages", &["ps", "aux"]),
        Row::new("pidstat 1 1", &["pidstat", "1", "1"]),
        Row::new("floor: two passes over stat, in C", &[&floor]),
        Row::new("floor: the same with files that stay open, in C", &[&floor, "kept"]),
    ];
    let sorted = ["--params", r#"{"sort":"open_files"}"#];
    let leaking = [
        Row::of_session(
            "process_list sort=open_files (15 rows), in a session",
            &mut of_files,
            json!({"sort": "open_files"}),
        )?,
        Row::new("process_list sort=open_files, and nothing else", &[&asked[..], &sorted].concat()),
        Row::new("the same without eBPF", &[&without_bpf[..], &sorted].concat()),
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
    mut rows: [Row<'_>; ROWS],
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
            "Processor time of whole commands, {rounds} interleaved rounds; in a session, of the agent's \
             worker, from the second question on. By itself the agent is started anew for each \
             question, and what a session loads once is in every round. {remark}"
        ),
        &["", "CPU ms", "CPU ÷ ours", "wall s", "bytes"],
        &cells,
    ))
}

fn once(row: &mut Row<'_>) -> Result<()> {
    let started = Instant::now();
    let (cpu_s, times, bytes) = match &mut row.work {
        Work::Command(command) => {
            let (cpu_s, bytes) = run(command)?;
            (cpu_s, 1, bytes)
        }
        Work::Call(session, asked) => {
            let (cpu_s, bytes) = call(session, asked)?;
            (cpu_s, CALLS, bytes)
        }
    };
    row.cpu_s += cpu_s / f64::from(times);
    row.wall_s.push(started.elapsed().as_secs_f64() / f64::from(times));
    row.bytes = bytes;
    Ok(())
}

/// What a command took, and how much it printed.
fn run(command: &[String]) -> Result<(f64, usize)> {
    let (program, arguments) = command.split_first().context("an empty command")?;
    let before = children_cpu_s()?;
    let output = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("could not run {program}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} failed: {}: {said}", output.status);
    Ok((children_cpu_s()? - before, output.stdout.len()))
}

/// What some questions took, as the kernel tells a process's time in hundredths of a second.
fn call(session: &mut Session, asked: &Value) -> Result<(f64, usize)> {
    let before = session.cpu_s()?;
    let mut bytes = 0;
    for _ in 0..CALLS {
        let answer = session.client.call("process_list", asked, PATIENCE)?;
        bytes = answer.get("structuredContent").map_or(0, |answer| answer.to_string().len());
    }
    Ok((session.cpu_s()? - before, bytes))
}

/// Processor time of this process's children that were waited for, in seconds.
fn children_cpu_s() -> Result<f64> {
    crate::cpu_s("/proc/self/stat", 16)
}
