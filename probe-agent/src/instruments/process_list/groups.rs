//! Processes added up by service, container, user or name.

use super::{
    change::Change,
    changes::Changes,
    columns::{can_be_added_up, can_rank},
};
use crate::{
    call::Context,
    instruments::{
        ownership::{Placement, Users},
        process_files::ProcessFiles,
    },
    proc::Root,
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
    changes.wake();
    let mut users = Users::read(context.root);
    for change in &mut changes.processes {
        context.check()?;
        let group = match group_by {
            GroupBy::Process => continue,
            GroupBy::Name => {
                change.group = Observed::Known(family(change));
                continue;
            }
            GroupBy::User => users.of(change.pid, context),
            GroupBy::Service => Placement::of(change.via, context).service,
            GroupBy::Container => Placement::of(change.via, context).container,
        };
        let files = ProcessFiles { pid: change.pid, context };
        change.group = files.unless_replaced(change.start_ticks, group);
    }
    Ok(())
}

/// The name that a process shares with its siblings.
///
/// The kernel names a thread that it has one of for each processor after the processor
/// (`ksoftirqd/3`), and a worker after its pool and what it does at the moment
/// (`kworker/u8:3-events`; `Documentation/core-api/workqueue.rst`). A process that calls itself so is
/// not taken for one.
fn family(change: &Change) -> HostText {
    let name = change.name.as_str();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.split_once('/') {
        Some((kind, of)) if change.is_kernel_thread && (kind == "kworker" || is_number(of)) => {
            HostText::new(format!("{kind}/*").as_bytes())
        }
        Some(_) | None => change.name.clone(),
    }
}

/// A group with what it counts for in the ranking.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) row: GroupRow,
    pub(super) weight: Observed<f64>,
}

/// Adds the processes up.
pub(super) fn add_up(
    processes: &[Change],
    column: Column,
    window: Duration,
    root: &Root,
) -> Vec<Group> {
    let mut groups: BTreeMap<Key<'_>, Vec<&Change>> = BTreeMap::new();
    for process in processes {
        groups.entry(Key::of(&process.group)).or_default().push(process);
    }
    groups.into_values().map(|members| group(&members, column, window, root)).collect()
}

/// What tells groups apart.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key<'c> {
    Named(&'c str),
    /// The processes that belong to none.
    Without,
    /// Those of which nobody knows where they belong.
    Unreadable,
}

impl<'c> Key<'c> {
    fn of(group: &'c Observed<HostText>) -> Self {
        match group {
            Observed::Known(name) => Self::Named(name.as_str()),
            Observed::Unknown(reason) if reason.is_absence() => Self::Without,
            Observed::Unknown(_) => Self::Unreadable,
        }
    }
}

fn group(members: &[&Change], column: Column, window: Duration, root: &Root) -> Group {
    let name = members.first().map(|process| process.group.clone());
    let share = |time: fn(&Change) -> Duration| {
        // Over the window, not over each one's life: one that was born late counts for less.
        let sum: Duration = members.iter().map(|process| time(process)).sum();
        let share = Percent::of_time(sum, window).unwrap_or_default();
        Observed::from(root.has_two_instants().map(|()| share))
    };
    let rate = |count: fn(&Change) -> u64| {
        let sum = members.iter().map(|process| count(process)).fold(0, u64::saturating_add);
        let rate = PerSecond::over(sum, window).unwrap_or_default();
        Observed::from(root.has_two_instants().map(|()| rate))
    };
    let rank = |process: &Change| process.weight(column).known().copied();
    let top = members.iter().max_by(|left, right| {
        let rank = |process| rank(process).unwrap_or(f64::NEG_INFINITY);
        rank(left).total_cmp(&rank(right))
    });
    let page_bytes = root.page_bytes();
    let largest = members.iter().map(|process| process.resident_pages).max().unwrap_or_default();
    let weight =
        can_rank(column, root).map_or_else(Observed::Unknown, |()| weight(members, column));
    let ranked_by = weight.clone().map(|weight| readable(weight, column, page_bytes));
    let row = GroupRow {
        name: name.unwrap_or(Observed::Unknown(Reason::Gone)),
        processes: u32::try_from(members.len()).unwrap_or(u32::MAX),
        threads: members.iter().map(|process| process.threads).fold(0, u32::saturating_add),
        cpu_pct: share(|process| process.user + process.system),
        user_pct: share(|process| process.user),
        system_pct: share(|process| process.system),
        children_cpu_pct: Observed::from(root.has_two_instants())
            .zip(children(members, window))
            .map(|((), children)| children),
        ranked_by,
        rss_largest_bytes: Bytes(largest.saturating_mul(page_bytes)),
        minor_faults_per_s: rate(|process| process.minor_faults),
        major_faults_per_s: rate(|process| process.major_faults),
        top_pid: top.map_or(0, |process| process.pid),
        top_name: top.map(|process| process.name.clone()).unwrap_or_default(),
    };
    Group { row, weight }
}

