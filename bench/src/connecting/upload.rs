//! The agent's way over a line of 10 Mbit/s and a round trip of 100 ms, beside ssh with the same bytes.

use super::{ROUND_TRIP, run, run::Row};
use crate::{Programs, table};
use anyhow::Result;
use scenarios::{
    behind::behind,
    delayed_link::{Conditions, DelayedLink, SERVER},
    sshd::{Network, Settings, Sshd},
};
use std::fs;

/// 10 Mbit/s, in bytes.
const BYTES_PER_S: u64 = 1_250_000;
const ROUNDS: usize = 7;

pub fn measure(programs: &Programs) -> Result<String> {
    let conditions = Conditions::delayed(ROUND_TRIP).at_rate(BYTES_PER_S);
    let link = DelayedLink::under(conditions)?;
    let network = Network { address: SERVER, enter: link.server_words() };
    let sshd = Sshd::start(&Settings { network: Some(network), ..Settings::default() })?;
    let packed = programs.agents.join(format!("{}.gz", std::env::consts::ARCH));
    let bytes = fs::metadata(&packed)?.len();
    let config = sshd.client_config();
    let mut ssh = sshd.ssh_by(&config);
    ssh.arg("cat >/dev/null");
    // The same bytes on its stdin, whatever runs it.
    let packed = packed.display().to_string();
    let words = ["sh", "-c", "file=$1; shift; exec \"$@\" <\"$file\"", "sh", &packed];
    let fed = behind(&words, &link.client_side(&ssh));
    let sysmcp = |way: &str| {
        let mut command = run::sysmcp(programs, &sshd, way, &config);
        command.args(["call", "self_test", "--params", "{\"count\":0}"]);
        link.client_side(&command)
    };
    let mut rows = [
        Row::new("`ssh host 'cat >/dev/null'`", fed),
        Row::new("sysmcp, its own SSH (`russh:`)", sysmcp("russh")),
        Row::new("sysmcp, over the user's ssh (`openssh:`)", sysmcp("openssh")),
    ];
    run::rounds(&mut rows, ROUNDS)?;
    let of_ssh = rows.first().map(|row| row.wall_ms.clone()).unwrap_or_default();
    let mut cells = Vec::new();
    let mut cell = |name: &str, times_ms: &[f64]| {
        let ratios = times_ms.iter().zip(&of_ssh).map(|(ms, of_ssh)| ms / of_ssh);
        let ratio = table::median(&mut ratios.collect::<Vec<f64>>());
        let seconds = table::median(&mut times_ms.to_vec()) / 1e3;
        cells.push(vec![name.to_owned(), format!("{seconds:.2}"), format!("{ratio:.2}")]);
    };
    for row in &rows {
        if let Some(connected_ms) = row.connected_ms() {
            cell(&format!("{}: until the agent's hello", row.name), &connected_ms);
            cell(
                &format!("{}: sending and starting alone", row.name),
                &row.stage_ms(run::CONNECTED),
            );
        } else {
            cell(&row.name, &row.wall_ms);
        }
    }
    Ok(table::section(
        "Sending the agent over 10 Mbit/s and a round trip of 100 ms",
        &format!(
            "{bytes} bytes, from the start of each command on, the login with it; {ROUNDS} interleaved \
             rounds. The rate alone takes {:.2} s for them; {} bytes may wait for their turn.",
            bytes as f64 / BYTES_PER_S as f64,
            conditions.queue_bytes
        ),
        &["", "s, median", "÷ ssh"],
        &cells,
    ))
}
