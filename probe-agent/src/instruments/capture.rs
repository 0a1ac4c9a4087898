//! Agent side of `capture`.
//!
//! The other instruments are run over a root that takes note of every file they read: once at the
//! start of the window and once at its end. So there is no list of files that could lag behind the
//! readers. Then the processes that matter least are left out until the rest fits, and what could
//! tell who or where it was is replaced.

mod anonymous;
mod selection;

use super::{process_list, process_list::Candidate};
use crate::{
    call::Context,
    instruments::Collect,
    proc::{
        Root,
        recorder::{Files, Recorder},
    },
};
use anonymous::Anonymous;
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::{
        Item as AnyItem,
        capture::{Architecture, Capture, Clocks, RANKING_MS, Report, Request},
        host_snapshot::{self, Detail, HostSnapshot},
        process_inspect::ProcessInspect,
    },
    loss::{CutBy, Lost, Truncation},
    message::{Engine, Meta, Step},
    observed::{Feature, Observed, Reason},
};
use selection::{Selection, select};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

impl Collect for Capture {
    fn collect(request: Request, context: &Context<'_>) -> Result<(Report, Meta), AgentError> {
        if context.root.is_snapshot() {
            return Err(AgentError::IsSnapshot);
        }
        let ranking = Duration::from_millis(RANKING_MS.into());
        let window = Duration::from_millis(request.window_ms.into());
        let candidates = process_list::by_weight(ranking, context)?;
        let started = Instant::now();
        let start = Taken::now(candidates, context)?;
        context.wait_until(started, window, window)?;
        let end = Taken::now(start.candidates.clone(), context)?;
        let anonymous = Anonymous::of([&start.files, &end.files]);
        let selection = select([&start, &end], request.max_bytes as usize, &anonymous);
        let sent = send(&selection, context)?;
        let report = Report {
            distribution: distribution(context.root),
            kernel: line(context.root, "sys/kernel/osrelease"),
            architecture: ARCHITECTURE,
            agent_uid: rustix::process::geteuid().as_raw(),
            page_bytes: context.root.page_bytes(),
            start: start.clocks,
            end: end.clocks,
            files: count(selection.files.len()),
            bytes: sent,
            processes: selection.processes,
            left_out: selection.left_out,
        };
        let meta = meta(&report, selection.redacted, context);
        Ok((report, meta))
    }
}

/// The processor that this agent was built for.
const ARCHITECTURE: Architecture = if cfg!(target_arch = "x86_64") {
    Architecture::X86_64
} else if cfg!(target_arch = "aarch64") {
    Architecture::Aarch64
} else {
    Architecture::Other
};

/// Processes whose files are read, beside their line. More of them do not fit.
const MOST_DETAILED: usize = 128;

/// Processes that come before those that were born after the ranking.
const KNOWN_TO_BE_BUSY: usize = 16;

/// Threads of a process whose files are read.
const MOST_THREADS: usize = 512;

/// What was read at one instant.
struct Taken {
    /// The processes, in the order in which they matter.
    candidates: Vec<Candidate>,
    files: Files,
    /// The files that every answer needs, beside the lines of the processes.
    by_all: BTreeSet<String>,
    /// The files that an answer about a process needs, beside those that every answer does.
    needed: BTreeMap<u32, BTreeSet<String>>,
    clocks: Clocks,
}

impl Taken {
    /// Reads what the instruments read. A process that ends meanwhile is one that was not there.
    fn now(mut candidates: Vec<Candidate>, context: &Context<'_>) -> Result<Self, AgentError> {
        let root = context.root.recorded();
        let clocks = Clocks {
            monotonic_us: micros(root.monotonic()),
            since_boot_us: micros(root.since_boot()),
            wall_us: micros(root.wall()),
        };
        let inner = context.over(&root);
        let whole = host_snapshot::Request { window_ms: 0, limit: 100, detail: Detail::Full };
        HostSnapshot::collect(whole, &inner)?;
        let mut born = process_list::read_lines(&inner)?;
        born.retain(|candidate| !candidates.contains(candidate));
        // What was born just now may be the busiest of all; a few others are known to be busy.
        let at = candidates.len().min(KNOWN_TO_BE_BUSY);
        candidates.splice(at..at, born);
        for name in ["sys/kernel/hostname", "sys/kernel/osrelease"] {
            let _ = root.read_proc(name, &mut Vec::new());
        }
        let touched = || root.recorder().map(Recorder::touched).unwrap_or_default();
        let by_all = without_idle_tasks(touched());
        let mut needed = BTreeMap::new();
        for candidate in candidates.iter().take(MOST_DETAILED) {
            context.check()?;
            read_process(*candidate, &inner)?;
            needed.insert(candidate.pid, touched());
        }
        context.take_over(&inner);
        let files = root.into_recorder().map(Recorder::into_files).unwrap_or_default();
        Ok(Self { candidates, files, by_all, needed, clocks })
    }
}

