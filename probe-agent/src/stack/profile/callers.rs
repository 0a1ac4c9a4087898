//! Who calls a function, and whom it calls.

use super::{Children, Profile, Step, place};
use crate::order;
use std::{cmp::Reverse, collections::HashMap};

/// Which way to look from a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// To those that called it, outwards.
    Callers,
    /// To those that it called, inwards.
    Callees,
}

/// One way into a function, or out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Functions, the nearest first. Empty: nobody called it, or it called nobody.
    pub functions: Vec<u32>,
    /// Whether the chain goes on behind the last of them.
    pub goes_on: bool,
    /// The weight of stacks that have it.
    pub weight: u64,
}

/// The ways into a function, or out of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chains {
    /// The weight of stacks that the function is in.
    pub weight: u64,
    /// All ways, the heaviest first. Their weights add up to that of the function.
    pub chains: Vec<Chain>,
}

impl Profile {
    /// Functions whose name is a text, with or without their module; or that have it in their name
    /// where none is exactly so. Heaviest first.
    pub fn functions_named(&self, text: &str) -> Vec<u32> {
        let named = |matches: &dyn Fn(&str) -> bool| -> Vec<u32> {
            let all = (0_u32..).zip(&self.functions);
            all.filter(|(_, function)| matches(&function.name)).map(|(index, _)| index).collect()
        };
        let mut found = named(&|name| name == text);
        if found.is_empty() && text.ends_with(')') {
            let count = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
            found = (0..count).filter(|function| self.shown(*function) == text).collect();
        }
        if found.is_empty() && !text.is_empty() {
            found = named(&|name| name.contains(text));
        }
        let shares = self.function_shares();
        let total = |index: &u32| shares.get(place(*index)).map(|share| share.total);
        order::by_key(&mut found, |index| Reverse(total(index)));
        found
    }

    /// The ways into one of some functions, or out of it, up to a depth.
    ///
    /// A stack counts once, by its outermost frame that is one of the functions.
    pub fn chains(&self, functions: &[u32], direction: Direction, depth: usize) -> Chains {
        let own = self.self_weights();
        let totals = self.total_weights(own.clone());
        let children = (direction == Direction::Callees).then(|| self.children());
        let mut weights: HashMap<(Vec<u32>, bool), u64> = HashMap::new();
        for node in self.outermost_of(functions) {
            match direction {
                Direction::Callers => {
                    let mut callers = self.outwards(node).skip(1);
                    let chain: Vec<u32> = callers.by_ref().take(depth).collect();
                    let goes_on = callers.next().is_some();
                    *weights.entry((chain, goes_on)).or_default() += weight(&totals, node);
                }
                Direction::Callees => {
                    if let Some(children) = &children {
                        self.add_callees((node, children), depth, (&own, &totals), &mut weights);
                    }
                }
            }
        }
        let chains = weights.into_iter().filter(|(_, weight)| *weight > 0);
        let mut chains: Vec<Chain> = chains
            .map(|((functions, goes_on), weight)| Chain { functions, goes_on, weight })
            .collect();
        // By content where weights are equal, so that the same profile gives the same answer.
        order::by(&mut chains, |left, right| {
            let by_weight = right.weight.cmp(&left.weight);
            by_weight.then_with(|| left.functions.cmp(&right.functions))
        });
        Chains { weight: chains.iter().map(|chain| chain.weight).sum(), chains }
    }

    /// Every way down from a node: one for each stack that ends above the depth, and one for each node
    /// at it.
    fn add_callees(
        &self,
        (from, children): (u32, &Children),
        depth: usize,
        (own, totals): (&[u64], &[u64]),
        weights: &mut HashMap<(Vec<u32>, bool), u64>,
    ) {
        let mut chain: Vec<u32> = Vec::new();
        *weights.entry((Vec::new(), false)).or_default() += weight(own, from);
        let mut walk: Vec<Step> = children.of(from).map(Step::Enter).collect();
        while let Some(step) = walk.pop() {
            let Step::Enter(node) = step else {
                chain.pop();
                continue;
            };
            let Some(function) = self.function_of(node) else { continue };
            chain.push(function);
            walk.push(Step::Leave(function));
            let is_last = chain.len() >= depth;
            *weights.entry((chain.clone(), false)).or_default() += weight(own, node);
            let below = weight(totals, node) - weight(own, node);
            if is_last && below > 0 {
                *weights.entry((chain.clone(), true)).or_default() += below;
            } else {
                walk.extend(children.of(node).map(Step::Enter));
            }
        }
    }

    /// Nodes of any of some functions that have none of them above.
    fn outermost_of(&self, functions: &[u32]) -> Vec<u32> {
        let is_one = |node: u32| self.function_of(node).is_some_and(|own| functions.contains(&own));
        // A parent stands before its children, so it is known by then whether it is below one.
        let mut is_at_or_below = vec![false; self.nodes.len()];
        let mut found = Vec::new();
        for (index, node) in (0_u32..).zip(&self.nodes) {
            let above = node.parent.and_then(|parent| is_at_or_below.get(place(parent)).copied());
            let is_below = above.unwrap_or_default();
            let is_found = is_one(index);
            if is_found && !is_below {
                found.push(index);
            }
            if let Some(is_at_or_below) = is_at_or_below.get_mut(place(index)) {
                *is_at_or_below = is_below || is_found;
            }
        }
        found
    }
}

fn weight(weights: &[u64], node: u32) -> u64 {
    weights.get(place(node)).copied().unwrap_or_default()
}
