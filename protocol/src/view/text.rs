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

/// One table, laid out.
pub fn layout(table: &Table, style: Style) -> String {
    let mut text = String::new();
    if !table.title.is_empty() {
        text.push_str(&style.heading(&table.title));
        text.push('\n');
    }
    let mut grid = comfy_table::Table::new();
    grid.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
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
        (lost.malformed, "kernel files that were not understood"),
        (lost.items, "streamed items that were dropped"),
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
