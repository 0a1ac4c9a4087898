//! What code was executed: files, and what is in memory without one.
//!
//! A file is opened when it is first met, because its process may end: through
//! `/proc/PID/map_files`, which leads to the very file that is mapped, or by its path below
//! `/proc/PID/root`, which is that of the process's own namespace. A file found by path counts only if
//! device and inode are those that are mapped.

use super::{
    elf::{ElfFile, Machine},
    maps::ImageId,
};
use crate::{
    abandonable::{Crew, Outcome},
    os::mapped_file::{self, MappedFile},
    perf::records::FileId,
    proc::{PATIENCE, Root, pid_maps},
};
use rustix::{
    fd::OwnedFd,
    fs::{Mode, OFlags},
    io::Errno,
};
use std::{
    collections::HashMap,
    ops::{Deref, Range},
    sync::Arc,
    time::Duration,
};

/// What code was executed.
#[derive(Clone, Debug)]
pub struct Image {
    /// What it is.
    pub kind: Kind,
    /// Its path in its own namespace, without ` (deleted)`; or its name in brackets; or empty.
    pub name: Vec<u8>,
    /// Its bytes, or why there are none.
    pub code: Result<Arc<Code>, NotOpened>,
}

/// What an image is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A file, and places in it are bytes of the file.
    File {
        /// Device and inode as the kernel told them.
        id: FileId,
        /// Whether it had been deleted when it was met.
        is_deleted: bool,
    },
    /// What the kernel puts into every process; places are bytes of it.
    Vdso,
    /// Memory of one process without a file, where programs put code that they make at run time. Places
    /// are addresses.
    Anonymous {
        /// The process.
        pid: u32,
    },
    /// `[vsyscall]` and the like; places are addresses.
    Special,
}

/// Why a file's bytes are not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotOpened {
    /// It has none.
    NoFile,
    /// It was not needed yet.
    NotTried,
    /// The kernel's answer to the best way.
    Refused(Errno),
    /// What is at its path is another file.
    Exchanged,
    /// It did not open in time.
    Hangs,
}

/// The bytes of an image, and where they tell how to unwind.
#[derive(Debug)]
pub struct Code {
    bytes: Bytes,
    /// What unwinding takes; `None` for what is no executable of this machine.
    pub(super) unwind: Option<UnwindParts>,
}

#[derive(Debug)]
enum Bytes {
    Mapped(MappedFile),
    Static(&'static [u8]),
    #[cfg(test)]
    Owned(Vec<u8>),
}

/// Where unwind tables are in the bytes, and where in memory they are meant to be.
#[derive(Clone, Debug, Default)]
pub(super) struct UnwindParts {
    /// The lowest address of the image.
    pub(super) base: u64,
    pub(super) text: Option<Range<u64>>,
    pub(super) table: Option<Part>,
    pub(super) frames: Option<Part>,
    pub(super) debug_frames: Option<Range<usize>>,
}

/// A part: its bytes, and its addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) bytes: Range<usize>,
    pub(super) addresses: Range<u64>,
}

/// Tables without an index are read through once; larger ones are left out.
const MOST_UNINDEXED_BYTES: usize = 32 << 20;

impl Code {
    fn new(bytes: Bytes) -> Self {
        let unwind = ElfFile::parse(&bytes).ok().and_then(|file| UnwindParts::of(&file));
        Self { bytes, unwind }
    }

    /// Bytes of a test.
    #[cfg(test)]
    pub(super) fn of(bytes: Vec<u8>) -> Self {
        Self::new(Bytes::Owned(bytes))
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where a mapping of code begins by the file's own addresses.
    pub(super) fn svma_of_code_mapping(&self, offset: u64) -> Option<u64> {
        ElfFile::parse(&self.bytes).ok()?.svma_of_code_mapping(offset)
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Mapped(file) => file,
            Self::Static(bytes) => bytes,
            #[cfg(test)]
            Self::Owned(bytes) => bytes,
        }
    }
}

const OWN_MACHINE: Machine =
    if cfg!(target_arch = "aarch64") { Machine::Aarch64 } else { Machine::X86_64 };

