//! What goes over the slow link in one run, round by round: where nothing does, somebody waits.

use super::run::{self, Row};
use crate::table;
use anyhow::Result;
use scenarios::delayed_link::{Carried, DelayedLink, Side};
use std::time::{Duration, Instant};

pub fn measure(row: &mut Row, link: &DelayedLink, round_trip: Duration) -> Result<String> {
    // The last packets of what ran before.
    std::thread::sleep(3 * round_trip);
    drop(link.take_carried());
    let started = Instant::now();
    run::once(row)?;
    let carried = link.take_carried();
    let mut lines = Vec::new();
    let mut begins = started;
    // The last acknowledgements come when the command has ended already.
    while carried.iter().any(|packet| packet.at >= begins) {
        let ends = begins + round_trip;
        let mut round: Vec<&Carried> =
            carried.iter().filter(|packet| (begins..ends).contains(&packet.at)).collect();
        round.sort_by_key(|packet| packet.at);
        let sent = |side: Side| {
            let (count, bytes) = round
                .iter()
                .filter(|packet| packet.to == side)
                .fold((0, 0), |(count, bytes), packet| (count + 1, bytes + packet.bytes));
            [count, bytes].map(|number: usize| number.to_string())
        };
        let passed_ms = (begins - started).as_secs_f64() * 1e3;
        let doing = row.stage_at(passed_ms).to_owned();
        let mut line = vec![format!("{passed_ms:.0}"), doing];
        line.extend(sent(Side::Server));
        line.extend(sent(Side::Client));
        lines.push(line);
        begins = ends;
    }
    Ok(table::section(
        &format!("Over the link: {}", row.name),
        "One run. Packets and bytes, with headers, as they were sent in each round trip.",
        &["ms", "", "packets to the server", "bytes", "packets back", "bytes"],
        &lines,
    ))
}
