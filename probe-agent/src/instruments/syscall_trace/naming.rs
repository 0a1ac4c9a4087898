//! What calls are about, by name, for engines that see calls one after another: the files that processes
//! have open, kept up by the calls that open and close them.
//!
//! A descriptor is looked up in `/proc/PID/fd` when it is first used. That is some milliseconds after the
//! call, so one that was closed meanwhile has no name, and what was looked up is taken back where it turns
//! out that it was closed before. A path is the text that the call's argument points to: an engine that
//! stops threads has it from the moment of the call, another reads it after the call has returned.

use super::{
    about::{self, About, Effect, Folder},
    call::Call,
    seen::{SubjectId, Subjects},
};
use protocol::{
    host_text::HostText,
    instruments::syscall_trace::{Subject, SubjectKind},
};
use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags},
};
use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

/// What calls are about, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Token(u32);

/// Things that are told apart at most.
const MOST_TOKENS: usize = 65_536;

/// Processes whose memory is kept open.
const MOST_MEMORIES: usize = 64;

/// The longest path that is read.
const MOST_PATH_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Name {
    kind: SubjectKind,
    text: Vec<u8>,
    is_partial: bool,
}

#[derive(Clone, Debug)]
enum What {
    /// It is to be looked up.
    NotLookedUp,
    /// It was closed before.
    Gone,
    /// What it is, and when it was looked up; `None` where that cannot be wrong.
    Known(Name, Option<u64>),
}

#[derive(Debug)]
struct Thing {
    /// The process, and the descriptor where it is one.
    pid: u32,
    descriptor: Option<u32>,
    what: What,
}

/// Whether all calls that open or close are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sees {
    /// They are.
    All,
    /// Only some: what was looked up is forgotten soon.
    Some,
}

/// See above.
#[derive(Debug)]
pub(super) struct Naming {
    proc: Arc<OwnedFd>,
    sees: Sees,
    things: Vec<Thing>,
    open: HashMap<u32, BTreeMap<u32, Token>>,
    named: HashMap<Name, Token>,
    folders: HashMap<u32, Option<Vec<u8>>>,
    memories: HashMap<u32, Option<OwnedFd>>,
    /// Texts that were read since the last look: at one address there is one.
    texts: HashMap<(u32, u64), Vec<u8>>,
    to_look_up: Vec<Token>,
}

impl Naming {
    /// Of the processes of a `/proc`.
    pub(super) fn new(proc: Arc<OwnedFd>, sees: Sees) -> Self {
        Self {
            proc,
            sees,
            things: Vec::new(),
            open: HashMap::new(),
            named: HashMap::new(),
            folders: HashMap::new(),
            memories: HashMap::new(),
            texts: HashMap::new(),
            to_look_up: Vec::new(),
        }
    }

    /// What a call is about that a process makes. `memory` is what its arguments point to, where that was
    /// copied before the call.
    pub(super) fn begun(
        &mut self,
        pid: u32,
        (call, arguments): (Call, &[u64; 6]),
        memory: Option<&[Vec<u8>]>,
    ) -> Option<Token> {
        match about::of(pid, call, arguments) {
            About::Descriptor(descriptor) => self.descriptor(pid, descriptor),
            About::Path { folder, at } => {
                let text = match memory {
                    Some(memory) => memory.first().cloned().unwrap_or_default(),
                    None => self.text(pid, at),
                };
                self.path(pid, folder, &text)
            }
            About::Peer { descriptor, at: (at, length) } => {
                let address = match memory {
                    Some(memory) => memory.first().cloned().unwrap_or_default(),
                    None => self.bytes(pid, at, usize::try_from(length.min(128)).unwrap_or(0)),
                };
                match peer(&address) {
                    Some(text) => {
                        self.known(pid, Name { kind: SubjectKind::Socket, text, is_partial: false })
                    }
                    None => self.descriptor(pid, descriptor),
                }
            }
            About::Thing(kind, text) => {
                self.known(pid, Name { kind, text: text.into_bytes(), is_partial: false })
            }
            About::Nothing => None,
        }
    }

