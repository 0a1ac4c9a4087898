//! What network interfaces moved since they came up.
//!
//! Source: `/proc/net/dev`, of the network namespace of whoever reads it. Kernel reference:
//! `net/core/net-procfs.c`. An interface's name may touch the first number: `eth0:123`.

use super::parse::{ParseError, fields, lines, number};

/// One interface's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceStat {
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets that were dropped or had errors, received and sent.
    pub lost: u64,
}

impl InterfaceStat {
    /// What happened since an earlier read. Counters begin anew with their interface.
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            received_bytes: self.received_bytes.saturating_sub(earlier.received_bytes),
            sent_bytes: self.sent_bytes.saturating_sub(earlier.sent_bytes),
            lost: self.lost.saturating_sub(earlier.lost),
        }
    }
}

/// The interfaces with their names, in the kernel's order.
///
/// # Errors
///
/// When a counter is missing or not a number.
pub fn parse(text: &[u8]) -> Result<Vec<(Vec<u8>, InterfaceStat)>, ParseError> {
    lines(text)
        .filter_map(|(line_number, line)| {
            // The two lines of headings have no colon.
            let colon = line.iter().rposition(|byte| *byte == b':')?;
            let (name, rest) = line.split_at_checked(colon)?;
            let counters = rest.get(1..)?;
            Some(
                parse_counters(counters, line_number)
                    .map(|stat| (name.trim_ascii().to_vec(), stat)),
            )
        })
        .collect()
}

fn parse_counters(text: &[u8], line_number: usize) -> Result<InterfaceStat, ParseError> {
    const COUNTERS: usize = 16;
    let mut counters = [0; COUNTERS];
    let mut values = fields(text);
    for place in &mut counters {
        let field = values
            .next()
            .ok_or(ParseError::MissingField { line_number, expected: "16 counters" })?;
        *place = number(field, line_number)?;
    }
    let [
        received_bytes,
        _,
        receive_errors,
        receive_drops,
        _,
        _,
        _,
        _,
        sent_bytes,
        _,
        send_errors,
        send_drops,
        ..,
    ] = counters;
    Ok(InterfaceStat {
        received_bytes,
        sent_bytes,
        lost: [receive_errors, receive_drops, send_errors, send_drops]
            .into_iter()
            .fold(0, u64::saturating_add),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn interfaces_by_name() {
        let text =
            b"Inter-|   Receive                                                |  Transmit\n \
                     face |bytes    packets errs drop fifo frame compressed multicast|bytes\n    \
                     lo: 10 1 0 0 0 0 0 0 10 1 0 0 0 0 0 0\n\
                     eth0:123 2 3 4 0 0 0 0 456 5 6 7 0 0 0 0\n\
                     br:1: 1 0 0 0 0 0 0 0 2 0 0 0 0 0 0 0\n";
        let found = parse(text).unwrap();
        let names: Vec<&[u8]> = found.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names, [b"lo".as_slice(), b"eth0", b"br:1"]);
        let want = InterfaceStat { received_bytes: 123, sent_bytes: 456, lost: 20 };
        assert_eq!(found[1].1, want);
        assert!(parse(b"eth0: 1 2\n").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_file_or_an_error(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&text);
        }
    }
}
