//! What is made of what engines saw, on made-up traces.

use super::{
    super::{
        call::Call,
        seen::{Knows, SubjectId, Subjects, Tally},
    },
    *,
};
use crate::instruments::{fake, sampling};
use protocol::{
    host_text::HostText,
    instruments::syscall_trace::{Request, Sort, Subject, SubjectKind},
    message::Engine,
};
use std::time::Duration;

fn call(name: &str) -> Call {
    Call::all_named(name).into_iter().find(|call| !call.is_32_bit).unwrap()
}

fn tally(count: u64, each_ns: u64) -> Tally {
    let mut tally = Tally::default();
    (0..count).for_each(|_| tally.add(each_ns));
    tally
}

fn path(name: &str) -> Subject {
    Subject {
        kind: SubjectKind::Path,
        name: HostText::new(name.as_bytes()),
        is_partial: false,
        other_end: Vec::new(),
    }
}

fn row(name: &str, pid: u32, subject: Option<SubjectId>, errno: u16, tally: Tally) -> Seen {
    let call = call(name);
    Seen { pid, call, subject, is_wait: call.is_wait(None), errno, tally }
}

fn trace(seen: Vec<Seen>, subjects: Subjects) -> Trace {
    Trace {
        engine: Engine::Ebpf,
        took: Duration::from_secs(2),
        knows: Knows::ALL,
        seen,
        subjects,
        names: BTreeMap::new(),
        begun_before: Observed::Known(0),
        pending: Vec::new(),
        lost_on: Vec::new(),
        lost_elsewhere: 0,
        malformed: 0,
        added_per_call: Observed::Unknown(Reason::NotAskedFor),
        pause_us_max: 0,
    }
}

fn answered(request: Request, trace: Trace) -> (Report, Meta) {
    let subject = sampling::Subject::host();
    fake::machine(&[], fake::FIRST, |context| {
        answer(&Asked::new(&request, &subject), trace, Vec::new(), context).unwrap()
    })
}

#[test]
fn what_sleeps_by_nature_is_not_ranked_among_what_works() {
    let seen = vec![
        row("epoll_wait", 7, None, 0, tally(1, 1_900_000_000)),
        row("openat", 7, None, 0, tally(10, 1_000)),
        row("openat", 7, None, 2, tally(4, 500)),
        row("fsync", 7, None, 0, tally(2, 50_000)),
    ];
    let (report, meta) = answered(Request::default(), trace(seen, Subjects::default()));
    let names: Vec<&str> = report.calls.iter().map(|row| row.call.as_str()).collect();
    assert_eq!(names, ["fsync", "openat"]);
    assert_eq!(report.waits.len(), 1);
    let openat = &report.calls[1];
    assert_eq!((&openat.count, &openat.failed), (&Observed::Known(14), &Observed::Known(4)));
    assert_eq!(openat.succeeded.as_ref().unwrap().count, Observed::Known(10));
    assert_eq!(openat.errors[0].error.as_str(), "ENOENT");
    assert_eq!((report.ended, meta.truncation), (Observed::Known(17), Truncation::none(2)));
}

#[test]
fn many_short_processes_on_one_file_are_one_row() {
    let mut subjects = Subjects::default();
    let (config, other) = (subjects.id(path("/etc/app.conf")), subjects.id(path("/tmp/x")));
    let mut seen: Vec<Seen> =
        (100..160).map(|pid| row("openat", pid, Some(config), 0, tally(1, 900))).collect();
    seen.push(row("openat", 7, Some(other), 13, tally(1, 20_000)));
    let request = Request { mode: Mode::Detailed, limit: 1, ..Request::default() };
    let (report, meta) = answered(request, trace(seen, subjects));
    let first = &report.subjects.known().unwrap()[0];
    assert_eq!(first.subject.name.as_str(), "/etc/app.conf");
    assert_eq!((first.processes, first.pid, &first.count), (60, None, &Observed::Known(60)));
    assert_eq!((meta.truncation.shown, meta.truncation.total), (1, 2));
    assert_eq!(report.most_calls_by.len(), MOST_PROCESSES);
}

