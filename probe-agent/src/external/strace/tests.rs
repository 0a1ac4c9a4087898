//! What strace printed, as it was recorded, and what it could print.

use super::*;

/// Each call that ended, as `tid name microseconds`, what is under way, and the rest.
fn read(text: &str) -> (Vec<String>, Vec<String>, Beside) {
    let mut reader = Reader::default();
    let mut ended = Vec::new();
    let mut tell = |call: &Ended<'_>| {
        let took = call.took.map_or("?".to_owned(), |took| took.as_micros().to_string());
        let tid = call.tid.map_or("-".to_owned(), |tid| tid.to_string());
        ended.push(format!("{tid} {} {took}", String::from_utf8_lossy(call.name)));
    };
    reader.take(text.as_bytes(), &mut tell);
    let (started, beside) = reader.finish();
    let started = started.values().map(|call| String::from_utf8_lossy(&call.name).into_owned());
    (ended, started.collect(), beside)
}

#[test]
fn calls_in_two_lines_are_put_together_by_thread() {
    let text = "\
9 1.0 read(3,  <unfinished ...>
8 1.1 wait4(-1,  <unfinished ...>
9 1.2 <... read resumed>\"\", 4) = 0 <0.200000>
9 1.3 exit_group(0) = ?
9 1.4 +++ exited with 0 +++
8 1.5 <... wait4 resumed>NULL, 0, NULL) = 9 <0.400000>
8 1.6 --- SIGCHLD {si_signo=SIGCHLD} ---
";
    let (ended, started, beside) = read(text);
    assert_eq!(ended, ["9 read 200000", "8 wait4 400000"]);
    assert!(started.is_empty());
    assert_eq!(beside, Beside { not_returning: 1, signals: 1, gone: 1, ..Beside::default() });
}

