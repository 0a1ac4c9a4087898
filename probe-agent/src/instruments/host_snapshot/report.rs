//! Both ends of the window, as a report.

use super::{
    end::{End, TcpCounters},
    fit,
};
use crate::{
    call::Context,
    instruments::window::{Window, growth},
    order,
    proc::{
        Root,
        diskstats::{self, DiskStat, SECTOR_BYTES},
        host_stat::HostStat,
        loadavg,
        net_dev::InterfaceStat,
        pressure::Stalled,
        topology,
    },
};
use protocol::{
    host_text::HostText,
    instruments::host_snapshot::{
        Blocked, Cgroups, Cpu, Disk, Interface, Memory, Mounts, Pressure, Report, Request, Tcp,
    },
    loss::{Lost, Overhead, Truncation},
    message::{Engine, Meta},
    observed::{Feature, Nature, Observed, Reason},
    units::{Bytes, Percent},
};
use std::time::Duration;

/// What was looked at between the two ends.
pub(super) struct Between {
    pub(super) blocked: Blocked,
    pub(super) cgroups: Cgroups,
    pub(super) mounts: Mounts,
}

/// Puts the report together. `asking` is the processor time that other threads used.
pub(super) fn assemble(
    request: &Request,
    first: &End,
    last: &End,
    between: Between,
    asking: Duration,
    context: &Context<'_>,
) -> (Report, Meta) {
    let ends = Ends { first, last, window: Window::between(first.at, last.at) };
    let Between { blocked, cgroups, mounts } = between;
    let (disks, interfaces) = (ends.disks(context.root), ends.interfaces());
    let report = Report {
        cpu: ends.cpu(context.root),
        pressure: ends.pressure(),
        memory: ends.memory(context.root.page_bytes()),
        disks_total: ends.disks_total(context.root),
        disks,
        interfaces_total: ends.interfaces_total(),
        interfaces,
        tcp: ends.tcp(),
        blocked,
        cgroups,
        mounts,
        clock_step_ms: (context.root.has_two_instants())
            .map(|()| clock_step_ms(first.boot_at, last.boot_at, ends.window))
            .into(),
        detail: request.detail,
    };
    let overhead = || {
        let own = context.overhead();
        Overhead { agent_cpu_ms: own.agent_cpu_ms + asking.as_micros() as f64 / 1000.0, ..own }
    };
    let meta = Meta {
        engine: Engine::Procfs,
        window_ms: Some(ends.window.millis()),
        truncation: Truncation::none(0),
        artifact: None,
        lost: Lost::default(),
        overhead: overhead(),
        redacted: 0,
    };
    let (report, mut meta) = fit::fit(report, meta, request.limit, context.budget.answer_bytes);
    meta.overhead = overhead();
    (report, meta)
}

/// Both ends of the window.
struct Ends<'e> {
    first: &'e End,
    last: &'e End,
    window: Window,
}

