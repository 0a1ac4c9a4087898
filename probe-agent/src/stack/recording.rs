//! What was sampled, folded: a tree of calls, and how much of each thread was where.
//!
//! The tree is one for all threads, so that what is the same is there once. All of it has a limit, and
//! what does not fit is counted.

use super::{images::Image, maps::ImageId};
use crate::perf::sampler::{Basis, Losses, Reach};
use std::collections::HashMap;

pub use protocol::recording::Cut;

/// Where something was executed. For calls, a byte before the return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In an image: a byte of its file, or an address where it has none.
    Code {
        /// Which.
        image: ImageId,
        /// Where in it.
        at: u64,
    },
    /// In the kernel, by address.
    Kernel(u64),
    /// In no code: runnable, until there is a processor.
    RunQueue,
    /// In memory where nothing executable was known.
    Unmapped(u64),
    /// Stands in place of the calls that led here and are not known.
    Cut(Cut),
}

/// How much of something there was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// Samples.
    pub samples: u64,
    /// Events that they stand for: nanoseconds of processor time, cycles, faults, switches or misses.
    pub events: u64,
}

impl Weight {
    /// Adds another.
    pub const fn add(&mut self, other: Self) {
        self.samples = self.samples.saturating_add(other.samples);
        self.events = self.events.saturating_add(other.events);
    }
}

/// A process that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number for the agent.
    pub pid: u32,
    /// Its number in its own namespace, where that is another: perf maps are named by it.
    pub inner_pid: Option<u32>,
    /// Its parent, where that is known: it may be in the same namespaces, and live longer.
    pub parent: Option<u32>,
    /// Its first thread's name; any bytes.
    pub name: Vec<u8>,
}

/// A thread that was sampled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its process, by its place.
    pub process: u32,
    /// Its number for the agent.
    pub tid: u32,
    /// Its last name; any bytes.
    pub name: Vec<u8>,
    /// Of its samples.
    pub weight: Weight,
    /// When the first and the last were taken.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
}

/// A call within the calls above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    /// What called it; `None` for the outermost.
    pub parent: Option<u32>,
    /// Where.
    pub place: Place,
}

/// What came of all samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All that are in the tree.
    pub all: Weight,
    /// Whose stack is known to the outermost call.
    pub complete: Weight,
    /// Whose stack is as far as frame pointers led; nobody can tell whether that is all.
    pub by_frame_pointers: Weight,
    /// Whose stack is not known to its end, in the order of [`Cut::ALL`].
    pub cut: [Weight; Cut::ALL.len()],
    /// Of the agent itself, which are not in the tree.
    pub own: Weight,
    /// Of processors with nothing to do, which are not either.
    pub idle: Weight,
}

impl Counts {
    /// Of one reason.
    pub fn cut_by(&self, cut: Cut) -> Weight {
        let place = Cut::ALL.iter().position(|other| *other == cut);
        place.and_then(|place| self.cut.get(place)).copied().unwrap_or_default()
    }

    pub(super) fn add_cut(&mut self, cut: Cut, weight: Weight) {
        let place = Cut::ALL.iter().position(|other| *other == cut);
        if let Some(of) = place.and_then(|place| self.cut.get_mut(place)) {
            of.add(weight);
        }
    }
}

/// Everything that was sampled.
#[derive(Debug)]
pub struct Recording {
    /// What was counted, and how.
    pub basis: Basis,
    /// What was reached.
    pub reach: Reach,
    /// What the kernel left out.
    pub losses: Losses,
    /// What came of all samples.
    pub counts: Counts,
    /// Images, by the numbers that places have.
    pub images: Vec<Image>,
    /// Processes.
    pub processes: Vec<Process>,
    /// Threads.
    pub threads: Vec<Thread>,
    /// The tree of calls. A call is after what called it.
    pub nodes: Vec<Node>,
    /// How much of a thread was in a call itself: thread, node, weight.
    pub weights: Vec<(u32, u32, Weight)>,
}

/// What a recording may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Calls in the tree; some 70 bytes each.
    pub nodes: usize,
    /// Pairs of thread and call; some 60 bytes each.
    pub weights: usize,
    /// Processes, and threads.
    pub threads: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { nodes: 150_000, weights: 100_000, threads: 20_000 }
    }
}

