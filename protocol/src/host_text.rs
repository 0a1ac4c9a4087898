//! Text that a target controls, made harmless.
//!
//! Process names, command lines and paths are written by whoever runs the process. They reach a
//! terminal and a language model, so control characters, terminal escapes, characters that reorder
//! or hide text, and bytes that are not UTF-8 are shown as escapes, and length is capped.
//! Escaping is reversible: a backslash is doubled.

use serde::{Deserialize, Deserializer, Serialize};
use std::{
    borrow::Cow,
    fmt::{self, Write as _},
};

/// The longest text kept, in bytes of its escaped form. A longer one ends in `…[N more bytes]`.
pub const MAX_BYTES: usize = 512;

/// What follows a text that is not here in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// How many bytes.
    pub bytes: usize,
    /// Whether it is known that there are no more.
    pub is_known: bool,
}

impl Rest {
    const NONE: Self = Self { bytes: 0, is_known: true };
}

/// Escaped text from a target.
///
/// Whoever holds one may print it: decoding repeats the escaping, because the peer that sent it is
/// part of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct HostText(String);

impl HostText {
    /// Escapes raw bytes as the kernel gave them, keeping at most [`MAX_BYTES`].
    pub fn new(raw: &[u8]) -> Self {
        Self::capped(raw, MAX_BYTES)
    }

    /// Escapes raw bytes, keeping at most `cap` bytes of escaped text before the note on the rest.
    pub fn capped(raw: &[u8], cap: usize) -> Self {
        Self::start_of(raw, cap, Rest::NONE)
    }

    /// Takes text that was escaped before. What cannot have been is escaped now.
    pub fn escaped(text: String) -> Self {
        // The cap note makes a cut text longer than the cap; double room keeps it whole.
        if text.len() <= 2 * MAX_BYTES && !text.chars().any(is_harmful) {
            return Self(text);
        }
        Self::new(text.as_bytes())
    }

    /// Bytes that it can have been made of, as far as it was not cut: escaping them gives the same
    /// text.
    pub fn raw(&self) -> Vec<u8> {
        let mut raw = Vec::with_capacity(self.0.len());
        let mut rest = self.0.as_str();
        while let Some(at) = rest.find('\\') {
            let (before, escape) = rest.split_at(at);
            raw.extend_from_slice(before.as_bytes());
            rest = push_raw(&mut raw, escape.get(1..).unwrap_or_default());
        }
        raw.extend_from_slice(rest.as_bytes());
        raw
    }

    /// Escapes the start of something longer, keeping at most `cap` bytes of escaped text before the
    /// note on what is left.
    pub fn start_of(raw: &[u8], cap: usize, rest: Rest) -> Self {
        let left = |taken: usize| Rest { bytes: rest.bytes + raw.len() - taken, ..rest };
        let mut text = String::with_capacity(raw.len().min(cap));
        let mut taken = 0;
        for chunk in raw.utf8_chunks() {
            for character in chunk.valid().chars() {
                if !push_escaped(&mut text, character, cap) {
                    return Self::cut(text, left(taken));
                }
                taken += character.len_utf8();
            }
            for byte in chunk.invalid() {
                if text.len() + 4 > cap {
                    return Self::cut(text, left(taken));
                }
                // Writing to a String cannot fail.
                let _ = write!(text, "\\x{byte:02x}");
                taken += 1;
            }
        }
        if rest == Rest::NONE { Self(text) } else { Self::cut(text, rest) }
    }

    fn cut(mut text: String, left: Rest) -> Self {
        let at_least = if left.is_known { "" } else { "at least " };
        let _ = write!(text, "…[{at_least}{} more bytes]", left.bytes);
        Self(text)
    }

