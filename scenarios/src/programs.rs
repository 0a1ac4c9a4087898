//! Where the programs are that were built beside this one.

use anyhow::{Context as _, Result};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// The program under test.
pub fn sysmcp() -> PathBuf {
    built("sysmcp")
}

/// The agent, for a person on the machine itself.
pub fn agent() -> PathBuf {
    built("probe-agent")
}

/// The same, copied to a folder where a user who is not root can run it.
///
/// # Errors
///
/// When it cannot be copied there.
pub fn agent_for_all(folder: &Path) -> Result<PathBuf> {
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("could not open {} to all", folder.display()))?;
    let copy = folder.join("agent");
    fs::copy(agent(), &copy).context("could not copy the agent; `cargo xtask test` builds it")?;
    Ok(copy)
}

/// The program of the scenarios: this very one, or the one that was built beside the test.
pub fn scenarios() -> PathBuf {
    built("scenarios")
}

/// A program that was built beside the one that runs.
fn built(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    // A test runs from `deps`, below the folder with the programs.
    own.ancestors()
        .skip(1)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
        .unwrap_or_else(|| PathBuf::from(name))
}
