//! Kills in the middle of tracing: of each process of the agent, of the connection, of sysmcp, and of
//! the program that is looked at, by each engine. Nothing may stay attached, stopped, running or on a
//! disk; it is looked for from outside, by the numbers of what was attached right before.
//!
//! Each run has a seed of its own, which it prints. `SYSMCP_TEST_SEED` is the one to use instead.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "traced_kills/attached.rs"]
mod attached;
#[path = "traced_kills/kill.rs"]
mod kill;
#[path = "traced_kills/questions.rs"]
mod questions;

use kill::{Outcome, Program, Site, Victim};
use questions::Question;
use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use scenarios::{
    client::Client,
    not_run::{is_full, not_here, not_run},
    second_way::still_left,
    split_mix::SplitMix,
    sysmcp::Sysmcp,
};
use serde_json::json;
use std::{
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Kills of each engine in a whole run, and in one that is a sample.
const ALL: usize = 50;
const SAMPLE: usize = 3;

/// Kills at the same time, each at a host of its own.
const AT_ONCE: usize = 3;

/// After which nothing may be left: what ends by itself takes its time on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest after an engine is seen at work.
const LONGEST_MS: u64 = 1_000;

const WHAT: &str = "kills in the middle of tracing";

/// A kill, and what came of it.
struct Case {
    question: Question,
    victim: Victim,
    moment: Duration,
}

impl Case {
    fn line(&self, outcome: &Outcome) -> String {
        format!(
            "{:30} {:?} killed after {} ms{}; nothing left after {} ms{}",
            self.question.name,
            self.victim,
            self.moment.as_millis(),
            if outcome.was_at_work { ", at work" } else { "" },
            outcome.gone_after.as_millis(),
            if outcome.wrong.is_empty() {
                String::new()
            } else {
                format!(" NOT SO: {:#?}", outcome.wrong)
            },
        )
    }
}

/// The kills of all engines that are there. Each victim has its turn, whichever comes first.
fn cases(seed: u64) -> Vec<Case> {
    let mut numbers = SplitMix::new(seed);
    let count = if is_full() { ALL } else { SAMPLE };
    let mut cases = Vec::new();
    for question in there() {
        let first = usize::try_from(numbers.following() % 1_000).unwrap();
        let victims = Victim::ALL.iter().cycle().skip(first % Victim::ALL.len()).take(count);
        cases.extend(victims.map(|victim| Case {
            question,
            victim: *victim,
            moment: Duration::from_millis(numbers.following() % LONGEST_MS),
        }));
    }
    cases
}

/// The questions that are answered here. Why another is not is noted.
fn there() -> Vec<Question> {
    let program = Program::start();
    let mut client = Client::start(Sysmcp::local().unwrap().command()).unwrap();
    let mut is_there = |question: &&Question| {
        let what = format!("{WHAT}, {}", question.name);
        if let Some(program) = question.needs.filter(|program| !is_installed(program)) {
            not_run(&what, program);
            return false;
        }
        let id = client.ask("tools/call", &question.call_within(program.pid(), 200)).unwrap();
        let reply = client.reply(id, 5 * PATIENCE).unwrap().unwrap();
        let is_answered = reply.pointer("/result/isError") == Some(&json!(false));
        if !is_answered {
            let said = reply.pointer("/result/content/0/text").unwrap_or(&reply);
            let is_ci = std::env::var_os("CI").is_some_and(|ci| ci == "true");
            assert!(!is_ci, "every engine must answer in CI: {}: {said}", question.name);
            not_here(&what, &said.to_string());
        }
        is_answered
    };
    Question::ALL.iter().filter(|question| is_there(question)).copied().collect()
}

fn is_installed(program: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
}

#[test]
fn kills_in_the_middle_of_tracing_leave_nothing() {
    if !geteuid().is_root() {
        return not_run(WHAT, "root, for every engine");
    }
    let given = std::env::var("SYSMCP_TEST_SEED").ok().map(|text| text.parse().unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seed: u64 = given.unwrap_or(now.as_secs() % 1_000_000);
    println!("seed {seed}");
    let (cases, started) = (cases(seed), Instant::now());
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let mut site = Site::new();
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = kill::run(&site, &case.question, case.victim, case.moment);
                    println!("{}", case.line(&outcome));
                    if !outcome.wrong.is_empty() {
                        site = Site::new();
                    }
                    let line = (!outcome.wrong.is_empty()).then(|| case.line(&outcome));
                    let mut all = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                    all.push((line, outcome.was_at_work));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    println!("{} kills in {} s", outcomes.len(), started.elapsed().as_secs());
    let at_work = outcomes.iter().filter(|(_, was_at_work)| *was_at_work).count();
    let wrong: Vec<String> = outcomes.iter().filter_map(|(line, _)| line.clone()).collect();
    assert!(
        wrong.is_empty(),
        "seed {seed}: {} kills left something:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(
        at_work * 4 >= outcomes.len() * 3,
        "only {at_work} of {} engines were at work",
        outcomes.len()
    );
}

/// The check itself: what somebody else attaches, traces and stops is seen.
#[test]
fn what_is_attached_traced_or_stopped_is_seen() {
    if !geteuid().is_root() {
        return not_run("what is attached is seen", "root, for BPF");
    }
    let program = Program::start();
    assert!(program.touched().is_empty() && program.goes_on());
    let group = Pid::from_raw(i32::try_from(program.pid()).unwrap()).unwrap();
    kill_process_group(group, Signal::STOP).unwrap();
    let is_seen = |words: &str| {
        let started = Instant::now();
        while !program.touched().iter().any(|line| line.contains(words)) {
            assert!(started.elapsed() < PATIENCE, "not seen: {words}");
        }
    };
    is_seen("T (stopped)");
    kill_process_group(group, Signal::CONT).unwrap();
    for (tool, arguments) in [
        ("strace", vec!["-f".to_owned(), "-p".to_owned(), program.pid().to_string()]),
        (
            "bpftrace",
            vec!["-e".to_owned(), "tracepoint:raw_syscalls:sys_enter { @ = count(); }".to_owned()],
        ),
        ("perf", ["trace", "-s", "-a"].map(str::to_owned).to_vec()),
    ] {
        if !is_installed(tool) {
            not_run(&format!("what {tool} attaches is seen"), tool);
            continue;
        }
        let mut command = Command::new(tool);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut tracer = command.spawn().unwrap();
        let started = Instant::now();
        let held = loop {
            let is_at_work = match tool {
                "strace" => is_traced_by(&program, tracer.id()),
                "bpftrace" => attached::runs_programs(&[tracer.id()]),
                _ => attached::has_events(tracer.id()),
            };
            let held = attached::held_by(&[tracer.id()]);
            // bpftrace loads some to see what it may do.
            if is_at_work && attached::still_there(&held).len() == held.len() {
                break held;
            }
            assert!(started.elapsed() < PATIENCE, "{tool} is never at work");
        };
        tracer.kill().unwrap();
        tracer.wait().unwrap();
        let left = still_left(PATIENCE, || Ok(attached::still_there(&held))).unwrap();
        assert!(left.is_empty(), "{tool}: {left:?}");
        assert!(program.goes_on(), "{tool}");
    }
}

fn is_traced_by(program: &Program, tracer: u32) -> bool {
    let words = format!("traced by {tracer}");
    program.touched().iter().any(|line| line.ends_with(&words))
}
