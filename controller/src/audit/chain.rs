//! The chain of digests through an audit log.
//!
//! A line is a JSON object whose last field is its own digest: sha256 over the digest of the line
//! before and everything of this one in front of that field.

use protocol::handshake::Sha256;
use sha2::Digest as _;

/// Comes before the first line.
const START: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// Joins a line's body and its digest.
const SEAL: &str = ",\"digest\":\"";

/// Closes a line with its digest.
pub fn sealed(previous: &str, body: &str) -> String {
    // The body is a JSON object; its closing brace makes room for one more field.
    let open = body.strip_suffix('}').unwrap_or(body);
    format!("{open}{SEAL}{}\"}}", digest(previous, open.as_bytes()))
}

fn digest(previous: &str, open: &[u8]) -> String {
    let mut digest = sha2::Sha256::new();
    digest.update(previous.as_bytes());
    digest.update(open);
    Sha256(digest.finalize().into()).to_string()
}

/// The number of the line to come and the digest it follows, by the last line that holds anything.
/// A line that is no longer whole is followed as it stands, so that it cannot be taken out
/// unnoticed.
pub fn continue_after(last: &[u8]) -> (u64, String) {
    if last.is_empty() {
        return (1, START.to_owned());
    }
    let sequence = sequence_of(last).unwrap_or(0).saturating_add(1);
    match split(last) {
        Some((_, seal)) => (sequence, seal.to_owned()),
        None => (sequence, digest(START, last)),
    }
}

fn sequence_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"sequence\":")?;
    let digits = rest.split(|byte| !byte.is_ascii_digit()).next()?;
    str::from_utf8(digits).ok()?.parse().ok()
}

/// Takes a line apart: what the digest is over, and the digest.
fn split(line: &[u8]) -> Option<(&[u8], &str)> {
    let rest = line.strip_suffix(b"\"}")?;
    let (open, seal) = rest.split_at_checked(rest.len().checked_sub(START.len())?)?;
    let seal = str::from_utf8(seal).ok()?;
    Sha256::parse(seal)?;
    Some((open.strip_suffix(SEAL.as_bytes())?, seal))
}

/// What a look through a log found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// How many lines there are.
    pub lines: usize,
    /// The lines that do not follow from the one before, in their order.
    pub breaks: Vec<Break>,
}

/// Lines next to each other with which the same is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Break {
    /// The first of them, 1-based.
    pub first: usize,
    /// The last of them.
    pub last: usize,
    /// What is wrong with them.
    pub reason: &'static str,
}

impl Break {
    /// Which lines, in a sentence.
    pub fn place(&self) -> String {
        if self.first == self.last {
            return format!("line {}", self.first);
        }
        format!("lines {} to {}", self.first, self.last)
    }
}

/// The lines of a log. They are bytes: what was changed, or cut within a character, is no text.
pub fn lines(log: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = log.strip_suffix(b"\n").unwrap_or(log).split(|byte| *byte == b'\n');
    lines.take(if log.is_empty() { 0 } else { usize::MAX })
}

/// Follows the chain to its end. Behind a line that breaks it, it goes on as a writer does that
/// finds this line: so a break hides no other.
pub fn verify(log: &[u8]) -> Verdict {
    let mut verdict = Verdict::default();
    let (mut sequence, mut previous) = continue_after(b"");
    for line in lines(log) {
        verdict.lines += 1;
        if let Some(reason) = what_is_wrong(line, sequence, &previous) {
            verdict.broken_at(verdict.lines, reason);
        }
        // A writer passes over lines that hold nothing.
        let line = line.trim_ascii_end();
        if !line.is_empty() {
            (sequence, previous) = continue_after(line);
        }
    }
    verdict
}

fn what_is_wrong(line: &[u8], sequence: u64, previous: &str) -> Option<&'static str> {
    let Some((open, seal)) = split(line) else {
        return Some("not whole: cut off or changed");
    };
    if digest(previous, open) != seal {
        return Some("does not follow from the line before: changed, or another one was");
    }
    (sequence_of(line) != Some(sequence)).then_some("its number is not the next one")
}

