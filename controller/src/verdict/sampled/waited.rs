//! What follows from waits, and what they cannot tell.

use super::{CONCLUSION_BYTES, WORTH_SAYING_PCT, cut, questions, refused, step};
use crate::verdict::{Conclusion, NextStep};
use protocol::{
    instruments::{
        perf_record::{OffCpu, Report, WaitRow, WokenBy},
        process_inspect::WaitKind,
        syscall_trace::SubjectKind,
    },
    message::{Engine, Meta},
    observed::Observed,
    recording::Scope,
    units::Percent,
};
use serde_json::json;

/// Below so much, nothing that was waited for explains anything: in percent of the window, of all
/// threads together.
const LITTLE_PCT: f64 = 1.0;

/// What follows, and what the engine could not see.
pub(super) fn conclude(report: &Report, off_cpu: &OffCpu, meta: &Meta) -> Conclusion {
    let window_us = report.recording.window_ms.saturating_mul(1000);
    let mut conclusion = Conclusion {
        because: sums(off_cpu, window_us),
        next: next(report, off_cpu),
        ..Conclusion::default()
    };
    conclusion.next.extend(questions(meta));
    let longest = off_cpu.rows.first().filter(|row| share(row, window_us) >= LITTLE_PCT);
    match longest {
        Some(row) => {
            conclusion.class = Some(class(row).to_owned());
            conclusion.because.insert(0, first_row(row));
        }
        None if meta.engine == Engine::Ebpf && off_cpu.missed.ways == 0 => {
            conclusion.class = Some("waits_for_work".to_owned());
            conclusion.because.insert(
                0,
                format!(
                    "nothing but work was waited for longer than {LITTLE_PCT} % of the window; what \
                     waits by design is in `idle`"
                ),
            );
        }
        None => {}
    }
    if report.has_ended {
        conclusion.because.push("the process ended while it was followed".to_owned());
    }
    conclusion.cannot_tell.extend(report.refused.iter().map(refused));
    conclusion.cannot_tell.extend(not_told(report, off_cpu, meta));
    conclusion.within(CONCLUSION_BYTES, "see off_cpu.missed, recording.quality and refused")
}

/// A row's time in percent of the window, of all of its threads together.
fn share(row: &WaitRow, window_us: u64) -> f64 {
    let queued = row.run_queue_us.known().copied().unwrap_or_default();
    let time = row.blocked_us.saturating_add(queued);
    Percent::of(time as f64, window_us as f64).map_or(0.0, Percent::get)
}

const fn class(row: &WaitRow) -> &'static str {
    if row.is_preempted {
        return "waits_for_processor";
    }
    if let Observed::Known(queued) = &row.run_queue_us
        && *queued > row.blocked_us
    {
        return "waits_for_processor";
    }
    match row.kind {
        WaitKind::Storage => "waits_for_storage",
        WaitKind::Lock => "waits_for_lock",
        WaitKind::KernelLock => "waits_for_kernel_lock",
        WaitKind::Socket => "waits_for_peer",
        WaitKind::Pipe => "waits_for_pipe",
        WaitKind::Memory => "waits_for_memory",
        WaitKind::Running => "waits_for_processor",
        WaitKind::Completions
        | WaitKind::Futex
        | WaitKind::Poll
        | WaitKind::Timer
        | WaitKind::Child
        | WaitKind::Stopped
        | WaitKind::TooShortToSee
        | WaitKind::Other => "waits_for_something_else",
    }
}

/// The first row by numbers: its names are fields.
fn first_row(row: &WaitRow) -> String {
    let mut text = format!(
        "the first row has {:.1} % of what was waited: {} waits of {} threads, {:.1} ms blocked",
        row.pct.get(),
        row.waits,
        row.threads,
        row.blocked_us as f64 / 1e3
    );
    if let Observed::Known(queued) = &row.run_queue_us {
        text.push_str(&format!(" and {:.1} ms for a processor", *queued as f64 / 1e3));
    }
    if row.still_waiting > 0 {
        text.push_str(&format!(", {} of them not over yet", row.still_waiting));
    }
    if let Some(holder) = &row.held_by {
        text.push_str(&format!("; thread {} has the lock", holder.tid));
    } else if let Some(waker) = row.wakers.first().filter(|waker| waker.by == WokenBy::Thread) {
        text.push_str(&format!("; ended by thread {} mostly", waker.tid));
    }
    text
}

fn sums(off_cpu: &OffCpu, window_us: u64) -> Vec<String> {
    let percent = |us: &Observed<u64>| {
        let us = us.known().copied()?;
        Percent::of(us as f64, window_us as f64).map(Percent::get)
    };
    let mut lines = Vec::new();
    if let (Some(blocked), Some(idle)) = (percent(&off_cpu.blocked_us), percent(&off_cpu.idle_us)) {
        lines.push(format!(
            "all threads together were blocked for {blocked:.0} % of the window, of it {idle:.0} \
             points waiting for work by design"
        ));
    }
    if let (Some(queued), Some(preempted)) =
        (percent(&off_cpu.run_queue_us), percent(&off_cpu.preempted_us))
    {
        lines.push(format!(
            "they were runnable without a processor for {queued:.1} % after being woken and for \
             {preempted:.1} % after losing one"
        ));
    }
    lines
}

