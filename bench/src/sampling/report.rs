//! From nothing to a ranked report of five seconds: the whole commands, and what they print.

use super::{Used, WALKS, Walk, ours, perf, perf_record, run};
use crate::{Programs, table};
use anyhow::Result;
use scenarios::accuracy::{perf::event, workload};
use serde_json::json;
use std::{fs, path::Path, process::Command};

const HERTZ: u32 = 999;
const WINDOW_S: &str = "5";

/// A way to a ranked report, and what its parts used in all rounds.
struct Row {
    name: String,
    /// Recording, and what is done with what was recorded.
    parts: [Used; 2],
    bytes: u64,
    wall_s: Vec<f64>,
}

impl Row {
    fn new(name: String) -> Self {
        Self { name, parts: [Used::default(); 2], bytes: 0, wall_s: Vec::new() }
    }

    fn add(&mut self, recording: Used, reading: Used, bytes: u64) {
        for (part, used) in self.parts.iter_mut().zip([recording, reading]) {
            part.cpu_s += used.cpu_s;
        }
        self.wall_s.push(recording.wall_s + reading.wall_s);
        self.bytes = bytes;
    }

    fn cpu_s(&self) -> f64 {
        self.parts.iter().map(|part| part.cpu_s).sum()
    }
}

pub fn measure(programs: &Programs, folder: &Path, workload: &Path, rounds: u32) -> Result<String> {
    let running = workload::start(&mut Command::new(workload))?;
    let mut cells = Vec::new();
    for walk in WALKS {
        for with_kernel in [false, true] {
            let mut rows = rows(walk, with_kernel);
            for _ in 0..rounds {
                round(programs, folder, running.pid, (walk, with_kernel), &mut rows)?;
            }
            let ours = rows.first().map_or(f64::NAN, Row::cpu_s);
            cells.extend(rows.iter_mut().map(|row| cell(row, ours, rounds)));
        }
    }
    Ok(table::section(
        "A ranked report of five seconds",
        &format!(
            "A program in C that is busy on one processor, {HERTZ} samples a second. Processor time of whole \
             commands, {rounds} rounds; `perf_record` is the agent by itself, which names what it sampled \
             and prints the report as JSON. No file with tables for debuggers belongs to the \
             program. Bytes are what perf leaves in its file, and what the agent prints. Without the kernel, no table of its names is read."
        ),
        &["", "recording, CPU ms", "reading, CPU ms", "CPU ms", "CPU ÷ ours", "wall s", "bytes"],
        &cells,
    ))
}

fn rows(walk: Walk, with_kernel: bool) -> [Row; 3] {
    let kernel = if with_kernel { "with the kernel" } else { "without the kernel" };
    let row = |what: &str| Row::new(format!("{what}, {}, {kernel}", walk.name));
    [
        row("`perf_record`"),
        row("`perf record`, `perf report`"),
        row("`perf record`, `perf script`, `inferno-collapse-perf`"),
    ]
}

/// Each once.
fn round(
    programs: &Programs,
    folder: &Path,
    pid: u32,
    (walk, with_kernel): (Walk, bool),
    [own, report, script]: &mut [Row; 3],
) -> Result<()> {
    let parameters = [
        ("stacks", json!(walk.ours)),
        ("hertz", json!(HERTZ)),
        ("window_ms", json!(5_000)),
        ("with_kernel", json!(with_kernel)),
    ];
    let used = run(&mut ours(programs, pid, &parameters))?;
    own.add(used, Used::default(), u64::try_from(used.bytes)?);
    let event = if with_kernel { event().to_owned() } else { format!("{}:u", event()) };
    let recording = run(&mut perf_record(folder, pid, walk, HERTZ, &event, WINDOW_S))?;
    let data = folder.join("perf.data");
    let bytes = fs::metadata(&data)?.len();
    let mut read = perf(folder);
    read.args(["report", "--stdio", "--no-children", "--no-inline", "-g", "none", "-i"]);
    report.add(recording, run(read.arg(&data))?, bytes);
    let mut read = Command::new("sh");
    read.args(["-c", "perf script --no-inline -i \"$1\" | \"$2\"", "sh"]);
    read.arg(&data).arg(&programs.collapse);
    read.env("PERF_CONFIG", "/dev/null").env("PERF_BUILDID_DIR", folder.join("build-ids"));
    script.add(recording, run(&mut read)?, bytes);
    Ok(())
}

fn cell(row: &mut Row, ours: f64, rounds: u32) -> Vec<String> {
    let ms = |cpu_s: f64| format!("{:.0}", cpu_s / f64::from(rounds) * 1e3);
    let [recording, reading] = row.parts;
    vec![
        row.name.clone(),
        ms(recording.cpu_s),
        ms(reading.cpu_s),
        ms(row.cpu_s()),
        format!("{:.1}", row.cpu_s() / ours),
        format!("{:.2}", table::median(&mut row.wall_s)),
        row.bytes.to_string(),
    ]
}
