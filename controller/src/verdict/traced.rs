//! What follows from a trace of system calls, and what it cannot tell.

use super::{Conclusion, NextStep};
use protocol::{
    instruments::syscall_trace::{CallRow, Report, SubjectKind, SubjectRow},
    message::{Engine, Meta},
    observed::{Observed, Reason},
    recording::Scope,
    units::{Micros, Percent},
};
use serde_json::json;

/// Bytes that the conclusion of a trace may take.
const CONCLUSION_BYTES: usize = 1_100;

/// A share of the time of one processor below this is not worth a sentence.
const WORTH_SAYING_PCT: f64 = 1.0;

/// A call that had not ended after this long is worth a sentence, in milliseconds.
const LONG_MS: u64 = 1_000;

/// What follows from a trace.
pub fn conclude(report: &Report, meta: &Meta) -> Conclusion {
    let mut conclusion = Conclusion {
        because: evidence(report, meta),
        cannot_tell: cannot_tell(report, meta),
        next: next(report),
        ..Conclusion::default()
    };
    if report.ended == Observed::Known(0) && report.unfinished.is_empty() && meta.lost.events == 0 {
        conclusion.class = Some("no_calls".to_owned());
        conclusion.because = vec!["no system call was made, and none was under way".to_owned()];
    }
    conclusion.within(CONCLUSION_BYTES, "see refused, cut and lost_on")
}

fn known<T: Copy>(value: &Observed<T>) -> Option<T> {
    value.known().copied()
}

/// Time in calls as a share of the window, in percent of one processor.
fn share(us: Micros, window_ms: u64) -> f64 {
    Percent::of(us.get(), window_ms as f64 * 1e3).map_or(0.0, Percent::get)
}

fn evidence(report: &Report, meta: &Meta) -> Vec<String> {
    let window_ms = meta.window_ms.unwrap_or(0);
    let mut lines = Vec::new();
    if let (Some(working), Some(waiting)) = (known(&report.working_us), known(&report.waiting_us)) {
        lines.push(format!(
            "threads together were in calls that work for {:.1} % of the window and in calls that \
             wait by nature for {:.1} %",
            share(working, window_ms),
            share(waiting, window_ms)
        ));
    }
    lines.extend(report.calls.first().and_then(|row| top_call(row, window_ms)));
    lines.extend(report.subjects.known().and_then(|rows| top_subject(rows.first()?)));
    if let (Some(ended), Some(failed)) = (known(&report.ended), known(&report.failed))
        && let Some(share) = Percent::of(failed as f64, ended as f64)
        && share.get() >= WORTH_SAYING_PCT
    {
        lines.push(format!("{failed} of {ended} calls failed ({:.1} %)", share.get()));
    }
    let long = |row: &&protocol::instruments::syscall_trace::Unfinished| {
        !row.is_wait
            && (row.is_begun_before || known(&row.since_ms).is_some_and(|ms| ms >= LONG_MS))
    };
    let hanging = report.unfinished.iter().filter(long).count();
    if hanging > 0 {
        lines.push(format!(
            "{hanging} calls that should not wait had not returned at the end of the window: see \
             `unfinished`"
        ));
    }
    lines
}

/// The heaviest call that works, by numbers: its name is a field.
fn top_call(row: &CallRow, window_ms: u64) -> Option<String> {
    let (total, count) = (known(&row.total_us)?, known(&row.count)?);
    let pct = known(&row.share_pct)?;
    (share(total, window_ms) >= WORTH_SAYING_PCT).then(|| {
        format!(
            "the first row of `calls` has {:.1} % of the time in calls that work, in {count} calls",
            pct.get()
        )
    })
}

