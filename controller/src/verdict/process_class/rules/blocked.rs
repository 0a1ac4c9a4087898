//! Rules about waits: for storage, for locks, for memory.

use super::{Facts, Finding, WORTH_NAMING_PCT, fails};
use protocol::{
    instruments::process_inspect::WaitKind,
    observed::{Observed, Reason},
    view::quantity,
};

/// Waits that may have been for storage, or not: in percent of the window.
struct Short<'r> {
    /// All of them.
    all_pct: f64,
    /// Of them, at most for storage; or why that is not known.
    storage_pct: Result<f64, &'r Reason>,
}

/// One page, the least that a wait for storage moves.
const PAGE_BYTES: f64 = 4096.0;

/// Waits for each page, at most: `fsync` waits for the data, for the journal, and for the log.
const WAITS_PER_PAGE: f64 = 4.0;

impl Facts<'_> {
    /// Waits that samples do not see, and those for completions of which nobody says what of. They
    /// were for storage for no longer than some task of the host waited for storage at all, and no
    /// more often than the process moved pages there.
    fn short(&self, seen_pct: f64) -> Short<'_> {
        let io = &self.report.io;
        let all_pct = self.blocked_pct(&[WaitKind::TooShortToSee, WaitKind::Completions]);
        let moved = io.storage_write_bytes_per_s.clone().zip(io.storage_read_bytes_per_s.clone());
        let by_pages =
            moved.map(|(written, read)| (written.get() + read.get()) / PAGE_BYTES * WAITS_PER_PAGE);
        let waits = self.report.cpu.voluntary_switches_per_s.clone().map(|rate| rate.get());
        let share = match by_pages.zip(waits) {
            Observed::Known((0.0, _)) => 0.0,
            Observed::Known((by_pages, waits)) => by_pages / waits.max(by_pages),
            Observed::Unknown(_) => 1.0,
        };
        let possible = all_pct * share;
        let storage_pct = match &self.report.host.io_pressure_pct {
            Observed::Known(host) => Ok(possible.min((host.get() - seen_pct).max(0.0))),
            Observed::Unknown(_) if possible < WORTH_NAMING_PCT => Ok(possible),
            Observed::Unknown(reason) => Err(reason),
        };
        Short { all_pct, storage_pct }
    }
}

/// Storage shows in samples where its waits are long. Short ones are only known to be waits.
pub(super) fn blocked_on_io(facts: &Facts<'_>) -> Finding {
    let seen = facts.blocked_pct(&[WaitKind::Storage]);
    let short = facts.short(seen);
    let short_pct = short.storage_pct.unwrap_or(0.0);
    let blocked = (seen + short_pct).min(100.0);
    if blocked < WORTH_NAMING_PCT {
        return match short.storage_pct {
            Err(reason) if short.all_pct >= WORTH_NAMING_PCT => Finding::CannotTell {
                reason: format!(
                    "{:.0} % of the window went in waits too short to be seen; whether for \
                     storage: {reason}",
                    short.all_pct
                ),
            },
            Ok(_) | Err(_) => fails(),
        };
    }
    let at_most = if short_pct >= WORTH_NAMING_PCT { "at most " } else { "" };
    let mut evidence =
        format!("it was blocked on storage for {at_most}{blocked:.0} % of the window");
    let io = &facts.report.io;
    let directions = [
        (&io.storage_read_bytes_per_s, "read from"),
        (&io.storage_write_bytes_per_s, "written to"),
    ];
    for (rate, done) in directions {
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
    if short_pct >= WORTH_NAMING_PCT {
        evidence
            .push_str(&format!("; {short_pct:.0} % of the window in waits too short to be seen"));
        if let Observed::Known(waits) = facts.report.cpu.voluntary_switches_per_s {
            evidence.push_str(&format!(", {:.0} waits/s of any kind", waits.get()));
        }
    }
    Finding::Holds { weight: blocked, evidence }
}

pub(super) fn blocked_on_lock(facts: &Facts<'_>) -> Finding {
    let is_lock = |kind| matches!(kind, WaitKind::Lock | WaitKind::KernelLock);
    let blocked = facts.blocked_pct(&[WaitKind::Lock, WaitKind::KernelLock]);
    if blocked < WORTH_NAMING_PCT {
        return fails();
    }
    let waits = &facts.report.waits;
    let waiting: u32 =
        waits.groups.iter().filter(|group| is_lock(group.kind)).map(|group| group.threads).sum();
    Finding::Holds {
        weight: blocked,
        // A thread may be in several of the groups.
        evidence: format!(
            "up to {} of {} threads were found waiting for a lock that another holds",
            waiting.min(waits.threads_sampled),
            waits.threads_sampled
        ),
    }
}

pub(super) fn memory_bound(facts: &Facts<'_>) -> Finding {
    const FAULTS_PER_S: f64 = 50.0;
    let sampled = facts.blocked_pct(&[WaitKind::Memory]);
    let faults = facts.report.memory.major_faults_per_s.known().map_or(0.0, |rate| rate.get());
    let hits = &facts.report.cgroup.memory_limit_hits;
    // A fault that reads waits in the same places as a read call does.
    let waiting = facts.blocked_pct(&[WaitKind::Memory, WaitKind::Storage]);
    if faults >= FAULTS_PER_S && waiting >= WORTH_NAMING_PCT {
        return Finding::Holds {
            weight: waiting,
            evidence: format!("{faults:.0} page faults/s had to read from storage"),
        };
    }
    if sampled >= WORTH_NAMING_PCT {
        return Finding::Holds {
            weight: sampled,
            evidence: format!("its threads waited for memory for {sampled:.0} % of the window"),
        };
    }
    if waiting < WORTH_NAMING_PCT {
        return fails();
    }
    match hits {
        Observed::Known(hits) if *hits > 0 => Finding::Holds {
            weight: waiting,
            evidence: format!("its cgroup hit its memory limit {hits} times in the window"),
        },
        // From within a container, a limit above it may be hit as well.
        Observed::Unknown(reason) if !reason.is_absence() => Finding::CannotTell {
            reason: format!("whether its cgroup hit a memory limit: {reason}"),
        },
        Observed::Known(_) | Observed::Unknown(_) => fails(),
    }
}
