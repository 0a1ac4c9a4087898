//! Values that are known from the files themselves, read with other programs: what an instrument
//! says of these machines has to be that.

use crate::{asking::ask, data, sources::machine};
use probe_agent::proc::Root;
use protocol::instruments::{host_snapshot, process_inspect, process_list};
use serde_json::{Value, json};
use std::{fs, path::Path};

/// What `host_snapshot` says of a machine at a path, and what it has to.
const OF_THE_HOST: [(&str, &str, Option<f64>); 45] = [
    ("pcp/cpuinfo-1cpu-alpha", "cpu.online", Some(1.0)),
    ("pcp/cpuinfo-4cpu-alpha", "cpu.online", Some(4.0)),
    ("pcp/cpuinfo-4cpu-alpha", "cpu.cores", None),
    ("pcp/cpuinfo-1cpu-g3ibook", "cpu.online", None),
    ("pcp/cpuinfo-1cpu-powermac", "cpu.online", None),
    ("pcp/cpuinfo-1cpu-ppc-cPCI405", "cpu.online", Some(1.0)),
    ("pcp/cpuinfo-1cpu-ppc-pcippc2", "cpu.online", Some(1.0)),
    ("pcp/cpuinfo-2cpu-umax-s900dp", "cpu.online", Some(2.0)),
    ("pcp/cpuinfo-2cpu-s390x-linux-2.6.32", "cpu.online", Some(2.0)),
    ("pcp/cpuinfo-2cpu-s390x-linux-2.6.32", "cpu.sockets", None),
    ("pcp/cpuinfo-4cpu-ia64-linux-2.6.32", "cpu.online", Some(4.0)),
    ("pcp/cpuinfo-4cpu-ia64-linux-2.6.32", "cpu.cores", Some(4.0)),
    ("pcp/cpuinfo-4cpu-ia64-linux-2.6.32", "cpu.sockets", Some(2.0)),
    ("pcp/cpuinfo-8cpu-aarch64-linux-3.17.0", "cpu.online", Some(8.0)),
    ("pcp/cpuinfo-8cpu-aarch64-linux-3.17.0", "cpu.cores", None),
    ("pcp/cpuinfo-32cpu-4830", "cpu.online", Some(32.0)),
    ("pcp/cpuinfo-32cpu-4830", "cpu.cores", Some(32.0)),
    ("pcp/cpuinfo-32cpu-4830", "cpu.sockets", Some(4.0)),
    ("pcp/cpuinfo-32cpu-amd-6132", "cpu.online", Some(32.0)),
    ("pcp/cpuinfo-32cpu-amd-6132", "cpu.cores", Some(32.0)),
    ("pcp/cpuinfo-32cpu-amd-6132", "cpu.sockets", Some(4.0)),
    ("pcp/meminfo-root-001.tgz", "cpu.online", Some(8.0)),
    ("pcp/meminfo-root-001.tgz", "cpu.cores", Some(4.0)),
    ("pcp/meminfo-root-001.tgz", "memory.total_bytes", Some(16_022_140.0 * 1024.0)),
    ("pcp/meminfo-root-001.tgz", "memory.available_bytes", Some(12_881_060.0 * 1024.0)),
    ("pcp/meminfo-root-001.tgz", "memory.dirty_bytes", Some(172.0 * 1024.0)),
    ("pcp/meminfo-root-001.tgz", "memory.swap_total_bytes", Some(8_060_924.0 * 1024.0)),
    ("pcp/meminfo-root-001.tgz", "cpu.runnable", Some(1.0)),
    ("pcp/meminfo-root-002.tgz", "memory.total_bytes", Some(131_831_052.0 * 1024.0)),
    ("pcp/meminfo-root-002.tgz", "cpu.online", Some(32.0)),
    ("pcp/meminfo-root-004.tgz", "cpu.sockets", Some(4.0)),
    ("pcp/meminfo-root-004.tgz", "cpu.cores", Some(4.0)),
    ("pcp/meminfo-root-005.tgz", "memory.total_bytes", Some(16_050_940.0 * 1024.0)),
    ("pcp/meminfo-root-005.tgz", "memory.dirty_bytes", Some(1724.0 * 1024.0)),
    ("pcp/meminfo-root-006.tgz", "memory.total_bytes", Some(3_871_596.0 * 1024.0)),
    ("pcp/meminfo-root-007.tgz", "cpu.sockets", Some(8.0)),
    ("pcp/pressure-root-001.tgz", "pressure.cpu_some_pct", Some(0.0)),
    ("pcp/pressure-root-001.tgz", "pressure.memory_full_pct", Some(0.0)),
    ("pcp/pressure-root-002.tgz", "pressure.io_full_pct", Some(0.0)),
    ("pcp/meminfo-root-001.tgz", "pressure.cpu_some_pct", None),
    ("pcp/proc_net_sockstat", "tcp.time_wait", Some(0.0)),
    ("pcp/proc_net_sockstat", "tcp.established", None),
    ("pcp/procnet-snmp-2.6.32", "tcp.established", Some(10.0)),
    ("pcp/procnet-snmp-3.19.0", "tcp.established", Some(42.0)),
    ("pcp/procnet-snmp-5.14.7", "tcp.established", Some(9.0)),
];