    /// What a call is about that a thread is in at this moment.
    pub(super) fn now(&mut self, pid: u32, (call, arguments): (Call, &[u64; 6])) -> Option<Token> {
        let descriptor = match about::of(pid, call, arguments) {
            About::Descriptor(descriptor) | About::Peer { descriptor, .. } => descriptor,
            About::Path { .. } | About::Thing(..) | About::Nothing => {
                self.texts.clear();
                return self.begun(pid, (call, arguments), None);
            }
        };
        let found = named(self.link(&format!("{pid}/fd/{descriptor}"))?);
        self.known(pid, found)
    }

    /// A call has succeeded.
    pub(super) fn succeeded(
        &mut self,
        pid: u32,
        (call, arguments): (Call, &[u64; 6]),
        (about, answer): (Option<Token>, i64),
        time_ns: u64,
    ) {
        let made = u32::try_from(answer).ok();
        match about::effect(call, arguments) {
            Effect::Opens => self.replace(pid, made, about, time_ns),
            Effect::Makes => self.replace(pid, made, None, time_ns),
            Effect::Copies(from) => {
                let same = self.open.get(&pid).and_then(|open| open.get(&from)).copied();
                self.replace(pid, made, same, time_ns);
            }
            Effect::Closes(first, last) => {
                let open = self.open.entry(pid).or_default();
                let closed: Vec<u32> =
                    open.range(first..=last.max(first)).map(|(of, _)| *of).collect();
                for descriptor in closed {
                    self.replace(pid, Some(descriptor), None, time_ns);
                }
            }
            Effect::Moves => {
                self.folders.remove(&pid);
            }
            Effect::Nothing => {}
        }
    }

    /// A process runs another program.
    pub(super) fn ran(&mut self, pid: u32) {
        self.open.remove(&pid);
        self.memories.remove(&pid);
        self.folders.remove(&pid);
    }

    /// A process runs the command that the agent launched: with the agent's working folder, stdin and stderr.
    /// They are not looked up there, because it may have ended by then.
    pub(super) fn launched(&mut self, pid: u32) {
        let folder = self.link("self/cwd");
        self.folders.insert(pid, folder);
        for (descriptor, own) in [(0, 0), (1, 2), (2, 2)] {
            let link = self.link(&format!("self/fd/{own}"));
            if let Some(token) = link.and_then(|link| self.known(pid, named(link))) {
                self.open.entry(pid).or_default().insert(descriptor, token);
            }
        }
    }

    /// Looks up what was met since the last time.
    pub(super) fn look(&mut self, now_ns: u64) {
        self.texts.clear();
        for token in std::mem::take(&mut self.to_look_up) {
            let Some(thing) = self.things.get(index(token)) else { continue };
            let (pid, Some(descriptor)) = (thing.pid, thing.descriptor) else { continue };
            if !matches!(thing.what, What::NotLookedUp) {
                continue;
            }
            let what = match self.link(&format!("{pid}/fd/{descriptor}")) {
                Some(link) => What::Known(named(link), Some(now_ns)),
                None => What::Gone,
            };
            if let Some(thing) = self.things.get_mut(index(token)) {
                thing.what = what;
            }
        }
        if self.sees == Sees::Some {
            self.open.clear();
            self.folders.clear();
        }
    }

    /// Everything that was met as a subject, by its token.
    pub(super) fn finish(self, subjects: &mut Subjects) -> Named {
        let sockets = super::sockets::Peers::new(Arc::clone(&self.proc));
        let mut all = Vec::with_capacity(self.things.len());
        for thing in self.things {
            let name = match thing.what {
                What::Known(name, _) => name,
                What::NotLookedUp | What::Gone => Name {
                    kind: SubjectKind::Other,
                    text: thing.descriptor.map_or_else(Vec::new, |descriptor| {
                        format!("descriptor {descriptor} of {}, closed since", thing.pid)
                            .into_bytes()
                    }),
                    is_partial: true,
                },
            };
            let is_socket = name.kind == SubjectKind::Socket;
            let peer = is_socket.then(|| sockets.name(thing.pid, &name.text)).flatten();
            let text = peer.unwrap_or(name.text);
            let subject = Subject {
                kind: name.kind,
                name: HostText::new(&text),
                is_partial: name.is_partial,
                other_end: Vec::new(),
            };
            all.push((subjects.id(subject), name.kind));
        }
        Named { all }
    }

