//! Where the programs are that were built beside this one.

use std::path::PathBuf;

/// The program under test.
pub fn sysmcp() -> PathBuf {
    built("sysmcp")
}

/// The agent, for a person on the machine itself.
pub fn agent() -> PathBuf {
    built("probe-agent")
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
