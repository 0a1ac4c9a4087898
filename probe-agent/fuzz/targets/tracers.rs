//! Any bytes that strace, perf or bpftrace may write are calls, sums, or lines that were passed over: never a
//! panic, and never more calls than lines.

#![no_main]

use libfuzzer_sys::fuzz_target;
use probe_agent::external::{bpftrace, perf_trace, strace};

fuzz_target!(|bytes: &[u8]| {
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let (first, rest) = bytes.split_at(bytes.len() / 2);

    let mut reader = strace::Reader::default();
    let mut calls = 0;
    for piece in [first, rest] {
        reader.take(piece, &mut |call| {
            calls += 1;
            assert!(!call.name.is_empty());
        });
    }
    let (started, beside) = reader.finish();
    assert!(calls + started.len() <= lines);
    assert!(beside.passed_over() <= lines as u64 + 1);

    let mut reader = perf_trace::Reader::default();
    reader.take(first);
    reader.take(rest);
    let summary = reader.finish();
    assert!(summary.threads.len() <= lines);
    let _ = summary.events_of_others();

    let mut reader = bpftrace::Reader::default();
    reader.take(first);
    reader.take(rest);
    let counted = reader.finish();
    assert!(counted.sums.values().all(|sum| sum.count > 0));
});
