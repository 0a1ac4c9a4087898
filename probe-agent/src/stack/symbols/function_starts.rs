//! Where functions start, of code that has no symbols.
//!
//! Format: the Linux Standard Base, "Exception Frames": `.eh_frame_hdr` has a sorted table of where
//! each function starts and where its unwind information is. It is needed when the program runs, so
//! that nobody strips it. A program that is linked statically may lack the table, and still has the
//! information, `.eh_frame`. Only the encodings that all linkers for Linux write are read.

use crate::stack::elf::{ElfFile, Reader};

/// A start and the place of its unwind information, each in four bytes.
const ENTRY_BYTES: usize = 8;

/// The most functions that are kept of a file without a table: 16 MiB of them.
const MOST_FUNCTIONS: usize = 1 << 20;

/// Where functions start, by one or the other.
#[derive(Debug)]
pub enum FunctionStarts<'d> {
    /// By the table.
    Table(Table<'d>),
    /// By the information itself: starts and lengths, sorted.
    Sorted(Vec<(u64, u64)>),
}

impl<'d> FunctionStarts<'d> {
    /// Finds what there is.
    pub fn of(file: &ElfFile<'d>) -> Option<Self> {
        let table = Table::of(file).map(Self::Table);
        table.or_else(|| Some(Self::Sorted(sorted(file)?)))
    }

    /// The start of the function that has an address.
    pub fn containing(&self, file: &ElfFile, svma: u64) -> Option<u64> {
        let (start, end) = match self {
            Self::Table(table) => table.around(file, svma)?,
            Self::Sorted(functions) => {
                let after = functions.partition_point(|(start, _)| *start <= svma);
                let (start, length) = functions.get(after.checked_sub(1)?)?;
                (*start, start.saturating_add(*length))
            }
        };
        (svma < end && file.is_one_stretch_of_code(start, svma)).then_some(start)
    }
}

/// The table of a file.
#[derive(Debug)]
pub struct Table<'d> {
    /// What the numbers in the table are counted from.
    header_svma: u64,
    entries: &'d [u8],
}

impl<'d> Table<'d> {
    /// Finds it as the loader does.
    fn of(file: &ElfFile<'d>) -> Option<Self> {
        const VERSION: u8 = 1;
        // `DW_EH_PE_pcrel | sdata4`, `udata4` and `datarel | sdata4`.
        const USUAL_ENCODINGS: [u8; 3] = [0x1b, 0x03, 0x3b];
        let header_svma = file.unwind_table()?.start;
        let mut fields = Reader::new(file.mapped_at(header_svma)?);
        let version = fields.u8()?;
        if version != VERSION || fields.bytes(3)? != USUAL_ENCODINGS {
            return None;
        }
        let (_frames, count) = (fields.u32()?, fields.u32()?);
        let bytes = usize::try_from(count).ok()?.checked_mul(ENTRY_BYTES)?;
        Some(Self { header_svma, entries: fields.bytes(bytes)? })
    }

    /// Start and end of the function that has an address, if one has.
    fn around(&self, file: &ElfFile, svma: u64) -> Option<(u64, u64)> {
        let (mut first, mut end) = (0, self.entries.len() / ENTRY_BYTES);
        while first < end {
            let middle = first + (end - first) / 2;
            if self.entry(middle)?.0 <= svma {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        let (start, information) = self.entry(first.checked_sub(1)?)?;
        let bytes = file.mapped_at(information)?;
        // Encoded in an unusual way, which shows in that the start is not the same, it says no length.
        let end = match function(bytes, information).filter(|(stated, _)| *stated == start) {
            Some((_, length)) => start.saturating_add(length),
            None => self.entry(first).map_or(u64::MAX, |(next, _)| next),
        };
        Some((start, end))
    }

    /// Where a function starts, and where its unwind information is.
    fn entry(&self, index: usize) -> Option<(u64, u64)> {
        let mut fields = Reader::new(self.entries.get(index.checked_mul(ENTRY_BYTES)?..)?);
        let from_header = |number: u32| relative(self.header_svma, number);
        Some((from_header(fields.u32()?), from_header(fields.u32()?)))
    }
}

/// Start and length of a function, by the bytes of its unwind information and where they are.
fn function(information: &[u8], svma: u64) -> Option<(u64, u64)> {
    let mut fields = Reader::new(information);
    let (_bytes, _common) = (fields.u32()?, fields.u32()?);
    let start = relative(svma.wrapping_add(8), fields.u32()?);
    let length = fields.u32()?;
    (length > 0).then(|| (start, u64::from(length)))
}

/// Every function that the unwind information has, for a file without a table.
fn sorted(file: &ElfFile) -> Option<Vec<(u64, u64)>> {
    let section = file.section(b".eh_frame")?;
    let code: Vec<_> = file.loads().iter().filter(|load| load.is_executable).collect();
    let mut functions = Vec::new();
    let (mut rest, mut svma) = (section.bytes(), section.svma);
    while let Some(bytes) = Reader::new(rest).u32() {
        // What is common to many functions has a zero where a function says what is common.
        let is_function = rest.get(4..8).is_some_and(|common| common != [0; 4]);
        if let Some((start, length)) = function(rest, svma).filter(|_| is_function)
            && functions.len() < MOST_FUNCTIONS
            && code.iter().any(|load| load.svma.contains(&start))
        {
            functions.push((start, length));
        }
        // The length does not count itself; zero is a gap that a linker left.
        let whole = usize::try_from(bytes).ok()?.checked_add(4)?;
        let Some(after) = rest.get(whole..) else { break };
        rest = after;
        svma = svma.wrapping_add(u64::from(bytes) + 4);
    }
    functions.sort_unstable();
    functions.dedup_by_key(|(start, _)| *start);
    functions.shrink_to_fit();
    (!functions.is_empty()).then_some(functions)
}

/// An address by its distance, which has a sign, from another one.
fn relative(svma: u64, distance: u32) -> u64 {
    svma.wrapping_add_signed(i64::from(distance.cast_signed()))
}
