//! From what was executed in a process to names that a person knows: walking stacks, folding them,
//! and naming what is in them.
//!
//! Naming is pure: bytes of files come in, names go out. Files are opened when they are first met, in
//! the mount namespace of the process.

pub mod elf;
pub mod fold;
pub mod images;
pub mod maps;
pub mod record;
pub mod recording;
pub mod unwind;
