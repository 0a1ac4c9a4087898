//! The rules, one for each class.

mod cgroups;
mod mounts;

use super::Class;
use crate::verdict::finding::Finding;
use protocol::{
    instruments::host_snapshot::{Disk, Report},
    observed::{Observed, Reason},
    units::Percent,
};

/// A rule looks at a report and says what it found.
pub(super) type Rule = fn(&Report) -> Finding;

/// The more specific first.
pub(super) const ALL: [(Class, Rule); 12] = [
    (Class::MountHangs, mounts::hang),
    (Class::Stolen, stolen),
    (Class::CgroupThrottled, cgroups::throttled),
    (Class::CgroupMemoryShort, cgroups::memory_short),
    (Class::MemoryShort, memory_short),
    (Class::StorageSlow, storage_slow),
    (Class::TasksBlocked, tasks_blocked),
    (Class::CpuSaturated, cpu_saturated),
    (Class::NetworkLosing, network_losing),
    (Class::FileSystemFull, mounts::full),
    (Class::ClockStepped, clock_stepped),
    (Class::NotShort, not_short),
];

/// Share of the window that is worth a class of its own, in percent.
const WORTH_NAMING_PCT: f64 = 10.0;

const fn fails() -> Finding {
    Finding::Fails { evidence: None }
}

/// A share that makes the class by itself.
fn by_share(share: &Observed<Percent>, evidence: impl FnOnce(f64) -> String) -> Finding {
    match share {
        Observed::Known(share) if share.get() >= WORTH_NAMING_PCT => {
            Finding::Holds { weight: share.get().min(100.0), evidence: evidence(share.get()) }
        }
        Observed::Known(_) => fails(),
        Observed::Unknown(reason) => cannot_tell(reason),
    }
}

fn cannot_tell(reason: &Reason) -> Finding {
    Finding::CannotTell { reason: reason.to_string() }
}

fn stolen(report: &Report) -> Finding {
    by_share(&report.cpu.steal_pct, |share| {
        format!("the hypervisor took {share:.0} % of the processors' time for other machines")
    })
}

fn memory_short(report: &Report) -> Finding {
    let memory = &report.memory;
    by_share(&report.pressure.memory_some_pct, |share| {
        let rate = |value: &Observed<protocol::units::PerSecond>| match value {
            Observed::Known(rate) => protocol::view::quantity::byte_rate_with_unit(*rate),
            Observed::Unknown(_) => "an unknown rate".to_owned(),
        };
        format!(
            "some task waited for memory for {share:.0} % of the window; read back from swap: {}, \
             looked through before a task got some: {}",
            rate(&memory.swap_in_bytes_per_s),
            rate(&memory.direct_reclaim_bytes_per_s)
        )
    })
}

fn storage_slow(report: &Report) -> Finding {
    let found = by_share(&report.pressure.io_some_pct, |share| {
        let all = match &report.pressure.io_full_pct {
            Observed::Known(all) => format!(", all of them for {:.0} %", all.get()),
            Observed::Unknown(_) => String::new(),
        };
        let disk = report.disks.first().map(disk_line).unwrap_or_default();
        format!("some task waited for storage for {share:.0} % of the window{all}{disk}")
    });
    match found.clone() {
        // What does not answer at all is not slow; that the tasks hang says more.
        Finding::Holds { weight, evidence } if is_storage_dead(report) => {
            Finding::Holds { weight: weight.min(50.0), evidence }
        }
        Finding::Holds { .. } | Finding::Fails { .. } | Finding::CannotTell { .. } => found,
    }
}

/// Whether requests are under way, and none completed in the window.
fn is_storage_dead(report: &Report) -> bool {
    let is_any_done = report
        .disks
        .iter()
        .any(|disk| disk.reads_per_s.get() > 0.0 || disk.writes_per_s.get() > 0.0);
    !is_any_done && report.disks.iter().any(|disk| disk.queue > 0.0)
}

/// The numbers of the disk with the longest queue. What it is called is text of the target, and
/// stands in `disks`.
fn disk_line(disk: &Disk) -> String {
    let mut line = format!("; first disk: {:.1} requests under way", disk.queue);
    for (latency, what) in [(&disk.read_ms, "a read"), (&disk.write_ms, "a write")] {
        if let Observed::Known(ms) = latency {
            line.push_str(&format!(", {ms} ms for {what}"));
        }
    }
    line
}

