//! The ranking as tables.

use super::{Column, FileKinds, GroupRow, ProcessRow, Report};
use crate::{
    host_text::HostText,
    observed::{Nature, Observed, Reason},
    view::{
        quantity::{age, byte_rate, bytes, or_unknown, percent, rate},
        table::Table,
    },
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let list = if report.groups.is_empty() {
        processes(&report.processes, report.sorted_by)
    } else {
        groups(&report.groups)
    };
    vec![host(report), list]
}

fn host(report: &Report) -> Table {
    let (host, census) = (&report.host, &report.census);
    let unattributed = or_unknown(&census.unattributed_cpu_ms, u64::to_string);
    let mut facts = vec![
        (
            "host",
            format!(
                "{} processors, {} % busy, {} % stolen, {} forks/s",
                or_unknown(&host.cpus, u32::to_string),
                or_unknown(&host.cpu_busy_pct, |value| percent(*value)),
                or_unknown(&host.cpu_steal_pct, |value| percent(*value)),
                or_unknown(&host.forks_per_s, |value| rate(*value)),
            ),
        ),
        (
            "processes",
            format!(
                "{} with {} threads; {} born, {} ended",
                census.processes,
                census.threads,
                or_unknown(&census.born, u32::to_string),
                or_unknown(&census.died, u32::to_string)
            ),
        ),
        (
            "cpu time",
            format!(
                "{} ms in processes, {} ms in ended ones, {unattributed} ms elsewhere",
                or_unknown(&census.cpu_ms, u64::to_string),
                or_unknown(&census.ended_cpu_ms, u64::to_string)
            ),
        ),
    ];
    if !census.hidden_by.is_empty() {
        let all = or_unknown(&census.host_threads, u64::to_string);
        let what =
            format!("processes of others; {} of the host's {all} threads are seen", census.threads);
        facts.push(("hidden", what));
    }
    for refusal in &report.refused {
        let remedy = refusal.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        facts.push(("refused", format!("{}: {}{remedy}", refusal.id.what(), refusal.why())));
    }
    if let Some(unranked) = &report.unranked {
        let rows = unranked.rows;
        facts.push(("not ranked", format!("{rows} rows, which come last: their value is unknown")));
    }
    Table::facts("", facts)
}

/// The heading under which what the rows are sorted by stands.
const fn heading(column: Column) -> &'static str {
    match column {
        Column::Cpu => "%CPU",
        Column::User => "%USR",
        Column::System => "%SYS",
        Column::ChildrenCpu => "%CHILD",
        Column::RunDelay => "%DELAY",
        Column::Rss => "RSS",
        Column::Threads => "THR",
        Column::OpenFiles => "FILES",
        Column::MinorFaults => "MINFL/S",
        Column::MajorFaults => "MAJFL/S",
        Column::Read => "READ/S",
        Column::Write => "WRITE/S",
        Column::Switches => "CSW/S",
        Column::Youngest => "AGE",
    }
}

fn processes(rows: &[ProcessRow], sorted_by: Column) -> Table {
    let is_minor = sorted_by == Column::MinorFaults;
    let faults = heading(if is_minor { Column::MinorFaults } else { Column::MajorFaults });
    let mut headings =
        vec!["PID", "<USER", "<S", "%CPU", "%USR", "%SYS", "%DELAY", "%CHILD", "RSS", "THR"];
    if sorted_by == Column::OpenFiles {
        headings.extend([heading(Column::OpenFiles), "MOST", "<KINDS"]);
    }
    headings.extend([faults, "READ/S", "WRITE/S", "CSW/S", "AGE", "<WHERE", "<COMMAND"]);
    let mut table = Table::with_columns("", &headings);
    table.dispensable = [
        "%CHILD", "MAJFL/S", "THR", "AGE", "CSW/S", "%USR", "%SYS", "WHERE", "READ/S", "WRITE/S",
        "%DELAY", "RSS", "USER",
    ]
    .into_iter()
    .filter(|dispensable| *dispensable != heading(sorted_by))
    .collect();
    for row in rows {
        let switches =
            row.voluntary_switches_per_s.clone().zip(row.involuntary_switches_per_s.clone());
        let place = row.container.known().or_else(|| row.service.known());
        let mut cells = vec![
            row.pid.to_string(),
            or_unknown(&row.user, ToString::to_string),
            row.state.letter().to_string(),
            or_unknown(&row.cpu_pct, |value| percent(*value)),
            or_unknown(&row.user_pct, |value| percent(*value)),
            or_unknown(&row.system_pct, |value| percent(*value)),
            or_unknown(&row.run_delay_pct, |value| percent(*value)),
            or_unknown(&row.children_cpu_pct, |value| percent(*value)),
            bytes(row.rss_bytes),
            row.threads.to_string(),
        ];
        if let Some(files) = &row.open_files {
            cells.push(or_unknown(&files.open, u64::to_string));
            cells.push(or_unknown(&files.limit, u64::to_string));
            cells.push(or_unknown(&files.kinds, kinds));
        }
        cells.extend([
            or_unknown(
                if is_minor { &row.minor_faults_per_s } else { &row.major_faults_per_s },
                |it| rate(*it),
            ),
            or_unknown(&row.read_bytes_per_s, |value| byte_rate(*value)),
            or_unknown(&row.write_bytes_per_s, |value| byte_rate(*value)),
            or_unknown(&switches, |(left, right)| format!("{:.0}", left.get() + right.get())),
            or_unknown(&row.age_s, |it| age(*it)) + if row.born { "*" } else { "" },
            place
                .map_or_else(|| or_unknown(&row.service, ToString::to_string), ToString::to_string),
            command(row),
        ]);
        table.rows.push(cells);
    }
    table
}

