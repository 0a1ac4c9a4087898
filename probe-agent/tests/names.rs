//! Names of functions in real programs, beside what `nm`, `objdump` and `addr2line` say of the same
//! bytes.

#[path = "../../fixtures/binaries.rs"]
mod binaries;

#[path = "names/beside_addr2line.rs"]
mod beside_addr2line;
#[path = "names/beside_nm.rs"]
mod beside_nm;
#[path = "names/debug_files.rs"]
mod debug_files;
#[path = "names/hostile.rs"]
mod hostile;
#[path = "names/without_symbols.rs"]
mod without_symbols;