    /// The escaped text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The end of a path, from a slash on, in about `longest` bytes: the last name tells more than
    /// what all paths begin with. A last name that is longer is cut at its end.
    #[must_use]
    pub fn end_of_path(&self, longest: usize) -> Self {
        const LONGEST_ESCAPE: usize = "\\u{10ffff}".len();
        if self.0.len() <= longest {
            return self.clone();
        }
        let mut ends = self.0.match_indices('/').filter_map(|(at, _)| self.0.get(at..));
        if let Some(end) = ends.find(|end| end.len() <= longest) {
            // A path that ends in a slash has no name there.
            if end.len() > 1 {
                return Self(format!("…{end}"));
            }
        }
        let last = self.0.rsplit_once('/').map_or(self.0.as_str(), |(_, last)| last);
        let mut cut = last.char_indices().map(|(at, _)| at).take_while(|at| *at <= longest).last();
        // An escape is kept whole or not at all.
        let kept = cut.and_then(|at| last.get(..at)).unwrap_or_default();
        if let Some(escape) = kept.rfind('\\').filter(|at| kept.len() - at < LONGEST_ESCAPE) {
            cut = Some(escape);
        }
        let kept = cut.and_then(|at| last.get(..at)).unwrap_or_default().trim_end_matches('\\');
        Self(format!("…/{kept}…"))
    }
}

/// Appends one character, escaped if need be. Returns false when it does not fit under the cap.
fn push_escaped(text: &mut String, character: char, cap: usize) -> bool {
    let before = text.len();
    match character {
        '\\' => text.push_str("\\\\"),
        '\n' => text.push_str("\\n"),
        '\t' => text.push_str("\\t"),
        '\r' => text.push_str("\\r"),
        _ if is_harmful(character) => {
            let code = u32::from(character);
            let _ = if code < 0x100 {
                write!(text, "\\x{code:02x}")
            } else {
                write!(text, "\\u{{{code:x}}}")
            };
        }
        _ => text.push(character),
    }
    if text.len() > cap {
        text.truncate(before);
        return false;
    }
    true
}

/// Undoes one escape, whose backslash was taken off. Gives what follows it.
fn push_raw<'t>(raw: &mut Vec<u8>, escape: &'t str) -> &'t str {
    let after = |bytes: usize| escape.get(bytes..).unwrap_or_default();
    let hexadecimal = |digits: Option<&str>| u32::from_str_radix(digits?, 16).ok();
    match escape.as_bytes().first() {
        Some(b'n') => raw.push(b'\n'),
        Some(b't') => raw.push(b'\t'),
        Some(b'r') => raw.push(b'\r'),
        Some(b'x') => {
            let byte = hexadecimal(escape.get(1..3)).and_then(|code| u8::try_from(code).ok());
            match byte.map(|byte| (byte, char::from(byte))) {
                // A character and a byte that is none are shown alike; only the character cannot
                // become a part of another one.
                Some((_, character)) if is_harmful(character) => {
                    raw.extend(String::from(character).bytes());
                }
                Some((byte, _)) => raw.push(byte),
                None => {}
            }
            return after(3);
        }
        Some(b'u') => {
            let end = escape.find('}').unwrap_or(escape.len());
            let character = hexadecimal(escape.get(2..end)).and_then(char::from_u32);
            raw.extend(character.map(String::from).unwrap_or_default().bytes());
            return after(end + 1);
        }
        Some(_) => raw.push(b'\\'),
        None => {}
    }
    after(1)
}

/// Characters that a terminal obeys, or that make text look like something else.
///
/// Control characters (C0, C1), line and paragraph separators, everything of Unicode's
/// bidirectional algorithm that has no glyph (UAX #9), zero-width characters, the byte-order mark,
/// and tag characters, which spell invisible text.
fn is_harmful(character: char) -> bool {
    character.is_control()
        || matches!(
            character,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// A text of ours into which others may have put some of theirs, made safe to print. What was
/// escaped already stays as it is.
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_harmful) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_harmful(character) {
            push_escaped(&mut shown, character, usize::MAX);
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

impl<'de> Deserialize<'de> for HostText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::escaped)
    }
}