/// The heaviest subject of calls that work.
fn top_subject(row: &SubjectRow) -> Option<String> {
    let (count, failed) = (known(&row.count)?, known(&row.failed)?);
    let pct = known(&row.share_pct)?;
    let what = match row.subject.kind {
        SubjectKind::Path => "one path",
        SubjectKind::Socket => "one peer",
        SubjectKind::Pipe => "one pipe",
        SubjectKind::Futex => "one lock",
        SubjectKind::Child => "one child",
        SubjectKind::Nothing => return None,
        SubjectKind::Terminal
        | SubjectKind::Poll
        | SubjectKind::Eventfd
        | SubjectKind::Timer
        | SubjectKind::Signal
        | SubjectKind::Inotify
        | SubjectKind::Memory
        | SubjectKind::Completions
        | SubjectKind::Other => "one descriptor",
    };
    Some(format!(
        "the first row of `subjects` is {what} with {:.1} % of that time: {count} calls of {} \
         processes, {failed} of which failed",
        pct.get(),
        row.processes
    ))
}

fn cannot_tell(report: &Report, meta: &Meta) -> Vec<String> {
    let mut lines = Vec::new();
    if meta.lost.events > 0 {
        lines.push(format!(
            "{} calls were not counted for lack of room: counts are too low by up to that",
            meta.lost.events
        ));
    }
    if let Some(before) = known(&report.begun_before).filter(|before| *before > 0) {
        lines.push(format!("how long {before} calls took that had begun before the window"));
    }
    if meta.engine == Engine::Looks {
        lines.push(
            "how many calls there were: threads were looked at, so shares of time are known, and \
             short calls are missed"
                .to_owned(),
        );
    }
    lines.extend(
        report
            .refused
            .iter()
            .map(|refusal| format!("{}: {}", refusal.id.what(), refusal.in_our_words())),
    );
    lines
}

fn next(report: &Report) -> Vec<NextStep> {
    let is_summary = report.subjects == Observed::Unknown(Reason::NotAskedFor);
    let (Some(pid), true) = (report.pid, is_summary) else { return Vec::new() };
    if report.calls.is_empty() && report.waits.is_empty() {
        return Vec::new();
    }
    let parameters = if report.scope == Scope::Cgroup {
        json!({"pid": pid, "scope": "cgroup", "mode": "detailed"})
    } else {
        json!({"pid": pid, "mode": "detailed"})
    };
    vec![NextStep {
        tool: "syscall_trace".to_owned(),
        parameters,
        why: "which files, peers, pipes and locks these calls are about".to_owned(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::{
        instruments::{Instrument as _, syscall_trace::SyscallTrace},
        loss::{Lost, Overhead, Truncation},
    };

    fn meta() -> Meta {
        Meta {
            engine: Engine::Ebpf,
            window_ms: Some(3_000),
            truncation: Truncation::none(2),
            artifact: None,
            lost: Lost::default(),
            overhead: Overhead::default(),
            redacted: 0,
        }
    }

    #[test]
    fn a_trace_says_what_is_first_in_numbers_and_in_no_word_of_the_target() {
        let told = conclude(&SyscallTrace::example().report, &meta());
        let because = told.because.join("; ");
        assert!(because.contains("2000 calls of 1 processes"), "{because}");
        assert!(because.contains("2000 of 12600 calls failed (15.9 %)"), "{because}");
        assert!(!because.contains("app.conf"), "{because}");
        assert_eq!((told.class, told.next), (None, Vec::new()));
    }

    #[test]
    fn a_summary_leads_to_subjects_and_loss_is_said() {
        let mut report = SyscallTrace::example().report;
        report.subjects = Observed::Unknown(Reason::NotAskedFor);
        report.waited_for = report.subjects.clone();
        let lost = Lost { events: 7, ..Lost::default() };
        let told = conclude(&report, &Meta { lost, ..meta() });
        assert_eq!(told.next[0].parameters, json!({"pid": 4711, "mode": "detailed"}));
        assert!(told.cannot_tell[0].starts_with("7 calls were not counted"), "{told:?}");
    }

    #[test]
    fn nothing_seen_is_an_answer_only_where_nothing_was_lost() {
        let mut report = SyscallTrace::example().report;
        report.calls.clear();
        report.unfinished.clear();
        report.ended = Observed::Known(0);
        assert_eq!(conclude(&report, &meta()).class.as_deref(), Some("no_calls"));
        let lost = Lost { events: 7, ..Lost::default() };
        assert_eq!(conclude(&report, &Meta { lost, ..meta() }).class, None);
    }
}
