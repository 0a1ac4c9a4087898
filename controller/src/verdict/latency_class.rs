//! What follows from waits: which of them is long, and who is behind it.
//!
//! Idle is no latency: sleep that may be by choice makes no class.

use super::{
    Conclusion, NextStep,
    finding::{Finding, weigh},
};
use protocol::{
    instruments::latency::{
        Block, Mechanism, OffCpu, Operation, Outcome, Report, RunQueue, SubmitterKind, Tcp, Waits,
    },
    message::Meta,
    observed::{Observed, Reason},
    parameter::spelled,
    recording::Scope,
    view::quantity::micros,
};
use serde_json::json;

/// Bytes that the conclusion may take.
const CONCLUSION_BYTES: usize = 1_600;

/// What is long. Waits for a processor come first: they make all others longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    WaitsForProcessor,
    ConnectsUnanswered,
    WaitsForStorage,
    StuckInKernel,
    SendsAgain,
    Quiet,
}

impl Class {
    const fn name(self) -> &'static str {
        match self {
            Self::WaitsForProcessor => "waits_for_processor",
            Self::ConnectsUnanswered => "connects_unanswered",
            Self::WaitsForStorage => "waits_for_storage",
            Self::StuckInKernel => "stuck_in_kernel",
            Self::SendsAgain => "sends_again",
            Self::Quiet => "quiet",
        }
    }
}

/// A share of the window from which on a sum of waits is worth a class, in percent.
const WORTH_NAMING_PCT: f64 = 10.0;

/// What follows from a report.
pub fn conclude(report: &Report, meta: &Meta) -> Conclusion {
    let window_us = meta.window_ms.unwrap_or(0).max(1) as f64 * 1e3;
    let findings = [
        (Class::WaitsForProcessor, of(&report.run_queue, |it| for_processor(it, window_us))),
        (Class::ConnectsUnanswered, of(&report.tcp, unanswered)),
        (Class::WaitsForStorage, of(&report.block, |it| for_storage(it, window_us))),
        (Class::StuckInKernel, of(&report.off_cpu, |it| stuck(it, report, window_us))),
        (Class::SendsAgain, of(&report.tcp, sends_again)),
        (Class::Quiet, quiet(report)),
    ];
    let (mut conclusion, class) = weigh(findings, Class::name);
    conclusion.because.extend(how_much(report));
    if report.has_ended {
        conclusion.because.push("the process ended meanwhile".to_owned());
    }
    conclusion.cannot_tell.extend(report.refused.iter().map(|refusal| refusal.in_our_words()));
    conclusion.cannot_tell.extend(not_told(report, meta));
    conclusion.next = class.map(|class| next_steps(class, report)).unwrap_or_default();
    conclusion.within(CONCLUSION_BYTES, "see the lists, `refused` and `meta`")
}

/// The finding of a kind, where it was measured; nothing of one that was not asked for.
fn of<T>(kind: &Observed<T>, find: impl FnOnce(&T) -> Finding) -> Finding {
    match kind {
        Observed::Known(kind) => find(kind),
        Observed::Unknown(Reason::NotAskedFor) => fails(),
        Observed::Unknown(reason) => Finding::CannotTell { reason: reason.to_string() },
    }
}

const fn fails() -> Finding {
    Finding::Fails { evidence: None }
}

/// The sum of waits, with those that had not ended, in microseconds.
fn total_us(waits: &Waits, open: &Observed<protocol::instruments::latency::Open>) -> f64 {
    let ended = waits.total_us.known().map_or(0.0, |total| total.get());
    ended + open.known().map_or(0.0, |open| open.total_us.get())
}

/// How waits spread, as far as it is known.
fn spread(waits: &Waits) -> String {
    let count = waits.count.known().copied().unwrap_or(0);
    match (&waits.percentiles, &waits.max_us, waits.mean_us()) {
        (Observed::Known(of), Observed::Known(max), _) => format!(
            "{count} waits, half up to {}, 99 % up to {}, the longest {}",
            micros(of.p50_us),
            micros(of.p99_us),
            micros(*max)
        ),
        (_, _, Some(mean)) => format!("{count} waits of {mean:.0} us on average"),
        (_, _, None) => format!("{count} waits"),
    }
}

