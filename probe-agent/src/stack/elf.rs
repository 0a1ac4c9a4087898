//! Executables and libraries as files: where their parts are, and which build they are.
//!
//! Format: the System V ABI, chapters 4 and 5, and `elf(5)`; `include/uapi/linux/elf.h`.
//! Only 64-bit little-endian files, which is what both supported processors run. Whoever may write a
//! file that runs on the target may have written these bytes: no offset is believed, and nothing is
//! allocated by a number that stands in the file.
//!
//! Addresses here are *svma*: what the file says, before the loader has put it somewhere.

mod bytes;
mod compressed;
mod notes;

pub(crate) use bytes::Reader;
pub(super) use bytes::text_at;
pub use notes::{AlternateLink, BuildId, DebugLink};

use std::{borrow::Cow, ops::Range};

/// The most program headers that are looked at. Real files have about 12.
const MOST_SEGMENTS: usize = 256;

/// The most section headers that are looked at. Real executables have about 40.
const MOST_SECTIONS: usize = 4096;

/// The longest name of a section that is read.
const MOST_NAME_BYTES: usize = 255;

const PROGRAM_HEADER_BYTES: usize = 56;
const SECTION_HEADER_BYTES: usize = 64;

/// Why bytes are no file that can be read here, or a section of it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ElfError {
    /// They do not begin as an ELF file does.
    #[error("not an ELF file")]
    NotElf,
    /// 32-bit or big-endian.
    #[error("not a 64-bit little-endian ELF file")]
    OtherClass,
    /// The headers that say what is mapped where are not within the file.
    #[error("its program headers are not within the file")]
    ProgramHeaders,
    /// A section is packed in a way that is not read here, or its packed bytes are wrong.
    #[error("a section is packed and cannot be unpacked: {why}")]
    Packed {
        /// What is wrong.
        why: &'static str,
    },
}

/// What the file runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// `EM_X86_64`.
    X86_64,
    /// `EM_AARCH64`.
    Aarch64,
    /// Another one, by its number.
    Other(u16),
}

/// A part of the file that the loader maps: `PT_LOAD`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Where it is mapped, before the loader has moved the file.
    pub svma: Range<u64>,
    /// Where its bytes are in the file. Shorter than `svma` where memory follows that is zero.
    pub file: Range<u64>,
    /// Whether it holds code.
    pub is_executable: bool,
    /// `p_align`: what both ranges are rounded to when they are mapped.
    align: u64,
}

impl Load {
    fn svma_of(&self, offset: u64) -> u64 {
        self.svma.start.wrapping_add(offset.wrapping_sub(self.file.start))
    }

    /// Whether the loader maps that byte of the file along with it: the page in which it begins is
    /// mapped whole.
    fn maps(&self, offset: u64) -> bool {
        let before = self.file.start.checked_rem(self.align).unwrap_or(0);
        (self.file.start - before..self.file.end).contains(&offset)
    }
}

/// A named part of the file.
#[derive(Clone, Copy, Debug)]
pub struct Section<'d> {
    /// `.text`, for instance.
    pub name: &'d [u8],
    /// Its address; 0 for what is not mapped.
    pub svma: u64,
    /// How many bytes it has where it is mapped.
    pub bytes_in_memory: u64,
    /// Whether it holds code.
    pub is_executable: bool,
    /// The number of the section that it refers to: that of its names for a table of symbols.
    pub(super) link: u32,
    is_packed: bool,
    in_file: &'d [u8],
}

impl<'d> Section<'d> {
    /// The addresses that it takes.
    pub fn svma_range(&self) -> Range<u64> {
        self.svma..self.svma.saturating_add(self.bytes_in_memory)
    }

    /// Its bytes. None for a section that only takes place in memory, and for one that is packed: see
    /// [`Section::unpacked`].
    pub fn bytes(&self) -> &'d [u8] {
        if self.is_packed { &[] } else { self.in_file }
    }

    /// Its bytes, unpacked where `SHF_COMPRESSED` says that they are packed, as Debian's files for
    /// debuggers are.
    ///
    /// # Errors
    ///
    /// [`ElfError::Packed`] for packed bytes that are wrong, that would take more than `most_bytes`,
    /// or that are packed with zstd, which is not read here.
    pub fn unpacked(&self, most_bytes: usize) -> Result<Cow<'d, [u8]>, ElfError> {
        if self.is_packed {
            compressed::unpack(self.in_file, most_bytes).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(self.in_file))
        }
    }
}

/// A file, as far as names and unwinding need it.
#[derive(Clone, Debug)]
pub struct ElfFile<'d> {
    bytes: &'d [u8],
    machine: Machine,
    is_position_independent: bool,
    loads: Vec<Load>,
    unwind_table: Option<Range<u64>>,
    notes: Vec<(&'d [u8], u64)>,
    section_headers: &'d [u8],
    section_names: &'d [u8],
}

