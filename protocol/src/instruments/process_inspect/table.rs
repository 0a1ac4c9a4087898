//! One process as tables.

use super::{Report, ThreadRow, WaitGroup};
use crate::{
    host_text::HostText,
    observed::Observed,
    units::{PerSecond, Percent},
    view::{
        quantity::{age, byte_rate, bytes, or_unknown, percent, rate},
        table::Table,
    },
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = vec![process(report), counters(report)];
    if !report.waits.groups.is_empty() {
        tables.push(waits(report));
    }
    if !report.threads.is_empty() {
        tables.push(threads(&report.threads));
    }
    tables
}

fn share(value: &Observed<Percent>) -> String {
    or_unknown(value, |value| percent(*value))
}

fn speed(value: &Observed<PerSecond>) -> String {
    or_unknown(value, |value| rate(*value))
}

fn byte_speed(value: &Observed<PerSecond>) -> String {
    or_unknown(value, |value| byte_rate(*value))
}

fn process(report: &Report) -> Table {
    let process = &report.process;
    let place = process.container.known().or_else(|| process.service.known());
    let no_place = || match &process.service {
        Observed::Unknown(reason) if !reason.is_absence() => "?",
        Observed::Unknown(_) | Observed::Known(_) => "no service",
    };
    Table::facts(
        format!("pid {} {}", process.pid, process.name),
        [
            ("command", or_unknown(&process.command, ToString::to_string)),
            (
                "who",
                format!(
                    "user {}, parent {}, in {}, started {} ago (tick {})",
                    or_unknown(&process.user, ToString::to_string),
                    process.parent_pid,
                    place.map_or_else(no_place, HostText::as_str),
                    or_unknown(&process.age_s, |it| age(*it)),
                    process.start_ticks
                ),
            ),
            ("state", format!("{}, threads {}", process.state.letter(), process.threads)),
        ],
    )
}

fn counters(report: &Report) -> Table {
    let Report { cpu, memory, io, descriptors, cgroup, host, .. } = report;
    Table::facts(
        "",
        [
            ("% of a processor", shares_line(cpu)),
            (
                "busiest thread",
                format!(
                    "{} % of the window running, {} % blocked",
                    share(&cpu.busiest_thread_running_pct),
                    share(&cpu.busiest_thread_blocked_pct)
                ),
            ),
            (
                "switches/s",
                format!(
                    "voluntary {}, involuntary {}",
                    speed(&cpu.voluntary_switches_per_s),
                    speed(&cpu.involuntary_switches_per_s)
                ),
            ),
            (
                "memory",
                format!(
                    "resident {}, own {}, swapped {}, growth {} bytes/s, faults/s {} minor {} major",
                    or_unknown(&memory.rss_bytes, |value| bytes(*value)),
                    or_unknown(&memory.anonymous_bytes, |value| bytes(*value)),
                    or_unknown(&memory.swap_bytes, |value| bytes(*value)),
                    or_unknown(&memory.anonymous_growth_bytes_per_s, i64::to_string),
                    or_unknown(&memory.minor_faults_per_s, |it| rate(*it)),
                    or_unknown(&memory.major_faults_per_s, |it| rate(*it))
                ),
            ),
            (
                "bytes/s",
                format!(
                    "calls read {} write {}, storage read {} write {}",
                    byte_speed(&io.read_calls_bytes_per_s),
                    byte_speed(&io.write_calls_bytes_per_s),
                    byte_speed(&io.storage_read_bytes_per_s),
                    byte_speed(&io.storage_write_bytes_per_s)
                ),
            ),
            (
                "descriptors",
                format!(
                    "{} open of {}",
                    or_unknown(&descriptors.open, u64::to_string),
                    or_unknown(&descriptors.limit, u64::to_string)
                ),
            ),
            ("cgroup", cgroup_line(cgroup)),
            (
                "host",
                format!(
                    "{} processors {} % busy; pressure cpu {} io {} memory {}",
                    or_unknown(&host.cpus, u32::to_string),
                    share(&host.cpu_busy_pct),
                    share(&host.cpu_pressure_pct),
                    share(&host.io_pressure_pct),
                    share(&host.memory_pressure_pct)
                ),
            ),
        ],
    )
}

