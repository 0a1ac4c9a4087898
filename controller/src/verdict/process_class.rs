//! What one process spends its time on.
//!
//! Counters say how much, samples say what for. The rules weigh each class by the share of the
//! window that it explains, in percent; the heaviest is the class. Three look-alikes are kept
//! apart on purpose: a quota and a neighbour both show as waiting for a processor, and slow storage
//! shows as a process that hardly runs.

mod rules;

use super::{Conclusion, NextStep, finding};
use protocol::instruments::process_inspect::{Identity, Report};
use serde_json::json;

/// What a process may be found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Ended, and not waited for by its parent.
    Zombie,
    /// Stopped by a signal, a tracer or a frozen cgroup.
    Stopped,
    /// Out of file descriptors, or nearly so.
    OutOfDescriptors,
    /// Stopped by its cgroup's CPU quota.
    Throttled,
    /// Runnable, and waiting for a processor that others have.
    Starved,
    /// Blocked on storage.
    BlockedOnIo,
    /// Blocked on a lock.
    BlockedOnLock,
    /// Short of memory: reclaim, swapping, faults that read.
    MemoryBound,
    /// Busy in user mode.
    UserCpu,
    /// Busy in the kernel.
    SystemCpu,
    /// Waiting for peers, events or the clock, now and then awake.
    Sleeping,
    /// Doing nothing.
    Idle,
}

impl Class {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zombie => "zombie",
            Self::Stopped => "stopped",
            Self::OutOfDescriptors => "out_of_descriptors",
            Self::Throttled => "throttled",
            Self::Starved => "starved_of_cpu",
            Self::BlockedOnIo => "blocked_on_io",
            Self::BlockedOnLock => "blocked_on_lock",
            Self::MemoryBound => "memory_bound",
            Self::UserCpu => "user_cpu",
            Self::SystemCpu => "system_cpu",
            Self::Sleeping => "sleeping",
            Self::Idle => "idle",
        }
    }
}

/// Classifies one process, by what was measured in a window of so many milliseconds.
pub fn conclude(report: &Report, window_ms: Option<u64>) -> Conclusion {
    let facts = rules::Facts { report, window_ms };
    let findings = rules::ALL.map(|(class, rule)| (class, rule(&facts)));
    let (mut conclusion, class) = finding::weigh(findings, Class::name);
    conclusion.next = class.map(|class| next_steps(class, report)).unwrap_or_default();
    conclusion
}

