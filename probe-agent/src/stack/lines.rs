//! Source lines, and the calls that the compiler put in place, for a few addresses.
//!
//! Format: DWARF 2 to 5, <https://dwarfstd.org>. The whole of a program's information is several times
//! its code, so that it is walked once for all addresses and nothing of it is kept: memory is what the
//! addresses need, and what packed sections take unpacked.
//!
//! Nothing here recurses: how deep entries lie in each other is for whoever made the file to choose.

mod names;
mod patience;
mod ranges;
mod rows;
mod scopes;
mod units;

use super::{
    demangle,
    elf::{ElfError, ElfFile},
};
use gimli::{DwarfSections, EndianSlice, LittleEndian, SectionId};
use patience::Patience;
use protocol::host_text::HostText;
use std::borrow::Cow;

type Bytes<'s> = EndianSlice<'s, LittleEndian>;
type Dwarf<'s> = gimli::Dwarf<Bytes<'s>>;
type Unit<'s> = gimli::Unit<Bytes<'s>>;

/// The most frames at one address: compilers stop at far fewer.
const MOST_FRAMES: usize = 64;

/// Why there are no lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoLines {
    /// The file has no such information: it was built without, or it was taken out.
    #[error("it has no information for debuggers")]
    None,
    /// A section cannot be read.
    #[error(transparent)]
    Section(#[from] ElfError),
}

/// The sections with the information, unpacked where they are packed.
#[derive(Debug)]
pub struct DebugSections<'d> {
    own: DwarfSections<Cow<'d, [u8]>>,
    shared: Option<DwarfSections<Cow<'d, [u8]>>>,
    unpacked_bytes: usize,
}

impl<'d> DebugSections<'d> {
    /// Finds them in a file, and in the one with what it has in common with others, which
    /// [`super::debug_files::shared_with`] finds. What is packed takes at most `most_bytes` in all.
    ///
    /// # Errors
    ///
    /// [`NoLines`], where there are none or they cannot be unpacked.
    pub fn of(
        file: &ElfFile<'d>,
        shared: Option<&ElfFile<'d>>,
        most_bytes: usize,
    ) -> Result<Self, NoLines> {
        let mut left = most_bytes;
        if file.section(b".debug_info").is_none() {
            return Err(NoLines::None);
        }
        let own = sections(file, &mut left)?;
        let shared = shared.map(|shared| sections(shared, &mut left)).transpose()?;
        Ok(Self { own, shared, unpacked_bytes: most_bytes - left })
    }

    /// How many bytes were unpacked, and are kept in memory.
    pub fn unpacked_bytes(&self) -> usize {
        self.unpacked_bytes
    }

    /// What stands in the sources at each of some addresses, in their order; and whether it was given
    /// up before all were looked for, because `go_on` said no. It is asked every millisecond or so.
    pub fn places(&self, svmas: &[u64], mut go_on: impl FnMut() -> bool) -> (Vec<Place>, bool) {
        let mut dwarf = self.own.borrow(|section| EndianSlice::new(section, LittleEndian));
        if let Some(shared) = &self.shared {
            dwarf.set_sup(shared.borrow(|section| EndianSlice::new(section, LittleEndian)));
        }
        let mut patience = Patience::new(&mut go_on);
        let places = units::places(&dwarf, svmas, &mut patience);
        (places, patience.is_over())
    }
}

/// The sections that are read, of one file.
fn sections<'d>(
    file: &ElfFile<'d>,
    left: &mut usize,
) -> Result<DwarfSections<Cow<'d, [u8]>>, ElfError> {
    DwarfSections::load(|id| {
        let is_read = matches!(
            id,
            SectionId::DebugAbbrev
                | SectionId::DebugAddr
                | SectionId::DebugInfo
                | SectionId::DebugLine
                | SectionId::DebugLineStr
                | SectionId::DebugRanges
                | SectionId::DebugRngLists
                | SectionId::DebugStr
                | SectionId::DebugStrOffsets
        );
        let section = file.section(id.name().as_bytes()).filter(|_| is_read);
        let Some(section) = section else { return Ok(Cow::default()) };
        let bytes = section.unpacked(*left)?;
        if let Cow::Owned(unpacked) = &bytes {
            *left = left.saturating_sub(unpacked.len());
        }
        Ok(bytes)
    })
}

/// What stands in the sources at an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// From the innermost to the function that was really called. Empty where nothing is known.
    pub frames: Vec<SourceFrame>,
    /// The file, `.dwo`, that has the functions of this address, which is not read: only its line is
    /// known, and not what was put in place of calls.
    pub split_into: Option<HostText>,
}

/// One of the functions that an address belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceFrame {
    /// Its name, as people write it.
    pub function: Option<HostText>,
    /// The path of the source, as the compiler was given it.
    pub file: Option<HostText>,
    /// Counted from 1. Of any frame but the innermost, that of the call.
    pub line: Option<u32>,
}

/// A name out of the information: mangled where the compiler gave it so.
fn shown(name: Bytes) -> HostText {
    demangle::shown(name.slice())
}
