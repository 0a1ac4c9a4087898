//! The terminal that a person reads at.

#[cfg(unix)]
#[path = "screen/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "screen/windows.rs"]
mod system;

pub use system::{is_steerable, width};
