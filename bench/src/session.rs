//! A session with this machine, as an agent has it.

use crate::Programs;
use anyhow::{Context as _, Result};
use scenarios::{client::Client, without_settings::without_settings};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Stdio, time::Duration};

pub const PATIENCE: Duration = Duration::from_secs(60);

/// A client whose agent runs and has answered.
pub struct Session {
    pub client: Client,
    /// The process that does what is asked.
    pub worker: u64,
}

impl Session {
    /// Starts one whose audit log is in a folder.
    pub fn start(programs: &Programs, folder: &Path) -> Result<Self> {
        Self::start_within(&[], programs, folder)
    }

    /// The same by a command that takes rights away, and the program to start as its last words.
    pub fn start_within(within: &[&str], programs: &Programs, folder: &Path) -> Result<Self> {
        let log = folder.join("audit.jsonl");
        let mut command = match within.split_first() {
            Some((program, arguments)) => {
                let mut command = without_settings(program);
                command.args(arguments).arg(&programs.sysmcp);
                command
            }
            None => without_settings(&programs.sysmcp),
        };
        command.args(["--target", "local", "--audit-log"]).arg(&log).stdin(Stdio::null());
        let mut client = Client::start(command)?;
        client.call("process_list", &json!({"limit": 1, "window_ms": 100}), PATIENCE)?;
        Ok(Self { client, worker: worker(&log)? })
    }

    /// The processor time of the worker so far, in seconds.
    pub fn cpu_s(&self) -> Result<f64> {
        crate::cpu_s(&format!("/proc/{}/stat", self.worker), 14)
    }
}

/// The worker's pid, as the audit log has it.
fn worker(log: &Path) -> Result<u64> {
    let log = fs::read_to_string(log)?;
    log.lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|line| line.pointer("/pids/1").and_then(Value::as_u64))
        .context("the audit log names no worker")
}
