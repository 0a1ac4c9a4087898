//! The report, cut to what was asked for and to what fits.

use crate::order;
use protocol::{
    instruments::{
        Report as AnyReport,
        host_snapshot::{
            BRIEF_BYTES, CONCLUSION_BYTES, Detail, Disk, Interface, LimitedCgroup, Mount,
            MountAnswer, Report, ThrottledCgroup,
        },
    },
    loss::{CutBy, Truncation},
    message::Meta,
    observed::Observed,
    units::{PerSecond, Percent},
    view::json,
};

/// Bytes of a path in a brief answer: room for the name of a container.
const LONGEST_PATH: usize = 40;

/// Rows of each list: disks, interfaces, blocked groups, throttled cgroups, cgroups with a limit,
/// mounts.
type Rows = [usize; 6];

/// Cuts the lists, which are in their order already, until the answer fits.
pub(super) fn fit(mut report: Report, mut meta: Meta, limit: u32, budget: u32) -> (Report, Meta) {
    let mut budget = budget as usize;
    if report.detail == Detail::Brief {
        leave_out_idle(&mut report);
        let own = BRIEF_BYTES - CONCLUSION_BYTES;
        budget = budget.min(own + json::ROOM_FOR_CONCLUSIONS);
    }
    let fits = |rows: &Rows, cut_by| {
        let (cut, truncation) = cut(&report, rows, cut_by);
        let answer = AnyReport::HostSnapshot(cut);
        json::bytes(&answer, &Meta { truncation, ..meta.clone() }) <= budget
    };
    let (mut rows, mut cut_by) = ([limit as usize; 6], CutBy::Limit);
    while !fits(&rows, cut_by) && fewer(&mut rows, &report) {
        cut_by = CutBy::AnswerBytes;
    }
    // What went may be longer than what would fit.
    for list in heaviest_first(&report) {
        let mut more = rows;
        if let Some(kept @ 0) = more.get_mut(list) {
            *kept = 1;
            if fits(&more, CutBy::AnswerBytes) {
                (rows, cut_by) = (more, CutBy::AnswerBytes);
            }
        }
    }
    let (cut, truncation) = cut(&report, &rows, cut_by);
    meta.truncation = truncation;
    (cut, meta)
}

fn heaviest_first(report: &Report) -> Vec<usize> {
    let weights = weights(report);
    let mut lists: Vec<(usize, f64)> = weights.into_iter().enumerate().collect();
    order::by(&mut lists, |(_, left), (_, right)| right.total_cmp(left));
    lists.into_iter().map(|(list, _)| list).collect()
}

/// Takes the next rows away. Gives false where no more can go.
///
/// First every list is halved, down to one row each: the first of every kind tells more than the
/// second of any. Then whole lists go, the one whose first row weighs least first.
fn fewer(rows: &mut Rows, report: &Report) -> bool {
    let there = there(report);
    for (kept, there) in rows.iter_mut().zip(there) {
        *kept = (*kept).min(there);
    }
    let longest = rows.iter().copied().max().unwrap_or(0);
    if longest > 1 {
        *rows = rows.map(|kept| kept.min((longest / 2).max(1)));
        return true;
    }
    let lists = rows.iter_mut().zip(weights(report)).filter(|(kept, _)| **kept > 0);
    let lightest = lists.min_by(|(_, left), (_, right)| left.total_cmp(right));
    lightest.map(|(kept, _)| *kept = 0).is_some()
}

/// For how much of the window, in percent, something waited for what the first row of each list is
/// about; where nobody counts that, how much of it is used up.
fn weights(report: &Report) -> [f64; 6] {
    let share = |share: &Observed<Percent>| share.known().map_or(0.0, |share| share.get());
    let (cgroups, mount) = (&report.cgroups, report.mounts.ranked.first());
    let limited = cgroups.limited.first().map_or(0.0, |row| {
        let is_killed = row.oom_kills.known().is_some_and(|kills| *kills > 0);
        if is_killed { 100.0 } else { share(&row.used_pct) / 2.0 }
    });
    let mount = mount.map_or(0.0, |mount| match mount.answer {
        MountAnswer::None | MountAnswer::Stale => 100.0,
        MountAnswer::Failed | MountAnswer::Refused => 10.0,
        MountAnswer::Answered => share(&mount.used_pct).max(share(&mount.inodes_used_pct)) / 2.0,
    });
    let has_lost = report.interfaces.first().is_some_and(|row| row.lost_per_s.get() > 0.0);
    [
        share(&report.pressure.io_some_pct).max(1.0),
        if has_lost { 30.0 } else { 0.5 },
        100.0,
        cgroups.throttled.first().map_or(0.0, |row| row.throttled_pct.get()),
        limited,
        mount,
    ]
}

/// Rows that are there to be shown.
fn there(report: &Report) -> Rows {
    [
        report.disks.len(),
        report.interfaces.len(),
        report.blocked.groups.len(),
        report.cgroups.throttled.len(),
        report.cgroups.limited.len(),
        report.mounts.ranked.len(),
    ]
}

fn cut(report: &Report, rows: &Rows, cut_by: CutBy) -> (Report, Truncation) {
    let mut cut = report.clone();
    let [disks, interfaces, blocked, throttled, limited, mounts] = *rows;
    cut.disks.truncate(disks);
    cut.interfaces.truncate(interfaces);
    cut.blocked.groups.truncate(blocked);
    cut.cgroups.throttled.truncate(throttled);
    cut.cgroups.limited.truncate(limited);
    cut.mounts.ranked.truncate(mounts);
    let mut all = there(report);
    // Only the nearest to their limit are brought here at all.
    if let ([.., of_limited, _], Some(total)) = (&mut all, report.cgroups.limited_total.known()) {
        *of_limited = *total as usize;
    }
    let (shown, total) = (there(&cut).iter().sum::<usize>(), all.iter().sum::<usize>());
    let truncation = Truncation {
        shown: shown as u64,
        total: total as u64,
        // Disks, interfaces and tasks have no sum.
        weight_cut_pct: None,
        cut_by: if shown < total { cut_by } else { CutBy::Nothing },
    };
    (cut, truncation)
}

/// Takes out rows of which all numbers are 0, and the start of long paths.
fn leave_out_idle(report: &mut Report) {
    let zero = PerSecond::default();
    let is_active =
        |disk: &Disk| disk.queue > 0.0 || disk.reads_per_s != zero || disk.writes_per_s != zero;
    report.disks.retain(is_active);
    let has_moved = |interface: &Interface| {
        interface.received_bytes_per_s != zero
            || interface.sent_bytes_per_s != zero
            || interface.lost_per_s != zero
    };
    report.interfaces.retain(has_moved);
    let is_used = |share: &Observed<Percent>| share.known().is_some_and(|share| share.get() > 0.0);
    report.mounts.ranked.retain(|mount| {
        mount.answer != MountAnswer::Answered
            || is_used(&mount.used_pct)
            || is_used(&mount.inodes_used_pct)
    });
    let throttled =
        report.cgroups.throttled.iter_mut().map(|it: &mut ThrottledCgroup| &mut it.path);
    let limited = report.cgroups.limited.iter_mut().map(|it: &mut LimitedCgroup| &mut it.path);
    let mounts = report.mounts.ranked.iter_mut().map(|it: &mut Mount| &mut it.path);
    for path in throttled.chain(limited).chain(mounts) {
        *path = path.end_of_path(LONGEST_PATH);
    }
}
