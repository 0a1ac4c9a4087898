//! How a tree is cut, and that what is shown and what is cut make the whole.

use super::*;
use crate::stack::profile::{Builder, Function, Thread, tests::profile};
use proptest::prelude::*;

const ALL: Growth =
    Growth { is_reversed: false, tid: None, cuts: Cuts { min_pct: 0, depth: 128, limit: 500 } };

fn cut(min_pct: u32, depth: u32, limit: u32) -> Growth {
    Growth { cuts: Cuts { min_pct, depth, limit }, ..ALL }
}

fn tree(profile: &Profile, growth: Growth) -> Tree {
    profile.tree(None, growth, &mut || true).unwrap()
}

/// Depth, name, own and total weight of each row.
fn rows(tree: &Tree, most: usize) -> Vec<(u32, &str, u64, u64)> {
    let row = |branch: &&Branch| (branch.depth, branch.own[0], branch.total[0]);
    let rows = tree.heaviest(most);
    let names = rows.iter().map(|branch| branch.name.as_str());
    rows.iter()
        .map(row)
        .zip(names)
        .map(|((depth, own, total), name)| (depth, name, own, total))
        .collect()
}

fn example() -> Profile {
    profile(&[("main;work;hash", 60), ("main;work;copy", 30), ("main;idle", 6), ("start", 4)])
}

#[test]
fn each_branch_stands_before_those_below_it_and_the_heaviest_first() {
    let tree = tree(&example(), ALL);
    let want = [
        (0, "main", 0, 96),
        (1, "work", 0, 90),
        (2, "hash", 60, 60),
        (2, "copy", 30, 30),
        (1, "idle", 6, 6),
        (0, "start", 4, 4),
    ];
    assert_eq!(rows(&tree, 100), want);
    assert_eq!(tree.cut_behind(100), AllCut::default());
    assert_eq!((tree.weight, tree.without_frames), ([100, 0], [0, 0]));
}

#[test]
fn what_was_cut_is_told_by_why() {
    let profile = example();
    let none = Cut::default();
    let some = |branches, weight| Cut { branches, weight: [weight, 0] };
    for (growth, most, shown, too_light, too_deep, too_many) in [
        (cut(5, 128, 500), 100, 5, some(1, 4), none, none),
        (cut(7, 128, 500), 100, 4, some(2, 10), none, none),
        (cut(0, 1, 500), 100, 2, none, some(4, 96), none),
        (cut(5, 2, 500), 100, 3, some(1, 4), some(2, 90), none),
        (cut(0, 128, 4), 100, 4, none, none, some(2, 10)),
        (cut(0, 128, 500), 2, 2, none, none, some(4, 100)),
        // Of what was cut below a branch that is cut too, the weight counts once.
        (cut(35, 128, 500), 2, 2, some(3, 40), none, some(1, 60)),
        (cut(35, 128, 500), 1, 1, some(2, 10), none, some(3, 90)),
    ] {
        let tree = tree(&profile, growth);
        assert_eq!(rows(&tree, most).len(), shown, "{growth:?}");
        assert_eq!(tree.cut_behind(most), AllCut { too_light, too_deep, too_many }, "{growth:?}");
    }
}

#[test]
fn reversed_it_begins_with_what_stacks_end_in() {
    let profile = profile(&[("main;a;alloc", 5), ("main;b;alloc", 3), ("alloc", 1), ("main;b", 1)]);
    let reversed = tree(&profile, Growth { is_reversed: true, ..ALL });
    let want = [
        (0, "alloc", 1, 9),
        (1, "a", 0, 5),
        (2, "main", 5, 5),
        (1, "b", 0, 3),
        (2, "main", 3, 3),
        (0, "b", 0, 1),
        (1, "main", 1, 1),
    ];
    assert_eq!(rows(&reversed, 100), want);
    let growth = Growth { is_reversed: true, ..cut(20, 128, 500) };
    let heavy = tree(&profile, growth);
    assert_eq!(heavy.cut_behind(100).too_light, Cut { branches: 2, weight: [1, 0] });
}

#[test]
fn a_recursion_reversed_counts_each_stack_once() {
    let profile = profile(&[("f;f;f", 3), ("f", 1)]);
    let reversed = tree(&profile, Growth { is_reversed: true, ..ALL });
    assert_eq!(rows(&reversed, 9), [(0, "f", 1, 4), (1, "f", 0, 3), (2, "f", 3, 3)]);
}