impl<'d> ElfFile<'d> {
    /// Reads the headers.
    ///
    /// Section headers that are not within the file count as none: a file without them runs too, and
    /// an image from memory may lack them.
    ///
    /// # Errors
    ///
    /// Bytes that are not a 64-bit little-endian ELF file with its program headers.
    pub fn parse(bytes: &'d [u8]) -> Result<Self, ElfError> {
        const EXECUTABLE_OR_LIBRARY_THAT_MOVES: u16 = 3;
        if !bytes.starts_with(b"\x7fELF") {
            return Err(ElfError::NotElf);
        }
        if bytes.get(4..6) != Some(&[2, 1]) {
            return Err(ElfError::OtherClass);
        }
        let header = Header::read(bytes).ok_or(ElfError::ProgramHeaders)?;
        let mut file = Self {
            bytes,
            machine: match header.machine {
                62 => Machine::X86_64,
                183 => Machine::Aarch64,
                other => Machine::Other(other),
            },
            is_position_independent: header.kind == EXECUTABLE_OR_LIBRARY_THAT_MOVES,
            loads: Vec::new(),
            unwind_table: None,
            notes: Vec::new(),
            section_headers: &[],
            section_names: &[],
        };
        let segments = header.program_headers(bytes).ok_or(ElfError::ProgramHeaders)?;
        for segment in segments.chunks_exact(PROGRAM_HEADER_BYTES).take(MOST_SEGMENTS) {
            file.add_segment(segment).ok_or(ElfError::ProgramHeaders)?;
        }
        if let Some(headers) = header.section_headers(bytes) {
            file.section_headers = headers;
            file.section_names = file
                .section_numbered(u32::from(header.names_section))
                .map_or(&[][..], |section| section.bytes());
        }
        Ok(file)
    }

    /// Takes in one program header.
    fn add_segment(&mut self, segment: &'d [u8]) -> Option<()> {
        const LOAD: u32 = 1;
        const NOTE: u32 = 4;
        const UNWIND_TABLE: u32 = 0x6474_e550;
        let mut fields = Reader::new(segment);
        let (kind, flags) = (fields.u32()?, fields.u32()?);
        let (offset, svma) = (fields.u64()?, fields.u64()?);
        let _physical = fields.u64()?;
        let (in_file, in_memory, align) = (fields.u64()?, fields.u64()?, fields.u64()?);
        match kind {
            LOAD => self.loads.push(Load {
                svma: svma..svma.saturating_add(in_memory),
                file: offset..offset.saturating_add(in_file),
                is_executable: flags & 1 != 0,
                align,
            }),
            NOTE => self.notes.extend(slice(self.bytes, offset, in_file).map(|note| (note, align))),
            UNWIND_TABLE => self.unwind_table = Some(svma..svma.saturating_add(in_memory)),
            _ => {}
        }
        Some(())
    }

    /// What it runs on.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Whether the loader may put it anywhere: a library, or an executable made to be moved.
    pub fn is_position_independent(&self) -> bool {
        self.is_position_independent
    }

    /// What the loader maps, in the order of the file's headers.
    pub fn loads(&self) -> &[Load] {
        &self.loads
    }

    /// The svma of a byte of the file: of code rather than of data, where both have it.
    ///
    /// This is the way from a sampled address to one that this file's tables know: the address, less
    /// the start of its mapping, plus the mapping's offset in the file, is the byte.
    pub fn svma_of_file_offset(&self, offset: u64) -> Option<u64> {
        let holds = |load: &&Load| load.file.contains(&offset);
        let code_first = self.code().find(holds).or_else(|| self.loads.iter().find(holds));
        let load = code_first.or_else(|| self.code().find(|load| load.maps(offset)))?;
        Some(load.svma_of(offset))
    }

    /// The svma at which a mapping of code begins, by its offset in the file.
    ///
    /// Not the same as [`ElfFile::svma_of_file_offset`] of it: a mapping begins with its page, whose
    /// first bytes can belong to what comes before the code in the file.
    pub fn svma_of_code_mapping(&self, offset: u64) -> Option<u64> {
        let exact = self.code().find(|load| load.file.contains(&offset));
        let load = exact.or_else(|| self.code().find(|load| load.maps(offset)))?;
        Some(load.svma_of(offset))
    }

    /// Whether two addresses are in the same section of code; in the same segment, where the file has no
    /// section headers.
    pub(super) fn is_one_stretch_of_code(&self, one: u64, other: u64) -> bool {
        let holds_both = |range: Range<u64>| range.contains(&one) && range.contains(&other);
        let mut sections = self.sections().filter(|section| section.is_executable).peekable();
        if sections.peek().is_none() {
            return self.code().any(|load| holds_both(load.svma.clone()));
        }
        sections.any(|section| holds_both(section.svma_range()))
    }

