//! Source lines as tables.

use super::{Other, Report, Text};
use crate::{
    host_text::HostText,
    units::Percent,
    view::{quantity::percent, table::Table},
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = vec![facts(report)];
    if !report.lines.is_empty() {
        tables.push(lines(report));
    }
    if !report.others.is_empty() {
        tables.push(others(&report.others));
    }
    tables
}

fn facts(report: &Report) -> Table {
    let mut facts = Vec::new();
    let mut fact = |name: &'static str, value: Option<String>| {
        facts.extend(value.map(|value| (name, value)));
    };
    if let Some(function) = &report.function {
        let module = function.module.as_ref().map_or_else(String::new, |name| format!(" ({name})"));
        fact("function", Some(format!("{}{module}", function.name)));
    }
    fact("file", report.file.as_ref().map(ToString::to_string));
    let is_elsewhere = report.path != report.file;
    fact("read at", report.path.as_ref().filter(|_| is_elsewhere).map(ToString::to_string));
    if report.is_of_agent {
        fact("of", Some("the agent's own root, as the process has ended".to_owned()));
    }
    fact("text", (report.text != Text::Shown).then(|| report.text.to_string()));
    let span = report.first_line.zip(report.last_line);
    let of_all = report.file_lines.map_or_else(String::new, |all| format!(" of {all}"));
    fact("lines", span.map(|(first, last)| format!("{first} to {last}{of_all}")));
    fact("weight", report.weight_pct.map(|share| format!("{} of all samples", percent(share))));
    if report.is_newer == Some(true) {
        fact("changed", Some("after the program was built: lines may not fit".to_owned()));
    }
    Table::facts("source", facts)
}

fn share(value: Option<Percent>) -> String {
    match value {
        Some(share) if share.get() > 0.0 => percent(share),
        Some(_) | None => String::new(),
    }
}

fn lines(report: &Report) -> Table {
    let mut table = Table::with_columns("", &["line", "samples", "<code", "<text"]);
    table.rows = report
        .lines
        .iter()
        .map(|line| {
            vec![
                line.line.to_string(),
                share(line.weight_pct),
                if line.has_code { "*" } else { "" }.to_owned(),
                line.text.as_ref().map_or("?", HostText::as_str).to_owned(),
            ]
        })
        .collect();
    table.dispensable = vec!["code"];
    table
}

fn others(others: &[Other]) -> Table {
    let mut table = Table::with_columns("others", &["samples", "<function", "<module", "<file"]);
    let shown = |text: &Option<HostText>| text.as_ref().map_or("?", HostText::as_str).to_owned();
    table.rows = others
        .iter()
        .map(|other| {
            let Other { function, module, file, weight_pct } = other;
            vec![share(*weight_pct), function.to_string(), shown(module), shown(file)]
        })
        .collect();
    table
}
