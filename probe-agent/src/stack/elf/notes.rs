//! Which build a file is, and where the rest of its names are.
//!
//! Format: `NT_GNU_BUILD_ID` is described by `ld(1)`, `--build-id`; the links to other files by GDB's
//! manual, "Debugging Information in Separate Files", and by `dwz(1)`.

use super::{ElfFile, Reader};
use std::fmt;

/// The number that the linker gave a build, as it stands in a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct BuildId {
    bytes: [u8; Self::MOST_BYTES],
    length: u8,
}

impl BuildId {
    /// The longest one that is taken; SHA-1 has 20 bytes.
    const MOST_BYTES: usize = 32;

    /// Takes one of 2 to 32 bytes: one must be left after the first, which names a folder.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut id = Self { bytes: [0; Self::MOST_BYTES], length: u8::try_from(bytes.len()).ok()? };
        id.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        (bytes.len() >= 2).then_some(id)
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// As hexadecimal digits, as `file(1)` and `readelf(1)` show it.
impl fmt::Display for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bytes().iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for BuildId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "BuildId({self})")
    }
}

/// `.gnu_debuglink`: the file that was split off from this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DebugLink<'d> {
    /// Its name, without a folder.
    pub name: &'d [u8],
    /// CRC-32 of all of its bytes.
    pub crc: u32,
}

/// `.gnu_debugaltlink`: the file with what several files for debuggers have in common, made by dwz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlternateLink<'d> {
    /// Its path.
    pub path: &'d [u8],
    /// Which build it is.
    pub build_id: BuildId,
}

impl<'d> ElfFile<'d> {
    /// Which build it is. None for a file linked without, as musl's toolchains do by default.
    pub fn build_id(&self) -> Option<BuildId> {
        // In a file for debuggers the program headers are those of the program: their offsets lead
        // nowhere in it.
        let section = self.section(b".note.gnu.build-id").map(|section| (section.bytes(), 4));
        section
            .into_iter()
            .chain(self.notes.iter().copied())
            .find_map(|(bytes, align)| build_id_in(bytes, if align == 8 { 8 } else { 4 }))
    }

    /// The file that was split off from this one, by name.
    pub fn debug_link(&self) -> Option<DebugLink<'d>> {
        let mut fields = Reader::new(self.section(b".gnu_debuglink")?.bytes());
        let name = fields.text()?;
        fields.bytes((name.len() + 1).next_multiple_of(4) - (name.len() + 1))?;
        let is_plain = !name.is_empty() && name != b".." && name != b"." && !name.contains(&b'/');
        Some(DebugLink { name, crc: fields.u32()? }).filter(|_| is_plain)
    }

    /// The file with what this one has in common with others.
    pub fn alternate_link(&self) -> Option<AlternateLink<'d>> {
        let mut fields = Reader::new(self.section(b".gnu_debugaltlink")?.bytes());
        let path = fields.text()?;
        Some(AlternateLink { path, build_id: BuildId::new(fields.rest())? })
    }
}

/// Looks through notes: each has a name, a kind and bytes.
fn build_id_in(notes: &[u8], align: usize) -> Option<BuildId> {
    const BUILD_ID: u32 = 3;
    const HEADER_BYTES: usize = 12;
    let mut rest = notes;
    loop {
        let mut fields = Reader::new(rest);
        let name_bytes = usize::try_from(fields.u32()?).ok()?;
        let bytes = usize::try_from(fields.u32()?).ok()?;
        let kind = fields.u32()?;
        let start = HEADER_BYTES.checked_add(name_bytes)?.checked_next_multiple_of(align)?;
        let end = start.checked_add(bytes)?;
        let name = fields.bytes(name_bytes)?;
        if kind == BUILD_ID && name == b"GNU\0" {
            return BuildId::new(rest.get(start..end)?);
        }
        rest = rest.get(end.checked_next_multiple_of(align)?..)?;
    }
}
