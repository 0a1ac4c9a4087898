//! The peers of sockets, by their inodes.
//!
//! Sources: `/proc/PID/net/{tcp,tcp6,udp,udp6,unix}`, of the network namespace of the process. Kernel
//! reference: `Documentation/networking/proc_net_tcp.rst`, `net/unix/af_unix.c`.

use crate::proc::parse::{self, fields};
use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags},
};
use std::{
    cell::RefCell,
    collections::HashMap,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

/// Sockets of at most so many processes are looked up.
const MOST_PROCESSES: usize = 16;

/// Of a table, so much is read.
const MOST_BYTES: usize = 4 << 20;

type Table = HashMap<u64, Vec<u8>>;

/// The peers of the sockets of processes.
#[derive(Debug)]
pub(super) struct Peers {
    proc: Arc<OwnedFd>,
    tables: RefCell<HashMap<u32, Table>>,
}

impl Peers {
    /// Of the processes of a `/proc`.
    pub(super) fn new(proc: Arc<OwnedFd>) -> Self {
        Self { proc, tables: RefCell::default() }
    }

    /// The peer of a socket that a link calls `socket:[4711]`, where it is known.
    pub(super) fn name(&self, pid: u32, link: &[u8]) -> Option<Vec<u8>> {
        let inode = link.strip_prefix(b"socket:[")?.strip_suffix(b"]")?;
        let inode = parse::number(inode, 1).ok()?;
        let mut tables = self.tables.borrow_mut();
        if tables.len() >= MOST_PROCESSES && !tables.contains_key(&pid) {
            return None;
        }
        tables.entry(pid).or_insert_with(|| self.read(pid)).get(&inode).cloned()
    }

    fn read(&self, pid: u32) -> Table {
        let mut table = Table::new();
        for protocol in ["tcp", "tcp6", "udp", "udp6", "unix"] {
            let text = self.file(&format!("{pid}/net/{protocol}")).unwrap_or_default();
            for (_, line) in parse::lines(&text) {
                table.extend(match protocol {
                    "unix" => unix(line),
                    _ => inet(protocol.trim_end_matches('6'), line),
                });
            }
        }
        table
    }

    fn file(&self, path: &str) -> Option<Vec<u8>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&*self.proc, path, flags, Mode::empty()).ok()?;
        let (mut text, mut room) = (Vec::new(), vec![0; 64 << 10]);
        while text.len() < MOST_BYTES {
            match rustix::io::read(&file, &mut room).ok()? {
                0 => break,
                length => text.extend_from_slice(room.get(..length).unwrap_or_default()),
            }
        }
        Some(text)
    }
}

/// A line of `tcp` or `udp`: inode, and the peer; of one that listens, its own address.
fn inet(protocol: &str, line: &[u8]) -> Option<(u64, Vec<u8>)> {
    const LISTENS: &[u8] = b"0A";
    let mut values = fields(line).skip(1);
    let (own, peer, state) = (values.next()?, values.next()?, values.next()?);
    let inode = parse::number(values.nth(5)?, 1).ok()?;
    let name = if state == LISTENS {
        format!("{protocol} listening on {}", address(own)?)
    } else if peer.split(|byte| *byte == b':').next()?.iter().all(|byte| *byte == b'0') {
        format!("{protocol} on {}", address(own)?)
    } else {
        format!("{protocol} {}", address(peer)?)
    };
    Some((inode, name.into_bytes()))
}

/// `0500000A:01BB`: words of an address, each as the processor keeps it, and a port.
fn address(text: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text).ok()?;
    let (host, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |from: usize| {
        let digits = host.get(from..from + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    if host.len() == 8 {
        return Some(format!("{}:{port}", Ipv4Addr::from(word(0)?)));
    }
    let mut bytes = [0; 16];
    for (place, from) in bytes.chunks_exact_mut(4).zip([0, 8, 16, 24]) {
        place.copy_from_slice(&word(from)?);
    }
    let host = Ipv6Addr::from(bytes);
    Some(match host.to_ipv4_mapped() {
        Some(host) => format!("{host}:{port}"),
        None => format!("[{host}]:{port}"),
    })
}

/// A line of `unix`: inode and path, where it has one.
fn unix(line: &[u8]) -> Option<(u64, Vec<u8>)> {
    let mut values = fields(line).skip(6);
    let inode = parse::number(values.next()?, 1).ok()?;
    Some((inode, [b"unix ", values.next()?].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernels_tables_name_the_peer() {
        let line = |own: &str, peer: &str, state: &str| {
            format!(
                "   0: {own} {peer} {state} 00000000:00000000 00:00000000 00000000  1000        0 \
                 4711 1 0 20 4 30 10 -1"
            )
        };
        let v6 = "0000000000000000FFFF00000500000A:01BB";
        let cases = [
            (line("0100007F:1F90", "0500000A:01BB", "01"), "tcp 10.0.0.5:443"),
            (line("00000000:1F90", "00000000:0000", "0A"), "tcp listening on 0.0.0.0:8080"),
            (line("0100007F:1F90", "00000000:0000", "07"), "tcp on 127.0.0.1:8080"),
            (line(v6, v6, "01"), "tcp 10.0.0.5:443"),
        ];
        for (line, want) in cases {
            let (inode, name) = inet("tcp", line.as_bytes()).unwrap();
            assert_eq!((inode, String::from_utf8_lossy(&name).as_ref()), (4711, want));
        }
        assert_eq!(inet("tcp", b"  sl  local_address rem_address   st tx_queue"), None);
        let line = b"ffff8880: 00000003 00000000 00000000 0001 03 815 /run/x.sock";
        assert_eq!(unix(line), Some((815, b"unix /run/x.sock".to_vec())));
        assert_eq!(unix(b"ffff8880: 00000003 00000000 00000000 0001 03 815"), None);
    }
}
