//! Raw files with what another project's parsers make of them: ours have to make the same of what
//! they read.

use crate::{
    asking::ask,
    data, golden,
    sources::{Machine, machine, raw_files},
};
use probe_agent::proc::{
    Root, cpuinfo, diskstats, host_stat, memory, mountinfo, net_counters, net_dev,
    parse::number_of, pid_io, pid_stat, pid_status,
};
use protocol::{instruments::host_snapshot, units::Bytes};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs};

/// A value of ours, and the other's.
type Pair = (Value, Value);

/// A pair whose JSON was made from another file than the one beside it.
const OF_ANOTHER_FILE: &str = "stat2";

#[test]
fn what_is_read_is_what_another_parser_reads() {
    let Some(data) = data("what_is_read_is_what_another_parser_reads") else { return };
    let mut coverage = String::from(
        "# Files of /proc that were given with their values, and how many of those values one of\n\
         # our readers reads, and reads the same.\n\n",
    );
    for path in raw_files(&data) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read(&path).unwrap();
        let Ok(want) = fs::read(path.with_extension("json")) else {
            coverage.push_str(&format!("{name}: no values beside it\n"));
            continue;
        };
        let want: Value = serde_json::from_slice(&want).unwrap();
        let machine = machine(&data, &format!("jc/{name}"));
        let pairs = compare(name, &text, &want, &machine);
        for (index, (found, want)) in pairs.iter().enumerate() {
            let is_known = name == OF_ANOTHER_FILE;
            assert!(is_known || found == want, "{name}, value {index}: {found}, not {want}");
        }
        let counted = match pairs.len() {
            0 => "no reader".to_owned(),
            count if name == OF_ANOTHER_FILE => format!("{count}, whose JSON is another file's"),
            count => count.to_string(),
        };
        coverage.push_str(&format!("{name}: {counted}\n"));
    }
    golden::assert_golden("fixtures/golden/machines/pairs.txt", &coverage);
}

/// Every value that one of our readers takes from the file, beside the other's.
fn compare(name: &str, text: &[u8], want: &Value, machine: &Machine) -> Vec<Pair> {
    match name {
        "stat" | "stat2" => of_stat(text, want),
        "meminfo" => of_meminfo(text, want),
        "vmstat" => of_vmstat(text, want),
        "loadavg" => of_loadavg(machine, want),
        "diskstats" => of_diskstats(text, want),
        "net_dev" => of_net_dev(text, want),
        "net_netstat" => of_netstat(text, want),
        "cpuinfo" | "cpuinfo2" => of_cpuinfo(text, want),
        "pid_stat" | "pid_stat_hack" | "pid_stat_w_space_and_nl_in_comm" => of_pid_stat(text, want),
        "pid_status" => of_pid_status(text, want),
        "pid_io" => of_pid_io(text, want),
        "pid_mountinfo" => of_mountinfo(text, want),
        _ => Vec::new(),
    }
}

fn of_stat(text: &[u8], want: &Value) -> Vec<Pair> {
    let stat = host_stat::parse(text).unwrap();
    let all = &want["cpu"];
    let number = |value: &Value| json!(value.as_u64().unwrap_or(0));
    let is_one = |name: &&String| name.starts_with("cpu") && name.len() > 3;
    let cpus = want.as_object().unwrap().keys().filter(is_one).count();
    vec![
        (json!(stat.user_ticks), number(&all["user"])),
        (json!(stat.nice_ticks), number(&all["nice"])),
        (json!(stat.system_ticks), number(&all["system"])),
        (json!(stat.idle_ticks), number(&all["idle"])),
        (json!(stat.iowait_ticks), number(&all["iowait"])),
        (json!(stat.irq_ticks), number(&all["irq"])),
        (json!(stat.softirq_ticks), number(&all["softirq"])),
        (json!(stat.steal_ticks), number(&all["steal"])),
        (json!(stat.cpus), json!(cpus)),
        (json!(stat.switches), want["context_switches"].clone()),
        (json!(stat.runnable), want["processes_running"].clone()),
        (json!(stat.forks), want["processes"].clone()),
    ]
}

fn of_meminfo(text: &[u8], want: &Value) -> Vec<Pair> {
    ["MemTotal", "MemAvailable", "Dirty", "SwapTotal", "SwapFree"]
        .into_iter()
        .map(|name| {
            let Bytes(bytes) = memory::amount(text, name).unwrap();
            (json!(bytes), json!(want[name].as_u64().unwrap() * 1024))
        })
        .collect()
}

fn of_vmstat(text: &[u8], want: &Value) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = ["pswpin", "pswpout", "pgmajfault", "oom_kill"]
        .into_iter()
        .map(|name| (json!(number_of(text, name).unwrap()), want[name].clone()))
        .collect();
    pairs.push((json!(memory::direct_scans(text).unwrap()), want["pgscan_direct"].clone()));
    pairs
}

fn of_loadavg(machine: &Machine, want: &Value) -> Vec<Pair> {
    let root = Root::at(&machine.root).unwrap();
    let request =
        host_snapshot::Request { window_ms: 1, limit: 1, detail: host_snapshot::Detail::Full };
    let answer = ask(&root, request).unwrap();
    vec![(answer["cpu"]["load_1m"].clone(), want["load_1m"].clone())]
}

fn of_diskstats(text: &[u8], want: &Value) -> Vec<Pair> {
    let found = diskstats::parse(text).unwrap();
    let want = want.as_array().unwrap();
    assert_eq!(found.len(), want.len());
    let pairs = found.iter().zip(want).flat_map(|((name, disk), want)| {
        [
            (json!(String::from_utf8_lossy(name)), want["device"].clone()),
            (json!(disk.reads), want["reads_completed"].clone()),
            (json!(disk.read_sectors), want["sectors_read"].clone()),
            (json!(disk.read_ms), want["read_time_ms"].clone()),
            (json!(disk.writes), want["writes_completed"].clone()),
            (json!(disk.write_sectors), want["sectors_written"].clone()),
            (json!(disk.write_ms), want["write_time_ms"].clone()),
            (json!(disk.queue_ms), want["weighted_io_time_ms"].clone()),
        ]
    });
    pairs.collect()
}

