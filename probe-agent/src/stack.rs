//! From what was executed in a process to names that a person knows: walking stacks, folding them,
//! and naming what is in them.
//!
//! Naming is pure: bytes of files come in, names go out. Files are opened when they are first met, in
//! the mount namespace of the process.

pub mod debug_files;
pub mod demangle;
pub mod elf;
pub mod fold;
pub mod images;
pub mod kernel_names;
pub mod lines;
pub mod looks;
pub mod maps;
pub mod module;
pub mod naming;
pub mod perf_map;
pub mod profile;
pub mod record;
pub mod recording;
pub mod stored;
pub mod symbols;
pub mod unwind;
pub mod vdso;
pub mod waits;

use protocol::host_text::HostText;

/// The function that an address belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name, as people write it.
    pub text: HostText,
    /// Where it starts, in the same addresses as were asked for.
    pub start: u64,
    /// How it is known.
    pub how: How,
}

/// How a function's name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A table of symbols in the file that is mapped.
    SymbolTable,
    /// A table of symbols in the file for debuggers that belongs to it.
    DebugFile,
    /// No table has it: it is named by where it starts.
    FunctionStart,
    /// A map that a compiler wrote while the program ran.
    PerfMap,
    /// The kernel's list of its own symbols.
    Kallsyms,
    /// The library that the kernel maps into every process.
    Vdso,
}
