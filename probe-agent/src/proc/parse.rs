//! What the parsers share: numbers out of bytes, and what is wrong with a line.

use protocol::host_text::HostText;

/// Why a kernel file's text was not understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A line that should be there is not.
    #[error("no `{expected}` line")]
    MissingLine {
        /// The start of the line.
        expected: &'static str,
    },
    /// A line has no such field.
    #[error("line {line_number}: no {expected}")]
    MissingField {
        /// 1-based.
        line_number: usize,
        /// The field.
        expected: &'static str,
    },
    /// A field is not a number that fits.
    #[error("line {line_number}: `{text}` is not a number")]
    NotANumber {
        /// 1-based.
        line_number: usize,
        /// What was found.
        text: HostText,
    },
}

impl ParseError {
    /// The error as text that may be shown.
    pub fn shown(&self) -> HostText {
        HostText::new(self.to_string().as_bytes())
    }
}

/// Reads a decimal number that fills the whole field.
///
/// # Errors
///
/// [`ParseError::NotANumber`] for an empty field, a sign, a letter, or a number above `u64::MAX`.
pub fn number(field: &[u8], line_number: usize) -> Result<u64, ParseError> {
    let value = field.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        let value = value.checked_mul(10)?.checked_add(digit.into())?;
        (digit < 10).then_some(value)
    });
    let not_a_number = || ParseError::NotANumber { line_number, text: HostText::new(field) };
    value.filter(|_| !field.is_empty()).ok_or_else(not_a_number)
}

/// The lines of a file with their numbers, counted from 1.
pub fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    text.split(|byte| *byte == b'\n').enumerate().map(|(index, line)| (index + 1, line))
}

/// The fields of a line, between spaces and tabs.
pub fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ' || *byte == b'\t').filter(|field| !field.is_empty())
}

/// Finds the line that starts with `name` followed by a colon or a blank; gives its number and what
/// follows.
pub fn line_of<'t>(text: &'t [u8], name: &str) -> Option<(usize, &'t [u8])> {
    lines(text).find_map(|(line_number, line)| {
        let rest = line.strip_prefix(name.as_bytes())?;
        let (separator, value) = rest.split_first()?;
        matches!(separator, b':' | b' ' | b'\t').then_some((line_number, value))
    })
}

/// The first number on the line that starts with `name`.
///
/// # Errors
///
/// [`ParseError::MissingLine`] where there is none, and [`ParseError::MissingField`] or
/// [`ParseError::NotANumber`] where it holds no number.
pub fn number_of(text: &[u8], name: &'static str) -> Result<u64, ParseError> {
    let (line_number, value) =
        line_of(text, name).ok_or(ParseError::MissingLine { expected: name })?;
    let field =
        fields(value).next().ok_or(ParseError::MissingField { line_number, expected: name })?;
    number(field, line_number)
}

/// A file that holds one number.
///
/// # Errors
///
/// As for [`number`].
pub fn only_number(text: &[u8]) -> Result<u64, ParseError> {
    number(text.trim_ascii(), 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_read_whole_or_refused() {
        assert_eq!(number(b"0", 1), Ok(0));
        assert_eq!(number(b"18446744073709551615", 1), Ok(u64::MAX));
        for wrong in ["", "-1", "+1", "1k", "18446744073709551616", " 1"] {
            assert!(number(wrong.as_bytes(), 1).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_name_that_is_the_start_of_another_is_not_its_line() {
        let text = b"VmRSSx:\t1 kB\nVmRSS:\t2 kB\n";
        assert_eq!(number_of(text, "VmRSS"), Ok(2));
        assert_eq!(number_of(text, "Vm"), Err(ParseError::MissingLine { expected: "Vm" }));
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_helper_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = number(&text, 1);
            let _ = number_of(&text, "VmRSS");
            let _ = only_number(&text);
        }
    }
}
