//! Checks that cannot run here say so where it is seen: `cargo xtask test` prints the list, and for
//! root it must be empty.

use std::{fs::OpenOptions, io::Write as _};

/// Says that a check did not run, and what it would need.
pub fn not_run(check: &str, needs: &str) {
    let line = format!("{check}: needs {needs}\n");
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
