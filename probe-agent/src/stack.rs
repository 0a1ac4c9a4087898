//! From addresses in a process to names that a person knows.
//!
//! Pure: bytes of files come in, names go out. Whoever samples opens the files, in the mount
//! namespace of the process.

pub mod elf;
