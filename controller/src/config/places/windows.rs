//! The folders of a user's profile, by the variables that Windows sets for every program.

use super::{Environment, named, own};
use std::path::PathBuf;

/// The variable with the home folder.
pub const HOME: &str = "USERPROFILE";

/// There is no root: an administrator's files are their own.
pub const fn is_root() -> bool {
    false
}

/// sysmcp's folder for its configuration.
pub fn configuration(environment: &Environment) -> Option<PathBuf> {
    named(environment, "APPDATA").map(|base| own(&base))
}

/// The folder of the audit log, which is the user's own.
pub fn log(environment: &Environment, _is_root: bool) -> Option<PathBuf> {
    named(environment, "LOCALAPPDATA").map(|base| own(&base))
}

/// No server listens here.
pub const fn servers(_environment: &Environment, _is_root: bool) -> Vec<PathBuf> {
    Vec::new()
}
