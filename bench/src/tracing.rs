//! Tracing system calls: what it costs the program that is traced, beside what one would type instead,
//! and what it takes to load it.

mod loading;
mod ours;
mod peers;
mod workload;

use crate::{Programs, table};
use anyhow::{Context as _, Result};
use ours::Ours;
use peers::Peer;
use std::{path::Path, time::Duration};
use workload::{Used, Workload};

/// Between the first sign of a tracer and all of it.
const HEAD_START: Duration = Duration::from_millis(700);

/// Who traces.
enum Tracer {
    Nobody,
    Ours(Box<Ours>),
    Peer(Peer),
}

/// A tracer, and what the program used in each round.
struct Row {
    name: String,
    tracer: Tracer,
    used: Vec<Used>,
    /// Why there is nothing.
    missing: Option<String>,
    /// What the tracer counted, of what there was.
    counted: Option<f64>,
}

impl Row {
    fn new(name: impl Into<String>, tracer: Tracer) -> Self {
        Self { name: name.into(), tracer, used: Vec::new(), missing: None, counted: None }
    }

    fn least(&self, part: fn(&Used) -> f64) -> f64 {
        self.used.iter().map(part).fold(f64::INFINITY, f64::min)
    }
}

/// Measures it.
pub fn measure(programs: &Programs, rounds: u32) -> Result<String> {
    let folder = tempfile::tempdir()?;
    let rounds = rounds.div_ceil(3).max(3);
    let mut text = String::new();
    for workload in workload::all(folder.path())? {
        text.push_str(&beside(rows(programs)?, folder.path(), &workload, rounds)?);
    }
    let workload = workload::ping_pong(folder.path())?;
    text.push_str(&beside(rows_of_waits(programs)?, folder.path(), &workload, rounds)?);
    text.push_str(&loading::measure(programs, folder.path())?);
    Ok(text)
}

fn rows(programs: &Programs) -> Result<Vec<Row>> {
    let mut rows = vec![Row::new("nobody", Tracer::Nobody)];
    for (name, asked) in ours::WAYS {
        rows.push(Row::new(
            *name,
            Tracer::Ours(Ours::start(programs, "syscall_trace", asked)?.into()),
        ));
    }
    rows.extend(peers::ALL.iter().map(|peer| Row::new(peer.name, Tracer::Peer(*peer))));
    Ok(rows)
}

fn rows_of_waits(programs: &Programs) -> Result<Vec<Row>> {
    let mut rows = vec![Row::new("nobody", Tracer::Nobody)];
    for (name, asked) in ours::OF_WAITS {
        rows.push(Row::new(
            *name,
            Tracer::Ours(Ours::start(programs, "perf_record", asked)?.into()),
        ));
    }
    rows.extend(peers::OF_WAITS.iter().map(|peer| Row::new(peer.name, Tracer::Peer(*peer))));
    Ok(rows)
}

/// The same work again and again, each time traced by another.
fn beside(mut rows: Vec<Row>, folder: &Path, workload: &Workload, rounds: u32) -> Result<String> {
    for _ in 0..rounds {
        for row in rows.iter_mut().filter(|row| row.missing.is_none()) {
            let what = format!("{}, traced by {}", workload.name, row.name);
            match once(folder, workload, &mut row.tracer).with_context(|| what)? {
                Ok((used, counted)) => {
                    row.used.push(used);
                    row.counted = counted;
                }
                Err(missing) => row.missing = Some(missing),
            }
        }
    }
    let alone = rows.first().map_or(Used::default(), |row| Used {
        cpu_s: row.least(|used| used.cpu_s),
        wall_s: row.least(|used| used.wall_s),
    });
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(row, alone)).collect();
    Ok(table::section(
        &format!("What being traced costs: {}", workload.name),
        &format!(
            "{} system calls, the least of {rounds} interleaved rounds: the program's own processor time, \
             and the time from its first call to its end. Every tracer is at work before the first call, \
             sysmcp in a session in which it is loaded. Counted is what the tracer itself told, of what \
             the program made.",
            workload.calls
        ),
        &["who traces it", "CPU ms", "÷ alone", "wall ms", "÷ alone", "counted, %"],
        &cells,
    ))
}

fn cells(row: &Row, alone: Used) -> Vec<String> {
    if let Some(missing) = &row.missing {
        return vec![row.name.clone(), missing.clone(), "".into(), "".into(), "".into(), "".into()];
    }
    let (cpu_s, wall_s) = (row.least(|used| used.cpu_s), row.least(|used| used.wall_s));
    vec![
        row.name.clone(),
        format!("{:.0}", cpu_s * 1e3),
        format!("{:.2}", cpu_s / alone.cpu_s),
        format!("{:.0}", wall_s * 1e3),
        format!("{:.2}", wall_s / alone.wall_s),
        row.counted.map_or_else(|| "-".to_owned(), |share| format!("{:.2}", share * 100.0)),
    ]
}

/// One round: what the program used, and which share of its calls the tracer counted; or why the tracer
/// is not there.
fn once(
    folder: &Path,
    workload: &Workload,
    tracer: &mut Tracer,
) -> Result<Result<(Used, Option<f64>), String>> {
    let program = workload.start()?;
    match tracer {
        Tracer::Nobody => Ok(Ok((program.run()?, None))),
        Tracer::Peer(peer) => {
            if let Some(missing) = peer.missing() {
                return Ok(Err(missing));
            }
            let tracing = peer.start(folder, program.pid())?;
            let used = program.run()?;
            drop(tracing);
            Ok(Ok((used, None)))
        }
        Tracer::Ours(ours) => {
            if let Some(said) = ours.begin(program.pid())? {
                return Ok(Err(said));
            }
            let used = program.run()?;
            let counted = ours.end()?;
            Ok(Ok((used, counted.map(|counted| counted / workload.calls as f64))))
        }
    }
}

/// Whether somebody traces a process by ptrace.
fn has_tracer(pid: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
    tracer.is_some_and(|tracer| tracer.trim() != "0")
}
