//! Names of code that was compiled while the program ran.
//!
//! Source: `/tmp/perf-PID.map`, in the mount namespace of the process and with its number in its own
//! namespace of processes. Format: `tools/perf/Documentation/jit-interface.txt` in the kernel's
//! sources; OpenJDK writes `0x` before both numbers. Node appends for as long as it runs, so that a
//! later line takes the place of an earlier one where they overlap.

use super::{How, Named, demangle, kernel_names::hexadecimal};
use std::collections::BTreeMap;

/// The most of the file that is worth reading, counted from its end: later lines count.
pub const MOST_BYTES: usize = 64 << 20;

/// The most pieces of code that are kept, 25 MiB of them. A busy JVM has 30,000.
const MOST_PIECES: usize = 1 << 19;

/// Its path below the root of the process, by the number that the process has in its own namespace.
pub fn path(namespaced_pid: u32) -> String {
    format!("tmp/perf-{namespaced_pid}.map")
}

/// A piece of a function that no later one has taken the place of.
#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u64,
    /// Where the function starts of which this is what is left.
    start: u64,
    /// Where its line begins in the text.
    line: usize,
}

/// Functions by address; their names stay in the text.
#[derive(Debug)]
pub struct PerfMap<'t> {
    text: &'t [u8],
    /// By where each piece begins. They do not overlap.
    pieces: BTreeMap<u64, Piece>,
    wrong_lines: usize,
    is_cut: bool,
}

impl<'t> PerfMap<'t> {
    /// Reads the file's text. Lines that are none are counted and passed over: the last one may be
    /// half written, and the first one half read.
    pub fn parse(text: &'t [u8]) -> Self {
        let mut map = Self { text, pieces: BTreeMap::new(), wrong_lines: 0, is_cut: false };
        let mut end = text.len();
        // From the last line to the first: each takes only what no later one has.
        for whole in text.split_inclusive(|byte| *byte == b'\n').rev() {
            let line = end - whole.len();
            end = line;
            match parse_line(whole) {
                Some((start, length, _)) => {
                    if let Some(end) = start.checked_add(length) {
                        map.fill(start, end, line);
                    }
                }
                None if whole.trim_ascii().is_empty() => {}
                None => map.wrong_lines += 1,
            }
            if map.pieces.len() >= MOST_PIECES {
                map.is_cut = true;
                break;
            }
        }
        map
    }

    /// Adds what of a function is still free.
    fn fill(&mut self, start: u64, end: u64, line: usize) {
        let mut from = start;
        let earlier = self.pieces.range(..=start).next_back();
        if let Some((_, piece)) = earlier {
            from = from.max(piece.end);
        }
        while from < end && self.pieces.len() < MOST_PIECES {
            let next = self.pieces.range(from..).next().map(|(next, piece)| (*next, piece.end));
            let until = next.map_or(end, |(next, _)| next.min(end));
            if from < until {
                self.pieces.insert(from, Piece { end: until, start, line });
            }
            match next {
                Some((next, next_end)) if next < end => from = next_end,
                Some(_) | None => break,
            }
        }
    }

    /// How many pieces of code have a name.
    pub fn count(&self) -> usize {
        self.pieces.len()
    }

    /// How many lines were passed over because they are no line of such a file.
    pub fn wrong_lines(&self) -> usize {
        self.wrong_lines
    }

    /// Whether there was more than is kept. What is missing is the oldest.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The function that has an address.
    pub fn find(&self, address: u64) -> Option<Named> {
        let (_, piece) = self.pieces.range(..=address).next_back()?;
        if address >= piece.end {
            return None;
        }
        let line = self.text.get(piece.line..)?.split(|byte| *byte == b'\n').next()?;
        let (_, _, name) = parse_line(line)?;
        Some(Named { text: demangle::plain(name), start: piece.start, how: How::PerfMap })
    }
}

/// `START SIZE NAME`, with names that may hold spaces.
fn parse_line(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let line = line.trim_ascii();
    let (start, rest) = number(line)?;
    let (length, name) = number(rest)?;
    (length > 0 && !name.is_empty()).then_some((start, length, name))
}

