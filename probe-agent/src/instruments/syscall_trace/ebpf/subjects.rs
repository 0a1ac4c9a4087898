//! From a key that a program in the kernel wrote to what it is called.

use super::{
    super::seen::{SubjectId, Subjects},
    layout::{Name, SubjectKey, text},
};
use protocol::{
    host_text::HostText,
    instruments::syscall_trace::{Subject, SubjectKind},
};
use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};

/// Kinds of keys, the numbers of `probe-agent/bpf/subject.h`.
mod key {
    pub(super) const NONE: u32 = 0;
    pub(super) const FILE: u32 = 1;
    pub(super) const PATH: u32 = 2;
    pub(super) const INET: u32 = 3;
    pub(super) const INET6: u32 = 4;
    pub(super) const UNIX: u32 = 5;
    pub(super) const PIPE: u32 = 6;
    pub(super) const ANONYMOUS: u32 = 7;
    pub(super) const FUTEX: u32 = 8;
    pub(super) const CHILD: u32 = 9;
    pub(super) const SOCKET: u32 = 10;
}

/// What keys are called.
pub(super) struct Names {
    names: HashMap<SubjectKey, Name>,
    pub(super) processes: BTreeMap<u32, HostText>,
    found: HashMap<SubjectKey, Option<SubjectId>>,
    pub(super) subjects: Subjects,
}

impl Names {
    pub(super) fn new(
        names: HashMap<SubjectKey, Name>,
        processes: BTreeMap<u32, HostText>,
    ) -> Self {
        Self { names, processes, found: HashMap::new(), subjects: Subjects::default() }
    }

    /// The subject of a key; none of one that is about nothing.
    pub(super) fn id(&mut self, key: SubjectKey) -> Option<SubjectId> {
        if let Some(id) = self.found.get(&key) {
            return *id;
        }
        let id = self.subject(key).map(|subject| self.subjects.id(subject));
        self.found.insert(key, id);
        id
    }

    fn subject(&self, key: SubjectKey) -> Option<Subject> {
        let of = |kind, name: String| subject(kind, name.as_bytes(), false);
        Some(match key.kind {
            key::NONE => return None,
            key::FILE => self.file(key),
            key::PATH => self.path(key),
            key::INET | key::INET6 => of(SubjectKind::Socket, inet(key)),
            key::UNIX => self.unix(key),
            key::PIPE => of(SubjectKind::Pipe, format!("pipe:[{}]", key.a)),
            key::ANONYMOUS => anonymous(key),
            key::FUTEX => of(SubjectKind::Futex, format!("{:#x} of {}", key.a, key.b)),
            key::CHILD if key.a == 0 => of(SubjectKind::Child, "any child".to_owned()),
            key::CHILD => self.child(key),
            key::SOCKET => {
                of(SubjectKind::Socket, format!("socket:[{}] of family {}", key.a, key.c))
            }
            _ => subject(SubjectKind::Nothing, b"more than there was room for", true),
        })
    }

    /// Children of one name are one subject: a number of a short one tells nobody anything.
    fn child(&self, key: SubjectKey) -> Subject {
        let pid = u32::try_from(key.a).unwrap_or_default();
        let name = match self.processes.get(&pid) {
            Some(name) => HostText::escaped(format!("child {name}")),
            None => HostText::new(b"a child"),
        };
        Subject { kind: SubjectKind::Child, name, is_partial: false, other_end: Vec::new() }
    }

    fn file(&self, key: SubjectKey) -> Subject {
        let Some(name) = self.names.get(&key) else {
            let name = format!("inode {} of device {:#x}", key.a, key.b >> 32);
            return subject(SubjectKind::Path, name.as_bytes(), true);
        };
        let kind =
            if is_terminal(key.c, name.device) { SubjectKind::Terminal } else { SubjectKind::Path };
        subject(kind, &joined(name), name.is_cut)
    }

    /// A path as it was given, behind where it begins.
    fn path(&self, key: SubjectKey) -> Subject {
        let Some(name) = self.names.get(&key) else {
            return subject(SubjectKind::Path, b"a path that there was no room for", true);
        };
        let given = text(&name.text);
        if given.starts_with(b"/") {
            return subject(SubjectKind::Path, given, name.is_cut);
        }
        let given = given.strip_prefix(b"./").unwrap_or(given);
        match self.names.get(&name.base).filter(|base| base.is_components) {
            Some(base) => {
                let mut path = joined(base);
                if !given.is_empty() && path != b"/" {
                    path.push(b'/');
                }
                path.extend_from_slice(given);
                subject(SubjectKind::Path, &path, name.is_cut || base.is_cut)
            }
            None => subject(SubjectKind::Path, given, true),
        }
    }

