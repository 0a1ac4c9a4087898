//! Waits as tables.

use super::{Block, OffCpu, Open, Report, RunQueue, Tcp, Waits};
use crate::{
    observed::Observed,
    parameter::spelled,
    units::Micros,
    view::{
        quantity::{bytes, micros, or_unknown, percent},
        table::Table,
    },
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = vec![about(report)];
    if let Observed::Known(queue) = &report.run_queue {
        tables.extend(run_queue(queue));
    }
    if let Observed::Known(block) = &report.block {
        tables.extend(self::block(block));
    }
    if let Observed::Known(off_cpu) = &report.off_cpu {
        tables.extend(self::off_cpu(off_cpu));
    }
    if let Observed::Known(tcp) = &report.tcp {
        tables.extend(self::tcp(tcp));
    }
    tables
}

fn about(report: &Report) -> Table {
    let mut facts = Vec::new();
    let of = match (report.pid, &report.name) {
        (Some(pid), Some(name)) => format!("{} {pid} {name}", spelled(&report.scope)),
        (Some(pid), None) => format!("{} {pid}", spelled(&report.scope)),
        (None, _) => spelled(&report.scope),
    };
    facts.push(("of", of));
    if report.has_ended {
        facts.push(("ended", "the process ended meanwhile".to_owned()));
    }
    for refusal in &report.refused {
        let remedy = refusal.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        facts.push(("refused", format!("{}: {}{remedy}", refusal.id.what(), refusal.why())));
    }
    Table::facts("", facts)
}

/// Headings of what [`cells`] makes.
const TIMES: [&str; 6] = ["COUNT", "TOTAL", "P50", "P90", "P99", "MAX"];

/// A title and rows of waits, followed by what each row is about.
fn table(title: &str, about: &[&'static str]) -> Table {
    let headings: Vec<&'static str> = TIMES.iter().chain(about).copied().collect();
    let mut table = Table::with_columns(title, &headings);
    table.dispensable = vec!["P90", "P50"];
    table
}

fn cells(waits: &Waits, about: impl IntoIterator<Item = String>) -> Vec<String> {
    let time = |value: &Observed<Micros>| or_unknown(value, |value| micros(*value));
    let [p50, p90, p99] = [0, 1, 2].map(|index| {
        or_unknown(&waits.percentiles, |of| {
            micros([of.p50_us, of.p90_us, of.p99_us].get(index).copied().unwrap_or_default())
        })
    });
    let count = or_unknown(&waits.count, u64::to_string);
    let mut cells = vec![count, time(&waits.total_us), p50, p90, p99, time(&waits.max_us)];
    cells.extend(about);
    cells
}

fn shown(open: &Observed<Open>) -> String {
    or_unknown(open, |open| format!("{} ({})", open.count, micros(open.total_us)))
}

fn run_queue(queue: &RunQueue) -> Vec<Table> {
    let title = format!("waits for a processor, by {}", spelled(&queue.measured_by));
    let mut waited = table(&title, &["OPEN", "PID", "<NAME"]);
    waited.rows.push(cells(&queue.all, [shown(&queue.open), "-".to_owned(), "all".to_owned()]));
    for row in &queue.processes {
        let about = [shown(&row.open), row.pid.to_string(), row.name.to_string()];
        waited.rows.push(cells(&row.waits, about));
    }
    let mut ran =
        Table::with_columns("who had the processors meanwhile", &["%CPU", "PID", "<NAME"]);
    for row in &queue.ran {
        ran.rows.push(vec![percent(row.cpu_pct), row.pid.to_string(), row.name.to_string()]);
    }
    vec![waited, ran].into_iter().filter(|table| !table.rows.is_empty()).collect()
}

fn block(block: &Block) -> Vec<Table> {
    let title = format!(
        "requests to block devices, by {}; some task waited for storage for {} % of the window",
        spelled(&block.measured_by),
        or_unknown(&block.pressure_some_pct, |share| percent(*share))
    );
    let mut devices = table(&title, &["OPEN", "BYTES", "ERRORS", "<PART", "<OPERATION", "<DEVICE"]);
    let dash = || "-".to_owned();
    let all = [shown(&block.open), dash(), dash(), "both".to_owned(), dash(), "all".to_owned()];
    devices.rows.push(cells(&block.all, all));
    for row in &block.devices {
        let about = |part: &str| {
            [
                dash(),
                bytes(row.bytes),
                or_unknown(&row.errors, u64::to_string),
                part.to_owned(),
                spelled(&row.operation),
                row.device.to_string(),
            ]
        };
        if row.queue.count.known().is_some() {
            devices.rows.push(cells(&row.queue, about("queue")));
        }
        devices.rows.push(cells(&row.device_time, about("device")));
    }
    let mut tables = vec![devices];
    if !block.submitters.is_empty() {
        let about = ["BYTES", "<OPERATION", "<DEVICE", "PID", "<KIND", "<NAME"];
        let mut table = table("who asked for them", &about);
        for row in &block.submitters {
            let about = [
                bytes(row.bytes),
                spelled(&row.operation),
                row.device.to_string(),
                row.pid.to_string(),
                spelled(&row.kind),
                row.name.to_string(),
            ];
            table.rows.push(cells(&row.waits, about));
        }
        tables.push(table);
    }
    tables
}

fn off_cpu(off_cpu: &OffCpu) -> Vec<Table> {
    let by = spelled(&off_cpu.measured_by);
    let title = format!("waits off the processor, by {by}; asleep may be by choice");
    let mut table = table(&title, &["OPEN", "ASLEEP", "PID", "<NAME"]);
    let asleep = |waits: &Waits| or_unknown(&waits.total_us, |total| micros(*total));
    let all = [shown(&off_cpu.open), asleep(&off_cpu.asleep), "-".to_owned(), "all".to_owned()];
    table.rows.push(cells(&off_cpu.uninterruptible, all));
    for row in &off_cpu.processes {
        let about =
            [shown(&row.open), asleep(&row.asleep), row.pid.to_string(), row.name.to_string()];
        table.rows.push(cells(&row.uninterruptible, about));
    }
    vec![table]
}

fn tcp(tcp: &Tcp) -> Vec<Table> {
    let title = format!(
        "connections of TCP, by {}; {} did not come about, {} segments were sent again",
        spelled(&tcp.measured_by),
        or_unknown(&tcp.not_connected, u64::to_string),
        or_unknown(&tcp.resent_total, u64::to_string)
    );
    let mut connects = table(&title, &["<OUTCOME", "<PEER", "PID", "<NAME"]);
    let dash = || "-".to_owned();
    connects
        .rows
        .push(cells(&tcp.connected, ["connected".to_owned(), "all".to_owned(), dash(), dash()]));
    for row in &tcp.connects {
        let about = [
            spelled(&row.outcome),
            row.peer.to_string(),
            row.pid.map_or_else(dash, |pid| pid.to_string()),
            row.name.as_ref().map_or_else(dash, ToString::to_string),
        ];
        connects.rows.push(cells(&row.waits, about));
    }
    let mut tables = vec![connects];
    if !tcp.resent.is_empty() {
        let mut table =
            Table::with_columns("sent again", &["COUNT", "PORT", "<PEER", "<HANDSHAKE"]);
        for row in &tcp.resent {
            let handshake = if row.is_handshake { "yes" } else { "no" };
            table.rows.push(vec![
                row.count.to_string(),
                row.local_port.to_string(),
                row.peer.to_string(),
                handshake.to_owned(),
            ]);
        }
        tables.push(table);
    }
    tables
}