fn shares_line(cpu: &super::Cpu) -> String {
    format!(
        "user {}, kernel {}, waiting for a processor {}, children at most {}",
        or_unknown(&cpu.user_pct, |it| percent(*it)),
        or_unknown(&cpu.system_pct, |it| percent(*it)),
        run_delay(cpu),
        share(&cpu.children_at_most_pct)
    )
}

fn run_delay(cpu: &super::Cpu) -> String {
    match (&cpu.run_delay_pct, &cpu.run_delay_at_least_pct) {
        (Observed::Unknown(_), Observed::Known(least)) => format!("at least {}", percent(*least)),
        (all, _) => share(all),
    }
}

fn cgroup_line(cgroup: &super::Cgroup) -> String {
    format!(
        "{}: quota {}, throttled in {}; memory {} (limit {})",
        or_unknown(&cgroup.path, ToString::to_string),
        or_unknown(&cgroup.cpu_quota_cores, |cores| format!("{cores:.2} processors")),
        or_unknown(&cgroup.throttling, |throttling| format!(
            "{} of {} periods for {} ms",
            throttling.throttled_periods, throttling.periods, throttling.throttled_ms
        )),
        or_unknown(&cgroup.memory_bytes, |value| bytes(*value)),
        or_unknown(&cgroup.memory_limit_bytes, |value| bytes(*value))
    )
}

fn waits(report: &Report) -> Table {
    let waits = &report.waits;
    let mut title = format!(
        "found in, {} looks at {} of {} threads",
        waits.samples, waits.threads_sampled, waits.threads_total
    );
    if waits.threads_never_sampled > 0 {
        title.push_str(&format!("; {} never looked at", waits.threads_never_sampled));
    }
    let missing = (waits.groups_total as usize).saturating_sub(waits.groups.len());
    if missing > 0 {
        title.push_str(&format!("; {missing} more places are not shown"));
    }
    let mut table = Table::with_columns(
        title,
        &["%LOOKS", "%BLOCKED", "THREADS", "<S", "<WAITS FOR", "<SYSCALL", "<CHANNEL"],
    );
    table.rows.extend(waits.groups.iter().map(wait_row));
    table
}

fn wait_row(group: &WaitGroup) -> Vec<String> {
    vec![
        percent(group.share_pct),
        share(&group.blocked_pct),
        group.threads.to_string(),
        group.state.letter().to_string(),
        group.kind.words().to_owned(),
        or_unknown(&group.syscall, ToString::to_string),
        or_unknown(&group.channel, ToString::to_string),
    ]
}

fn threads(rows: &[ThreadRow]) -> Table {
    let mut table = Table::with_columns(
        "threads",
        &["TID", "<S", "%RUN", "%DELAY", "SWITCH/S", "<MOSTLY", "<NAME"],
    );
    for row in rows {
        table.rows.push(vec![
            row.tid.to_string(),
            row.state.letter().to_string(),
            share(&row.running_pct),
            share(&row.run_delay_pct),
            speed(&row.switches_per_s),
            or_unknown(&row.mostly, |kind| kind.words().to_owned()),
            row.name.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        instruments::{Instrument as _, process_inspect::ProcessInspect},
        observed::{Nature, OutOfSight, Reason},
    };

    #[test]
    fn a_place_that_cannot_be_seen_is_not_none() {
        let who = |service, container| {
            let mut report = ProcessInspect::example().report;
            (report.process.service, report.process.container) = (service, container);
            format!("{:?}", process(&report))
        };
        let none = |nature| Observed::Unknown(Reason::DoesNotApply(nature));
        let out_of_sight = || Observed::Unknown(Reason::OutOfSight(OutOfSight::CgroupsAbove));
        let seen = who(none(Nature::NotInService), none(Nature::NotInContainer));
        assert!(seen.contains(", in no service,"), "{seen}");
        let unseen = who(out_of_sight(), out_of_sight());
        assert!(unseen.contains(", in ?,"), "{unseen}");
        let service = who(Observed::Known(HostText::new(b"a.service")), out_of_sight());
        assert!(service.contains(", in a.service,"), "{service}");
    }
}