impl Ends<'_> {
    fn cpu(&self, root: &Root) -> Cpu {
        let topology = topology::read(root);
        let both = self.last.stat.clone().zip(self.first.stat.clone());
        let delta: Observed<HostStat> = both.map(|(now, before)| now.since(&before));
        let share =
            |ticks: fn(&HostStat) -> u64| delta.clone().and_then(|delta| delta.share(ticks));
        let lacks = || Reason::KernelLacks(Feature::Field);
        Cpu {
            // Where /sys does not tell, /proc does; of the kernel's own processors, not of a
            // container's.
            online: match topology.online {
                Observed::Known(online) => Observed::Known(online),
                Observed::Unknown(_) => self.last.stat.clone().map(|now| now.cpus),
            },
            cores: topology.cores,
            sockets: topology.sockets,
            user_pct: share(|delta| delta.user_ticks.saturating_add(delta.nice_ticks)),
            system_pct: share(|delta| delta.system_ticks),
            interrupts_pct: share(|delta| delta.irq_ticks.saturating_add(delta.softirq_ticks)),
            steal_pct: share(|delta| delta.steal_ticks),
            iowait_pct: share(|delta| delta.iowait_ticks),
            set_back: delta.clone().map(|delta| delta.set_back),
            runnable: (self.last.stat.clone())
                .and_then(|now| now.runnable.ok_or_else(lacks))
                .map(|tasks| u32::try_from(tasks).unwrap_or(u32::MAX)),
            switches_per_s: self
                .window
                .rate(delta.and_then(|delta| delta.switches.ok_or_else(lacks))),
            load_1m: load(root),
        }
    }

    fn pressure(&self) -> Pressure {
        let (first, last) = (self.first, self.last);
        Pressure {
            cpu_some_pct: self.some(&last.cpu, &first.cpu),
            io_some_pct: self.some(&last.io, &first.io),
            io_full_pct: self.full(&last.io, &first.io),
            memory_some_pct: self.some(&last.memory, &first.memory),
            memory_full_pct: self.full(&last.memory, &first.memory),
        }
    }

    fn some(&self, now: &Observed<Stalled>, before: &Observed<Stalled>) -> Observed<Percent> {
        let both = now.clone().zip(before.clone());
        both.and_then(|(now, before)| self.stalled(now.some, before.some))
    }

    fn full(&self, now: &Observed<Stalled>, before: &Observed<Stalled>) -> Observed<Percent> {
        now.clone().zip(before.clone()).and_then(|(now, before)| {
            let both = now.full.zip(before.full);
            let (now, before) = both.ok_or(Reason::KernelLacks(Feature::Field))?;
            self.stalled(now, before)
        })
    }

    fn stalled(&self, now: Duration, before: Duration) -> Result<Percent, Reason> {
        self.window.share(now.checked_sub(before).ok_or(Reason::SteppedBack)?)
    }

    fn memory(&self, page_bytes: u64) -> Memory {
        let amounts = &self.last.amounts;
        let (now, before) = (&self.last.reclaim, &self.first.reclaim);
        let swap = amounts.swap_total.clone().zip(amounts.swap_free.clone());
        let pages = |now: &Observed<u64>, before: &Observed<u64>| {
            self.window.rate(growth(now, before).map(|pages| pages.saturating_mul(page_bytes)))
        };
        Memory {
            total_bytes: amounts.total.clone(),
            available_bytes: amounts.available.clone(),
            dirty_bytes: amounts.dirty.clone(),
            swap_used_bytes: swap.map(|(total, free)| Bytes(total.0.saturating_sub(free.0))),
            swap_total_bytes: amounts.swap_total.clone(),
            swap_in_bytes_per_s: pages(&now.swapped_in, &before.swapped_in),
            swap_out_bytes_per_s: pages(&now.swapped_out, &before.swapped_out),
            major_faults_per_s: self.window.rate(growth(&now.major_faults, &before.major_faults)),
            direct_reclaim_bytes_per_s: pages(&now.direct_scans, &before.direct_scans),
            oom_kills: growth(&now.oom_kills, &before.oom_kills),
        }
    }

    /// How many disks ever did anything.
    fn disks_total(&self, root: &Root) -> Observed<u32> {
        self.last.disks.clone().map(|now| {
            let disks = diskstats::disks(now.keys().map(Vec::as_slice), root);
            let used = disks.into_iter().filter_map(|name| now.get(name));
            count(used.filter(|stat| **stat != DiskStat::default()).count())
        })
    }

    /// How many interfaces ever moved anything.
    fn interfaces_total(&self) -> Observed<u32> {
        self.last.interfaces.clone().map(|now| {
            count(now.values().filter(|stat| **stat != InterfaceStat::default()).count())
        })
    }

    /// The disks that ever did anything, the longest queue first.
    fn disks(&self, root: &Root) -> Vec<Disk> {
        let both = self.last.disks.clone().zip(self.first.disks.clone());
        let Observed::Known((now, before)) = both else { return Vec::new() };
        let mut disks: Vec<Disk> = diskstats::disks(now.keys().map(Vec::as_slice), root)
            .into_iter()
            // A disk that was not there before has no difference.
            .filter_map(|name| Some((name, now.get(name)?, before.get(name)?)))
            .filter(|(_, stat, _)| **stat != DiskStat::default())
            .map(|(name, stat, before)| self.disk(name, &stat.since(before)))
            .collect();
        order::by(&mut disks, |left, right| right.queue.total_cmp(&left.queue));
        disks
    }

    fn disk(&self, name: &[u8], delta: &DiskStat) -> Disk {
        let sectors = |sectors: u64| self.window.per_second(sectors.saturating_mul(SECTOR_BYTES));
        let latency = |ms: u64, requests: u64| {
            if requests == 0 {
                Observed::Unknown(Reason::DoesNotApply(Nature::NoRequests))
            } else {
                Observed::Known(hundredths(ms as f64 / requests as f64))
            }
        };
        let window_ms = self.window.length().as_secs_f64() * 1000.0;
        let queue = if window_ms > 0.0 { delta.queue_ms as f64 / window_ms } else { 0.0 };
        Disk {
            name: HostText::new(name),
            reads_per_s: self.window.per_second(delta.reads),
            writes_per_s: self.window.per_second(delta.writes),
            read_bytes_per_s: sectors(delta.read_sectors),
            write_bytes_per_s: sectors(delta.write_sectors),
            read_ms: latency(delta.read_ms, delta.reads),
            write_ms: latency(delta.write_ms, delta.writes),
            queue: hundredths(queue),
        }
    }

    /// The interfaces that ever moved anything, those that moved most first.
    fn interfaces(&self) -> Vec<Interface> {
        let both = self.last.interfaces.clone().zip(self.first.interfaces.clone());
        let Observed::Known((now, before)) = both else { return Vec::new() };
        let mut moved: Vec<(&Vec<u8>, InterfaceStat)> = now
            .iter()
            .filter(|(_, stat)| **stat != InterfaceStat::default())
            .filter_map(|(name, stat)| Some((name, stat.since(before.get(name)?))))
            .collect();
        order::by_key(&mut moved, |(_, delta)| {
            std::cmp::Reverse(delta.received_bytes.saturating_add(delta.sent_bytes))
        });
        let interface = |(name, delta): (&Vec<u8>, InterfaceStat)| Interface {
            name: HostText::new(name),
            received_bytes_per_s: self.window.per_second(delta.received_bytes),
            sent_bytes_per_s: self.window.per_second(delta.sent_bytes),
            lost_per_s: self.window.per_second(delta.lost),
        };
        moved.into_iter().map(interface).collect()
    }

    fn tcp(&self) -> Tcp {
        let (now, before) = (&self.last.tcp, &self.first.tcp);
        let rate = |counter: fn(&TcpCounters) -> &Observed<u64>| {
            self.window.rate(growth(counter(now), counter(before)))
        };
        Tcp {
            established: now.established.clone(),
            time_wait: now.time_wait.clone(),
            segments_sent_per_s: rate(|tcp| &tcp.sent),
            retransmitted_per_s: rate(|tcp| &tcp.retransmitted),
            listen_drops_per_s: rate(|tcp| &tcp.listen_drops),
            backlog_drops_per_s: rate(|tcp| &tcp.backlog_drops),
        }
    }
}

