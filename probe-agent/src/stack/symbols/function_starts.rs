//! Where functions start, of code that has no symbols.
//!
//! Format: the Linux Standard Base, "Exception Frames": `.eh_frame_hdr` has a sorted table of where
//! each function starts and where its unwind information is. It is needed when the program runs, so
//! that nobody strips it. Only the encodings that all linkers for Linux write are read.

use crate::stack::elf::{ElfFile, Reader};

/// A start and the place of its unwind information, each in four bytes.
const ENTRY_BYTES: usize = 8;

/// The table of a file.
#[derive(Debug)]
pub struct FunctionStarts<'d> {
    file: ElfFile<'d>,
    /// What the numbers in the table are counted from.
    header_svma: u64,
    entries: &'d [u8],
}

impl<'d> FunctionStarts<'d> {
    /// Finds the table as the loader does.
    pub fn of(file: &ElfFile<'d>) -> Option<Self> {
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
        Some(Self { file: file.clone(), header_svma, entries: fields.bytes(bytes)? })
    }

    /// The start of the function that has an address.
    pub fn containing(&self, svma: u64) -> Option<u64> {
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
        let end = match self.length(start, information) {
            Some(length) => start.saturating_add(length),
            None => self.entry(first).map_or(u64::MAX, |(next, _)| next),
        };
        let is_inside = svma < end && self.file.is_one_stretch_of_code(start, svma);
        is_inside.then_some(start)
    }

    /// Where a function starts, and where its unwind information is.
    fn entry(&self, index: usize) -> Option<(u64, u64)> {
        let mut fields = Reader::new(self.entries.get(index.checked_mul(ENTRY_BYTES)?..)?);
        let from_header = |number: u32| relative(self.header_svma, number);
        Some((from_header(fields.u32()?), from_header(fields.u32()?)))
    }

    /// How long a function is, by its unwind information. None where that says it in an unusual way,
    /// which shows in that the start is not the same.
    fn length(&self, start: u64, information: u64) -> Option<u64> {
        let mut fields = Reader::new(self.file.mapped_at(information)?);
        let (_length, _common) = (fields.u32()?, fields.u32()?);
        let stated = relative(information.wrapping_add(8), fields.u32()?);
        let length = fields.u32()?;
        (stated == start && length > 0).then(|| u64::from(length))
    }
}

/// An address by its distance, which has a sign, from another one.
fn relative(svma: u64, distance: u32) -> u64 {
    svma.wrapping_add_signed(i64::from(distance.cast_signed()))
}