/// A hexadecimal number, and what follows the blanks behind it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    // No number that fits is longer than `0x` and 16 digits.
    let end = text.iter().take(19).position(u8::is_ascii_whitespace)?;
    let (digits, rest) = text.split_at_checked(end)?;
    let digits = digits.strip_prefix(b"0x").or(digits.strip_prefix(b"0X")).unwrap_or(digits);
    Some((hexadecimal(digits)?, rest.trim_ascii_start()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(map: &PerfMap, addresses: &[u64]) -> Vec<Option<String>> {
        addresses.iter().map(|at| map.find(*at).map(|name| name.text.to_string())).collect()
    }

    #[test]
    fn each_form_of_a_line_is_read() {
        let cases = [
            ("plain", "1000 20 foo\n", Some("foo")),
            (
                "OpenJDK",
                "0x0000000000001000 0x0000000000000020 java.lang.String::hash\n",
                Some("java.lang.String::hash"),
            ),
            (
                "spaces in a name",
                "1000 20 LazyCompile:*f /a b.js:1:2\n",
                Some("LazyCompile:*f /a b.js:1:2"),
            ),
            ("upper case", "1000 20 A\n", Some("A")),
            ("no end of line", "1000 20 foo", Some("foo")),
            ("a terminal's escape", "1000 20 a\x1b[2J\n", Some("a\\x1b[2J")),
            ("no name", "1000 20 \n", None),
            ("no size", "1000 foo\n", None),
            ("no length", "1000 0 foo\n", None),
            ("beyond the end of memory", "fffffffffffffff0 20 foo\n", None),
            ("a longer number than there is", "00000000000000000001000 20 foo\n", None),
            ("a sign", "-1000 20 foo\n", None),
        ];
        for (case, text, expected) in cases {
            let map = PerfMap::parse(text.as_bytes());
            assert_eq!(names(&map, &[0x101f])[0].as_deref(), expected, "{case}");
            assert_eq!(names(&map, &[0xfff, 0x1020]), [None, None], "{case}");
        }
        let map = PerfMap::parse(b"1000 20 a\xff\n");
        assert_eq!(names(&map, &[0x1000])[0].as_deref(), Some("a\\xff"));
    }

    #[test]
    fn a_later_line_takes_the_place_of_an_earlier_one() {
        let text = b"1000 100 old\n2000 10 other\n1040 20 new\n1050 8 newest\n";
        let map = PerfMap::parse(text);
        let at = [0x1000, 0x103f, 0x1040, 0x104f, 0x1050, 0x1057, 0x1058, 0x1060, 0x10ff, 0x1100];
        let found: Vec<String> =
            names(&map, &at).into_iter().map(Option::unwrap_or_default).collect();
        let expected = ["old", "old", "new", "new", "newest", "newest", "new", "old", "old", ""];
        assert_eq!(found, expected);
        assert_eq!(map.find(0x10ff).unwrap().start, 0x1000, "what is left is still that function");
    }

    #[test]
    fn lines_that_are_none_are_counted() {
        let map = PerfMap::parse(b"alf written\n1000 20 foo\n\n2000 xx bar\n3000 2");
        assert_eq!((map.count(), map.wrong_lines()), (1, 3));
    }

    #[test]
    fn what_is_kept_is_capped() {
        let text: String =
            (0..MOST_PIECES + 10).map(|at| format!("{:x} 8 f{at}\n", at * 16)).collect();
        let map = PerfMap::parse(text.as_bytes());
        assert!(map.is_cut());
        assert_eq!(map.count(), MOST_PIECES);
        assert!(map.find(0).is_none(), "the oldest is what is missing");
    }

    proptest! {
        #[test]
        fn pieces_do_not_overlap_and_the_last_line_wins(
            lines in prop::collection::vec((0_u64..64, 1_u64..16), 0..20),
        ) {
            let text: String = lines.iter().enumerate()
                .map(|(index, (start, length))| format!("{start:x} {length:x} f{index}\n")).collect();
            let map = PerfMap::parse(text.as_bytes());
            for address in 0..80 {
                let last = lines.iter().rposition(|(start, length)| {
                    (*start..start + length).contains(&address)
                });
                let found = map.find(address).map(|name| name.text.to_string());
                prop_assert_eq!(found, last.map(|index| format!("f{index}")));
            }
        }

        #[test]
        fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..200), at: u64) {
            let _ = PerfMap::parse(&text).find(at);
        }
    }
}
