//! Source lines and inlined frames, beside what `addr2line -f -i -C` says of the same addresses.

use crate::{
    beside_nm::is_same,
    binaries::{build, is_there, run},
    not_run::not_run,
    without_symbols::functions,
};
use probe_agent::stack::{
    elf::ElfFile,
    lines::{DebugSections, NoLines, Place},
};
use std::{path::Path, process::Command};

const MOST_BYTES: usize = 64 << 20;

/// A frame as both show it: the function, and the file's last name with the line.
type Frame = (String, String);

/// Every `step`th address of the code of functions: what lies between them is executed by nobody, and
/// `addr2line` gives it to the function before.
fn addresses(file: &Path, step: usize) -> Vec<u64> {
    let functions = functions(file).into_iter();
    functions.flat_map(|(start, size)| start..start + size).step_by(step).collect()
}

fn beside(file: &Path, addresses: &[u64]) -> Vec<Vec<Frame>> {
    let words = addresses.iter().map(|svma| format!("{svma:#x}"));
    let text =
        run(Command::new("addr2line").args(["-f", "-i", "-C", "-a", "-e"]).arg(file).args(words));
    let mut all: Vec<Vec<Frame>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            all.push(Vec::new());
            continue;
        }
        let place = lines.next().unwrap();
        let place = place.split(" (discriminator").next().unwrap();
        all.last_mut()
            .unwrap()
            .push((line.to_owned(), place.rsplit('/').next().unwrap().to_owned()));
    }
    all
}

fn ours(place: &Place) -> Vec<Frame> {
    let frame = |frame: &probe_agent::stack::lines::SourceFrame| {
        let function = frame.function.as_ref().map_or("??", |name| name.as_str());
        let path = frame.file.as_ref().map_or("??", |path| path.as_str());
        let line = frame.line.map_or("?".to_owned(), |line| line.to_string());
        (function.to_owned(), format!("{}:{line}", path.rsplit('/').next().unwrap()))
    };
    place.frames.iter().map(frame).collect()
}

fn places(file: &Path, addresses: &[u64]) -> Vec<Place> {
    let bytes = std::fs::read(file).unwrap();
    let image = ElfFile::parse(&bytes).unwrap();
    DebugSections::of(&image, None, MOST_BYTES).unwrap().places(addresses, || true).0
}

/// What came of comparing a program at many addresses.
#[derive(Debug, Default)]
struct Compared {
    known: usize,
    inlined: usize,
    /// The files and lines of all frames are the same.
    same_lines: usize,
    /// The names of all frames are the same as well.
    same_names: usize,
}

fn compare(file: &Path, step: usize) -> Compared {
    let addresses = addresses(file, step);
    let mut compared = Compared::default();
    let theirs = beside(file, &addresses);
    for ((svma, place), theirs) in addresses.iter().zip(places(file, &addresses)).zip(theirs) {
        let ours = ours(&place);
        if theirs.iter().all(|(_, place)| place.ends_with('?')) {
            continue;
        }
        compared.known += 1;
        compared.inlined += usize::from(ours.len() > 1);
        let lines = |frames: &[Frame]| -> Vec<String> {
            frames.iter().map(|(_, place)| place.clone()).collect()
        };
        compared.same_lines += usize::from(lines(&ours) == lines(&theirs));
        let names = |((ours, _), (theirs, _)): (&Frame, &Frame)| is_same(theirs, ours);
        let is_same = ours.len() == theirs.len() && ours.iter().zip(&theirs).all(names);
        compared.same_names += usize::from(is_same);
        if lines(&ours) != lines(&theirs) {
            println!("{svma:x}: {ours:?} beside {theirs:?}");
        }
    }
    compared
}

#[test]
fn lines_and_inlined_frames_are_those_of_addr2line() {
    let folder = tempfile::tempdir().unwrap();
    // How many there are at least, and how many of a hundred have the same lines and names. Names of
    // C++ are written otherwise.
    let cases = [
        ("c", 3, 60, 100, 100),
        ("c-not-moved", 3, 60, 100, 100),
        ("c-packed", 3, 60, 100, 100),
        ("c-dwarf-4", 3, 60, 100, 100),
        ("cpp", 17, 200, 100, 0),
        ("rust", 101, 200, 100, 100),
    ];
    for (name, step, least, lines, names) in cases {
        let compared = compare(&build(folder.path(), name), step);
        println!("{name}: {compared:?}");
        assert!(compared.known >= least, "{name}: {compared:?}");
        assert!(compared.same_lines * 100 >= compared.known * lines, "{name}: {compared:?}");
        assert!(compared.same_names * 100 >= compared.known * names, "{name}: {compared:?}");
    }
}