#[test]
fn the_ranking_is_what_was_asked_for() {
    let rows = || {
        vec![
            row("openat", 7, None, 2, tally(50, 100)),
            row("close", 7, None, 0, tally(200, 10)),
            row("fsync", 7, None, 0, tally(1, 900_000)),
        ]
    };
    for (sort, want) in [
        (Sort::Total, "fsync"),
        (Sort::Max, "fsync"),
        (Sort::Count, "close"),
        (Sort::Errors, "openat"),
    ] {
        let request = Request { sort, ..Request::default() };
        let (report, _) = answered(request, trace(rows(), Subjects::default()));
        assert_eq!(report.calls[0].call.as_str(), want, "{sort:?}");
    }
}

#[test]
fn what_an_engine_cannot_tell_is_unknown_and_not_zero() {
    let knows = Knows {
        counts: false,
        errors: false,
        totals: true,
        maxima: false,
        latency: false,
        times_apart: true,
        subjects: false,
    };
    let seen = vec![row("fsync", 7, None, 0, tally(3, 1_000_000))];
    let trace = |seen| Trace { knows, ..trace(seen, Subjects::default()) };
    let (report, _) = answered(Request::default(), trace(seen.clone()));
    let first = &report.calls[0];
    assert_eq!(first.count, Observed::Unknown(Reason::NotByEngine));
    assert_eq!(first.failed, Observed::Unknown(Reason::NotByEngine));
    assert_eq!(first.total_us, Observed::Known(Micros::from_ns(3_000_000)));
    assert_eq!(report.ended, Observed::Unknown(Reason::NotByEngine));
    assert_eq!(report.subjects, Observed::Unknown(Reason::NotAskedFor));
    let (report, _) = answered(Request { mode: Mode::Detailed, ..Request::default() }, trace(seen));
    assert_eq!(report.subjects, Observed::Unknown(Reason::NotByEngine));
    assert_eq!(report.waited_for, report.subjects);
}

#[test]
fn a_call_that_should_not_wait_and_does_comes_first() {
    let pending = |name: &str, since: Option<u64>| {
        let call = call(name);
        Pending {
            call,
            is_wait: call.is_wait(None),
            pid: 7,
            tid: 8,
            name: Observed::Unknown(Reason::Gone),
            subject: None,
            since: since.map(Duration::from_millis),
        }
    };
    let pending = vec![
        pending("epoll_wait", None),
        pending("fsync", Some(1_500)),
        pending("connect", None),
        pending("write", Some(1_900)),
    ];
    let (report, _) =
        answered(Request::default(), Trace { pending, ..trace(Vec::new(), Subjects::default()) });
    let names: Vec<&str> = report.unfinished.iter().map(|row| row.call.as_str()).collect();
    assert_eq!(names, ["connect", "write", "fsync", "epoll_wait"]);
    assert_eq!(report.unfinished[0].since_ms, Observed::Unknown(Reason::BegunBefore));
    assert_eq!(report.unfinished_total, 4);
}

#[test]
fn an_answer_that_is_too_long_loses_rows_of_each_list_and_says_so() {
    let names = ["openat", "read", "write", "close", "fsync", "stat", "mmap", "brk"];
    let seen = names.iter().map(|name| row(name, 7, None, 0, tally(5, 900))).collect();
    let request = Request::default();
    let subject = sampling::Subject::host();
    let (report, meta) = fake::machine(&[], fake::FIRST, |context| {
        let mut context = context.over(context.root);
        context.budget.answer_bytes = 3_000;
        let trace = trace(seen, Subjects::default());
        answer(&Asked::new(&request, &subject), trace, Vec::new(), &context).unwrap()
    });
    assert_eq!(report.cut.calls.cut_by, CutBy::AnswerBytes);
    assert_eq!((report.calls.len() as u64, 8), (meta.truncation.shown, meta.truncation.total));
    assert!(json::bytes(&AnyReport::SyscallTrace(report), &meta) <= 3_000);
}
