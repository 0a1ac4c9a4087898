//! A process blocked in fsync, as the example of its instrument.

use super::{
    Cgroup, Cpu, Descriptors, HostContext, Identity, Io, Memory, Report, State, ThreadRow,
    Throttling, WaitGroup, WaitKind, Waits,
};
use crate::{
    host_text::HostText,
    observed::{Nature, Observed, Reason, Switch},
    units::{Bytes, PerSecond, Percent},
};
use std::time::Duration;

fn percent(part: f64) -> Percent {
    Percent::of(part, 100.0).unwrap_or_default()
}

fn rate(growth: u64) -> PerSecond {
    PerSecond::over(growth, Duration::from_secs(1)).unwrap_or_default()
}

pub(super) fn report() -> Report {
    Report {
        process: identity(),
        cpu: cpu(),
        waits: Waits {
            samples: 24,
            threads_sampled: 1,
            threads_total: 1,
            threads_never_sampled: 0,
            groups_total: 1,
            groups: vec![WaitGroup {
                kind: WaitKind::Storage,
                state: State::UninterruptibleSleep,
                channel: Observed::Known(HostText::new(b"jbd2_log_wait_commit")),
                syscall: Observed::Known(HostText::new(b"fsync")),
                threads: 1,
                share_pct: percent(91.7),
                blocked_pct: Observed::Known(percent(73.0)),
            }],
        },
        threads: vec![ThreadRow {
            tid: 4711,
            name: HostText::new(b"journal"),
            state: State::UninterruptibleSleep,
            running_pct: Observed::Known(percent(24.1)),
            run_delay_pct: Observed::Known(percent(2.9)),
            switches_per_s: Observed::Known(rate(4_312)),
            mostly: Observed::Known(WaitKind::Storage),
        }],
        memory: memory(),
        io: Io {
            read_calls_bytes_per_s: Observed::Known(rate(0)),
            write_calls_bytes_per_s: Observed::Known(rate(107_800)),
            storage_read_bytes_per_s: Observed::Known(rate(0)),
            storage_write_bytes_per_s: Observed::Known(rate(17_661_952)),
            read_calls_per_s: Observed::Known(rate(0)),
            write_calls_per_s: Observed::Known(rate(4_312)),
        },
        descriptors: Descriptors {
            open: Observed::Known(4),
            growth: Observed::Known(0),
            limit: Observed::Known(1024),
        },
        cgroup: cgroup(),
        host: HostContext {
            cpus: Observed::Known(2),
            cpu_busy_pct: Observed::Known(percent(31.0)),
            cpu_pressure_pct: Observed::Known(percent(4.2)),
            io_pressure_pct: Observed::Known(percent(60.3)),
            memory_pressure_pct: Observed::Known(percent(0.0)),
        },
    }
}

fn identity() -> Identity {
    Identity {
        pid: 4711,
        start_ticks: 88_210,
        parent_pid: 1,
        name: HostText::new(b"journal"),
        command: Observed::Known(HostText::new(b"/srv/app/journal /var/lib/app/log")),
        user: Observed::Known(HostText::new(b"app")),
        service: Observed::Known(HostText::new(b"app.service")),
        container: Observed::Unknown(Reason::DoesNotApply(Nature::NotInContainer)),
        is_kernel_thread: false,
        state: State::UninterruptibleSleep,
        threads: 1,
        age_s: Observed::Known(86_400),
    }
}

fn cpu() -> Cpu {
    Cpu {
        user_pct: Observed::Known(percent(3.0)),
        system_pct: Observed::Known(percent(21.0)),
        running_pct: Observed::Known(percent(24.1)),
        run_delay_pct: Observed::Known(percent(2.9)),
        run_delay_at_least_pct: Observed::Known(percent(2.9)),
        busiest_thread_running_pct: Observed::Known(percent(24.0)),
        busiest_thread_blocked_pct: Observed::Known(percent(73.0)),
        children_at_most_pct: Observed::Known(percent(0.0)),
        voluntary_switches_per_s: Observed::Known(rate(4_310)),
        involuntary_switches_per_s: Observed::Known(rate(2)),
        block_delay_pct: Observed::Unknown(Reason::SwitchedOff(Switch::DelayAccounting)),
    }
}

fn memory() -> Memory {
    Memory {
        rss_bytes: Observed::Known(Bytes(1_380_352)),
        anonymous_bytes: Observed::Known(Bytes(94_208)),
        file_bytes: Observed::Known(Bytes(1_286_144)),
        shared_bytes: Observed::Known(Bytes(0)),
        swap_bytes: Observed::Known(Bytes(0)),
        anonymous_growth_bytes_per_s: Observed::Known(0),
        minor_faults_per_s: Observed::Known(rate(0)),
        major_faults_per_s: Observed::Known(rate(0)),
    }
}

fn cgroup() -> Cgroup {
    Cgroup {
        path: Observed::Known(HostText::new(b"/system.slice/app.service")),
        cpu_quota_cores: Observed::Known(0.5),
        throttling: Observed::Known(Throttling {
            periods: 10,
            throttled_periods: 0,
            throttled_ms: 0,
        }),
        memory_bytes: Observed::Known(Bytes(12_582_912)),
        working_set_bytes: Observed::Known(Bytes(2_097_152)),
        memory_limit_bytes: Observed::Unknown(Reason::NoLimitSet),
        memory_limit_hits: Observed::Known(0),
        oom_kills: Observed::Known(0),
    }
}
