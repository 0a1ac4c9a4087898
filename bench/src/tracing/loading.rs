//! What it takes to load the programs, which is done once in a session, and what they hold.

use crate::{
    Programs,
    session::{PATIENCE, Session},
    table,
};
use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use std::{fs, path::Path, time::Instant};

const WINDOW_MS: u32 = 200;

pub fn measure(programs: &Programs, folder: &Path) -> Result<String> {
    let mut cells = Vec::new();
    for mode in ["summary", "detailed"] {
        let folder = folder.join(mode);
        fs::create_dir(&folder)?;
        let Session { mut client, worker } = Session::start(programs, &folder)?;
        let idle_kb = peak_kb(worker)?;
        let asked = json!({
            "engine": "ebpf", "mode": mode, "pid": std::process::id(), "window_ms": WINDOW_MS,
        });
        let mut ask = || -> Result<(f64, Value)> {
            let started = Instant::now();
            let answer = client.call("syscall_trace", &asked, PATIENCE)?;
            Ok((started.elapsed().as_secs_f64() * 1e3, answer))
        };
        let (first_ms, answer) = ask()?;
        if answer.get("isError") == Some(&json!(true)) {
            let said = answer.pointer("/content/0/text").and_then(Value::as_str);
            let mut row = vec![mode.to_owned(), said.unwrap_or("it cannot").replace('\n', " ")];
            row.resize(6, String::new());
            cells.push(row);
            continue;
        }
        let first_kb = peak_kb(worker)?;
        let mut later_ms = (0..5).map(|_| Ok(ask()?.0)).collect::<Result<Vec<f64>>>()?;
        let later_ms = table::median(&mut later_ms);
        cells.push(vec![
            mode.to_owned(),
            format!("{first_ms:.0}"),
            format!("{later_ms:.0}"),
            idle_kb.to_string(),
            first_kb.to_string(),
            (maps_bytes(worker) / 1024).to_string(),
        ]);
    }
    Ok(table::section(
        "Loading what traces, once in a session",
        &format!(
            "`syscall_trace` by eBPF with a window of {WINDOW_MS} ms, through an MCP client: its first call in a \
             session, which loads the programs, and the median of five further ones. Peak is the most \
             memory that the agent's worker had, before the first call and after it; maps are in the \
             kernel, as it accounts for them, and stay until the session ends."
        ),
        &["mode", "first ms", "later ms", "peak before, kB", "peak after, kB", "maps, kB"],
        &cells,
    ))
}

/// The most memory that a process had: `VmHWM` in proc_pid_status(5).
fn peak_kb(pid: u64) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// What the maps of BPF take that a process holds: `memlock` in their `fdinfo`.
fn maps_bytes(pid: u64) -> u64 {
    let infos = fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten();
    let of_map = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path()).ok()?;
        let is_map = text.lines().any(|line| line.starts_with("map_id:"));
        let bytes = text.lines().find_map(|line| line.strip_prefix("memlock:"))?;
        is_map.then_some(bytes.trim().parse::<u64>().ok()?)
    };
    infos.filter_map(of_map).sum()
}
