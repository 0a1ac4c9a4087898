//! Programs with and without names, and without a file.

use super::{
    assert_about,
    binaries::run,
    busy::{Busy, program},
    named, names_of, recorded,
    shown::{row, rows, stacks},
};
use probe_agent::{
    perf::sampler::KernelPart,
    proc::Root,
    stack::{naming, profile::Kind},
};
use protocol::recording::{Kernel, NoNames};
use std::{path::Path, process::Command};

const SHARES: [(&str, f64); 3] = [("six_of_ten", 0.6), ("three_of_ten", 0.3), ("one_of_ten", 0.1)];

#[test]
fn functions_have_their_names_shares_and_callers() {
    let names = names_of(&Busy::start(&["shares"]));
    for (function, share) in SHARES {
        let row = row(&names, function);
        assert_about(row.own, share);
        assert_eq!((row.module.as_str(), row.kind), ("busy", Kind::User));
    }
    assert!(row(&names, "outer").total > 0.9);
    assert_eq!(row(&names, "_start").own, 0.0);
    let ends = "main;outer;middle;inner;one_of_ten";
    assert!(stacks(&names).iter().any(|stack| stack.ends_with(ends)), "{:?}", stacks(&names));
    assert!(names.unnamed.iter().all(|file| file.module.as_str() != "busy"), "{:?}", names.unnamed);
    // Nothing says its lines.
    assert!(names.lines.is_empty(), "{:?}", names.lines);
}

/// The program without its tables of symbols.
fn stripped(folder: &Path) -> std::path::PathBuf {
    let stripped = folder.join("stripped");
    run(Command::new("strip").arg("-o").arg(&stripped).arg(program()));
    stripped
}

#[test]
fn functions_without_names_are_told_apart_by_where_they_start() {
    let folder = tempfile::tempdir().unwrap();
    let names = names_of(&Busy::start_as(&stripped(folder.path()), &["shares"]));
    let rows: Vec<_> = rows(&names).into_iter().filter(|row| row.module == "stripped").collect();
    for (row, (function, share)) in rows.iter().zip(SHARES) {
        assert_about(row.own, share);
        let starts = super::busy::functions();
        let (start, _) = starts.iter().find(|(_, name)| *name == function).unwrap();
        assert_eq!((row.name.as_str(), row.kind), (&*format!("fn_{start:x}"), Kind::Unnamed));
    }
    let file = &names.unnamed[0];
    assert_eq!((file.module.as_str(), file.why), ("stripped", NoNames::Stripped));
    assert!(file.pct.get() > 90.0, "{file:?}");
}

#[test]
fn a_deleted_program_is_named_by_what_still_runs_and_said_to_be_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("busy (v2)");
    std::fs::copy(program(), &path).unwrap();
    let busy = Busy::start_as(&path, &["shares"]);
    std::fs::remove_file(&path).unwrap();
    // What is at its path now is another program, without names.
    std::fs::copy(stripped(folder.path()), &path).unwrap();
    let row = row(&names_of(&busy), "six_of_ten");
    assert_about(row.own, 0.6);
    assert_eq!((row.module.as_str(), row.kind), ("busy (v2) (deleted)", Kind::User));
}

#[test]
fn what_the_kernel_does_is_named_below_its_callers() {
    let recording = recorded(&Busy::start(&["kernel"]).scope(), 300);
    let names = named(&recording);
    if recording.basis.kernel != KernelPart::Included || names.kernel != Kernel::Named {
        let kernel = format!("the kernel may not be looked at: {:?}", names.kernel);
        return super::not_run::not_here(
            "what_the_kernel_does_is_named_below_its_callers",
            &kernel,
        );
    }
    let in_kernel = rows(&names).into_iter().filter(|row| row.kind == Kind::Kernel);
    let in_kernel: Vec<_> = in_kernel.collect();
    assert!(in_kernel.iter().map(|row| row.own).sum::<f64>() > 0.5, "{in_kernel:?}");
    let is_module = |name: &str| name.starts_with('[') && name.ends_with(']');
    assert!(in_kernel.iter().all(|row| is_module(&row.module)), "{in_kernel:?}");
    let read = in_kernel.iter().find(|row| row.name == "vfs_read").unwrap();
    assert_eq!(read.module, "[kernel]");
    let is_below =
        |stack: &&String| stack.contains("main;read_zeros;") && stack.contains(";vfs_read_[k]");
    assert!(stacks(&names).iter().any(|stack| is_below(&stack)), "{:?}", stacks(&names));
}

#[test]
fn a_stack_that_is_not_known_to_its_end_has_a_sign_in_place_of_the_rest() {
    let names = names_of(&Busy::start(&["deep", "300"]));
    let row = row(&names, "[stack cut: more than was copied]");
    assert_eq!((row.kind, row.own), (Kind::Cut, 0.0));
    assert!(row.total > 0.5, "{row:?}");
}

#[test]
fn without_patience_names_are_those_in_the_programs() {
    let recording = recorded(&Busy::start(&["shares"]).scope(), 300);
    let names = naming::name(&recording, &Root::live().unwrap(), &mut || false);
    assert_about(row(&names, "six_of_ten").own, 0.6);
}

#[test]
fn what_is_said_of_a_recording_adds_up() {
    let recording = recorded(&Busy::start(&["deep", "300"]).scope(), 300);
    let names = named(&recording);
    assert_eq!(names.profile.weight(), recording.counts.all.events);
    let quality = naming::quality(&recording, &names);
    let cut: f64 = quality.incomplete.iter().map(|cut| cut.pct.get()).sum();
    let complete = quality.complete_pct.known().unwrap().get();
    assert!((cut + complete - 100.0).abs() < 0.3, "{quality:?}");
    assert!(cut > 50.0, "{quality:?}");
    assert_eq!(quality.by_frame_pointers_pct.known().unwrap().get(), 0.0);
    assert!(quality.unnamed_pct.known().unwrap().get() < 10.0, "{quality:?}");
}
