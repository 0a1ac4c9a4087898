//! A recording as tables.

use super::{Holder, OffCpu, Report, WaitRow, Waker, WokenBy, counters};
use crate::{
    observed::Observed,
    recording::{StackRow, facts, function_table, stack_table},
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
    if report.off_cpu.is_some() {
        // It is about time without a processor.
        about.rows.remove(2);
    }
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
    if let Some(off_cpu) = &report.off_cpu {
        tables.extend(waits(off_cpu));
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

/// Sums, then where threads waited, then the same of those that wait by design.
fn waits(off_cpu: &OffCpu) -> Vec<Table> {
    let ms = |us: &Observed<u64>| or_unknown(us, |us| millis(*us));
    let count = |count: &Observed<u64>| or_unknown(count, u64::to_string);
    let mut facts = vec![
        (
            "blocked",
            format!("{} ms, of it {} ms by design", ms(&off_cpu.blocked_us), ms(&off_cpu.idle_us)),
        ),
        (
            "run queue",
            format!(
                "{} ms after being woken, {} ms preempted",
                ms(&off_cpu.run_queue_us),
                ms(&off_cpu.preempted_us)
            ),
        ),
        (
            "waits",
            format!(
                "{}; {} had begun before the window, {} went on after it",
                count(&off_cpu.waits),
                count(&off_cpu.began_before),
                count(&off_cpu.still_waiting)
            ),
        ),
    ];
    let missed = &off_cpu.missed;
    let parts = [
        (missed.without_stack_us / 1000, "ms without a stack"),
        (missed.ways, "different waits"),
        (missed.copies, "copies of stacks"),
        (missed.kernel_stacks, "stacks of the kernel"),
        (missed.wakers, "wakers"),
        (missed.threads, "threads"),
        (missed.open_stacks, "stacks at the end"),
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !parts.is_empty() {
        facts.push(("missed", parts.join(", ")));
    }
    let mut tables = vec![Table::facts("", facts)];
    for (title, rows) in [("Waits", &off_cpu.rows), ("Waits for work, by design", &off_cpu.idle)] {
        if !rows.is_empty() {
            tables.push(wait_table(title, rows));
        }
    }
    tables.extend(off_cpu.rows.iter().take(3).map(wait_stack));
    tables
}

fn wait_table(title: &str, rows: &[WaitRow]) -> Table {
    let columns = [
        "%",
        "BLOCKED ms",
        "QUEUE ms",
        "WAITS",
        "PID",
        "<PROCESS",
        "THREADS",
        "<THREAD",
        "<CALL",
        "<KIND",
        "<FOR",
        "<WOKEN BY",
        "<FUNCTION",
    ];
    let mut table = Table::with_columns(title, &columns);
    table.dispensable = vec!["FUNCTION", "PROCESS", "KIND", "QUEUE ms"];
    for row in rows {
        let dash = || "-".to_owned();
        let kind = if row.is_preempted { "processor" } else { row.kind.words() };
        let waker = row.wakers.first().map_or_else(dash, |waker| {
            let Waker { name, tid, by, .. } = waker;
            match by {
                WokenBy::Thread | WokenBy::NotKnown => format!("{name} ({tid})"),
                WokenBy::Timer | WokenBy::Interrupt => by.words().to_owned(),
            }
        });
        table.rows.push(vec![
            percent(row.pct),
            millis(row.blocked_us),
            or_unknown(&row.run_queue_us, |us| millis(*us)),
            row.waits.to_string(),
            row.pid.to_string(),
            row.process.to_string(),
            row.threads.to_string(),
            row.thread.to_string(),
            row.call.as_ref().map_or_else(dash, ToString::to_string),
            kind.to_owned(),
            subject(row),
            waker,
            row.calls.last().map_or_else(dash, ToString::to_string),
        ]);
    }
    table
}

fn subject(row: &WaitRow) -> String {
    let mut text = row.subject.as_ref().map_or_else(
        || "-".to_owned(),
        |subject| {
            let ends: Vec<String> = subject.other_end.iter().map(ToString::to_string).collect();
            let ends =
                if ends.is_empty() { String::new() } else { format!(" <> {}", ends.join(", ")) };
            format!("{}{ends}", subject.name)
        },
    );
    if let Some(Holder { tid, name, .. }) = &row.held_by {
        text.push_str(&format!(", held by {tid} {name}"));
    }
    text
}

fn wait_stack(row: &WaitRow) -> Table {
    let title = format!("{} % of waits have this stack", percent(row.pct));
    let stack =
        StackRow { pct: row.pct, calls_left_out: row.calls_left_out, calls: row.calls.clone() };
    let mut table = stack_table(&stack);
    table.title = title;
    table
}

fn millis(us: u64) -> String {
    format!("{}.{}", us / 1000, us % 1000 / 100)
}
