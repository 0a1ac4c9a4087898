//! The limit on open files of a process.
//!
//! Source: `/proc/PID/limits`, Linux 2.6.24 and later.
//! Kernel reference: `proc_pid_limits` in `fs/proc/base.c`.

use super::parse::{ParseError, fields, line_of, number};

/// The soft limit on open files; `None` is unlimited.
///
/// # Errors
///
/// Without the line, or when its first value is neither a number nor `unlimited`.
pub fn parse_open_files(text: &[u8]) -> Result<Option<u64>, ParseError> {
    const NAME: &str = "Max open files";
    let (line_number, value) =
        line_of(text, NAME).ok_or(ParseError::MissingLine { expected: NAME })?;
    match fields(value).next() {
        Some(b"unlimited") => Ok(None),
        Some(field) => number(field, line_number).map(Some),
        None => Err(ParseError::MissingField { line_number, expected: "soft limit" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_the_first_value() {
        let line =
            |value: &str| format!("Max processes 1 2\nMax open files  {value}  4096  files\n");
        assert_eq!(parse_open_files(line("1024").as_bytes()), Ok(Some(1024)));
        assert_eq!(parse_open_files(line("unlimited").as_bytes()), Ok(None));
        assert!(parse_open_files(b"Max processes 1 2\n").is_err());
    }
}
