//! Named, folded stacks: what every question about a recording is answered from.
//!
//! A profile is a call tree. Each node is a function called by that of its parent; a sample belongs to
//! the node that its whole stack leads to, and counts for a thread. Functions, modules and nodes are
//! kept once. A question goes over the tree a few times and keeps nothing, so a second one costs no
//! more than the first, and no recording.
//!
//! Where a function is on a stack more than once (recursion), the stack counts for it once, as in
//! perf's "children" and pprof's "cum".

mod builder;
mod callers;
mod difference;
mod folded;
mod parts;
mod ranking;
mod sites;
mod tree;

pub use builder::Builder;
pub use callers::{Chain, Chains, Direction};
pub use difference::{Change, Difference};
pub use folded::{FoldedError, FoldedLimits, FoldedLoss};
pub use protocol::recording::Kind;
pub use ranking::{Row, Share, Stack, Subject};
pub use tree::{AllCut, Branch, Cut, Growth, Tree, Weights};

use protocol::{host_text::HostText, recording};
use serde::{Deserialize, Serialize};

/// Stacks with their weights.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    modules: Vec<String>,
    functions: Vec<Function>,
    /// A node's parent stands before it.
    nodes: Vec<Node>,
    threads: Vec<Thread>,
    samples: Vec<Sample>,
}

/// A place that samples are counted at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Function {
    /// What it is called; escaped already.
    pub name: String,
    /// Which of the modules it is in; none where that is not known.
    pub module: Option<u32>,
    /// What kind of code it is.
    pub kind: Kind,
}

/// A function in a place of the call tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Node {
    /// None for one that nobody called.
    parent: Option<u32>,
    function: u32,
}

/// Who ran.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Thread {
    /// Its process.
    pub pid: u32,
    /// Itself; the same as `pid` for the main thread.
    pub tid: u32,
    /// Its name; escaped already.
    pub name: String,
}

/// How often a thread was seen at a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Sample {
    thread: u32,
    /// None for a stack without any frame.
    node: Option<u32>,
    weight: u64,
}

impl Profile {
    /// The weight of all stacks.
    pub fn weight(&self) -> u64 {
        self.samples.iter().map(|sample| sample.weight).sum()
    }

    /// The weight of stacks that end in code without a name, and of those without a frame.
    pub fn unnamed_weight(&self) -> u64 {
        let is_unnamed = |sample: &&Sample| {
            sample.node.and_then(|node| self.function_of(node)).is_none_or(|function| {
                self.function(function).is_none_or(|function| function.kind == Kind::Unnamed)
            })
        };
        self.samples.iter().filter(is_unnamed).map(|sample| sample.weight).sum()
    }

    /// Threads that were seen.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// A thread by its number, and the weight of its stacks.
    pub fn thread(&self, tid: u32) -> Option<(&Thread, u64)> {
        let is_it = |thread: &Thread| thread.tid == tid;
        let found = self.threads.iter().find(|thread| is_it(thread))?;
        let of_it = |sample: &&Sample| self.threads.get(place(sample.thread)).is_some_and(is_it);
        Some((found, self.samples.iter().filter(of_it).map(|sample| sample.weight).sum()))
    }

    /// Whether any function is of a kind.
    pub fn has(&self, kind: Kind) -> bool {
        self.functions.iter().any(|function| function.kind == kind)
    }

    /// Nodes of the call tree.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// A function's name and module as one text: `memcpy (libc.so.6)`.
    pub fn shown(&self, function: u32) -> String {
        let Some(found) = self.function(function) else { return String::new() };
        match found.module.and_then(|module| self.module(module)) {
            Some(module) => format!("{} ({module})", found.name),
            None => found.name.clone(),
        }
    }

    /// A function, as answers have it.
    pub fn described(&self, function: u32) -> Option<recording::Function> {
        let found = self.function(function)?;
        let module = found.module.and_then(|module| self.module_name(module));
        let (name, kind) = (HostText::escaped(found.name.clone()), found.kind);
        Some(recording::Function { name, module, kind })
    }

    /// The number of a function of a kind by its name, in whichever module.
    pub fn function_by(&self, name: &str, kind: Kind) -> Option<u32> {
        let is_it = |function: &Function| function.name == name && function.kind == kind;
        let place = self.functions.iter().position(is_it)?;
        u32::try_from(place).ok()
    }

    /// A module's name, as answers have it.
    pub fn module_name(&self, module: u32) -> Option<HostText> {
        self.module(module).map(|name| HostText::escaped(name.to_owned()))
    }

