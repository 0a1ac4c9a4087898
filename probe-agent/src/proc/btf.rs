//! Numbers of types and functions in the kernel's BTF, by name.
//!
//! Source: `/sys/kernel/btf/vmlinux`, Linux 5.4 and later, with `CONFIG_DEBUG_INFO_BTF`.
//! Kernel reference: `Documentation/bpf/btf.rst`, `include/uapi/linux/btf.h`.

use super::{ReadError, Root, Source, read_at};
use rustix::io::Errno;

/// The most bytes that are read of it: a distribution's kernel has 4 to 10 MiB.
const MOST_BYTES: usize = 64 << 20;

/// Reads it.
///
/// # Errors
///
/// What the kernel answered; `ENOENT` where it was built without, and of a snapshot.
pub fn read(root: &Root) -> Result<Vec<u8>, ReadError> {
    let Source::Now(tree) = &root.source else { return Err(Errno::NOENT.into()) };
    let mut bytes = Vec::new();
    read_at(&tree.root, "sys/kernel/btf/vmlinux", MOST_BYTES, &mut bytes)?;
    Ok(bytes)
}

/// What a name may stand for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A name for another type. `btf_trace_NAME` is that of a tracepoint.
    Typedef,
    /// A function.
    Function,
}

impl Kind {
    /// `BTF_KIND_*`.
    const fn number(self) -> u32 {
        match self {
            Self::Typedef => 8,
            Self::Function => 12,
        }
    }
}

/// The number of each name that is looked for; `None` for those that are not there, and for all
/// where the bytes are not BTF.
pub fn find<const N: usize>(bytes: &[u8], wanted: [(Kind, &str); N]) -> [Option<u32>; N] {
    let mut found = [None; N];
    let Some(btf) = Btf::parse(bytes) else { return found };
    for (id, one) in btf.types() {
        for ((wanted_kind, wanted_name), place) in wanted.iter().zip(&mut found) {
            if one.kind == wanted_kind.number()
                && place.is_none()
                && is_named(btf.names, one.name_offset, wanted_name)
            {
                *place = Some(id);
            }
        }
    }
    found
}

/// Types, and the texts that name them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Btf<'b> {
    types: &'b [u8],
    names: &'b [u8],
}

/// One type: `struct btf_type`, and what follows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Type<'b> {
    pub(crate) name_offset: u32,
    /// `BTF_KIND_*`.
    pub(crate) kind: u32,
    /// The flag of the kind, and how many parts it has.
    pub(crate) info: u32,
    /// Its size or the type that it is made of, by kind.
    pub(crate) size_or_type: u32,
    /// Its parts.
    pub(crate) parts: &'b [u8],
}

impl<'b> Btf<'b> {
    /// The types in these bytes; `None` where they are not BTF.
    pub(crate) fn parse(bytes: &'b [u8]) -> Option<Self> {
        let (types, names) = sections(bytes)?;
        Some(Self { types, names })
    }

    /// All, with their numbers. Number 0 is `void` and has no entry.
    pub(crate) fn types(self) -> impl Iterator<Item = (u32, Type<'b>)> {
        let (mut rest, mut next) = (self.types, 1_u32);
        std::iter::from_fn(move || {
            let (one, after) = next_type(rest)?;
            let id = next;
            (rest, next) = (after, next.saturating_add(1));
            Some((id, one))
        })
    }

    /// A name, by its place.
    pub(crate) fn name(self, offset: u32) -> &'b [u8] {
        let start = usize::try_from(offset).ok().and_then(|offset| self.names.get(offset..));
        start.and_then(|rest| rest.split(|byte| *byte == 0).next()).unwrap_or_default()
    }
}

/// The sections with the types and with their names.
fn sections(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    const MAGIC: u16 = 0xeb9f;
    if u16::from_ne_bytes(*bytes.first_chunk()?) != MAGIC {
        return None;
    }
    let header = word(bytes, 4)?;
    let section = |offset: usize| {
        let start = usize::try_from(header.checked_add(word(bytes, offset)?)?).ok()?;
        let length = usize::try_from(word(bytes, offset + 4)?).ok()?;
        bytes.get(start..start.checked_add(length)?)
    };
    Some((section(8)?, section(16)?))
}

pub(crate) fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|word| u32::from_ne_bytes(*word))
}

/// The first type, and what follows it.
fn next_type(bytes: &[u8]) -> Option<(Type<'_>, &[u8])> {
    let (name_offset, info) = (word(bytes, 0)?, word(bytes, 4)?);
    let size_or_type = word(bytes, 8)?;
    let kind = info >> 24 & 0x1f;
    let count = usize::try_from(info & 0xffff).ok()?;
    let more = match kind {
        // Integer, variable, tag of a declaration.
        1 | 14 | 17 => 4,
        // Array.
        3 => 12,
        // Structure, union, section of data, enumeration of 64 bits.
        4 | 5 | 15 | 19 => 12 * count,
        // Enumeration, prototype of a function.
        6 | 13 => 8 * count,
        // Pointer, forward declaration, typedef, qualifiers, function, float, tag of a type.
        2 | 7..=12 | 16 | 18 => 0,
        // Of a kernel that is newer than this.
        _ => return None,
    };
    let (parts, after) = bytes.get(12..)?.split_at_checked(more)?;
    Some((Type { name_offset, kind, info, size_or_type, parts }, after))
}

fn is_named(names: &[u8], offset: u32, name: &str) -> bool {
    let start = usize::try_from(offset).ok().and_then(|offset| names.get(offset..));
    let rest = start.and_then(|rest| rest.strip_prefix(name.as_bytes()));
    rest.is_some_and(|rest| rest.first() == Some(&0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A structure with two members, a typedef of it, a function, and one with a longer name.
    fn small() -> Vec<u8> {
        let names = b"\0task\0btf_trace_x\0btf_trace_xy\0run\0";
        let words: &[u32] = &[
            1,
            4 << 24 | 2,
            8,
            0,
            0,
            0,
            0,
            0,
            0, // struct task
            18,
            8 << 24,
            1, // typedef btf_trace_xy
            6,
            8 << 24,
            1, // typedef btf_trace_x
            31,
            12 << 24,
            1, // function run
        ];
        let types = words.len() * 4;
        let mut bytes = 0xeb9f_u16.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types, types, names.len()] {
            bytes.extend(u32::try_from(word).unwrap().to_ne_bytes());
        }
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(names);
        bytes
    }

    const WANTED: [(Kind, &str); 3] =
        [(Kind::Typedef, "btf_trace_x"), (Kind::Function, "run"), (Kind::Function, "task")];

    #[test]
    fn a_name_is_found_whole_and_of_its_kind() {
        assert_eq!(find(&small(), WANTED), [Some(3), Some(4), None]);
        assert_eq!(find(b"no BTF", WANTED), [None; 3]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(at in 0_usize..120, byte: u8, cut in 0_usize..140) {
            let mut bytes = small();
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            bytes.truncate(cut);
            let _ = find(&bytes, WANTED);
        }
    }
}
