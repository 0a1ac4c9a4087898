//! What a thread waits for, by a name that a person knows.

use crate::{
    proc::{Root, parse},
    stack::waits::{Part, holders, records::RawSubject},
};
use protocol::{
    host_text::HostText,
    instruments::{
        perf_record::Holder,
        process_inspect::WaitKind,
        syscall_trace::{Subject, SubjectKind},
    },
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// `S_IFMT >> 12` of the types of files.
const FIFO: u32 = 1;
const CHARACTER_DEVICE: u32 = 2;
const FOLDER: u32 = 4;
const BLOCK_DEVICE: u32 = 6;
const REGULAR: u32 = 8;
const SOCKET: u32 = 12;

/// `include/linux/socket.h`.
const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;

/// Bytes of a path that are told.
const PATH_BYTES: usize = 160;

/// What is waited for, by what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// A file, a folder or a block device.
    File,
    /// A terminal, or another character device.
    CharacterDevice,
    /// A pipe.
    Pipe,
    /// A peer over the network.
    Peer,
    /// A socket that waits for whoever connects.
    Listener,
    /// A socket of this machine, or one whose peer is not known.
    Socket,
    /// A word in memory.
    Futex,
    /// A descriptor of no file.
    Descriptor,
    /// Several descriptors.
    Descriptors,
}

impl What {
    /// `None` where it is not known.
    pub(super) const fn of(raw: &RawSubject) -> Option<Self> {
        Some(match raw.kind {
            0 => Self::Descriptor,
            FIFO => Self::Pipe,
            CHARACTER_DEVICE => Self::CharacterDevice,
            FOLDER | REGULAR | BLOCK_DEVICE => Self::File,
            SOCKET if !matches!(raw.family, AF_INET | AF_INET6) => Self::Socket,
            SOCKET if raw.peer_port != 0 => Self::Peer,
            SOCKET if raw.own_port != 0 => Self::Listener,
            SOCKET => Self::Socket,
            RawSubject::FUTEX => Self::Futex,
            RawSubject::SEVERAL => Self::Descriptors,
            _ => return None,
        })
    }

    /// As answers have it; the name tells descriptors of no file apart.
    fn kind(self, name: &[u8]) -> SubjectKind {
        match self {
            Self::File => SubjectKind::Path,
            Self::CharacterDevice if is_terminal(name) => SubjectKind::Terminal,
            Self::CharacterDevice => SubjectKind::Path,
            Self::Pipe => SubjectKind::Pipe,
            Self::Peer | Self::Listener | Self::Socket => SubjectKind::Socket,
            Self::Futex => SubjectKind::Futex,
            Self::Descriptors => SubjectKind::Poll,
            Self::Descriptor => match name {
                b"anon_inode:[eventpoll]" => SubjectKind::Poll,
                b"anon_inode:[eventfd]" => SubjectKind::Eventfd,
                b"anon_inode:[timerfd]" => SubjectKind::Timer,
                b"anon_inode:[signalfd]" => SubjectKind::Signal,
                b"anon_inode:inotify" => SubjectKind::Inotify,
                b"anon_inode:[io_uring]" => SubjectKind::Completions,
                _ => SubjectKind::Other,
            },
        }
    }
}

fn is_terminal(name: &[u8]) -> bool {
    [&b"/dev/tty"[..], b"/dev/pts/", b"/dev/console"].iter().any(|start| name.starts_with(start))
}

/// Its name, and who is at the other end.
pub(super) fn named(part: &Part, call: Option<&str>, root: &Root) -> Option<Subject> {
    let raw = &part.subject;
    let what = What::of(raw)?;
    let pid = part.way.pid;
    let (name, is_partial) = match what {
        What::Peer => (endpoint(raw, raw.peer, raw.peer_port).into_bytes(), false),
        What::Listener => (endpoint(raw, raw.peer, raw.own_port).into_bytes(), false),
        What::Futex => (format!("0x{:x}", raw.inode).into_bytes(), false),
        What::Descriptors => (format!("{} descriptors", raw.inode).into_bytes(), false),
        What::Pipe | What::File | What::CharacterDevice | What::Descriptor | What::Socket => {
            let name = by_descriptor(root, pid, part.spent.arguments[0], raw.inode);
            let is_partial = name.is_none() && what != What::Pipe && what != What::Socket;
            (name.unwrap_or_else(|| by_number(what, raw).into_bytes()), is_partial)
        }
    };
    let other_end = if what == What::Pipe {
        holders::other_ends(root, raw.inode, (pid, reads(call)))
    } else {
        Vec::new()
    };
    let kind = what.kind(&name);
    let name = HostText::new(&name).end_of_path(PATH_BYTES);
    Some(Subject { kind, name, is_partial, other_end })
}

