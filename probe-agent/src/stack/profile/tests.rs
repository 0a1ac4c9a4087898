//! What rankings, callers, trees and differences must hold.

use super::*;

/// A profile of stacks with their weights, of one thread. A frame `name@module` is in a module.
pub(super) fn profile(stacks: &[(&str, u64)]) -> Profile {
    let mut builder = Builder::default();
    let thread = builder.thread(Thread { pid: 1, tid: 1, name: "web".to_owned() });
    for (stack, weight) in stacks {
        let mut node = None;
        for frame in stack.split(';').filter(|frame| !frame.is_empty()) {
            let (name, module) = frame.split_once('@').unwrap_or((frame, ""));
            let module = (!module.is_empty()).then(|| builder.module(module));
            let function = Function { name: name.to_owned(), module, kind: Kind::User };
            let function = builder.function(function);
            node = Some(builder.node(node, function));
        }
        builder.count(thread, node, *weight);
    }
    builder.finish()
}

fn ranked(profile: &Profile, by_total: bool) -> Vec<(String, u64, u64)> {
    let rows = profile.ranking(Subject::Functions, by_total);
    let shown = |row: &Row| (profile.shown(row.index.unwrap()), row.share.own, row.share.total);
    rows.iter().map(shown).collect()
}

fn row(name: &str, own: u64, total: u64) -> (String, u64, u64) {
    (name.to_owned(), own, total)
}

#[test]
fn own_and_total_weights_are_those_of_the_stacks() {
    let profile = profile(&[("main;work;hash", 6), ("main;work", 1), ("main;idle", 3)]);
    assert_eq!(
        ranked(&profile, false),
        [row("hash", 6, 6), row("idle", 3, 3), row("work", 1, 7), row("main", 0, 10)]
    );
    assert_eq!(ranked(&profile, true)[0], row("main", 0, 10));
    assert_eq!(profile.weight(), 10);
}

#[test]
fn recursion_counts_a_stack_once() {
    let profile = profile(&[("main;f;f;f", 4), ("main;f;g;f", 2), ("main;g", 1)]);
    assert_eq!(ranked(&profile, true), [row("main", 0, 7), row("f", 6, 6), row("g", 1, 3)]);
}

#[test]
fn modules_are_added_up_and_each_stack_counts_once() {
    let profile = profile(&[("main@app;copy@libc;copy2@libc", 5), ("main@app", 2), ("x", 1)]);
    let rows = profile.ranking(Subject::Modules, true);
    let shown: Vec<_> = rows
        .iter()
        .map(|row| {
            (row.index.and_then(|index| profile.module(index)), row.share.own, row.share.total)
        })
        .collect();
    assert_eq!(shown, [(Some("app"), 2, 7), (Some("libc"), 5, 5), (None, 1, 1)]);
}

#[test]
fn threads_of_one_name_stay_apart() {
    let mut builder = Builder::default();
    for (tid, weight) in [(7, 1), (8, 5)] {
        let thread = builder.thread(Thread { pid: 7, tid, name: "w".to_owned() });
        builder.count(thread, None, weight);
    }
    let profile = builder.finish();
    let rows = profile.ranking(Subject::Threads, false);
    assert_eq!(rows.len(), 2);
    assert_eq!(profile.threads()[place(rows[0].index.unwrap())].tid, 8);
    assert_eq!(profile.unnamed_weight(), 6, "a stack without a frame has no name");
}

#[test]
fn chains_into_a_function_have_their_shares() {
    let profile = profile(&[
        ("main;serve;parse;alloc", 5),
        ("main;serve;render;alloc", 3),
        ("main;start;alloc", 1),
        ("alloc", 1),
        ("main;other", 9),
    ]);
    let alloc = profile.functions_named("alloc");
    let Chains { weight, chains } = profile.chains(&alloc, Direction::Callers, 2);
    assert_eq!(weight, 10);
    let names = |chain: &Chain| -> Vec<String> {
        chain.functions.iter().map(|function| profile.shown(*function)).collect()
    };
    let shown: Vec<_> =
        chains.iter().map(|chain| (names(chain).join("<"), chain.goes_on, chain.weight)).collect();
    let want = [
        ("parse<serve", true, 5),
        ("render<serve", true, 3),
        ("", false, 1),
        ("start<main", false, 1),
    ];
    assert_eq!(shown, want.map(|(names, goes_on, weight)| (names.to_owned(), goes_on, weight)));
}

#[test]
fn what_a_function_calls_adds_up_to_it() {
    let profile = profile(&[
        ("main;serve", 2),
        ("main;serve;parse", 1),
        ("main;serve;parse;alloc", 5),
        ("main;serve;serve;render", 3),
        ("main;other", 9),
    ]);
    let serve = profile.functions_named("serve");
    let Chains { weight, chains } = profile.chains(&serve, Direction::Callees, 1);
    assert_eq!(weight, 11);
    assert_eq!(chains.iter().map(|chain| chain.weight).sum::<u64>(), 11);
    let into_parse = chains.iter().filter(|chain| {
        chain.functions.first().is_some_and(|first| profile.shown(*first) == "parse")
    });
    assert_eq!(into_parse.map(|chain| chain.weight).sum::<u64>(), 6);
}

#[test]
fn a_name_is_found_whole_before_it_is_found_within_others() {
    let profile = profile(&[("read;read_all;x", 1), ("pread", 4)]);
    let shown = |text| -> Vec<String> {
        profile.functions_named(text).iter().map(|index| profile.shown(*index)).collect()
    };
    assert_eq!(shown("read"), ["read"]);
    assert_eq!(shown("rea"), ["pread", "read", "read_all"]);
    assert!(shown("nothing").is_empty());
    assert!(shown("").is_empty());
}

#[test]
fn no_samples_are_no_rows_and_no_panic() {
    let profile = Profile::default();
    assert!(profile.ranking(Subject::Functions, false).is_empty());
    assert_eq!(profile.chains(&[0], Direction::Callees, 3).weight, 0);
    assert_eq!(profile.folded().count(), 0);
}

#[test]
fn numbers_that_lead_nowhere_are_survived() {
    let profile = Profile {
        nodes: vec![Node { parent: Some(9), function: 9 }],
        samples: vec![Sample { thread: 9, node: Some(9), weight: 1 }],
        ..Profile::default()
    };
    for by_total in [false, true] {
        for subject in [Subject::Functions, Subject::Modules, Subject::Threads] {
            profile.ranking(subject, by_total);
        }
    }
    assert_eq!(profile.folded().count(), 1);
}
