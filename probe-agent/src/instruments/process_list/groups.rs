//! Processes added up by service, container or user.

use super::change::{Change, Changes};
use crate::{
    call::Context,
    instruments::ownership::{Placement, Users},
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::process_list::{Column, GroupBy, GroupRow},
    observed::{Observed, Reason},
    units::{Bytes, PerSecond, Percent},
};
use std::{collections::BTreeMap, time::Duration};

/// Finds out which group every process belongs to.
///
/// # Errors
///
/// When the call reached a limit.
pub(super) fn assign(
    group_by: GroupBy,
    changes: &mut Changes,
    context: &Context<'_>,
) -> Result<(), AgentError> {
    if group_by == GroupBy::Process {
        return Ok(());
    }
    let mut users = Users::read(context.root);
    for change in &mut changes.processes {
        context.check()?;
        change.group = match group_by {
            GroupBy::Process => None,
            GroupBy::User => users.of(change.pid, context).known().cloned(),
            GroupBy::Service => Placement::of(change.pid, context).service.known().cloned(),
            GroupBy::Container => Placement::of(change.pid, context).container.known().cloned(),
        };
    }
    Ok(())
}

/// A group with what it counts for in the ranking.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) row: GroupRow,
    pub(super) weight: f64,
}

/// Adds the processes up.
pub(super) fn add_up(processes: &[Change], column: Column, window: Duration) -> Vec<Group> {
    let mut groups: BTreeMap<Option<HostText>, Vec<&Change>> = BTreeMap::new();
    for process in processes {
        groups.entry(process.group.clone()).or_default().push(process);
    }
    groups.into_iter().map(|(name, members)| group(name, &members, column, window)).collect()
}

fn group(name: Option<HostText>, members: &[&Change], column: Column, window: Duration) -> Group {
    let share = |time: fn(&Change) -> Duration| {
        // Over the window, not over each one's life: one that was born late counts for less.
        let sum: Duration = members.iter().map(|process| time(process)).sum();
        Percent::of_time(sum, window).unwrap_or_default()
    };
    let rate = |count: fn(&Change) -> u64| {
        let sum = members.iter().map(|process| count(process)).fold(0, u64::saturating_add);
        PerSecond::over(sum, window).unwrap_or_default()
    };
    let known: Vec<f64> = members
        .iter()
        .map(|process| process.weight(column))
        .filter(|weight| *weight >= 0.0)
        .collect();
    let top =
        members.iter().max_by(|left, right| left.weight(column).total_cmp(&right.weight(column)));
    let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
    let largest = members.iter().map(|process| process.resident_pages).max().unwrap_or_default();
    let weight = match column {
        // Memory and age cannot be added up: the largest member stands for the group.
        Column::Rss | Column::Youngest => known.iter().copied().fold(0.0, f64::max),
        Column::Cpu
        | Column::User
        | Column::System
        | Column::ChildrenCpu
        | Column::RunDelay
        | Column::Threads
        | Column::MinorFaults
        | Column::MajorFaults
        | Column::Read
        | Column::Write
        | Column::Switches => known.iter().sum(),
    };
    let ranked_by = if known.is_empty() {
        Observed::Unknown(unknown_reason(members))
    } else {
        Observed::Known(readable(weight, column, page_bytes))
    };
    let row = GroupRow {
        name,
        processes: u32::try_from(members.len()).unwrap_or(u32::MAX),
        threads: members.iter().map(|process| process.threads).fold(0, u32::saturating_add),
        cpu_pct: share(|process| process.user + process.system),
        user_pct: share(|process| process.user),
        system_pct: share(|process| process.system),
        children_cpu_pct: children(members, window),
        ranked_by,
        rss_largest_bytes: Bytes(largest.saturating_mul(page_bytes)),
        minor_faults_per_s: rate(|process| process.minor_faults),
        major_faults_per_s: rate(|process| process.major_faults),
        top_pid: top.map_or(0, |process| process.pid),
        top_name: top.map(|process| process.name.clone()).unwrap_or_default(),
    };
    Group { row, weight }
}

/// Unknown where that of a member is.
fn children(members: &[&Change], window: Duration) -> Observed<Percent> {
    let mut sum = Observed::Known(Duration::ZERO);
    for process in members {
        sum = sum.zip(process.children.clone()).map(|(sum, children)| sum + children);
    }
    sum.and_then(|sum| Percent::of_time(sum, window).ok_or(Reason::EmptyWindow))
}

/// The weight in the unit of its column: percent, bytes, a count, or a rate.
fn readable(weight: f64, column: Column, page_bytes: u64) -> f64 {
    let value = match column {
        Column::Cpu | Column::User | Column::System | Column::ChildrenCpu => weight * 100.0,
        // Nanoseconds per second, in percent of a processor.
        Column::RunDelay => weight / 1e7,
        Column::Rss => weight * page_bytes as f64,
        // The age of the youngest, in seconds.
        Column::Youngest => {
            if weight > 0.0 {
                1.0 / weight
            } else {
                0.0
            }
        }
        Column::Threads
        | Column::MinorFaults
        | Column::MajorFaults
        | Column::Read
        | Column::Write
        | Column::Switches => weight,
    };
    (value * 10.0).round() / 10.0
}

fn unknown_reason(members: &[&Change]) -> Reason {
    members
        .iter()
        .find_map(|process| match &process.ranked {
            Some(Observed::Unknown(reason)) => Some(reason.clone()),
            Some(Observed::Known(_)) | None => None,
        })
        .unwrap_or(Reason::NotStored)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::process_list::{
        change::Changes,
        scan::{Sample, Scan},
    };

    #[test]
    fn many_that_lived_shortly_do_not_outrank_one_that_ran_all_the_time() {
        let second = Duration::from_secs(1);
        let process = |pid, start_ticks, user_ticks, at| Sample {
            user_ticks,
            ..Sample::idle(pid, start_ticks, at)
        };
        let steady = process(1, 10, 0, second);
        let first = Scan::of(vec![steady], second, second);
        let mut samples = vec![process(1, 10, 90, second * 2)];
        // Each of them used the 10 ms of its life.
        samples.extend((2..12).map(|pid| process(pid, 199, 1, second * 2)));
        let mut changes =
            Changes::between(&first, &Scan::of(samples, second * 2, second * 2), None).processes;
        for change in &mut changes {
            let group = if change.pid == 1 { "steady" } else { "shortlived" };
            change.group = Some(HostText::new(group.as_bytes()));
        }
        let groups = add_up(&changes, Column::Cpu, second);
        let weights: Vec<_> = groups
            .iter()
            .map(|group| (group.row.cpu_pct.get(), group.row.ranked_by.clone()))
            .collect();
        assert_eq!(weights, [(10.0, Observed::Known(10.0)), (90.0, Observed::Known(90.0))]);
    }
}