/// What a group counts for; unknown where that of a member is.
fn weight(members: &[&Change], column: Column) -> Observed<f64> {
    // Memory and age cannot be added up: the largest member stands for the group.
    let is_sum = can_be_added_up(column);
    let mut weight = Observed::Known(0.0);
    for process in members {
        weight = weight
            .zip(process.weight(column))
            .map(|(all, one)| if is_sum { all + one } else { f64::max(all, one) });
    }
    weight
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
        | Column::OpenFiles
        | Column::MinorFaults
        | Column::MajorFaults
        | Column::Read
        | Column::Write
        | Column::Switches => weight,
    };
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::process_list::{
        changes::Changes,
        scan::{Sample, Scan},
    };
    use protocol::observed::Nature;

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
            change.group = Observed::Known(HostText::new(group.as_bytes()));
        }
        let groups = add_up(&changes, Column::Cpu, second, &Root::live().unwrap());
        let weights: Vec<_> = groups
            .iter()
            .map(|group| (group.row.cpu_pct.known().unwrap().get(), group.row.ranked_by.clone()))
            .collect();
        assert_eq!(weights, [(10.0, Observed::Known(10.0)), (90.0, Observed::Known(90.0))]);
    }

    #[test]
    fn a_group_with_a_member_that_could_not_be_read_has_no_sum() {
        let second = Duration::from_secs(1);
        let scan = |at| Scan::of(vec![Sample::idle(1, 1, at), Sample::idle(2, 2, at)], at, at);
        let mut changes = Changes::between(&scan(second), &scan(second * 2), None).processes;
        for change in &mut changes {
            let refused = Observed::Unknown(Reason::Gone);
            change.ranked = Some(if change.pid == 1 { Observed::Known(9) } else { refused });
            change.group = Observed::Known(HostText::new(b"app"));
        }
        let groups = add_up(&changes, Column::Read, second, &Root::live().unwrap());
        let ranked_by: Vec<_> = groups.iter().map(|group| group.row.ranked_by.clone()).collect();
        assert_eq!(ranked_by, [Observed::Unknown(Reason::Gone)]);
        assert_eq!(groups[0].row.top_pid, 1);
    }

    #[test]
    fn processes_without_a_group_are_told_from_those_whose_group_could_not_be_read() {
        let second = Duration::from_secs(1);
        let scan = |at| Scan::of(vec![Sample::idle(1, 1, at), Sample::idle(2, 2, at)], at, at);
        let mut changes = Changes::between(&scan(second), &scan(second * 2), None).processes;
        for change in &mut changes {
            let without = Reason::DoesNotApply(Nature::NotInService);
            change.group = Observed::Unknown(if change.pid == 1 { without } else { Reason::Gone });
        }
        assert_eq!(add_up(&changes, Column::Cpu, second, &Root::live().unwrap()).len(), 2);
    }

    #[test]
    fn threads_of_the_kernel_are_one_kind_and_a_process_that_calls_itself_so_is_not() {
        let second = Duration::from_secs(1);
        let scan = |at| Scan::of(vec![Sample::idle(1, 1, at)], at, at);
        let mut changes = Changes::between(&scan(second), &scan(second * 2), None).processes;
        let change = &mut changes[0];
        let cases = [
            ("ksoftirqd/0", true, "ksoftirqd/*"),
            ("ksoftirqd/31", true, "ksoftirqd/*"),
            ("kworker/u8:3-events_unbound", true, "kworker/*"),
            ("kworker/1:0H", true, "kworker/*"),
            ("irq/24-nvme0q1", true, "irq/24-nvme0q1"),
            ("jbd2/vda1-8", true, "jbd2/vda1-8"),
            ("kthreadd", true, "kthreadd"),
            ("ksoftirqd/0", false, "ksoftirqd/0"),
            ("kworker/0:1", false, "kworker/0:1"),
        ];
        for (name, is_kernel_thread, want) in cases {
            change.name = HostText::new(name.as_bytes());
            change.is_kernel_thread = is_kernel_thread;
            assert_eq!(family(change).as_str(), want);
        }
    }
}
