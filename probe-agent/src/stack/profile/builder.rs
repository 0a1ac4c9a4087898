//! Makes a profile, stack by stack.

use super::{Function, Node, Profile, Sample, Thread};
use std::{collections::HashMap, hash::Hash};

/// Puts a profile together. What is the same is kept once.
#[derive(Debug, Default)]
pub struct Builder {
    profile: Profile,
    modules: HashMap<String, u32>,
    functions: HashMap<Function, u32>,
    nodes: HashMap<Node, u32>,
    threads: HashMap<Thread, u32>,
    samples: HashMap<(u32, Option<u32>), u64>,
}

impl Builder {
    /// With the modules and functions of a profile, under the same numbers, and no stack.
    pub fn with_functions_of(profile: &Profile) -> Self {
        let mut builder = Self::default();
        for module in &profile.modules {
            builder.module(module);
        }
        for function in &profile.functions {
            builder.function(function.clone());
        }
        builder
    }

    /// The number of a module.
    pub fn module(&mut self, name: &str) -> u32 {
        if let Some(index) = self.modules.get(name) {
            return *index;
        }
        kept(&mut self.modules, &mut self.profile.modules, name.to_owned())
    }

    /// The number of a function.
    pub fn function(&mut self, function: Function) -> u32 {
        kept(&mut self.functions, &mut self.profile.functions, function)
    }

    /// The number of a thread.
    pub fn thread(&mut self, thread: Thread) -> u32 {
        kept(&mut self.threads, &mut self.profile.threads, thread)
    }

    /// The node of a function called at another node; at none, it was called by nobody.
    pub fn node(&mut self, parent: Option<u32>, function: u32) -> u32 {
        kept(&mut self.nodes, &mut self.profile.nodes, Node { parent, function })
    }

    /// Counts a stack of a thread by the node that it leads to.
    pub fn count(&mut self, thread: u32, node: Option<u32>, weight: u64) {
        let counted = self.samples.entry((thread, node)).or_default();
        *counted = counted.saturating_add(weight);
    }

    /// How many nodes there are.
    pub fn nodes(&self) -> usize {
        self.profile.nodes.len()
    }

    /// The profile.
    pub fn finish(self) -> Profile {
        let Self { mut profile, samples, .. } = self;
        profile.samples = samples
            .into_iter()
            .map(|((thread, node), weight)| Sample { thread, node, weight })
            .collect();
        // The same stacks give the same bytes.
        crate::order::by_key(&mut profile.samples, |sample| (sample.thread, sample.node));
        profile
    }
}

/// The number of an entry of a list that has each entry once.
fn kept<T: Clone + Eq + Hash>(known: &mut HashMap<T, u32>, list: &mut Vec<T>, entry: T) -> u32 {
    if let Some(index) = known.get(&entry) {
        return *index;
    }
    // More than four thousand million entries do not fit into any agent's memory.
    let index = u32::try_from(list.len()).unwrap_or(u32::MAX);
    list.push(entry.clone());
    known.insert(entry, index);
    index
}
