//! An answer as a person reads it: tables, then how it was measured.

use super::{
    json::MetaView,
    table::{Align, Table},
};
use crate::loss::CutBy;
use comfy_table::{CellAlignment, ContentArrangement, presets};
use std::{collections::BTreeMap, fmt::Write as _};

/// How the text may look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether headings may be set off by terminal escapes: only on a terminal.
    pub color: bool,
    /// Columns of the terminal. Longer lines are cut, with a sign that they were.
    pub width: Option<u16>,
}

impl Style {
    /// For a file or a pipe.
    pub const PLAIN: Self = Self { color: false, width: None };

    fn heading(self, text: &str) -> String {
        if self.color { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn faint(self, text: &str) -> String {
        if self.color { format!("\x1b[2m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// The whole answer: tables, then the lines of [`about`].
pub fn answer(tables: &[Table], meta: &MetaView, style: Style) -> String {
    let mut text = String::new();
    for table in tables {
        text.push_str(&layout(table, style));
        text.push('\n');
    }
    for line in about(meta) {
        text.push_str(&style.faint(&line));
        text.push('\n');
    }
    text
}

/// Characters of the last column that a narrow terminal is to have room for.
const LAST_COLUMN: usize = 24;

/// One table, laid out.
pub fn layout(table: &Table, style: Style) -> String {
    let mut text = String::new();
    let width = style.width.map_or(usize::MAX, usize::from);
    let (table, without) = table.fitted(width, LAST_COLUMN);
    if !table.title.is_empty() {
        text.push_str(&style.heading(&table.title));
        text.push('\n');
    }
    let mut grid = comfy_table::Table::new();
    grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if let (true, Some(width)) = (table.columns.is_empty(), style.width) {
        // Facts are read, not compared: they go on in the next line, and none is cut off.
        grid.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    if !table.columns.is_empty() {
        grid.set_header(table.columns.iter().map(|column| column.heading));
    }
    grid.add_rows(&table.rows);
    let last = grid.column_count().saturating_sub(1);
    for (index, column) in grid.column_iter_mut().enumerate() {
        column.set_padding((0, if index == last { 0 } else { 2 }));
        if table.columns.get(index).is_some_and(|column| column.align == Align::Right) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for (index, line) in grid.lines().enumerate() {
        let line = cut(line.trim_end(), style.width);
        if index == 0 && !table.columns.is_empty() {
            text.push_str(&style.faint(&line));
        } else {
            text.push_str(&line);
        }
        text.push('\n');
    }
    if !without.is_empty() {
        let line = format!("no room here for {}", without.join(", "));
        text.push_str(&style.faint(&cut(&line, style.width)));
        text.push('\n');
    }
    text
}

/// How it was measured, what was cut and missed, what it cost: one line each.
pub fn about(meta: &MetaView) -> Vec<String> {
    let mut lines = Vec::new();
    let mut first = String::new();
    if let Some(window_ms) = meta.window_ms {
        let _ = write!(first, "measured over {window_ms} ms, ");
    }
    let _ = write!(
        first,
        "engine {}, {:.1} ms of processor time on {}",
        meta.engine, meta.overhead.agent_cpu_ms, meta.target
    );
    lines.push(first);
    if let Some(snapshot) = &meta.snapshot {
        lines.push(format!("from a snapshot: {snapshot}"));
    }
    let truncation = &meta.truncation;
    if truncation.cut_by != CutBy::Nothing {
        let mut line = format!("{} of {} shown", truncation.shown, truncation.total);
        if let Some(weight) = truncation.weight_cut_pct {
            let _ = write!(line, "; the others hold {weight:.1} % of it", weight = weight.get());
        }
        if let Some(rest) = &meta.rest {
            let _ = write!(line, "; the rest: {rest}");
        }
        lines.push(line);
    }
    let lost = &meta.lost;
    for (count, what) in [
        (lost.vanished, "that ended before being read"),
        (lost.refused, "that could not be read"),
        (lost.malformed, "kernel files that were not understood"),
    ] {
        if count > 0 {
            lines.push(format!("lost: {count} {what}"));
        }
    }
    if meta.redacted > 0 {
        lines.push(format!("secrets taken out of texts: {}", meta.redacted));
    }
    lines.extend(not_measured(&meta.not_measured));
    lines
}

/// One line for each reason, with all that is not measured for it.
fn not_measured(reasons: &BTreeMap<String, String>) -> Vec<String> {
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, reason) in reasons {
        by_reason.entry(reason).or_default().push(path);
    }
    by_reason
        .iter()
        .map(|(reason, paths)| format!("not measured: {}: {reason}", paths.join(", ")))
        .collect()
}

fn cut(line: &str, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from) else { return line.to_owned() };
    if line.chars().count() <= width {
        return line.to_owned();
    }
    let mut kept: String = line.chars().take(width.saturating_sub(1)).collect();
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_right_and_text_left() {
        let mut table = Table::with_columns("processes", &["PID", "<NAME"]);
        table.rows.push(vec!["7".to_owned(), "init".to_owned()]);
        table.rows.push(vec!["4711".to_owned(), "a".to_owned()]);
        assert_eq!(layout(&table, Style::PLAIN), "processes\n PID  NAME\n   7  init\n4711  a\n");
    }

    #[test]
    fn a_line_wider_than_the_terminal_is_cut_with_a_sign() {
        let mut table = Table::with_columns("", &["<NAME"]);
        table.rows.push(vec!["abcdefgh".to_owned()]);
        let style = Style { color: false, width: Some(5) };
        assert_eq!(layout(&table, style), "NAME\nabcd…\n");
    }

    #[test]
    fn a_narrow_terminal_does_without_what_matters_least_and_is_told() {
        let mut table = Table::with_columns("", &["PID", "RSS", "AGE", "<NAME"]);
        table.rows.push(["7", "50.0M", "21d0h", "worker"].map(str::to_owned).to_vec());
        table.dispensable = vec!["AGE", "RSS"];
        let shown = |width| layout(&table, Style { color: false, width: Some(width) });
        assert_eq!(shown(25), "PID    RSS    AGE  NAME\n  7  50.0M  21d0h  worker\n");
        assert_eq!(shown(24), "PID    RSS  NAME\n  7  50.0M  worker\nno room here for AGE\n");
        assert_eq!(shown(12), "PID  NAME\n  7  worker\nno room her…\n");
    }

    #[test]
    fn a_fact_goes_on_in_the_next_line() {
        let table = Table::facts("", [("memory", "resident 1.3M, own 92.0K".to_owned())]);
        let style = Style { color: false, width: Some(24) };
        assert_eq!(layout(&table, style), "memory  resident 1.3M,\n        own 92.0K\n");
    }

    #[test]
    fn a_reason_is_given_once() {
        let reasons = [("a", "off"), ("b", "off"), ("c", "gone")]
            .map(|(path, reason)| (path.to_owned(), reason.to_owned()));
        assert_eq!(
            not_measured(&reasons.into()),
            ["not measured: c: gone", "not measured: a, b: off"]
        );
    }

    #[test]
    fn escapes_appear_only_where_colour_is_allowed() {
        let table = Table::facts("facts", [("name", "value".to_owned())]);
        assert!(!layout(&table, Style::PLAIN).contains('\x1b'));
        assert!(layout(&table, Style { color: true, width: None }).contains("\x1b[1mfacts"));
    }
}
