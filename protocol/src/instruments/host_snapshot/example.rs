//! A machine whose disk is slow, as the example of its instrument.

use super::{
    Blocked, BlockedGroup, CgroupVersion, Cgroups, Cpu, Detail, Disk, Interface, LimitedCgroup,
    Memory, Mount, MountAnswer, Mounts, Pressure, Report, Tcp, ThrottledCgroup,
};
use crate::{
    host_text::HostText,
    observed::{Nature, Observed, Reason},
    units::{Bytes, PerSecond, Percent},
};
use std::time::Duration;

fn percent(part: f64) -> Observed<Percent> {
    Observed::Known(Percent::of(part, 100.0).unwrap_or_default())
}

fn rate(growth: u64) -> PerSecond {
    PerSecond::over(growth, Duration::from_secs(1)).unwrap_or_default()
}

fn known(growth: u64) -> Observed<PerSecond> {
    Observed::Known(rate(growth))
}

pub(super) fn report() -> Report {
    Report {
        cpu: Cpu {
            online: Observed::Known(2),
            cores: Observed::Known(2),
            sockets: Observed::Known(1),
            user_pct: percent(2.1),
            system_pct: percent(3.4),
            interrupts_pct: percent(0.2),
            steal_pct: percent(0.0),
            iowait_pct: percent(71.3),
            set_back: Observed::Known(0),
            runnable: Observed::Known(1),
            switches_per_s: known(1_840),
            load_1m: Observed::Known(4.12),
        },
        pressure: Pressure {
            cpu_some_pct: percent(0.4),
            io_some_pct: percent(93.1),
            io_full_pct: percent(88.0),
            memory_some_pct: percent(0.0),
            memory_full_pct: percent(0.0),
        },
        memory: memory(),
        disks: vec![Disk {
            name: HostText::new(b"vda"),
            reads_per_s: rate(0),
            writes_per_s: rate(118),
            read_bytes_per_s: rate(0),
            write_bytes_per_s: rate(966_656),
            read_ms: Observed::Unknown(Reason::DoesNotApply(Nature::NoRequests)),
            write_ms: Observed::Known(33.4),
            queue: 3.94,
        }],
        disks_total: Observed::Known(1),
        interfaces: vec![Interface {
            name: HostText::new(b"eth0"),
            received_bytes_per_s: rate(18_204),
            sent_bytes_per_s: rate(240_118),
            lost_per_s: rate(0),
        }],
        interfaces_total: Observed::Known(2),
        tcp: Tcp {
            established: Observed::Known(42),
            time_wait: Observed::Known(7),
            segments_sent_per_s: known(310),
            retransmitted_per_s: known(0),
            listen_drops_per_s: known(0),
            backlog_drops_per_s: known(0),
        },
        blocked: Blocked {
            tasks: Observed::Known(4),
            not_looked_at: 0,
            groups: vec![BlockedGroup {
                channel: Observed::Known(HostText::new(b"jbd2_log_wait_commit")),
                tasks: 4,
                pid: 4711,
                name: HostText::new(b"journal"),
            }],
        },
        cgroups: cgroups(),
        mounts: mounts(),
        clock_step_ms: Observed::Known(0),
        detail: Detail::Full,
    }
}

fn cgroups() -> Cgroups {
    Cgroups {
        version: Observed::Known(CgroupVersion::V2),
        found: 61,
        not_looked_at: 0,
        throttled_total: Observed::Known(1),
        throttled: vec![ThrottledCgroup {
            path: HostText::new(b"/system.slice/backup.service"),
            quota_cores: 0.5,
            periods: 10,
            throttled_pct: Percent::of(1.0, 10.0).unwrap_or_default(),
            throttled_ms: 31,
        }],
        limited_total: Observed::Known(1),
        limited: vec![LimitedCgroup {
            path: HostText::new(b"/system.slice/shop.service"),
            limit_bytes: Observed::Known(Bytes(536_870_912)),
            high_bytes: Observed::Unknown(Reason::NoLimitSet),
            working_set_bytes: Observed::Known(Bytes(161_480_704)),
            cache_bytes: Observed::Known(Bytes(318_767_104)),
            used_pct: percent(30.1),
            limit_hits: Observed::Known(0),
            high_hits: Observed::Known(0),
            oom_kills: Observed::Known(0),
        }],
    }
}

fn mounts() -> Mounts {
    Mounts {
        total: Observed::Known(2),
        no_answer_total: 0,
        not_asked: 0,
        ranked: vec![Mount {
            path: HostText::new(b"/"),
            kind: HostText::new(b"ext4"),
            answer: MountAnswer::Answered,
            errno: 0,
            waited_ms: 0,
            used_pct: percent(61.2),
            inodes_used_pct: percent(8.4),
        }],
    }
}

fn memory() -> Memory {
    Memory {
        total_bytes: Observed::Known(Bytes(4_123_168_768)),
        available_bytes: Observed::Known(Bytes(2_814_750_720)),
        dirty_bytes: Observed::Known(Bytes(12_582_912)),
        swap_used_bytes: Observed::Known(Bytes(0)),
        swap_total_bytes: Observed::Known(Bytes(0)),
        swap_in_bytes_per_s: known(0),
        swap_out_bytes_per_s: known(0),
        major_faults_per_s: known(0),
        direct_reclaim_bytes_per_s: known(0),
        oom_kills: Observed::Known(0),
    }
}
