//! A service that reads its configuration anew for every request, as the example of its instrument.

use super::{
    CallCount, CallRow, Cut, ErrorRow, Report, Subject, SubjectKind, SubjectRow, Timing, Unfinished,
};
use crate::{
    histogram::Log2,
    host_text::HostText,
    loss::{CutBy, Truncation},
    observed::{Observed, Reason},
    recording::Scope,
    units::{Micros, PerSecond, Percent},
};
use std::time::Duration;

fn text(text: &str) -> HostText {
    HostText::new(text.as_bytes())
}

fn us(us: u64) -> Observed<Micros> {
    Observed::Known(Micros::from_ns(us * 1000))
}

fn percent(part: f64) -> Observed<Percent> {
    Percent::of(part, 100.0).ok_or(Reason::NoSamples).into()
}

pub(super) fn report() -> Report {
    Report {
        scope: Scope::Process,
        pid: Some(4711),
        name: Some(text("billing")),
        ended: Observed::Known(12_600),
        ended_per_s: PerSecond::over(12_600, Duration::from_secs(3))
            .ok_or(Reason::EmptyWindow)
            .into(),
        failed: Observed::Known(2_000),
        begun_before: Observed::Known(1),
        processes: 1,
        working_us: us(41_600),
        waiting_us: us(2_930_000),
        calls: vec![
            call("openat", (6_000, 2_000), 22_400, 53.8),
            call("read", (4_000, 0), 9_800, 23.6),
            call("close", (2_000, 0), 4_100, 9.9),
        ],
        waits: vec![call("epoll_wait", (599, 0), 2_930_000, 100.0)],
        subjects: Observed::Known(vec![
            path("/etc/billing/app.conf", "openat", (2_000, 0), 17_300),
            path("/etc/billing/override.conf", "openat", (2_000, 2_000), 7_900),
        ]),
        waited_for: Observed::Known(vec![SubjectRow {
            subject: Subject {
                kind: SubjectKind::Poll,
                name: text("anon_inode:[eventpoll]"),
                is_partial: false,
                other_end: Vec::new(),
            },
            ..path("", "epoll_wait", (599, 0), 2_930_000)
        }]),
        unfinished: vec![Unfinished {
            call: text("epoll_wait"),
            is_wait: true,
            pid: 4711,
            tid: 4711,
            name: Observed::Known(text("billing")),
            subject: None,
            since_ms: Observed::Known(4),
            is_begun_before: false,
        }],
        unfinished_total: 1,
        most_calls_by: Vec::new(),
        cut: Cut {
            calls: Truncation {
                shown: 3,
                total: 9,
                weight_cut_pct: Percent::of(12.7, 100.0),
                cut_by: CutBy::Limit,
            },
            waits: Truncation::none(1),
            subjects: Truncation::none(2),
            waited_for: Truncation::none(1),
        },
        lost_on: Vec::new(),
        measured_us_per_call: Observed::Known(Micros::from_ns(310)),
        refused: Vec::new(),
    }
}

/// A call that took about the same each time.
fn call(name: &str, (count, failed): (u64, u64), total_us: u64, share_pct: f64) -> CallRow {
    let succeeded = count - failed;
    let each_ns = total_us * 1000 / count;
    let mut taken = Log2::default();
    taken.add_to(Log2::bucket_of(each_ns), succeeded);
    let max_ns = each_ns * 2;
    let part = |of: u64| us(total_us * of / count);
    CallRow {
        call: text(name),
        is_32_bit: false,
        count: Observed::Known(count),
        failed: Observed::Known(failed),
        total_us: us(total_us),
        share_pct: percent(share_pct),
        succeeded: Some(Timing {
            count: Observed::Known(succeeded),
            total_us: part(succeeded),
            max_us: Observed::Known(Micros::from_ns(max_ns)),
            percentiles: taken.percentiles(max_ns).ok_or(Reason::NoSamples).into(),
            latency: Observed::Known(taken.histogram()),
        }),
        errors: errors(failed, total_us * failed / count),
        processes: 1,
    }
}

fn errors(failed: u64, total_us: u64) -> Vec<ErrorRow> {
    let row = ErrorRow {
        error: text("ENOENT"),
        count: Observed::Known(failed),
        total_us: us(total_us),
        max_us: us(19),
    };
    if failed > 0 { vec![row] } else { Vec::new() }
}

fn path(name: &str, call: &str, (count, failed): (u64, u64), total_us: u64) -> SubjectRow {
    SubjectRow {
        subject: Subject {
            kind: SubjectKind::Path,
            name: text(name),
            is_partial: false,
            other_end: Vec::new(),
        },
        count: Observed::Known(count),
        failed: Observed::Known(failed),
        total_us: us(total_us),
        max_us: us(71),
        share_pct: percent(if total_us > 1_000_000 { 100.0 } else { total_us as f64 / 416.0 }),
        calls: vec![CallCount {
            call: text(call),
            count: Observed::Known(count),
            total_us: us(total_us),
        }],
        errors: errors(failed, if failed > 0 { total_us } else { 0 }),
        processes: 1,
        pid: Some(4711),
    }
}
