//! A recording as tables.

use super::Report;
use crate::{
    recording::{facts, function_table, stack_table},
    view::{
        quantity::{or_unknown, percent},
        table::Table,
    },
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut about = facts("", &report.recording);
    let known = |value| or_unknown(value, |value| percent(*value));
    about.rows.insert(
        2,
        vec![
            "time".to_owned(),
            format!(
                "{} % of one processor, {} % of samples in the kernel",
                known(&report.cpu_pct),
                known(&report.kernel_pct)
            ),
        ],
    );
    for refusal in &report.refused {
        let remedy = refusal.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        let line = format!("{}: {}{remedy}", refusal.id.what(), refusal.why());
        about.rows.push(vec!["refused".to_owned(), line]);
    }
    let mut tables = vec![about];
    if !report.processes.is_empty() {
        let mut table = Table::with_columns("", &["%", "PID", "<PROCESS"]);
        for row in &report.processes {
            table.rows.push(vec![percent(row.pct), row.pid.to_string(), row.name.to_string()]);
        }
        tables.push(table);
    }
    if !report.functions.is_empty() {
        tables.push(function_table(&report.functions));
    }
    tables.extend(report.stacks.iter().map(stack_table));
    tables
}