/// Finds `a.b` in an answer.
fn at<'v>(answer: &'v Value, path: &str) -> &'v Value {
    path.split('.').fold(answer, |value, name| &value[name])
}

#[test]
fn what_is_known_of_a_machine_is_what_is_said_of_it() {
    let Some(data) = data("what_is_known_of_a_machine_is_what_is_said_of_it") else { return };
    for (name, path, want) in OF_THE_HOST {
        let machine = machine(&data, name);
        let root = Root::at(&machine.root).unwrap();
        let request = host_snapshot::Request {
            window_ms: 1,
            limit: 100,
            detail: host_snapshot::Detail::Full,
        };
        let answer = ask(&root, request).unwrap();
        assert_eq!(at(&answer, path).as_f64(), want, "{name}: {path}");
    }
}

/// Processes by pid: name, state, parent, threads and resident kilobytes.
const PROCESSES: [(&str, u32, &str, &str, u64); 6] = [
    ("pcp/procpid-2.6.32-root-001.tgz", 1, "init", "sleeping", 1),
    ("pcp/procpid-3.2.0-root-003.tgz", 1, "init", "sleeping", 1),
    ("pcp/procpid-3.19.0-root-002.tgz", 1, "systemd", "sleeping", 1),
    ("pcp/procpid-4.2.3-root-004.tgz", 1, "systemd", "sleeping", 1),
    ("pcp/procpid-4.14.5-root-005.tgz", 1, "systemd", "sleeping", 1),
    ("pcp/procpid-4.18.13-root-006.tgz", 1, "systemd", "sleeping", 1),
];

#[test]
fn the_first_process_is_who_it_was() {
    let Some(data) = data("the_first_process_is_who_it_was") else { return };
    for (name, pid, process, state, threads) in PROCESSES {
        let machine = machine(&data, name);
        let root = Root::at(&machine.root).unwrap();
        let request = process_inspect::Request { pid, start_ticks: 0, window_ms: 1, threads: 5 };
        let answer = ask(&root, request).unwrap();
        let found = &answer["process"];
        assert_eq!(found["name"], process, "{name}");
        assert_eq!(found["state"], state, "{name}");
        assert_eq!(found["threads"], threads, "{name}");
        let resident = machine.text(&format!("proc/{pid}/status")).unwrap();
        let resident = String::from_utf8(resident).unwrap();
        let resident = resident.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        let resident: u64 = resident.trim().trim_end_matches(" kB").parse().unwrap();
        assert_eq!(answer["memory"]["rss_bytes"], resident * 1024, "{name}");
    }
}

#[test]
fn a_process_whose_folder_holds_no_line_is_not_made_up() {
    let Some(data) = data("a_process_whose_folder_holds_no_line_is_not_made_up") else { return };
    let machine = machine(&data, "prometheus-procfs");
    let root = Root::at(&machine.root).unwrap();
    let request = process_list::Request { window_ms: 1, ..Default::default() };
    let answer = ask(&root, request).unwrap();
    let rows = answer["processes"].as_array().unwrap();
    let pids: Vec<u64> = rows.iter().map(|row| row["pid"].as_u64().unwrap()).collect();
    assert!(pids.contains(&26_231) && !pids.contains(&26_235), "{pids:?}");
}

/// Every cgroup of a machine of version 2, as the one of a process that was put into it.
#[test]
fn every_cgroup_says_what_its_files_say() {
    let Some(data) = data("every_cgroup_says_what_its_files_say") else { return };
    let machine = machine(&data, "pcp/cgroups-root-004.tgz");
    let proc = machine.root.join("proc");
    let line = "1 (it) S 0 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 100 0 0 0\n";
    fs::create_dir_all(proc.join("1/task/1")).unwrap();
    fs::write(proc.join("1/stat"), line).unwrap();
    fs::write(proc.join("1/task/1/stat"), line).unwrap();
    fs::create_dir_all(proc.join("self")).unwrap();
    let mount = "30 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    fs::write(proc.join("self/mountinfo"), mount).unwrap();
    let top = machine.root.join("sys/fs/cgroup");
    let mut folders = Vec::new();
    find_folders(&top, &mut folders);
    let root = Root::at(&machine.root).unwrap();
    let mut with_memory = 0;
    for folder in &folders {
        let path = folder.strip_prefix(&top).unwrap().to_str().unwrap();
        fs::write(proc.join("1/cgroup"), format!("0::/{path}\n")).unwrap();
        let request = process_inspect::Request { pid: 1, start_ticks: 0, window_ms: 1, threads: 0 };
        let cgroup = ask(&root, request).unwrap()["cgroup"].clone();
        let number = |file: &str| -> Option<u64> {
            fs::read_to_string(folder.join(file)).ok()?.trim().parse().ok()
        };
        let current = number("memory.current");
        with_memory += usize::from(current.is_some());
        assert_eq!(cgroup["memory_bytes"], json!(current), "{path}");
        // No level of this machine has a limit.
        assert_eq!(cgroup["memory_limit_bytes"], Value::Null, "{path}");
    }
    assert!(with_memory > 50, "only {with_memory} of {}", folders.len());
}

fn find_folders(folder: &Path, found: &mut Vec<std::path::PathBuf>) {
    found.push(folder.to_owned());
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_folders(&path, found);
        }
    }
}
