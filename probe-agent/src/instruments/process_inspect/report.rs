//! The report, out of the two ends of the window and what was found in between.

use super::{
    end::{End, delay_accounting},
    samples::Sampler,
    used::{ThreadUse, Used},
};
use crate::{
    call::Context,
    instruments::{
        one_process,
        window::{Window, growth},
    },
    os::clock,
    proc::{host_stat::HostStat, pid_io::PidIo, pid_status::MemoryLines, schedstat::SchedStat},
    rank::{self, Page},
};
use protocol::{
    Report as AnyReport,
    error::AgentError,
    instruments::process_inspect::{
        Cgroup, Cpu, Descriptors, HostContext, Io, Memory, Report, Request, ThreadRow,
    },
    loss::{Lost, Truncation},
    message::{Engine, Meta},
    observed::{Feature, Observed, Reason},
    units::{Bytes, Percent},
    view::json,
};
use std::time::Duration;

/// Puts the report together.
///
/// # Errors
///
/// When the call reached a limit.
pub(super) fn assemble(
    request: &Request,
    first: &End,
    last: &End,
    sampler: Sampler<'_, '_>,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    context.check()?;
    let window = Window::between(first.line.at, last.line.at);
    let used = Used::between(first, last, sampler.saw_others(&last.threads));
    let two_instants = context.root.has_two_instants();
    let ends = Ends { first, last, used, window, two_instants };
    let whose = (request.pid, last.via);
    let (process, redacted) = one_process::identity(whose, &last.line, context);
    let all_threads = ends.used.threads.clone();
    let blocked = |id| {
        let thread = all_threads.iter().find(|thread| thread.id == id);
        let share = thread.map_or(Observed::Unknown(Reason::ThreadsEnded), |it| ends.blocked(it));
        share.map(|share| share.get() / 100.0)
    };
    let waits = sampler.waits(blocked);
    let demand = |thread: &ThreadUse| thread.demand.clone();
    let busiest = all_threads.iter().max_by(|left, right| {
        let known = |thread| demand(thread).known().copied().unwrap_or(f64::NEG_INFINITY);
        known(left).total_cmp(&known(right))
    });
    let cpu = ends.cpu(busiest, context);
    let limit = request.threads as usize;
    let mut page = rank::page(all_threads, demand, 0, limit);
    let mut report = Report {
        process,
        cpu,
        waits,
        threads: Vec::new(),
        memory: ends.memory(),
        io: ends.io(),
        descriptors: ends.descriptors(),
        cgroup: ends.cgroup(),
        host: ends.host(),
    };
    let mut meta = Meta {
        engine: Engine::Procfs,
        window_ms: Some(ends.window.millis()),
        truncation: page.truncation,
        artifact: None,
        lost: Lost::default(),
        overhead: context.overhead(),
        redacted,
    };
    let row = |thread| ends.thread_row(thread, &sampler);
    let rows: Vec<ThreadRow> = page.rows.iter().map(row).collect();
    let groups = std::mem::take(&mut report.waits.groups);
    let budget = context.budget.answer_bytes as usize;
    let kept = fit(&mut page, groups.len(), budget, |groups_kept, threads_kept| {
        report.waits.groups = groups.iter().take(groups_kept).cloned().collect();
        report.threads = rows.iter().take(threads_kept).cloned().collect();
        json::bytes(&AnyReport::ProcessInspect(report.clone()), &meta)
    });
    report.waits.groups = groups.into_iter().take(kept).collect();
    report.threads = rows.into_iter().take(page.rows.len()).collect();
    meta.truncation = truncation(page.truncation, limit);
    meta.overhead = context.overhead();
    Ok((report, meta))
}

/// Shortens both lists until the answer fits: places to the most frequent few, then threads to the
/// busiest, then places again. Gives the places that are kept.
fn fit(
    page: &mut Page<ThreadUse>,
    groups: usize,
    budget: usize,
    mut size: impl FnMut(usize, usize) -> usize,
) -> usize {
    const MOST_FREQUENT: usize = 8;
    let threads = page.rows.len();
    let least = MOST_FREQUENT.min(groups);
    let groups = rank::most_that_fit(least, groups, budget, |groups| size(groups, threads));
    let demand = |thread: &ThreadUse| thread.demand.clone();
    rank::fit(page, demand, budget, |_, threads| size(groups, threads));
    rank::most_that_fit(1, groups, budget, |groups| size(groups, page.rows.len()))
}

