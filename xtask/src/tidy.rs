//! Checks on the project itself: what a reviewer would otherwise have to count.

mod agent;
mod documents;
mod sources;

use crate::shell;
use std::{fs, path::PathBuf, process::Command};

/// A file of the project.
struct File {
    /// Its path from the project's root.
    path: String,
    text: String,
}

impl File {
    fn has_extension(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, found)| found == extension)
    }
}

/// Every file of the project that holds text, whether committed yet or not.
fn files() -> Vec<File> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let list = shell::output(Command::new("git").args(list)).unwrap();
    let read = |path: &str| {
        let text = fs::read_to_string(shell::root().join(path)).ok()?;
        Some(File { path: path.to_owned(), text })
    };
    let files: Vec<File> = list.lines().filter_map(read).collect();
    assert!(files.len() > 100, "only {} files", files.len());
    files
}

/// Whether there is such a file or folder in the project.
fn exists(path: &str) -> bool {
    let path: PathBuf = shell::root().join(path.trim_end_matches('/'));
    path.exists()
}
