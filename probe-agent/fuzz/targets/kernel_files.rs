//! Any bytes in any kernel file, or in a file that names come from, are a value or an error: never a
//! panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use probe_agent::proc::{
    btf, cgroup, cpuinfo, diskstats, host_stat, limits, loadavg, memory, mountinfo, net_counters,
    net_dev, net_tcp, os_release, passwd, pid_credentials, pid_io, pid_maps, pid_smaps, pid_stat, pid_status, placement, pressure,
    schedstat, topology, waiting,
};
use probe_agent::stack::{
    demangle, elf::ElfFile, kernel_names::KernelNames, lines::DebugSections, perf_map::PerfMap,
    symbols::Symbols,
};
use std::sync::OnceLock;

/// A reader, and what must hold of it for any bytes.
type Check = (&'static str, fn(&[u8]));

/// Every reader, by the name of its file. `cargo xtask fuzz --each-reader` reads the names here.
const READERS: &[Check] = &[
    ("btf", |bytes| {
        let _ = btf::find(bytes, [(btf::Kind::Typedef, "a"), (btf::Kind::Function, "b")]);
    }),
    ("cgroup", cgroup_files),
    ("cpuinfo", |bytes| {
        let _ = cpuinfo::parse(bytes);
    }),
    ("demangle", |bytes| drop(demangle::shown(bytes))),
    ("diskstats", |bytes| {
        if let Ok(disks) = diskstats::parse(bytes) {
            for (_, disk) in &disks {
                let _ = disk.since(&diskstats::DiskStat::default());
            }
        }
        drop(diskstats::numbers(bytes));
    }),
    ("elf", executable),
    ("host_stat", |bytes| {
        if let Ok(stat) = host_stat::parse(bytes) {
            let _ = stat.since(&stat);
            let _ = stat.share(host_stat::HostStat::not_idle_ticks);
        }
    }),
    ("kernel_names", |bytes| {
        if let Ok(names) = KernelNames::parse(bytes) {
            let _ = names.find(0xffff_ffff_8100_0050);
        }
    }),
    ("limits", |bytes| drop(limits::parse_open_files(bytes))),
    ("loadavg", |bytes| {
        let _ = loadavg::parse_threads(bytes);
        let _ = loadavg::parse_last_pid(bytes);
        // No load that is not a number is one.
        assert!(loadavg::parse_last_minute(bytes).is_none_or(|load| load >= 0.0));
    }),
    ("memory", |bytes| {
        let _ = memory::amount(bytes, "MemAvailable");
        let _ = memory::direct_scans(bytes);
    }),
    ("mountinfo", cgroup_mounts),
    ("net_counters", |bytes| {
        let _ = net_counters::counter(bytes, "Tcp", "RetransSegs");
        let _ = net_counters::socket_count(bytes, "TCP", "tw");
    }),
    ("net_dev", |bytes| drop(net_dev::parse(bytes))),
    ("net_tcp", |bytes| drop(net_tcp::parse(bytes))),
    ("os_release", |bytes| drop(os_release::parse(bytes))),
    ("passwd", |bytes| {
        let _ = passwd::name_of(bytes, 1000);
    }),
    ("perf_map", |bytes| drop(PerfMap::parse(bytes).find(0x1000))),
    ("pid_credentials", |bytes| drop(pid_credentials::parse(bytes))),
    ("pid_io", |bytes| drop(pid_io::parse(bytes))),
    ("pid_maps", |bytes| {
        let _ = pid_maps::parse(bytes);
        let _ = pid_maps::parse_line(bytes, 1);
    }),
    ("pid_smaps", |bytes| {
        let _ = pid_smaps::parse_rollup(bytes);
        if let Ok(regions) = pid_smaps::parse(bytes) {
            let _ = pid_smaps::sum(&regions).unique();
        }
    }),
    ("pid_stat", |bytes| {
        if let Ok(stat) = pid_stat::parse(bytes) {
            // The name is between the first opening and the last closing parenthesis.
            assert!(bytes.len() >= stat.name.len() + 2);
            let _ = stat.is_kernel_thread();
        }
    }),
    ("pid_status", |bytes| {
        let _ = pid_status::parse_memory(bytes);
        let _ = pid_status::tracer(bytes);
        let _ = pid_status::parse_sizes(bytes);
        let _ = pid_status::parse_switches(bytes);
    }),
    ("placement", |bytes| drop(placement::of(&cgroup::parse_memberships(bytes)))),
    ("pressure", |bytes| drop(pressure::parse(bytes))),
    ("schedstat", |bytes| drop(schedstat::parse(bytes))),
    ("topology", |bytes| drop(topology::parse_list(bytes))),
    ("waiting", |bytes| {
        let _ = waiting::parse_syscall(bytes);
    }),
];

fn executable(bytes: &[u8]) {
    let Ok(file) = ElfFile::parse(bytes) else { return };
    let symbols = Symbols::of(&file, Some(&file));
    let mut addresses = vec![0, 0x1000, u64::MAX];
    addresses.extend(file.sections().take(64).map(|section| section.svma.wrapping_add(4)));
    for svma in &addresses {
        let _ = symbols.find(*svma);
    }
    let _ = (file.build_id(), file.debug_link(), file.alternate_link());
    if let Ok(sections) = DebugSections::of(&file, None, 1 << 20) {
        // Every address has an answer, if only that nothing is known.
        assert_eq!(sections.places(&addresses, || true).0.len(), addresses.len());
    }
}

fn cgroup_files(bytes: &[u8]) {
    let _ = cgroup::parse_memberships(bytes);
    let _ = cgroup::parse_throttling(bytes);
    let _ = cgroup::parse_cpu_max(bytes);
    let _ = cgroup::parse_cfs_quota(bytes, bytes);
    let _ = cgroup::parse_memory_limit(bytes);
    let _ = cgroup::parse_inactive_file(bytes);
    let _ = cgroup::parse_swap(bytes);
    let _ = cgroup::parse_limit_hits(bytes);
    let _ = cgroup::parse_oom_kills(bytes);
    let _ = cgroup::parse_memory_events(bytes);
    let _ = cgroup::is_enabled(bytes, cgroup::Controller::Memory);
}

fn cgroup_mounts(bytes: &[u8]) {
    let _ = mountinfo::parse(bytes);
    let _ = mountinfo::proc_hides_processes(bytes);
    let _ = mountinfo::parse_kernel_mounts(bytes);
    for mount in mountinfo::parse_cgroup_mounts(bytes) {
        for membership in &cgroup::parse_memberships(bytes) {
            // A cgroup's path never leads out of its mount.
            let folder = mount.folder_of(membership.path);
            assert!(folder.is_none_or(|folder| !folder.contains("/../")));
        }
    }
}

/// What is fuzzed: every reader, or the one that the variable names.
fn chosen() -> &'static [Check] {
    static CHOSEN: OnceLock<&[Check]> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let Some(wanted) = std::env::var_os("SYSMCP_FUZZ_READER") else { return READERS };
        let position = READERS.iter().position(|(name, _)| wanted == *name);
        let position = position.unwrap_or_else(|| panic!("no reader is called {wanted:?}"));
        std::slice::from_ref(&READERS[position])
    })
}

fuzz_target!(|bytes: &[u8]| chosen().iter().for_each(|(_, check)| check(bytes)));
