//! The rows of hosts in `docs/targets.md`: what they say, and writing them anew.
//!
//! The page claims nothing that no run has shown: a row is written by a run that attempted its host.
//! Where that cannot be done, an older row stays, for the run that wrote it did; and without one the
//! row says what would be needed.

use super::{Host, Outcome};
use anyhow::{Context as _, Result};
use std::{collections::BTreeMap, fs, path::PathBuf};

/// What stands around the rows.
const MARKS: [&str; 2] = ["<!-- Written by `cargo xtask hosts`. -->\n", "<!-- To here. -->\n"];

/// Rows, by the names of their hosts: what stands behind the name.
pub type Rows = BTreeMap<String, String>;

/// Where the page is.
pub fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/targets.md")
}

/// Reads the page, and takes it apart: what stands before the rows, they, and what stands behind.
///
/// # Errors
///
/// When it cannot be read, or has no place for rows.
fn parts() -> Result<[String; 3]> {
    let path = path();
    let text =
        fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
    let parts = text.split_once(MARKS[0]).and_then(|(before, rest)| {
        let (rows, behind) = rest.split_once(MARKS[1])?;
        Some([before, rows, behind].map(str::to_owned))
    });
    parts.with_context(|| format!("{} has no place for hosts", path.display()))
}

/// The rows that the page has.
///
/// # Errors
///
/// When it cannot be read, or has no place for rows.
pub fn rows() -> Result<Rows> {
    let [_, rows, _] = parts()?;
    Ok(rows.lines().filter_map(row).collect())
}

/// Reads a row; none where it is a heading or a rule.
fn row(line: &str) -> Option<(String, String)> {
    let (name, rest) = line.strip_prefix("| ")?.split_once(" | ")?;
    (name != "host").then(|| (name.to_owned(), rest.to_owned()))
}

/// What stands in a row behind the name of the host.
pub fn cells(outcome: &Outcome) -> String {
    let (what, said) = match outcome {
        Outcome::Answers(note) => ("answers".to_owned(), note),
        Outcome::Refuses { code, sentence } => (format!("exit code {code}"), sentence),
        Outcome::NotHere(lacks) | Outcome::NotRun(lacks) => ("not tried".to_owned(), lacks),
    };
    format!("{what} | {} |", said.replace('|', "\\|"))
}

/// Writes the rows anew, of all hosts there are: those that were attempted, and of the others what the
/// page has.
///
/// # Errors
///
/// When the page cannot be read or written.
pub fn write(groups: &[(&str, &[Host])], found: &BTreeMap<&str, Outcome>) -> Result<()> {
    let [before, _, behind] = parts()?;
    let old = rows()?;
    let (mut text, mut answers, mut refuse) = (String::new(), 0, 0);
    for (heading, hosts) in groups.iter().filter(|(_, hosts)| !hosts.is_empty()) {
        text.push_str(&format!(
            "\n### {heading}\n\n| host | outcome | what is said |\n|---|---|---|\n"
        ));
        for Host { name, .. } in *hosts {
            let cells = match (found.get(name), old.get(*name)) {
                (Some(Outcome::NotHere(_) | Outcome::NotRun(_)) | None, Some(old)) => old.clone(),
                (Some(outcome), _) => cells(outcome),
                (None, None) => cells(&Outcome::NotHere("only by a full run".to_owned())),
            };
            answers += usize::from(cells.starts_with("answers "));
            refuse += usize::from(cells.starts_with("exit code "));
            text.push_str(&format!("| {name} | {cells}\n"));
        }
    }
    let count = format!("\nThat makes {answers} that answer and {refuse} that say why not.\n");
    let rows = format!("{}{count}{text}\n{}", MARKS[0], MARKS[1]);
    fs::write(path(), format!("{before}{rows}{behind}")).context("could not write the page")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let outcome = Outcome::Refuses { code: 18, sentence: "it said `a | b`".to_owned() };
        let line = format!("| a shell | {}", cells(&outcome));
        assert_eq!(row(&line), Some(("a shell".to_owned(), cells(&outcome))));
        for none in ["", "| host | outcome | what is said |", "|---|---|---|", "### a"] {
            assert_eq!(row(none), None, "{none:?}");
        }
    }
}
