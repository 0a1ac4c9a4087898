//! Inlined calls and source lines out of the tables for debuggers of a large program: what they cost
//! more than names alone.

use super::{Used, WALKS, ours, perf, perf_record, run};
use crate::{Programs, table};
use anyhow::{Context as _, Result, ensure};
use scenarios::accuracy::perf::event;
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::Duration,
};

const ROUNDS: u32 = 3;
const HERTZ: u32 = 999;

/// Until perf has not read them.
const PATIENCE_S: &str = "120";

pub fn measure(programs: &Programs, folder: &Path) -> Result<String> {
    let [_, walk] = WALKS;
    let debug = &programs.debug;
    let mebibytes = fs::metadata(debug)?.len() >> 20;
    let mut rows = Vec::new();
    let mut without_s = 0.0;
    for (name, program) in [
        ("`perf_record`, names alone (a copy without such tables)", stripped(debug, folder)?),
        ("`perf_record`, with inlined calls and lines", debug.clone()),
    ] {
        let busy = Busy::start(&program)?;
        let parameters =
            [("hertz", json!(HERTZ)), ("stacks", json!(walk.ours)), ("window_ms", json!(2_000))];
        let mut cpu_s = 0.0;
        for _ in 0..ROUNDS {
            cpu_s += run(&mut ours(programs, busy.0.id(), &parameters))?.cpu_s;
        }
        let cpu_s = cpu_s / f64::from(ROUNDS);
        let more_s = if rows.is_empty() { 0.0 } else { cpu_s - without_s };
        without_s = cpu_s;
        rows.push(row(name, cpu_s, more_s));
    }
    let busy = Busy::start(debug)?;
    run(&mut perf_record(folder, busy.0.id(), walk, HERTZ, event(), "2"))?;
    let names = script(folder, &["--no-inline"])?.context("perf script takes too long")?;
    rows.push(row("`perf script --no-inline`", names.cpu_s, 0.0));
    for (name, options) in [
        ("`perf script --inline`", &["--inline"][..]),
        ("`perf script --no-inline -F +srcline`", &["--no-inline", "-F", "+srcline"]),
    ] {
        rows.push(match script(folder, options)? {
            Some(used) => row(name, used.cpu_s, used.cpu_s - names.cpu_s),
            None => vec![name.to_owned(), format!("not done after {PATIENCE_S} s"), String::new()],
        });
    }
    Ok(table::section(
        "Inlined calls and source lines of a program with large tables",
        &format!(
            "A Rust program that was built without optimizing, {mebibytes} MiB, busy for two seconds at {HERTZ} \
             samples a second. `perf_record` is recording, naming and the report together, in {ROUNDS} \
             rounds; `perf script` only reads what was recorded before."
        ),
        &["", "CPU ms", "more than names alone, ms"],
        &rows,
    ))
}

fn row(name: &str, cpu_s: f64, more_s: f64) -> Vec<String> {
    vec![name.to_owned(), format!("{:.0}", cpu_s * 1e3), format!("{:.0}", more_s * 1e3)]
}

/// A copy of a program without tables for debuggers.
fn stripped(program: &Path, folder: &Path) -> Result<PathBuf> {
    let copy = folder.join("without-tables");
    let mut strip = Command::new("strip");
    run(strip.arg("--strip-debug").arg("-o").arg(&copy).arg(program))?;
    Ok(copy)
}

/// What perf prints of its recording; none where that takes too long.
fn script(folder: &Path, options: &[&str]) -> Result<Option<Used>> {
    let before = super::children_cpu_s()?;
    let mut command = Command::new("timeout");
    command.args([PATIENCE_S, "perf", "script", "-i"]).arg(folder.join("perf.data")).args(options);
    command.envs(perf(folder).get_envs().filter_map(|(name, value)| Some((name, value?))));
    let status =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    let used = Used { cpu_s: super::children_cpu_s()? - before, ..Used::default() };
    if status.code() == Some(124) {
        return Ok(None);
    }
    ensure!(status.success(), "perf script failed: {status}");
    Ok(Some(used))
}

/// A program that is busy until this is dropped.
struct Busy(Child);

impl Busy {
    fn start(program: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(["burn", "--seconds", "300"]).stdin(Stdio::null()).stdout(Stdio::null());
        let busy = Self(command.spawn().context("could not start the busy program")?);
        sleep(Duration::from_millis(300));
        Ok(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
