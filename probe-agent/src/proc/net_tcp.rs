//! Connections of TCP.
//!
//! Source: `/proc/net/tcp` and `/proc/net/tcp6`, of a network namespace. Kernel reference:
//! `get_tcp4_sock` in `net/ipv4/tcp_ipv4.c`, `Documentation/networking/proc_net_tcp.rst`. Addresses are
//! hexadecimal words as they stand in memory, ports are numbers.

use super::parse::{fields, lines};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A connection that waits for the answer to its SYN, `TCP_SYN_SENT`.
pub const SYN_SENT: u8 = 2;

/// Connections of one file that are read; the others are passed over.
const MOST: usize = 65_536;

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The port on this side.
    pub local_port: u16,
    /// The other side.
    pub peer: SocketAddr,
    /// Its state, as the kernel numbers them.
    pub state: u8,
    /// How often the segment that is not acknowledged yet was sent again.
    pub resent: u64,
    /// The inode of its socket; 0 where no process has it any more.
    pub inode: u64,
}

/// The connections. Lines that are none, as the heading, are passed over.
pub fn parse(text: &[u8]) -> Vec<Connection> {
    lines(text).filter_map(|(_, line)| connection(line)).take(MOST).collect()
}

fn connection(line: &[u8]) -> Option<Connection> {
    let mut parts = fields(line).skip(1).map(|part| std::str::from_utf8(part).ok());
    let mut next = || parts.next().flatten();
    let (local, peer, state) = (next()?, next()?, next()?);
    let (_queues, _timer, resent) = (next()?, next()?, next()?);
    let (_uid, _timeout, inode) = (next()?, next()?, next()?);
    Some(Connection {
        local_port: address(local)?.port(),
        peer: address(peer)?,
        state: u8::from_str_radix(state, 16).ok()?,
        resent: u64::from_str_radix(resent, 16).ok()?,
        inode: inode.parse().ok()?,
    })
}

/// `0100007F:0050` is 127.0.0.1:80 on a machine that stores the lowest byte first.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| -> Option<[u8; 4]> {
        Some(u32::from_str_radix(address.get(at..at.checked_add(8)?)?, 16).ok()?.to_ne_bytes())
    };
    let address = match address.len() {
        8 => IpAddr::V4(Ipv4Addr::from(word(0)?)),
        32 => {
            let mut bytes = [0; 16];
            for (place, at) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
                place.copy_from_slice(&word(at)?);
            }
            Ipv6Addr::from(bytes).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn connections_of_both_families() {
        let text = b"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
                     uid  timeout inode\n\
                     \x20  0: 0100007F:C350 0500000A:01BB 02 00000001:00000000 01:00000123 00000003  \
                     1000        0 4711 2 0 800 0 0 10 -1\n\
                     \x20  1: 00000000000000000000000001000000:1F90 \
                     0000000000000000FFFF00000100007F:D431 01 00000000:00000000 00:00000000 00000000 \
                     0 0 4712 1 0 20 4 30 10 -1\n";
        let found = parse(text);
        let shown: Vec<_> = found
            .iter()
            .map(|one| (one.local_port, one.peer.to_string(), one.state, one.resent, one.inode))
            .collect();
        assert_eq!(
            shown,
            [
                (50_000, "10.0.0.5:443".to_owned(), SYN_SENT, 3, 4711),
                (8080, "127.0.0.1:54321".to_owned(), 1, 0, 4712)
            ]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_connections_or_none(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&text);
        }

        #[test]
        fn any_words_are_an_address_or_none(text in "[0-9A-Fa-f:]{0,40}") {
            let _ = address(&text);
        }
    }
}
