//! The parts of a profile as they are, for whoever takes all of it elsewhere.

use super::{Function, Profile};

impl Profile {
    /// Files with code, or what stands in the place of one; escaped already.
    pub fn modules(&self) -> &[String] {
        &self.modules
    }

    /// Functions.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Nodes of the call tree: the number of the parent, which stands before it, and that of the
    /// function.
    pub fn calls(&self) -> impl Iterator<Item = (Option<u32>, u32)> {
        self.nodes.iter().map(|node| (node.parent, node.function))
    }

    /// Samples: the number of the thread, that of the node, and the weight.
    pub fn samples(&self) -> impl Iterator<Item = (u32, Option<u32>, u64)> {
        self.samples.iter().map(|sample| (sample.thread, sample.node, sample.weight))
    }
}
