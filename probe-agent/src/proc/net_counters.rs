//! Counters of network protocols.
//!
//! Source: `/proc/net/snmp` and `/proc/net/netstat`: pairs of lines, the first with names, the
//! second with values; `/proc/net/sockstat`: a name, then names and values in turn. Of the network
//! namespace of whoever reads them. Kernel reference: `net/ipv4/proc.c`,
//! `Documentation/networking/snmp_counter.rst`.

use super::parse::{ParseError, fields, lines, number};

/// A counter of a protocol, from a file of pairs of lines: `counter(text, "Tcp", "RetransSegs")`.
///
/// # Errors
///
/// Where the protocol or the counter is not there, or its value is not a number.
pub fn counter(text: &[u8], protocol: &'static str, name: &'static str) -> Result<u64, ParseError> {
    let of_protocol = |line: &'_ [u8]| -> Option<usize> {
        let rest = line.strip_prefix(protocol.as_bytes())?.strip_prefix(b":")?;
        Some(line.len() - rest.len())
    };
    let mut pair = lines(text).filter_map(|(line_number, line)| {
        of_protocol(line).and_then(|start| line.get(start..)).map(|rest| (line_number, rest))
    });
    let missing = ParseError::MissingLine { expected: protocol };
    let (_, names) = pair.next().ok_or(missing.clone())?;
    let (line_number, values) = pair.next().ok_or(missing)?;
    let value = fields(names)
        .zip(fields(values))
        .find_map(|(found, value)| (found == name.as_bytes()).then_some(value))
        .ok_or(ParseError::MissingField { line_number, expected: name })?;
    // Some of these are signed; the ones that are asked for count.
    number(value, line_number)
}

/// A number from `sockstat`: `socket_count(text, "TCP", "tw")`.
///
/// # Errors
///
/// As for [`counter`].
pub fn socket_count(
    text: &[u8],
    protocol: &'static str,
    name: &'static str,
) -> Result<u64, ParseError> {
    let (line_number, rest) = lines(text)
        .find_map(|(line_number, line)| {
            let rest = line.strip_prefix(protocol.as_bytes())?.strip_prefix(b":")?;
            Some((line_number, rest))
        })
        .ok_or(ParseError::MissingLine { expected: protocol })?;
    let mut words = fields(rest);
    while let (Some(found), Some(value)) = (words.next(), words.next()) {
        if found == name.as_bytes() {
            return number(value, line_number);
        }
    }
    Err(ParseError::MissingField { line_number, expected: name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SNMP: &[u8] = b"Ip: Forwarding DefaultTTL\nIp: 1 64\n\
                          Tcp: RtoAlgorithm MaxConn CurrEstab OutSegs RetransSegs\n\
                          Tcp: 1 -1 42 1000 7\n";

    #[test]
    fn counters_by_name() {
        let cases = [
            ("established", counter(SNMP, "Tcp", "CurrEstab"), Ok(42)),
            ("another protocol", counter(SNMP, "Ip", "DefaultTTL"), Ok(64)),
        ];
        for (name, found, want) in cases {
            assert_eq!(found, want, "{name}");
        }
        let wrong = [
            ("no such counter", counter(SNMP, "Tcp", "Nothing"), "line 4: no Nothing"),
            ("no such protocol", counter(SNMP, "Udp", "InDatagrams"), "no `Udp` line"),
            ("signed", counter(SNMP, "Tcp", "MaxConn"), "line 4: `-1` is not a number"),
            ("no values", counter(b"Tcp: A B\n", "Tcp", "A"), "no `Tcp` line"),
        ];
        for (name, found, want) in wrong {
            assert_eq!(found.unwrap_err().to_string(), want, "{name}");
        }
    }

    #[test]
    fn sockets_by_name() {
        let text = b"sockets: used 150\nTCP: inuse 9 orphan 0 tw 3 alloc 12 mem 1\nUDP: inuse 2\n";
        assert_eq!(socket_count(text, "TCP", "tw"), Ok(3));
        assert_eq!(socket_count(text, "UDP", "inuse"), Ok(2));
        assert!(socket_count(text, "UDP", "tw").is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_file_or_an_error(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = counter(&text, "Tcp", "OutSegs");
            let _ = socket_count(&text, "TCP", "tw");
        }
    }
}
