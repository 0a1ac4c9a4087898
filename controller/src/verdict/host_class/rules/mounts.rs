//! Rules about mounted file systems. Where they are mounted is text of the target, and stands in
//! `mounts`.

use super::fails;
use crate::verdict::finding::Finding;
use protocol::{
    instruments::host_snapshot::{MountAnswer, Report},
    observed::Observed,
    units::Percent,
};

/// Whoever touches one that does not answer waits with it.
pub(super) fn hang(report: &Report) -> Finding {
    let mounts = &report.mounts;
    let rows = || mounts.ranked.iter();
    if mounts.no_answer_total > 0 {
        let silent = rows().filter(|mount| mount.answer == MountAnswer::None);
        let waited = silent.map(|mount| mount.waited_ms).max().unwrap_or(0);
        let evidence = format!(
            "{} mounted file systems did not answer, the longest for {waited} ms",
            mounts.no_answer_total
        );
        return Finding::Holds { weight: 100.0, evidence };
    }
    let stale = rows().filter(|mount| mount.answer == MountAnswer::Stale).count();
    if stale > 0 {
        let evidence = format!("{stale} mounts are stale: their server has them no more");
        return Finding::Holds { weight: 60.0, evidence };
    }
    fails()
}

/// Full is what has no room left; that little is left on a large one is no fault.
pub(super) fn full(report: &Report) -> Finding {
    const FULL_PCT: f64 = 99.5;
    let share = |share: &Observed<Percent>| share.known().map_or(0.0, |share| share.get());
    let fullest = report.mounts.ranked.iter().find(|mount| {
        share(&mount.used_pct) >= FULL_PCT || share(&mount.inodes_used_pct) >= FULL_PCT
    });
    let Some(fullest) = fullest else { return fails() };
    Finding::Holds {
        weight: 40.0,
        evidence: format!(
            "a file system is full: {:.1} % of its space and {:.1} % of its inodes are used",
            share(&fullest.used_pct),
            share(&fullest.inodes_used_pct)
        ),
    }
}
