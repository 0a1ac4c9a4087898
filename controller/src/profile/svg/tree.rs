//! Stacks as a tree, and which of its calls are drawn.

use super::Frame;
use std::{cmp::Reverse, collections::HashMap};

/// Of the stacks that the picture is of.
pub(super) const AFTER: usize = 0;

/// Of those that they are compared with.
pub(super) const BEFORE: usize = 1;

/// Calls of a stack that are taken in. What is deeper would be no picture.
const MOST_DEEP: usize = 512;

/// Calls that are drawn at most: what a browser moves without delay.
const MOST_DRAWN: usize = 5_000;

/// Calls of stacks.
#[derive(Debug)]
pub(super) struct Tree<'f> {
    /// A call stands behind its caller.
    nodes: Vec<Node<'f>>,
    known: HashMap<(Option<usize>, Frame<'f>), usize>,
    weights: [u64; 2],
    is_reversed: bool,
    /// Whether it is of two lists of stacks.
    pub(super) is_difference: bool,
}

/// A call.
#[derive(Debug)]
pub(super) struct Node<'f> {
    pub(super) frame: Frame<'f>,
    parent: Option<usize>,
    pub(super) own: [u64; 2],
    pub(super) total: [u64; 2],
}

/// A call in its place, or several that are too narrow to be drawn each.
#[derive(Debug)]
pub(super) struct Drawn {
    /// None for several.
    pub(super) node: Option<usize>,
    /// How many it stands for.
    pub(super) calls: usize,
    pub(super) depth: usize,
    /// From the left, as a part of the width.
    pub(super) left: f64,
    pub(super) width: f64,
    /// Its shares.
    pub(super) parts: [f64; 2],
}

/// All that is drawn.
#[derive(Debug, Default)]
pub(super) struct Drawing {
    pub(super) calls: Vec<Drawn>,
    /// How many rows it takes.
    pub(super) rows: usize,
    /// Calls that are too narrow for that.
    pub(super) narrower: usize,
    /// Below this part of the width.
    pub(super) narrowest: f64,
}

impl<'f> Tree<'f> {
    pub(super) fn new(is_reversed: bool) -> Self {
        let (nodes, known) = (Vec::new(), HashMap::new());
        Self { nodes, known, weights: [0; 2], is_reversed, is_difference: false }
    }

    /// Adds a stack.
    pub(super) fn add(
        &mut self,
        frames: impl IntoIterator<Item = Frame<'f>>,
        weight: u64,
        which: usize,
    ) {
        let mut frames: Vec<Frame<'f>> = frames.into_iter().collect();
        if self.is_reversed {
            frames.reverse();
        }
        let add = |sum: Option<&mut u64>| {
            if let Some(sum) = sum {
                *sum = sum.saturating_add(weight);
            }
        };
        add(self.weights.get_mut(which));
        let mut parent = None;
        for frame in frames.into_iter().take(MOST_DEEP) {
            let next = self.nodes.len();
            let index = *self.known.entry((parent, frame)).or_insert(next);
            if index == next {
                self.nodes.push(Node { frame, parent, own: [0; 2], total: [0; 2] });
            }
            add(self.nodes.get_mut(index).and_then(|node| node.total.get_mut(which)));
            parent = Some(index);
        }
        let last = parent.and_then(|index| self.nodes.get_mut(index));
        add(last.and_then(|node| node.own.get_mut(which)));
    }

    pub(super) fn node(&self, index: usize) -> Option<&Node<'f>> {
        self.nodes.get(index)
    }

    /// Each call.
    pub(super) fn nodes(&self) -> &[Node<'f>] {
        &self.nodes
    }

    /// The weight of all stacks.
    pub(super) fn weight(&self, which: usize) -> u64 {
        self.weights.get(which).copied().unwrap_or_default()
    }

    /// The parts of all weight that some weights are.
    pub(super) fn parts(&self, weights: [u64; 2]) -> [f64; 2] {
        let mut parts = [0.0; 2];
        for ((part, weight), all) in parts.iter_mut().zip(weights).zip(self.weights) {
            *part = weight as f64 / all.max(1) as f64;
        }
        parts
    }

    /// How wide some shares are drawn.
    fn width(&self, parts: [f64; 2]) -> f64 {
        let [after, before] = parts;
        if self.is_difference { f64::midpoint(after, before) } else { after }
    }

    /// Places all calls that are wide enough; each caller before what it calls, and of several that it
    /// calls the widest first.
    pub(super) fn drawing(&self) -> Drawing {
        let widths: Vec<f64> =
            self.nodes.iter().map(|node| self.width(self.parts(node.total))).collect();
        let width = |index: usize| widths.get(index).copied().unwrap_or_default();
        let mut sorted = widths.clone();
        sorted.sort_by(|left, right| right.total_cmp(left));
        let narrowest = sorted.get(MOST_DRAWN).map_or(0.0, |next| next * 1.000_001);
        let mut below: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        for (index, node) in self.nodes.iter().enumerate() {
            below.entry(node.parent).or_default().push(index);
        }
        let mut drawing = Drawing { narrowest, ..Drawing::default() };
        let mut walk: Vec<(Option<usize>, usize, f64)> = vec![(None, 0, 0.0)];
        while let Some((parent, depth, mut left)) = walk.pop() {
            let mut calls = below.remove(&parent).unwrap_or_default();
            calls.sort_by_key(|index| Reverse(Rank(width(*index), Reverse(*index))));
            let drawn = calls.iter().take_while(|index| {
                let width = width(**index);
                width > 0.0 && width >= narrowest
            });
            let drawn = drawn.count();
            let narrow = calls.split_off(drawn);
            for index in calls {
                let Some(node) = self.nodes.get(index) else { continue };
                let (node_, width, parts) = (Some(index), width(index), self.parts(node.total));
                drawing.calls.push(Drawn { node: node_, calls: 1, depth, left, width, parts });
                drawing.rows = drawing.rows.max(depth + 1);
                walk.push((Some(index), depth + 1, left));
                left += width;
            }
            self.add_narrow(&narrow, depth, left, &mut drawing);
        }
        drawing
    }

    /// One block in the place of calls that are too narrow.
    fn add_narrow(&self, narrow: &[usize], depth: usize, left: f64, drawing: &mut Drawing) {
        let mut total = [0_u64; 2];
        for node in narrow.iter().filter_map(|index| self.nodes.get(*index)) {
            for (sum, weight) in total.iter_mut().zip(node.total) {
                *sum = sum.saturating_add(weight);
            }
        }
        let parts = self.parts(total);
        let (calls, width) = (narrow.len(), self.width(parts));
        drawing.narrower += calls;
        if width > 0.0 && width >= drawing.narrowest {
            drawing.calls.push(Drawn { node: None, calls, depth, left, width, parts });
            drawing.rows = drawing.rows.max(depth + 1);
        }
    }
}

/// A width that can be sorted by, and what decides where two are the same.
#[derive(PartialEq)]
struct Rank(f64, Reverse<usize>);

impl Eq for Rank {}

impl PartialOrd for Rank {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Rank {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}
