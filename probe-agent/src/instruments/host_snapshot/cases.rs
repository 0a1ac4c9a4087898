//! Machines that were made up, with the one right answer of each.

use super::{Between, End, cgroups, mounts, report};
use crate::instruments::fake::{FIRST, FakeMachine, FakeStat, OF_A_CONTAINER};
use protocol::{
    Report as AnyReport,
    host_text::HostText,
    instruments::host_snapshot::{
        BRIEF_BYTES, Blocked, BlockedGroup, CONCLUSION_BYTES, CgroupVersion, Cgroups, Detail,
        Report, Request,
    },
    loss::CutBy,
    message::Meta,
    observed::{Feature, Observed, OutOfSight, Reason},
    units::Bytes,
    view::json,
};
use std::time::Duration;

const PLENTY: Duration = Duration::from_secs(5);

/// A machine of these files.
fn machine(files: &[(&str, &str)]) -> FakeMachine {
    let machine = FakeMachine::new();
    write(&machine, files);
    machine
}

fn write(machine: &FakeMachine, files: &[(&str, &str)]) {
    for (path, text) in files {
        machine.write_below_root(path, text);
    }
}

/// The cgroups of a machine whose files change in the window.
fn cgroups_of(first: &[(&str, &str)], last: &[(&str, &str)], namespace: &str) -> Cgroups {
    let machine = FakeMachine::in_namespace(namespace);
    write(&machine, first);
    let context = machine.context();
    let look = cgroups::look(context.root, PLENTY);
    write(&machine, last);
    look.finish(context.root, 10)
}

/// The report of a machine whose files change in the window, and which lasted a second.
fn report_of(machine: &FakeMachine, request: &Request, change: impl FnOnce()) -> (Report, Meta) {
    let context = machine.context();
    let mut first = End::read(context.root);
    let asked = mounts::ask(context.root);
    let look = cgroups::look(context.root, PLENTY);
    change();
    let mut last = End::read(context.root);
    // An even second, and a clock that nobody set, whatever the test took.
    first.at = Duration::from_secs(100);
    last.at = Duration::from_secs(101);
    last.boot_at = first.boot_at;
    let cgroups = look.finish(context.root, request.limit as usize);
    let (mounts, cost) = asked.finish();
    let blocked = super::blocked::look(&context).unwrap();
    let between = Between { blocked, cgroups, mounts };
    report::assemble(request, &first, &last, between, cost, &context)
}