impl fmt::Display for HostText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_end_of_a_path_is_what_it_is_known_by() {
        let long = format!("/a/{}", "n".repeat(40));
        let escapes = format!("/a/{}\x1b{}", "n".repeat(14), "m".repeat(30));
        let cases = [
            ("/short/one", "/short/one"),
            ("/kubepods/burstable/pod-1/container-2", "…/pod-1/container-2"),
            (long.as_str(), "…/nnnnnnnnnnnnnnnnnnnn…"),
            (escapes.as_str(), "…/nnnnnnnnnnnnnn…"),
            ("no-slash-at-all-in-a-long-name", "…/no-slash-at-all-in-a…"),
        ];
        for (path, want) in cases {
            let end = HostText::new(path.as_bytes()).end_of_path(20);
            assert_eq!(end.as_str(), want, "{path}");
        }
    }

    #[test]
    fn what_a_terminal_or_a_reader_would_obey_is_shown_as_an_escape() {
        let cases: [(&str, &[u8], &str); 11] = [
            ("plain", b"nginx: worker", "nginx: worker"),
            ("letters of any script", "töööö 漢字".as_bytes(), "töööö 漢字"),
            ("newline", b"x\ny", "x\\ny"),
            ("tab", b"tab\tx", "tab\\tx"),
            ("ANSI colour", b"\x1b[31mred", "\\x1b[31mred"),
            ("terminal title", b"\x1b]0;pwned\x07", "\\x1b]0;pwned\\x07"),
            ("C1 control", "\u{9b}31m".as_bytes(), "\\x9b31m"),
            ("right-to-left override", "a\u{202e}b".as_bytes(), "a\\u{202e}b"),
            ("zero width", "pay\u{200b}pal".as_bytes(), "pay\\u{200b}pal"),
            ("not UTF-8", b"\xff\xfe\xfdz", "\\xff\\xfe\\xfdz"),
            ("a backslash is told from an escape", b"\\x1b", "\\\\x1b"),
        ];
        for (name, raw, want) in cases {
            assert_eq!(HostText::new(raw).as_str(), want, "{name}");
        }
    }

    #[test]
    fn a_name_cut_in_the_middle_of_a_character_keeps_its_start() {
        let raw = "process-name-tö".as_bytes();
        let cut = raw.get(..raw.len() - 1).unwrap();
        assert_eq!(HostText::new(cut).as_str(), "process-name-t\\xc3");
    }

    #[test]
    fn a_long_text_says_how_much_was_cut() {
        let text = HostText::capped(&[b'a'; 2_000_000], 100);
        assert_eq!(text.as_str(), format!("{}…[1999900 more bytes]", "a".repeat(100)));
    }

    #[test]
    fn decoding_escapes_what_a_hostile_peer_sent_raw() {
        let bytes = postcard::to_stdvec("\u{1b}[2J\u{202e}").unwrap();
        let text: HostText = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(text.as_str(), "\\x1b[2J\\u{202e}");
    }

    #[test]
    fn what_was_escaped_stays_and_what_was_not_is_escaped() {
        assert_eq!(printable("it said `\\x1b`"), "it said `\\x1b`");
        assert_eq!(printable("it said `\u{1b}[2J\n`"), "it said `\\x1b[2J\\n`");
    }

    proptest! {
        #[test]
        fn the_result_is_always_printable_and_capped(raw in prop::collection::vec(any::<u8>(), 0..900)) {
            let text = HostText::new(&raw);
            prop_assert!(!text.as_str().chars().any(is_harmful));
            prop_assert!(text.as_str().len() < MAX_BYTES + 40);
        }

        #[test]
        fn escaping_can_be_undone(
            raw in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..100),
                prop::collection::vec(prop::sample::select(&[0x80, 0xc2, 0xe2, 0x85, 0xa9, b'\\'][..]), 0..9),
            ],
        ) {
            let text = HostText::new(&raw);
            prop_assert_eq!(HostText::new(&text.raw()), text);
        }

        #[test]
        fn an_escaped_text_crosses_the_wire_unchanged(raw in prop::collection::vec(any::<u8>(), 0..900)) {
            let text = HostText::new(&raw);
            let bytes = postcard::to_stdvec(&text).unwrap();
            prop_assert_eq!(postcard::from_bytes::<HostText>(&bytes).unwrap(), text);
        }
    }
}
