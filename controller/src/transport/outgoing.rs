//! How much of what was sent has arrived at the next machine: what was written below, less what its
//! kernel has not acknowledged yet. Without that, progress would say that all is sent while most of it
//! still waits in buffers of ours.
//!
//! Sources: the send queue of a socket in `/proc/net/tcp` and `/proc/net/tcp6`
//! (`get_tcp4_sock` in net/ipv4/tcp_ipv4.c: what was written and is not acknowledged), and `wchar` in
//! `/proc/PID/io` (proc_pid_io(5)). Where there are none of these, as on other systems, it is not known.

use super::Traffic;
use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

/// What carries bytes away.
#[derive(Clone, Debug)]
pub enum Outgoing {
    /// A connection of ours, by TCP.
    Connection {
        /// What went into its socket.
        traffic: Arc<Traffic>,
        /// The socket's inode.
        socket: u64,
    },
    /// A process that has a connection.
    Process {
        /// Its pid.
        pid: u32,
    },
    /// Something that does not tell.
    Unknown,
}

impl Outgoing {
    /// Bytes that were written below since it began; `None` where that is not known.
    pub fn written(&self) -> Option<u64> {
        match self {
            Self::Connection { traffic, .. } => Some(traffic.sent()),
            Self::Process { pid } => written_by(&fs::read_to_string(proc(*pid).join("io")).ok()?),
            Self::Unknown => None,
        }
    }

    /// Bytes that have arrived at the next machine since it began; `None` where that is not known.
    pub fn arrived(&self) -> Option<u64> {
        // What is written between the two looks is taken for not arrived.
        let written = self.written()?;
        let sockets = match self {
            Self::Connection { socket, .. } => BTreeSet::from([*socket]),
            Self::Process { pid } => sockets_of(*pid),
            Self::Unknown => return None,
        };
        let tables = ["/proc/net/tcp", "/proc/net/tcp6"];
        let read = tables.iter().filter_map(|table| fs::read_to_string(table).ok());
        let queued: Vec<u64> = read.filter_map(|table| queued(&table, &sockets)).collect();
        // A process without such a socket has given its connection to another.
        (!queued.is_empty()).then(|| written.saturating_sub(queued.iter().sum()))
    }
}

fn proc(pid: u32) -> std::path::PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// The inodes of the sockets that a process has open.
fn sockets_of(pid: u32) -> BTreeSet<u64> {
    let open = fs::read_dir(proc(pid).join("fd")).into_iter().flatten().flatten();
    let link = |entry: fs::DirEntry| {
        let link = fs::read_link(entry.path()).ok()?;
        link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    open.filter_map(link).collect()
}

/// The bytes that a process has handed to the kernel, from the text of its `io`.
fn written_by(io: &str) -> Option<u64> {
    io.lines().find_map(|line| line.strip_prefix("wchar: ")?.trim().parse().ok())
}

/// What is not acknowledged of some sockets, in bytes, from the text of a table of sockets; `None`
/// where none of them is in it.
fn queued(table: &str, sockets: &BTreeSet<u64>) -> Option<u64> {
    /// The numbers of the fields, from `get_tcp4_sock`.
    const QUEUES: usize = 4;
    const INODE: usize = 9;
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let inode: u64 = fields.get(INODE)?.parse().ok()?;
        let (sending, _) = fields.get(QUEUES)?.split_once(':')?;
        sockets.contains(&inode).then_some(u64::from_str_radix(sending, 16).ok()?)
    };
    table.lines().skip(1).filter_map(row).reduce(u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write as _,
        net::{TcpListener, TcpStream},
    };

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   \
         uid  timeout inode\n\
         0: 0100007F:0277 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0\n\
         1: 0263630A:D2F0 0163630A:0016 01 00012C00:00000000 01:0000001F 00000000     0        0 12 2 0\n\
         2: 0263630A:D2F2 0163630A:0016 01 00000010:000000FF 01:0000001F 00000000     0        0 13 2 0\n";

    #[test]
    fn the_send_queue_of_a_socket_is_found_by_its_inode() {
        let of = |inodes: &[u64]| queued(TABLE, &inodes.iter().copied().collect());
        assert_eq!(of(&[12]), Some(0x12c00));
        assert_eq!(of(&[12, 13]), Some(0x12c10));
        assert_eq!(of(&[11]), Some(0));
        assert_eq!(of(&[14]), None);
        for text in ["", "x\n1 2 3\n", "x\n0: a b 01 zz 0 0 0 0 12\n"] {
            assert_eq!(queued(text, &BTreeSet::from([12])), None, "{text:?}");
        }
        assert_eq!(written_by("rchar: 5\nwchar: 812\n"), Some(812));
        assert_eq!(written_by("rchar: 5\n"), None);
    }

    #[test]
    fn what_nobody_reads_has_not_arrived_beyond_the_buffers() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let mut stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_peer, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let traffic = Arc::new(Traffic::default());
        let socket = rustix::fs::fstat(&stream).unwrap().st_ino;
        let outgoing = Outgoing::Connection { traffic: Arc::clone(&traffic), socket };
        assert_eq!(outgoing.arrived(), Some(0));
        let mut written = 0;
        while let Ok(bytes) = stream.write(&[0; 65536]) {
            written += bytes;
        }
        traffic.add_sent(written);
        let arrived = usize::try_from(outgoing.arrived().unwrap()).unwrap();
        assert!(arrived > 0 && arrived < written, "{arrived} of {written}");
    }
}
