//! The text of a source, line by line, without its secrets.

use protocol::{
    host_text::{HostText, Rest},
    redact,
};
use std::borrow::Cow;

/// The most that is shown of a line, in bytes.
const MOST_SHOWN_BYTES: usize = 200;

/// The most that is looked at of a line: a secret is known by its end too.
const MOST_SEEN_BYTES: usize = 2048;

/// Stands for a tab.
const TAB: &[u8] = b"    ";

/// Lines of a source.
pub struct Lines<'s> {
    lines: Vec<&'s [u8]>,
    /// Of each, whether it is in a private key.
    is_of_key: Vec<bool>,
}

/// A line as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Its text.
    pub text: HostText,
    /// Secrets that were taken out of it.
    pub redacted: u32,
}

impl<'s> Lines<'s> {
    /// Parts a text into lines, also with the line ends of Windows.
    pub fn of(bytes: &'s [u8]) -> Self {
        let mut lines: Vec<&[u8]> = bytes
            .split(|byte| *byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
            .collect();
        // What ends in the end of a line has no line after it.
        if bytes.ends_with(b"\n") || bytes.is_empty() {
            lines.pop();
        }
        let is_of_key = keys(&lines);
        Self { lines, is_of_key }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.lines.len()
    }

    /// A line, counted from 1, as it is shown.
    pub fn shown(&self, line: u32) -> Option<Shown> {
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        let raw = *self.lines.get(index)?;
        if self.is_of_key.get(index).copied().unwrap_or_default() {
            let text = HostText::new(redact::PLACEHOLDER.as_bytes());
            return Some(Shown { text, redacted: 1 });
        }
        let seen = raw.get(..MOST_SEEN_BYTES).unwrap_or(raw);
        let seen = with_spaces(seen);
        let rest = Rest { bytes: raw.len().saturating_sub(MOST_SEEN_BYTES), is_known: true };
        let readable = String::from_utf8_lossy(&seen);
        let (kept, redacted) = redact::text(&readable);
        // What is not UTF-8 is shown as it is where there is no secret in the line.
        let kept: &[u8] = if redacted > 0 { kept.as_bytes() } else { &seen };
        Some(Shown { text: HostText::start_of(kept, MOST_SHOWN_BYTES, rest), redacted })
    }

    /// The line on which a function or a class is defined, in languages that have a word for that.
    pub fn definition_of(&self, name: &str) -> Option<u32> {
        const WORDS: [&[u8]; 5] = [b"def ", b"async def ", b"class ", b"function ", b"module "];
        let defines = |line: &&[u8]| {
            let line = line.trim_ascii_start();
            let rest = WORDS.iter().find_map(|word| line.strip_prefix(*word))?;
            let after = rest.trim_ascii_start().strip_prefix(name.as_bytes())?;
            let ends =
                after.first().is_none_or(|byte| !byte.is_ascii_alphanumeric() && *byte != b'_');
            ends.then_some(())
        };
        let index = self.lines.iter().position(|line| defines(line).is_some())?;
        u32::try_from(index + 1).ok()
    }
}

fn with_spaces(line: &[u8]) -> Cow<'_, [u8]> {
    if !line.contains(&b'\t') {
        return Cow::Borrowed(line);
    }
    let part = |byte: &u8| if *byte == b'\t' { TAB.to_vec() } else { vec![*byte] };
    Cow::Owned(line.iter().flat_map(part).collect())
}

/// Which lines are in a private key: from the one that begins it to the one that ends it, as far as
/// there is nothing between that no key has.
fn keys(lines: &[&[u8]]) -> Vec<bool> {
    let holds = |line: &[u8], text: &[u8]| line.windows(text.len()).any(|part| part == text);
    let mut is_inside = false;
    lines
        .iter()
        .map(|line| {
            let is_mark = holds(line, b"PRIVATE KEY-----");
            if is_mark && holds(line, b"-----BEGIN ") {
                is_inside = !holds(line, b"-----END ");
                return true;
            }
            let was_inside = is_inside;
            is_inside = is_inside && !is_mark && may_be_of_key(line);
            was_inside && (is_inside || is_mark)
        })
        .collect()
}

/// Whether a line may be one of a key: as it is in a file, or in quotes in a program.
fn may_be_of_key(line: &[u8]) -> bool {
    let is_header = line.windows(2).any(|pair| pair == b": ");
    let is_digit = |byte: &u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\\' | b'"' | b'\'')
    };
    let rest = line.trim_ascii();
    let rest = rest.strip_suffix(b",").or_else(|| rest.strip_suffix(b" +")).unwrap_or(rest);
    is_header || rest.iter().all(is_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &[u8], line: u32) -> Option<String> {
        Lines::of(text).shown(line).map(|shown| shown.text.to_string())
    }

    #[test]
    fn lines_are_counted_as_editors_count_them() {
        let cases: [(&[u8], usize); 6] =
            [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"a\n\n", 2), (b"\n", 1)];
        for (text, count) in cases {
            assert_eq!(Lines::of(text).count(), count, "{text:?}");
        }
        assert_eq!(shown(b"a\r\nb", 1).as_deref(), Some("a"));
        assert_eq!(shown(b"a\nb", 2).as_deref(), Some("b"));
        assert_eq!((shown(b"a\n", 0), shown(b"a\n", 2)), (None, None));
    }

    #[test]
    fn a_line_is_shown_harmless_short_and_without_its_secrets() {
        let cases: [(&[u8], &str); 6] = [
            (b"\tif (x)", "    if (x)"),
            (b"a\x1b[2Jb", "a\\x1b[2Jb"),
            (b"caf\xe9", "caf\\xe9"),
            (b"password = \"hunter2\"", "password = \"[redacted]\""),
            (b"caf\xe9 password = \"hunter2\"", "caf\u{fffd} password = \"[redacted]\""),
            ("\u{202e}x".as_bytes(), "\\u{202e}x"),
        ];
        for (line, want) in cases {
            assert_eq!(shown(line, 1).as_deref(), Some(want), "{line:?}");
        }
        let long = shown(&[b'x'; 5000], 1).unwrap();
        assert!(long.len() < 260 && long.ends_with("more bytes]"), "{long}");
        assert!(long.contains("4800"), "{long}");
    }

    #[test]
    fn no_line_of_a_private_key_is_shown() {
        let text = b"before\n\
            key = \"\"\"-----BEGIN RSA PRIVATE KEY-----\n\
            Proc-Type: 4,ENCRYPTED\n\
            \n\
            MIIEowIBAAKCAQEA1234\n\
            -----END RSA PRIVATE KEY-----\"\"\"\n\
            if \"-----BEGIN PRIVATE KEY-----\" in text:\n\
            \x20   return parse(text)\n\
            after\n";
        let lines = Lines::of(text);
        let all: Vec<String> =
            (1..=9).map(|line| lines.shown(line).unwrap().text.to_string()).collect();
        let key = redact::PLACEHOLDER;
        let want = ["before", key, key, key, key, key, key, "    return parse(text)", "after"];
        assert_eq!(all, want);
    }

    #[test]
    fn a_definition_is_found_by_its_name_and_not_by_a_part_of_it() {
        let text =
            b"import x\ndef worker():\n  pass\nclass A:\n  async def work(self):\n    pass\n";
        let lines = Lines::of(text);
        assert_eq!(lines.definition_of("work"), Some(5));
        assert_eq!(lines.definition_of("worker"), Some(2));
        assert_eq!(lines.definition_of("A"), Some(4));
        assert_eq!(lines.definition_of("other"), None);
    }
}
