//! A recording as tables.

use super::{Report, counters};
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
    if report.counters.is_some() {
        // Nothing was sampled that could be good or bad.
        about.rows.truncate(1);
    }
    for refusal in &report.refused {
        let remedy = refusal.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        let line = format!("{}: {}{remedy}", refusal.id.what(), refusal.why());
        about.rows.push(vec!["refused".to_owned(), line]);
    }
    if let Some(looks) = &report.looks {
        let waits = if looks.sees_waits { "waits and their stacks" } else { "states only" };
        let turns = if looks.took_turns { ", threads took turns" } else { "" };
        let (stops, failed) = (looks.stops, looks.stops_failed);
        let stopped = format!(
            "{stops} stops of {} us together, {failed} not possible",
            looks.stopped_us_total
        );
        let line = format!("{} rounds: {waits}{turns}; {stopped}", looks.rounds);
        about.rows.push(vec!["looks".to_owned(), line]);
    }
    let mut tables = vec![about];
    if let Some(counters) = &report.counters {
        tables.extend(counters::tables(counters));
    }
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