/// What to ask next: fixed words, and numbers.
fn next_steps(class: Class, report: &Report) -> Vec<NextStep> {
    let Identity { pid, parent_pid, start_ticks, .. } = report.process;
    let step = |tool: &str, parameters, why: &str| NextStep {
        tool: tool.to_owned(),
        parameters,
        why: why.to_owned(),
    };
    let again = |threads: u32, why| {
        let parameters = json!({"pid": pid, "start_ticks": start_ticks, "threads": threads});
        vec![step("process_inspect", parameters, why)]
    };
    let list = |parameters, why| vec![step("process_list", parameters, why)];
    let latency = |kind: &str, why| {
        let parameters = json!({"pid": pid, "start_ticks": start_ticks, "kinds": [kind]});
        step("latency", parameters, why)
    };
    let calls = |why| {
        let parameters = json!({"pid": pid, "start_ticks": start_ticks, "mode": "detailed"});
        step("syscall_trace", parameters, why)
    };
    match class {
        Class::Zombie => vec![step(
            "process_inspect",
            json!({"pid": parent_pid}),
            "why its parent does not wait for it",
        )],
        Class::Stopped => Vec::new(),
        Class::Throttled => list(
            json!({"group_by": "service"}),
            "the quota is of the whole cgroup: which processes use it up",
        ),
        Class::Starved => vec![
            latency("run_queue", "how long each wait is, and who has the processors meanwhile"),
            step("process_list", json!({}), "which processes have the processors"),
        ],
        Class::BlockedOnIo => vec![
            calls("on which files its calls wait, and for how long"),
            latency("block", "which device takes how long for which of its requests"),
            step("process_list", json!({"sort": "write"}), "who else writes to storage"),
        ],
        Class::MemoryBound => list(json!({"sort": "major_faults"}), "who else waits for memory"),
        Class::BlockedOnLock => {
            again(50, "the thread that holds the lock is one that does not wait for it")
        }
        Class::SystemCpu => {
            vec![calls("which calls keep the kernel busy, and on which files, peers or pipes")]
        }
        Class::UserCpu if report.process.threads > 1 => again(20, "which threads are busy"),
        Class::OutOfDescriptors => again(5, "whether the number of open descriptors still grows"),
        Class::Idle | Class::Sleeping => {
            list(json!({}), "the time goes elsewhere: which processes are busy")
        }
        Class::UserCpu => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        instruments::{
            Instrument as _,
            process_inspect::{ProcessInspect, Throttling, WaitGroup, WaitKind},
            process_list::State,
        },
        observed::{Feature, Observed, OutOfSight, Reason},
        units::{PerSecond, Percent},
    };
    use std::time::Duration;

    fn percent(value: f64) -> Percent {
        Percent::of(value, 100.0).unwrap()
    }

    fn rate(growth: u64) -> Observed<PerSecond> {
        Observed::Known(PerSecond::over(growth, Duration::from_secs(1)).unwrap())
    }

    /// A process with one thread that ran, waited for a processor, and was blocked for such shares.
    fn process(user: f64, system: f64, delay: f64, waits: &[(WaitKind, State, f64)]) -> Report {
        let mut report = ProcessInspect::example().report;
        report.cpu.user_pct = Observed::Known(percent(user));
        report.cpu.system_pct = Observed::Known(percent(system));
        report.cpu.running_pct = Observed::Known(percent(user + system));
        report.cpu.run_delay_pct = Observed::Known(percent(delay));
        // Neighbours have what the process waits for.
        report.host.cpu_busy_pct = Observed::Known(percent((user + system + delay) / 2.0));
        let blocked = 100.0 - user - system - delay;
        report.cpu.busiest_thread_running_pct = Observed::Known(percent(user + system));
        report.cpu.busiest_thread_blocked_pct = Observed::Known(percent(blocked.max(0.0)));
        report.cpu.voluntary_switches_per_s = rate(0);
        report.io.storage_write_bytes_per_s = rate(0);
        report.io.storage_read_bytes_per_s = rate(0);
        report.cgroup.cpu_quota_cores = Observed::Unknown(Reason::NoLimitSet);
        let group = report.waits.groups[0].clone();
        report.waits.groups = waits
            .iter()
            .map(|(kind, state, share)| WaitGroup {
                kind: *kind,
                state: *state,
                share_pct: percent(*share),
                blocked_pct: Observed::Known(percent(if *kind == WaitKind::Running {
                    0.0
                } else {
                    blocked
                })),
                ..group.clone()
            })
            .collect();
        report
    }

    fn throttled(mut report: Report, throttled_periods: u64, throttled_ms: u64) -> Report {
        let throttling = Throttling { periods: 10, throttled_periods, throttled_ms };
        report.cgroup.throttling = Observed::Known(throttling);
        report.cgroup.cpu_quota_cores = Observed::Known(0.2);
        report
    }

    fn concluded(report: &Report) -> Conclusion {
        conclude(report, Some(1000))
    }

    fn class(report: &Report) -> String {
        concluded(report).class.unwrap_or_default()
    }

    const RUNNING: (WaitKind, State, f64) = (WaitKind::Running, State::Running, 100.0);

    #[test]
    fn three_that_look_alike_are_told_apart() {
        let fsync =
            process(3.0, 21.0, 3.0, &[(WaitKind::Storage, State::UninterruptibleSleep, 95.0)]);
        let quota = throttled(process(18.0, 2.0, 79.0, &[RUNNING]), 10, 790);
        let neighbours = process(26.0, 2.0, 72.0, &[RUNNING]);
        assert_eq!(class(&fsync), "blocked_on_io");
        assert_eq!(class(&quota), "throttled");
        assert_eq!(class(&neighbours), "starved_of_cpu");
        let mut crowd = process(200.0, 0.0, 1000.0, &[RUNNING]);
        crowd.host.cpu_busy_pct = Observed::Known(percent(100.0));
        assert_eq!(class(&crowd), "user_cpu", "its own threads are no neighbours");
        let not = concluded(&neighbours).not.join(" ");
        assert!(not.contains("not throttled"), "{not}");
    }

    /// 5,000 fsync a second: the looking outlasts each wait, so every look finds it running.
    fn short_waits() -> Report {
        let unseen = (WaitKind::TooShortToSee, State::Other, 0.0);
        let mut report = process(3.0, 21.0, 3.0, &[RUNNING, unseen]);
        report.cpu.voluntary_switches_per_s = rate(5_000);
        report.io.storage_write_bytes_per_s = rate(20_000_000);
        report
    }

    #[test]
    fn short_waits_that_samples_miss_are_told_by_counters() {
        let report = short_waits();
        assert_eq!(class(&report), "blocked_on_io");
        assert!(concluded(&report).because[0].contains("for at most "), "{report:?}");
        type Change = fn(&mut Report);
        let changes: [(&str, Change); 3] = [
            ("on a host where nothing waits for storage", |report| {
                report.host.io_pressure_pct = Observed::Known(percent(0.5));
            }),
            ("of a process that moves nothing", |report| {
                report.io.storage_write_bytes_per_s = rate(0);
            }),
            ("of one that writes a log, while another waits for storage", |report| {
                report.io.storage_write_bytes_per_s = rate(40_000);
            }),
        ];
        for (name, change) in changes {
            let mut report = short_waits();
            change(&mut report);
            assert_eq!(class(&report), "system_cpu", "{name}");
        }
    }

    #[test]
    fn short_waits_without_a_sign_of_storage_are_no_storage() {
        let mut report = short_waits();
        report.host.io_pressure_pct = Observed::Unknown(Reason::KernelLacks(Feature::Pressure));
        let conclusion = concluded(&report);
        assert_eq!(conclusion.class.as_deref(), Some("system_cpu"));
        let cannot_tell = conclusion.cannot_tell.join(" ");
        assert!(cannot_tell.contains("blocked_on_io: 73 % of the window"), "{cannot_tell}");
    }

    #[test]
    fn whoever_waits_for_completions_waits_for_storage_only_with_a_sign_of_it() {
        let waits = [(WaitKind::Completions, State::Sleeping, 100.0)];
        assert_eq!(class(&process(0.0, 0.0, 0.0, &waits)), "idle");
        let mut busy = process(2.0, 3.0, 0.0, &waits);
        busy.io.storage_read_bytes_per_s = rate(50_000_000);
        busy.cpu.voluntary_switches_per_s = rate(3_000);
        assert_eq!(class(&busy), "blocked_on_io");
    }

    #[test]
    fn a_quota_and_a_neighbour_at_once_are_both_named() {
        let report = throttled(process(10.0, 0.0, 85.0, &[RUNNING]), 2, 150);
        let conclusion = concluded(&report);
        assert_eq!(conclusion.class.as_deref(), Some("starved_of_cpu"));
        assert_eq!(conclusion.also, ["throttled"]);
    }

    #[test]
    fn a_quota_is_weighed_by_how_long_it_stopped_and_hides_no_neighbour() {
        // In every period, and for a moment only.
        let moments = throttled(process(18.0, 2.0, 79.0, &[RUNNING]), 10, 50);
        let conclusion = concluded(&moments);
        assert_eq!(conclusion.class.as_deref(), Some("starved_of_cpu"));
        assert_eq!(conclusion.also, ["user_cpu"]);
        assert!(conclusion.not[0].contains("10 of 10 periods, for 50 ms"), "{conclusion:?}");
        // Ten threads on two processors, each stopped for 0.85 of the window: they wait for that, and
        // for each other.
        let mut crowd = throttled(process(20.0, 0.0, 850.0, &[RUNNING]), 10, 1700);
        crowd.host.cpus = Observed::Known(2);
        crowd.host.cpu_busy_pct = Observed::Known(percent(10.0));
        assert_eq!(class(&crowd), "throttled");
        assert_eq!(concluded(&crowd).also, ["user_cpu"], "no neighbour");
    }

    #[test]
    fn a_quota_whose_effect_was_not_measured_is_no_class() {
        let mut report = throttled(process(20.0, 0.0, 80.0, &[RUNNING]), 10, 790);
        report.cpu.run_delay_pct =
            Observed::Unknown(Reason::KernelLacks(Feature::SchedulerStatistics));
        let conclusion = concluded(&report);
        assert_eq!(conclusion.class.as_deref(), Some("user_cpu"));
        let cannot_tell = conclusion.cannot_tell.join(" ");
        assert!(cannot_tell.contains("throttled: its cgroup was stopped"), "{cannot_tell}");
        assert!(cannot_tell.contains("starved_of_cpu: "), "{cannot_tell}");
    }

    #[test]
    fn the_class_does_not_depend_on_what_is_shown() {
        let waits = [(WaitKind::Lock, State::Sleeping, 70.0)];
        let shown = process(12.0, 14.0, 0.0, &waits);
        let hidden = Report { threads: Vec::new(), ..shown.clone() };
        assert_eq!(concluded(&shown), concluded(&hidden));
    }

    #[test]
    fn a_process_that_cannot_go_on_is_not_idle() {
        let mut stopped = process(0.0, 0.0, 0.0, &[(WaitKind::Stopped, State::Stopped, 100.0)]);
        stopped.process.state = State::Stopped;
        assert_eq!(class(&stopped), "stopped");
        assert!(concluded(&stopped).because[0].contains("SIGCONT"));
        let mut zombie = process(0.0, 0.0, 0.0, &[]);
        (zombie.process.state, zombie.process.threads) = (State::Zombie, 1);
        assert_eq!(class(&zombie), "zombie");
        zombie.process.threads = 3;
        assert_eq!(class(&zombie), "idle", "a leader that ended before its threads");
    }

    #[test]
    fn what_was_not_measured_is_no_zero() {
        let mut report = process(0.1, 0.0, 0.0, &[(WaitKind::Poll, State::Sleeping, 100.0)]);
        report.cpu.voluntary_switches_per_s = Observed::Unknown(Reason::Gone);
        let because = concluded(&report).because.join(" ");
        assert!(because.contains("how often it woke was not measured"), "{because}");
        report.waits.threads_sampled = 2;
        for group in &mut report.waits.groups {
            (group.kind, group.threads) = (WaitKind::Lock, 2);
        }
        report.waits.groups.push(report.waits.groups[0].clone());
        let because = concluded(&report).because.join(" ");
        assert!(because.contains("up to 2 of 2 threads"), "{because}");
    }

    #[test]
    fn a_quota_that_others_in_the_cgroup_used_up_is_not_blamed_on_a_sleeper() {
        let report =
            throttled(process(0.0, 0.0, 0.0, &[(WaitKind::Poll, State::Sleeping, 100.0)]), 10, 900);
        assert_eq!(class(&report), "idle");
    }

    #[test]
    fn a_limit_that_is_out_of_sight_may_be_what_storage_is_waited_for() {
        let waits = [(WaitKind::Storage, State::UninterruptibleSleep, 90.0)];
        let mut report = process(2.0, 8.0, 0.0, &waits);
        let told = |report: &Report| concluded(report).cannot_tell.join("; ");
        report.cgroup.memory_limit_hits = Observed::Known(0);
        assert!(!told(&report).contains("memory_bound"), "{}", told(&report));
        let above = Reason::OutOfSight(OutOfSight::CgroupsAbove);
        report.cgroup.memory_limit_hits = Observed::Unknown(above);
        assert!(
            told(&report).contains("memory_bound: whether its cgroup hit"),
            "{}",
            told(&report)
        );
    }

    #[test]
    fn plain_classes() {
        let sleeping = State::Sleeping;
        let mut woken = process(1.0, 1.0, 0.0, &[(WaitKind::Socket, sleeping, 98.0)]);
        woken.cpu.voluntary_switches_per_s = rate(200);
        let mut full = process(5.0, 88.0, 2.0, &[RUNNING]);
        full.descriptors.open = Observed::Known(1020);
        let mut faulting =
            process(2.0, 8.0, 1.0, &[(WaitKind::Storage, State::UninterruptibleSleep, 90.0)]);
        faulting.memory.major_faults_per_s = rate(900);
        let cases = [
            ("user", process(92.0, 5.0, 2.0, &[RUNNING]), "user_cpu"),
            ("system", process(9.0, 90.0, 1.0, &[RUNNING]), "system_cpu"),
            (
                "lock",
                process(1.0, 1.0, 0.0, &[(WaitKind::Lock, sleeping, 85.0)]),
                "blocked_on_lock",
            ),
            ("idle", process(0.0, 0.0, 0.0, &[(WaitKind::Futex, sleeping, 100.0)]), "idle"),
            ("sleeping", woken, "sleeping"),
            ("descriptors", full, "out_of_descriptors"),
            ("faults", faulting, "memory_bound"),
        ];
        for (name, report, want) in cases {
            assert_eq!(class(&report), want, "{name}: {:?}", concluded(&report));
        }
    }

    #[test]
    fn evidence_holds_no_number_that_was_not_measured() {
        let waits = [(WaitKind::Storage, State::UninterruptibleSleep, 90.0)];
        let mut report = process(2.0, 3.0, 0.0, &waits);
        report.io.storage_read_bytes_per_s = Observed::Unknown(Reason::NoBaseline);
        report.io.storage_write_bytes_per_s = rate(25_062_400);
        assert!(
            concluded(&report).because[0].ends_with(
                "of the window; what it has read from it was not measured; 23.9 MiB/s written to it"
            ),
            "{:?}",
            concluded(&report).because
        );
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let mut report = process(10.0, 5.0, 0.0, &[RUNNING]);
        report.cpu.run_delay_pct = Observed::Unknown(Reason::NoBaseline);
        let conclusion = concluded(&report);
        assert!(
            conclusion.cannot_tell.iter().any(|line| line.starts_with("starved_of_cpu: ")),
            "{conclusion:?}"
        );
    }

    #[test]
    fn a_wait_that_is_long_enough_as_far_as_it_is_known_is_one() {
        let mut report = process(5.0, 0.0, 80.0, &[RUNNING]);
        report.host.cpu_busy_pct = Observed::Known(percent(100.0));
        report.cpu.run_delay_pct = Observed::Unknown(Reason::ThreadsEnded);
        report.cpu.run_delay_at_least_pct = Observed::Known(percent(60.0));
        let conclusion = concluded(&report);
        assert_eq!(conclusion.class.as_deref(), Some("starved_of_cpu"));
        let because = conclusion.because.join(" ");
        assert!(because.contains("waited for a processor for at least 60 %"), "{because}");
        // Of less than that, nobody knows how much more it was.
        report.cpu.run_delay_at_least_pct = Observed::Known(percent(1.0));
        let cannot_tell = concluded(&report).cannot_tell.join(" ");
        assert!(cannot_tell.contains("starved_of_cpu: threads ended"), "{cannot_tell}");
    }
}
