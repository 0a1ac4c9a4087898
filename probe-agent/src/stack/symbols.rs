//! Which function an address of an executable or a library belongs to.
//!
//! From the tables of symbols, as `perf` and `nm(1)` read them: `.symtab` of the file itself and of
//! the one that was split off for debuggers, and `.dynsym`. Stubs of the linkage table are named for
//! what they lead to. Code that has no symbol is named by where its function starts, which the
//! unwinder's table says: two samples in one function have one name, on every run of this build.

mod choice;
mod function_starts;
mod linkage_table;
mod searched;
mod table;

pub(super) use choice::Candidate;
pub use searched::{Found, Search};

use super::{How, Named, demangle, elf::ElfFile};
use function_starts::FunctionStarts;
use table::{SymbolTable, Table};

/// How many symbols that begin before an address are looked at. Functions that lie within others are
/// the parts of hand-written assembly, a few deep.
const MOST_ENCLOSING: usize = 64;

/// The names in a file, and in the one for debuggers where there is one.
///
/// 24 bytes for each symbol; the texts stay in the files' bytes.
#[derive(Debug)]
pub struct Symbols<'d> {
    image: ElfFile<'d>,
    tables: Vec<SymbolTable<'d>>,
    symbols: Table,
    function_starts: Option<FunctionStarts<'d>>,
}

impl<'d> Symbols<'d> {
    /// Reads the tables of the file that is mapped, and of the one for debuggers of the same build.
    ///
    /// That they are of the same build is for [`super::debug_files`] to check.
    pub fn of(image: &ElfFile<'d>, debug: Option<&ElfFile<'d>>) -> Self {
        let in_debug = debug.and_then(|debug| SymbolTable::read(debug, b".symtab", How::DebugFile));
        let tables: Vec<SymbolTable<'d>> = [
            SymbolTable::read(image, b".symtab", How::SymbolTable),
            in_debug,
            SymbolTable::read(image, b".dynsym", How::SymbolTable),
        ]
        .into_iter()
        .flatten()
        .collect();
        Self {
            image: image.clone(),
            symbols: Table::of(&tables),
            tables,
            function_starts: FunctionStarts::of(image),
        }
    }

    /// How many functions have a name.
    pub fn count(&self) -> usize {
        self.symbols.entries().len()
    }

    /// Whether there were more symbols than are kept.
    pub fn is_cut(&self) -> bool {
        self.symbols.is_cut()
    }

    /// What an address belongs to. None where nothing says where its function starts, either.
    pub fn find(&self, svma: u64) -> Option<Named> {
        self.symbol(svma).or_else(|| self.stub(svma)).or_else(|| {
            let start = self.function_starts.as_ref()?.containing(&self.image, svma)?;
            let text = demangle::plain(format!("fn_{start:x}").as_bytes());
            Some(Named { text, start, how: How::FunctionStart })
        })
    }

    fn symbol(&self, svma: u64) -> Option<Named> {
        let entries = self.symbols.entries();
        let before = entries.partition_point(|entry| entry.start <= svma);
        let nearest = entries.get(..before)?;
        let around = nearest.iter().rev().take(MOST_ENCLOSING);
        let sized = around.clone().find(|entry| svma - entry.start < u64::from(entry.size));
        // Hand-written assembly may say no size: such a symbol reaches to the next one.
        let unsized_one = || {
            let is_reached = |start| self.image.is_one_stretch_of_code(start, svma);
            nearest.last().filter(|entry| entry.size == 0 && is_reached(entry.start))
        };
        let entry = sized.or_else(unsized_one)?;
        let table = self.tables.get(usize::from(entry.table))?;
        let text = demangle::shown(table.name(entry.name)?);
        Some(Named { text, start: entry.start, how: table.how })
    }

    /// The name of a stub, for what it jumps to.
    fn stub(&self, svma: u64) -> Option<Named> {
        let stub = linkage_table::stub_at(&self.image, svma)?;
        let target = match stub.target {
            linkage_table::Target::Name(name) => demangle::shown(name),
            linkage_table::Target::Resolver(svma) => self.symbol(svma)?.text,
        };
        let text = demangle::with_suffix(&target, "@plt");
        Some(Named { text, start: stub.start, how: How::SymbolTable })
    }
}
