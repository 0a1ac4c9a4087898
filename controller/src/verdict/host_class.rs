//! What a machine is short of.
//!
//! Being busy is no fault: a class holds where tasks had to wait, or where something was lost.

mod rules;

use super::{Conclusion, NextStep, finding};
use protocol::instruments::host_snapshot::Report;
use serde_json::json;

/// What a machine may be found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A hypervisor gives its processors to others.
    Stolen,
    /// Tasks wait for memory.
    MemoryShort,
    /// Tasks wait for storage.
    StorageSlow,
    /// Tasks hang, deaf to signals, and not for storage that answers.
    TasksBlocked,
    /// Tasks wait for processors.
    CpuSaturated,
    /// The network, or whoever should take what it brings, loses data.
    NetworkLosing,
    /// Nothing that is measured here.
    NotShort,
}

impl Class {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stolen => "cpu_stolen",
            Self::MemoryShort => "memory_short",
            Self::StorageSlow => "storage_slow",
            Self::TasksBlocked => "tasks_blocked",
            Self::CpuSaturated => "cpu_saturated",
            Self::NetworkLosing => "network_losing",
            Self::NotShort => "not_short",
        }
    }
}

/// Classifies a machine.
pub fn conclude(report: &Report) -> Conclusion {
    let findings = rules::ALL.map(|(class, rule)| (class, rule(report)));
    let (mut conclusion, class) = finding::weigh(findings, Class::name);
    conclusion.next = class.map(|class| next_steps(class, report)).unwrap_or_default();
    conclusion
}

/// What to ask next: fixed words, and numbers.
fn next_steps(class: Class, report: &Report) -> Vec<NextStep> {
    let list = |parameters, why: &str| {
        vec![NextStep { tool: "process_list".to_owned(), parameters, why: why.to_owned() }]
    };
    match class {
        Class::CpuSaturated => list(json!({}), "which processes have the processors"),
        Class::MemoryShort => list(json!({"sort": "rss"}), "which processes have the memory"),
        Class::StorageSlow => list(json!({"sort": "write"}), "which processes use the storage"),
        Class::TasksBlocked => report
            .blocked
            .groups
            .first()
            .map(|group| NextStep {
                tool: "process_inspect".to_owned(),
                parameters: json!({"pid": group.pid}),
                why: "what the process waits for that most of them are of".to_owned(),
            })
            .into_iter()
            .collect(),
        // Nothing on the machine tells more of it.
        Class::Stolen | Class::NetworkLosing => Vec::new(),
        Class::NotShort => list(json!({}), "the machine is not short; which process is slow"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        instruments::{
            Instrument as _,
            host_snapshot::{BlockedGroup, HostSnapshot},
        },
        observed::{Feature, Observed, Reason},
        units::{PerSecond, Percent},
    };
    use std::time::Duration;

    fn percent(value: f64) -> Observed<Percent> {
        Observed::Known(Percent::of(value, 100.0).unwrap())
    }

    fn rate(growth: u64) -> Observed<PerSecond> {
        Observed::Known(PerSecond::over(growth, Duration::from_secs(1)).unwrap())
    }

    /// A machine that is busy with nothing.
    fn calm() -> Report {
        let mut report = HostSnapshot::example().report;
        report.cpu.iowait_pct = percent(0.0);
        report.pressure.cpu_some_pct = percent(0.0);
        report.pressure.io_some_pct = percent(0.0);
        report.pressure.io_full_pct = percent(0.0);
        report.blocked.tasks = 0;
        report.blocked.groups.clear();
        report
    }

    fn with(change: impl FnOnce(&mut Report)) -> Report {
        let mut report = calm();
        change(&mut report);
        report
    }

    fn class(report: &Report) -> String {
        conclude(report).class.unwrap_or_default()
    }

    #[test]
    fn each_class_by_its_signs() {
        let group = HostSnapshot::example().report.blocked.groups.remove(0);
        let cases = [
            ("nothing", calm(), "not_short"),
            ("slow storage", HostSnapshot::example().report, "storage_slow"),
            (
                "too few processors",
                with(|report| {
                    report.cpu.user_pct = percent(97.0);
                    report.pressure.cpu_some_pct = percent(80.0);
                }),
                "cpu_saturated",
            ),
            (
                "a busy machine on which nothing waits",
                with(|report| report.cpu.user_pct = percent(97.0)),
                "not_short",
            ),
            (
                "processors that a quota keeps idle",
                with(|report| report.pressure.cpu_some_pct = percent(80.0)),
                "not_short",
            ),
            ("stolen", with(|report| report.cpu.steal_pct = percent(30.0)), "cpu_stolen"),
            (
                "memory",
                with(|report| {
                    report.pressure.memory_some_pct = percent(40.0);
                    report.pressure.io_some_pct = percent(30.0);
                }),
                "memory_short",
            ),
            (
                "a load of forty on idle processors",
                with(|report| {
                    report.cpu.load_1m = Observed::Known(40.0);
                    report.blocked.tasks = 40;
                    report.blocked.groups = vec![BlockedGroup { tasks: 40, ..group }];
                }),
                "tasks_blocked",
            ),
            (
                "segments sent again",
                with(|report| report.tcp.retransmitted_per_s = rate(60)),
                "network_losing",
            ),
            (
                "a listener that is too slow",
                with(|report| report.tcp.listen_drops_per_s = rate(3)),
                "network_losing",
            ),
        ];
        for (name, report, want) in cases {
            assert_eq!(class(&report), want, "{name}: {:?}", conclude(&report));
        }
    }

    #[test]
    fn without_pressure_nothing_is_claimed_to_be_well() {
        let unknown = || Observed::Unknown(Reason::KernelLacks(Feature::Pressure));
        let mut report = calm();
        report.pressure.cpu_some_pct = unknown();
        report.pressure.io_some_pct = unknown();
        report.pressure.memory_some_pct = unknown();
        let conclusion = conclude(&report);
        assert_eq!(conclusion.class, None, "{conclusion:?}");
        let cannot_tell = conclusion.cannot_tell.join(" ");
        for class in ["cpu_saturated", "storage_slow", "memory_short"] {
            assert!(cannot_tell.contains(class), "{cannot_tell}");
        }
    }

    #[test]
    fn the_disk_with_the_longest_queue_is_evidence() {
        let conclusion = conclude(&HostSnapshot::example().report);
        let because = conclusion.because.join(" ");
        assert!(because.contains("93 % of the window"), "{because}");
        assert!(because.contains("33.4 ms for a write"), "{because}");
        // What the disk is called is the target's text.
        assert!(!because.contains("vda"), "{because}");
    }
}
