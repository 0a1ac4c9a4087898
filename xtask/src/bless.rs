//! Writes goldens and generated documentation anew. The only thing that does.

use crate::shell::{self, cargo};
use anyhow::Result;

/// Writes them.
pub fn run() -> Result<()> {
    shell::run(cargo().args(["build", "--workspace", "--quiet"]))?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--exclude", "scenarios", "--quiet", "--no-fail-fast"]);
    shell::run(tests.env("SYSMCP_BLESS", "1"))?;
    println!("written; read the difference with `git diff` before you commit it");
    Ok(())
}
