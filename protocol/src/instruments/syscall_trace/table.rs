//! A trace of system calls as tables.

use super::{CallRow, ErrorRow, Report, SubjectRow, Timing, Unfinished};
use crate::{
    host_text::HostText,
    loss::Truncation,
    observed::Observed,
    recording::Scope,
    units::Micros,
    view::{
        quantity::{micros, or_unknown, percent, rate},
        table::Table,
    },
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = vec![facts(report)];
    for (title, rows, cut) in [
        ("calls that work", &report.calls, &report.cut.calls),
        ("calls that wait", &report.waits, &report.cut.waits),
    ] {
        if !rows.is_empty() {
            tables.push(calls(titled(title, cut), rows));
        }
    }
    for (title, rows, cut) in [
        ("what they work on", &report.subjects, &report.cut.subjects),
        ("what they wait for", &report.waited_for, &report.cut.waited_for),
    ] {
        if let Some(rows) = rows.known().filter(|rows| !rows.is_empty()) {
            tables.push(subjects(titled(title, cut), rows));
        }
    }
    if !report.unfinished.is_empty() {
        tables.push(unfinished(report));
    }
    if !report.most_calls_by.is_empty() {
        let mut table = Table::with_columns("most calls", &["%", "PID", "<PROCESS"]);
        for row in &report.most_calls_by {
            table.rows.push(vec![percent(row.pct), row.pid.to_string(), row.name.to_string()]);
        }
        tables.push(table);
    }
    tables
}

fn titled(title: &str, cut: &Truncation) -> String {
    let left_out = cut.total.saturating_sub(cut.shown);
    if left_out == 0 { title.to_owned() } else { format!("{title}; {left_out} more are not shown") }
}

fn number(value: &Observed<u64>) -> String {
    or_unknown(value, u64::to_string)
}

fn time(value: &Observed<Micros>) -> String {
    or_unknown(value, |value| micros(*value))
}

fn facts(report: &Report) -> Table {
    let name = report.name.as_ref().map_or("?", HostText::as_str);
    let of = match (report.scope, report.pid) {
        (Scope::Process, Some(pid)) => format!("pid {pid} {name}"),
        (Scope::Cgroup, _) => format!("control group {name}"),
        (Scope::Process | Scope::Host | Scope::Given, _) => "the machine".to_owned(),
    };
    let mut table = Table::facts(
        "",
        [
            ("of", format!("{of}, {} processes", report.processes)),
            (
                "calls",
                format!(
                    "{} ended ({}/s), {} failed; {} had begun before the window; {} had not ended",
                    number(&report.ended),
                    or_unknown(&report.ended_per_s, |per_s| rate(*per_s)),
                    number(&report.failed),
                    number(&report.begun_before),
                    report.unfinished_total
                ),
            ),
            (
                "time",
                format!(
                    "{} in calls that work, {} in calls that wait",
                    time(&report.working_us),
                    time(&report.waiting_us)
                ),
            ),
            ("added to each call", time(&report.measured_us_per_call)),
        ],
    );
    for lost in &report.lost_on {
        let line = format!("{} calls on processor {}", lost.calls, lost.processor);
        table.rows.push(vec!["lost".to_owned(), line]);
    }
    for refusal in &report.refused {
        let remedy = refusal.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        let line = format!("{}: {}{remedy}", refusal.id.what(), refusal.why());
        table.rows.push(vec!["refused".to_owned(), line]);
    }
    table
}

fn calls(title: String, rows: &[CallRow]) -> Table {
    let headings =
        ["%", "TOTAL", "COUNT", "FAILED", "P50", "P90", "P99", "MAX", "<CALL", "<ERRORS"];
    let mut table = Table::with_columns(title, &headings);
    table.dispensable = vec!["P90", "P50", "MAX"];
    for row in rows {
        let bits = if row.is_32_bit { " (32 bit)" } else { "" };
        let percentile = |part: fn(&crate::histogram::Percentiles) -> Micros| {
            row.succeeded.as_ref().map_or_else(
                || "-".to_owned(),
                |timing: &Timing| or_unknown(&timing.percentiles, |all| micros(part(all))),
            )
        };
        table.rows.push(vec![
            or_unknown(&row.share_pct, |share| percent(*share)),
            time(&row.total_us),
            number(&row.count),
            number(&row.failed),
            percentile(|all| all.p50_us),
            percentile(|all| all.p90_us),
            percentile(|all| all.p99_us),
            row.succeeded.as_ref().map_or_else(|| "-".to_owned(), |timing| time(&timing.max_us)),
            format!("{}{bits}", row.call),
            errors(&row.errors),
        ]);
    }
    table
}

fn errors(rows: &[ErrorRow]) -> String {
    let words: Vec<String> =
        rows.iter().map(|row| format!("{} {}", number(&row.count), row.error)).collect();
    words.join(", ")
}

fn subjects(title: String, rows: &[SubjectRow]) -> Table {
    let headings = ["%", "TOTAL", "COUNT", "FAILED", "MAX", "PROCS", "<CALLS", "<SUBJECT"];
    let mut table = Table::with_columns(title, &headings);
    table.dispensable = vec!["MAX", "PROCS"];
    for row in rows {
        let calls: Vec<String> = row
            .calls
            .iter()
            .map(|call| format!("{} {}", number(&call.count), call.call))
            .chain(row.errors.iter().map(|row| format!("{} {}", number(&row.count), row.error)))
            .collect();
        table.rows.push(vec![
            or_unknown(&row.share_pct, |share| percent(*share)),
            time(&row.total_us),
            number(&row.count),
            number(&row.failed),
            time(&row.max_us),
            row.processes.to_string(),
            calls.join(", "),
            subject(&row.subject),
        ]);
    }
    table
}

fn subject(subject: &super::Subject) -> String {
    let mut words = subject.name.to_string();
    if subject.is_partial {
        words.insert(0, '…');
    }
    if !subject.other_end.is_empty() {
        let ends: Vec<String> = subject.other_end.iter().map(ToString::to_string).collect();
        words.push_str(&format!(" <-> {}", ends.join(", ")));
    }
    words
}

fn unfinished(report: &Report) -> Table {
    let rows = &report.unfinished;
    let more = u64::from(report.unfinished_total).saturating_sub(rows.len() as u64);
    let rest = if more > 0 { format!("; {more} more are not shown") } else { String::new() };
    let headings = ["SINCE MS", "PID", "TID", "<THREAD", "<CALL", "<SUBJECT"];
    let mut table = Table::with_columns(format!("had not ended{rest}"), &headings);
    for row in rows {
        table.rows.push(vec![
            since(row),
            row.pid.to_string(),
            row.tid.to_string(),
            or_unknown(&row.name, ToString::to_string),
            row.call.to_string(),
            row.subject.as_ref().map_or_else(String::new, subject),
        ]);
    }
    table
}

fn since(row: &Unfinished) -> String {
    if row.is_begun_before { "before".to_owned() } else { number(&row.since_ms) }
}