/// Of the files of tasks, those that one is blocked in: of the others, which are looked at too, the
/// line of the process says enough.
fn without_idle_tasks(touched: BTreeSet<String>) -> BTreeSet<String> {
    let is_of_blocked = |path: &String| {
        let folder = path.rsplit_once('/').map_or(path.as_str(), |(folder, _)| folder);
        touched.contains(&format!("{folder}/wchan"))
    };
    let is_needed = |path: &String| !selection::is_of_process(path) || is_of_blocked(path);
    touched.iter().filter(|path| is_needed(path)).cloned().collect()
}

/// Reads what an answer about one process is made of.
///
/// # Errors
///
/// When the call reached a limit.
fn read_process(candidate: Candidate, context: &Context<'_>) -> Result<(), AgentError> {
    let mut threads = Vec::new();
    let listed = context.root.list_ids(&format!("{}/task", candidate.pid), &mut threads);
    if listed.is_ok() && threads.len() > MOST_THREADS {
        return Ok(());
    }
    process_list::read_row(candidate, context)?;
    let Candidate { pid, start_ticks } = candidate;
    let request = protocol::instruments::process_inspect::Request {
        pid,
        start_ticks,
        window_ms: 0,
        threads: 0,
    };
    match ProcessInspect::collect(request, context) {
        Err(
            error @ (AgentError::Cancelled
            | AgentError::DeadlineExceeded { .. }
            | AgentError::CostExceeded { .. }),
        ) => Err(error),
        // It may have ended.
        Ok(_) | Err(_) => Ok(()),
    }
}

/// Sends the files in their order. Gives their bytes.
fn send(selection: &Selection, context: &Context<'_>) -> Result<u64, AgentError> {
    let total: usize = selection.files.iter().map(|item| item.bytes.len()).sum();
    let mut sent = 0;
    for item in &selection.files {
        context.check()?;
        sent += item.bytes.len();
        context.send(AnyItem::Capture(item.clone()))?;
        context.progress(Step::Sending, count(sent), count(total));
    }
    Ok(sent as u64)
}

fn meta(report: &Report, redacted: u32, context: &Context<'_>) -> Meta {
    let total = u64::from(report.processes) + u64::from(report.left_out.processes);
    let is_cut = report.left_out.processes > 0;
    let window_us = report.end.monotonic_us.saturating_sub(report.start.monotonic_us);
    Meta {
        engine: Engine::Procfs,
        window_ms: Some(window_us / 1000),
        truncation: Truncation {
            shown: report.processes.into(),
            total,
            weight_cut_pct: None,
            cut_by: if is_cut { CutBy::Limit } else { CutBy::Nothing },
        },
        artifact: None,
        lost: Lost::default(),
        overhead: context.overhead(),
        redacted,
    }
}

fn distribution(root: &Root) -> Observed<HostText> {
    let mut text = Vec::new();
    let read = root.read("etc/os-release", &mut text);
    let named = |text: &[u8]| {
        let line = crate::proc::parse::lines(text)
            .find_map(|(_, line)| line.strip_prefix(b"PRETTY_NAME="))?;
        let line = line.strip_prefix(b"\"").unwrap_or(line);
        Some(HostText::new(line.strip_suffix(b"\"").unwrap_or(line)))
    };
    read.map_err(|error| error.reason_of_file(Feature::Field))
        .and_then(|()| named(&text).ok_or(Reason::KernelLacks(Feature::Field)))
        .into()
}

