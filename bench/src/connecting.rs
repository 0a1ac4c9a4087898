//! From nothing to an answer, beside `ssh host true`: on loopback, and over a link with a round trip
//! of 100 ms.

mod packets;
mod run;
mod standing;
mod upload;

use crate::{Programs, table};
use anyhow::{Context as _, Result};
use run::{Row, STAGES};
use scenarios::{
    delayed_link::{DelayedLink, SERVER},
    sshd::{Network, Settings, Sshd},
};
use std::{fs, time::Duration};

const ROUND_TRIP: Duration = Duration::from_millis(100);
/// Rounds where a round trip takes no time, and where it does.
const ROUNDS: (usize, usize) = (15, 9);

/// The key exchange of the rows that are compared. What OpenSSH chooses by itself may be one that
/// the other side of the comparison does not have, and that takes more computing than all the rest.
const KEY_EXCHANGE: &str = "curve25519-sha256";

/// Measures it. `shows_packets` adds what goes over the slow link, round by round: for whoever works
/// on it.
pub fn measure(programs: &Programs, shows_packets: bool) -> Result<String> {
    let sshd = Sshd::start(&Settings::default())?;
    let mut rows = rows(programs, &sshd, None)?;
    negotiated(programs, &mut rows)?;
    let negotiated: Vec<String> = rows.iter().map(|row| row.negotiated.clone()).collect();
    run::rounds(&mut rows, ROUNDS.0)?;
    let mut text = section(programs, "on loopback", ROUNDS.0, &rows, None)?;
    if let Some(lack) = DelayedLink::lacks() {
        text.push_str(&format!("\nNot measured over a slow link: it needs {}.\n", lack.name()));
        return Ok(text);
    }
    let link = DelayedLink::start(ROUND_TRIP)?;
    let network = Network { address: SERVER, enter: link.server_words() };
    let sshd = Sshd::start(&Settings { network: Some(network), ..Settings::default() })?;
    let mut rows = self::rows(programs, &sshd, Some(&link))?;
    for (row, negotiated) in rows.iter_mut().zip(negotiated) {
        row.negotiated = negotiated;
    }
    run::rounds(&mut rows, ROUNDS.1)?;
    let round_trip_ms = round_trip_ms(&link)?;
    let place = "over a round trip of 100 ms";
    text.push_str(&section(programs, place, ROUNDS.1, &rows, Some(round_trip_ms))?);
    text.push_str(&breakdown(&rows, round_trip_ms));
    if shows_packets {
        for row in &mut rows {
            text.push_str(&packets::measure(row, &link, ROUND_TRIP)?);
        }
    }
    text.push_str(&standing::measure(programs, &sshd, &link, round_trip_ms)?);
    text.push_str(&upload::measure(programs)?);
    Ok(text)
}

/// What a round trip takes, in milliseconds: the middle of some.
fn round_trip_ms(link: &DelayedLink) -> Result<f64> {
    let mut measured_ms = Vec::new();
    for _ in 0..ROUNDS.1 {
        measured_ms.push(link.measured_round_trip()?.as_secs_f64() * 1e3);
    }
    Ok(table::median(&mut measured_ms))
}

/// What is compared, the first with all others.
fn rows(programs: &Programs, sshd: &Sshd, link: Option<&DelayedLink>) -> Result<Vec<Row>> {
    let config = sshd.client_config();
    let named = sshd.file("named_config");
    let lines = fs::read_to_string(&config)?;
    fs::write(&named, format!("{lines}  KexAlgorithms {KEY_EXCHANGE}\n"))?;
    let sysmcp = |way: &str| {
        let mut command = run::sysmcp(programs, sshd, way, &named);
        command.args(["call", "self_test", "--params", "{\"count\":0}"]);
        command
    };
    let ssh = |config| {
        let mut command = sshd.ssh_by(config);
        command.arg("true");
        command
    };
    let rows = [
        ("`ssh host true`", ssh(&named)),
        ("`ssh host true`, with the key exchange it prefers", ssh(&config)),
        ("sysmcp, its own SSH (`russh:`)", sysmcp("russh")),
        ("sysmcp, over the user's ssh (`openssh:`)", sysmcp("openssh")),
    ];
    let there = |command| match link {
        Some(link) => link.client_side(&command),
        None => command,
    };
    Ok(rows.map(|(name, command)| Row::new(name, there(command))).into())
}

