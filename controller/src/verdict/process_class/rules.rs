//! The rules, one for each class.

use super::{Class, Finding};
use protocol::{
    instruments::process_inspect::{Report, WaitKind},
    observed::Observed,
    units::PerSecond,
    view::quantity,
};

/// A rule looks at a report and says what it found.
pub(super) type Rule = fn(&Report) -> Finding;

/// The more specific first.
pub(super) const ALL: [(Class, Rule); 10] = [
    (Class::OutOfDescriptors, out_of_descriptors),
    (Class::Throttled, throttled),
    (Class::Starved, starved),
    (Class::MemoryBound, memory_bound),
    (Class::BlockedOnIo, blocked_on_io),
    (Class::BlockedOnLock, blocked_on_lock),
    (Class::UserCpu, user_cpu),
    (Class::SystemCpu, system_cpu),
    (Class::Sleeping, sleeping),
    (Class::Idle, idle),
];

fn fails() -> Finding {
    Finding::Fails { evidence: None }
}

fn out_of_descriptors(report: &Report) -> Finding {
    const NEARLY: f64 = 0.9;
    let both = report.descriptors.open.clone().zip(report.descriptors.limit.clone());
    match both {
        Observed::Known((open, limit)) if limit > 0 && open as f64 >= NEARLY * limit as f64 => {
            Finding::Holds {
                weight: 99.0,
                evidence: format!("{open} of {limit} file descriptors are open"),
            }
        }
        Observed::Known(_) => fails(),
        Observed::Unknown(reason) if reason.is_absence() => fails(),
        Observed::Unknown(reason) => Finding::CannotTell { reason: reason.to_string() },
    }
}

/// Below this a process does not want a processor often enough to be kept from one.
const DELAY_WORTH_NAMING_PCT: f64 = 10.0;

/// The share of the window for which the quota stopped the process: no more than it waited, and
/// no more than its cgroup was stopped.
fn throttled_pct(report: &Report) -> Option<f64> {
    let throttling = report.cgroup.throttling.known()?;
    if throttling.throttled_periods == 0 || throttling.periods == 0 {
        return Some(0.0);
    }
    // The kernel sums over processors, so the time may exceed the window; the share of periods
    // may not, but says nothing about how long into each the stop came. The smaller holds.
    let by_periods = throttling.throttled_periods as f64 / throttling.periods as f64 * 100.0;
    let delay = report.cpu.run_delay_pct.known().map_or(by_periods, |delay| delay.get());
    Some(delay.min(by_periods))
}

fn throttled(report: &Report) -> Finding {
    let throttling = match &report.cgroup.throttling {
        Observed::Known(throttling) => throttling,
        Observed::Unknown(reason) if reason.is_absence() => return fails(),
        Observed::Unknown(reason) => {
            return Finding::CannotTell { reason: reason.to_string() };
        }
    };
    let delay = report.cpu.run_delay_pct.known().map(|delay| delay.get());
    let weight = throttled_pct(report).unwrap_or(0.0);
    let numbers = format!(
        "its cgroup was stopped by its CPU quota in {} of {} periods, for {} ms",
        throttling.throttled_periods, throttling.periods, throttling.throttled_ms
    );
    if throttling.throttled_periods > 0 && weight >= DELAY_WORTH_NAMING_PCT {
        let quota = report.cgroup.cpu_quota_cores.known();
        let quota =
            quota.map(|cores| format!(" (quota {cores:.2} processors)")).unwrap_or_default();
        return Finding::Holds { weight, evidence: format!("{numbers}{quota}") };
    }
    let looks_like_it = delay.is_some_and(|delay| delay >= DELAY_WORTH_NAMING_PCT);
    let evidence = looks_like_it.then(|| {
        format!(
            "not throttled: its cgroup was stopped in {} of {} periods",
            throttling.throttled_periods, throttling.periods
        )
    });
    Finding::Fails { evidence }
}

