//! A call in a session that stands, beside a command over a warm ssh.

use crate::{Programs, table};
use anyhow::{Result, ensure};
use scenarios::{
    client::Client,
    second_way::Server as _,
    sshd::{Settings, Sshd},
    without_settings::without_settings,
};
use serde_json::json;
use std::{
    process::Stdio,
    time::{Duration, Instant},
};

const CALLS: usize = 300;
const COMMANDS: usize = 40;

pub fn measure(programs: &Programs) -> Result<String> {
    let sshd = Sshd::start(&Settings::default())?;
    let folder = tempfile::tempdir()?;
    let mut command = without_settings(&programs.sysmcp);
    command.arg("--target").arg(sshd.target()).arg("--ssh-config").arg(sshd.client_config());
    command.arg("--audit-log").arg(folder.path().join("audit.jsonl"));
    command.args(["--toolsets", "selftest"]).stdin(Stdio::null());
    let started = Instant::now();
    let mut client = Client::start(command)?;
    let initialized_ms = started.elapsed().as_secs_f64() * 1e3;
    // Counts to nothing: what is left is the call itself.
    let arguments = json!({"count": 0});
    let mut call = || -> Result<f64> {
        let started = Instant::now();
        client.call("self_test", &arguments, Duration::from_secs(60))?;
        Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    let first_ms = call()?;
    let mut calls = (0..CALLS).map(|_| call()).collect::<Result<Vec<f64>>>()?;
    let mut warm = warm_commands(&sshd)?;
    let call_ms = table::median(&mut calls);
    let warm_ms = table::median(&mut warm);
    let p99 = calls.get(CALLS * 99 / 100).copied().unwrap_or_default();
    let rows = vec![
        vec![
            "start of sysmcp to its answer to initialize".to_owned(),
            format!("{initialized_ms:.1}"),
        ],
        vec!["first call: login, push, start, answer".to_owned(), format!("{first_ms:.0}")],
        vec!["a call in the session, median".to_owned(), format!("{call_ms:.2}")],
        vec!["a call in the session, 99th percentile".to_owned(), format!("{p99:.2}")],
        vec![
            "`ssh host true` over a warm ControlMaster, median".to_owned(),
            format!("{warm_ms:.1}"),
        ],
        vec!["warm ssh ÷ call".to_owned(), format!("{:.0}", warm_ms / call_ms)],
    ];
    Ok(table::section(
        "A call in a session that stands",
        "Over sshd on loopback, through an MCP client, with the audit written; the tool does \
         nothing, so this is what comes on top of any tool's own time.",
        &["", "ms"],
        &rows,
    ))
}

/// Times a command over a connection that is kept open, as an administrator would set it up.
fn warm_commands(sshd: &Sshd) -> Result<Vec<f64>> {
    let socket = sshd.file("master");
    let ssh = || {
        let mut ssh = sshd.ssh();
        ssh.arg("true").stdout(Stdio::null()).stderr(Stdio::null());
        ssh
    };
    sshd.write_client_config(&[
        "ControlMaster auto".to_owned(),
        format!("ControlPath {}", socket.display()),
        "ControlPersist 60".to_owned(),
    ])?;
    ensure!(ssh().status()?.success(), "ssh does not log in");
    let mut times = Vec::new();
    for _ in 0..COMMANDS {
        let started = Instant::now();
        ensure!(ssh().status()?.success(), "ssh does not log in");
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    let mut end = sshd.ssh();
    end.args(["-O", "exit"]).stderr(Stdio::null()).status()?;
    Ok(times)
}
