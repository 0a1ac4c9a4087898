//! The base folders that freedesktop.org's specification names.

use super::{Environment, home, named, own};
use std::path::PathBuf;

/// The variable with the home folder.
pub const HOME: &str = "HOME";

/// Whether this is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// sysmcp's folder for its configuration.
pub fn configuration(environment: &Environment) -> Option<PathBuf> {
    base(environment, "XDG_CONFIG_HOME", ".config")
}

/// The folder of the audit log. Root's is the machine's; an ordinary user's is their own.
pub fn log(environment: &Environment, is_root: bool) -> Option<PathBuf> {
    if is_root {
        return Some(PathBuf::from("/var/log/sysmcp"));
    }
    base(environment, "XDG_STATE_HOME", ".local/state")
}

fn base(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let below = || home(environment).map(|home| home.join(below_home));
    named(environment, variable).or_else(below).map(|base| own(&base))
}