    fn unix(&self, key: SubjectKey) -> Subject {
        match self.names.get(&key) {
            Some(name) if key.c != 0 => {
                let name = match name.text.split_first() {
                    // One without a file: its name begins with a NUL, and is shown with an @.
                    Some((0, rest)) => [b"unix @", rest].concat(),
                    Some(_) | None => [b"unix ", text(&name.text)].concat(),
                };
                subject(SubjectKind::Socket, &name, false)
            }
            Some(_) | None => {
                let name =
                    if key.c == 0 { format!("unix socket:[{}]", key.a) } else { "unix".into() };
                subject(SubjectKind::Socket, name.as_bytes(), key.c != 0)
            }
        }
    }
}

fn subject(kind: SubjectKind, name: &[u8], is_partial: bool) -> Subject {
    Subject { kind, name: HostText::new(name), is_partial, other_end: Vec::new() }
}

/// A path out of its components, of which the last is first.
fn joined(name: &Name) -> Vec<u8> {
    let mut parts: Vec<&[u8]> =
        name.text.split(|byte| *byte == 0).filter(|part| !part.is_empty()).collect();
    parts.reverse();
    let mut path = Vec::with_capacity(name.text.len() + 1);
    for part in &parts {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    if path.is_empty() { b"/".to_vec() } else { path }
}

/// Consoles, serial lines and pseudo terminals, by their major numbers.
const fn is_terminal(mode: u32, device: u32) -> bool {
    const FORMAT: u32 = 0o170_000;
    const CHARACTERS: u32 = 0o020_000;
    mode & FORMAT == CHARACTERS && matches!(device >> 20, 4 | 5 | 136..=143)
}

/// A peer, by its address and whose port it is.
fn inet(key: SubjectKey) -> String {
    const STREAM: u32 = 1;
    const DATAGRAM: u32 = 2;
    let protocol = match key.c >> 16 & 0xff {
        STREAM => "tcp",
        DATAGRAM => "udp",
        _ => "ip",
    };
    let port = u16::try_from(key.c & 0xffff).unwrap_or_default();
    let mut bytes = [0; 16];
    let (first, last) = bytes.split_at_mut(8);
    first.copy_from_slice(&key.a.to_ne_bytes());
    last.copy_from_slice(&key.b.to_ne_bytes());
    let address = if key.kind == key::INET6 {
        let address = Ipv6Addr::from(bytes);
        address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
    } else {
        let [a, b, c, d, ..] = bytes;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match key.c >> 24 {
        0 => format!("{protocol} {}", SocketAddr::new(address, port)),
        1 => format!("{protocol} {address} to own port {port}"),
        2 => format!("{protocol} listening on port {port}"),
        _ => format!("{protocol}, not connected"),
    }
}

/// What has no name but of its kind, by the start of that.
fn anonymous(key: SubjectKey) -> Subject {
    let start = key.a.to_ne_bytes();
    let start = text(&start);
    let (kind, name) = match start {
        b"[eventpo" => (SubjectKind::Poll, "epoll"),
        b"[eventfd" => (SubjectKind::Eventfd, "eventfd"),
        b"[timerfd" => (SubjectKind::Timer, "timerfd"),
        b"[signalf" => (SubjectKind::Signal, "signalfd"),
        b"inotify" => (SubjectKind::Inotify, "inotify"),
        b"[io_urin" => (SubjectKind::Completions, "io_uring"),
        _ => (SubjectKind::Other, ""),
    };
    let (pid, fd) = (key.b >> 32, key.b & 0xffff_ffff);
    let name =
        if name.is_empty() { String::from_utf8_lossy(start).into_owned() } else { name.into() };
    subject(kind, format!("{name}, descriptor {fd} of {pid}").as_bytes(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ino: u64) -> SubjectKey {
        SubjectKey { a: ino, b: 5 << 32, c: 0o040_755, kind: key::FILE }
    }

    fn components(text: &[u8]) -> Name {
        Name {
            base: SubjectKey::default(),
            device: 0,
            is_components: true,
            is_cut: false,
            text: text.to_vec(),
        }
    }

    fn named(names: &[(SubjectKey, Name)], key: SubjectKey) -> Subject {
        let processes = BTreeMap::from([(12, HostText::new(b"worker"))]);
        let mut names = Names::new(names.iter().cloned().collect(), processes);
        let id = names.id(key).unwrap();
        assert_eq!(names.id(key), Some(id));
        names.subjects.get(id).unwrap().clone()
    }

    #[test]
    fn a_file_has_its_path_and_one_that_is_not_there_too() {
        let folder = (file(2), components(b"app\0etc\0"));
        let given = SubjectKey { a: 1, b: 9, c: 13, kind: key::PATH };
        let name = Name { base: file(2), is_components: false, ..components(b"./override.conf") };
        let names = [folder, (given, name)];
        assert_eq!(named(&names, file(2)).name.as_str(), "/etc/app");
        let missing = named(&names, given);
        assert_eq!((missing.name.as_str(), missing.is_partial), ("/etc/app/override.conf", false));
        assert!(named(&[], file(3)).is_partial);
        assert_eq!(named(&[(file(1), components(b""))], file(1)).name.as_str(), "/");
    }

    #[test]
    fn a_path_that_begins_at_a_folder_nobody_knows_is_partial() {
        let given = SubjectKey { a: 1, b: 9, c: 3, kind: key::PATH };
        let name = Name { base: file(2), is_components: false, ..components(b"x/y") };
        let found = named(&[(given, name)], given);
        assert_eq!((found.name.as_str(), found.is_partial), ("x/y", true));
    }

    #[test]
    fn a_peer_is_told_by_address_and_by_whose_port_it_is() {
        let v4 = u64::from(u32::from_ne_bytes([10, 0, 0, 5]));
        let inet = |c| SubjectKey { a: v4, b: 0, c, kind: key::INET };
        let mut mapped = Ipv4Addr::new(10, 0, 0, 5).to_ipv6_mapped().octets();
        let a = u64::from_ne_bytes(*mapped.first_chunk().unwrap());
        let b = u64::from_ne_bytes(*mapped.last_chunk().unwrap());
        mapped.reverse();
        let inet6 = SubjectKey { a, b, c: 443 | 1 << 16, kind: key::INET6 };
        for (key, want) in [
            (inet(443 | 1 << 16), "tcp 10.0.0.5:443"),
            (inet(53 | 2 << 16), "udp 10.0.0.5:53"),
            (inet(8080 | 1 << 16 | 1 << 24), "tcp 10.0.0.5 to own port 8080"),
            (inet(8080 | 1 << 16 | 2 << 24), "tcp listening on port 8080"),
            (inet(2 << 16 | 3 << 24), "udp, not connected"),
            (inet6, "tcp 10.0.0.5:443"),
        ] {
            let found = named(&[], key);
            assert_eq!((found.kind, found.name.as_str()), (SubjectKind::Socket, want));
        }
    }

    #[test]
    fn what_is_no_file_is_told_by_its_kind() {
        let start = |name: &[u8; 8]| u64::from_ne_bytes(*name);
        let unix = SubjectKey { a: 77, b: 0, c: 1, kind: key::UNIX };
        let abstract_name = Name { is_components: false, ..components(b"\0bus") };
        let names = [(unix, abstract_name)];
        let key = |kind, a, b| SubjectKey { a, b, c: 0, kind };
        for (key, kind, want) in [
            (unix, SubjectKind::Socket, "unix @bus"),
            (key(key::UNIX, 78, 0), SubjectKind::Socket, "unix socket:[78]"),
            (key(key::PIPE, 4711, 0), SubjectKind::Pipe, "pipe:[4711]"),
            (
                key(key::ANONYMOUS, start(b"[eventpo"), 7 << 32 | 5),
                SubjectKind::Poll,
                "epoll, descriptor 5 of 7",
            ),
            (key(key::FUTEX, 0x7f00, 7), SubjectKind::Futex, "0x7f00 of 7"),
            (key(key::CHILD, 0, 0), SubjectKind::Child, "any child"),
            (key(key::CHILD, 12, 0), SubjectKind::Child, "child worker"),
            (key(key::CHILD, 13, 0), SubjectKind::Child, "a child"),
            (key(99, 0, 0), SubjectKind::Nothing, "more than there was room for"),
        ] {
            let found = named(&names, key);
            assert_eq!((found.kind, found.name.as_str()), (kind, want));
        }
        assert_eq!(Names::new(HashMap::new(), BTreeMap::new()).id(SubjectKey::default()), None);
    }
}
