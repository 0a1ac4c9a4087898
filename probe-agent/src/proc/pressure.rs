//! Pressure stall information: for how long some task waited for a resource.
//!
//! Source: `/proc/pressure/{cpu,io,memory}`, Linux 4.20 and later.
//! Kernel reference: `Documentation/accounting/psi.rst`, `kernel/sched/psi.c`.
//! Missing without `CONFIG_PSI`; where it is switched off (`psi=0`, or
//! `CONFIG_PSI_DEFAULT_DISABLED`), by kernel version missing too, or reading fails with
//! `EOPNOTSUPP`.
//!
//! Only the counter is read: a window of our own choosing comes from two counters, and the
//! kernel's averages smooth over it.

use super::parse::{ParseError, fields, lines, number};
use std::time::Duration;

/// Time since boot for which some task waited.
///
/// # Errors
///
/// Without a `some` line, or without its `total`.
pub fn parse_some_total(text: &[u8]) -> Result<Duration, ParseError> {
    let (line_number, rest) = lines(text)
        .find_map(|(line_number, line)| Some((line_number, line.strip_prefix(b"some ")?)))
        .ok_or(ParseError::MissingLine { expected: "some" })?;
    let total = fields(rest)
        .find_map(|field| field.strip_prefix(b"total="))
        .ok_or(ParseError::MissingField { line_number, expected: "total" })?;
    number(total, line_number).map(Duration::from_micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals() {
        let text = b"some avg10=0.00 avg60=1.11 avg300=0.68 total=2828208\n\
                     full avg10=0.00 avg60=0.91 avg300=0.56 total=2334731\n";
        assert_eq!(parse_some_total(text), Ok(Duration::from_micros(2_828_208)));
        let wrong = [
            ("empty", "", "no `some` line"),
            ("only full", "full total=1\n", "no `some` line"),
            ("no total", "some avg10=0.00\n", "line 1: no total"),
            ("negative", "some total=-1\n", "line 1: `-1` is not a number"),
        ];
        for (name, text, want) in wrong {
            assert_eq!(parse_some_total(text.as_bytes()).unwrap_err().to_string(), want, "{name}");
        }
    }
}
