//! What follows from counters.

use super::{CONCLUSION_BYTES, step};
use crate::verdict::Conclusion;
use protocol::{
    instruments::{
        capabilities::{CheckId, Refusal},
        perf_record::{Counters, Report},
    },
    observed::Observed,
};
use serde_json::json;

/// What follows, and what counters cannot tell.
pub(super) fn conclude(report: &Report, counters: &Counters) -> Conclusion {
    let recording = &report.recording;
    let window_ms = recording.window_ms;
    let mut conclusion = Conclusion::default();
    if let Observed::Known(cpu) = &report.cpu_pct {
        conclusion
            .because
            .push(format!("it used {:.1} % of one processor over {window_ms} ms", cpu.get()));
    }
    for of in &counters.quotients {
        if let Observed::Known(ratio) = &of.instructions_per_cycle {
            // The kind of core is a name that the kernel gives, not ours.
            let core = if of.core.is_some() { " on one kind of core" } else { "" };
            conclusion.because.push(format!("{} instructions for each cycle{core}", ratio.get()));
        }
    }
    let is_reckoned = |pct: &Observed<protocol::units::Percent>| matches!(pct, Observed::Known(pct) if pct.get() < 100.0);
    if counters.counts.iter().any(|row| is_reckoned(&row.counted_pct)) {
        conclusion.because.push(
            "counters took turns: counts with `counted_pct` below 100 are reckoned from that part"
                .to_owned(),
        );
    }
    if counters.counts.iter().any(|row| !row.with_kernel && row.count.known().is_some()) {
        conclusion.cannot_tell.push(
            "what happened in the kernel: counts with `with_kernel` false are of user space only"
                .to_owned(),
        );
    }
    if report.has_ended {
        conclusion.because.push("the process ended while it was counted".to_owned());
    }
    conclusion.cannot_tell.extend(report.refused.iter().map(refused));
    let mut parameters = json!({});
    if let Some(pid) = recording.pid {
        parameters = json!({"pid": pid});
    }
    conclusion.next.push(step("perf_record", parameters, "in which functions the time goes"));
    conclusion.within(CONCLUSION_BYTES, "see counters and refused")
}

fn refused(refusal: &Refusal) -> String {
    let why = refusal.in_our_words();
    if refusal.id == CheckId::HardwareCounters {
        return format!("cycles, instructions, caches and branches: no PMU here: {why}");
    }
    format!("{}: {why}", refusal.id.what())
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        instruments::{
            Instrument as _,
            perf_record::{Counter, CounterRow, PerfRecord, Quotients},
        },
        observed::Reason,
        units::{Percent, Ratio},
    };

    fn row(counter: Counter, counted: f64) -> CounterRow {
        CounterRow {
            counter,
            core: None,
            count: Observed::Known(7),
            per_s: Observed::Unknown(Reason::EmptyWindow),
            counted_pct: Observed::Known(Percent::of(counted, 100.0).unwrap()),
            with_kernel: true,
        }
    }

    fn counters(counts: Vec<CounterRow>) -> Counters {
        let quotients = vec![Quotients {
            core: None,
            instructions_per_cycle: Observed::Known(Ratio::of(150.0, 100.0).unwrap()),
            cache_misses_pct: Observed::Unknown(Reason::CountersInUse),
            branch_misses_pct: Observed::Unknown(Reason::CountersInUse),
        }];
        Counters { counted_at: 1, counts, quotients }
    }

    #[test]
    fn what_was_reckoned_and_what_was_left_out_is_said() {
        let report = PerfRecord::example().report;
        let plain = conclude(&report, &counters(vec![row(Counter::Cycles, 100.0)]));
        let because = plain.because.join("; ");
        assert!(because.contains("1.5 instructions for each cycle"), "{because}");
        assert!(!because.contains("took turns"), "{because}");
        // The example has no counters of the processor.
        assert!(plain.cannot_tell.join("; ").contains("no PMU here"), "{plain:?}");
        assert!(plain.cannot_tell.join("; ").contains("pmu=on"), "{plain:?}");
        let user = CounterRow { with_kernel: false, ..row(Counter::Cycles, 50.0) };
        let reckoned = conclude(&report, &counters(vec![user]));
        assert!(reckoned.because.join("; ").contains("took turns"), "{reckoned:?}");
        assert!(reckoned.cannot_tell.join("; ").contains("in the kernel"), "{reckoned:?}");
    }
}
