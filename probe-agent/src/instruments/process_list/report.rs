//! The answer to one question about a measurement: ranked, filled in, cut to its budget.

use super::{
    Measured,
    change::Change,
    columns::{can_be_added_up, can_rank, is_beside_the_line},
    groups, open_files,
    rates::{Details, Rates},
};
use crate::{
    artifacts::Kind,
    call::Context,
    instruments::{
        ownership::{self, Command, Placement, Users},
        process_files::ProcessFiles,
    },
    rank,
    rank::Page,
};
use protocol::{
    Report as AnyReport,
    error::AgentError,
    host_text::HostText,
    instruments::process_list::{Census, GroupBy, Host, ProcessRow, Report, Request, Unranked},
    loss::Truncation,
    message::{Engine, Meta},
    observed::{Observed, Reason},
    units::{Bytes, PerSecond, Percent},
    view::json,
};
use std::time::Duration;

/// Ranks, fills in and cuts.
///
/// # Errors
///
/// When a stored measurement does not hold what is asked of it, or the call reached a limit.
pub(super) fn answer(
    request: &Request,
    mut measured: Measured,
    details: Details,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    check_stored(request, &measured)?;
    let artifact = match request.artifact {
        Some(id) => Some(id),
        None => context.keep(Kind::ProcessList, &measured),
    };
    let detail_window = details.began.map(|began| context.root.monotonic().saturating_sub(began));
    let mut answer = Answer {
        report: empty_report(request, &measured, detail_window, context.root.has_two_instants()),
        meta: Meta {
            engine: if request.artifact.is_some() { Engine::Stored } else { measured.engine },
            window_ms: Some(measured.window_ms),
            truncation: Truncation::none(0),
            artifact,
            lost: measured.changes.lost,
            overhead: context.overhead(),
            redacted: 0,
        },
    };
    let (offset, limit) = (request.offset as usize, request.limit as usize);
    let budget = context.budget.answer_bytes as usize;
    if request.group_by == GroupBy::Process {
        let refused = can_rank(request.sort, context.root).err();
        let weight = |own: Observed<f64>| refused.clone().map_or(own, Observed::Unknown);
        let weights = || measured.changes.weights(request.sort).map(weight);
        answer.report.unranked = unranked(weights());
        let page = measured.changes.page(weights(), offset, limit);
        answer.fill_processes(page, request, details, budget, context)?;
    } else {
        if request.group_by == GroupBy::Name {
            groups::assign(GroupBy::Name, &mut measured.changes, context)?;
        }
        let window = Duration::from_millis(measured.window_ms);
        let all = groups::add_up(&measured.changes.processes, request.sort, window, context.root);
        let weight = |group: &groups::Group| group.weight.clone();
        answer.report.unranked = unranked(all.iter().map(weight));
        let page = rank::page(all, weight, offset, limit);
        answer.fill_groups(page, budget);
    }
    if !can_be_added_up(request.sort) {
        answer.meta.truncation.weight_cut_pct = None;
    }
    answer.meta.overhead = context.overhead();
    Ok((answer.report, answer.meta))
}

fn unranked(weights: impl Iterator<Item = Observed<f64>>) -> Option<Unranked> {
    let (rows, reason) = rank::unranked(weights)?;
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    Some(Unranked { rows, value: Observed::Unknown(reason) })
}

/// A stored measurement holds every column of the first pass, and what else was read for it.
fn check_stored(request: &Request, measured: &Measured) -> Result<(), AgentError> {
    let column = request.sort;
    if is_beside_the_line(column) && measured.ranked_column != Some(column) {
        return Err(AgentError::ColumnNotStored { column });
    }
    let (asked, stored) = (request.group_by, measured.grouped_by);
    // A process's name is always stored.
    let is_stored = matches!(asked, GroupBy::Process | GroupBy::Name) || asked == stored;
    if !is_stored {
        return Err(AgentError::GroupsNotStored { asked, stored });
    }
    Ok(())
}