fn for_processor(queue: &RunQueue, window_us: f64) -> Finding {
    let waited = total_us(&queue.all, &queue.open);
    let pct = waited / window_us * 100.0;
    let culprit = match queue.ran.as_slice() {
        [] => String::new(),
        [first, others @ ..] => {
            let second = others.first().filter(|ran| ran.cpu_pct.get() >= 20.0);
            let second = second
                .map(|ran| format!(", pid {} for {:.0} %", ran.pid, ran.cpu_pct.get()))
                .unwrap_or_default();
            let pct = first.cpu_pct.get();
            format!("; meanwhile pid {} had a processor for {pct:.0} %{second}", first.pid)
        }
    };
    // A thread that waits in each of its turns for a moment adds up to much, and is not kept waiting.
    let is_short = queue.all.percentiles.known().is_some_and(|of| of.p99_us.get() < 1_000.0)
        && queue.open.known().is_none_or(|open| open.count <= 1);
    let whom = queue.processes.first().map(|row| format!(", pid {} the longest", row.pid));
    let evidence = format!(
        "runnable threads waited for a processor for {pct:.0} % of the window together{}: {}{culprit}",
        whom.unwrap_or_default(),
        spread(&queue.all)
    );
    if pct < WORTH_NAMING_PCT {
        return fails();
    }
    if is_short {
        return Finding::Fails { evidence: Some(format!("no wait is long: {evidence}")) };
    }
    Finding::Holds { weight: pct.min(100.0), evidence }
}

fn unanswered(tcp: &Tcp) -> Finding {
    let bad = |outcome| {
        let rows = tcp.connects.iter().filter(move |row| row.outcome == outcome);
        rows.filter_map(|row| row.waits.count.known()).sum::<u64>()
    };
    let outcomes = [
        Outcome::Pending,
        Outcome::TimedOut,
        Outcome::Unreachable,
        Outcome::Refused,
        Outcome::GivenUp,
        Outcome::Failed,
    ];
    let counted = outcomes.map(|outcome| (outcome, bad(outcome)));
    let counted: Vec<String> = counted
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(outcome, count)| format!("{count} {}", spelled(outcome)))
        .collect();
    // One that was just begun is no sign of anything.
    let longest = tcp
        .connects
        .iter()
        .filter(|row| row.outcome != Outcome::Connected)
        .filter_map(|row| row.waits.max_us.known())
        .max();
    let is_new = longest.is_some_and(|longest| longest.get() < 100_000.0);
    let failed = bad(Outcome::TimedOut) + bad(Outcome::Unreachable) + bad(Outcome::Refused);
    if counted.is_empty() || (is_new && failed == 0) {
        return fails();
    }
    let pid = tcp.connects.iter().find(|row| row.outcome != Outcome::Connected);
    let pid =
        pid.and_then(|row| row.pid).map_or_else(String::new, |pid| format!(", by pid {pid} first"));
    let lasted =
        longest.map_or_else(String::new, |longest| format!(", for up to {}", micros(*longest)));
    Finding::Holds {
        weight: 95.0,
        evidence: format!("connects that did not come about{pid}{lasted}: {}", counted.join(", ")),
    }
}

fn for_storage(block: &Block, window_us: f64) -> Finding {
    /// A device that takes so long for one of a hundred requests is no fast one.
    const SLOW_US: f64 = 20_000.0;
    let waited = total_us(&block.all, &block.open);
    let pct = waited / window_us * 100.0;
    let slowest = block.all.percentiles.known().map_or(0.0, |of| of.p99_us.get());
    let mean = block.all.mean_us().unwrap_or(0.0);
    let is_slow = slowest >= SLOW_US || mean >= SLOW_US / 4.0;
    if pct < WORTH_NAMING_PCT && !(is_slow && pct >= 1.0) {
        return fails();
    }
    let device = block.devices.first().map_or_else(String::new, |row| {
        format!("; first in `devices`: {} {}", spread(&row.device_time), spelled(&row.operation))
    });
    let by = block.submitters.iter().find(|row| row.kind == SubmitterKind::Process);
    let by = by.map_or_else(String::new, |row| {
        let what = if row.operation == Operation::Other { "requests" } else { "them" };
        format!("; pid {} asked for {what} the longest", row.pid)
    });
    Finding::Holds {
        weight: pct.min(90.0),
        evidence: format!(
            "requests to block devices took {pct:.0} % of the window together: {}{device}{by}",
            spread(&block.all)
        ),
    }
}

/// Deaf to signals, and not for the storage that was traced.
fn stuck(off_cpu: &OffCpu, report: &Report, window_us: f64) -> Finding {
    let pct = total_us(&off_cpu.uninterruptible, &off_cpu.open) / window_us * 100.0;
    if pct < WORTH_NAMING_PCT {
        return fails();
    }
    let storage = report.block.known().map_or(0.0, |block| total_us(&block.all, &block.open));
    let storage_pct = storage / window_us * 100.0;
    let whom = off_cpu.processes.first().map(|row| format!(", pid {} the longest", row.pid));
    let evidence = format!(
        "threads were in uninterruptible waits for {pct:.0} % of the window together{}: {}",
        whom.unwrap_or_default(),
        spread(&off_cpu.uninterruptible)
    );
    // What waits for requests is the storage's class.
    let weight = if storage_pct >= pct / 2.0 { pct.min(80.0) / 2.0 } else { pct.min(80.0) };
    Finding::Holds { weight, evidence }
}

