//! What a process may do: capabilities, and whether its system calls are filtered.
//!
//! Source: `/proc/PID/status`, lines `CapPrm`, `CapEff` (Linux 2.6) and `Seccomp` (Linux 3.8).
//! Kernel reference: `Documentation/filesystems/proc.rst`, `man 7 capabilities`.

use super::parse::{ParseError, fields, line_of, number_of};
use protocol::host_text::HostText;

/// The credentials of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// `CapPrm`: what it could put into effect.
    pub permitted: u64,
    /// `CapEff`: what is in effect.
    pub effective: u64,
    /// `Seccomp` is 2: a filter is on its system calls.
    pub has_seccomp_filter: bool,
}

/// Reads the lines.
///
/// # Errors
///
/// Without the capabilities, which every kernel shows.
pub fn parse(text: &[u8]) -> Result<Credentials, ParseError> {
    Ok(Credentials {
        permitted: hexadecimal(text, "CapPrm")?,
        effective: hexadecimal(text, "CapEff")?,
        has_seccomp_filter: number_of(text, "Seccomp") == Ok(2),
    })
}

fn hexadecimal(text: &[u8], name: &'static str) -> Result<u64, ParseError> {
    let (line_number, value) =
        line_of(text, name).ok_or(ParseError::MissingLine { expected: name })?;
    let field =
        fields(value).next().ok_or(ParseError::MissingField { line_number, expected: name })?;
    let digits = std::str::from_utf8(field).ok().filter(|digits| !digits.starts_with('+'));
    digits
        .and_then(|digits| u64::from_str_radix(digits, 16).ok())
        .ok_or_else(|| ParseError::NotANumber { line_number, text: HostText::new(field) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_hexadecimal() {
        let text = b"Name:\tx\nCapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\n\
                     CapEff:\t000001fffeffffff\nSeccomp:\t2\nSeccomp_filters:\t1\n";
        let want = Credentials {
            permitted: 0x1ff_ffff_ffff,
            effective: 0x1ff_feff_ffff,
            has_seccomp_filter: true,
        };
        assert_eq!(parse(text), Ok(want));
        assert!(parse(b"CapPrm:\tx\nCapEff:\t0\n").is_err());
        assert!(parse(b"CapPrm:\t0\n").is_err());
        assert!(!parse(b"CapPrm:\t0\nCapEff:\t0\n").unwrap().has_seccomp_filter);
    }
}
