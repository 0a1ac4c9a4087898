//! The machine as tables.

use super::{
    Blocked, BlockedGroup, CgroupVersion, Cgroups, Disk, Interface, LimitedCgroup, Mount,
    MountAnswer, Mounts, Report, ThrottledCgroup,
};
use crate::{
    observed::Observed,
    units::{Bytes, PerSecond, Percent},
    view::{
        quantity::{byte_rate, bytes, or_unknown, percent, rate},
        table::Table,
    },
};

pub(super) fn tables(report: &Report) -> Vec<Table> {
    let mut tables = vec![facts(report)];
    if !report.disks.is_empty() {
        tables.push(disks(&report.disks, &report.disks_total));
    }
    if !report.interfaces.is_empty() {
        tables.push(interfaces(&report.interfaces, &report.interfaces_total));
    }
    if !report.blocked.groups.is_empty() {
        tables.push(blocked(&report.blocked));
    }
    if !report.cgroups.throttled.is_empty() {
        tables.push(throttled(&report.cgroups));
    }
    if !report.cgroups.limited.is_empty() {
        tables.push(limited(&report.cgroups));
    }
    if !report.mounts.ranked.is_empty() {
        tables.push(mounts(&report.mounts));
    }
    tables
}

fn facts(report: &Report) -> Table {
    Table::facts(
        "",
        [
            ("processors", processors_line(report)),
            ("% of all of them", shares_line(report)),
            ("% of the window", pressure_line(report)),
            ("memory", memory_line(report)),
            ("swap", swap_line(report)),
            ("tcp", tcp_line(report)),
            ("blocked tasks", blocked_line(&report.blocked)),
            ("cgroups", cgroups_line(&report.cgroups)),
            ("mounts", mounts_line(&report.mounts)),
            ("wall clock", clock_line(&report.clock_step_ms)),
        ],
    )
}

fn processors_line(report: &Report) -> String {
    let cpu = &report.cpu;
    format!(
        "{} online, {} cores in {} sockets; {} runnable, load {}; switches/s {}",
        count(&cpu.online),
        count(&cpu.cores),
        count(&cpu.sockets),
        count(&cpu.runnable),
        or_unknown(&cpu.load_1m, |load| format!("{load:.2}")),
        speed(&cpu.switches_per_s)
    )
}

fn shares_line(report: &Report) -> String {
    let cpu = &report.cpu;
    format!(
        "user {}, kernel {}, interrupts {}, stolen {}; idle for storage {}",
        share(&cpu.user_pct),
        share(&cpu.system_pct),
        share(&cpu.interrupts_pct),
        share(&cpu.steal_pct),
        share(&cpu.iowait_pct)
    )
}

fn pressure_line(report: &Report) -> String {
    let pressure = &report.pressure;
    format!(
        "some task waited for a processor {}, storage {} (all {}), memory {} (all {})",
        share(&pressure.cpu_some_pct),
        share(&pressure.io_some_pct),
        share(&pressure.io_full_pct),
        share(&pressure.memory_some_pct),
        share(&pressure.memory_full_pct)
    )
}

fn memory_line(report: &Report) -> String {
    let memory = &report.memory;
    format!(
        "{} available of {}, {} dirty; major faults/s {}, direct reclaim {}/s, {} killed",
        size(&memory.available_bytes),
        size(&memory.total_bytes),
        size(&memory.dirty_bytes),
        speed(&memory.major_faults_per_s),
        byte_speed(&memory.direct_reclaim_bytes_per_s),
        or_unknown(&memory.oom_kills, u64::to_string)
    )
}

fn swap_line(report: &Report) -> String {
    let memory = &report.memory;
    format!(
        "{} used of {}; bytes/s in {} out {}",
        size(&memory.swap_used_bytes),
        size(&memory.swap_total_bytes),
        byte_speed(&memory.swap_in_bytes_per_s),
        byte_speed(&memory.swap_out_bytes_per_s)
    )
}

fn tcp_line(report: &Report) -> String {
    let tcp = &report.tcp;
    format!(
        "{} connections, {} in time-wait; segments/s {} sent, {} again; drops/s {} by listeners, {} \
         by backlog",
        or_unknown(&tcp.established, u64::to_string),
        or_unknown(&tcp.time_wait, u64::to_string),
        speed(&tcp.segments_sent_per_s),
        speed(&tcp.retransmitted_per_s),
        speed(&tcp.listen_drops_per_s),
        speed(&tcp.backlog_drops_per_s)
    )
}

fn blocked_line(blocked: &Blocked) -> String {
    let tasks = count(&blocked.tasks);
    if blocked.not_looked_at == 0 {
        return tasks;
    }
    format!("at least {tasks}; {} tasks were not looked at", blocked.not_looked_at)
}

fn cgroups_line(cgroups: &Cgroups) -> String {
    let version = or_unknown(&cgroups.version, |version| {
        match version {
            CgroupVersion::V1 => "version 1",
            CgroupVersion::V2 => "version 2",
            CgroupVersion::Hybrid => "both versions",
        }
        .to_owned()
    });
    let mut line = format!(
        "{version}, {} found; {} throttled, {} with a memory limit",
        cgroups.found,
        count(&cgroups.throttled_total),
        count(&cgroups.limited_total)
    );
    if cgroups.not_looked_at > 0 {
        line.push_str(&format!("; {} were not looked at", cgroups.not_looked_at));
    }
    line
}