/// Asks a server what each row agrees on with it. It logs more than those that are timed.
fn negotiated(programs: &Programs, rows: &mut [Row]) -> Result<()> {
    let settings = Settings { server: vec!["LogLevel DEBUG1".to_owned()], ..Settings::default() };
    let sshd = Sshd::start(&settings)?;
    for (row, mut asked) in rows.iter_mut().zip(self::rows(programs, &sshd, None)?) {
        let before = sshd.log().len();
        run::once(&mut asked)?;
        let log = sshd.log();
        let log = log.get(before..).unwrap_or_default();
        let after = |mark: &str| {
            let (_, behind) = log.split_once(mark)?;
            behind.split_whitespace().next().map(str::to_owned)
        };
        let exchange = after("kex: algorithm: ").context("the server logs no key exchange")?;
        let cipher = after("client->server cipher: ").context("the server logs no cipher")?;
        row.negotiated = format!("{exchange}, {cipher}");
    }
    Ok(())
}

fn section(
    programs: &Programs,
    place: &str,
    rounds: usize,
    rows: &[Row],
    round_trip_ms: Option<f64>,
) -> Result<String> {
    let packed = programs.agents.join(format!("{}.gz", std::env::consts::ARCH));
    let packed_bytes = fs::metadata(packed)?.len();
    let of_ssh = rows.first().map(|row| row.wall_ms.clone()).unwrap_or_default();
    let mut cells = Vec::new();
    let mut cell = |name: &str, negotiated: &str, times_ms: &mut [f64]| {
        let each_round = times_ms.iter().zip(&of_ssh).map(|(ms, of_ssh)| ms / of_ssh);
        let ratio = table::median(&mut each_round.collect::<Vec<f64>>());
        let ms = table::median(times_ms);
        let least = times_ms.first().copied().unwrap_or_default();
        let mut line = vec![name.to_owned(), negotiated.to_owned()];
        line.extend([format!("{ms:.0}"), format!("{least:.0}"), format!("{ratio:.2}")]);
        line.extend(round_trip_ms.map(|round_trip| format!("{:.1}", ms / round_trip)));
        cells.push(line);
    };
    for row in rows.iter() {
        cell(&row.name, &row.negotiated, &mut row.wall_ms.clone());
        if let Some(mut connected_ms) = row.connected_ms() {
            cell(&format!("{}: until the agent's hello", row.name), "", &mut connected_ms);
        }
    }
    let mut headings = vec!["", "key exchange, cipher", "ms, median", "ms, least", "÷ ssh"];
    headings.extend(round_trip_ms.map(|_| "round trips"));
    let link = round_trip_ms.map_or(String::new(), |ms| {
        format!(
            " Two network namespaces, cubic, nothing lost and no limit on the rate; measured, a round \
             trip takes {ms:.1} ms."
        )
    });
    Ok(table::section(
        &format!("Connecting {place}"),
        &format!(
            "Wall time of whole commands, each from its start to its end, {rounds} interleaved \
             rounds. sysmcp logs in, sends the agent ({packed_bytes} bytes, packed), starts it, \
             makes a call that does nothing, stops the agent and has its receipt; ssh logs in and \
             runs `true`. Ratios are to the first row.{link}"
        ),
        &headings,
        &cells,
    ))
}

/// Where the time goes, as far as sysmcp's own messages tell.
fn breakdown(rows: &[Row], round_trip_ms: f64) -> String {
    let mut cells = Vec::new();
    let mut headings = vec![String::new()];
    let told: Vec<&Row> = rows.iter().filter(|row| row.connected_ms().is_some()).collect();
    for row in &told {
        headings.push(format!("{}: ms", row.name));
        headings.push("round trips".to_owned());
    }
    for (index, stage) in STAGES.iter().enumerate() {
        let mut line = vec![stage.name.to_owned()];
        for row in &told {
            let mut times = row.stage_ms(index);
            let ms = table::median(&mut times);
            line.extend([format!("{ms:.0}"), format!("{:.1}", ms / round_trip_ms)]);
        }
        cells.push(line);
    }
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    table::section(
        "Where the time goes over a round trip of 100 ms",
        "Of the same rounds: medians of what passed between sysmcp's messages. Sending takes the more \
         round trips the later the server's kernel opens its receive window (`rwnd_limited` in \
         `ss -ti`).",
        &headings,
        &cells,
    )
}
