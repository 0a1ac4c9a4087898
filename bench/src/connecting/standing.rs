//! A call in a session that stands, over a link with a round trip: it must take one.

use super::run;
use crate::{Programs, calls, table};
use anyhow::Result;
use scenarios::{client::Client, delayed_link::DelayedLink, sshd::Sshd};
use serde_json::json;
use std::time::{Duration, Instant};

const CALLS: usize = 40;
const COMMANDS: usize = 12;

pub fn measure(
    programs: &Programs,
    sshd: &Sshd,
    link: &DelayedLink,
    round_trip_ms: f64,
) -> Result<String> {
    let mut cells = Vec::new();
    let mut cell = |name: &str, times_ms: &mut [f64]| {
        let ms = table::median(times_ms);
        let line = [name.to_owned(), format!("{ms:.1}"), format!("{:.2}", ms / round_trip_ms)];
        cells.push(line.to_vec());
    };
    for (way, name) in [("russh", "built in"), ("openssh", "over the user's ssh")] {
        let mut times_ms = call_ms(programs, sshd, link, way)?;
        cell(&format!("a call, {name} (`{way}:`)"), &mut times_ms);
    }
    let mut warm_ms = calls::warm_commands(sshd, Some(link), COMMANDS)?;
    cell("`ssh host true` over a warm ControlMaster", &mut warm_ms);
    Ok(table::section(
        "Where the agent is already there, over a round trip of 100 ms",
        "Medians, in a session that stands; the tool does nothing.",
        &["", "ms", "round trips"],
        &cells,
    ))
}

fn call_ms(programs: &Programs, sshd: &Sshd, link: &DelayedLink, way: &str) -> Result<Vec<f64>> {
    let command = run::sysmcp(programs, sshd, way, &sshd.client_config());
    let mut client = Client::start(link.client_side(&command))?;
    let arguments = json!({"count": 0});
    let mut call = || -> Result<f64> {
        let started = Instant::now();
        client.call("self_test", &arguments, Duration::from_secs(60))?;
        Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    // The first one connects.
    call()?;
    (0..CALLS).map(|_| call()).collect()
}
