//! Any bytes in any kernel file are a value or an error: never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;

/// The agent is a program, not a library; its readers of `/proc` stand alone.
#[path = "../../src"]
#[expect(dead_code, reason = "text is parsed here, and no file is opened")]
mod agent {
    pub mod proc;
}

use agent::proc::{
    cgroup, diskstats, host_stat, limits, memory, mountinfo, net_counters, net_dev, passwd, pid_io,
    pid_stat, pid_status, placement, pressure, schedstat, topology, waiting,
};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(stat) = pid_stat::parse(bytes) {
        // The name is between the first opening and the last closing parenthesis.
        assert!(bytes.len() >= stat.name.len() + 2);
        let _ = stat.is_kernel_thread();
    }
    if let Ok(stat) = host_stat::parse(bytes) {
        let _ = stat.since(&stat);
        let _ = stat.share(host_stat::HostStat::not_idle_ticks);
    }
    let _ = pid_io::parse(bytes);
    let _ = pid_status::parse_memory(bytes);
    let _ = pid_status::parse_switches(bytes);
    let _ = schedstat::parse(bytes);
    let _ = limits::parse_open_files(bytes);
    let _ = pressure::parse(bytes);
    if let Ok(disks) = diskstats::parse(bytes) {
        for (_, disk) in &disks {
            let _ = disk.since(&diskstats::DiskStat::default());
        }
    }
    let _ = net_dev::parse(bytes);
    let _ = net_counters::counter(bytes, "Tcp", "RetransSegs");
    let _ = net_counters::socket_count(bytes, "TCP", "tw");
    let _ = memory::amount(bytes, "MemAvailable");
    let _ = memory::direct_scans(bytes);
    let _ = topology::parse_list(bytes);
    let _ = passwd::name_of(bytes, 1000);
    let _ = waiting::parse_syscall(bytes);
    let memberships = cgroup::parse_memberships(bytes);
    let _ = placement::of(&memberships);
    let _ = cgroup::parse_throttling(bytes);
    let _ = cgroup::parse_cpu_max(bytes);
    let _ = cgroup::parse_cfs_quota(bytes, bytes);
    let _ = cgroup::parse_memory_limit(bytes);
    let _ = cgroup::parse_inactive_file(bytes);
    let _ = cgroup::parse_limit_hits(bytes);
    let _ = cgroup::parse_oom_kills(bytes);
    for mount in mountinfo::parse_cgroup_mounts(bytes) {
        for membership in &memberships {
            // A cgroup's path never leads out of its mount.
            let folder = mount.folder_of(membership.path);
            assert!(folder.is_none_or(|folder| !folder.contains("/../")));
        }
    }
});