    fn function(&self, index: u32) -> Option<&Function> {
        self.functions.get(place(index))
    }

    fn module(&self, index: u32) -> Option<&str> {
        self.modules.get(place(index)).map(String::as_str)
    }

    fn node(&self, index: u32) -> Option<&Node> {
        self.nodes.get(place(index))
    }

    fn function_of(&self, node: u32) -> Option<u32> {
        self.node(node).map(|node| node.function)
    }

    /// What ends at each node.
    fn self_weights(&self) -> Vec<u64> {
        let mut weights = vec![0; self.nodes.len()];
        for sample in &self.samples {
            if let Some(weight) = sample.node.and_then(|node| weights.get_mut(place(node))) {
                *weight += sample.weight;
            }
        }
        weights
    }

    /// What goes through each node, or ends there.
    fn total_weights(&self, mut weights: Vec<u64>) -> Vec<u64> {
        for (index, node) in self.nodes.iter().enumerate().rev() {
            let weight = weights.get(index).copied().unwrap_or_default();
            if let Some(parent) = node.parent.and_then(|parent| weights.get_mut(place(parent))) {
                *parent += weight;
            }
        }
        weights
    }

    /// For each node, whether its function stands nowhere above it.
    fn are_outermost(&self) -> Vec<bool> {
        // Along the path to a node, how often each function stands there now. Children are visited
        // behind their parents, so a walk in depth needs the lists of children first.
        let children = self.children();
        let mut on_path = vec![0_u32; self.functions.len()];
        let mut outermost = vec![false; self.nodes.len()];
        let mut walk: Vec<Step> = children.roots().map(Step::Enter).collect();
        while let Some(step) = walk.pop() {
            match step {
                Step::Enter(node) => {
                    let Some(function) = self.function_of(node) else { continue };
                    if let Some(count) = on_path.get_mut(place(function)) {
                        if let Some(is_outermost) = outermost.get_mut(place(node)) {
                            *is_outermost = *count == 0;
                        }
                        *count += 1;
                    }
                    walk.push(Step::Leave(function));
                    walk.extend(children.of(node).map(Step::Enter));
                }
                Step::Leave(function) => {
                    if let Some(count) = on_path.get_mut(place(function)) {
                        *count -= 1;
                    }
                }
            }
        }
        outermost
    }

    fn children(&self) -> Children {
        let mut first = vec![None; self.nodes.len()];
        let mut next = vec![None; self.nodes.len()];
        let mut roots = Vec::new();
        for (index, node) in (0_u32..).zip(&self.nodes) {
            match node.parent {
                None => roots.push(index),
                Some(parent) => {
                    if let (Some(first), Some(next)) =
                        (first.get_mut(place(parent)), next.get_mut(place(index)))
                    {
                        *next = first.replace(index);
                    }
                }
            }
        }
        Children { roots, first, next }
    }

    /// Every stack that was counted: its thread, its functions from the outermost call on, and its
    /// weight.
    pub(crate) fn each_stack(&self, visit: &mut dyn FnMut(&Thread, &[u32], u64)) {
        let mut functions = Vec::new();
        for sample in &self.samples {
            functions.clear();
            functions.extend(sample.node.into_iter().flat_map(|node| self.outwards(node)));
            functions.reverse();
            if let Some(thread) = self.threads.get(place(sample.thread)) {
                visit(thread, &functions, sample.weight);
            }
        }
    }

    /// The functions from a node's own outwards to that which nobody called.
    fn outwards(&self, node: u32) -> impl Iterator<Item = u32> {
        let mut at = Some(node);
        std::iter::from_fn(move || {
            let found = self.node(at?)?;
            at = found.parent;
            Some(found.function)
        })
    }
}

enum Step {
    Enter(u32),
    Leave(u32),
}

/// The tree from above.
struct Children {
    roots: Vec<u32>,
    first: Vec<Option<u32>>,
    next: Vec<Option<u32>>,
}

impl Children {
    fn roots(&self) -> impl Iterator<Item = u32> {
        self.roots.iter().copied()
    }

    fn of(&self, node: u32) -> impl Iterator<Item = u32> {
        let mut at = self.first.get(place(node)).copied().flatten();
        std::iter::from_fn(move || {
            let found = at?;
            at = self.next.get(place(found)).copied().flatten();
            Some(found)
        })
    }
}

/// An index into a list.
const fn place(index: u32) -> usize {
    // The agent is built for 64 bits only.
    index as usize
}

#[cfg(test)]
mod tests;