fn mounts_line(mounts: &Mounts) -> String {
    let mut line =
        format!("{} file systems; {} did not answer", count(&mounts.total), mounts.no_answer_total);
    if mounts.not_asked > 0 {
        line.push_str(&format!("; {} were not asked", mounts.not_asked));
    }
    line
}

fn clock_line(step_ms: &Observed<i64>) -> String {
    or_unknown(step_ms, |step_ms| {
        if *step_ms == 0 { "not set".to_owned() } else { format!("was set by {step_ms} ms") }
    })
}

fn disks(disks: &[Disk], total: &Observed<u32>) -> Table {
    let mut table = Table::with_columns(
        format!("disks, {} of {}", disks.len(), count(total)),
        &["READ/S", "WRITE/S", "RBYTES/S", "WBYTES/S", "RMS", "WMS", "QUEUE", "<NAME"],
    );
    table.rows.extend(disks.iter().map(|disk| {
        vec![
            rate(disk.reads_per_s),
            rate(disk.writes_per_s),
            byte_rate(disk.read_bytes_per_s),
            byte_rate(disk.write_bytes_per_s),
            or_unknown(&disk.read_ms, |ms| format!("{ms:.1}")),
            or_unknown(&disk.write_ms, |ms| format!("{ms:.1}")),
            format!("{:.2}", disk.queue),
            disk.name.to_string(),
        ]
    }));
    table
}

fn interfaces(interfaces: &[Interface], total: &Observed<u32>) -> Table {
    let mut table = Table::with_columns(
        format!("interfaces, {} of {}", interfaces.len(), count(total)),
        &["RBYTES/S", "SBYTES/S", "LOST/S", "<NAME"],
    );
    table.rows.extend(interfaces.iter().map(|interface| {
        vec![
            byte_rate(interface.received_bytes_per_s),
            byte_rate(interface.sent_bytes_per_s),
            rate(interface.lost_per_s),
            interface.name.to_string(),
        ]
    }));
    table
}

fn blocked(blocked: &Blocked) -> Table {
    let mut table = Table::with_columns("blocked in", &["TASKS", "<CHANNEL", "PID", "<NAME"]);
    table.rows.extend(blocked.groups.iter().map(|group: &BlockedGroup| {
        vec![
            group.tasks.to_string(),
            or_unknown(&group.channel, ToString::to_string),
            group.pid.to_string(),
            group.name.to_string(),
        ]
    }));
    table
}

fn throttled(cgroups: &Cgroups) -> Table {
    let total = count(&cgroups.throttled_total);
    let mut table = Table::with_columns(
        format!("cgroups that were throttled, {} of {total}", cgroups.throttled.len()),
        &["THROTTLED%", "PERIODS", "STOPPED_MS", "CORES", "<PATH"],
    );
    table.rows.extend(cgroups.throttled.iter().map(|cgroup: &ThrottledCgroup| {
        vec![
            percent(cgroup.throttled_pct),
            cgroup.periods.to_string(),
            cgroup.throttled_ms.to_string(),
            cgroup.quota_cores.to_string(),
            cgroup.path.to_string(),
        ]
    }));
    table
}

fn limited(cgroups: &Cgroups) -> Table {
    let total = count(&cgroups.limited_total);
    let mut table = Table::with_columns(
        format!("cgroups with a memory limit, {} of {total}", cgroups.limited.len()),
        &["USED%", "WORKING", "CACHE", "LIMIT", "HIGH", "HITS", "SLOWED", "KILLED", "<PATH"],
    );
    let number = |value: &Observed<u64>| or_unknown(value, u64::to_string);
    table.rows.extend(cgroups.limited.iter().map(|cgroup: &LimitedCgroup| {
        vec![
            share(&cgroup.used_pct),
            size(&cgroup.working_set_bytes),
            size(&cgroup.cache_bytes),
            size(&cgroup.limit_bytes),
            size(&cgroup.high_bytes),
            number(&cgroup.limit_hits),
            number(&cgroup.high_hits),
            number(&cgroup.oom_kills),
            cgroup.path.to_string(),
        ]
    }));
    table
}

fn mounts(mounts: &Mounts) -> Table {
    let total = count(&mounts.total);
    let mut table = Table::with_columns(
        format!("file systems, {} of {total}", mounts.ranked.len()),
        &["<ANSWER", "MS", "USED%", "INODES%", "<TYPE", "<PATH"],
    );
    table.rows.extend(mounts.ranked.iter().map(|mount: &Mount| {
        let answer = match mount.answer {
            MountAnswer::None => "none".to_owned(),
            MountAnswer::Stale => "stale".to_owned(),
            MountAnswer::Failed => format!("error {}", mount.errno),
            MountAnswer::Refused => "refused".to_owned(),
            MountAnswer::Answered => "yes".to_owned(),
        };
        vec![
            answer,
            mount.waited_ms.to_string(),
            share(&mount.used_pct),
            share(&mount.inodes_used_pct),
            mount.kind.to_string(),
            mount.path.to_string(),
        ]
    }));
    table
}

fn count(value: &Observed<u32>) -> String {
    or_unknown(value, u32::to_string)
}

fn share(value: &Observed<Percent>) -> String {
    or_unknown(value, |value| percent(*value))
}

fn size(value: &Observed<Bytes>) -> String {
    or_unknown(value, |value| bytes(*value))
}

fn speed(value: &Observed<PerSecond>) -> String {
    or_unknown(value, |value| rate(*value))
}

fn byte_speed(value: &Observed<PerSecond>) -> String {
    or_unknown(value, |value| byte_rate(*value))
}
