//! Whether an answer's own account of what it cost is right: against the kernel's account of the
//! worker.

use crate::{Programs, ranking::Crowd, table};
use anyhow::{Context as _, Result};
use scenarios::{client::Client, without_settings::without_settings};
use serde_json::{Value, json};
use std::{fs, process::Stdio, time::Duration};

const CALLS: u32 = 20;

pub fn measure(programs: &Programs, processes: usize) -> Result<String> {
    let _crowd = Crowd::gather(processes)?;
    let folder = tempfile::tempdir()?;
    let mut command = without_settings(&programs.sysmcp);
    command.args(["--target", "local", "--audit-log"]).arg(folder.path().join("audit.jsonl"));
    command.stdin(Stdio::null());
    let mut client = Client::start(command)?;
    let arguments = json!({"window_ms": 200});
    let mut call = || -> Result<f64> {
        let result = client.call("process_list", &arguments, Duration::from_secs(60))?;
        let reported = result.pointer("/structuredContent/meta/overhead/agent_cpu_ms");
        reported.and_then(Value::as_f64).context("the answer states no overhead")
    };
    call()?;
    let worker = worker(&folder.path().join("audit.jsonl"))?;
    let before = cpu_ms(worker)?;
    let mut reported = 0.0;
    for _ in 0..CALLS {
        reported += call()?;
    }
    let kernel = cpu_ms(worker)? - before;
    let rows = vec![
        vec!["what the answers state".to_owned(), format!("{:.1}", reported / f64::from(CALLS))],
        vec!["what the kernel counts".to_owned(), format!("{:.1}", kernel / f64::from(CALLS))],
        vec!["stated ÷ counted".to_owned(), format!("{:.2}", reported / kernel)],
    ];
    Ok(table::section(
        "The answer's own account",
        &format!(
            "{CALLS} calls of process_list with {processes} idle processes, in one session; the \
             kernel's count is of the whole worker process, in CPU ms for each call."
        ),
        &["", "CPU ms"],
        &rows,
    ))
}

/// The worker's pid, as the audit log has it.
pub fn worker(log: &std::path::Path) -> Result<u64> {
    let log = fs::read_to_string(log)?;
    log.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|line| line.pointer("/pids/1").and_then(Value::as_u64))
        .context("the audit log names no worker")
}

/// Processor time that a process used itself, in milliseconds.
fn cpu_ms(pid: u64) -> Result<f64> {
    Ok(crate::cpu_s(&format!("/proc/{pid}/stat"), 14)? * 1e3)
}