/// No thread was asked for: then none was cut either.
const fn truncation(found: Truncation, limit: usize) -> Truncation {
    if limit == 0 { Truncation::none(0) } else { found }
}

/// Both ends of the window.
struct Ends<'e> {
    first: &'e End,
    last: &'e End,
    used: Used,
    window: Window,
    /// Why nothing can have happened between them, where that is so.
    two_instants: Result<(), Reason>,
}

impl Ends<'_> {
    fn cpu(&self, busiest: Option<&ThreadUse>, context: &Context<'_>) -> Cpu {
        let (now, before) = (&self.last.line.cpu, &self.first.line.cpu);
        let ticks = |now: u64, before: u64| {
            let share = self.share(clock::ticks(now.saturating_sub(before)));
            match share {
                Err(Reason::EmptyWindow) => Observed::Known(Percent::default()),
                Ok(_) | Err(_) => share.into(),
            }
        };
        let (used, switches) = (&self.used, self.used.switches.clone());
        let summed = |part: fn(&SchedStat) -> u64| {
            let share = |used| self.share(Duration::from_nanos(part(&used)));
            used.schedstat.clone().and_then(share)
        };
        let of_busiest = |part: &dyn Fn(&ThreadUse) -> Observed<Percent>| {
            busiest.map_or(Observed::Unknown(Reason::Gone), part)
        };
        Cpu {
            user_pct: ticks(now.user, before.user),
            system_pct: ticks(now.system, before.system),
            running_pct: summed(|used| used.running_ns),
            run_delay_pct: summed(|used| used.run_delay_ns),
            run_delay_at_least_pct: (used.known.clone())
                .and_then(|used| self.share(Duration::from_nanos(used.run_delay_ns))),
            busiest_thread_running_pct: of_busiest(&|thread| {
                self.share_of_thread(thread, |used| used.running_ns)
            }),
            busiest_thread_blocked_pct: of_busiest(&|thread| self.blocked(thread)),
            children_at_most_pct: self.children(),
            voluntary_switches_per_s: self
                .window
                .rate(switches.clone().map(|lines| lines.voluntary)),
            involuntary_switches_per_s: self.window.rate(switches.map(|lines| lines.involuntary)),
            block_delay_pct: self.block_delay(context),
        }
    }

    fn share_of_thread(
        &self,
        thread: &ThreadUse,
        part: fn(&SchedStat) -> u64,
    ) -> Observed<Percent> {
        thread.used.clone().and_then(|used| self.share(Duration::from_nanos(part(&used))))
    }

    fn blocked(&self, thread: &ThreadUse) -> Observed<Percent> {
        thread.used.clone().and_then(|used| {
            let wanted = Duration::from_nanos(used.demand_ns());
            self.share(thread.life.saturating_sub(wanted))
        })
    }

    /// The kernel adds a child's whole life when it is waited for, and when that began is unknown.
    fn children(&self) -> Observed<Percent> {
        let (now, before) = (self.last.line.cpu.children, self.first.line.cpu.children);
        let grown = clock::ticks(now.saturating_sub(before));
        let both = self.last.host.clone().zip(self.first.host.clone());
        let most = both.known().map(|(now, before)| clock::ticks(now.since(before).most_ticks()));
        if most.is_some_and(|most| grown > most) {
            return Observed::Unknown(Reason::ChildrenReaped);
        }
        self.share(grown).into()
    }

    fn block_delay(&self, context: &Context<'_>) -> Observed<Percent> {
        let waited = Observed::from(delay_accounting(context)).zip(self.used.block_delay.clone());
        waited.and_then(|((), waited)| self.share(clock::ticks(waited)))
    }

    fn thread_row(&self, thread: &ThreadUse, sampler: &Sampler<'_, '_>) -> ThreadRow {
        ThreadRow {
            tid: thread.id.tid,
            name: thread.name.clone(),
            state: thread.state,
            running_pct: self.share_of_thread(thread, |used| used.running_ns),
            run_delay_pct: self.share_of_thread(thread, |used| used.run_delay_ns),
            switches_per_s: self.window.rate(thread.used.clone().map(|used| used.switches)),
            mostly: sampler.mostly(thread.id),
        }
    }

    fn memory(&self) -> Memory {
        let now = &self.last.memory;
        let part = |part: fn(&MemoryLines) -> Option<Bytes>| {
            now.clone().and_then(|lines| part(&lines).ok_or(Reason::KernelLacks(Feature::Field)))
        };
        let faults = |now: u64, before: u64| {
            let per_second = || self.window.per_second(now.saturating_sub(before));
            Observed::from(self.two_instants.clone()).map(|()| per_second())
        };
        Memory {
            rss_bytes: now.clone().map(|lines| lines.resident),
            anonymous_bytes: part(|lines| lines.anonymous),
            file_bytes: part(|lines| lines.file),
            shared_bytes: part(|lines| lines.shared),
            swap_bytes: part(|lines| lines.swap),
            anonymous_growth_bytes_per_s: self.anonymous_growth(),
            minor_faults_per_s: faults(self.last.line.minor_faults, self.first.line.minor_faults),
            major_faults_per_s: faults(self.last.line.major_faults, self.first.line.major_faults),
        }
    }

    fn anonymous_growth(&self) -> Observed<i64> {
        let both = self.last.memory.clone().zip(self.first.memory.clone());
        both.and_then(|(now, before)| {
            let both = now.anonymous.zip(before.anonymous);
            let (now, before) = both.ok_or(Reason::KernelLacks(Feature::Field))?;
            per_second(difference(now.0, before.0), self.window.length()).ok_or(Reason::EmptyWindow)
        })
    }

    /// What the process read and wrote itself. Its own count has in it all that a child ever did,
    /// once the child was waited for; then the counts of its threads must do.
    fn io_used(&self) -> Observed<PidIo> {
        let [before, _] = self.first.reaped;
        let [_, after] = self.last.reaped;
        let both = self.last.io.clone().zip(self.first.io.clone());
        if before == after {
            return both.and_then(|(now, before)| now.since(&before).ok_or(Reason::SteppedBack));
        }
        both.and_then(|_| self.used.io.known().copied().ok_or(Reason::ChildrenReaped))
    }

    fn io(&self) -> Io {
        let used = self.io_used();
        let rate =
            |counter: fn(&PidIo) -> u64| self.window.rate(used.clone().map(|io| counter(&io)));
        Io {
            read_calls_bytes_per_s: rate(|io| io.read_calls_bytes),
            write_calls_bytes_per_s: rate(|io| io.write_calls_bytes),
            storage_read_bytes_per_s: rate(|io| io.storage_read_bytes),
            storage_write_bytes_per_s: rate(|io| io.storage_write_bytes),
            read_calls_per_s: rate(|io| io.read_calls),
            write_calls_per_s: rate(|io| io.write_calls),
        }
    }

    fn descriptors(&self) -> Descriptors {
        let both = self.last.open_files.clone().zip(self.first.open_files.clone());
        Descriptors {
            open: self.last.open_files.clone(),
            growth: both.map(|(now, before)| difference(now, before)),
            limit: self.last.open_files_limit.clone(),
        }
    }

    fn cgroup(&self) -> Cgroup {
        let (now, before) = (&self.last.cgroup, &self.first.cgroup);
        let working_set = now.memory.clone().zip(now.inactive_file.clone());
        Cgroup {
            path: now.path.clone(),
            cpu_quota_cores: now.quota_cores.clone(),
            throttling: now.throttled_since(before),
            memory_bytes: now.memory.clone(),
            working_set_bytes: working_set
                .map(|(all, inactive)| Bytes(all.0.saturating_sub(inactive.0))),
            memory_limit_bytes: now.memory_limit.clone(),
            memory_limit_hits: now.limit_hits_since(before),
            oom_kills: growth(&now.oom_kills, &before.oom_kills),
        }
    }

    fn host(&self) -> HostContext {
        let delta: Observed<HostStat> = self
            .last
            .host
            .clone()
            .zip(self.first.host.clone())
            .map(|(now, before)| now.since(&before));
        let waited = |now: &Observed<Duration>, before: &Observed<Duration>| {
            let both = now.clone().zip(before.clone());
            both.and_then(|(now, before)| self.share(now.saturating_sub(before)))
        };
        HostContext {
            cpus: self.last.host.clone().map(|now| now.cpus),
            cpu_busy_pct: delta.and_then(|delta| delta.share(|delta| delta.not_idle_ticks())),
            cpu_pressure_pct: waited(&self.last.cpu_pressure, &self.first.cpu_pressure),
            io_pressure_pct: waited(&self.last.io_pressure, &self.first.io_pressure),
            memory_pressure_pct: waited(&self.last.memory_pressure, &self.first.memory_pressure),
        }
    }

    fn share(&self, time: Duration) -> Result<Percent, Reason> {
        self.two_instants.clone()?;
        self.window.share(time)
    }
}

