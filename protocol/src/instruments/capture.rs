//! `capture`: takes the files that the other instruments read, at both ends of a window.
//!
//! The files are streamed; what the report says is how they were taken and what was left out. Secrets
//! are taken out on the target, and names that could tell who or where it was stand for others.

use crate::{
    host_text::HostText,
    instruments::{Exchange, Instrument},
    observed::Observed,
    parameter::{InvalidParameter, in_range},
    view::table::Table,
};
use serde::{Deserialize, Serialize};

/// Marker for this instrument.
pub struct Capture;

/// Bytes of one file that are taken at most; a longer one is left out.
pub const MOST_FILE_BYTES: usize = 512 << 10;

impl Instrument for Capture {
    type Request = Request;
    type Item = Item;
    type Report = Report;

    fn check(request: &Request) -> Result<(), InvalidParameter> {
        in_range("window_ms", request.window_ms, &(100..=60_000))?;
        in_range("max_bytes", request.max_bytes, &(65_536..=8 << 20))
    }

    fn window_ms(request: &Request) -> u32 {
        request.window_ms.saturating_add(RANKING_MS)
    }

    fn tables(report: &Report) -> Vec<Table> {
        vec![Table::facts(
            "capture",
            [
                ("files", format!("{} with {} bytes", report.files, report.bytes)),
                (
                    "processes",
                    format!(
                        "{} taken, of {} of them the line only; {} left out",
                        report.processes, report.left_out.details, report.left_out.processes
                    ),
                ),
                ("files left out", report.left_out.files.to_string()),
            ],
        )]
    }

    fn example() -> Exchange<Self> {
        let clocks =
            Clocks { monotonic_us: 5_000_000, since_boot_us: 6_000_000, wall_us: 7_000_000 };
        Exchange {
            request: Request::default(),
            item: Some(Item {
                instant: Instant::End,
                path: b"proc/loadavg".to_vec(),
                bytes: b"0.00 0.01 0.03 2/111 2039\n".to_vec(),
            }),
            report: Report {
                distribution: Observed::Known(HostText::new(b"Debian GNU/Linux 12 (bookworm)")),
                kernel: Observed::Known(HostText::new(b"6.1.0-18-amd64")),
                architecture: Architecture::X86_64,
                agent_uid: 0,
                page_bytes: 4096,
                start: clocks,
                end: Clocks { monotonic_us: 6_000_000, ..clocks },
                files: 1,
                bytes: 26,
                processes: 212,
                left_out: LeftOut { processes: 0, details: 180, files: 0 },
            },
        }
    }
}

/// How long the processes are watched before, to know which of them matter, in milliseconds.
pub const RANKING_MS: u32 = 300;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Time between the two instants, in milliseconds: 100-60000, default 1000.
    #[cfg_attr(feature = "schema", schemars(range(min = 100, max = 60_000)))]
    pub window_ms: u32,
    /// Bytes of all files together: 65536-8388608, default 262144. Processes that matter less are
    /// left out to fit.
    #[cfg_attr(feature = "schema", schemars(range(min = 65_536, max = 8_388_608)))]
    pub max_bytes: u32,
}

impl Default for Request {
    fn default() -> Self {
        Self { window_ms: 1000, max_bytes: 256 << 10 }
    }
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    /// When it was so.
    pub instant: Instant,
    /// Below the root, raw, without a slash at its start.
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
    /// Its content.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

/// Which end of the window a file is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Instant {
    /// Both: it did not change.
    Same,
    /// Its start.
    Start,
    /// Its end.
    End,
}

impl Instant {
    /// The folder that such files are in.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Start => "start",
            Self::End => "end",
        }
    }
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The distribution, as `/etc/os-release` names it.
    pub distribution: Observed<HostText>,
    /// The kernel's release.
    pub kernel: Observed<HostText>,
    /// The processor.
    pub architecture: Architecture,
    /// The user who read the files.
    pub agent_uid: u32,
    /// Bytes of a page of memory.
    pub page_bytes: u64,
    /// The clocks at the start of the window.
    pub start: Clocks,
    /// The clocks at its end.
    pub end: Clocks,
    /// Files that were sent.
    pub files: u32,
    /// Their bytes.
    pub bytes: u64,
    /// Processes in them.
    pub processes: u32,
    /// What was left out.
    pub left_out: LeftOut,
}

/// What the limit on bytes left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Processes of which nothing was taken.
    pub processes: u32,
    /// Processes of which only `/proc/PID/stat` was taken.
    pub details: u32,
    /// Files that are longer than what is taken of one.
    pub files: u32,
}

/// The clocks at one instant, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Clocks {
    /// The clock that cannot be set.
    pub monotonic_us: u64,
    /// Since boot, time asleep included.
    pub since_boot_us: u64,
    /// Since 1970.
    pub wall_us: u64,
}

/// A processor that there is an agent for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Architecture {
    /// `x86_64`.
    #[serde(rename = "x86_64")]
    X86_64,
    /// `aarch64`.
    #[serde(rename = "aarch64")]
    Aarch64,
    /// One that this agent was built for by hand.
    #[serde(rename = "other")]
    Other,
}

impl Architecture {
    /// The kernel's name for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
            Self::Other => "other",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_of_no_size_is_refused() {
        let request = Request { max_bytes: 1, ..Request::default() };
        let error = Capture::check(&request).unwrap_err();
        assert_eq!(error.to_string(), "max_bytes is 1: expected 65536 to 8388608");
    }
}