impl UnwindParts {
    fn of(file: &ElfFile<'_>) -> Option<Self> {
        if file.machine() != OWN_MACHINE {
            return None;
        }
        let whole = file.bytes();
        let range = |part: &[u8]| {
            let start = part.as_ptr().addr().checked_sub(whole.as_ptr().addr())?;
            Some(start..start.checked_add(part.len())?)
        };
        let part = |part: &[u8], start: u64| {
            let length = u64::try_from(part.len()).ok()?;
            (!part.is_empty()).then_some(())?;
            Some(Part { bytes: range(part)?, addresses: start..start.checked_add(length)? })
        };
        let section = |name: &[u8]| {
            let section = file.section(name)?;
            part(section.bytes(), section.svma)
        };
        // By the loader's own header first: a file may have no sections.
        let by_header = || {
            let table = file.unwind_table()?;
            let length = usize::try_from(table.end - table.start).ok()?;
            part(file.mapped_at(table.start)?.get(..length)?, table.start)
        };
        let table = by_header().or_else(|| section(b".eh_frame_hdr"));
        let frames = section(b".eh_frame").or_else(|| {
            let table = table.as_ref()?;
            let start = frames_of(whole.get(table.bytes.clone())?, table.addresses.start)?;
            part(file.mapped_at(start)?, start)
        });
        // An index of nothing is none (`DW_EH_PE_omit`).
        let has_index = |table: &Part| {
            whole.get(table.bytes.clone()).is_some_and(|table| table.get(3) != Some(&0xff))
        };
        let table = table.filter(has_index);
        let is_small = |bytes: &Range<usize>| bytes.len() <= MOST_UNINDEXED_BYTES;
        let frames = frames.filter(|frames| table.is_some() || is_small(&frames.bytes));
        let debug_frames = match frames {
            Some(_) => None,
            None => file.section(b".debug_frame").and_then(|section| range(section.bytes())),
        };
        Some(Self {
            base: file.loads().iter().map(|load| load.svma.start).min()?,
            text: file.section(b".text").map(|section| section.svma_range()),
            table,
            frames,
            debug_frames: debug_frames.filter(|bytes| !bytes.is_empty() && is_small(bytes)),
        })
    }
}

/// Where the frames are that an index is of, where it says so in the one way that linkers use: a
/// 32-bit distance from that place.
fn frames_of(table: &[u8], address: u64) -> Option<u64> {
    const VERSION: u8 = 1;
    const DISTANCE: u8 = 0x1b;
    let (header, rest) = table.split_first_chunk::<4>()?;
    let [version, encoding, ..] = header;
    let distance = i32::from_le_bytes(*rest.first_chunk::<4>()?);
    ((*version, *encoding) == (VERSION, DISTANCE))
        .then(|| address.wrapping_add(4).wrapping_add_signed(distance.into()))
}

/// All images of a recording.
pub struct Images {
    all: Vec<Image>,
    known: HashMap<Key, ImageId>,
    /// Opens files on a thread that can be left behind; without where nothing runs here.
    crew: Option<Crew<Wanted, Result<MappedFile, NotOpened>>>,
    cpu: Duration,
}

#[derive(PartialEq, Eq, Hash)]
enum Key {
    File(FileId),
    /// A name without a file; of one process, or of all where that is 0.
    Name(u32, Vec<u8>),
}

/// A file that is to be opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Wanted {
    /// The process, and its parent, which may be in the same namespace and live longer.
    pids: [u32; 2],
    start: u64,
    end: u64,
    path: Vec<u8>,
    id: FileId,
}

/// Images that are kept; more are one image without a name.
const MOST_IMAGES: usize = 16_384;

/// Names from outside are cut here.
const MOST_NAME_BYTES: usize = 4096;

const DELETED: &[u8] = b" (deleted)";

impl Images {
    /// None yet.
    pub fn new(root: &Root) -> Self {
        let crew = root
            .live_proc()
            .map(|proc| Crew::new(PATIENCE, move |wanted: &Wanted| open_by_any_way(&proc, wanted)));
        Self { all: Vec::new(), known: HashMap::new(), crew, cpu: Duration::ZERO }
    }

