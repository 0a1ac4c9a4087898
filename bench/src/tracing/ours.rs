//! Our tools that trace, in a session with this machine.

use super::{HEAD_START, has_tracer};
use crate::{
    Programs,
    session::{PATIENCE, Session},
};
use anyhow::{Context as _, Result, bail};
use scenarios::client::Client;
use serde_json::{Value, json};
use std::{
    fs,
    thread::sleep,
    time::{Duration, Instant},
};

/// `syscall_trace`, by its parameters.
pub const WAYS: &[(&str, &str)] = &[
    ("`syscall_trace`", r#"{"engine": "ebpf"}"#),
    ("`syscall_trace mode=detailed`", r#"{"engine": "ebpf", "mode": "detailed"}"#),
    ("`syscall_trace engine=tracepoints`", r#"{"engine": "tracepoints"}"#),
    ("`syscall_trace engine=looks`", r#"{"engine": "looks"}"#),
    ("`syscall_trace engine=ptrace`", r#"{"engine": "ptrace"}"#),
];

/// What follows waits, by its parameters.
pub const OF_WAITS: &[(&str, &str)] =
    &[("`perf_record mode=off_cpu`, whole stacks", r#"{"mode": "off_cpu"}"#)];

/// Longer than the work takes.
const WINDOW_MS: u32 = 3_000;

/// A session in which it is loaded.
pub struct Ours {
    tool: &'static str,
    client: Client,
    asked: serde_json::Map<String, Value>,
    waits_for: Option<u64>,
    _folder: tempfile::TempDir,
    worker: u64,
}

impl Ours {
    pub fn start(programs: &Programs, tool: &'static str, asked: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let Session { client, worker } = Session::start(programs, folder.path())?;
        let asked = serde_json::from_str(asked)?;
        Ok(Self { tool, client, asked, waits_for: None, _folder: folder, worker })
    }

    /// Asks about a process, and waits until it is at work; what it says instead, where it cannot.
    pub fn begin(&mut self, pid: u32) -> Result<Option<String>> {
        // In the first call it is loaded.
        let id = self.ask(std::process::id(), 100)?;
        let first = self.client.reply(id, PATIENCE)?.context("no answer")?;
        if first.pointer("/result/isError") == Some(&json!(true)) {
            let said = first.pointer("/result/content/0/text").and_then(Value::as_str);
            return Ok(Some(said.unwrap_or("it cannot").replace('\n', " ")));
        }
        let idle = attached(self.worker);
        self.waits_for = Some(self.ask(pid, WINDOW_MS)?);
        let started = Instant::now();
        // What only looks attaches nothing.
        let only_looks = self.asked.get("engine") == Some(&json!("looks"));
        let patience = if only_looks { Duration::from_secs(1) } else { PATIENCE };
        while attached(self.worker) <= idle && !has_tracer(pid) && started.elapsed() < patience {
            sleep(Duration::from_millis(5));
        }
        sleep(HEAD_START);
        Ok(None)
    }

    fn ask(&mut self, pid: u32, window_ms: u32) -> Result<u64> {
        let mut asked = self.asked.clone();
        asked.insert("pid".to_owned(), json!(pid));
        asked.insert("window_ms".to_owned(), json!(window_ms));
        self.client.ask("tools/call", &json!({"name": self.tool, "arguments": asked}))
    }

    /// Calls that it counted; none where it counts none.
    pub fn end(&mut self) -> Result<Option<f64>> {
        let id = self.waits_for.take().context("nothing was asked")?;
        let reply = self.client.reply(id, PATIENCE)?.context("no answer")?;
        let Some(answer) = reply.pointer("/result/structuredContent") else {
            bail!("it failed: {reply}")
        };
        Ok(answer.get("ended").and_then(Value::as_f64))
    }
}

/// Links of programs and events that a process holds.
fn attached(pid: u64) -> usize {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let links = open.filter_map(|entry| fs::read_link(entry.path()).ok());
    let is_attached = |link: &std::path::PathBuf| {
        let name = link.to_string_lossy();
        name == "anon_inode:[perf_event]"
            || name == "anon_inode:bpf_link"
            || name == "anon_inode:bpf-link"
    };
    links.filter(is_attached).count()
}