fn sends_again(tcp: &Tcp) -> Finding {
    let Observed::Known(total) = tcp.resent_total else { return fails() };
    if total < 3 {
        return fails();
    }
    let handshakes: u64 =
        tcp.resent.iter().filter(|row| row.is_handshake).map(|row| row.count).sum();
    let new = if handshakes > 0 {
        format!(", {handshakes} of them of connections that do not exist yet")
    } else {
        String::new()
    };
    Finding::Holds {
        weight: 30.0,
        evidence: format!("{total} segments of TCP were sent again{new}: see `tcp.resent`"),
    }
}

/// Only where nothing else holds, and where all that was asked for was measured.
fn quiet(report: &Report) -> Finding {
    let is_open = |reason: &Reason| *reason != Reason::NotAskedFor;
    let unknown = [
        reason(&report.run_queue),
        reason(&report.block),
        reason(&report.off_cpu),
        reason(&report.tcp),
    ];
    if unknown.into_iter().flatten().any(is_open) {
        return fails();
    }
    let evidence = "no wait that was measured is long".to_owned();
    Finding::Holds { weight: 0.5, evidence }
}

const fn reason<T>(kind: &Observed<T>) -> Option<&Reason> {
    match kind {
        Observed::Known(_) => None,
        Observed::Unknown(reason) => Some(reason),
    }
}

/// How many waits all of it is made of.
fn how_much(report: &Report) -> Option<String> {
    let one = |waits: &Waits, what: &str| {
        let (count, total) = (waits.count.known()?, waits.total_us.known()?);
        Some(format!("{count} {what} of {} together", micros(*total)))
    };
    let parts = [
        report.run_queue.known().and_then(|it| one(&it.all, "waits for a processor")),
        report.block.known().and_then(|it| one(&it.all, "requests to block devices")),
        report.off_cpu.known().and_then(|it| one(&it.uninterruptible, "uninterruptible waits")),
        report.tcp.known().and_then(|it| one(&it.connected, "connects that came about")),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("measured: {}", parts.join(", ")))
}

/// What cannot be told by the mechanisms that were used.
fn not_told(report: &Report, meta: &Meta) -> Vec<String> {
    let mut sentences = Vec::new();
    let is_traced = |by: Option<Mechanism>| by == Some(Mechanism::Ebpf);
    let block = report.block.known();
    if is_traced(block.map(|block| block.measured_by)) && report.scope != Scope::Host {
        sentences.push(
            "requests that the kernel makes later for what was written: they are of a kernel \
             worker, and in `block` only with scope host"
                .to_owned(),
        );
    }
    if block.is_some_and(|block| block.measured_by == Mechanism::DeviceCounters)
        && report.scope != Scope::Host
    {
        sentences.push(
            "whose requests they are: devices count those of the whole host together".to_owned(),
        );
    }
    let by_workers = block.is_some_and(|block| {
        block.submitters.first().is_some_and(|row| row.kind == SubmitterKind::KernelWorker)
    });
    if by_workers {
        sentences.push(
            "for whom a kernel worker asks: for whoever wrote it before; process_list ranked by \
             write_bytes tells who writes"
                .to_owned(),
        );
    }
    if meta.lost.events > 0 {
        sentences.push(format!(
            "{} waits or requests that there was no room for: ask for one process, or a shorter \
             window",
            meta.lost.events
        ));
    }
    if report.off_cpu.known().is_some_and(|it| it.measured_by == Mechanism::ThreadAccounts) {
        sentences.push(
            "which waits off the processor are by choice: the kernel's account has only their sum"
                .to_owned(),
        );
    }
    sentences
}

fn next_steps(class: Class, report: &Report) -> Vec<NextStep> {
    let step = |tool: &str, parameters, why: &str| NextStep {
        tool: tool.to_owned(),
        parameters,
        why: why.to_owned(),
    };
    let pid_of = |pid: Option<u32>| pid.or(report.pid);
    match class {
        Class::WaitsForProcessor => {
            let ran = report.run_queue.known().and_then(|queue| queue.ran.first());
            ran.map(|ran| {
                let why = "what the process does that had the processors";
                step("perf_record", json!({"pid": ran.pid}), why)
            })
            .into_iter()
            .collect()
        }
        Class::WaitsForStorage | Class::StuckInKernel => {
            let block = report.block.known().and_then(|block| block.submitters.first());
            let stuck = report.off_cpu.known().and_then(|it| it.processes.first());
            let pid = pid_of(block.map(|row| row.pid).or(stuck.map(|row| row.pid)));
            let why = "what its threads wait in, and on which files";
            pid.map(|pid| step("process_inspect", json!({"pid": pid}), why)).into_iter().collect()
        }
        Class::ConnectsUnanswered => {
            let row = report.tcp.known().and_then(|tcp| tcp.connects.first());
            let why = "whether the whole service waits for it";
            pid_of(row.and_then(|row| row.pid))
                .map(|pid| step("process_inspect", json!({"pid": pid}), why))
                .into_iter()
                .collect()
        }
        Class::SendsAgain => {
            vec![step("host_snapshot", json!({}), "whether the whole host loses packets")]
        }
        Class::Quiet => Vec::new(),
    }
}