impl Verdict {
    fn broken_at(&mut self, line: usize, reason: &'static str) {
        match self.breaks.last_mut() {
            Some(known) if known.last + 1 == line && known.reason == reason => known.last = line,
            Some(_) | None => self.breaks.push(Break { first: line, last: line, reason }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A log that a writer went on with, whatever had happened to it.
    fn continued(mut log: Vec<Vec<u8>>, lines: usize) -> Vec<Vec<u8>> {
        for _ in 0..lines {
            let written = log.iter().rev().map(|line| line.trim_ascii_end());
            let last = written.clone().find(|line| !line.is_empty()).unwrap_or_default();
            let (sequence, previous) = continue_after(last);
            let line = sealed(&previous, &format!("{{\"sequence\":{sequence},\"a\":\"bä\"}}"));
            log.push(line.into_bytes());
        }
        log
    }

    fn log(lines: usize) -> Vec<Vec<u8>> {
        continued(Vec::new(), lines)
    }

    fn change(line: &mut [u8]) {
        let place = line.iter().position(|byte| *byte == b'b').unwrap();
        line[place] = b'c';
    }

    fn places(log: &[Vec<u8>]) -> Vec<String> {
        verify(&log.join(&b'\n')).breaks.iter().map(Break::place).collect()
    }

    #[test]
    fn what_is_changed_removed_added_or_moved_is_found() {
        type Change = fn(&mut Vec<Vec<u8>>);
        let changes: [(&str, Change, &[&str]); 8] = [
            ("changed", |log| change(&mut log[2]), &["line 3"]),
            ("no text any more", |log| log[2][15] = 0xff, &["line 3"]),
            ("removed", |log| drop(log.remove(2)), &["line 3"]),
            ("first removed", |log| drop(log.remove(0)), &["line 1"]),
            ("doubled", |log| log.insert(2, log[1].clone()), &["line 3"]),
            ("swapped", |log| log.swap(1, 2), &["lines 2 to 4"]),
            ("an empty line", |log| log.insert(2, Vec::new()), &["line 3"]),
            ("a line end of another system", |log| log[2].push(b'\r'), &["line 3"]),
        ];
        assert_eq!(verify(&log(5).join(&b'\n')), Verdict { lines: 5, breaks: Vec::new() });
        assert_eq!(verify(b""), Verdict::default());
        for (name, change, want) in changes {
            let mut lines = log(5);
            change(&mut lines);
            assert_eq!(places(&lines), want, "{name}");
        }
    }

    #[test]
    fn a_break_hides_no_other() {
        let mut cut_within_a_character = log(6);
        let line = &mut cut_within_a_character[5];
        let place = line.iter().position(|byte| !byte.is_ascii()).unwrap();
        line.truncate(place + 1);
        let mut cut_lines = continued(cut_within_a_character, 4);
        assert_eq!(places(&cut_lines), ["line 6"]);
        change(&mut cut_lines[7]);
        assert_eq!(places(&cut_lines), ["line 6", "line 8"]);
        // What was cut off cannot be taken out, either.
        cut_lines.remove(5);
        assert_eq!(places(&cut_lines), ["lines 6 to 7"]);
        let mut many = log(9);
        many.iter_mut().skip(1).step_by(3).for_each(|line| change(line));
        assert_eq!(places(&many), ["line 2", "line 5", "line 8"]);
        let empty_line = [log(2), vec![b"  ".to_vec()]].concat();
        assert_eq!(places(&continued(empty_line, 1)), ["line 3"]);
    }

    proptest! {
        #[test]
        fn any_single_changed_byte_is_found(position in 0_usize..400, byte: u8) {
            let mut log = log(3).join(&b'\n');
            let position = position % log.len();
            prop_assume!(log[position] != byte);
            log[position] = byte;
            prop_assert!(!verify(&log).breaks.is_empty());
        }

        #[test]
        fn any_bytes_are_verified_or_broken(log in prop::collection::vec(any::<u8>(), 0..300)) {
            let verdict = verify(&log);
            prop_assert_eq!(verdict.breaks.is_empty(), log.is_empty());
            continue_after(&log);
        }
    }
}
