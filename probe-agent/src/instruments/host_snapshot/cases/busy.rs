//! How much a brief answer says where there is much to say.

use super::{V1, full, report_of};
use crate::instruments::fake::{FakeMachine, FakeStat};
use protocol::{
    Report as AnyReport,
    instruments::host_snapshot::{BRIEF_BYTES, CONCLUSION_BYTES, Request},
    loss::CutBy,
    view::json,
};

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