fn empty_report(
    request: &Request,
    measured: &Measured,
    detail_window: Option<Duration>,
    two_instants: Result<(), Reason>,
) -> Report {
    let changes = &measured.changes;
    let sum = |part: fn(&Change) -> Duration| changes.processes.iter().map(part).sum::<Duration>();
    let count =
        |of: fn(&Change) -> u32| changes.processes.iter().map(of).fold(0, u32::saturating_add);
    let at_rest = &changes.at_rest;
    let cpu = sum(|change| change.user + change.system);
    let attributed = changes.ended_cpu.clone().map(|ended| cpu + ended);
    let host = &changes.host;
    Report {
        host: Host {
            cpus: host.cpus.clone(),
            cpu_busy_pct: host.busy_pct.clone(),
            cpu_steal_pct: host.steal_pct.clone(),
            forks_per_s: host.forks_per_s.clone(),
        },
        census: Census {
            processes: count(|_| 1).saturating_add(count_of(at_rest.len())),
            threads: at_rest
                .rows()
                .map(|row| row.threads)
                .fold(count(|change| change.threads), u32::saturating_add),
            born: two_instants.clone().map(|()| count(|change| change.born.into())).into(),
            died: two_instants.clone().map(|()| changes.died).into(),
            cpu_ms: two_instants.clone().map(|()| millis(cpu)).into(),
            ended_cpu_ms: two_instants
                .map_or_else(Observed::Unknown, |()| changes.ended_cpu.clone().map(millis)),
            unattributed_cpu_ms: host
                .busy
                .clone()
                .zip(attributed)
                .map(|(busy, attributed)| millis(busy.saturating_sub(attributed))),
            host_threads: changes.host_threads.clone(),
            hidden_by: changes.hidden_by.clone(),
        },
        sorted_by: request.sort,
        unranked: None,
        processes: Vec::new(),
        groups: Vec::new(),
        detail_window_ms: detail_window.map(millis),
        refused: measured.refused.clone(),
    }
}

