//! What being sampled costs a program: its own processor time for the same work.

use super::{WALKS, Walk, ours, perf_record};
use crate::{Programs, table};
use anyhow::{Context as _, Result, ensure};
use scenarios::accuracy::perf;
use serde_json::json;
use std::{
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

/// Rounds of the work, which take about two seconds.
const WORK: &str = "150000";

/// Until whoever samples has begun.
const HEAD_START: Duration = Duration::from_millis(500);

/// Who samples, and how often.
struct Row {
    name: String,
    sampler: Option<(Walk, bool, u32)>,
    cpu_s: Vec<f64>,
}

pub fn measure(programs: &Programs, folder: &Path, workload: &Path, rounds: u32) -> Result<String> {
    let row = |name: String, sampler| Row { name, sampler, cpu_s: Vec::new() };
    let mut rows = vec![row("nobody".to_owned(), None)];
    for hertz in [99, 999] {
        for walk in WALKS {
            let of = |who: &str| format!("{who}, {}, {hertz} Hz", walk.name);
            rows.push(row(of("`perf_record`"), Some((walk, true, hertz))));
            rows.push(row(of("`perf record`"), Some((walk, false, hertz))));
        }
    }
    let rounds = rounds * 2;
    for _ in 0..rounds {
        for row in &mut rows {
            row.cpu_s.push(once(programs, folder, workload, row.sampler)?);
        }
    }
    let least = |row: &Row| row.cpu_s.iter().copied().fold(f64::INFINITY, f64::min);
    let alone = rows.first().map_or(f64::NAN, least);
    let cells: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let cpu_s = least(row);
            vec![
                row.name.clone(),
                format!("{:.1}", cpu_s * 1e3),
                format!("{:+.1}", (cpu_s / alone - 1.0) * 100.0),
            ]
        })
        .collect();
    Ok(table::section(
        "What being sampled costs a program",
        &format!(
            "A program in C that does the same work each time, more than twenty calls deep. Its own \
             processor time, by its own clock, the least of {rounds} interleaved rounds: what other \
             programs take out of the caches only adds to it."
        ),
        &["who samples it", "CPU ms", "more than alone, %"],
        &cells,
    ))
}

/// Lets the program work, and gives what it used.
fn once(
    programs: &Programs,
    folder: &Path,
    workload: &Path,
    sampler: Option<(Walk, bool, u32)>,
) -> Result<f64> {
    let mut command = Command::new(workload);
    command.args(["rounds", WORK]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = Ended(command.spawn().context("could not start the workload")?);
    let mut said = BufReader::new(program.0.stdout.take().context("no stdout")?).lines();
    ensure!(said.next().context("it says nothing")?? == "ready", "it is not ready");
    let pid = program.0.id();
    let _sampler = sampler
        .map(|(walk, is_ours, hertz)| {
            let mut command = if is_ours {
                let parameters = [
                    ("stacks", json!(walk.ours)),
                    ("hertz", json!(hertz)),
                    ("window_ms", json!(60_000)),
                ];
                ours(programs, pid, &parameters)
            } else {
                perf_record(folder, pid, walk, hertz, perf::event(), "60")
            };
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().map(Ended)
        })
        .transpose()
        .context("could not start who samples it")?;
    sleep(HEAD_START);
    program.0.stdin.take().context("no stdin")?.write_all(b"\n")?;
    let nanos: f64 = said.next().context("it says no time")??.parse()?;
    Ok(nanos / 1e9)
}

/// Ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