/// The two kinds that most open files are of.
fn kinds(kinds: &FileKinds) -> String {
    let FileKinds { looked_at, files, sockets, pipes, devices, anonymous } = kinds;
    let mut all = [
        (files, "file"),
        (sockets, "sock"),
        (pipes, "pipe"),
        (devices, "dev"),
        (anonymous, "anon"),
    ];
    all.sort_by_key(|(count, _)| std::cmp::Reverse(**count));
    let named = all.iter().filter(|(count, _)| **count > 0).take(2);
    let named: Vec<String> = named.map(|(count, kind)| format!("{count} {kind}")).collect();
    if named.is_empty() { format!("{looked_at}") } else { named.join(" ") }
}

/// What a process was started with, or its name where that says nothing. Only a thread of the kernel
/// is in brackets: a process may have emptied its arguments.
fn command(row: &ProcessRow) -> String {
    match &row.command {
        Observed::Known(command) if !command.as_str().is_empty() => command.to_string(),
        Observed::Unknown(Reason::DoesNotApply(Nature::KernelThread)) => format!("[{}]", row.name),
        Observed::Known(_) | Observed::Unknown(_) => row.name.to_string(),
    }
}

fn group_name(name: &Observed<HostText>) -> String {
    match name {
        Observed::Known(name) => name.to_string(),
        Observed::Unknown(reason) if reason.is_absence() => "(none)".to_owned(),
        Observed::Unknown(_) => "(unknown)".to_owned(),
    }
}

fn groups(rows: &[GroupRow]) -> Table {
    let mut table = Table::with_columns(
        "",
        &[
            "<GROUP",
            "PROCS",
            "THR",
            "%CPU",
            "%USR",
            "%SYS",
            "%CHILD",
            "RANKED BY",
            "LARGEST RSS",
            "MAJFL/S",
            "TOP PID",
            "<TOP",
        ],
    );
    table.dispensable = vec!["MAJFL/S", "%CHILD", "THR", "LARGEST RSS", "%USR", "%SYS", "TOP PID"];
    for row in rows {
        table.rows.push(vec![
            group_name(&row.name),
            row.processes.to_string(),
            row.threads.to_string(),
            or_unknown(&row.cpu_pct, |value| percent(*value)),
            or_unknown(&row.user_pct, |value| percent(*value)),
            or_unknown(&row.system_pct, |value| percent(*value)),
            or_unknown(&row.children_cpu_pct, |value| percent(*value)),
            or_unknown(&row.ranked_by, |value| format!("{value:.1}")),
            bytes(row.rss_largest_bytes),
            or_unknown(&row.major_faults_per_s, |value| rate(*value)),
            row.top_pid.to_string(),
            row.top_name.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{
        super::{OpenFiles, example_report},
        *,
    };

    #[test]
    fn open_files_have_columns_where_they_rank_and_every_row_has_all_columns() {
        let mut report = example_report();
        let headings = |report: &Report| -> Vec<&'static str> {
            let list = tables(report).pop().unwrap();
            assert!(list.rows.iter().all(|row| row.len() == list.columns.len()));
            list.columns.iter().map(|column| column.heading).collect()
        };
        assert!(!headings(&report).contains(&"FILES"));
        report.sorted_by = Column::OpenFiles;
        let limit = Observed::Unknown(Reason::NoLimitSet);
        let kinds = Observed::Known(FileKinds {
            looked_at: 412,
            files: 9,
            sockets: 400,
            pipes: 0,
            devices: 3,
            anonymous: 0,
        });
        report.processes[0].open_files =
            Some(OpenFiles { open: Observed::Known(412), limit, kinds });
        assert!(headings(&report).contains(&"FILES"));
        let list = tables(&report).pop().unwrap();
        let row = list.rows[0].join(" ");
        assert!(row.contains(" 4 412 none 400 sock 9 file "), "{row}");
    }
}
