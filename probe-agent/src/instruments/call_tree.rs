//! A call tree for an answer: grown from a profile, and cut to the room that there is.

use crate::{
    call::Context,
    rank,
    stack::profile::{Branch as Grown, Cut as CutOff, Growth, Profile, Tree, Weights},
};
use protocol::{
    call_tree::{Before, Branch, CallTree, Cut, Pruned},
    error::AgentError,
    host_text::HostText,
    loss::{CutBy, Truncation},
    recording::Function,
    units::Percent,
};

/// Grows the tree of a profile, beside that of an earlier one where there is one.
///
/// # Errors
///
/// When the call reached a limit, or was withdrawn.
pub(super) fn grow(
    profile: &Profile,
    before: Option<&Profile>,
    growth: Growth,
    context: &Context<'_>,
) -> Result<(Tree, bool), AgentError> {
    let mut stopped = Ok(());
    let grown = profile.tree(before, growth, &mut || {
        stopped = context.check();
        stopped.is_ok()
    });
    match grown {
        Some(tree) => Ok((tree, before.is_some())),
        None => Err(stopped.err().unwrap_or(AgentError::Cancelled)),
    }
}

/// The tree before there is anything in it.
pub(super) fn empty(growth: Growth) -> CallTree {
    CallTree { is_reversed: growth.is_reversed, branches: Vec::new(), pruned: Pruned::default() }
}

/// As much of a tree as its answer has room for: its heaviest branches. `size` takes in a tree and how
/// it was cut, and gives the bytes of the answer.
pub(super) fn that_fit(
    (tree, is_difference): &(Tree, bool),
    growth: Growth,
    context: &Context<'_>,
    mut size: impl FnMut(CallTree, Truncation) -> usize,
) -> (CallTree, Truncation) {
    let shown = |most: usize| {
        let shown = CallTree {
            is_reversed: growth.is_reversed,
            branches: tree
                .heaviest(most)
                .into_iter()
                .map(|it| branch(it, tree, *is_difference))
                .collect(),
            pruned: pruned(tree, most),
        };
        let truncation = truncation(&shown, most < tree.len());
        (shown, truncation)
    };
    let budget = context.budget.answer_bytes as usize;
    let most = rank::most_that_fit(1, tree.len(), budget, |most| {
        let (shown, truncation) = shown(most);
        size(shown, truncation)
    });
    shown(most)
}

fn share(weight: Weights, tree: &Tree, side: usize) -> Percent {
    let at = |weights: Weights| weights.get(side).copied().unwrap_or_default() as f64;
    Percent::of(at(weight), at(tree.weight)).unwrap_or_default()
}

fn branch(grown: &Grown, tree: &Tree, is_difference: bool) -> Branch {
    let Grown { depth, name, module, kind, own, total, .. } = grown;
    Branch {
        depth: *depth,
        function: Function {
            name: HostText::escaped(name.clone()),
            module: module.clone().map(HostText::escaped),
            kind: *kind,
        },
        self_pct: share(*own, tree, 0),
        total_pct: share(*total, tree, 0),
        before: is_difference
            .then(|| Before { self_pct: share(*own, tree, 1), total_pct: share(*total, tree, 1) }),
    }
}

fn pruned(tree: &Tree, most: usize) -> Pruned {
    let larger = |weight: Weights| share(weight, tree, 0).max(share(weight, tree, 1));
    let cut = |cut: CutOff| Cut { branches: cut.branches, pct: larger(cut.weight) };
    let all = tree.cut_behind(most);
    Pruned {
        by_min_pct: cut(all.too_light),
        by_depth: cut(all.too_deep),
        by_limit: cut(all.too_many),
        without_frames_pct: larger(tree.without_frames),
    }
}

/// How the list of branches was cut. What `min_pct` and `depth` leave out was not asked for, and
/// counts all the same: the caller did not know how much it is.
fn truncation(tree: &CallTree, is_cut_to_fit: bool) -> Truncation {
    let Pruned { by_min_pct, by_depth, by_limit, .. } = tree.pruned;
    let cut = by_min_pct.branches + by_depth.branches + by_limit.branches;
    let shown = tree.branches.len() as u64;
    let weight = by_min_pct.pct.get() + by_depth.pct.get() + by_limit.pct.get();
    Truncation {
        shown,
        total: shown + cut,
        weight_cut_pct: if cut > 0 { Percent::of(weight, 100.0) } else { None },
        cut_by: match (is_cut_to_fit, cut) {
            (true, _) => CutBy::AnswerBytes,
            (false, 0) => CutBy::Nothing,
            (false, _) => CutBy::Limit,
        },
    }
}
