//! On whose behalf something happened: of each stack the innermost function that is worth naming.

use super::{Function, Profile, Row, Share, place};
use crate::order;
use std::cmp::Reverse;

impl Profile {
    /// Functions by the weight of the stacks whose innermost function that `is_worth_naming` they are,
    /// the heaviest first. Where no function of a stack is, its innermost one stands for it.
    ///
    /// `own` and `total` of a row are both that weight.
    pub fn sites(&self, is_worth_naming: impl Fn(&Function, Option<&str>) -> bool) -> Vec<Row> {
        let named: Vec<bool> = self
            .functions
            .iter()
            .map(|function| {
                let module = function.module.and_then(|module| self.module(module));
                is_worth_naming(function, module)
            })
            .collect();
        let is_named = |function: &u32| named.get(place(*function)).copied().unwrap_or_default();
        let mut weights = vec![0_u64; self.functions.len()];
        for sample in &self.samples {
            let Some(node) = sample.node else { continue };
            let site = self.outwards(node).find(is_named).or_else(|| self.function_of(node));
            if let Some(weight) = site.and_then(|site| weights.get_mut(place(site))) {
                *weight = weight.saturating_add(sample.weight);
            }
        }
        let row = |(index, weight)| Row {
            index: Some(index),
            share: Share { own: weight, total: weight },
        };
        let mut rows: Vec<Row> = (0_u32..).zip(weights).map(row).collect();
        rows.retain(|row| row.share.own > 0);
        order::by_key(&mut rows, |row| Reverse(row.share.own));
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Builder, Kind, Thread},
        *,
    };

    /// A profile of stacks, the outermost function first, with their weights.
    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut builder = Builder::default();
        let thread = builder.thread(Thread { pid: 1, tid: 1, name: String::new() });
        for (stack, weight) in stacks {
            let mut node = None;
            for name in stack.split(';') {
                let (name, module) = (name.to_owned(), None);
                let function = builder.function(Function { name, module, kind: Kind::User });
                node = Some(builder.node(node, function));
            }
            builder.count(thread, node, *weight);
        }
        builder.finish()
    }

    #[test]
    fn a_stack_counts_for_the_innermost_function_that_is_worth_naming() {
        let profile = profile(&[
            ("main;cache;malloc;memset", 5),
            ("main;cache;memset", 4),
            ("main;cache;log;memcpy", 2),
            ("main;memset", 3),
            ("malloc", 1),
        ]);
        let is_named = |function: &Function, _: Option<&str>| {
            !matches!(function.name.as_str(), "malloc" | "memset" | "memcpy")
        };
        let found: Vec<(String, u64)> = profile
            .sites(is_named)
            .iter()
            .map(|row| (profile.shown(row.index.unwrap()), row.share.own))
            .collect();
        let want = [("cache", 9), ("main", 3), ("log", 2), ("malloc", 1)];
        assert_eq!(found, want.map(|(name, weight)| (name.to_owned(), weight)));
        assert_eq!(profile.weight(), found.iter().map(|(_, weight)| weight).sum::<u64>());
    }
}
