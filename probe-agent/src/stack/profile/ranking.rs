//! What weighs most: functions, modules or threads.

use super::{Profile, place};
use crate::order;
use std::cmp::Reverse;

/// What is ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Functions.
    Functions,
    /// The files that they are in.
    Modules,
    /// Who ran them.
    Threads,
}

/// The weight of something in all stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Of stacks that end in it.
    pub own: u64,
    /// Of stacks that it is in, each counted once.
    pub total: u64,
}

/// One row of a ranking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its number among functions, modules or threads. None for code in no module that is known.
    pub index: Option<u32>,
    /// What it weighs.
    pub share: Share,
}

/// A stack that samples end in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Functions, the outermost first.
    pub functions: Vec<u32>,
    /// The weight of samples with just this stack.
    pub weight: u64,
}

impl Profile {
    /// The heaviest stacks, at most so many.
    pub fn stacks(&self, most: usize) -> Vec<Stack> {
        let own = self.self_weights();
        let mut nodes: Vec<(u32, u64)> = (0_u32..).zip(own).collect();
        nodes.retain(|(_, weight)| *weight > 0);
        order::by_key(&mut nodes, |(_, weight)| Reverse(*weight));
        nodes.truncate(most);
        let stack = |(node, weight): (u32, u64)| {
            let mut functions: Vec<u32> = self.outwards(node).collect();
            functions.reverse();
            Stack { functions, weight }
        };
        nodes.into_iter().map(stack).collect()
    }

    /// All of a subject, the heaviest by own weight first; by total weight where asked.
    pub fn ranking(&self, subject: Subject, by_total: bool) -> Vec<Row> {
        let mut rows = match subject {
            Subject::Functions => rows(self.function_shares()),
            Subject::Modules => self.module_rows(),
            Subject::Threads => self.thread_rows(),
        };
        rows.retain(|row| row.share.total > 0);
        order::by_key(&mut rows, |Row { share, .. }| {
            let Share { own, total } = *share;
            Reverse(if by_total { (total, own) } else { (own, total) })
        });
        rows
    }

    /// The weight of each function, by its number.
    pub fn function_shares(&self) -> Vec<Share> {
        let own = self.self_weights();
        let mut shares = vec![Share::default(); self.functions.len()];
        for (node, weight) in self.nodes.iter().zip(&own) {
            if let Some(share) = shares.get_mut(place(node.function)) {
                share.own += weight;
            }
        }
        let totals = self.total_weights(own);
        let outermost = self.are_outermost();
        for ((node, total), is_outermost) in self.nodes.iter().zip(&totals).zip(&outermost) {
            if let Some(share) = shares.get_mut(place(node.function)).filter(|_| *is_outermost) {
                share.total += total;
            }
        }
        shares
    }

    fn module_rows(&self) -> Vec<Row> {
        // The last place is that of what is in no known module.
        let mut shares = vec![Share::default(); self.modules.len() + 1];
        let at = |function: u32| {
            let module = self.function(function).and_then(|function| function.module);
            module.map_or(self.modules.len(), place)
        };
        let mut seen: Vec<usize> = Vec::new();
        for sample in &self.samples {
            let Some(node) = sample.node else { continue };
            seen.clear();
            for (depth, function) in self.outwards(node).enumerate() {
                let module = at(function);
                let Some(share) = shares.get_mut(module) else { continue };
                if depth == 0 {
                    share.own += sample.weight;
                }
                if !seen.contains(&module) {
                    seen.push(module);
                    share.total += sample.weight;
                }
            }
        }
        let unknown = shares.pop().unwrap_or_default();
        let mut rows = rows(shares);
        rows.push(Row { index: None, share: unknown });
        rows
    }

    fn thread_rows(&self) -> Vec<Row> {
        let mut shares = vec![Share::default(); self.threads.len()];
        for sample in &self.samples {
            if let Some(share) = shares.get_mut(place(sample.thread)) {
                share.own += sample.weight;
                share.total += sample.weight;
            }
        }
        rows(shares)
    }
}

fn rows(shares: Vec<Share>) -> Vec<Row> {
    (0_u32..).zip(shares).map(|(index, share)| Row { index: Some(index), share }).collect()
}