    fn replace(&mut self, pid: u32, descriptor: Option<u32>, token: Option<Token>, time_ns: u64) {
        let Some(descriptor) = descriptor else { return };
        let open = self.open.entry(pid).or_default();
        let before = match token {
            Some(token) => open.insert(descriptor, token),
            None => open.remove(&descriptor),
        };
        // What was looked up after it was closed was another.
        if let Some(thing) = before.and_then(|before| self.things.get_mut(index(before)))
            && thing.descriptor == Some(descriptor)
            && match &thing.what {
                What::NotLookedUp => true,
                What::Known(_, looked) => looked.is_some_and(|looked| looked > time_ns),
                What::Gone => false,
            }
        {
            thing.what = What::Gone;
        }
    }

    fn descriptor(&mut self, pid: u32, descriptor: u32) -> Option<Token> {
        if descriptor > i32::MAX.unsigned_abs() {
            return None;
        }
        if let Some(token) = self.open.get(&pid).and_then(|open| open.get(&descriptor)) {
            return Some(*token);
        }
        let thing = Thing { pid, descriptor: Some(descriptor), what: What::NotLookedUp };
        let token = self.add(thing)?;
        self.open.entry(pid).or_default().insert(descriptor, token);
        self.to_look_up.push(token);
        Some(token)
    }

    fn path(&mut self, pid: u32, folder: Folder, text: &[u8]) -> Option<Token> {
        if text.is_empty() {
            return match folder {
                // With a flag that says so, it is the open folder or file itself.
                Folder::Of(descriptor) => self.descriptor(pid, descriptor),
                Folder::Working => None,
            };
        }
        if text.starts_with(b"/") {
            let name = Name { kind: SubjectKind::Path, text: text.to_vec(), is_partial: false };
            return self.known(pid, name);
        }
        let text = text.strip_prefix(b"./").unwrap_or(text);
        let base = match folder {
            Folder::Working => self.working_folder(pid),
            Folder::Of(descriptor) => {
                let token = self.descriptor(pid, descriptor)?;
                match self.things.get(index(token)).map(|thing| &thing.what) {
                    Some(What::Known(name, _)) => Some(name.text.clone()),
                    Some(What::NotLookedUp) => self.link(&format!("{pid}/fd/{descriptor}")),
                    Some(What::Gone) | None => None,
                }
            }
        };
        let whole = match &base {
            Some(base) if base.ends_with(b"/") => [base.as_slice(), text].concat(),
            Some(base) => [base.as_slice(), b"/", text].concat(),
            None => text.to_vec(),
        };
        let is_partial = base.is_none();
        self.known(pid, Name { kind: SubjectKind::Path, text: whole, is_partial })
    }

    fn working_folder(&mut self, pid: u32) -> Option<Vec<u8>> {
        if let Some(known) = self.folders.get(&pid) {
            return known.clone();
        }
        let folder = self.link(&format!("{pid}/cwd"));
        self.folders.insert(pid, folder.clone());
        folder
    }

    fn known(&mut self, pid: u32, name: Name) -> Option<Token> {
        if let Some(token) = self.named.get(&name) {
            return Some(*token);
        }
        let what = What::Known(name.clone(), None);
        let token = self.add(Thing { pid, descriptor: None, what })?;
        self.named.insert(name, token);
        Some(token)
    }

