//! Code that a program makes while it runs, and maps of it.

use super::{
    assert_about,
    binaries::build,
    busy::Busy,
    elsewhere::{child_of, is_root},
    named, names_of,
    not_run::not_run,
    recorded,
    shown::{row, rows, stacks},
};
use probe_agent::{
    perf::sampler::Scope,
    stack::{naming::Names, profile::Kind},
};
use protocol::recording::NoNames;
use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
};

fn made() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| build(Path::new(env!("CARGO_TARGET_TMPDIR")), "made"))
}

/// A program that runs, with its map, which is removed with this.
struct Made {
    busy: Busy,
    map: PathBuf,
}

impl Made {
    fn start(words: &[&str]) -> Self {
        let busy = Busy::start_as(made(), words);
        let map = format!("/tmp/perf-{}.map", busy.pid()).into();
        Self { busy, map }
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.map);
    }
}

/// The share of code that was made, which all has no name.
fn unnamed(names: &Names, why: NoNames) -> f64 {
    let rows = rows(names).into_iter().filter(|row| row.name.starts_with("0x"));
    let unnamed: Vec<_> = rows.collect();
    assert!(!unnamed.is_empty() && unnamed.iter().all(|row| row.kind == Kind::Unnamed));
    assert_eq!(names.unnamed[0].why, why, "{:?}", names.unnamed);
    names.unnamed[0].pct.get()
}

#[test]
fn code_has_the_names_of_the_map_in_either_form() {
    for form in ["plain", "jdk"] {
        let names = names_of(&Made::start(&[form]).busy);
        let cases = [("three_of_four(int, long)", 0.75), ("one_of_four", 0.25)];
        for (function, share) in cases {
            let row = row(&names, function);
            assert_about(row.own, share);
            assert_eq!((row.module.as_str(), row.kind), ("[anonymous]", Kind::Jit), "{form}");
        }
        let is_called = |stack: &String| stack.contains("main;three_of_four(int, long)_[j]");
        assert!(stacks(&names).iter().any(is_called), "{:?}", stacks(&names));
    }
}

#[test]
fn code_without_a_map_is_named_by_where_it_is_and_told_of() {
    let names = names_of(&Made::start(&["none"]).busy);
    assert!(unnamed(&names, NoNames::NoPerfMap) > 90.0, "{:?}", names.unnamed);
    assert_eq!(names.unnamed[0].module.as_str(), "[anonymous]");
}

/// Linux 5.17, where it is built with names for memory.
#[test]
fn memory_with_a_name_is_called_by_it() {
    let made = Made::start(&["none", "JIT app cache"]);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", made.busy.pid())).unwrap();
    if !maps.contains("[anon:JIT app cache]") {
        return super::not_run::not_here("memory_with_a_name_is_called_by_it", "names for memory");
    }
    let names = names_of(&made.busy);
    assert_eq!(names.unnamed[0].module.as_str(), "[anon:JIT app cache]");
}

#[test]
fn names_in_a_map_forge_no_frame_and_reach_no_terminal() {
    let names = names_of(&Made::start(&["hostile"]).busy);
    assert_about(row(&names, "a;b;three_of_four").own, 0.75);
    assert_about(row(&names, "\\x1b[2Jone_of_four").own, 0.25);
    let stacks = stacks(&names);
    assert!(stacks.iter().any(|stack| stack.ends_with("main;a\\x3bb\\x3bthree_of_four_[j]")));
    assert!(stacks.iter().all(|stack| !stack.contains(";b;") && !stack.contains('\x1b')));
}

#[test]
fn a_map_without_an_end_ends_nothing() {
    let made = Made::start(&["endless"]);
    let recording = recorded(&made.busy.scope(), 300);
    let started = Instant::now();
    assert!(unnamed(&named(&recording), NoNames::NoPerfMap) > 90.0);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn a_map_that_somebody_else_wrote_names_nothing() {
    if !is_root() {
        return not_run("a_map_that_somebody_else_wrote_names_nothing", "root");
    }
    let made = Made::start(&["stranger"]);
    std::os::unix::fs::chown(&made.map, Some(12_345), None).unwrap();
    assert!(unnamed(&names_of(&made.busy), NoNames::NoPerfMap) > 90.0);
}

/// As in a container: another root, another number, and a map that is nowhere else.
#[test]
fn a_map_is_found_by_the_number_that_its_process_has_in_its_own_namespace() {
    if !is_root() {
        let test = "a_map_is_found_by_the_number_that_its_process_has_in_its_own_namespace";
        return not_run(test, "root");
    }
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("tmp")).unwrap();
    std::fs::copy(made(), root.path().join("made")).unwrap();
    let folder = format!("--root={}", root.path().display());
    let words = ["--mount", "--pid", "--fork", "--kill-child", &folder, "/made", "plain"];
    let unshare = Busy::start_by(Command::new("unshare").args(words));
    let pid = child_of(unshare.pid());
    assert!(root.path().join("tmp/perf-1.map").exists());
    let recording = recorded(&Scope::Process(pid), 300);
    let names = named(&recording);
    assert_about(row(&names, "three_of_four(int, long)").own, 0.75);
    assert_eq!((recording.processes[0].pid, recording.processes[0].inner_pid), (pid, Some(1)));
    assert_eq!((names.profile.threads()[0].pid, names.profile.threads()[0].tid), (pid, pid));
}
