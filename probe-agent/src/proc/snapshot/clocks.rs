//! What the clocks said when a copy was made, and what else of a machine is no file of it.
//!
//! `machine.toml` of `sysmcp capture` says all of it, in lines `name = number`. A plain copy has
//! `/proc/uptime`, perhaps; its page size follows from what the kernel says of one process in pages
//! and in kilobytes.

use super::Instant;
use crate::proc::{
    parse::{fields, lines, number, number_of},
    pid_stat,
};
use std::time::Duration;

/// The clocks at both instants, the page size, and who read the files.
#[derive(Debug)]
pub(in crate::proc) struct Clocks {
    start: Reading,
    end: Reading,
    pub(in crate::proc) page_bytes: u64,
    /// Who read the files, where that was noted.
    pub(super) reader_uid: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Reading {
    monotonic: Duration,
    /// `None` where nothing says how long the machine had been up.
    since_boot: Option<Duration>,
    wall: Duration,
}

/// Of most machines; where nothing tells, it is the one to assume.
const USUAL_PAGE_BYTES: u64 = 4096;

impl Clocks {
    /// Out of the text of `machine.toml`, which is empty where there is none.
    pub(super) fn of(told: &[u8], end: &Instant) -> Self {
        let value = |name: &str| value_of(told, name);
        let micros = |name: &str| value(name).map(Duration::from_micros);
        let reading = |instant: &str| Reading {
            monotonic: micros(&format!("{instant}_monotonic_us")).unwrap_or_default(),
            since_boot: micros(&format!("{instant}_since_boot_us")).or_else(|| uptime(end)),
            wall: micros(&format!("{instant}_wall_us")).unwrap_or_default(),
        };
        let is_size = |bytes: &u64| bytes.is_power_of_two() && (512..=1 << 20).contains(bytes);
        Self {
            start: reading("start"),
            end: reading("end"),
            page_bytes: value("page_bytes")
                .filter(is_size)
                .or_else(|| page_bytes(end))
                .unwrap_or(USUAL_PAGE_BYTES),
            reader_uid: value("agent_uid").and_then(|uid| u32::try_from(uid).ok()),
        }
    }

    fn at(&self, is_end: bool) -> &Reading {
        if is_end { &self.end } else { &self.start }
    }

    pub(super) fn monotonic(&self, is_end: bool) -> Duration {
        self.at(is_end).monotonic
    }

    pub(super) fn since_boot(&self, is_end: bool) -> Duration {
        self.at(is_end).since_boot.unwrap_or_default()
    }

    pub(super) fn wall(&self, is_end: bool) -> Duration {
        self.at(is_end).wall
    }

    /// Whether it is known how long the machine had been up.
    pub(in crate::proc) const fn has_uptime(&self) -> bool {
        self.end.since_boot.is_some()
    }
}

/// A whole number in a line `name = number`.
fn value_of(text: &[u8], name: &str) -> Option<u64> {
    lines(text).find_map(|(line_number, line)| {
        let rest = line.trim_ascii().strip_prefix(name.as_bytes())?.trim_ascii_start();
        number(rest.strip_prefix(b"=")?.trim_ascii(), line_number).ok()
    })
}

/// The time that `/proc/uptime` says, in hundredths of a second.
fn uptime(instant: &Instant) -> Option<Duration> {
    let mut text = Vec::new();
    instant.read("proc/uptime", &mut text).ok()?;
    let seconds = std::str::from_utf8(fields(&text).next()?).ok()?.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The page size of the machine: what the kernel says in pages, it says in kilobytes elsewhere.
fn page_bytes(instant: &Instant) -> Option<u64> {
    const SIZES: [u64; 6] = [4096, 8192, 16_384, 32_768, 65_536, 262_144];
    let mut text = Vec::new();
    for name in instant.names("proc").ok()? {
        let Ok(pid) = std::str::from_utf8(&name).unwrap_or_default().parse::<u32>() else {
            continue;
        };
        if instant.read(&format!("proc/{pid}/stat"), &mut text).is_err() {
            continue;
        }
        let Ok(pages) = pid_stat::parse(&text).map(|stat| stat.resident_pages) else { continue };
        let status = instant.read(&format!("proc/{pid}/status"), &mut text);
        let Ok(kib) = status.map_err(drop).and_then(|()| number_of(&text, "VmRSS").map_err(drop))
        else {
            continue;
        };
        // The two are read at different moments, and differ a little.
        let (bytes, pages) = (kib.saturating_mul(1024), pages.max(1));
        let size = SIZES.into_iter().min_by_key(|size| size.abs_diff(bytes / pages));
        if pages > 16 && size.is_some() {
            return size;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_by_its_whole_name() {
        let text = b"# start_wall_us = 9\nxpage_bytes = 1\npage_bytes = 16384\nwhy = \"x\"\n";
        assert_eq!(value_of(text, "page_bytes"), Some(16_384));
        assert_eq!(value_of(text, "start_wall_us"), None);
        assert_eq!(value_of(text, "why"), None);
    }
}
