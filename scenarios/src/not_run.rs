//! Checks that cannot run here say so where it is seen: `cargo xtask test` prints the list. What root
//! could have installed, or what takes root, must not be on it when root runs the tests.

use std::{fs::OpenOptions, io::Write as _};

/// Says that a check did not run, and what it would need: root, or a program.
pub fn not_run(check: &str, needs: &str) {
    note(&format!("{check}: needs {needs}\n"));
}

/// Says that a check did not run, and what this machine lacks for it and no package brings: a feature
/// of the kernel, a device, or files that are not part of the project.
pub fn not_here(check: &str, lacks: &str) {
    note(&format!("{check}: not on this machine: {lacks}\n"));
}

fn note(line: &str) {
    eprint!("NOT RUN: {line}");
    let list = std::env::var_os("SYSMCP_TEST_NOT_RUN")
        .and_then(|path| OpenOptions::new().append(true).open(path).ok());
    if let Some(mut list) = list {
        let _ = list.write_all(line.as_bytes());
    }
}

/// Whether the slow matrices are wanted whole.
pub fn is_full() -> bool {
    std::env::var_os("SYSMCP_TEST_FULL").is_some()
}
