//! The machine's memory: how it is used, and what was done to get some.
//!
//! Source: `/proc/meminfo`, `/proc/vmstat`. Kernel reference: `fs/proc/meminfo.c`, `mm/vmstat.c`,
//! `Documentation/filesystems/proc.rst`. `MemAvailable` is there since Linux 3.14, `oom_kill` since
//! 4.13. Before 4.8 the pages that were looked through are counted for each zone apart.

use super::parse::{ParseError, fields, lines, number, number_of};
use protocol::units::Bytes;

/// A line of `/proc/meminfo`, which gives kibibytes.
///
/// # Errors
///
/// Where there is none, or where it holds no number.
pub fn amount(text: &[u8], name: &'static str) -> Result<Bytes, ParseError> {
    number_of(text, name).map(|kib| Bytes(kib.saturating_mul(1024)))
}

/// Pages that tasks looked through themselves, before they got memory, from `/proc/vmstat`.
///
/// # Errors
///
/// Where no line counts them, or one holds no number.
pub fn direct_scans(text: &[u8]) -> Result<u64, ParseError> {
    const NAME: &str = "pgscan_direct";
    /// Counts pauses and not pages.
    const PAUSES: &[u8] = b"pgscan_direct_throttle";
    let mut sum: Option<u64> = None;
    for (line_number, line) in lines(text) {
        let mut words = fields(line);
        let Some(name) = words.next() else { continue };
        if name.starts_with(NAME.as_bytes()) && name != PAUSES {
            let expected = ParseError::MissingField { line_number, expected: NAME };
            let pages = number(words.next().ok_or(expected)?, line_number)?;
            sum = Some(sum.unwrap_or(0).saturating_add(pages));
        }
    }
    sum.ok_or(ParseError::MissingLine { expected: NAME })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_in_bytes() {
        let text = b"MemTotal:       4026532 kB\nMemFree: 1 kB\nHugePages_Total:       0\n";
        assert_eq!(amount(text, "MemTotal"), Ok(Bytes(4_026_532 * 1024)));
        assert_eq!(amount(text, "MemAvailable").unwrap_err().to_string(), "no `MemAvailable` line");
    }

    #[test]
    fn direct_scans_of_old_and_new_kernels() {
        let cases = [
            ("new", "pgscan_direct 7\npgscan_direct_throttle 100\n", Ok(7)),
            (
                "by zone",
                "pgscan_direct_dma 1\npgscan_direct_normal 2\npgscan_kswapd_normal 9\n",
                Ok(3),
            ),
        ];
        for (name, text, want) in cases {
            assert_eq!(direct_scans(text.as_bytes()), want, "{name}");
        }
        assert!(direct_scans(b"pgfault 1\n").is_err());
        assert!(direct_scans(b"pgscan_direct\n").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_file_or_an_error(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = amount(&text, "MemTotal");
            let _ = direct_scans(&text);
        }
    }
}
