//! What the agent asks of the operating system beside reading files: processes of its own, clocks,
//! limits, and giving up what it does not need.

pub mod child;
pub mod clock;
pub mod harden;
pub mod open_files;
pub mod stdout;
pub mod supervisor;
pub mod sysconf;
