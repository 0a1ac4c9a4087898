//! Symbols of functions, sorted by where they start.
//!
//! Format: the System V ABI, "Symbol Table"; `Elf64_Sym` in `include/uapi/linux/elf.h`.

use super::Candidate;
use crate::stack::{
    How,
    elf::{ElfFile, Reader, text_at},
};

/// The most symbols that are kept: 48 MiB of them, and more than any browser has.
const MOST_SYMBOLS: usize = 1 << 21;

/// The longest name that is read. C++ templates have some of thousands of bytes.
const MOST_NAME_BYTES: usize = 16 << 10;

const SYMBOL_BYTES: usize = 24;

/// One table in a file, with the texts that it refers to.
#[derive(Clone, Debug)]
pub struct SymbolTable<'d> {
    symbols: &'d [u8],
    names: &'d [u8],
    /// Of each section by its number, whether it holds code.
    holds_code: Vec<bool>,
    /// What a name from here is known by.
    pub how: How,
}

/// A function: where it starts, how long it is, and what it is called.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// An svma.
    pub start: u64,
    /// In bytes; 0 where the table does not say.
    pub size: u32,
    /// Where its name is in the texts of its table.
    pub name: u32,
    /// The number of its table.
    pub table: u8,
    is_weak: bool,
    is_global: bool,
}

/// Functions by address; each address once.
#[derive(Debug)]
pub struct Table {
    entries: Vec<Entry>,
    is_cut: bool,
}

impl<'d> SymbolTable<'d> {
    /// Finds a table by the name of its section.
    pub fn read(file: &ElfFile<'d>, section: &[u8], how: How) -> Option<Self> {
        let section = file.section(section)?;
        let names = file.section_numbered(section.link)?.bytes();
        Some(Self { symbols: section.bytes(), names, holds_code: file.holds_code(), how })
    }

    /// A function, if a symbol is one.
    ///
    /// A symbol without a type counts where it is in a section of code: hand-written assembly often
    /// has no others.
    fn function(&self, symbol: &[u8], table: u8) -> Option<Entry> {
        const NO_TYPE: u8 = 0;
        const FUNCTION: u8 = 2;
        const RESOLVER: u8 = 10;
        const GLOBAL: u8 = 1;
        const WEAK: u8 = 2;
        const HIDDEN_OR_INTERNAL: [u8; 2] = [1, 2];
        const FIRST_RESERVED_SECTION: u16 = 0xff00;
        const NUMBER_IS_ELSEWHERE: u16 = 0xffff;
        let mut fields = Reader::new(symbol);
        let (name, info, other) = (fields.u32()?, fields.u8()?, fields.u8()?);
        let (section, start, size) = (fields.u16()?, fields.u64()?, fields.u64()?);
        let is_defined = section != 0
            && (section < FIRST_RESERVED_SECTION || section == NUMBER_IS_ELSEWHERE)
            && start != 0
            && name != 0;
        let in_code = || self.holds_code.get(usize::from(section)).copied().unwrap_or(false);
        let is_function = match info & 0xf {
            FUNCTION | RESOLVER => true,
            NO_TYPE => {
                in_code()
                    && !HIDDEN_OR_INTERNAL.contains(&(other & 3))
                    && self.name(name).is_some_and(|name| !is_mark_of_the_assembler(name))
            }
            _ => false,
        };
        (is_defined && is_function).then(|| Entry {
            start,
            size: u32::try_from(size).unwrap_or(u32::MAX),
            name,
            table,
            is_weak: info >> 4 == WEAK,
            is_global: info >> 4 == GLOBAL,
        })
    }

    /// The name of a symbol by the number of the symbol, as relocations refer to it.
    pub fn name_of_symbol(&self, number: u32) -> Option<&'d [u8]> {
        let at = usize::try_from(number).ok()?.checked_mul(SYMBOL_BYTES)?;
        self.name(Reader::new(self.symbols.get(at..)?).u32()?)
    }

    /// The name that stands at an offset in the texts.
    pub fn name(&self, offset: u32) -> Option<&'d [u8]> {
        text_at(self.names, offset, MOST_NAME_BYTES).filter(|name| !name.is_empty())
    }
}

/// `$x` and `$d`, with which assemblers for ARM part code from data.
fn is_mark_of_the_assembler(name: &[u8]) -> bool {
    matches!(name, [b'$', b'x' | b'd'] | [b'$', b'x' | b'd', b'.', ..])
}

impl Table {
    /// Sorts the functions of all tables by address, and keeps the best name of each.
    pub fn of(tables: &[SymbolTable]) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        let mut is_cut = false;
        for (number, table) in (0_u8..).zip(tables) {
            for symbol in table.symbols.chunks_exact(SYMBOL_BYTES) {
                let Some(entry) = table.function(symbol, number) else { continue };
                if entries.len() == MOST_SYMBOLS {
                    is_cut = true;
                    break;
                }
                entries.push(entry);
            }
        }
        entries.sort_unstable_by_key(|entry| entry.start);
        entries.dedup_by(|later, kept| {
            let is_same = later.start == kept.start;
            if is_same && is_better(tables, later, kept) {
                *kept = *later;
            }
            is_same
        });
        entries.shrink_to_fit();
        Self { entries, is_cut }
    }

    /// The functions, by address.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether there were more than are kept.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }
}

fn is_better(tables: &[SymbolTable], one: &Entry, other: &Entry) -> bool {
    fn candidate<'d>(tables: &[SymbolTable<'d>], entry: &Entry) -> Option<Candidate<'d>> {
        Some(Candidate {
            name: tables.get(usize::from(entry.table))?.name(entry.name)?,
            is_sized: entry.size > 0,
            is_weak: entry.is_weak,
            is_global: entry.is_global,
        })
    }
    match (candidate(tables, one), candidate(tables, other)) {
        (Some(one), Some(other)) => one.is_better_than(&other),
        (Some(_), None) => true,
        (None, _) => false,
    }
}
