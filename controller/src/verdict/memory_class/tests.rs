//! What is said of the memory of a process, and what is not.

use super::*;
use protocol::{
    instruments::{Instrument as _, memory_profile::MemoryProfile},
    loss::{Lost, Overhead, Truncation},
    message::Engine,
    units::Percent,
};

const MIB: i64 = 1 << 20;

fn meta(window_ms: u64) -> Meta {
    Meta {
        engine: Engine::Procfs,
        window_ms: Some(window_ms),
        truncation: Truncation::none(0),
        artifact: None,
        lost: Lost::default(),
        overhead: Overhead::default(),
        redacted: 0,
    }
}

fn amount(mib: i64) -> Bytes {
    Bytes(u64::try_from(mib * MIB).unwrap())
}

/// A trend in MiB: first, last, least, most.
fn trend([first, last, least, most]: [i64; 4], rate: [i64; 3], parts: u32, falls: u32) -> Trend {
    let [low, middle, high] = rate;
    Trend {
        first_bytes: amount(first),
        last_bytes: amount(last),
        least_bytes: amount(least),
        most_bytes: amount(most),
        rate: Observed::Known(Rate {
            bytes_per_s: middle * MIB,
            low_bytes_per_s: low * MIB,
            high_bytes_per_s: high * MIB,
        }),
        parts_grown: parts,
        parts_shrunk: 0,
        falls,
        rising_pct: Observed::Unknown(Reason::NoTurns),
        floor_growth_bytes: 0,
    }
}

fn rising(share: f64, trend: Trend) -> Trend {
    Trend { rising_pct: Observed::Known(Percent::of(share, 100.0).unwrap()), ..trend }
}

fn flat() -> Trend {
    trend([50, 50, 50, 50], [0, 0, 0], 0, 0)
}

/// The report of a process whose own memory went so, and nothing else.
fn report(own: Trend) -> Report {
    let mut report = MemoryProfile::example().report;
    report.growth.own = Observed::Known(own);
    report.growth.file = Observed::Known(flat());
    report.growth.shared = Observed::Known(flat());
    report.sites = Observed::Unknown(Reason::NotAskedFor);
    report
}

fn said(report: &Report) -> Conclusion {
    conclude(report, &meta(5_000))
}

#[test]
fn each_course_has_its_class() {
    let cases = [
        ("steady", trend([50, 60, 50, 60], [2, 2, 2], 10, 0), "leak_suspected"),
        ("in steps", trend([50, 80, 50, 80], [-1, 6, 13], 4, 0), "leak_suspected"),
        ("one step", trend([50, 80, 50, 80], [-7, 6, 19], 1, 0), "unclear"),
        ("flat", flat(), "flat"),
        ("a small noise", rising(50.0, trend([50, 51, 50, 54], [-1, 0, 1], 5, 30)), "flat"),
        ("a large noise", rising(50.0, trend([50, 60, 50, 90], [-9, 2, 9], 5, 30)), "fluctuating"),
        ("a saw", rising(92.0, trend([50, 55, 50, 70], [-9, 1, 9], 8, 5)), "sawtooth"),
        ("shrinking", trend([90, 50, 50, 90], [-9, -8, -7], 0, 1), "shrinking"),
        ("a leak that is noisy", trend([50, 70, 50, 70], [1, 4, 7], 8, 3), "leak_suspected"),
        ("once up and down", trend([50, 50, 50, 90], [-9, 0, 9], 2, 1), "unclear"),
    ];
    for (name, own, want) in cases {
        let found = said(&report(own));
        assert_eq!(found.class.as_deref(), Some(want), "{name}: {found:?}");
        assert_eq!(found.also, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn too_few_samples_are_unclear_and_not_flat() {
    let mut own = flat();
    own.rate = Observed::Unknown(Reason::EmptyWindow);
    let found = said(&report(own));
    assert_eq!(found.class.as_deref(), Some("unclear"));
    assert_eq!(found.next[0].parameters["window_ms"], 30_000);
}

#[test]
fn a_slow_leak_of_a_large_process_is_seen_where_it_is_steady() {
    let own = trend([10_000, 10_020, 10_000, 10_020], [3, 4, 5], 10, 0);
    assert_eq!(said(&report(own)).class.as_deref(), Some("leak_suspected"));
}

#[test]
fn a_leak_says_when_the_nearest_limit_is_reached() {
    let mut report = report(trend([50, 60, 50, 60], [1, 2, 4], 10, 0));
    report.cgroup.left_bytes = Observed::Known(amount(240));
    report.host.available_bytes = Observed::Known(amount(5_000));
    let found = said(&report);
    let want = "at this rate the limit of its cgroup is reached, which has 240M left in 2m0s (1m0s \
                to 4m0s)";
    assert!(found.because.contains(&want.to_owned()), "{found:?}");
    assert_eq!(found.next[0].parameters["sites"], true);
    // Without a limit it is the machine's memory.
    report.cgroup.left_bytes = Observed::Unknown(Reason::NoLimitSet);
    let found = said(&report);
    let is_host = |line: &String| line.contains("the machine's memory is used up");
    assert!(found.because.iter().any(is_host), "{found:?}");
}

#[test]
fn what_grows_beside_its_own_memory_is_told_apart() {
    let grows = || Observed::Known(trend([10, 50, 10, 50], [7, 8, 9], 10, 0));
    let mut files = report(flat());
    files.growth.file = grows();
    let found = said(&files);
    assert_eq!(found.class.as_deref(), Some("file_pages_grow"));
    assert!(found.because.iter().any(|line| line.contains("no leak")), "{found:?}");
    let mut shared = report(flat());
    shared.growth.shared = grows();
    assert_eq!(said(&shared).class.as_deref(), Some("shared_memory_grows"));
    let mut both = report(trend([50, 60, 50, 60], [2, 2, 2], 10, 0));
    both.growth.file = grows();
    let found = said(&both);
    assert_eq!(
        (found.class.as_deref(), &found.also[..]),
        (Some("leak_suspected"), &["file_pages_grow".to_owned()][..])
    );
}

#[test]
fn a_saw_whose_floor_rises_is_suspected_too() {
    let saw = || rising(92.0, trend([50, 75, 50, 90], [-9, 5, 19], 8, 5));
    let found = said(&report(Trend { floor_growth_bytes: 16 * MIB, ..saw() }));
    assert_eq!(found.class.as_deref(), Some("leak_suspected"));
    assert_eq!(found.also, ["sawtooth"]);
    let found = said(&report(saw()));
    assert_eq!((found.class.as_deref(), found.also.len()), (Some("sawtooth"), 0));
    assert!(found.not.iter().any(|line| line.contains("did not grow")), "{found:?}");
}

#[test]
fn what_was_refused_is_said_and_what_was_not_asked_for_is_not() {
    let mut refused = report(flat());
    refused.mappings = Observed::Unknown(Reason::WouldPause { estimated_ms: 4_000, limit_ms: 50 });
    let found = said(&refused);
    assert!(found.cannot_tell.iter().any(|line| line.contains("4000 ms")), "{found:?}");
    refused.mappings = Observed::Unknown(Reason::NotAskedFor);
    let found = said(&refused);
    assert!(!found.cannot_tell.iter().any(|line| line.contains("mapping")), "{found:?}");
}

#[test]
fn a_limit_that_was_hit_is_named() {
    let mut report = report(flat());
    report.cgroup.limit_hits = Observed::Known(7);
    let found = said(&report);
    assert_eq!(found.class.as_deref(), Some("at_memory_limit"));
    assert!(found.because.iter().any(|line| line.contains("7 times")), "{found:?}");
}