#[test]
fn an_end_without_a_start_had_begun_before_and_a_start_without_an_end_took_no_time() {
    let text = "\
9 1.0 <... read resumed>\"\", 4) = 0 <0.900000>
9 1.1 restart_syscall(<... resuming interrupted read ...>) = 0 <0.788503>
9 1.2 write(1,  <unfinished ...>
9 1.3 close(3) = 0 <0.000001>
8 1.4 read(0,  <unfinished ...>
8 1.5 <... write resumed>) = 1 <0.000001>
7 1.6 read(0,  <unfinished ...>
7 1.7 +++ killed by SIGKILL +++
6 1.8 futex(0x7f, FUTEX_WAIT,  <detached ...>
";
    let (ended, started, beside) = read(text);
    assert_eq!(ended, ["9 close 1"]);
    assert_eq!(started, ["futex"]);
    assert_eq!(beside, Beside { begun_before: 3, incomplete: 3, gone: 1, ..Beside::default() });
}

#[test]
fn a_number_that_does_not_fit_is_another_call() {
    let text = "\
9 1.0 read(3,  <unfinished #1 ...>
8 1.0 read(3,  <unfinished #2 ...>
9 1.2 <... read resumed #1>\"\", 4) = 0 <0.200000>
8 1.2 <... read resumed #3>\"\", 4) = 0 <0.200000>
";
    let (ended, started, beside) = read(text);
    assert_eq!(ended, ["9 read 200000"]);
    assert!(started.is_empty());
    assert_eq!(beside, Beside { begun_before: 1, incomplete: 1, ..Beside::default() });
}

#[test]
fn what_cannot_be_read_is_counted_by_its_reason() {
    let text = "\
9 23:59:59.999999 read(3,  <unfinished ...>
9 00:00:00.000001 <... read resumed>\"\", 4) = 0 <0.000002>
[pid 9] 1.0 clone(flags=SIGCHLDstrace: Process 8 attached
, child_tidptr=0x7f) = 8 <0.000156>
9 1.1 read(3) = ? <unavailable>
9 1.2 read(3) = 5 <unavailable>
9 1.3 openat(AT_FDCWD, \"/etc";
    let (ended, _, beside) = read(text);
    assert_eq!(ended, ["9 read ?"]);
    let want = Beside { clock_time: 2, cut: 2, foreign: 1, unavailable: 1, ..Beside::default() };
    assert_eq!(beside, want);
    assert_eq!(beside.passed_over(), 5);
}

#[test]
fn calls_of_a_32_bit_program_are_told_as_such() {
    let text = b"\
9 1.0 [ Process PID=9 runs in 32 bit mode. ]
9 1.1 close(3) = 0 <0.000001>
8 1.1 close(3) = 0 <0.000001>
9 1.2 [ Process PID=9 runs in 64 bit mode. ]
9 1.3 close(3) = 0 <0.000001>
";
    let mut widths = Vec::new();
    Reader::default().take(text, &mut |call| widths.push((call.tid, call.width)));
    let of = |tid, width| (Some(tid), width);
    assert_eq!(widths, [of(9, Width::Bits32), of(8, Width::Bits64), of(9, Width::Bits64)]);
}

#[test]
fn a_thread_that_executes_a_program_goes_on_as_its_process() {
    let text = "\
9 1.0 execve(\"/bin/true\", [\"true\"], 0x7f /* 3 vars */ <unfinished ...>
8 1.1 futex(0x7f, FUTEX_WAIT,  <unfinished ...>
8 1.1 +++ superseded by execve in pid 9 +++
8 1.2 <... execve resumed>) = 0 <0.000200>
";
    let (ended, started, beside) = read(text);
    assert_eq!(ended, ["8 execve 200"]);
    assert_eq!((started.len(), beside.begun_before, beside.incomplete), (0, 0, 1));
}

#[test]
fn it_does_not_matter_in_which_pieces_text_comes_and_a_line_without_end_is_passed_over() {
    let text = b"9 1.0 close(3) = 0 <0.000001>\n9 1.0 read(3, \"\", 4) = 0 <0.000002>\n";
    for size in 1..text.len() {
        let mut reader = Reader::default();
        let mut count = 0;
        for piece in text.chunks(size) {
            reader.take(piece, &mut |_| count += 1);
        }
        assert_eq!((count, reader.finish().1), (2, Beside::default()), "{size}");
    }
    let mut reader = Reader::default();
    let mut count = 0;
    reader.take(b"9 1.0 write(1, \"", &mut |_| count += 1);
    for _ in 0..100 {
        reader.take(&[b'a'; 4096], &mut |_| count += 1);
    }
    reader.take(b"\", 4) = 4 <0.1>\n9 1.0 close(3) = 0 <0.000001>\n", &mut |_| count += 1);
    assert_eq!((count, reader.finish().1.cut), (1, 1));
}

/// What is recorded by `fixtures/tracers/record.sh`: 20 rounds in each of two threads and a child.
fn recorded(text: &[u8]) -> (u64, u64, Beside) {
    let has = |call: &Ended<'_>, part: &[u8]| {
        call.name == b"openat" && call.arguments.windows(part.len()).any(|found| found == part)
    };
    let mut reader = Reader::default();
    let (mut there, mut missing) = (0, 0);
    reader.take(text, &mut |call| {
        assert!(call.took.is_some() || call.value == Value::Unknown, "{call:?}");
        match call.value {
            Value::Success(_) => there += u64::from(has(call, b"\"/tmp/calls/a) = 0 <9.9>\"")),
            Value::Failure(error) => {
                missing += u64::from(has(call, b"\"/no/such\"") && error == b"ENOENT");
            }
            Value::Interrupted(_) | Value::Unknown => {}
        }
    });
    (there, missing, reader.finish().1)
}

#[test]
fn what_the_real_program_wrote_has_as_many_calls_as_were_made() {
    let text = include_bytes!("../../../../fixtures/tracers/strace-6.1.txt");
    let (there, missing, beside) = recorded(text);
    assert_eq!((there, missing), (60, 60), "{beside:?}");
    // A `_exit` and an `exit_group`; two threads and the program that vfork ran have ended.
    assert_eq!((beside.incomplete, beside.passed_over(), beside.begun_before), (0, 0, 0));
    // To a terminal strace writes of other threads into a line: what is lost by it is told.
    let text = include_bytes!("../../../../fixtures/tracers/strace-6.1-to-stderr.txt");
    let (there, missing, beside) = recorded(text);
    let untold = beside.incomplete + beside.passed_over() + beside.begun_before;
    assert!(
        there + missing + untold >= 120 && beside.clock_time == 0,
        "{there} {missing} {beside:?}"
    );
    let text = include_bytes!("../../../../fixtures/tracers/strace-6.1-clock-time.txt");
    let (there, missing, beside) = recorded(text);
    assert_eq!((there, missing), (0, 0));
    assert!(beside.clock_time > 300 && beside.cut + beside.foreign == 0, "{beside:?}");
}