fn of_net_dev(text: &[u8], want: &Value) -> Vec<Pair> {
    let found: BTreeMap<Vec<u8>, _> = net_dev::parse(text).unwrap().into_iter().collect();
    let want = want.as_array().unwrap();
    assert_eq!(found.len(), want.len());
    let pairs = want.iter().flat_map(|want| {
        let interface = found[want["interface"].as_str().unwrap().as_bytes()];
        let lost = ["r_errs", "r_drop", "t_errs", "t_drop"];
        let lost: u64 = lost.iter().map(|name| want[name].as_u64().unwrap()).sum();
        [
            (json!(interface.received_bytes), want["r_bytes"].clone()),
            (json!(interface.sent_bytes), want["t_bytes"].clone()),
            (json!(interface.lost), json!(lost)),
        ]
    });
    pairs.collect()
}

fn of_netstat(text: &[u8], want: &Value) -> Vec<Pair> {
    ["ListenDrops", "TCPBacklogDrop"]
        .into_iter()
        .map(|name| {
            let found = net_counters::counter(text, "TcpExt", name).unwrap();
            (json!(found), want[0][name].clone())
        })
        .collect()
}

fn of_cpuinfo(text: &[u8], want: &Value) -> Vec<Pair> {
    let found = cpuinfo::parse(text).unwrap();
    let want = want.as_array().unwrap();
    let sockets: std::collections::BTreeSet<u64> =
        want.iter().filter_map(|cpu| cpu["physical id"].as_u64()).collect();
    vec![
        (json!(found.processors), json!(want.len())),
        (json!(found.places.unwrap().sockets), json!(sockets.len())),
    ]
}

fn of_pid_stat(text: &[u8], want: &Value) -> Vec<Pair> {
    let stat = pid_stat::parse(text).unwrap();
    let children = want["cutime"].as_u64().unwrap() + want["cstime"].as_u64().unwrap();
    vec![
        (json!(stat.pid), want["pid"].clone()),
        (json!(String::from_utf8_lossy(stat.name)), want["comm"].clone()),
        (json!(char::from(stat.state).to_string()), want["state"].clone()),
        (json!(stat.parent_pid), want["ppid"].clone()),
        (json!(stat.flags), want["flags"].clone()),
        (json!(stat.minor_faults), want["minflt"].clone()),
        (json!(stat.children_minor_faults), want["cminflt"].clone()),
        (json!(stat.major_faults), want["majflt"].clone()),
        (json!(stat.children_major_faults), want["cmajflt"].clone()),
        (json!(stat.user_ticks), want["utime"].clone()),
        (json!(stat.system_ticks), want["stime"].clone()),
        (json!(stat.children_ticks), json!(children)),
        (json!(stat.threads), want["num_threads"].clone()),
        (json!(stat.start_ticks), want["starttime"].clone()),
        (json!(stat.resident_pages), want["rss"].clone()),
        (json!(stat.block_delay_ticks), want["delayacct_blkio_ticks"].clone()),
    ]
}

fn of_pid_status(text: &[u8], want: &Value) -> Vec<Pair> {
    let memory = pid_status::parse_memory(text).unwrap();
    let switches = pid_status::parse_switches(text).unwrap();
    let bytes = |name: &str| json!(want[name].as_u64().unwrap() * 1024);
    let ours = |bytes: Option<Bytes>| json!(bytes.unwrap().0);
    vec![
        (json!(memory.resident.0), bytes("VmRSS")),
        (ours(memory.anonymous), bytes("RssAnon")),
        (ours(memory.file), bytes("RssFile")),
        (ours(memory.shared), bytes("RssShmem")),
        (ours(memory.swap), bytes("VmSwap")),
        (json!(switches.voluntary), want["voluntary_ctxt_switches"].clone()),
        (json!(switches.involuntary), want["nonvoluntary_ctxt_switches"].clone()),
    ]
}

fn of_pid_io(text: &[u8], want: &Value) -> Vec<Pair> {
    let io = pid_io::parse(text).unwrap();
    vec![
        (json!(io.read_calls_bytes), want["rchar"].clone()),
        (json!(io.write_calls_bytes), want["wchar"].clone()),
        (json!(io.read_calls), want["syscr"].clone()),
        (json!(io.write_calls), want["syscw"].clone()),
        (json!(io.storage_read_bytes), want["read_bytes"].clone()),
        (json!(io.storage_write_bytes), want["write_bytes"].clone()),
    ]
}

fn of_mountinfo(text: &[u8], want: &Value) -> Vec<Pair> {
    let found = mountinfo::parse_cgroup_mounts(text);
    let want = want.as_array().unwrap();
    let is_cgroup =
        |mount: &&Value| matches!(mount["fs_type"].as_str(), Some("cgroup" | "cgroup2"));
    let want: Vec<&Value> = want.iter().filter(is_cgroup).collect();
    assert_eq!(found.len(), want.len());
    let pairs = found.iter().zip(want).flat_map(|(mount, want)| {
        let is_v2 = mount.controllers.is_none();
        [
            (json!(format!("/{}", mount.mount_point)), want["mount_point"].clone()),
            (json!(String::from_utf8_lossy(&mount.root)), want["root"].clone()),
            (json!(is_v2), json!(want["fs_type"] == "cgroup2")),
        ]
    });
    pairs.collect()
}