/// Who can say why the wait lasts.
fn next(report: &Report, off_cpu: &OffCpu) -> Vec<NextStep> {
    let Some(row) = off_cpu.rows.first() else {
        return match report.recording.pid {
            Some(pid) if report.recording.scope == Scope::Process => {
                vec![step("perf_record", json!({"pid": pid}), "whether it uses the processor")]
            }
            Some(_) | None => {
                vec![step("process_list", json!({}), "which processes do anything at all")]
            }
        };
    };
    let waker = row.wakers.first().filter(|waker| waker.by == WokenBy::Thread && waker.pid != 0);
    if let Some(other) = waker.map(|waker| waker.pid).filter(|pid| *pid != row.pid) {
        let why = "where the process waits that ends the first row's waits";
        return vec![step("perf_record", json!({"pid": other, "mode": "off_cpu"}), why)];
    }
    let is_of_storage = row.kind == WaitKind::Storage
        || row.subject.as_ref().is_some_and(|subject| subject.kind == SubjectKind::Path);
    if is_of_storage {
        return vec![step("latency", json!({}), "how long the device takes for each request")];
    }
    if report.recording.scope != Scope::Process {
        let why = "the same for the process of the first row alone";
        return vec![step("perf_record", json!({"pid": row.pid, "mode": "off_cpu"}), why)];
    }
    Vec::new()
}

fn not_told(report: &Report, off_cpu: &OffCpu, meta: &Meta) -> Vec<String> {
    let mut sentences = Vec::new();
    match meta.engine {
        Engine::Ebpf => {}
        Engine::Looks => sentences.push(
            "waits of less than some tens of milliseconds, waiting for a processor, and who woke a \
             thread: threads were only looked at, twenty times a second at most"
                .to_owned(),
        ),
        Engine::PerfEvents
        | Engine::Procfs
        | Engine::Stored
        | Engine::Counter
        | Engine::Snapshot
        | Engine::Trials
        | Engine::Given
        | Engine::Tracepoints
        | Engine::Ptrace
        | Engine::Strace
        | Engine::Perf
        | Engine::Bpftrace => sentences.push(
            "who woke a thread, and how long it then waited for a processor: only switches were \
             seen"
                .to_owned(),
        ),
    }
    let missed = &off_cpu.missed;
    let blocked = off_cpu.blocked_us.known().copied().unwrap_or_default();
    if let Some(pct) = Percent::of(missed.without_stack_us as f64, blocked as f64)
        && pct.get() >= WORTH_SAYING_PCT
    {
        sentences.push(format!(
            "the stacks of {:.1} % of the time: ask for one process, or a shorter window",
            pct.get()
        ));
    }
    if missed.open_stacks > 0 {
        sentences.push(format!(
            "the stacks of {} threads that waited at the end: ask for one process",
            missed.open_stacks
        ));
    }
    sentences.extend(report.recording.quality.incomplete.iter().filter_map(|incomplete| {
        let (pct, why) = (incomplete.pct.get(), cut(incomplete.why));
        (pct >= WORTH_SAYING_PCT).then(|| format!("what called {pct:.1} % of waits: {why}"))
    }));
    sentences
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::instruments::{Instrument as _, perf_record::PerfRecord};

    fn waited() -> (Report, Meta) {
        let mut report = PerfRecord::example().report;
        report.off_cpu = Some(protocol::instruments::perf_record::waits_as_example());
        let meta = Meta {
            engine: Engine::Ebpf,
            window_ms: Some(5_000),
            truncation: protocol::loss::Truncation::none(1),
            artifact: None,
            lost: protocol::loss::Lost::default(),
            overhead: protocol::loss::Overhead::default(),
            redacted: 0,
        };
        (report, meta)
    }

    fn concluded(change: impl FnOnce(&mut OffCpu)) -> Conclusion {
        let (mut report, meta) = waited();
        let mut off_cpu = report.off_cpu.take().unwrap();
        change(&mut off_cpu);
        conclude(&report, &off_cpu, &meta)
    }

    #[test]
    fn the_first_row_says_what_is_waited_for_and_who_has_it() {
        let found = concluded(|_| {});
        assert_eq!(found.class.as_deref(), Some("waits_for_lock"));
        assert!(found.because[0].contains("thread 4712 has the lock"), "{found:?}");
        assert!(!format!("{:?}", found.because).contains("worker"), "a name is the target's");
        let queued = concluded(|off_cpu| {
            off_cpu.rows[0].run_queue_us = Observed::Known(9_000_000);
        });
        assert_eq!(queued.class.as_deref(), Some("waits_for_processor"));
    }

    #[test]
    fn where_only_work_is_waited_for_that_is_the_answer_unless_something_was_missed() {
        let idle = concluded(|off_cpu| off_cpu.rows.clear());
        assert_eq!(idle.class.as_deref(), Some("waits_for_work"));
        let missed = concluded(|off_cpu| {
            off_cpu.rows.clear();
            off_cpu.missed.ways = 7;
        });
        assert_eq!(missed.class, None);
    }

    #[test]
    fn what_looks_do_not_see_is_said() {
        let (report, mut meta) = waited();
        meta.engine = Engine::Looks;
        let off_cpu = report.off_cpu.clone().unwrap();
        let told = conclude(&report, &off_cpu, &meta).cannot_tell.join("; ");
        assert!(told.contains("who woke a thread"), "{told}");
    }
}
