//! Calls that a compiler put in place, and source lines.

use super::{assert_about, binaries::build, busy::Busy, named, recorded, shown};
use probe_agent::{
    proc::Root,
    stack::{
        naming,
        profile::{Kind, Subject},
    },
};
use std::{collections::BTreeMap, path::Path};

/// The line of the source that has a remark, counted from 1.
fn line_with(remark: &str) -> u32 {
    let source = include_str!("../../../fixtures/binaries/put_in_place.rs");
    let line = source.lines().position(|line| line.ends_with(remark)).unwrap();
    u32::try_from(line).unwrap() + 1
}

#[test]
fn calls_that_were_put_in_place_are_below_what_was_called_with_their_lines() {
    let folder = tempfile::tempdir().unwrap();
    let busy = Busy::start_as(&build(folder.path(), "rust-put-in-place"), &[]);
    let recording = recorded(&busy.scope(), 300);
    let names = named(&recording);
    let all = names.profile.weight() as f64;
    for (function, share) in [("three_of_four", 0.75), ("one_of_four", 0.25)] {
        let name = format!("put_in_place::{function}");
        let functions = shown::rows(&names);
        let rows = functions.iter().filter(|row| row.kind == Kind::Inlined);
        // What it calls itself is put in place, too, and belongs to it.
        let row =
            rows.clone().find(|row| row.name == name).unwrap_or_else(|| panic!("{functions:?}"));
        assert_about(row.total, share);
        assert_eq!(row.module, "rust-put-in-place");
        let stack = format!(";put_in_place::really_called;put_in_place::between;{name}");
        let stacks = shown::stacks(&names);
        assert!(stacks.iter().any(|found| found.contains(&stack)), "{stacks:?}");
    }
    assert!(shown::row(&names, "put_in_place::really_called").total > 0.9);

    let mut lines: BTreeMap<(&str, u32), f64> = BTreeMap::new();
    for line in &names.lines {
        let file = Path::new(&line.file).file_name().unwrap().to_str().unwrap();
        *lines.entry((file, line.line)).or_default() += line.weight as f64 / all;
        let functions = names.profile.ranking(Subject::Functions, false);
        assert!(functions.iter().any(|row| row.index == Some(line.function)), "{line:?}");
    }
    // The compiler may count some of a loop to the line of its head.
    for function in ["three_of_four", "one_of_four"] {
        let remark = format!("// The line of {function}.");
        let share = lines.get(&("put_in_place.rs", line_with(&remark)));
        assert!(share.is_some_and(|share| *share > 0.01), "{function}: {lines:?}");
    }
    assert!(names.lines.is_sorted_by_key(|line| std::cmp::Reverse(line.weight)));

    // Without patience there are none of them, and the function that was called has it all.
    let names = naming::name(&recording, &Root::live().unwrap(), &mut || false);
    assert!(names.lines.is_empty());
    assert!(shown::rows(&names).iter().all(|row| row.kind != Kind::Inlined));
    assert!(shown::row(&names, "put_in_place::really_called").own > 0.9);
}