    fn add(&mut self, thing: Thing) -> Option<Token> {
        if self.things.len() >= MOST_TOKENS {
            return None;
        }
        let token = Token(u32::try_from(self.things.len()).ok()?);
        self.things.push(thing);
        Some(token)
    }

    fn link(&self, path: &str) -> Option<Vec<u8>> {
        let link = rustix::fs::readlinkat(&*self.proc, path, Vec::new()).ok()?;
        Some(link.into_bytes())
    }

    fn text(&mut self, pid: u32, at: u64) -> Vec<u8> {
        if let Some(text) = self.texts.get(&(pid, at)) {
            return text.clone();
        }
        let mut text = Vec::new();
        while text.len() < MOST_PATH_BYTES {
            // No further than to the end of a page at once: the next one may not be there.
            let start = at.saturating_add(u64::try_from(text.len()).unwrap_or(u64::MAX));
            let length = 256_u64.min(4096 - start % 4096);
            let piece = self.bytes(pid, start, usize::try_from(length).unwrap_or_default());
            let end = piece.iter().position(|byte| *byte == 0);
            text.extend(piece.iter().take(end.unwrap_or(piece.len())));
            if end.is_some() || piece.is_empty() {
                break;
            }
        }
        self.texts.insert((pid, at), text.clone());
        text
    }

    fn bytes(&mut self, pid: u32, at: u64, length: usize) -> Vec<u8> {
        if self.memories.len() >= MOST_MEMORIES && !self.memories.contains_key(&pid) {
            self.memories.clear();
        }
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&*self.proc, format!("{pid}/mem"), flags, Mode::empty());
        let memory = self.memories.entry(pid).or_insert_with(|| open().ok());
        let Some(memory) = memory.as_ref().filter(|_| at != 0) else { return Vec::new() };
        let mut piece = vec![0; length];
        let read = rustix::io::pread(memory, &mut piece, at).unwrap_or(0);
        piece.truncate(read);
        piece
    }
}

fn index(token: Token) -> usize {
    usize::try_from(token.0).unwrap_or(usize::MAX)
}

/// All things as subjects.
#[derive(Debug, Default)]
pub(super) struct Named {
    all: Vec<(SubjectId, SubjectKind)>,
}

impl Named {
    /// The subject of a token, and of what kind it is.
    pub(super) fn get(&self, token: Option<Token>) -> Option<(SubjectId, SubjectKind)> {
        token.and_then(|token| self.all.get(index(token))).copied()
    }
}

/// What a link in `/proc/PID/fd` says.
fn named(link: Vec<u8>) -> Name {
    let starts = |with: &str| link.starts_with(with.as_bytes());
    let kind = if starts("/dev/pts/") || starts("/dev/tty") || starts("/dev/console") {
        SubjectKind::Terminal
    } else if starts("/") {
        SubjectKind::Path
    } else if starts("socket:") {
        SubjectKind::Socket
    } else if starts("pipe:") {
        SubjectKind::Pipe
    } else if starts("anon_inode:[eventpoll]") {
        SubjectKind::Poll
    } else if starts("anon_inode:[eventfd") {
        SubjectKind::Eventfd
    } else if starts("anon_inode:[timerfd]") {
        SubjectKind::Timer
    } else if starts("anon_inode:[signalfd]") {
        SubjectKind::Signal
    } else if starts("anon_inode:inotify") {
        SubjectKind::Inotify
    } else if starts("anon_inode:[io_uring]") {
        SubjectKind::Completions
    } else {
        SubjectKind::Other
    };
    Name { kind, text: link, is_partial: false }
}

