//! What bpftrace printed, as it was recorded, and what it could print.

use super::*;

fn read(text: &str) -> Counted {
    let mut reader = Reader::default();
    reader.take(text.as_bytes());
    reader.finish()
}

const SOME: &str = r#"{"type": "attached_probes", "data": {"probes": 5}}


{"type": "map", "data": {"@begun_before": 2}}
{"type": "map", "data": {"@doing": {"9": 230, "8": 231}}}
{"type": "map", "data": {"@process": {"9": 7, "8": 8}}}
{"type": "map", "data": {"@ended": {"7,61": 3, "7,257": 15}}}
{"type": "hist", "data": {"@ended_hist_ns": {"7,61": [{"min": 65536, "max": 131071, "count": 2}, {"min": 131072, "max": 262143, "count": 1}], "7,257": [{"max": -1, "count": 1}, {"min": 0, "max": 0, "count": 2}, {"min": 1024, "max": 2047, "count": 12}]}}}
{"type": "map", "data": {"@ended_longest_ns": {"7,61": 137973, "7,257": 1800}}}
{"type": "map", "data": {"@ended_ns": {"7,61": 376117, "7,257": 16000}}}
{"type": "map", "data": {"@failed": {"7,257,-2": 30}}}
{"type": "map", "data": {"@failed_ns": {"7,257,-2": 7592}}}
{"type": "map", "data": {"@failed_longest_ns": {"7,257,-2": 716}}}
{"type": "map", "data": {"@missed": 4}}
{"type": "map", "data": {"@now": 1000}}
{"type": "map", "data": {"@started": {"9": 400}}}
{"type": "map", "data": {"@window_ns": 1704543704}}
{"type": "lost_events", "data": {"events": 13}}
"#;

#[test]
fn sums_are_put_together_of_the_maps_of_a_run() {
    let counted = read(SOME);
    let waits = &counted.sums[&Key { pid: 7, call: 61, errno: 0 }];
    assert_eq!((waits.count, waits.total_ns, waits.max_ns), (3, 376_117, 137_973));
    assert_eq!(waits.latency.histogram().from_ns, 65_536);
    assert_eq!(waits.latency.histogram().counts, [2, 1]);
    assert_eq!(counted.sums[&Key { pid: 7, call: 257, errno: 0 }].latency.count(), 15);
    let failed = &counted.sums[&Key { pid: 7, call: 257, errno: 2 }];
    assert_eq!((failed.count, failed.total_ns, failed.max_ns), (30, 7_592, 716));
    let pending = Pending { pid: 7, call: 230, since_ns: 600 };
    assert_eq!(counted.pending, BTreeMap::from([(9, pending)]));
    assert_eq!((counted.begun_before, counted.missed, counted.lost), (2, 4, 13));
    assert_eq!((counted.window_ns, counted.malformed), (Some(1_704_543_704), 0));
}

#[test]
fn what_is_not_understood_is_counted() {
    let broken = [
        "ERROR: something",
        "{\"type\": \"map\"}",
        "{\"type\": \"map\", \"data\": 3}",
        "{\"type\": \"map\", \"data\": {\"@missed\": \"x\"}}",
        "{\"type\": \"printf\", \"data\": \"x\"}",
        "{\"type\": \"map\", \"data\": {\"@ended\": {\"7\": 3}}}",
        "{\"type\": \"map\", \"data\": {\"@ended\": {\"7,61,2\": 3}}}",
        "{\"type\": \"map\", \"data\": {\"@ended\": {\"7,61\": \"x\"}}}",
        "{\"type\": \"hist\", \"data\": {\"@ended_hist_ns\": {\"7,61\": 3}}}",
        "{\"type\": \"map\", \"da",
    ];
    for line in broken {
        let counted = read(line);
        assert_eq!((counted.malformed, counted.sums.len()), (1, 0), "{line}");
        assert_eq!(counted.window_ns, None);
    }
}

#[test]
fn it_says_when_it_is_attached_whatever_pieces_come() {
    let mut reader = Reader::default();
    for byte in SOME.bytes() {
        reader.take(&[byte]);
    }
    assert!(reader.has_begun());
    assert_eq!(reader.finish(), read(SOME));
}

#[test]
fn programs_take_a_fixed_number_of_numbers_and_no_more_processes_than_that() {
    let (some, left_out) = numbers(&BTreeSet::from([7, 9]));
    assert_eq!((&some[..3], some.len(), left_out), (&[7, 9, 0][..], MOST_NUMBERS, 0));
    let (all, left_out) = numbers(&(1..=40).collect());
    assert_eq!((all.len(), left_out), (MOST_NUMBERS, 8));
    for text in [OF_PROCESSES, OF_ALL] {
        let highest = (1..100).filter(|n| text.contains(&format!("${n}"))).max();
        assert_eq!(highest, Some(MOST_NUMBERS));
        // Nothing that changes the machine or calls out.
        for word in ["system(", "signal(", "override", "print", "cat(", "str(", "uprobe", "unsafe"]
        {
            assert!(!text.contains(word), "{word}");
        }
    }
}

/// Recorded by `fixtures/tracers/record.sh`: 20 rounds in each of two threads and a child.
#[cfg(target_arch = "x86_64")]
#[test]
fn what_the_real_program_wrote_has_as_many_calls_as_were_made() {
    const OPENAT: u32 = 257;
    const PAUSE: u32 = 34;
    let counted = read(include_str!("../../../../fixtures/tracers/bpftrace-0.17.json"));
    let of = |call: u32, errno: u16| {
        let sums = counted.sums.iter();
        let sums = sums.filter(|(key, _)| key.call == call && key.errno == errno);
        sums.map(|(_, sum)| sum.count).sum::<u64>()
    };
    // Two more by the program that vfork ran.
    assert_eq!((of(OPENAT, 0), of(OPENAT, 2)), (62, 60));
    assert_eq!(of(PAUSE, 514), 1);
    assert_eq!((counted.missed, counted.lost, counted.malformed), (0, 0, 0));
    assert_eq!(counted.begun_before, 1);
    for sum in counted.sums.iter().filter(|(key, _)| key.errno == 0).map(|(_, sum)| sum) {
        assert_eq!(sum.latency.count(), sum.count);
    }
}
