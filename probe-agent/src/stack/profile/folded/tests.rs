//! What other profilers wrote, and what they did not mean to.

use super::*;
use crate::stack::profile::Subject;

fn read(text: &[u8]) -> (Profile, FoldedLoss) {
    Profile::from_folded(text, &FoldedLimits::USUAL).unwrap()
}

/// The function that most stacks end in, with its kind and its own weight.
fn first(profile: &Profile) -> (String, Kind, u64) {
    let row = profile.ranking(Subject::Functions, false)[0];
    let function = profile.function(row.index.unwrap()).unwrap();
    (function.name.clone(), function.kind, row.share.own)
}

#[test]
fn what_profilers_write_is_read() {
    for (text, name, kind, own) in [
        // py-spy record --format raw
        ("main (app.py:3);work (app.py:12) 40\n", "work (app.py:12)", Kind::User, 40),
        ("process 12:\"python app.py\";f (a b.py:1) 2", "f (a b.py:1)", Kind::User, 2),
        // async-profiler -o collapsed
        ("java/lang/Thread.run_[j];App.work_[j] 7\r\n", "App.work", Kind::Jit, 7),
        ("libjvm.so;App.slow_[i] 7", "App.slow", Kind::Jit, 7),
        // stackcollapse-perf.pl --kernel
        ("web;main;read;vfs_read_[k] 9", "vfs_read", Kind::Kernel, 9),
        // bcc profile -f, offcputime -f
        ("web;main;-;schedule 1234567", "schedule", Kind::Kernel, 1_234_567),
        // bcc offwaketime -f: who waited, and behind two dashes who ended it
        ("web;main;-;schedule;--;try_to_wake_up;-;send;db 5", "db", Kind::User, 5),
        ("web;[unknown] 3", "[unknown]", Kind::Unnamed, 3),
        ("web;[libc.so.6] 3", "[libc.so.6]", Kind::Unnamed, 3),
        // A count with a fraction.
        ("a;b 1.5", "b", Kind::User, 2),
        ("a;b 0.2", "b", Kind::User, 1),
        (
            "operator new(unsigned long);std::map<int, char>::at 3",
            "std::map<int, char>::at",
            Kind::User,
            3,
        ),
    ] {
        let (profile, loss) = read(text.as_bytes());
        assert_eq!(first(&profile), (name.to_owned(), kind, own), "{text}");
        assert_eq!(loss, FoldedLoss::default(), "{text}");
    }
}

#[test]
fn other_encodings_are_read() {
    let text = "a;b\u{e9} 3\n";
    let le: Vec<u8> =
        [0xff, 0xfe].into_iter().chain(text.encode_utf16().flat_map(u16::to_le_bytes)).collect();
    let be: Vec<u8> =
        [0xfe, 0xff].into_iter().chain(text.encode_utf16().flat_map(u16::to_be_bytes)).collect();
    let marked = [b"\xef\xbb\xbf", text.as_bytes()].concat();
    for bytes in [le, be, marked] {
        assert_eq!(first(&read(&bytes).0).0, "b\u{e9}");
    }
}

#[test]
fn lines_that_are_no_stacks_are_counted() {
    let (profile, loss) = read(b"# a comment\nno count\n\na;b 2\nx;y z\na;b 3\n 7\n");
    assert_eq!(profile.weight(), 5);
    assert_eq!(loss.lines, 3);
}

#[test]
fn what_is_no_profile_is_refused() {
    let refused = |text: &[u8]| Profile::from_folded(text, &FoldedLimits::USUAL).unwrap_err();
    let error = refused(b"\x1b[31mhello\nworld").to_string();
    assert!(error.contains("\\x1b[31mhello") && error.contains("main;work;hash 12"), "{error}");
    assert_eq!(refused(b""), FoldedError::Empty);
    assert_eq!(refused(b"# nothing\n\n"), FoldedError::Empty);
    assert_eq!(refused(b"a;b 1 2\na;c 3 4\n"), FoldedError::Difference);
    let limits = FoldedLimits { bytes: 10, ..FoldedLimits::USUAL };
    let error = Profile::from_folded(&[b'a'; 11], &limits).unwrap_err();
    assert_eq!(error, FoldedError::TooLong { bytes: 11, limit: 10 });
}

#[test]
fn hostile_text_is_bounded_and_harmless() {
    let deep = format!("{} 5", vec!["f"; 100_000].join(";"));
    let (profile, loss) = read(deep.as_bytes());
    assert_eq!(profile.nodes(), FoldedLimits::USUAL.depth);
    assert_eq!((loss.cut_stacks, loss.cut_weight), (1, 5));
    let (profile, _) =
        read(b"\xff\x1b]0;evil\x07;b 1\na;\xe2\x80\xae;c 18446744073709551615\na;\xe2\x80\xae;c 1");
    for line in profile.folded() {
        assert!(
            line.chars().all(|character| !character.is_control() && character != '\u{202e}'),
            "{line}"
        );
    }
    let long = format!("{} 1", "n".repeat(100_000));
    assert!(first(&read(long.as_bytes()).0).0.len() < 600);
}

#[test]
fn what_is_written_is_read_again() {
    let mut builder = Builder::default();
    let thread = builder.thread(Thread { pid: 1, tid: 2, name: "a;b 7".to_owned() });
    let main =
        builder.function(Function { name: "main".to_owned(), module: None, kind: Kind::User });
    let read_ = builder.function(Function {
        name: "vfs_read".to_owned(),
        module: None,
        kind: Kind::Kernel,
    });
    let root = builder.node(None, main);
    let leaf = builder.node(Some(root), read_);
    builder.count(thread, Some(leaf), 3);
    builder.count(thread, None, 2);
    let lines: Vec<String> = builder.finish().folded().collect();
    assert_eq!(lines, ["a\\x3bb 7 2", "a\\x3bb 7;main;vfs_read_[k] 3"]);
    let (again, _) = read(lines.join("\n").as_bytes());
    assert_eq!(again.weight(), 5);
    assert_eq!(first(&again), ("vfs_read".to_owned(), Kind::Kernel, 3));
}