/// The peer that an address of a socket names: `struct sockaddr_in`, `_in6`, `_un`.
fn peer(address: &[u8]) -> Option<Vec<u8>> {
    const UNIX: u16 = 1;
    const INET: u16 = 2;
    const INET6: u16 = 10;
    let (family, rest) = address.split_first_chunk::<2>()?;
    let text = match u16::from_ne_bytes(*family) {
        UNIX => {
            let name = rest.strip_prefix(&[0]).map_or_else(
                || rest.split(|byte| *byte == 0).next().unwrap_or_default().to_vec(),
                |name| [b"@", name].concat(),
            );
            [b"unix ", name.as_slice()].concat()
        }
        INET => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let address = std::net::Ipv4Addr::from(*rest.first_chunk::<4>()?);
            format!("{address}:{}", u16::from_be_bytes(*port)).into_bytes()
        }
        INET6 => {
            let (port, rest) = rest.split_first_chunk::<2>()?;
            let address = rest.get(4..).and_then(|rest| rest.first_chunk::<16>())?;
            let address = std::net::Ipv6Addr::from(*address);
            format!("[{address}]:{}", u16::from_be_bytes(*port)).into_bytes()
        }
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_sockets_are_named() {
        let inet =
            [&2_u16.to_ne_bytes()[..], &443_u16.to_be_bytes(), &[10, 0, 0, 5], &[0; 8]].concat();
        let inet6 =
            [&10_u16.to_ne_bytes()[..], &[0, 80], &[0; 4], &[0; 15], &[1], &[0; 4]].concat();
        let unix = [&1_u16.to_ne_bytes()[..], b"/run/x.sock\0\0"].concat();
        let unnamed = [&1_u16.to_ne_bytes()[..], b"\0hidden"].concat();
        let cases: [(&[u8], Option<&str>); 7] = [
            (&inet, Some("10.0.0.5:443")),
            (&inet6, Some("[::1]:80")),
            (&unix, Some("unix /run/x.sock")),
            (&unnamed, Some("unix @hidden")),
            (&inet[..7], None),
            (&[16, 0, 1, 2], None),
            (&[], None),
        ];
        for (address, want) in cases {
            assert_eq!(peer(address).as_deref(), want.map(str::as_bytes), "{address:?}");
        }
    }

    #[test]
    fn what_was_closed_before_it_was_looked_up_has_no_name() {
        let proc = crate::proc::Root::live().unwrap().live_proc().unwrap();
        let own = std::process::id();
        let call = |name: &str| Call::all_named(name)[0];
        let (read, close) = (call("read"), call("close"));
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file).unsigned_abs();
        let on = [u64::from(descriptor), 0, 0, 0, 0, 0];
        let mut naming = Naming::new(proc, Sees::All);
        let first = naming.begun(own, (read, &on), None);
        naming.look(100);
        // It was closed at 50, so what was found at 100 is what was opened after it.
        naming.succeeded(own, (close, &on), (first, 0), 50);
        let second = naming.begun(own, (read, &on), None);
        naming.look(200);
        naming.succeeded(own, (close, &on), (second, 0), 250);
        let mut subjects = Subjects::default();
        let named = naming.finish(&mut subjects);
        let (first, second) = (named.get(first).unwrap(), named.get(second).unwrap());
        assert_eq!((first.1, second.1), (SubjectKind::Other, SubjectKind::Path));
        assert!(subjects.get(first.0).unwrap().is_partial);
    }

    #[test]
    fn a_path_begins_where_its_process_is_and_what_it_opened_has_its_name() {
        let proc = crate::proc::Root::live().unwrap().live_proc().unwrap();
        let own = std::process::id();
        let here = std::env::current_dir().unwrap().join("Cargo.toml");
        let call = Call::all_named("openat")[0];
        let read = Call::all_named("read")[0];
        let arguments = [0xffff_ff9c, 1, 0, 0, 0, 0];
        let mut naming = Naming::new(proc, Sees::All);
        let memory = [b"Cargo.toml".to_vec()];
        let opened = naming.begun(own, (call, &arguments), Some(&memory));
        naming.succeeded(own, (call, &arguments), (opened, 900), 1);
        assert_eq!(naming.begun(own, (read, &[900, 0, 0, 0, 0, 0]), None), opened);
        let absolute = here.to_str().unwrap().as_bytes().to_vec();
        assert_eq!(naming.begun(own, (call, &arguments), Some(&[absolute])), opened);
    }
}
