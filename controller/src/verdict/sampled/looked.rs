//! What follows from looks at threads, in place of samples that were refused.

use super::{CONCLUSION_BYTES, WORTH_SAYING_PCT, cannot_tell, questions, refused};
use crate::verdict::Conclusion;
use protocol::{
    instruments::perf_record::{Looks, Report},
    message::Meta,
    recording::{Cut, Incomplete, Recording, Scope},
};

/// What follows, and what looks cannot tell.
pub(super) fn conclude(report: &Report, looks: &Looks, meta: &Meta) -> Conclusion {
    let recording = &report.recording;
    let mut because = vec![format!(
        "sampling was refused, so {} threads were looked at {} times in {} ms: shares are of the time \
         on the clock, whether threads ran or waited, and not of processor time",
        recording.threads, looks.rounds, recording.window_ms
    )];
    if looks.stops > 0 {
        because.push(format!(
            "threads were stopped {} times, for {} us at most",
            looks.stops, meta.overhead.target_pause_us_max
        ));
    }
    if report.has_ended {
        because.push("the process ended while it was looked at".to_owned());
    }
    let mut conclusion = Conclusion { because, next: questions(meta), ..Conclusion::default() };
    conclusion.cannot_tell.extend(report.refused.iter().map(refused));
    conclusion.cannot_tell.extend(not_told(looks, recording));
    conclusion.within(CONCLUSION_BYTES, "see looks, recording.quality and refused")
}

fn not_told(looks: &Looks, recording: &Recording) -> Vec<String> {
    let mut sentences = vec![
        "waits of less than some tenths of a millisecond: they are over before they are looked at, and \
         count as running; process_inspect counts how long threads were blocked"
            .to_owned(),
    ];
    if recording.scope == Scope::Process {
        sentences
            .push("what children do that it starts meanwhile: they are not looked at".to_owned());
    }
    if !looks.sees_waits {
        sentences.push(
            "what threads wait in: that is told to root and to the user of the process only"
                .to_owned(),
        );
    }
    if looks.took_turns {
        sentences
            .push("every thread at every look: there are too many, and they took turns".to_owned());
    }
    if looks.stops_failed > 0 {
        sentences.push(format!(
            "the stacks of threads that could not be stopped, {} times",
            looks.stops_failed
        ));
    }
    let without =
        recording.quality.incomplete.iter().filter(|incomplete| is_without_stop(incomplete));
    let without: f64 = without.map(|incomplete| incomplete.pct.get()).sum();
    if without >= WORTH_SAYING_PCT && looks.stops == 0 && looks.stops_failed == 0 {
        sentences.push(format!(
            "what called {without:.1} % of looks: threads that run, and code that keeps frame pointers, \
             show it only while they are stopped; ask with `stop` true"
        ));
    }
    // Of samples the same would have another remedy.
    let mut rest = recording.clone();
    rest.quality.incomplete.retain(|incomplete| !is_without_stop(incomplete));
    sentences.extend(cannot_tell(&rest));
    sentences
}

/// Whether the stack would be known of a thread that stands still.
const fn is_without_stop(incomplete: &Incomplete) -> bool {
    matches!(incomplete.why, Cut::StackNotReadable | Cut::NoUnwindInfo)
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        instruments::{Instrument as _, perf_record::PerfRecord},
        loss::{Lost, Overhead, Truncation},
        message::Engine,
        recording::Counted,
        units::Percent,
    };

    fn looked(looks: Looks) -> Report {
        let mut report = PerfRecord::example().report;
        report.recording.counted = Counted::Looks;
        report.recording.quality.incomplete =
            vec![Incomplete { why: Cut::StackNotReadable, pct: Percent::of(40.0, 100.0).unwrap() }];
        report.looks = Some(looks);
        report
    }

    fn meta() -> Meta {
        Meta {
            engine: Engine::Looks,
            window_ms: Some(5_000),
            truncation: Truncation::none(1),
            artifact: None,
            lost: Lost::default(),
            overhead: Overhead::default(),
            redacted: 0,
        }
    }

    const LOOKS: Looks = Looks {
        rounds: 100,
        took_turns: false,
        sees_waits: true,
        stops: 0,
        stops_failed: 0,
        stopped_us_total: 0,
    };

    #[test]
    fn looks_are_said_to_be_no_samples_and_what_they_cannot_tell_has_its_remedy() {
        let report = looked(LOOKS);
        let meta = meta();
        let conclusion = conclude(&report, &LOOKS, &meta);
        let because = conclusion.because.join("; ");
        assert!(because.contains("not of processor time"), "{because}");
        let not_told = conclusion.cannot_tell.join("; ");
        for part in ["what called 40.0 % of looks", "`stop` true", "waits of less than"] {
            assert!(not_told.contains(part), "{part}: {not_told}");
        }
        assert!(!not_told.contains("frame_pointers where"), "{not_told}");
    }

    #[test]
    fn what_was_stopped_is_said_with_its_pause() {
        let looks = Looks { stops: 20, stopped_us_total: 900, ..LOOKS };
        let mut meta = meta();
        meta.overhead.target_pause_us_max = 77;
        let conclusion = conclude(&looked(looks.clone()), &looks, &meta);
        let because = conclusion.because.join("; ");
        assert!(because.contains("stopped 20 times, for 77 us at most"), "{because}");
        assert!(!conclusion.cannot_tell.join("; ").contains("`stop` true"));
    }

    #[test]
    fn where_only_states_are_seen_that_is_said() {
        let looks = Looks { sees_waits: false, took_turns: true, ..LOOKS };
        let conclusion = conclude(&looked(looks.clone()), &looks, &meta());
        let not_told = conclusion.cannot_tell.join("; ");
        assert!(not_told.contains("to the user of the process only"), "{not_told}");
        assert!(not_told.contains("took turns"), "{not_told}");
    }
}
