//! Names of functions in real programs, beside what `nm`, `objdump` and `addr2line` say of the same
//! bytes.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![expect(clippy::print_stdout, reason = "how many were compared, for whoever asks to see it")]

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
#[path = "../../scenarios/src/not_run.rs"]
#[expect(dead_code, clippy::print_stderr, reason = "it is for the tests of another crate, too")]
mod not_run;
#[path = "names/without_symbols.rs"]
mod without_symbols;
