//! Where a user's files are, and whose machine this is.

#[cfg(unix)]
#[path = "places/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "places/windows.rs"]
mod system;

pub(super) use system::{HOME, configuration, log};
pub use system::{is_root, servers};

use super::Environment;
use std::path::{Path, PathBuf};

/// The folder that a variable names. One that is not whole is not taken: it would be another in each
/// folder that sysmcp is started in.
fn named(environment: &Environment, variable: &str) -> Option<PathBuf> {
    environment.get(variable).map(PathBuf::from).filter(|path| path.is_absolute())
}

/// The user's own folder.
pub(super) fn home(environment: &Environment) -> Option<PathBuf> {
    named(environment, HOME)
}

/// sysmcp's folder below another.
fn own(folder: &Path) -> PathBuf {
    folder.join("sysmcp")
}