const V2: (&str, &str) =
    ("proc/self/mountinfo", "31 22 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
const V2_TOP: (&str, &str) = ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
const V2_HANDS_ON: (&str, &str) = ("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n");
const V1: (&str, &str) = (
    "proc/self/mountinfo",
    "30 22 0:26 / /cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
     31 22 0:27 / /mem rw - cgroup cgroup rw,memory\n",
);

/// Case 22. The units differ by version, and so does what a quota looks like.
#[test]
fn a_third_of_the_periods_was_throttled_in_both_versions() {
    let v2 = [
        V2,
        V2_TOP,
        V2_HANDS_ON,
        ("sys/fs/cgroup/app/cgroup.controllers", "cpu memory\n"),
        ("sys/fs/cgroup/app/cpu.max", "50000 100000\n"),
        (
            "sys/fs/cgroup/app/cpu.stat",
            "usage_usec 1\nnr_periods 100\nnr_throttled 90\nthrottled_usec 5000000\n",
        ),
        ("sys/fs/cgroup/free/cgroup.controllers", "cpu memory\n"),
        ("sys/fs/cgroup/free/cpu.max", "max 100000\n"),
    ];
    let v2_last = [(
        "sys/fs/cgroup/app/cpu.stat",
        "usage_usec 9\nnr_periods 125\nnr_throttled 98\nthrottled_usec 5640000\n",
    )];
    let v1 = [
        V1,
        ("cpu/cpu.cfs_quota_us", "-1\n"),
        ("cpu/cpu.cfs_period_us", "100000\n"),
        ("cpu/app/cpu.cfs_quota_us", "50000\n"),
        ("cpu/app/cpu.cfs_period_us", "100000\n"),
        ("cpu/app/cpu.stat", "nr_periods 100\nnr_throttled 90\nthrottled_time 5000000000\n"),
        ("mem/memory.limit_in_bytes", "9223372036854771712\n"),
    ];
    let v1_last =
        [("cpu/app/cpu.stat", "nr_periods 125\nnr_throttled 98\nthrottled_time 5640000000\n")];
    let cases = [
        (&v2[..], &v2_last[..], CgroupVersion::V2, "/app"),
        (&v1[..], &v1_last[..], CgroupVersion::V1, "/app"),
    ];
    for (first, last, version, path) in cases {
        let found = cgroups_of(first, last, FIRST);
        assert_eq!(found.version, Observed::Known(version));
        assert_eq!(found.throttled_total, Observed::Known(1), "{version:?}: {found:?}");
        let row = &found.throttled[0];
        assert_eq!(row.path.as_str(), path);
        assert_eq!((row.periods, row.throttled_pct.get(), row.throttled_ms), (25, 32.0, 640));
        assert_eq!(row.quota_cores, 0.5);
    }
}

/// Case 22: n %, 0 and "nobody said" are three answers.
#[test]
fn not_throttled_is_told_from_not_reported() {
    let quiet = [
        V2,
        V2_TOP,
        V2_HANDS_ON,
        ("sys/fs/cgroup/app/cgroup.controllers", "cpu\n"),
        ("sys/fs/cgroup/app/cpu.max", "50000 100000\n"),
        ("sys/fs/cgroup/app/cpu.stat", "nr_periods 9\nnr_throttled 3\nthrottled_usec 70\n"),
    ];
    let no_quotas = [quiet[0], quiet[1], quiet[2], quiet[3]];
    let no_controller = [V2, ("sys/fs/cgroup/cgroup.controllers", "memory\n")];
    let cases = [
        ("no period since", &quiet[..], Observed::Known(0)),
        ("a kernel without", &no_controller[..], {
            Observed::Unknown(Reason::KernelLacks(Feature::CgroupCpuController))
        }),
        ("nothing mounted", &[("proc/self/mountinfo", "1 1 0:1 / / rw - ext4 x rw\n")][..], {
            Observed::Unknown(Reason::OutOfSight(OutOfSight::HierarchyNotMounted))
        }),
        ("none can have one", &no_quotas[..3], Observed::Known(0)),
    ];
    for (name, files, want) in cases {
        let found = cgroups_of(files, &[], FIRST);
        assert_eq!(found.throttled_total, want, "{name}");
        assert_eq!(found.throttled, [], "{name}");
    }
}

/// A cgroup that was removed and made again has smaller counts.
#[test]
fn another_cgroup_of_the_same_name_is_not_the_same() {
    let stat = "cpu/a/cpu.stat";
    let first = [
        V1,
        ("cpu/a/cpu.cfs_quota_us", "20000\n"),
        ("cpu/a/cpu.cfs_period_us", "100000\n"),
        (stat, "nr_periods 900\nnr_throttled 800\nthrottled_time 9\n"),
    ];
    let last = [(stat, "nr_periods 5\nnr_throttled 4\nthrottled_time 9\n")];
    assert_eq!(cgroups_of(&first, &last, FIRST).throttled_total, Observed::Known(0));
}

/// Case 21: cache is no working set, no limit is no number, and the root cgroup counts nothing.
#[test]
fn a_working_set_is_what_is_not_inactive_cache() {
    const MIB: u64 = 1 << 20;
    let v1 = [
        ("proc/self/mountinfo", {
            "31 22 0:27 / /mem rw - cgroup cgroup rw,memory\n\
             32 22 0:28 / /uni rw - cgroup2 cgroup2 rw\n\
             33 22 0:29 / /systemd rw - cgroup cgroup rw,xattr,name=systemd\n"
        }),
        ("mem/memory.limit_in_bytes", "9223372036854771712\n"),
        ("mem/a/memory.limit_in_bytes", "104857600\n"),
        ("mem/a/memory.usage_in_bytes", "103809024\n"),
        ("mem/a/memory.stat", "inactive_file 1\ntotal_inactive_file 94371840\n"),
        ("mem/a/memory.failcnt", "5\n"),
        ("mem/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n"),
        ("mem/b/memory.limit_in_bytes", "9223372036854771712\n"),
        ("mem/b/memory.usage_in_bytes", "999\n"),
    ];
    let later = [
        ("mem/a/memory.failcnt", "12\n"),
        ("mem/a/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"),
    ];
    let found = cgroups_of(&v1, &later, FIRST);
    assert_eq!(found.version, Observed::Known(CgroupVersion::Hybrid));
    assert_eq!(found.limited_total, Observed::Known(1), "the one without a limit has no number");
    let row = &found.limited[0];
    assert_eq!(row.path.as_str(), "/a");
    assert_eq!(row.working_set_bytes, Observed::Known(Bytes(9 * MIB)));
    assert_eq!(row.cache_bytes, Observed::Known(Bytes(90 * MIB)));
    assert_eq!(row.limit_bytes, Observed::Known(Bytes(100 * MIB)));
    assert_eq!(row.high_bytes, Observed::Unknown(Reason::NoLimitSet));
    assert_eq!(row.used_pct.known().unwrap().get(), 9.0);
    assert_eq!(row.limit_hits, Observed::Known(7));
    assert_eq!(row.oom_kills, Observed::Known(2));
}

/// Case 21, version 2, also from within a container, where the path of its own cgroup is `/` and
/// that cgroup has what the root of all has not.
#[test]
fn version_two_says_what_is_high_and_what_was_killed() {
    let files = [
        V2,
        V2_TOP,
        V2_HANDS_ON,
        ("sys/fs/cgroup/memory.max", "max\n"),
        ("sys/fs/cgroup/memory.high", "2000\n"),
        ("sys/fs/cgroup/memory.current", "1500\n"),
        ("sys/fs/cgroup/memory.stat", "anon 1\ninactive_file 500\n"),
        ("sys/fs/cgroup/memory.events", "low 0\nhigh 4\nmax 0\noom 0\noom_kill 0\n"),
    ];
    let later = [("sys/fs/cgroup/memory.events", "low 0\nhigh 9\nmax 0\noom 0\noom_kill 0\n")];
    let found = cgroups_of(&files, &later, OF_A_CONTAINER);
    let row = &found.limited[0];
    assert_eq!(row.path.as_str(), "/");
    assert_eq!(row.limit_bytes, Observed::Unknown(Reason::NoLimitSet));
    assert_eq!(
        (&row.high_bytes, &row.high_hits),
        (&Observed::Known(Bytes(2000)), &Observed::Known(5))
    );
    assert_eq!(row.used_pct.known().unwrap().get(), 50.0);
    // On the machine itself the root cgroup has no such files.
    let root = cgroups_of(&files[..3], &[], FIRST);
    assert_eq!((&root.limited_total, root.found), (&Observed::Known(0), 2));
}

/// The dearest file of a cgroup is read only of those that can be among the first.
#[test]
fn the_nearest_to_its_limit_is_first_whatever_is_cache() {
    let mut files = vec![V1.0.to_owned()];
    let mut texts = vec![V1.1.to_owned()];
    let mut add = |path: String, text: String| {
        files.push(path);
        texts.push(text);
    };
    for (index, (usage, cache)) in
        [(1000, 900), (990, 100), (980, 970), (700, 0), (600, 0)].into_iter().enumerate()
    {
        add(format!("mem/c{index}/memory.limit_in_bytes"), "1000\n".to_owned());
        add(format!("mem/c{index}/memory.usage_in_bytes"), format!("{usage}\n"));
        // None of the last one, of which none is needed.
        if index < 4 {
            add(format!("mem/c{index}/memory.stat"), format!("inactive_file {cache}\n"));
        }
        add(format!("mem/c{index}/memory.failcnt"), "0\n".to_owned());
    }
    let machine = FakeMachine::new();
    for (path, text) in files.iter().zip(&texts) {
        machine.write_below_root(path, text);
    }
    let context = machine.context();
    let found = cgroups::look(context.root, PLENTY).finish(context.root, 2);
    let paths: Vec<&str> = found.limited.iter().map(|row| row.path.as_str()).collect();
    assert_eq!(paths, ["/c1", "/c3"], "89 % and 70 % of the limit");
    assert_eq!(found.limited_total, Observed::Known(5));
}

#[test]
fn a_walk_that_may_not_go_on_says_how_many_it_did_not_look_at() {
    let machine = machine(&[V1, ("cpu/a/cpu.cfs_quota_us", "-1\n"), ("mem/b/x", "")]);
    let context = machine.context();
    let found = cgroups::look(context.root, Duration::ZERO).finish(context.root, 10);
    assert_eq!((found.found, found.not_looked_at), (2, 2));
    let all = cgroups::look(context.root, PLENTY).finish(context.root, 10);
    assert_eq!((all.found, all.not_looked_at), (4, 0));
}

#[test]
fn a_name_that_is_hostile_is_escaped() {
    let path = "cpu/\u{1b}]0;x\nIGNORE/cpu.stat";
    let files = [
        V1,
        ("cpu/\u{1b}]0;x\nIGNORE/cpu.cfs_quota_us", "10000\n"),
        ("cpu/\u{1b}]0;x\nIGNORE/cpu.cfs_period_us", "100000\n"),
        (path, "nr_periods 1\nnr_throttled 0\nthrottled_time 0\n"),
    ];
    let later = [(path, "nr_periods 3\nnr_throttled 2\nthrottled_time 9000000\n")];
    let found = cgroups_of(&files, &later, FIRST);
    assert_eq!(found.throttled[0].path.as_str(), "/\\x1b]0;x\\nIGNORE");
}

fn pressure(files: &[(&str, &str)]) -> json::Nulls {
    let (report, _) = report_of(&machine(files), &full(), || ());
    json::fields(&AnyReport::HostSnapshot(report)).unwrap().1
}

fn full() -> Request {
    Request { detail: Detail::Full, ..Request::default() }
}

/// Case 15. That the file refuses to be read cannot be built; `proc/pressure.rs` has that case.
#[test]
fn pressure_three_ways() {
    let stat = ("proc/stat", "cpu 1 1 1 1\ncpu0 1 1 1 1\nprocesses 1\n");
    let some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5\n";
    let both = "some avg10=0.00 total=5\nfull avg10=0.00 total=4\n";
    let not_built_in = pressure(&[stat, ("proc/cmdline", "ro quiet\n")]);
    let said = not_built_in.not_measured.get("pressure.io_some_pct").unwrap();
    assert!(said.starts_with("not in this kernel: /proc/pressure"), "{said}");
    let off = pressure(&[stat, ("proc/cmdline", "ro psi=0\n")]);
    let said = off.not_measured.get("pressure.io_some_pct").unwrap();
    assert_eq!(said, "switched off: pressure stall information; remedy: boot with psi=1");
    let old = [
        stat,
        ("proc/pressure/cpu", some),
        ("proc/pressure/io", both),
        ("proc/pressure/memory", both),
    ];
    let (report, _) = report_of(&machine(&old), &full(), || ());
    assert_eq!(report.pressure.cpu_some_pct.known().unwrap().get(), 0.0);
    assert_eq!(report.pressure.io_full_pct.known().unwrap().get(), 0.0);
    assert!(!pressure(&old).not_measured.keys().any(|path| path.starts_with("pressure")));
    // What is measured and 0 is told from all of these.
    assert_eq!(off.not_measured.len(), not_built_in.not_measured.len());
}

/// Case 16: a processor goes off and comes back, and idle time is corrected.
#[test]
fn counters_that_step_back_are_no_time_and_are_counted() {
    let machine = machine(&[(
        "proc/stat",
        "cpu 300 0 0 3000 50 0 0 0\ncpu0 100 0 0 1000 40 0 0 0\ncpu1 200 0 0 2000 10 0 0 0\n\
         ctxt 900\nprocesses 1\nprocs_running 1\n",
    )]);
    let later = [(
        "proc/stat",
        "cpu 160 0 0 1130 20 0 0 0\ncpu0 150 0 0 1050 20 0 0 0\ncpu1 10 0 0 80 0 0 0 0\n\
         ctxt 100\nprocesses 1\nprocs_running 1\n",
    )];
    let (report, _) = report_of(&machine, &full(), || write(&machine, &later));
    // Processor 0 ran for 50 of 100 ticks; nothing that processor 1 counted grew.
    assert_eq!(report.cpu.user_pct.known().unwrap().get(), 50.0);
    assert_eq!(report.cpu.iowait_pct.known().unwrap().get(), 0.0);
    assert_eq!(report.cpu.set_back, Observed::Known(4));
    let answer = json::fields(&AnyReport::HostSnapshot(report)).unwrap().0;
    assert!(!serde_json::to_string(&answer).unwrap().contains("184467440737095"), "{answer:?}");
}

/// Case 43: the wall clock is set, in both directions; every share and rate is as if it was not.
#[test]
fn a_clock_that_is_set_moves_no_number() {
    const SECOND: i128 = 1_000_000_000;
    let stat =
        |ticks: u32| format!("cpu {ticks} 0 0 {ticks}\ncpu0 {ticks} 0 0 {ticks}\nprocesses 1\n");
    let year = 365 * 24 * 3600;
    let steps = [(0, 0), (year, year * 1000), (-year, -year * 1000), (2, 2000)];
    for (step_s, want_ms) in steps {
        let machine = machine(&[("proc/stat", &stat(100))]);
        let context = machine.context();
        let mut first = End::read(context.root);
        machine
            .write("stat", stat(150).replace("processes", &format!("btime {step_s}\nprocesses")));
        let mut last = End::read(context.root);
        (first.at, last.at) = (Duration::from_secs(7), Duration::from_secs(8));
        last.boot_at = first.boot_at + i128::from(step_s) * SECOND;
        let between = Between {
            blocked: Blocked { tasks: 0, not_looked_at: 0, groups: Vec::new() },
            cgroups: cgroups::look(context.root, PLENTY).finish(context.root, 1),
            mounts: mounts::ask(context.root).finish().0,
        };
        let (report, meta) =
            report::assemble(&full(), &first, &last, between, Duration::ZERO, &context);
        assert_eq!(report.clock_step_ms, want_ms, "{step_s} s");
        assert_eq!(meta.window_ms, Some(1000), "{step_s} s");
        assert_eq!(report.cpu.user_pct.known().unwrap().get(), 50.0, "{step_s} s");
    }
}

/// Case 42: forty tasks on a dead mount, processors that do nothing.
#[test]
fn a_load_of_forty_on_idle_processors_is_grouped_by_what_it_waits_in() {
    let machine = FakeMachine::new();
    machine.write("loadavg", "40.02 38.00 20.00 1/300 999\n");
    for pid in 100..140 {
        machine.stat(&pid.to_string(), FakeStat { state: 'D', ..FakeStat::idle(pid, 1) });
        let channel = if pid < 137 { "rpc_wait_bit_killable" } else { "io_schedule" };
        machine.write(&format!("{pid}/task/{pid}/wchan"), channel);
    }
    let (report, meta) = report_of(&machine, &full(), || ());
    assert_eq!(report.blocked.tasks, 40);
    assert_eq!(meta.truncation.total, 2);
    let group: &BlockedGroup = &report.blocked.groups[0];
    assert_eq!(group.channel, Observed::Known(HostText::new(b"rpc_wait_bit_killable")));
    assert_eq!(group.tasks, 37);
}

/// A machine on which everything happens at once, with long names.
fn busy() -> FakeMachine {
    let machine = FakeMachine::new();
    let mut mounts = V1.1.to_owned();
    for index in 0..9 {
        mounts.push_str(&format!(
            "4{index} 1 8:{index} / /var/lib/kubelet/pods/{index}/volumes/kubernetes.io~nfs/data rw \
             - nfs4 server:/export rw\n"
        ));
    }
    machine.write("self/mountinfo", mounts);
    machine.write_below_root("sys/devices/system/cpu/online", "0-63\n");
    for cpu in 0..64 {
        let folder = format!("sys/devices/system/cpu/cpu{cpu}/topology");
        machine.write_below_root(&format!("{folder}/physical_package_id"), "0\n");
        machine.write_below_root(&format!("{folder}/core_id"), format!("{}\n", cpu / 2));
    }
    busy_end(&machine, 1);
    machine
}

fn containers(machine: &FakeMachine, end: u64) {
    let pod = "kubepods.slice/kubepods-burstable.slice/\
               kubepods-burstable-pod0f3e1f0e_9a0a_4a51_bf4e_0123456789ab.slice/cri-containerd-";
    for index in 0..9 {
        let name = format!("{pod}{index}{}.scope", "a".repeat(63));
        let write = |file: String, text: &str| machine.write_below_root(&file, text);
        let (cpu, mem) = (format!("cpu/{name}"), format!("mem/{name}"));
        write(format!("{cpu}/cpu.cfs_quota_us"), "50000\n");
        write(format!("{cpu}/cpu.cfs_period_us"), "100000\n");
        let stopped = format!(
            "nr_periods {}\nnr_throttled {}\nthrottled_time {}\n",
            end * 10,
            end * 3,
            end * 234_567_890
        );
        write(format!("{cpu}/cpu.stat"), &stopped);
        write(format!("{mem}/memory.limit_in_bytes"), "1073741824\n");
        write(format!("{mem}/memory.usage_in_bytes"), "773676288\n");
        write(format!("{mem}/memory.stat"), "total_inactive_file 4096\n");
        write(format!("{mem}/memory.failcnt"), &format!("{}\n", end * 31_415));
        write(format!("{mem}/memory.oom_control"), "oom_kill 0\n");
    }
}

/// The counters of a busy machine at one end of the window.
fn busy_end(machine: &FakeMachine, end: u64) {
    containers(machine, end);
    let per_s = |rate: u64| end * rate;
    let cpu = format!(
        "{} 0 {} {} {} 0 {} {}",
        per_s(4413),
        per_s(912),
        per_s(333),
        per_s(517),
        per_s(211),
        per_s(37)
    );
    machine.write(
        "stat",
        format!("cpu {cpu}\ncpu0 {cpu}\nctxt {}\nprocesses 1\nprocs_running 121\n", per_s(251_847)),
    );
    machine.write("loadavg", "117.43 98.00 20.00 1/300 999\n");
    for (resource, us) in [("cpu", 812_345), ("io", 456_789), ("memory", 34_567)] {
        let (some, full) = (per_s(us), per_s(us / 3));
        machine.write(
            &format!("pressure/{resource}"),
            format!("some avg10=0.00 total={some}\nfull avg10=0.00 total={full}\n"),
        );
    }
    machine.write(
        "meminfo",
        "MemTotal: 528123456 kB\nMemAvailable: 12345678 kB\nDirty: 1234567 kB\n\
         SwapTotal: 0 kB\nSwapFree: 0 kB\n",
    );
    machine.write(
        "vmstat",
        format!("pswpin 0\npswpout 0\npgmajfault {}\npgscan_direct 0\noom_kill 3\n", per_s(311)),
    );
    let disks = ["nvme0n1", "nvme1n1", "dm-12"].map(|disk| {
        format!(
            "8 0 {disk} {} 0 {} {} {} 0 {} {} 9 0 {}\n",
            per_s(2218),
            per_s(512_818),
            per_s(3119),
            per_s(914),
            per_s(91_812),
            per_s(4411),
            per_s(7713)
        )
    });
    machine.write("diskstats", disks.concat());
    let (bytes, packets) = (per_s(118_412_777), per_s(91_323));
    let interface = |name: &str| {
        format!("{name}: {bytes} {packets} 0 0 0 0 0 0 {bytes} {packets} 0 0 0 0 0 0\n")
    };
    let interfaces = ["cali0123456789a", "eth0", "lo"].map(interface).concat();
    machine.write("net/dev", format!("Inter-|\n face |\n{interfaces}"));
    let (sent, again) = (per_s(81_315), per_s(13));
    machine.write(
        "net/snmp",
        format!("Tcp: CurrEstab OutSegs RetransSegs\nTcp: 5432 {sent} {again}\n"),
    );
    machine.write("net/netstat", "TcpExt: ListenDrops TCPBacklogDrop\nTcpExt: 0 0\n");
    machine.write("net/sockstat", "TCP: inuse 5 orphan 0 tw 28231 alloc 6 mem 1\n");
    for pid in 200..206 {
        machine.stat(&pid.to_string(), FakeStat { state: 'D', ..FakeStat::idle(pid, 1) });
        machine.write(&format!("{pid}/task/{pid}/wchan"), "jbd2_log_wait_commit");
    }
}

/// With what is concluded from it, a brief answer keeps to its size also where all is wrong at once;
/// and what goes is said.
#[test]
fn a_brief_answer_is_short_on_a_machine_on_which_everything_happens() {
    let machine = busy();
    let request = Request::default();
    let (report, meta) = report_of(&machine, &request, || busy_end(&machine, 2));
    let bytes =
        json::bytes(&AnyReport::HostSnapshot(report.clone()), &meta) - json::ROOM_FOR_CONCLUSIONS;
    assert!(bytes <= BRIEF_BYTES - CONCLUSION_BYTES, "{bytes} bytes: {report:?}");
    assert_eq!(meta.truncation.cut_by, CutBy::AnswerBytes);
    assert!(meta.truncation.total > meta.truncation.shown, "{:?}", meta.truncation);
    // What was waited for most stays.
    assert_eq!((report.blocked.groups.len(), report.disks.len()), (1, 1), "{report:?}");
    // Without pressure there are reasons instead of numbers.
    let (report, meta) = report_of(&machine, &request, || {
        busy_end(&machine, 3);
        machine.remove("pressure");
    });
    let bytes = json::bytes(&AnyReport::HostSnapshot(report), &meta) - json::ROOM_FOR_CONCLUSIONS;
    assert!(bytes <= BRIEF_BYTES - CONCLUSION_BYTES, "{bytes} bytes without pressure");
    // All of it is there for whoever asks.
    let request = Request { limit: 100, ..full() };
    let (report, meta) = report_of(&machine, &request, || ());
    assert_eq!(meta.truncation.cut_by, CutBy::Nothing, "{:?}", meta.truncation);
    assert_eq!(report.cgroups.limited.len(), 9);
}