/// Who has the lock that is waited for.
pub(super) fn holder(part: &Part, kind: WaitKind, root: &Root) -> Option<Holder> {
    let is_lock = kind == WaitKind::Lock && part.subject.kind == RawSubject::FUTEX;
    // Once it was given back, it is somebody else's.
    (is_lock && part.still_waiting > 0)
        .then(|| holders::owner_of_mutex(root, part.way.pid, part.spent.arguments))
        .flatten()
}

/// Whether a call takes out of a pipe what another puts in.
fn reads(call: Option<&str>) -> bool {
    !call.is_some_and(|call| call.contains("write") || call.contains("send") || call == "vmsplice")
}

/// The path of an open descriptor, if it is still of the same file.
fn by_descriptor(root: &Root, pid: u32, number: u64, inode: u64) -> Option<Vec<u8>> {
    let link = root.link_of_proc(&format!("{pid}/fd/{number}")).ok()?;
    let mut text = Vec::new();
    root.read_proc(&format!("{pid}/fdinfo/{number}"), &mut text).ok()?;
    // Since Linux 5.14.
    let found = parse::number_of(&text, "ino").ok()?;
    (found == inode).then_some(link)
}

fn by_number(what: What, raw: &RawSubject) -> String {
    let (major, minor) = (raw.device >> 20, raw.device & 0xf_ffff);
    match what {
        What::Pipe => format!("pipe:[{}]", raw.inode),
        What::Socket => format!("socket:[{}]", raw.inode),
        What::File
        | What::CharacterDevice
        | What::Peer
        | What::Listener
        | What::Futex
        | What::Descriptor
        | What::Descriptors => format!("inode {} of device {major}:{minor}", raw.inode),
    }
}

/// An address with its port, and the protocol.
fn endpoint(raw: &RawSubject, address: [u8; 16], port: u16) -> String {
    const TCP: u16 = 6;
    const UDP: u16 = 17;
    let address = if raw.family == AF_INET {
        let [a, b, c, d, ..] = address;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    } else {
        let address = Ipv6Addr::from(address);
        address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
    };
    let address = std::net::SocketAddr::new(address, port);
    match raw.protocol {
        TCP => format!("tcp {address}"),
        UDP => format!("udp {address}"),
        other => format!("protocol {other} {address}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(family: u16, peer: [u8; 16], peer_port: u16, own_port: u16) -> RawSubject {
        let protocol = 17;
        RawSubject {
            kind: SOCKET,
            family,
            protocol,
            peer,
            peer_port,
            own_port,
            ..RawSubject::UNKNOWN
        }
    }

    #[test]
    fn sockets_are_named_by_their_peers() {
        let mut four = [0; 16];
        four[..4].copy_from_slice(&[127, 0, 0, 53]);
        let six = Ipv6Addr::LOCALHOST.octets();
        let mapped = Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped().octets();
        let cases = [
            (socket(AF_INET, four, 53, 40_000), Some(What::Peer), "udp 127.0.0.53:53"),
            (socket(AF_INET6, six, 443, 1), Some(What::Peer), "udp [::1]:443"),
            (socket(AF_INET6, mapped, 80, 1), Some(What::Peer), "udp 10.0.0.1:80"),
            (socket(AF_INET, [0; 16], 0, 8080), Some(What::Listener), "udp 0.0.0.0:8080"),
        ];
        for (raw, kind, name) in cases {
            assert_eq!(What::of(&raw), kind, "{name}");
            let port = if raw.peer_port == 0 { raw.own_port } else { raw.peer_port };
            assert_eq!(endpoint(&raw, raw.peer, port), name);
        }
        assert_eq!(What::of(&socket(1, [0; 16], 0, 0)), Some(What::Socket));
        assert_eq!(What::of(&RawSubject::UNKNOWN), None);
    }

    #[test]
    fn who_writes_waits_for_who_reads() {
        let cases = [("read", true), ("readv", true), ("write", false), ("writev", false)];
        for (call, want) in cases {
            assert_eq!(reads(Some(call)), want, "{call}");
        }
    }
}