#[test]
fn a_thread_has_a_tree_of_its_own() {
    let mut builder = Builder::default();
    let function = Function { name: "f".to_owned(), module: None, kind: Kind::User };
    let function = builder.function(function);
    let node = builder.node(None, function);
    for (tid, node, weight) in [(7, Some(node), 3), (8, Some(node), 5), (8, None, 2)] {
        let thread = builder.thread(Thread { pid: 7, tid, name: "w".to_owned() });
        builder.count(thread, node, weight);
    }
    let profile = builder.finish();
    for (tid, weight, without_frames) in
        [(Some(7), 3, 0), (Some(8), 7, 2), (None, 10, 2), (Some(9), 0, 0)]
    {
        let found = tree(&profile, Growth { tid, ..ALL });
        assert_eq!((found.weight[0], found.without_frames[0]), (weight, without_frames), "{tid:?}");
        assert_eq!(found.is_empty(), weight == 0, "{tid:?}");
    }
}

#[test]
fn two_profiles_are_one_tree_and_what_is_gone_is_in_it() {
    let before = profile(&[("main;old@a", 40), ("main;same", 60)]);
    let after = profile(&[("main;new", 10), ("main;same", 10)]);
    let both = after.tree(Some(&before), ALL, &mut || true).unwrap();
    let shown: Vec<_> = both
        .heaviest(9)
        .into_iter()
        .map(|branch| (branch.name.as_str(), branch.own, branch.total))
        .collect();
    let want = [
        ("main", [0, 0], [20, 100]),
        ("same", [10, 60], [10, 60]),
        ("new", [10, 0], [10, 0]),
        ("old", [0, 40], [0, 40]),
    ];
    assert_eq!(shown, want);
    assert_eq!(both.heaviest(9)[3].module.as_deref(), Some("a"));
    let reversed = Growth { is_reversed: true, ..ALL };
    let both = after.tree(Some(&before), reversed, &mut || true).unwrap();
    assert_eq!(both.heaviest(9)[1].total, [10, 60], "main above same");
}

#[test]
fn it_stops_when_it_is_told_to() {
    let mut asked = 0;
    let stopped = example().tree(None, ALL, &mut || {
        asked += 1;
        asked < 3
    });
    assert!(stopped.is_none());
}

#[test]
fn nothing_has_no_branches() {
    for is_reversed in [false, true] {
        let growth = Growth { is_reversed, ..ALL };
        assert!(tree(&Profile::default(), growth).is_empty());
        assert!(tree(&profile(&[("a;b", 0)]), growth).is_empty());
    }
}

proptest! {
    #[test]
    fn shown_and_cut_make_the_whole(
        stacks in prop::collection::vec((prop::collection::vec(0_u8..4, 0..6), 1_u64..100), 1..20),
        is_reversed in any::<bool>(),
        (min_pct, depth, limit, most) in (0_u32..20, 1_u32..5, 1_u32..12, 1_usize..14),
    ) {
        let stacks: Vec<(String, u64)> = stacks
            .into_iter()
            .map(|(frames, weight)| {
                let names: Vec<String> = frames.iter().map(|frame| format!("f{frame}")).collect();
                (names.join(";"), weight)
            })
            .collect();
        let stacks: Vec<(&str, u64)> =
            stacks.iter().map(|(stack, weight)| (stack.as_str(), *weight)).collect();
        let profile = profile(&stacks);
        let all = tree(&profile, Growth { is_reversed, ..ALL });
        let found = tree(&profile, Growth { is_reversed, ..cut(min_pct, depth, limit) });
        let shown = found.heaviest(most);
        let AllCut { too_light, too_deep, too_many } = found.cut_behind(most);
        let cuts = [too_light, too_deep, too_many];
        let branches: u64 = cuts.iter().map(|cut| cut.branches).sum();
        prop_assert_eq!(shown.len() as u64 + branches, all.len() as u64);
        let own: u64 = shown.iter().map(|branch| branch.own[0]).sum();
        let weight: u64 = cuts.iter().map(|cut| cut.weight[0]).sum();
        prop_assert_eq!(own + weight + found.without_frames[0], profile.weight());
    }
}