/// How far the wall clock moved against the one that cannot be set, by when it says at both ends
/// that the machine started. Time servers keep a clock by making it faster or slower by up to half a
/// thousandth; that is no step.
fn clock_step_ms(first_ns: i128, last_ns: i128, window: Window) -> i64 {
    const SLEWED: i128 = 1000;
    let moved_ns = last_ns - first_ns;
    let window_ns = i128::try_from(window.length().as_nanos()).unwrap_or(i128::MAX);
    // Reading two clocks one after the other takes time too.
    let noise_ns = window_ns / SLEWED + 1_000_000;
    if moved_ns.abs() <= noise_ns {
        0
    } else {
        i64::try_from(moved_ns / 1_000_000).unwrap_or(i64::MAX)
    }
}

fn count(entries: usize) -> u32 {
    u32::try_from(entries).unwrap_or(u32::MAX)
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// The load average of the last minute.
fn load(root: &Root) -> Observed<f64> {
    let mut text = Vec::new();
    let read = root.read_proc("loadavg", &mut text);
    let parsed = read.map_err(|error| error.reason_of_file(Feature::Field)).and_then(|()| {
        loadavg::parse_last_minute(&text)
            .ok_or_else(|| Reason::NotUnderstood(crate::proc::host_text(&text)))
    });
    parsed.into()
}
