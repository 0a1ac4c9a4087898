//! Texts of other profilers, and texts that are none.

use super::*;
use crate::instruments::fake::FakeMachine;
use protocol::{
    observed::{Nature, Observed},
    recording::Scope,
};

fn ask(folded: &str) -> Result<(Report, Meta), AgentError> {
    let machine = FakeMachine::new();
    FlamegraphFromFolded::collect(Request::of(folded.to_owned()), &machine.context())
}

#[test]
fn what_is_known_of_a_text_is_said_and_what_is_not_too() {
    let (report, meta) = ask("main;work 6\nmain;[unknown] 1\nmain;vfs_read_[k] 3\n").unwrap();
    let Recording { scope, samples, quality, .. } = report.recording;
    assert_eq!((scope, samples, meta.engine), (Scope::Given, 10, Engine::Given));
    assert_eq!(quality.unnamed_pct.known().map(|share| share.get()), Some(10.0));
    let not_said = Observed::Unknown(Reason::DoesNotApply(Nature::GivenStacks));
    assert_eq!(quality.complete_pct, not_said);
    assert_eq!(quality.kernel, Kernel::Named);
    let names: Vec<&str> =
        report.tree.branches.iter().map(|branch| branch.function.name.as_str()).collect();
    assert_eq!(names, ["main", "work", "vfs_read", "[unknown]"]);
    assert_eq!(
        report.passed_over,
        PassedOver { lines: 0, cut_stacks: 0, cut_pct: Percent::default() }
    );
}

#[test]
fn what_is_no_list_of_stacks_is_refused_with_what_helps() {
    for (text, want, remedy) in [
        ("# nothing\n\n", NotFolded::Empty, "profile again while the program is busy"),
        ("a;b 0\n", NotFolded::NoWeight, "profile again while the program is busy"),
        ("a;b 1 2\na;c 3 4\n", NotFolded::Difference, "give each of the two profiles"),
        (
            "\u{1b}[31mhello\nworld",
            NotFolded::NoStack { first: protocol::host_text::HostText::new(b"\x1b[31mhello") },
            "`main;work;hash 12`",
        ),
    ] {
        let error = ask(text).unwrap_err();
        assert!(error.remedy().unwrap().contains(remedy), "{error}");
        assert_eq!(error, AgentError::NotFolded(want));
    }
}

#[test]
fn lines_that_are_no_stacks_and_stacks_that_are_too_deep_are_counted() {
    let deep = vec!["f"; 600].join(";");
    let (report, _) = ask(&format!("not a stack\n{deep} 1\na;b 3\n")).unwrap();
    let PassedOver { lines, cut_stacks, cut_pct } = report.passed_over;
    assert_eq!((lines, cut_stacks, cut_pct.get()), (1, 1, 25.0));
}

#[test]
fn a_count_that_no_profiler_has_forges_no_share() {
    let (report, _) = ask("a;b 18446744073709551615\na;c 3\na;d 18446744073709551616\n").unwrap();
    assert_eq!((report.recording.samples, report.passed_over.lines), (3, 2));
}