    /// The image of a mapping. Its file is not opened yet.
    pub fn of(&mut self, pid: u32, file: FileId, name: &[u8]) -> ImageId {
        let name = name.get(..MOST_NAME_BYTES).unwrap_or(name);
        let is_file = file.inode != 0 && name.first() == Some(&b'/') && !is_of_memory(name);
        let of_one = matches!(name, b"" | b"//anon" | b"[heap]" | b"[stack]") || is_of_memory(name);
        let of_one = of_one || name.starts_with(b"[anon");
        let key = match (is_file, of_one) {
            (true, _) => Key::File(file),
            (false, true) => Key::Name(pid, Vec::new()),
            (false, false) => Key::Name(0, name.to_vec()),
        };
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let plain = name.strip_suffix(DELETED);
        let kind = match (is_file, of_one) {
            (true, _) => Kind::File { id: file, is_deleted: plain.is_some() },
            (false, true) => Kind::Anonymous { pid },
            (false, false) if name == b"[vdso]" => Kind::Vdso,
            (false, false) => Kind::Special,
        };
        let code = match kind {
            Kind::File { .. } => Err(NotOpened::NotTried),
            Kind::Vdso => mapped_file::vdso()
                .map(|bytes| Arc::new(Code::new(Bytes::Static(bytes))))
                .ok_or(NotOpened::NoFile),
            Kind::Anonymous { .. } | Kind::Special => Err(NotOpened::NoFile),
        };
        if self.all.len() >= MOST_IMAGES {
            return self.one_too_many();
        }
        let name = plain.filter(|_| is_file).unwrap_or(name).to_vec();
        self.insert_new(key, Image { kind, name, code })
    }

    /// Stands for all images that are not kept: it has no name, and names no function.
    fn one_too_many(&mut self) -> ImageId {
        let key = Key::Name(0, Vec::new());
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let code = Err(NotOpened::NotTried);
        self.insert_new(key, Image { kind: Kind::Special, name: Vec::new(), code })
    }

    fn insert_new(&mut self, key: Key, image: Image) -> ImageId {
        let id = ImageId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push(image);
        self.known.insert(key, id);
        id
    }

    /// The code of an image that is mapped there, opened if it was not tried yet.
    pub fn code(
        &mut self,
        id: ImageId,
        pids: [u32; 2],
        (start, end): (u64, u64),
    ) -> Option<&Arc<Code>> {
        let image = usize::try_from(id.0).ok().and_then(|index| self.all.get_mut(index))?;
        if let (Kind::File { id, .. }, Err(NotOpened::NotTried)) = (image.kind, &image.code) {
            let wanted = Wanted { pids, start, end, path: image.name.clone(), id };
            image.code = match &self.crew {
                None => Err(NotOpened::NoFile),
                Some(crew) => {
                    let mut done = crew.each(vec![wanted]);
                    self.cpu += done.cpu;
                    match done.outcomes.pop() {
                        Some(Outcome::Returned(Ok(file))) => {
                            Ok(Arc::new(Code::new(Bytes::Mapped(file))))
                        }
                        Some(Outcome::Returned(Err(why))) => Err(why),
                        Some(Outcome::Hangs | Outcome::NotTried) | None => Err(NotOpened::Hangs),
                    }
                }
            };
        }
        image.code.as_ref().ok()
    }

    /// An image of a test.
    #[cfg(test)]
    pub(super) fn insert(&mut self, code: Code) -> ImageId {
        let code = Ok(Arc::new(code));
        self.all.push(Image { kind: Kind::Vdso, name: b"test".to_vec(), code });
        ImageId(u32::try_from(self.all.len()).unwrap() - 1)
    }

    /// Whether places in an image are bytes of it, rather than addresses.
    pub fn has_offsets(&self, id: ImageId) -> bool {
        let image = usize::try_from(id.0).ok().and_then(|index| self.all.get(index));
        image.is_some_and(|image| matches!(image.kind, Kind::File { .. } | Kind::Vdso))
    }

    /// Processor time of other threads that opened files.
    pub const fn cpu(&self) -> Duration {
        self.cpu
    }

    /// All of them, in the order of their numbers.
    pub fn into_all(self) -> Vec<Image> {
        self.all
    }
}

