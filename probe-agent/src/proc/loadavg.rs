//! How many threads the machine has, and its load average.
//!
//! Source: `/proc/loadavg`. Kernel reference: `fs/proc/loadavg.c`, `man 5 proc_loadavg`.
//! Always there. The count is of the whole machine, also from within a pid namespace and where
//! `/proc` hides processes.

use super::parse::{ParseError, fields, number};

/// Threads that there are.
///
/// # Errors
///
/// Without the field of the form `running/all`.
pub fn parse_threads(text: &[u8]) -> Result<u64, ParseError> {
    let missing = ParseError::MissingField { line_number: 1, expected: "threads" };
    let field = fields(text).nth(3).ok_or_else(|| missing.clone())?;
    let slash = field.iter().position(|byte| *byte == b'/').ok_or_else(|| missing.clone())?;
    number(field.get(slash + 1..).unwrap_or_default(), 1)
}

/// The number that was given away last to a process or thread of the reader's pid namespace.
///
/// # Errors
///
/// Without the last field.
pub fn parse_last_pid(text: &[u8]) -> Result<u32, ParseError> {
    let missing = ParseError::MissingField { line_number: 1, expected: "last pid" };
    let number = number(fields(text.trim_ascii_end()).nth(4).ok_or_else(|| missing.clone())?, 1)?;
    u32::try_from(number).map_err(|_| missing)
}

/// The load average of the last minute; `None` where the text does not begin with one.
pub fn parse_last_minute(text: &[u8]) -> Option<f64> {
    let first = text.split(|byte| *byte == b' ').next().unwrap_or_default();
    let value = std::str::from_utf8(first).ok().and_then(|word| word.parse::<f64>().ok());
    value.filter(|load| load.is_finite() && *load >= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_is_a_number_that_is_not_negative() {
        assert_eq!(parse_last_minute(b"0.20 0.18 0.12 1/80 11206\n"), Some(0.2));
        for wrong in ["", "-1.0 0 0", "inf 0 0", "nan 0 0", "\u{fffd} 0 0"] {
            assert_eq!(parse_last_minute(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn running_threads_are_not_taken_for_all() {
        assert_eq!(parse_threads(b"0.20 0.18 0.12 1/80 11206\n"), Ok(80));
        for wrong in ["", "0.20 0.18 0.12", "0.20 0.18 0.12 80 1", "0.20 0.18 0.12 1/x 1"] {
            assert!(parse_threads(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_number_is_that_of_the_last_field() {
        assert_eq!(parse_last_pid(b"0.20 0.18 0.12 1/80 11206\n"), Ok(11_206));
        for wrong in ["", "0.20 0.18 0.12 1/80", "0 0 0 1/80 4294967296"] {
            assert!(parse_last_pid(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
