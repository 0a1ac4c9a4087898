//! The call tree from its root, cut to its heaviest branches.

use super::{Profile, place};
use crate::order;
use std::cmp::Reverse;

/// A function in its place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// How many are above it.
    pub depth: u32,
    /// Which function.
    pub function: u32,
    /// What ends in it here.
    pub own: u64,
    /// What goes through it here, or ends in it.
    pub total: u64,
}

/// The heaviest branches of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branches {
    /// Each before those below it; of those with the same parent, the heaviest first.
    pub branches: Vec<Branch>,
    /// Branches of the whole tree.
    pub of: usize,
    /// What ends in branches that were cut.
    pub cut_weight: u64,
}

impl Profile {
    /// The call tree with the heaviest branches only, at most so many.
    ///
    /// What is above a branch weighs at least as much, so it is never cut before it.
    pub fn branches(&self, most: usize) -> Branches {
        let own = self.self_weights();
        let totals = self.total_weights(own.clone());
        let at = |list: &[u64], node: u32| list.get(place(node)).copied().unwrap_or_default();
        let count = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let mut nodes: Vec<u32> = (0..count).filter(|node| at(&totals, *node) > 0).collect();
        let of = nodes.len();
        // Of equal weight, a parent stands before its child.
        order::by_key(&mut nodes, |node| (Reverse(at(&totals, *node)), *node));
        let cut = nodes.split_off(most.min(nodes.len()));
        let cut_weight = cut.iter().map(|node| at(&own, *node)).sum();
        let mut is_kept = vec![false; self.nodes.len()];
        for node in &nodes {
            if let Some(is_kept) = is_kept.get_mut(place(*node)) {
                *is_kept = true;
            }
        }
        let children = self.children();
        let lightest_first = |nodes: &mut Vec<(u32, u32)>| {
            nodes.retain(|(node, _)| is_kept.get(place(*node)).copied().unwrap_or_default());
            order::by_key(nodes, |(node, _)| (at(&totals, *node), Reverse(*node)));
        };
        let mut walk: Vec<(u32, u32)> = children.roots().map(|node| (node, 0)).collect();
        lightest_first(&mut walk);
        let mut branches = Vec::with_capacity(nodes.len());
        while let Some((node, depth)) = walk.pop() {
            let Some(function) = self.function_of(node) else { continue };
            branches.push(Branch {
                depth,
                function,
                own: at(&own, node),
                total: at(&totals, node),
            });
            let mut below: Vec<(u32, u32)> =
                children.of(node).map(|node| (node, depth + 1)).collect();
            lightest_first(&mut below);
            walk.extend(below);
        }
        Branches { branches, of, cut_weight }
    }
}
