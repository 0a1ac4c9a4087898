//! Answers about a recording as tables.

use super::{ChainRow, Chains, Difference, Mode, Report};
use crate::{
    host_text::HostText,
    recording::{facts, function_table},
    view::{quantity::percent, table::Table},
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = vec![facts("", &report.recording)];
    match report.mode {
        Mode::Functions => tables.push(function_table(&report.functions)),
        Mode::Threads => {
            let mut table = Table::with_columns("", &["%", "PID", "TID", "<THREAD"]);
            table.rows.extend(report.threads.iter().map(|row| {
                let (pid, tid) = (row.pid.to_string(), row.tid.to_string());
                vec![percent(row.pct), pid, tid, row.name.to_string()]
            }));
            tables.push(table);
        }
        Mode::Modules => {
            let mut table = Table::with_columns("", &["%SELF", "%TOTAL", "<MODULE"]);
            table.rows.extend(report.modules.iter().map(|row| {
                let name = row.name.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
                vec![percent(row.self_pct), percent(row.total_pct), name]
            }));
            tables.push(table);
        }
        Mode::Callers | Mode::Callees => {
            tables.extend(report.chains.iter().map(|found| chains(found, report.mode)));
        }
        Mode::Lines => {
            let mut table = Table::with_columns("", &["%", "<FUNCTION", "<LINE"]);
            table.rows.extend(report.lines.iter().map(|row| {
                let line = format!("{}:{}", row.file, row.line);
                vec![percent(row.pct), row.function.to_string(), line]
            }));
            tables.push(table);
        }
        Mode::Diff => tables.extend(report.difference.iter().map(difference)),
    }
    tables
}

fn chains(chains: &Chains, mode: Mode) -> Table {
    let names: Vec<&str> = chains.functions.iter().map(HostText::as_str).collect();
    let (names, total) = (names.join(", "), percent(chains.total_pct));
    let (title, arrow) = if mode == Mode::Callers {
        (format!("{names}, {total} % of samples, is called by"), " ← ")
    } else {
        (format!("{names}, {total} % of samples, calls"), " → ")
    };
    let mut table = Table::with_columns(title, &["%FUNCTION", "%ALL", "<CALLS"]);
    for ChainRow { of_function_pct, pct, calls, goes_on } in &chains.rows {
        let mut calls: Vec<&str> = calls.iter().map(HostText::as_str).collect();
        if *goes_on {
            calls.push("…");
        }
        let calls = if calls.is_empty() { "(nobody)".to_owned() } else { calls.join(arrow) };
        table.rows.push(vec![percent(*of_function_pct), percent(*pct), calls]);
    }
    table
}

fn difference(difference: &Difference) -> Table {
    let title = format!(
        "compared with {} samples over {} ms; a share near 50 % must change by {} points to be told \
         from chance",
        difference.baseline_samples,
        difference.baseline_window_ms,
        percent(difference.least_significant_pct)
    );
    let headings = ["%BEFORE", "%AFTER", "%SELF BEFORE", "%SELF AFTER", "<CHANGED", "<FUNCTION"];
    let mut table = Table::with_columns(title, &headings);
    table.dispensable = vec!["%SELF BEFORE", "%SELF AFTER"];
    for row in &difference.rows {
        table.rows.push(vec![
            percent(row.before_total_pct),
            percent(row.after_total_pct),
            percent(row.before_self_pct),
            percent(row.after_self_pct),
            if row.is_significant { "yes" } else { "by chance" }.to_owned(),
            row.function.to_string(),
        ]);
    }
    table
}