fn starved(report: &Report) -> Finding {
    let delay = match &report.cpu.run_delay_pct {
        Observed::Known(delay) => delay.get(),
        Observed::Unknown(reason) => return Finding::CannotTell { reason: reason.to_string() },
    };
    // What the quota explains is not the neighbours', nor is what its own threads take from each
    // other.
    let by_others = (delay - throttled_pct(report).unwrap_or(0.0)) * share_of_others(report);
    if by_others < DELAY_WORTH_NAMING_PCT {
        return fails();
    }
    let busy = report.host.cpu_busy_pct.known().map_or_else(String::new, |busy| {
        format!("; the host's processors are {:.0} % busy", busy.get())
    });
    Finding::Holds {
        weight: by_others.min(100.0),
        evidence: format!(
            "its threads were runnable and waited for a processor for {delay:.0} % of the \
             window{busy}"
        ),
    }
}

/// Of the processor time that was used, what other processes used.
fn share_of_others(report: &Report) -> f64 {
    let own = report.cpu.user_pct.get() + report.cpu.system_pct.get();
    let host = report.host.cpu_busy_pct.clone().zip(report.host.cpus.clone());
    match host.known() {
        Some((busy, cpus)) if busy.get() > 0.0 => {
            (1.0 - own / (busy.get() * f64::from(*cpus))).clamp(0.0, 1.0)
        }
        Some(_) | None => 1.0,
    }
}

/// Time that threads were blocked in one of these kinds, summed over threads, at most one window,
/// in percent. Without the scheduler's account, the samples have to do.
fn blocked_pct(report: &Report, kinds: &[WaitKind]) -> f64 {
    let waits = &report.waits;
    let blocked: f64 = waits
        .groups
        .iter()
        .filter(|group| kinds.contains(&group.kind))
        .map(|group| match &group.blocked_pct {
            Observed::Known(blocked) => blocked.get(),
            Observed::Unknown(_) => group.share_pct.get() * f64::from(waits.threads_sampled),
        })
        .sum();
    blocked.min(100.0)
}

/// Storage shows in samples where its waits are long. Short ones are only known to be waits; they
/// count as storage for a process that moves data there, and for no longer than some task of the
/// host waited for storage at all.
fn blocked_on_io(report: &Report) -> Finding {
    const WORTH_NAMING_PCT: f64 = 10.0;
    let rate = |value: &Observed<PerSecond>| value.known().map_or(0.0, |rate| rate.get());
    let written = &report.io.storage_write_bytes_per_s;
    let read = &report.io.storage_read_bytes_per_s;
    let seen = blocked_pct(report, &[WaitKind::Storage]);
    let unseen = blocked_pct(report, &[WaitKind::TooShortToSee]);
    let host = report.host.io_pressure_pct.known().map_or(100.0, |share| share.get());
    let moves_data = rate(written) + rate(read) > 0.0 || seen > 0.0;
    let short = if moves_data { unseen.min((host - seen).max(0.0)) } else { 0.0 };
    let blocked = (seen + short).min(100.0);
    if blocked < WORTH_NAMING_PCT {
        return fails();
    }
    let mut evidence = format!("it was blocked on storage for {blocked:.0} % of the window");
    for (rate, done) in [(read, "read from"), (written, "written to")] {
        match rate {
            Observed::Known(rate) => {
                let rate = quantity::byte_rate_with_unit(*rate);
                evidence.push_str(&format!("; {rate} {done} it"));
            }
            Observed::Unknown(_) => {
                evidence.push_str(&format!("; what it has {done} it was not measured"));
            }
        }
    }
    if short >= WORTH_NAMING_PCT {
        evidence.push_str(&format!("; {short:.0} % of the window in waits too short to be seen"));
        if let Observed::Known(waits) = report.cpu.voluntary_switches_per_s {
            evidence.push_str(&format!(", {:.0} waits/s of any kind", waits.get()));
        }
    }
    Finding::Holds { weight: blocked, evidence }
}

