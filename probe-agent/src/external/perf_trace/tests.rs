//! What perf printed, as it was recorded, and what it could print.

use super::*;

fn read(text: &[u8]) -> Summary {
    let mut reader = Reader::default();
    reader.take(text);
    reader.finish()
}

fn rows(thread: &Thread) -> Vec<(&str, u64, Option<u64>, u64, u64)> {
    thread
        .calls
        .iter()
        .map(|row| {
            let name = std::str::from_utf8(&row.name).unwrap();
            (name, row.count, row.failed, row.total_us, row.max_us)
        })
        .collect()
}

const HEADING: &str = "
   syscall            calls  errors  total       min       avg       max       stddev
                                     (msec)    (msec)    (msec)    (msec)        (%)
   --------------- --------  ------ -------- --------- --------- ---------     ------
";

#[test]
fn a_table_for_each_thread_is_read_with_its_errors() {
    let text = format!(
        "
 Summary of events:

 loop (19975), 420 events, 62.5%
{HEADING}   openat               100     50     1.751     0.013     0.018     0.053      3.40%
\t\t\t\tENOENT: 50
   rt_sigsuspend          1      1     0.000     0.000     0.000     0.000      0.00%
\t\t\t\t(unknown): 1


 a) (1), 9 events (19980), 4 events, 0.6%
{HEADING}   syscall_470            3      0 12345.366     0.000     4.122    11.235     86.64%

"
    );
    let summary = read(text.as_bytes());
    assert_eq!((summary.lost, summary.malformed, summary.threads.len()), (0, 0, 2));
    let [first, second] = &*summary.threads else { panic!("{summary:?}") };
    assert_eq!(
        (first.tid, &*first.name, first.events, first.per_mille),
        (19_975, &b"loop"[..], 420, 625)
    );
    assert_eq!(
        rows(first),
        [("openat", 100, Some(50), 1_751, 53), ("rt_sigsuspend", 1, Some(1), 0, 0)]
    );
    assert_eq!(first.calls[0].errors, [(b"ENOENT".to_vec(), 50)]);
    assert_eq!(first.calls[1].errors, [(b"(unknown)".to_vec(), 1)]);
    assert_eq!((second.tid, &*second.name), (19_980, &b"a) (1), 9 events"[..]));
    assert_eq!(rows(second), [("syscall_470", 3, Some(0), 12_345_366, 11_235)]);
    assert_eq!(summary.events_of_others(), 424 * 369 / 631);
}

#[test]
fn tables_of_older_ones_have_no_errors_and_shares_have_more_behind_them() {
    let text = b"
 Summary of events:

 dd (7), 42 events, 100.0%, 3.200 msec

   syscall            calls    total       min       avg       max      stddev
                               (msec)    (msec)    (msec)    (msec)        (%)
   --------------- -------- --------- --------- --------- ---------     ------
   read                  21     1.500     0.010     0.070     0.900      3.40%
";
    let summary = read(text);
    assert_eq!((summary.malformed, summary.events_of_others()), (0, 0));
    assert_eq!(rows(&summary.threads[0]), [("read", 21, None, 1_500, 900)]);
}

#[test]
fn a_threads_name_makes_no_row_and_no_error_of_another_thread() {
    let text = format!(
        "
 x (7), 2 events, 50.0%
{HEADING}   read                   1      1     1.500     0.010     0.070     0.900      3.40%
\t\t\t\tEIO: 1


 y
\tEIO: 99
 z (8), 2 events, 50.0%
{HEADING}   read                   1      0     1.500     0.010     0.070     0.900      3.40%
"
    );
    let summary = read(text.as_bytes());
    assert_eq!((summary.malformed, summary.threads.len()), (0, 2));
    assert_eq!(summary.threads[0].calls[0].errors, [(b"EIO".to_vec(), 1)]);
    assert_eq!(summary.threads[1].name, b"z");
}

#[test]
fn what_is_lost_or_cut_is_counted() {
    let text = format!(
        "LOST 17 events!
 x (7), 2 events, 100.0%
{HEADING}   read                   1      2     1.500     0.010     0.070     0.900      3.40%
   write                  1      0     1.5
   close                  1      0     1.500     0.010     0.070     0.900      3.40%
LOST 3 events!
   op"
    );
    let summary = read(text.as_bytes());
    assert_eq!((summary.lost, summary.malformed), (20, 3));
    assert_eq!(rows(&summary.threads[0]), [("close", 1, Some(0), 1_500, 900)]);
    assert_eq!(read(&[b'x'; 100_000]).malformed, 1);
    assert_eq!(read(b""), Summary::default());
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
        let summary = read(&[b" x (7), 2 events, 100.0%\n", HEADING.as_bytes(), &bytes].concat());
        let _ = summary.events_of_others();
    }
}

/// Recorded by `fixtures/tracers/record.sh`: 20 rounds in a thread that was there from the start.
#[test]
fn what_the_real_program_wrote_has_as_many_calls_as_were_made() {
    let summary = read(include_bytes!("../../../../fixtures/tracers/perf-6.1.txt"));
    assert_eq!((summary.lost, summary.malformed, summary.threads.len()), (0, 0, 1));
    let thread = &summary.threads[0];
    let of = |name: &[u8]| thread.calls.iter().find(|row| row.name == name).unwrap();
    let opened = of(b"openat");
    assert_eq!((opened.count, opened.failed), (40, Some(20)));
    assert_eq!(opened.errors, [(b"ENOENT".to_vec(), 20)]);
    assert_eq!(of(b"close").count, 20);
    assert_eq!(of(b"pause").errors, [(b"(unknown)".to_vec(), 1)]);
    // The other threads' calls are not told, but for their share of what was seen.
    assert!(summary.events_of_others() > 0);
}