fn difference(now: u64, before: u64) -> i64 {
    let grown = i64::try_from(now.saturating_sub(before)).unwrap_or(i64::MAX);
    let shrunk = i64::try_from(before.saturating_sub(now)).unwrap_or(i64::MAX);
    grown - shrunk
}

fn per_second(growth: i64, window: Duration) -> Option<i64> {
    let millis = i64::try_from(window.as_millis()).ok()?;
    growth.checked_mul(1000)?.checked_div(millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::{
        cgroup_levels::CgroupLevels,
        fake::{FakeMachine, FakeStat, io},
        process_files::ProcessFiles,
        thread_accounts::ThreadId,
    };
    use protocol::{host_text::HostText, instruments::process_list::State, loss::CutBy};

    const SECOND: Window = Window::between(Duration::ZERO, Duration::from_secs(1));

    #[test]
    fn what_a_child_read_in_its_life_is_not_the_parents() {
        let machine = FakeMachine::new();
        let parent = FakeStat::idle(7, 100);
        machine.stat("7", parent);
        machine.write("7/io", io(5000));
        machine.thread(7, parent, 1000);
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let levels = CgroupLevels::of(&files);
        let first = End::read(&files, &levels).unwrap();
        machine.stat("7", FakeStat { children_minor_faults: 80, ..parent });
        machine.write("7/io", io(1 << 30));
        machine.thread(7, parent, 1004);
        let read = |last: &End| {
            let used = Used::between(&first, last, false);
            let ends = Ends { first: &first, last, used, window: SECOND, two_instants: Ok(()) };
            ends.io_used().map(|used| used.storage_read_bytes)
        };
        assert_eq!(read(&End::read(&files, &levels).unwrap()), Observed::Known(4));
        // Nobody knows what a thread that the first look missed had read by then.
        machine.thread(7, FakeStat::idle(8, 101), 9000);
        let unknown = Observed::Unknown(Reason::ChildrenReaped);
        assert_eq!(read(&End::read(&files, &levels).unwrap()), unknown);
    }

    #[test]
    fn children_that_did_more_than_all_processors_lived_before_the_window() {
        let machine = FakeMachine::new();
        let parent = FakeStat::idle(7, 100);
        let end = |children_ticks, busy_ticks| {
            machine.stat("7", FakeStat { children_ticks, ..parent });
            machine.thread(7, parent, 0);
            machine.write("stat", format!("cpu {busy_ticks} 0 0 0\nprocesses 1\n"));
            let context = machine.context();
            let files = ProcessFiles { pid: 7, context: &context };
            End::read(&files, &CgroupLevels::of(&files)).unwrap()
        };
        let first = end(0, 0);
        let share = |last: &End| {
            let used = Used::between(&first, last, false);
            Ends { first: &first, last, used, window: SECOND, two_instants: Ok(()) }.children()
        };
        assert_eq!(share(&end(50, 60)).known().unwrap().get(), 50.0);
        assert_eq!(share(&end(500, 60)), Observed::Unknown(Reason::ChildrenReaped));
    }

    #[test]
    fn both_lists_are_shortened_to_the_budget_and_only_what_went_is_cut() {
        let thread = |tid| ThreadUse {
            id: ThreadId { tid, start_ticks: 0 },
            name: HostText::new(b"it"),
            state: State::Sleeping,
            life: Duration::ZERO,
            used: Observed::Unknown(Reason::Gone),
            demand: Observed::Known(f64::from(tid)),
        };
        let cases = [
            ("all fits", 40, 20, 70, (40, 20, CutBy::Nothing)),
            ("places go first", 40, 20, 55, (35, 20, CutBy::Nothing)),
            ("then threads", 40, 20, 20, (8, 12, CutBy::AnswerBytes)),
            ("then places again", 40, 20, 5, (4, 1, CutBy::AnswerBytes)),
            ("nothing is left to cut", 1, 0, 0, (1, 0, CutBy::Nothing)),
        ];
        for (name, groups, threads, budget, want) in cases {
            let rows = (0..threads).map(thread).collect();
            let mut page = rank::page(rows, |thread| thread.demand.clone(), 0, 100);
            let kept = fit(&mut page, groups, budget, |groups, threads| groups + threads);
            assert_eq!((kept, page.rows.len(), page.truncation.cut_by), want, "{name}");
        }
    }
}