/// Whether a path is not one of a file system: memory that is shared under a name.
fn is_of_memory(name: &[u8]) -> bool {
    let starts: [&[u8]; 4] = [b"/memfd:", b"/dev/zero", b"/SYSV", b"anon_inode:"];
    starts.iter().any(|start| name.starts_with(start))
}

fn open_by_any_way(proc: &OwnedFd, wanted: &Wanted) -> Result<MappedFile, NotOpened> {
    let Wanted { pids: [pid, parent], start, end, path, id } = wanted;
    let mapped = format!("{pid}/map_files/{start:x}-{end:x}").into_bytes();
    let below = |root: String| [root.as_bytes(), path].concat();
    let ways = [
        (mapped, true),
        (below(format!("{pid}/root")), false),
        (below(format!("{parent}/root")), false),
        (below("self/root".to_owned()), false),
    ];
    let mut why = None;
    for (way, is_by_kernel) in ways {
        match open_one(proc, &way, *id, is_by_kernel.then_some((*pid, *start))) {
            Ok(file) => return Ok(file),
            // Another file says more than none.
            Err(NotOpened::Exchanged) => why = Some(NotOpened::Exchanged),
            Err(error) => why = why.or(Some(error)),
        }
    }
    Err(why.unwrap_or(NotOpened::NoFile))
}

/// Opens a file and ensures that it is the one that is mapped. `mapping` is given where the kernel
/// itself led to the file of a mapping.
fn open_one(
    proc: &OwnedFd,
    path: &[u8],
    id: FileId,
    mapping: Option<(u32, u64)>,
) -> Result<MappedFile, NotOpened> {
    // A pipe in place of a file would hold whoever opens it.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOCTTY | OFlags::NONBLOCK;
    let file = rustix::fs::openat(proc, path, flags, Mode::empty()).map_err(NotOpened::Refused)?;
    let status = rustix::fs::fstat(&file).map_err(NotOpened::Refused)?;
    if rustix::fs::FileType::from_raw_mode(status.st_mode) != rustix::fs::FileType::RegularFile {
        return Err(NotOpened::Exchanged);
    }
    let found = FileId {
        major: rustix::fs::major(status.st_dev),
        minor: rustix::fs::minor(status.st_dev),
        inode: status.st_ino,
    };
    let mapped = MappedFile::map(&file).map_err(NotOpened::Refused)?;
    if found == id {
        return Ok(mapped);
    }
    // On overlayfs and btrfs a file has another device for whoever asks than for whoever maps it
    // (`show_map_vma` takes the inode's own). What this process has mapped now shows the same.
    let own = (std::process::id(), u64::try_from(mapped.as_ptr().addr()).unwrap_or_default());
    let is_same = [Some(own), mapping].into_iter().flatten().any(|(pid, address)| {
        let line = line_at(proc, pid, address);
        line.is_some_and(|line| line.file == id)
    });
    if is_same { Ok(mapped) } else { Err(NotOpened::Exchanged) }
}

fn line_at(proc: &OwnedFd, pid: u32, address: u64) -> Option<pid_maps::Line> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::openat(proc, format!("{pid}/maps"), flags, Mode::empty()).ok()?;
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut std::fs::File::from(file), &mut text).ok()?;
    text.split(|byte| *byte == b'\n').find_map(|line| {
        let line = pid_maps::parse_line(line, 0).ok()?;
        (line.start..line.end).contains(&address).then_some(line)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_is_one_too_many_is_not_taken_for_another() {
        let mut images = Images::new(&Root::live().unwrap());
        let file = |inode| FileId { major: 8, minor: 1, inode };
        for inode in 1..=MOST_IMAGES as u64 {
            images.of(1, file(inode), b"/usr/lib/a.so");
        }
        let late = [images.of(1, file(900_000), b"/a"), images.of(2, file(900_001), b"/b")];
        assert_eq!(late[0], late[1]);
        assert_eq!(images.of(3, file(7), b"/usr/lib/a.so"), ImageId(6));
        let all = images.into_all();
        assert_eq!((all.len(), all.last().unwrap().name.as_slice()), (MOST_IMAGES + 1, &b""[..]));
    }
}
