//! Each format, from one small recording with everything that a format may stumble over.

use super::*;
use protocol::{
    instruments::export::{Item, Parts, Report},
    recording::{self, Kind},
};

/// The pieces of a small recording: two threads, one with a name that would forge a frame; code of the
/// kernel, of a runtime and inlined; a stack without a frame; one source line.
pub(super) fn pieces() -> Vec<Item> {
    let text = |text: &str| HostText::new(text.as_bytes());
    let function = |name: &str, module, kind| Function { name: text(name), module, kind };
    let call = |parent, function| Call { parent, function };
    let stack = |thread, call, weight| Stack { thread, call, weight };
    vec![
        Item::Modules(vec![text("app (v2)"), text("[kernel.kallsyms]")]),
        Item::Functions(vec![
            function("main", Some(0), Kind::User),
            function("std::vec<a;b>::push", Some(0), Kind::Inlined),
            function("read_file", Some(0), Kind::User),
            function("vfs_read", Some(1), Kind::Kernel),
        ]),
        Item::Functions(vec![
            function("LazyCompile:~f\u{202e} 12", None, Kind::Jit),
            function("[incomplete]", None, Kind::Cut),
        ]),
        Item::Threads(vec![
            Thread { pid: 7, tid: 7, name: text("web") },
            Thread { pid: 7, tid: 8, name: text("a;b 1") },
        ]),
        Item::Calls(vec![
            call(None, 0),
            call(Some(0), 1),
            call(Some(0), 2),
            call(Some(2), 3),
            call(None, 5),
            call(Some(4), 4),
        ]),
        Item::Stacks(vec![
            stack(0, Some(1), 6_000_000_000),
            stack(0, Some(3), 3_000_000_000),
            stack(1, Some(5), 990_000_000),
            stack(1, None, 10_000_000),
        ]),
        Item::Lines(vec![Line {
            function: 1,
            file: text("src/a b.rs"),
            line: 12,
            weight: 6_000_000_000,
        }]),
    ]
}

pub(super) fn report() -> Report {
    let mut recording = recording::example();
    recording.samples = 1000;
    recording.events = 10_000_000_000;
    recording.hertz = 100;
    let parts = Parts { modules: 2, functions: 6, threads: 2, calls: 6, stacks: 4, lines: 1 };
    Report { recording, parts }
}

pub(super) fn profile() -> Profile {
    let mut arriving = Arriving::default();
    pieces().into_iter().for_each(|item| arriving.accept(item));
    arriving.finish(report()).unwrap()
}

fn written(profile: &Profile, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    Document::new(profile.clone(), format).write(&mut bytes).unwrap();
    bytes
}

#[test]
fn each_format_reads_as_it_did() {
    use std::{fmt::Write as _, io::Read as _};
    for format in Format::ALL {
        let bytes = written(&profile(), format);
        let text = if format.is_binary() {
            // As it is before it is packed.
            let mut unpacked = Vec::new();
            flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut unpacked).unwrap();
            let mut text = String::new();
            for line in unpacked.chunks(32) {
                line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
                text.push('\n');
            }
            text
        } else {
            String::from_utf8(bytes).unwrap()
        };
        crate::golden::assert_golden(
            &format!("fixtures/golden/export/{}.txt", format.name()),
            &text,
        );
    }
}

#[test]
fn a_name_forges_no_frame_and_no_count() {
    let text = String::from_utf8(written(&profile(), Format::Folded)).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "web;main;std::vec<a\\x3bb>::push 6000000000");
    assert_eq!(lines[1], "web;main;read_file;vfs_read_[k] 3000000000");
    assert_eq!(lines[2], "a\\x3bb 1;[incomplete];LazyCompile:~f\\u{202e} 12_[j] 990000000");
    assert_eq!(lines[3], "a\\x3bb 1 10000000");
}

#[test]
fn what_stands_for_several_samples_is_counted_as_such() {
    let profile = profile();
    for (weight, want) in [(10_000_000_000, 1000), (10_000_000, 1), (14_000_000, 1), (1, 1), (0, 1)]
    {
        assert_eq!(profile.samples_of(weight), want, "{weight}");
    }
    let mut given = profile;
    given.recording.events = 0;
    assert_eq!(given.samples_of(7), 7);
}

#[test]
fn a_profile_of_nothing_can_be_written() {
    let report = Report { parts: Parts::default(), ..report() };
    let empty = Arriving::default().finish(report).unwrap();
    for format in Format::ALL {
        written(&empty, format);
    }
}

#[test]
fn it_says_of_itself_what_it_is_and_how_good() {
    assert_eq!(
        profile().summary(),
        "1000 samples of 2 threads; stacks known to their end: 99.2 %; samples in code without a \
         name: 3.1 %"
    );
}

/// The picture of a recording, where each heading, row and change is looked for by its words.
fn drawn(is_reversed: bool, baseline: Option<Profile>) -> String {
    let mut bytes = Vec::new();
    let format = Format::Svg;
    Document { profile: profile(), format, is_reversed, baseline }.write(&mut bytes).unwrap();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_picture_begins_with_who_calls_or_with_what_runs() {
    for (is_reversed, first, words) in [
        (false, ">main<", "Top: who calls; below: whom it calls."),
        (true, ">std::vec&lt;a;b&gt;::push<", "Top: where stacks end; below: who called that."),
    ] {
        let picture = drawn(is_reversed, None);
        assert!(picture.contains(words), "{picture}");
        let calls = picture.split("id=\"graph\"").nth(1).unwrap();
        let names = [">main<", ">std::vec&lt;a;b&gt;::push<", ">vfs_read<"];
        let at = |name: &&str| calls.find(name).unwrap_or_else(|| panic!("{name}: {picture}"));
        assert_eq!(names.iter().min_by_key(|name| at(name)), Some(&first), "{picture}");
    }
}

#[test]
fn a_difference_compares_a_service_with_itself_after_it_was_started_again() {
    let mut before = profile();
    before.threads.push(Thread { pid: 90, tid: 90, name: HostText::new(b"db") });
    before.stacks.push(Stack { thread: 2, call: Some(0), weight: 10_000_000_000 });
    for thread in &mut before.threads {
        thread.pid += 1;
        thread.tid += 1;
    }
    let picture = drawn(false, Some(before));
    assert!(picture.contains("▲ grew") && picture.contains("Before: 1000 samples"), "{picture}");
    // Both are below the names of their processes: of one, "web", there is one.
    let rows = |name: &str| picture.matches(&format!(" {name}<")).count();
    assert_eq!((rows("web"), rows("db")), (1, 1), "{picture}");
    assert!(!picture.contains("(8)") && !picture.contains("(91)"), "{picture}");
}
