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

/// The folders in which a server may listen, the best first. Another program of the same user may have
/// another environment (clients start servers with a part of theirs), so it looks at all of them.
pub fn servers(environment: &Environment, is_root: bool) -> Vec<PathBuf> {
    let uid = rustix::process::geteuid().as_raw();
    // Whoever makes these folders decides how long they stay: they are not made here.
    let mut runtime: Vec<PathBuf> = named(environment, "XDG_RUNTIME_DIR").into_iter().collect();
    runtime.push(PathBuf::from(format!("/run/user/{uid}")));
    if is_root {
        runtime.push(PathBuf::from("/run"));
    }
    runtime.dedup();
    runtime.retain(|base| base.is_dir());
    let mut folders: Vec<PathBuf> = runtime.iter().map(|base| own(base)).collect();
    let state = base(environment, "XDG_STATE_HOME", ".local/state");
    folders.extend(state.map(|folder| folder.join("servers")));
    folders
}

fn base(environment: &Environment, variable: &str, below_home: &str) -> Option<PathBuf> {
    let below = || home(environment).map(|home| home.join(below_home));
    named(environment, variable).or_else(below).map(|base| own(&base))
}