/// The tree while it grows.
#[derive(Debug)]
pub(super) struct Tree {
    limits: Limits,
    pub(super) nodes: Vec<Node>,
    known: HashMap<(u32, Place), u32>,
    weights: HashMap<(u32, u32), Weight>,
}

/// The parent of the outermost calls.
const OUTSIDE: u32 = u32::MAX;

impl Tree {
    pub(super) fn new(limits: Limits) -> Self {
        Self { limits, nodes: Vec::new(), known: HashMap::new(), weights: HashMap::new() }
    }

    /// Adds a stack, innermost call first. False where it is too much: then it is counted as a place
    /// that says so.
    pub(super) fn add(&mut self, thread: u32, places: &[Place], weight: Weight) -> bool {
        let leaf = self.leaf_of(places);
        let leaf = leaf.filter(|leaf| {
            self.weights.len() < self.limits.weights || self.weights.contains_key(&(thread, *leaf))
        });
        let (thread, leaf, fits) = match leaf {
            Some(leaf) => (thread, leaf, true),
            None => (thread, self.cut_by_memory(), false),
        };
        self.weights.entry((thread, leaf)).or_default().add(weight);
        fits
    }

    fn leaf_of(&mut self, places: &[Place]) -> Option<u32> {
        let mut parent = OUTSIDE;
        for place in places.iter().rev() {
            parent = match self.known.get(&(parent, *place)) {
                Some(node) => *node,
                None if self.nodes.len() >= self.limits.nodes => return None,
                None => self.insert(parent, *place),
            };
        }
        (parent != OUTSIDE).then_some(parent)
    }

    /// The one node that is always allowed.
    fn cut_by_memory(&mut self) -> u32 {
        let place = Place::Cut(Cut::ByMemory);
        match self.known.get(&(OUTSIDE, place)) {
            Some(node) => *node,
            None => self.insert(OUTSIDE, place),
        }
    }

    fn insert(&mut self, parent: u32, place: Place) -> u32 {
        let node = u32::try_from(self.nodes.len()).unwrap_or(OUTSIDE);
        self.nodes.push(Node { parent: (parent != OUTSIDE).then_some(parent), place });
        self.known.insert((parent, place), node);
        node
    }

    pub(super) fn into_parts(self) -> (Vec<Node>, Vec<(u32, u32, Weight)>) {
        let weights = self.weights.into_iter();
        let mut weights: Vec<_> =
            weights.map(|((thread, node), weight)| (thread, node, weight)).collect();
        crate::order::by_key(&mut weights, |(thread, node, _)| (*thread, *node));
        (self.nodes, weights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Weight = Weight { samples: 1, events: 10 };

    fn limits(nodes: usize, weights: usize) -> Limits {
        Limits { nodes, weights, threads: 10 }
    }

    #[test]
    fn what_is_the_same_is_there_once_and_nothing_is_lost() {
        let mut tree = Tree::new(limits(100, 100));
        let stack = [Place::Kernel(3), Place::Kernel(2), Place::Kernel(1)];
        for thread in [0, 1, 0] {
            assert!(tree.add(thread, &stack, ONE));
        }
        assert!(tree.add(0, &stack[1..], ONE));
        let (nodes, weights) = tree.into_parts();
        let parents: Vec<_> = nodes.iter().map(|node| node.parent).collect();
        assert_eq!(parents, [None, Some(0), Some(1)]);
        let two = Weight { samples: 2, events: 20 };
        assert_eq!(weights, [(0, 1, ONE), (0, 2, two), (1, 2, ONE)]);
    }

    #[test]
    fn what_does_not_fit_is_counted_in_its_own_place() {
        for (limits, fitting) in [(limits(3, 100), 3), (limits(100, 2), 2)] {
            let mut tree = Tree::new(limits);
            let fits = (0..10).filter(|at| tree.add(0, &[Place::Kernel(*at)], ONE)).count();
            assert_eq!(fits, fitting);
            let (nodes, weights) = tree.into_parts();
            let all: u64 = weights.iter().map(|(_, _, weight)| weight.samples).sum();
            assert_eq!(all, 10);
            let is_cut = |node: &Node| node.place == Place::Cut(Cut::ByMemory);
            let cut = u32::try_from(nodes.iter().position(is_cut).unwrap()).unwrap();
            let of_cut = weights.iter().find(|(_, node, _)| *node == cut).unwrap();
            assert_eq!(of_cut.2.samples, 10 - fitting as u64);
        }
    }
}
