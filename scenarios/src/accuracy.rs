//! Whether `perf_record` finds what `perf record --call-graph dwarf` finds: both look at the same
//! program for the same seconds.
//!
//! `scenarios/tests/accuracy.rs` compares them; `docs/accuracy.md` is written by a run over all programs.

pub mod comparison;
pub mod ours;
pub mod page;
pub mod perf;
pub mod programs;
pub mod table;
pub mod workload;

use crate::client::Client;
use anyhow::{Context as _, Result};
use comparison::{Comparison, compare};
use programs::Program;
use std::{fs, time::Duration};
use table::Table;

/// How long both look, and how often in a second: often enough for shares of a percent, and no multiple
/// of what else happens each hundredth of a second.
pub const WINDOW: Duration = Duration::from_secs(5);

/// Samples in a second.
pub const HERTZ: u32 = 499;

/// One program, and what both found.
#[derive(Debug)]
pub struct Both {
    /// What ours found.
    pub ours: Table,
    /// What perf found. Where the file was deleted, with names from a copy that perf was given.
    pub theirs: Table,
    /// What perf has no name for without such a copy, in percent of its samples.
    pub theirs_unnamed_pct: f64,
    /// What came of comparing them.
    pub comparison: Comparison,
}

/// Starts a program, lets both look at it, and compares.
///
/// # Errors
///
/// When the program or one of both fails. That they differ is no error, but a part of the result.
pub fn look(program: &Program, sysmcp: &mut Client) -> Result<Both> {
    let folder = tempfile::tempdir()?;
    let running = (program.start)(folder.path())
        .with_context(|| format!("could not start the program: {}", program.name))?;
    let perf = perf::Recording::start(folder.path(), running.pid, WINDOW, HERTZ)?;
    let ours = ours::record(sysmcp, running.pid, WINDOW, HERTZ);
    // perf first: what is wrong with it must not be hidden by an error of ours, nor left running.
    let done = perf.wait()?;
    let ours = ours?;
    let mut theirs = done.table()?;
    let theirs_unnamed_pct = theirs.unnamed_pct;
    if let Some((copy, place)) = &running.deleted {
        fs::copy(copy, place)?;
        theirs = done.table()?;
    }
    let comparison = compare(&ours, &theirs, program.measure, program.known);
    Ok(Both { ours, theirs, theirs_unnamed_pct, comparison })
}
