//! The same in a session: what goes over the wire, and what a further question takes.

use crate::{
    Programs,
    session::{PATIENCE, Session},
    table,
};
use anyhow::{Context as _, Result};
use scenarios::accuracy::workload;
use serde_json::{Value, json};
use std::{fs, path::Path, process::Command, time::Instant};

const QUESTIONS: usize = 30;

/// A question, and what it took.
struct Asked {
    answer: Value,
    ms: f64,
    wire_bytes: u64,
}

pub fn measure(programs: &Programs, workload: &Path) -> Result<String> {
    let running = workload::start(&mut Command::new(workload))?;
    let folder = tempfile::tempdir()?;
    let Session { mut client, worker } = Session::start(programs, folder.path())?;
    let io = format!("/proc/{worker}/io");
    let mut ask = |tool: &str, asked: &Value| -> Result<Asked> {
        let (before, started) = (written(&io)?, Instant::now());
        let result = client.call(tool, asked, PATIENCE)?;
        let ms = started.elapsed().as_secs_f64() * 1e3;
        let answer = result.get("structuredContent").cloned().unwrap_or_default();
        Ok(Asked { answer, ms, wire_bytes: written(&io)? - before })
    };
    let first = ask("perf_record", &json!({"pid": running.pid, "hertz": 999}))?;
    let artifact = first.answer.pointer("/meta/artifact").context("no recording is kept")?;
    let mut further_ms = Vec::new();
    let mut further = None;
    for _ in 0..QUESTIONS {
        let asked = ask("perf_report", &json!({"artifact": artifact}))?;
        further_ms.push(asked.ms);
        further = Some(asked);
    }
    let further = further.context("nothing was asked")?;
    let cpu_ms = |asked: &Asked| {
        let cpu_ms = asked.answer.pointer("/meta/overhead/agent_cpu_ms").and_then(Value::as_f64);
        cpu_ms.map_or_else(|| "?".to_owned(), |ms| format!("{ms:.1}"))
    };
    let row = |name: &str, asked: &Asked, ms: f64| {
        vec![name.to_owned(), format!("{ms:.1}"), cpu_ms(asked), asked.wire_bytes.to_string()]
    };
    let rows = [
        row("`perf_record`, 5 s, 999 Hz", &first, first.ms),
        row("`perf_report` on what it kept, median", &further, table::median(&mut further_ms)),
    ];
    Ok(table::section(
        "A recording and further questions in one session",
        &format!(
            "Through an MCP client, on the machine itself; {QUESTIONS} further questions. The agent's CPU is \
             as its answers state it, and the bytes are what its worker wrote."
        ),
        &["", "ms", "the agent's CPU ms", "bytes over the wire"],
        &rows,
    ))
}

/// Bytes that a process has written, to files and pipes: proc_pid_io(5).
fn written(io: &str) -> Result<u64> {
    let text = fs::read_to_string(io)?;
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    Ok(line.context("no wchar")?.trim().parse()?)
}
