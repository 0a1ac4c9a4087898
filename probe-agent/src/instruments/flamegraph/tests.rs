//! What a stored recording's tree says, and what it says where there is none.

use super::*;
use crate::{
    instruments::fake::FakeMachine,
    stack::profile::{Builder, Function, Kind, Profile, Thread as Sampled},
};
use protocol::{artifact::ArtifactId, instruments::flamegraph_from_folded, loss::CutBy, recording};

/// A profile of stacks with their weights, each of a thread.
fn profile(stacks: &[(u32, &str, u64)]) -> Profile {
    let mut builder = Builder::default();
    for (tid, stack, weight) in stacks {
        let thread = builder.thread(Sampled { pid: 7, tid: *tid, name: format!("w\\x1b{tid}") });
        let mut node = None;
        for name in stack.split(';') {
            let module = Some(builder.module("app"));
            let function = Function { name: name.to_owned(), module, kind: Kind::User };
            let function = builder.function(function);
            node = Some(builder.node(node, function));
        }
        builder.count(thread, node, *weight);
    }
    builder.finish()
}

fn stored(stacks: &[(u32, &str, u64)]) -> Stored {
    Stored { recording: recording::example(), profile: profile(stacks), lines: Vec::new() }
}

const STACKS: [(u32, &str, u64); 3] =
    [(7, "main;work\\x3b", 60), (8, "main;work\\x3b", 20), (8, "main;idle", 20)];

/// Name, self and total share of each row.
fn rows(report: &Report) -> Vec<(&str, f64, f64)> {
    let branches = report.tree.branches.iter();
    branches.map(|it| (it.function.name.as_str(), it.self_pct.get(), it.total_pct.get())).collect()
}

#[test]
fn a_recording_answers_again_and_again_and_nothing_is_measured() {
    let machine = FakeMachine::new();
    let context = machine.context();
    let artifact = stored(&STACKS).keep(&context).unwrap();
    let ask = |request| Flamegraph::collect(request, &context).unwrap();
    let (report, meta) = ask(Request::of(artifact));
    // A name that was escaped is not escaped again.
    let want = [("main", 0.0, 100.0), ("work\\x3b", 80.0, 80.0), ("idle", 20.0, 20.0)];
    assert_eq!(rows(&report), want);
    assert_eq!(
        (meta.engine, meta.artifact, meta.window_ms),
        (Engine::Stored, Some(artifact), None)
    );
    assert_eq!(meta.truncation, Truncation::none(3));
    let (reversed, _) = ask(Request { is_reversed: true, ..Request::of(artifact) });
    assert_eq!(rows(&reversed)[..2], [("work\\x3b", 0.0, 80.0), ("main", 80.0, 80.0)]);
    let (one, _) = ask(Request { tid: Some(8), ..Request::of(artifact) });
    assert_eq!(rows(&one)[1], ("work\\x3b", 50.0, 50.0));
    let thread = one.thread.unwrap();
    assert_eq!((thread.pid, thread.name.as_str(), thread.pct.get()), (7, "w\\x1b8", 40.0));
}

#[test]
fn two_recordings_are_set_side_by_side() {
    let machine = FakeMachine::new();
    let context = machine.context();
    let artifact = stored(&[(7, "main;new", 5), (7, "main;same", 5)]).keep(&context).unwrap();
    let baseline = stored(&[(7, "main;old", 400), (7, "main;same", 600)]).keep(&context);
    let request = Request { baseline, ..Request::of(artifact) };
    let (report, _) = Flamegraph::collect(request, &context).unwrap();
    assert_eq!(rows(&report)[1..], [("same", 50.0, 50.0), ("new", 50.0, 50.0), ("old", 0.0, 0.0)]);
    let before: Vec<f64> =
        report.tree.branches.iter().map(|it| it.before.unwrap().total_pct.get()).collect();
    assert_eq!(before, [100.0, 60.0, 0.0, 40.0]);
}

#[test]
fn what_is_not_there_is_told() {
    let machine = FakeMachine::new();
    let context = machine.context();
    let artifact = stored(&STACKS).keep(&context).unwrap();
    let other = ArtifactId(artifact.0.wrapping_add(1));
    for (request, want) in [
        (Request::of(other), AgentError::NoSuchArtifact { id: other }),
        (
            Request { baseline: Some(other), ..Request::of(artifact) },
            AgentError::NoSuchArtifact { id: other },
        ),
        (
            Request { tid: Some(9), ..Request::of(artifact) },
            AgentError::ThreadNotRecorded { tid: 9, id: artifact },
        ),
    ] {
        assert_eq!(Flamegraph::collect(request, &context).unwrap_err(), want);
    }
}

#[test]
fn a_tree_is_cut_to_the_room_there_is_and_says_so() {
    let machine = FakeMachine::new();
    let mut context = machine.context();
    let names: Vec<String> =
        (0..400).map(|number| format!("main;f{number}{}", "x".repeat(200))).collect();
    let stacks: Vec<(u32, &str, u64)> =
        names.iter().enumerate().map(|(at, name)| (7, name.as_str(), 1 + at as u64)).collect();
    let artifact = stored(&stacks).keep(&context).unwrap();
    let all = Request { min_pct: 0, limit: 500, ..Request::of(artifact) };
    let (report, meta) = Flamegraph::collect(all, &context).unwrap();
    let bytes = protocol::view::json::bytes(&AnyReport::Flamegraph(report.clone()), &meta);
    assert!(bytes <= context.budget.answer_bytes as usize, "{bytes}");
    assert_eq!(meta.truncation.cut_by, CutBy::AnswerBytes);
    assert_eq!(meta.truncation.total, 401);
    assert!(
        report.tree.branches[1].function.name.as_str().starts_with("f399"),
        "the heaviest stay"
    );
    let shown: f64 = report.tree.branches.iter().map(|branch| branch.self_pct.get()).sum();
    let cut = report.tree.pruned.by_limit.pct.get();
    assert!((shown + cut - 100.0).abs() < 5.0, "{shown} and {cut}");
    let few = Request { min_pct: 0, limit: 10, ..Request::of(artifact) };
    let (report, meta) = Flamegraph::collect(few, &context).unwrap();
    assert_eq!((report.tree.branches.len(), meta.truncation.cut_by), (10, CutBy::Limit));
    assert_eq!(report.tree.pruned.by_limit.branches, 391);
    context.budget.answer_bytes = 0;
    let (report, _) = Flamegraph::collect(few, &context).unwrap();
    assert_eq!(report.tree.branches.len(), 1);
}

#[test]
fn text_that_was_kept_is_a_recording_like_any_other() {
    let machine = FakeMachine::new();
    let context = machine.context();
    let request = flamegraph_from_folded::Request::of("main;a 3\nmain;b_[k] 1\n".to_owned());
    let (_, meta) =
        flamegraph_from_folded::FlamegraphFromFolded::collect(request, &context).unwrap();
    let (report, _) = Flamegraph::collect(Request::of(meta.artifact.unwrap()), &context).unwrap();
    assert_eq!(rows(&report), [("main", 0.0, 100.0), ("a", 75.0, 75.0), ("b", 25.0, 25.0)]);
}
