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
    format!("{open}{SEAL}{}\"}}", digest(previous, open))
}

fn digest(previous: &str, open: &str) -> String {
    let mut digest = sha2::Sha256::new();
    digest.update(previous.as_bytes());
    digest.update(open.as_bytes());
    Sha256(digest.finalize().into()).to_string()
}

/// The number of the line to come and the digest it follows, by the last line of the log. A line
/// that is no longer whole is followed as it stands, so that it cannot be taken out unnoticed.
pub fn continue_after(last: &str) -> (u64, String) {
    if last.is_empty() {
        return (1, START.to_owned());
    }
    let sequence = sequence_of(last).unwrap_or(0) + 1;
    match split(last) {
        Some((_, seal)) => (sequence, seal.to_owned()),
        None => (sequence, digest(START, last)),
    }
}

fn sequence_of(line: &str) -> Option<u64> {
    let rest = line.strip_prefix("{\"sequence\":")?;
    rest.split(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

/// Takes a line apart: what the digest is over, and the digest.
fn split(line: &str) -> Option<(&str, &str)> {
    let (open, rest) = line.rsplit_once(SEAL)?;
    let seal = rest.strip_suffix("\"}")?;
    Sha256::parse(seal).map(|_| (open, seal))
}

/// What a look through a log found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every line follows from the one before.
    Whole {
        /// How many there are.
        lines: usize,
    },
    /// The first line that does not.
    Broken {
        /// 1-based.
        line_number: usize,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Follows the chain.
pub fn verify(text: &str) -> Verdict {
    let mut previous = START.to_owned();
    let mut lines = 0;
    for line in text.lines() {
        let line_number = lines + 1;
        let broken = |reason| Verdict::Broken { line_number, reason };
        let Some((open, seal)) = split(line) else {
            return broken("it is not whole: it was cut off or changed");
        };
        if digest(&previous, open) != seal {
            return broken(
                "it does not follow from the line before: one of them was changed, \
                           removed or added",
            );
        }
        if sequence_of(line) != u64::try_from(line_number).ok() {
            return broken("its number is not the next one");
        }
        seal.clone_into(&mut previous);
        lines = line_number;
    }
    Verdict::Whole { lines }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn log(lines: usize) -> Vec<String> {
        let mut log: Vec<String> = Vec::new();
        for _ in 0..lines {
            let (sequence, previous) = continue_after(log.last().map_or("", String::as_str));
            log.push(sealed(&previous, &format!("{{\"sequence\":{sequence},\"a\":\"b\"}}")));
        }
        log
    }

    #[test]
    fn what_is_changed_removed_added_or_moved_is_found() {
        type Change = fn(&mut Vec<String>);
        let changes: [(&str, Change, usize); 5] = [
            ("changed", |log| log[2] = log[2].replace("\"b\"", "\"c\""), 3),
            ("removed", |log| drop(log.remove(2)), 3),
            ("first removed", |log| drop(log.remove(0)), 1),
            ("doubled", |log| log.insert(2, log[1].clone()), 3),
            ("swapped", |log| log.swap(1, 2), 2),
        ];
        assert_eq!(verify(&log(5).join("\n")), Verdict::Whole { lines: 5 });
        for (name, change, line_number) in changes {
            let mut lines = log(5);
            change(&mut lines);
            let found = verify(&lines.join("\n"));
            assert!(
                matches!(found, Verdict::Broken { line_number: at, .. } if at == line_number),
                "{name}: {found:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn any_single_changed_byte_is_found(position in 0_usize..400, byte in 0_u8..128) {
            let text = log(3).join("\n");
            let mut bytes = text.clone().into_bytes();
            let position = position % bytes.len();
            prop_assume!(bytes[position] != byte && bytes[position] != b'\n' && byte != b'\n');
            bytes[position] = byte;
            let changed = String::from_utf8(bytes).unwrap();
            prop_assert_ne!(verify(&changed), Verdict::Whole { lines: 3 });
        }

        #[test]
        fn any_text_is_verified_or_broken(text in "\\PC{0,300}") {
            verify(&text);
            continue_after(&text);
        }
    }
}