fn line(root: &Root, path: &str) -> Observed<HostText> {
    let mut text = Vec::new();
    let read = root.read_proc(path, &mut text);
    read.map(|()| crate::proc::host_text(&text))
        .map_err(|error| error.reason_of_file(Feature::Field))
        .into()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::{FakeMachine, FakeStat};
    use protocol::instruments::capture::LeftOut;

    fn machine() -> FakeMachine {
        let machine = FakeMachine::new();
        for pid in [7, 8] {
            let state = if pid == 8 { 'D' } else { 'S' };
            let stat = FakeStat { state, ..FakeStat::idle(pid, 1) };
            machine.stat(&pid.to_string(), stat);
            machine.thread(pid, stat, 5);
            machine.write(&format!("{pid}/task/{pid}/wchan"), "rpc_wait_bit_killable");
            machine.write(&format!("{pid}/cmdline"), vec![b'x'; 1500]);
            machine.write(&format!("{pid}/environ"), "TOKEN=hunter2");
        }
        machine
    }

    fn paths(selection: &Selection) -> Vec<String> {
        let path = |item: &protocol::instruments::capture::Item| {
            String::from_utf8(item.path.clone()).unwrap()
        };
        selection.files.iter().map(path).collect()
    }

    #[test]
    fn what_fits_is_taken_in_the_order_in_which_it_matters() {
        let machine = machine();
        let context = machine.context();
        let candidates = process_list::by_weight(Duration::ZERO, &context).unwrap();
        let pids: Vec<u32> = candidates.iter().map(|candidate| candidate.pid).collect();
        assert_eq!(pids, [8, 7], "the one that is blocked comes first");
        let taken = Taken::now(candidates, &context).unwrap();
        let anonymous = Anonymous::of([&taken.files, &taken.files]);
        let all = select([&taken, &taken], 1 << 20, &anonymous);
        assert_eq!((all.processes, all.left_out), (2, LeftOut::default()));
        let names = paths(&all);
        assert!(names.contains(&"proc/7/cmdline".to_owned()), "{names:?}");
        assert!(!names.iter().any(|path| path.contains("environ")), "{names:?}");
        let bytes: usize = all.files.iter().map(|item| item.bytes.len()).sum();
        let fewer = select([&taken, &taken], bytes - 1000, &anonymous);
        assert_eq!((fewer.processes, fewer.left_out.details), (2, 1));
        let names = paths(&fewer);
        assert!(names.contains(&"proc/8/cmdline".to_owned()), "{names:?}");
        assert!(!names.contains(&"proc/7/cmdline".to_owned()), "{names:?}");
        // With hardly any room, what a blocked task waits in is there all the same.
        let least = select([&taken, &taken], 1, &anonymous);
        assert_eq!((least.processes, least.left_out.processes), (0, 2));
        let names = paths(&least);
        assert!(names.contains(&"proc/8/task/8/wchan".to_owned()), "{names:?}");
        assert!(!names.contains(&"proc/7/task/7/wchan".to_owned()), "{names:?}");
    }

    #[test]
    fn what_did_not_change_is_sent_once_and_what_could_not_be_read_is_noted() {
        let machine = machine();
        let context = machine.context();
        let taken = || Taken::now(Vec::new(), &context).unwrap();
        let start = taken();
        machine.stat("7", FakeStat { user_ticks: 5, ..FakeStat::idle(7, 1) });
        let end = taken();
        let selection = select([&start, &end], 1 << 20, &Anonymous::default());
        let of = |path: &str| -> Vec<protocol::instruments::capture::Instant> {
            let items = selection.files.iter().filter(|item| item.path == path.as_bytes());
            items.map(|item| item.instant).collect()
        };
        use protocol::instruments::capture::Instant::{End, Same, Start};
        assert_eq!(of("proc/7/stat"), [Start, End]);
        assert_eq!(of("proc/8/stat"), [Same]);
        assert_eq!(of("not-read"), [Start, End]);
        let noted = selection.files.iter().find(|item| item.path == b"not-read").unwrap();
        let noted = String::from_utf8(noted.bytes.clone()).unwrap();
        assert!(noted.lines().any(|line| line == "2 proc/pressure/cpu"), "{noted}");
    }
}
