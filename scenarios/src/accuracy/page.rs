//! `docs/accuracy.md`: what both found, side by side.

use super::{Both, HERTZ, WINDOW, perf, programs::Program};
use anyhow::Result;
use std::{fmt::Write as _, fs, path::PathBuf, process::Command};

/// A program, and what came of it: what both found, or why nobody looked.
pub type Looked = (&'static Program, Result<Both, String>);

/// Where the page is.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/accuracy.md")
}

/// Makes the page.
///
/// # Errors
///
/// When the machine does not say what it is.
pub fn page(looked: &[Looked], perf_version: &str) -> Result<String> {
    let mut text = heading(perf_version)?;
    text.push_str(&summary(looked));
    for (program, outcome) in looked {
        text.push_str(&section(program, outcome));
    }
    Ok(text)
}

fn heading(perf_version: &str) -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let version = release.trim().split('-').next().unwrap_or_default();
    let processors = std::thread::available_parallelism()?;
    let date = Command::new("date").args(["-u", "+%Y-%m-%d"]).output()?.stdout;
    Ok(format!(
        "# Beside perf\n\nWritten by `cargo xtask accuracy` on {}: {processors} processors, Linux {version}, {}, \
         {perf_version}. Everything is of one run.\n\n\
         `perf_record` and `perf record --call-graph dwarf,8192` looked at each program for the same {} \
         seconds, both by `{}` {HERTZ} times a second. `perf_record` was called over MCP, and its agent \
         was pushed and started as on any target. What perf recorded was read from `perf script`, while \
         the program still ran. The sources of the programs are in `fixtures/workloads`: the number in the \
         name of a function is its share of the work of all such functions, so that there is a truth \
         apart from both.\n\n\
         Compared are the functions that either of both has among its first ten. Two shares are the same \
         within the error of sampling where they differ by no more than 3·√(p·(1−p)·(1/n₁+1/n₂)) and 1 point, \
         with p the share in both together and n the samples of each: both count the same program, but \
         one begins a little before the other. Stacks are called whole where they are known to where \
         their thread began; of perf's that is counted here by the name of the outermost function, because perf does not \
         tell, so that none is where that has no name. Functions \
         without a name are one for each file, because each profiler has another word for them.\n",
        String::from_utf8_lossy(&date).trim(),
        std::env::consts::ARCH,
        WINDOW.as_secs(),
        perf::event(),
    ))
}

fn summary(looked: &[Looked]) -> String {
    let mut text = "\n## All programs\n\n| program | samples, ours / perf | functions | outside of the error \
                    | largest difference, points | order of those with 1 % or more, after Spearman | whole stacks, ours / perf, % \
                    | without a name, ours / perf, % |\n\
                    |---|---:|---:|---:|---:|---:|---:|---:|\n"
        .to_owned();
    for (program, outcome) in looked {
        let _ = match outcome {
            Err(why) => writeln!(text, "| {} | not run: {why} |||||||", program.name),
            Ok(both) => {
                let rows = &both.comparison.rows;
                let outside = rows.iter().filter(|row| !row.is_within());
                let explained = outside.clone().filter(|row| row.reason.is_some()).count();
                let outside = match (outside.count(), explained) {
                    (outside, 0) => outside.to_string(),
                    (outside, explained) => {
                        format!("{outside}, of which {explained} are explained")
                    }
                };
                let largest = rows.iter().map(|row| row.difference_pct().abs()).fold(0.0, f64::max);
                writeln!(
                    text,
                    "| {} | {} / {} | {} | {outside} | {largest:.1} | {:.2} | {:.1} / {:.1} | {:.1} / {:.1} |",
                    program.name,
                    both.ours.samples,
                    both.theirs.samples,
                    rows.len(),
                    both.comparison.rank_correlation,
                    both.ours.complete_pct,
                    both.theirs.complete_pct,
                    both.ours.unnamed_pct,
                    both.theirs_unnamed_pct,
                )
            }
        };
    }
    text
}

/// One program, function by function.
pub fn section(program: &Program, outcome: &Result<Both, String>) -> String {
    let mut text = format!("\n## {}\n\n{}.\n\n", program.name, program.how);
    let both = match outcome {
        Err(why) => {
            text.push_str(&format!("Not run: {why}.\n"));
            return text;
        }
        Ok(both) => both,
    };
    text.push_str(
        "| function | ours, % | perf, % | difference, points | within the error |\n|---|---:|---:|---:|---|\n",
    );
    for row in &both.comparison.rows {
        let verdict = match (row.is_within(), row.reason) {
            (true, _) => "yes".to_owned(),
            (false, Some(reason)) => format!("no: {reason}"),
            (false, None) => "**no**".to_owned(),
        };
        text.push_str(&format!(
            "| {} | {:.1} | {:.1} | {:+.1} of ±{:.1} | {verdict} |\n",
            cell(&row.name.to_string()),
            row.ours_pct,
            row.theirs_pct,
            row.difference_pct(),
            row.allowed_pct,
        ));
    }
    text
}

/// A name as code in a table.
fn cell(name: &str) -> String {
    // Where a project lies is nobody's business.
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = fs::canonicalize(&root).unwrap_or(root).display().to_string();
    let given = env!("CARGO_MANIFEST_DIR").trim_end_matches("scenarios");
    let name = name.replace(&format!("{given}scenarios/../"), "").replace(&format!("{root}/"), "");
    format!("`{}`", name.replace('|', "\\|").replace('`', "'"))
}