#[test]
fn what_is_in_another_file_is_said_and_its_lines_are_known() {
    let folder = tempfile::tempdir().unwrap();
    let file = build(folder.path(), "c-split");
    let places = places(&file, &addresses(&file, 3));
    let in_source = |place: &&Place| ours(place).iter().any(|(_, at)| at.starts_with("stubs.c:"));
    let known: Vec<&Place> = places.iter().filter(in_source).collect();
    assert!(known.len() > 60, "{places:?}");
    for place in known {
        let name = place.split_into.as_ref().unwrap().as_str();
        assert!(name.ends_with("-stubs.dwo"), "{name}");
        assert_eq!(place.frames.len(), 1);
        assert_eq!(place.frames[0].function, None);
    }
}

#[test]
fn names_that_several_programs_share_are_those_of_before() {
    if !is_there("dwz") {
        return not_run("names_that_several_programs_share_are_those_of_before", "the package dwz");
    }
    let folder = tempfile::tempdir().unwrap();
    let whole = build(folder.path(), "cpp");
    let other = build(folder.path(), "cpp-not-optimized");
    let addresses = addresses(&whole, 17);
    let before = places(&whole, &addresses);
    let shared = folder.path().join("shared");
    run(Command::new("dwz").arg("-m").arg(&shared).args([&whole, &other]));
    let (bytes, shared) = (std::fs::read(&whole).unwrap(), std::fs::read(shared).unwrap());
    let image = ElfFile::parse(&bytes).unwrap();
    assert!(image.alternate_link().is_some());
    let shared = ElfFile::parse(&shared).unwrap();
    let after =
        DebugSections::of(&image, Some(&shared), MOST_BYTES).unwrap().places(&addresses, || true).0;
    assert_eq!(before, after);
    assert!(before.iter().filter(|place| place.frames.len() > 1).count() > 200);
    // Without that file, some names are not known or without what they are in, and nothing is wrong.
    let alone = DebugSections::of(&image, None, MOST_BYTES).unwrap().places(&addresses, || true).0;
    for (alone, whole) in alone.iter().zip(&before) {
        assert_eq!(alone.frames.len(), whole.frames.len());
        for (alone, whole) in alone.frames.iter().zip(&whole.frames) {
            let whole = whole.function.as_ref().map_or("", |name| name.as_str());
            let alone = alone.function.as_ref().map_or("", |name| name.as_str());
            assert!(whole.contains(alone), "{alone} is not {whole}");
        }
    }
}

#[test]
fn a_file_without_such_information_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(build(folder.path(), "c-bound-at-once")).unwrap();
    let image = ElfFile::parse(&bytes).unwrap();
    assert_eq!(DebugSections::of(&image, None, MOST_BYTES).unwrap_err(), NoLines::None);
    let bytes = std::fs::read(build(folder.path(), "c-packed")).unwrap();
    let image = ElfFile::parse(&bytes).unwrap();
    let sections = DebugSections::of(&image, None, MOST_BYTES).unwrap();
    assert!(sections.unpacked_bytes() > 1000);
    let error = DebugSections::of(&image, None, 100).unwrap_err();
    assert!(matches!(error, NoLines::Section(_)), "{error}");
}

#[test]
fn whoever_has_no_time_left_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = build(folder.path(), "cpp");
    let bytes = std::fs::read(&file).unwrap();
    let image = ElfFile::parse(&bytes).unwrap();
    let sections = DebugSections::of(&image, None, MOST_BYTES).unwrap();
    let addresses = addresses(&file, 17);
    let (places, was_given_up) = sections.places(&addresses, || false);
    assert!(was_given_up);
    assert!(places.len() == addresses.len() && places.iter().all(|place| place.frames.is_empty()));
    let mut asked = 0;
    let count = |asked: &mut u32| {
        *asked += 1;
        true
    };
    assert!(!sections.places(&addresses, || count(&mut asked)).1);
    assert!(asked > 10, "{asked}");
}
