//! Files and folders for this user alone, and whether those that are there are.
//!
//! What is private is said by a mode on Unix, and by the list of a folder on Windows.

#[cfg(unix)]
#[path = "private/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "private/windows.rs"]
mod system;

pub use system::{make_folder, options, why_no_configuration, why_no_key, why_not_alone};