fn blocked_on_lock(report: &Report) -> Finding {
    let sampled = blocked_pct(report, &[WaitKind::Lock, WaitKind::KernelLock]);
    if sampled < 10.0 {
        return fails();
    }
    let waiting: u32 = report
        .waits
        .groups
        .iter()
        .filter(|group| matches!(group.kind, WaitKind::Lock | WaitKind::KernelLock))
        .map(|group| group.threads)
        .sum();
    Finding::Holds {
        weight: sampled,
        evidence: format!(
            "{waiting} of {} threads were found waiting for a lock that another holds",
            report.waits.threads_sampled
        ),
    }
}

fn memory_bound(report: &Report) -> Finding {
    const FAULTS_PER_S: f64 = 50.0;
    let sampled = blocked_pct(report, &[WaitKind::Memory]);
    let faults = report.memory.major_faults_per_s.get();
    let hits = report.cgroup.memory_limit_hits.known().copied().unwrap_or(0);
    // A fault that reads waits in the same places as a read call does.
    let waiting = blocked_pct(report, &[WaitKind::Memory, WaitKind::Storage]);
    if faults >= FAULTS_PER_S && waiting >= 10.0 {
        return Finding::Holds {
            weight: waiting,
            evidence: format!("{faults:.0} page faults/s had to read from storage"),
        };
    }
    if sampled >= 10.0 {
        return Finding::Holds {
            weight: sampled,
            evidence: format!("its threads waited for memory for {sampled:.0} % of the window"),
        };
    }
    if hits > 0 && waiting >= 10.0 {
        return Finding::Holds {
            weight: waiting,
            evidence: format!("its cgroup hit its memory limit {hits} times in the window"),
        };
    }
    fails()
}

/// Processor time that is worth a class of its own, in percent of one processor.
const BUSY_PCT: f64 = 10.0;

fn user_cpu(report: &Report) -> Finding {
    busy(report, report.cpu.user_pct.get(), "user mode")
}

fn system_cpu(report: &Report) -> Finding {
    busy(report, report.cpu.system_pct.get(), "the kernel")
}

fn busy(report: &Report, share: f64, place: &str) -> Finding {
    if share < BUSY_PCT {
        return fails();
    }
    // A thread that is blocked for longer than it runs is not held up by the processor.
    let blocked = report.cpu.busiest_thread_blocked_pct.known().map_or(0.0, |share| share.get());
    let longest = report.threads.first().and_then(|thread| thread.running_pct.known());
    let mostly_waits = longest.is_some_and(|running| blocked > running.get());
    let weight = share.min(98.0) * if mostly_waits { 0.5 } else { 1.0 };
    let running = report
        .cpu
        .running_pct
        .known()
        .map_or_else(String::new, |running| format!(", of {:.0} % that it ran", running.get()));
    Finding::Holds { weight, evidence: format!("{share:.0} % of a processor in {place}{running}") }
}

/// Wake-ups that tell a process that waits for work from one that does nothing.
const AWAKE_PER_S: f64 = 20.0;

fn ran_pct(report: &Report) -> f64 {
    report.cpu.user_pct.get() + report.cpu.system_pct.get()
}

fn wakes_per_s(report: &Report) -> f64 {
    report.cpu.voluntary_switches_per_s.known().map_or(0.0, |rate| rate.get())
}

/// A class only where nothing else explains the time, so it weighs little.
fn sleeping(report: &Report) -> Finding {
    let is_awake = ran_pct(report) >= 1.0 || wakes_per_s(report) >= AWAKE_PER_S;
    if !is_awake || ran_pct(report) >= BUSY_PCT {
        return fails();
    }
    Finding::Holds {
        weight: 5.0,
        evidence: format!(
            "it ran for {:.1} % of the window and woke {:.0} times/s; `waits` says what for",
            ran_pct(report),
            wakes_per_s(report)
        ),
    }
}

fn idle(report: &Report) -> Finding {
    if ran_pct(report) >= 1.0 || wakes_per_s(report) >= AWAKE_PER_S {
        return fails();
    }
    Finding::Holds {
        weight: 1.0,
        evidence: format!("it ran for {:.1} % of the window", ran_pct(report)),
    }
}