/// Tasks hang where neither storage nor memory has them wait by the kernel's account: on a network
/// file system that does not answer, or on a lock of the kernel.
fn tasks_blocked(report: &Report) -> Finding {
    const MANY: u32 = 4;
    let tasks = match &report.blocked.tasks {
        Observed::Known(tasks) => *tasks,
        Observed::Unknown(reason) => return cannot_tell(reason),
    };
    if tasks < MANY {
        return match report.blocked.not_looked_at {
            0 => fails(),
            hidden => Finding::CannotTell { reason: format!("{hidden} tasks were not looked at") },
        };
    }
    let storage = report.pressure.io_some_pct.known().map_or(0.0, |share| share.get());
    // Blocked on storage that answers is the storage's class.
    let is_storages = storage >= WORTH_NAMING_PCT && !is_storage_dead(report);
    let weight = if is_storages { WORTH_NAMING_PCT } else { 90.0 };
    let load = match &report.cpu.load_1m {
        Observed::Known(load) => format!(" (load {load:.2})"),
        Observed::Unknown(_) => String::new(),
    };
    let most = match report.blocked.groups.as_slice() {
        [] => String::new(),
        [first, ..] => format!(", {} of them in the same place", first.tasks),
    };
    Finding::Holds {
        weight,
        evidence: format!("{tasks} tasks wait deaf to signals{load}{most}: see `blocked`"),
    }
}

fn clock_stepped(report: &Report) -> Finding {
    const WEIGHT: f64 = 20.0;
    match &report.clock_step_ms {
        Observed::Known(0) => fails(),
        Observed::Known(step_ms) => Finding::Holds {
            weight: WEIGHT,
            evidence: format!(
                "the wall clock was set by {step_ms} ms in the window, which no number here depends on"
            ),
        },
        Observed::Unknown(reason) => cannot_tell(reason),
    }
}

/// Waiting for a processor while some are idle is a quota's doing, or that of a task which may run
/// on few: not the machine's.
fn cpu_saturated(report: &Report) -> Finding {
    const BUSY_PCT: f64 = 85.0;
    let cpu = &report.cpu;
    let busy = cpu
        .user_pct
        .clone()
        .zip(cpu.system_pct.clone())
        .zip(cpu.interrupts_pct.clone())
        .map(|((user, system), interrupts)| user.get() + system.get() + interrupts.get());
    let busy = match busy {
        Observed::Known(busy) => busy,
        Observed::Unknown(reason) => return cannot_tell(&reason),
    };
    let share = match &report.pressure.cpu_some_pct {
        Observed::Known(share) => share.get(),
        Observed::Unknown(reason) => {
            return Finding::CannotTell {
                reason: format!(
                    "its processors are {busy:.0} % busy; whether tasks wait: {reason}"
                ),
            };
        }
    };
    if share < WORTH_NAMING_PCT {
        return fails();
    }
    let numbers = format!(
        "some task waited for a processor for {share:.0} % of the window; they are {busy:.0} % busy"
    );
    if busy < BUSY_PCT {
        return Finding::Fails { evidence: Some(format!("not short of processors: {numbers}")) };
    }
    Finding::Holds { weight: share, evidence: numbers }
}

fn network_losing(report: &Report) -> Finding {
    const AGAIN_PCT: f64 = 2.0;
    let tcp = &report.tcp;
    let rate =
        |value: &Observed<protocol::units::PerSecond>| value.known().map_or(0.0, |rate| rate.get());
    let (sent, again) = (rate(&tcp.segments_sent_per_s), rate(&tcp.retransmitted_per_s));
    let drops = rate(&tcp.listen_drops_per_s);
    let again_pct = if sent > 0.0 { again / sent * 100.0 } else { 0.0 };
    if drops > 0.0 {
        return Finding::Holds {
            weight: 60.0,
            evidence: format!("listeners dropped {drops:.1} connections/s: their queues are full"),
        };
    }
    if again_pct >= AGAIN_PCT && again >= 1.0 {
        return Finding::Holds {
            weight: (again_pct * 5.0).min(60.0),
            evidence: format!("{again_pct:.1} % of the segments that TCP sent were sent again"),
        };
    }
    fails()
}

/// Only where nothing else holds, and where all that could be was measured.
fn not_short(report: &Report) -> Finding {
    let pressure = &report.pressure;
    let shares = [&pressure.cpu_some_pct, &pressure.io_some_pct, &pressure.memory_some_pct];
    if shares.iter().any(|share| share.known().is_none()) {
        return fails();
    }
    Finding::Holds {
        weight: 1.0,
        evidence: "no task had to wait for long for a processor, for storage or for memory"
            .to_owned(),
    }
}