    fn code(&self) -> impl Iterator<Item = &Load> {
        self.loads.iter().filter(|load| load.is_executable)
    }

    /// The bytes of the file that are mapped at an svma, up to the end of their segment.
    pub(super) fn mapped_at(&self, svma: u64) -> Option<&'d [u8]> {
        let load = self.loads.iter().find(|load| load.svma.contains(&svma))?;
        let from = load.file.start.checked_add(svma - load.svma.start)?;
        slice(self.bytes, from, load.file.end.checked_sub(from)?)
    }

    /// The addresses of the table by which code is unwound, `.eh_frame_hdr`, by the program header that
    /// the loader itself uses: a file may have no section headers.
    pub fn unwind_table(&self) -> Option<Range<u64>> {
        self.unwind_table.clone()
    }

    /// The section of that name, the first if there are several.
    pub fn section(&self, name: &[u8]) -> Option<Section<'d>> {
        self.sections().find(|section| section.name == name)
    }

    /// Every section.
    pub fn sections(&self) -> impl Iterator<Item = Section<'d>> {
        self.section_headers
            .chunks_exact(SECTION_HEADER_BYTES)
            .filter_map(|header| self.section_of(header))
    }

    /// Of each section by its number, whether it holds code.
    pub(super) fn holds_code(&self) -> Vec<bool> {
        let headers = self.section_headers.chunks_exact(SECTION_HEADER_BYTES);
        let holds = |header| self.section_of(header).is_some_and(|section| section.is_executable);
        headers.map(holds).collect()
    }

    /// A section by its number, with which symbols and other sections refer to it.
    pub(super) fn section_numbered(&self, number: u32) -> Option<Section<'d>> {
        let number = usize::try_from(number).ok()?;
        self.section_of(self.section_headers.chunks_exact(SECTION_HEADER_BYTES).nth(number)?)
    }

    fn section_of(&self, header: &'d [u8]) -> Option<Section<'d>> {
        const ONLY_IN_MEMORY: u32 = 8;
        const EXECUTABLE: u64 = 4;
        const PACKED: u64 = 0x800;
        let mut fields = Reader::new(header);
        let (name, kind, flags) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let (svma, offset, bytes) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let link = fields.u32()?;
        let in_file = match kind {
            ONLY_IN_MEMORY => &[],
            _ => slice(self.bytes, offset, bytes)?,
        };
        Some(Section {
            name: text_at(self.section_names, name, MOST_NAME_BYTES).unwrap_or_default(),
            svma,
            bytes_in_memory: bytes,
            is_executable: flags & EXECUTABLE != 0,
            link,
            is_packed: flags & PACKED != 0,
            in_file,
        })
    }

    /// The whole file.
    pub fn bytes(&self) -> &'d [u8] {
        self.bytes
    }
}

/// The header of the file.
struct Header {
    kind: u16,
    machine: u16,
    segments_at: u64,
    sections_at: u64,
    segment_bytes: u16,
    segment_count: u16,
    section_bytes: u16,
    section_count: u16,
    names_section: u16,
}

impl Header {
    fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Reader::new(bytes.get(16..)?);
        let (kind, machine) = (fields.u16()?, fields.u16()?);
        let (_version, _entry) = (fields.u32()?, fields.u64()?);
        let (segments_at, sections_at) = (fields.u64()?, fields.u64()?);
        let (_flags, _header_bytes) = (fields.u32()?, fields.u16()?);
        Some(Self {
            kind,
            machine,
            segments_at,
            sections_at,
            segment_bytes: fields.u16()?,
            segment_count: fields.u16()?,
            section_bytes: fields.u16()?,
            section_count: fields.u16()?,
            names_section: fields.u16()?,
        })
    }

    /// The program headers; none for an object file, which has no place for them.
    fn program_headers<'d>(&self, bytes: &'d [u8]) -> Option<&'d [u8]> {
        if self.segment_count == 0 {
            return Some(&[]);
        }
        if usize::from(self.segment_bytes) != PROGRAM_HEADER_BYTES {
            return None;
        }
        let bytes_of_all = u64::from(self.segment_count) * u64::from(self.segment_bytes);
        slice(bytes, self.segments_at, bytes_of_all)
    }

    fn section_headers<'d>(&self, bytes: &'d [u8]) -> Option<&'d [u8]> {
        if usize::from(self.section_bytes) != SECTION_HEADER_BYTES {
            return None;
        }
        let count = usize::from(self.section_count).min(MOST_SECTIONS);
        slice(bytes, self.sections_at, u64::try_from(count * SECTION_HEADER_BYTES).ok()?)
    }
}

/// A part of the file, if it is all there.
fn slice(bytes: &[u8], start: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(start).ok()?;
    let length = usize::try_from(length).ok()?;
    bytes.get(start..start.checked_add(length)?)
}

#[cfg(test)]
mod tests;
