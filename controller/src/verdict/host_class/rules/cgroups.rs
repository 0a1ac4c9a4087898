//! Rules about the cgroups of a machine. What they are called is text of the target, and stands in
//! `cgroups`.

use super::{WORTH_NAMING_PCT, cannot_tell, fails};
use crate::verdict::finding::Finding;
use protocol::{
    instruments::host_snapshot::{Cgroups, LimitedCgroup, Report},
    observed::{Observed, Reason},
};

/// A machine may be idle, and what runs on it be stopped all the same.
pub(super) fn throttled(report: &Report) -> Finding {
    let cgroups = &report.cgroups;
    let total = match &cgroups.throttled_total {
        Observed::Known(total) => *total,
        // Without quotas nothing is stopped by one.
        Observed::Unknown(Reason::KernelLacks(_)) => return fails(),
        Observed::Unknown(reason) => return cannot_tell(reason),
    };
    let Some(worst) = cgroups.throttled.first() else { return fails_of_those_seen(cgroups) };
    let share = worst.throttled_pct.get();
    let evidence = format!(
        "a cgroup was stopped in {share:.0} % of its periods, {} ms in all, by its quota of {} \
         processors{}",
        worst.throttled_ms,
        worst.quota_cores,
        others(total)
    );
    if share < WORTH_NAMING_PCT {
        return Finding::Fails { evidence: None };
    }
    Finding::Holds { weight: share.min(100.0), evidence }
}

fn fails_of_those_seen(cgroups: &Cgroups) -> Finding {
    if cgroups.not_looked_at == 0 {
        return fails();
    }
    Finding::CannotTell {
        reason: format!(
            "{} of {} cgroups were not looked at; `detail` full looks at more",
            cgroups.not_looked_at, cgroups.found
        ),
    }
}

fn others(total: u32) -> String {
    match total.saturating_sub(1) {
        0 => String::new(),
        others => format!("; {others} more were, too"),
    }
}

/// A limit that is hit is no shortage while there is cache to drop.
pub(super) fn memory_short(report: &Report) -> Finding {
    const FULL_PCT: f64 = 90.0;
    const NEARLY_FULL_PCT: f64 = 97.0;
    let Some(worst) = report.cgroups.limited.first() else { return fails() };
    let count = |value: &Observed<u64>| value.known().copied().unwrap_or(0);
    let (kills, slowed) = (count(&worst.oom_kills), count(&worst.high_hits));
    let hits = count(&worst.limit_hits).saturating_add(slowed);
    let used = worst.used_pct.known().map_or(0.0, |share| share.get());
    if kills > 0 {
        let evidence = format!("{kills} processes of a cgroup were killed at its memory limit");
        return Finding::Holds { weight: 95.0, evidence };
    }
    let numbers = numbers(worst, used, hits);
    if hits > 0 && used >= FULL_PCT {
        return Finding::Holds { weight: 85.0, evidence: numbers };
    }
    if used >= NEARLY_FULL_PCT {
        return Finding::Holds { weight: 20.0, evidence: numbers };
    }
    let is_hit = hits > 0 && worst.used_pct.known().is_some();
    Finding::Fails { evidence: is_hit.then(|| format!("cache, no shortage: {numbers}")) }
}

fn numbers(cgroup: &LimitedCgroup, used: f64, hits: u64) -> String {
    let cache = match &cgroup.cache_bytes {
        Observed::Known(cache) => {
            format!(", with {} of cache beside it", protocol::view::quantity::bytes(*cache))
        }
        Observed::Unknown(_) => String::new(),
    };
    format!("a cgroup's working set is {used:.0} % of its memory limit, hit {hits} times{cache}")
}
