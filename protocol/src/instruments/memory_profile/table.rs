//! A process's memory as tables.

use super::{Cgroup, Composition, Mapping, Report, Sites, Totals, Trend};
use crate::{
    host_text::HostText,
    observed::Observed,
    units::Bytes,
    view::{
        quantity::{bytes, or_unknown, percent, signed_byte_rate},
        table::Table,
    },
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = vec![process(report), growth(report), amounts(report)];
    if let Observed::Known(mappings) = &report.mappings
        && !mappings.is_empty()
    {
        tables.push(self::mappings(mappings));
    }
    if let Observed::Known(sites) = &report.sites {
        tables.push(self::sites(sites));
    }
    tables
}

fn process(report: &Report) -> Table {
    let process = &report.process;
    Table::facts(
        format!("pid {} {}", process.pid, process.name),
        [
            ("command", or_unknown(&process.command, ToString::to_string)),
            (
                "who",
                format!(
                    "user {}, threads {}, tick {}",
                    or_unknown(&process.user, ToString::to_string),
                    process.threads,
                    process.start_ticks
                ),
            ),
        ],
    )
}

fn growth(report: &Report) -> Table {
    let growth = &report.growth;
    let title = format!(
        "growth by {} samples, exact to {}",
        growth.samples,
        bytes(growth.resolution_bytes)
    );
    let headings =
        ["<KIND", "FIRST", "LAST", "LEAST", "MOST", "PER S", "FROM", "TO", "PARTS UP", "FALLS"];
    let mut table = Table::with_columns(title, &headings);
    for (kind, trend) in [
        ("own", &growth.own),
        ("file", &growth.file),
        ("shared", &growth.shared),
        ("swap", &growth.swap),
    ] {
        table.rows.push(trend_row(kind, trend));
    }
    table.dispensable = vec!["LEAST", "MOST"];
    table
}

fn trend_row(kind: &str, trend: &Observed<Trend>) -> Vec<String> {
    let amount = |part: fn(&Trend) -> Bytes| or_unknown(trend, |trend| bytes(part(trend)));
    let rate = |part: fn(&super::Rate) -> i64| {
        or_unknown(trend, |trend| or_unknown(&trend.rate, |rate| signed_byte_rate(part(rate))))
    };
    vec![
        kind.to_owned(),
        amount(|trend| trend.first_bytes),
        amount(|trend| trend.last_bytes),
        amount(|trend| trend.least_bytes),
        amount(|trend| trend.most_bytes),
        rate(|rate| rate.bytes_per_s),
        rate(|rate| rate.low_bytes_per_s),
        rate(|rate| rate.high_bytes_per_s),
        or_unknown(trend, |trend| format!("{} of 10", trend.parts_grown)),
        or_unknown(trend, |trend| trend.falls.to_string()),
    ]
}

fn amount(value: &Observed<Bytes>) -> String {
    or_unknown(value, |value| bytes(*value))
}

fn amounts(report: &Report) -> Table {
    let Report { totals, composition, smaps, cgroup, host, refused, .. } = report;
    let mut table = Table::facts(
        "",
        [
            ("total", total_line(totals)),
            ("resident", composition_line(composition)),
            (
                "besides",
                format!(
                    "page tables {}, hugetlb {}, locked {}",
                    amount(&composition.page_tables_bytes),
                    amount(&composition.hugetlb_bytes),
                    amount(&composition.locked_bytes)
                ),
            ),
            (
                "sizes by mapping",
                format!(
                    "{} mappings, estimated {} ms, took {} ms",
                    or_unknown(&smaps.mappings, u64::to_string),
                    or_unknown(&smaps.estimated_ms, u32::to_string),
                    or_unknown(&smaps.took_ms, u32::to_string)
                ),
            ),
            ("cgroup", cgroup_line(cgroup)),
            (
                "host",
                format!(
                    "{} available of {}, swap free {}",
                    amount(&host.available_bytes),
                    amount(&host.memory_bytes),
                    amount(&host.swap_free_bytes)
                ),
            ),
        ],
    );
    for refusal in refused {
        let remedy = refusal.remedy().map_or_else(String::new, |remedy| format!("; {remedy}"));
        let line = format!("{}: {}{remedy}", refusal.id.what(), refusal.why());
        table.rows.push(vec!["refused".to_owned(), line]);
    }
    table
}

fn total_line(totals: &Totals) -> String {
    format!(
        "resident {}, its part {}, only its own {}, swapped {}; resident at most {}",
        amount(&totals.rss_bytes),
        amount(&totals.pss_bytes),
        amount(&totals.uss_bytes),
        amount(&totals.swap_bytes),
        amount(&totals.peak_bytes)
    )
}

fn composition_line(composition: &Composition) -> String {
    format!(
        "own {} (heap {}, stack {}), files {}, shared {}; in huge pages {}",
        amount(&composition.anonymous_bytes),
        amount(&composition.heap_bytes),
        amount(&composition.stack_bytes),
        amount(&composition.file_bytes),
        amount(&composition.shared_bytes),
        amount(&composition.huge_pages_bytes)
    )
}

fn cgroup_line(cgroup: &Cgroup) -> String {
    format!(
        "{}, working set {} ({}/s), limit {}, left {}; limit hit {} times, killed {}",
        amount(&cgroup.memory_bytes),
        amount(&cgroup.working_set_bytes),
        or_unknown(&cgroup.working_set_growth_bytes_per_s, |rate| signed_byte_rate(*rate)),
        amount(&cgroup.limit_bytes),
        amount(&cgroup.left_bytes),
        or_unknown(&cgroup.limit_hits, u64::to_string),
        or_unknown(&cgroup.oom_kills, u64::to_string)
    )
}

fn mappings(rows: &[Mapping]) -> Table {
    let headings = ["RSS", "PSS", "DIRTY", "SWAP", "SIZE", "COUNT", "<RIGHTS", "<MAPPING"];
    let mut table = Table::with_columns("largest mappings", &headings);
    table.dispensable = vec!["SIZE", "COUNT", "PSS"];
    for row in rows {
        table.rows.push(vec![
            bytes(row.rss_bytes),
            bytes(row.pss_bytes),
            bytes(row.private_dirty_bytes),
            bytes(row.swap_bytes),
            bytes(row.size_bytes),
            row.mappings.to_string(),
            row.rights.to_string(),
            row.name.to_string(),
        ]);
    }
    table
}

fn sites(sites: &Sites) -> Table {
    let mut title = format!(
        "who touched new memory, by {} page faults in {} ms, a sample of each {}, {} % of stacks \
         complete",
        sites.faults,
        sites.sampled_ms,
        sites.each,
        or_unknown(&sites.complete_pct, |share| percent(*share))
    );
    if sites.lost_samples > 0 {
        title.push_str(&format!("; {} samples were lost", sites.lost_samples));
    }
    let missing = (sites.functions_total as usize).saturating_sub(sites.functions.len());
    if missing > 0 {
        title.push_str(&format!("; {missing} more functions are not shown"));
    }
    let mut table = Table::with_columns(title, &["%", "AT LEAST", "<MODULE", "<FUNCTION"]);
    for site in &sites.functions {
        table.rows.push(vec![
            percent(site.share_pct),
            bytes(site.at_least_bytes),
            site.function.module.as_ref().map_or("?", HostText::as_str).to_owned(),
            site.function.name.to_string(),
        ]);
    }
    for caller in &sites.called_by {
        let name = format!("  called by {}", caller.name);
        table.rows.push(vec![String::new(), String::new(), String::new(), name]);
    }
    table
}