fn count_of(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// An answer that is being filled.
struct Answer {
    report: Report,
    meta: Meta,
}

impl Answer {
    fn fill_processes(
        &mut self,
        page: Page<Change>,
        request: &Request,
        details: Details,
        budget: usize,
        context: &Context<'_>,
    ) -> Result<(), AgentError> {
        let ends = details.end(&page.rows, request, context)?;
        let mut users = Users::read(context.root);
        let mut rows = Vec::with_capacity(page.rows.len());
        let commands = commands(&page.rows, context);
        let most = open_files::most_looked_at(page.rows.len());
        for (change, command) in page.rows.into_iter().zip(commands) {
            context.check()?;
            let weight = can_rank(request.sort, context.root)
                .map_or_else(Observed::Unknown, |()| change.weight(request.sort));
            let owner = Owner::of(&change, command, &mut users, context);
            let redacted = owner.redacted;
            let rates = Rates::of(&change, &ends, request, context);
            let open_files = open_files::of_row(&change, request.sort, most, context);
            let row = ProcessRow { open_files, ..row(&change, owner, rates, context) };
            rows.push((row, weight, redacted));
        }
        let mut page = Page { rows, truncation: page.truncation };
        self.meta.truncation = page.truncation;
        self.meta.redacted = page.rows.iter().map(|(_, _, redacted)| redacted).sum();
        rank::fit(
            &mut page,
            |(_, weight, _)| weight.clone(),
            budget,
            |page, rows| {
                let shown = page.rows.iter().take(rows);
                self.report.processes = shown.map(|(row, _, _)| row.clone()).collect();
                json::bytes(&AnyReport::ProcessList(self.report.clone()), &self.meta)
            },
        );
        self.meta.truncation = page.truncation;
        self.meta.redacted = page.rows.iter().map(|(_, _, redacted)| redacted).sum();
        self.report.processes = page.rows.into_iter().map(|(row, _, _)| row).collect();
        Ok(())
    }

    fn fill_groups(&mut self, mut page: Page<groups::Group>, budget: usize) {
        self.report.detail_window_ms = None;
        self.meta.truncation = page.truncation;
        rank::fit(
            &mut page,
            |group| group.weight.clone(),
            budget,
            |page, rows| {
                let shown = page.rows.iter().take(rows);
                self.report.groups = shown.map(|group| group.row.clone()).collect();
                json::bytes(&AnyReport::ProcessList(self.report.clone()), &self.meta)
            },
        );
        self.meta.truncation = page.truncation;
        self.report.groups = page.rows.into_iter().map(|group| group.row).collect();
    }
}

fn row(change: &Change, owner: Owner, rates: Rates, context: &Context<'_>) -> ProcessRow {
    let two_instants = || context.root.has_two_instants();
    let share = |time| -> Observed<Percent> {
        let share = Percent::of_time(time, change.window).unwrap_or_default();
        two_instants().map(|()| share).into()
    };
    let rate = |count| -> Observed<PerSecond> {
        let rate = PerSecond::over(count, change.window).unwrap_or_default();
        two_instants().map(|()| rate).into()
    };
    let page_bytes = context.root.page_bytes();
    ProcessRow {
        pid: change.pid,
        start_ticks: change.start_ticks,
        name: change.name.clone(),
        command: owner.command,
        user: owner.user,
        service: owner.service,
        container: owner.container,
        state: change.state,
        born: change.born,
        cpu_pct: share(change.user + change.system),
        user_pct: share(change.user),
        system_pct: share(change.system),
        children_cpu_pct: Observed::from(two_instants()).zip(change.children.clone()).and_then(
            |((), time)| Percent::of_time(time, change.window).ok_or(Reason::EmptyWindow),
        ),
        run_delay_pct: rates.run_delay_pct,
        rss_bytes: Bytes(change.resident_pages.saturating_mul(page_bytes)),
        threads: change.threads,
        open_files: None,
        minor_faults_per_s: rate(change.minor_faults),
        major_faults_per_s: rate(change.major_faults),
        read_bytes_per_s: rates.read,
        write_bytes_per_s: rates.write,
        voluntary_switches_per_s: rates.voluntary,
        involuntary_switches_per_s: rates.involuntary,
        age_s: context.root.knows_uptime().map(|()| change.age.as_secs()).into(),
    }
}

/// Whose a process is and what it was started with, as its files say now.
struct Owner {
    user: Observed<HostText>,
    service: Observed<HostText>,
    container: Observed<HostText>,
    command: Observed<HostText>,
    redacted: u32,
}

impl Owner {
    /// The measurement may be old, and the pid another process's by now: that one is not described.
    fn of(
        change: &Change,
        (command, redacted): Command,
        users: &mut Users,
        context: &Context<'_>,
    ) -> Self {
        let files = ProcessFiles { pid: change.pid, context };
        let user = users.of(change.pid, context);
        let Placement { service, container } = Placement::of(change.via, context);
        match files.unless_replaced(change.start_ticks, Observed::Known(())) {
            Observed::Known(()) => Self { user, service, container, command, redacted },
            Observed::Unknown(reason) => {
                let unknown = Observed::Unknown(reason);
                let (user, service) = (unknown.clone(), unknown.clone());
                let command = match command {
                    Observed::Unknown(nature) if nature.is_absence() => Observed::Unknown(nature),
                    Observed::Known(_) | Observed::Unknown(_) => unknown.clone(),
                };
                Self { user, service, container: unknown, command, redacted: 0 }
            }
        }
    }
}

/// Bytes of a command line in a list. process_inspect shows more.
pub(super) const COMMAND_BYTES: usize = 160;

/// The arguments of processes, in their order.
fn commands(changes: &[Change], context: &Context<'_>) -> Vec<Command> {
    let nature = |change: &Change| ownership::has_its_own(change.state, change.is_kernel_thread);
    let with: Vec<&Change> = changes.iter().filter(|change| nature(change).is_ok()).collect();
    let pids: Vec<u32> = with.iter().map(|change| change.via).collect();
    let mut read = ownership::commands(&pids, COMMAND_BYTES, context).into_iter();
    let not_read = || (Observed::Unknown(Reason::TooManyHang), 0);
    let command = |change: &Change| match nature(change) {
        Ok(()) => read.next().unwrap_or_else(not_read),
        Err(nature) => (Observed::Unknown(nature), 0),
    };
    changes.iter().map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::{
        super::{
            changes::Changes,
            scan::{Sample, Scan},
        },
        *,
    };
    use crate::instruments::fake::{FakeMachine, FakeStat};
    use protocol::instruments::process_list::Column;

    #[test]
    fn another_process_under_the_pid_is_not_described_as_the_one_that_was_measured() {
        let second = Duration::from_secs(1);
        let scan = |at| Scan::of(vec![Sample::idle(7, 100, at)], at, at);
        let changes = Changes::between(&scan(second), &scan(second * 2), None);
        let [change] = changes.processes.as_slice() else { panic!("one process") };
        let machine = FakeMachine::new();
        machine.write("7/cmdline", "their\0secret\0");
        machine.write("7/cgroup", "0::/system.slice/theirs.service\n");
        let owner = |start_ticks| {
            machine.stat("7", FakeStat::idle(7, start_ticks));
            let context = machine.context();
            let command = commands(&changes.processes, &context).remove(0);
            Owner::of(change, command, &mut Users::read(context.root), &context)
        };
        let same = owner(100);
        assert_eq!(same.command, Observed::Known(HostText::new(b"their secret")));
        assert_eq!(same.service, Observed::Known(HostText::new(b"theirs.service")));
        let other = owner(200);
        let gone = Observed::Unknown(Reason::Gone);
        assert_eq!([other.command, other.service, other.container], [(); 3].map(|()| gone.clone()));
        assert_eq!(other.user, gone);
    }

    #[test]
    fn rows_that_could_not_be_ranked_are_counted_with_the_reason_that_most_have() {
        let second = Duration::from_secs(1);
        let samples = |at| (1..=5).map(move |pid| Sample::idle(pid, 1, at)).collect();
        let scan = |at| Scan::of(samples(at), at, at);
        let mut changes = Changes::between(&scan(second), &scan(second * 2), None);
        for change in &mut changes.processes {
            change.ranked = Some(match change.pid {
                1 => Observed::Unknown(Reason::Gone),
                2 | 3 => Observed::Unknown(Reason::ChildrenReaped),
                _ => Observed::Known(0),
            });
        }
        let found = unranked(changes.weights(Column::Read));
        let value = Observed::Unknown(Reason::ChildrenReaped);
        assert_eq!(found, Some(Unranked { rows: 3, value }));
        assert_eq!(unranked(changes.weights(Column::Cpu)), None);
    }
}
