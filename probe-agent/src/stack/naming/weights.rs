//! Which places of a recording are heavy, and whose they are.

use crate::stack::{
    maps::ImageId,
    recording::{Place, Recording},
};
use std::collections::{BTreeMap, HashMap};

/// The weight of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Heft {
    /// Of stacks that end there.
    pub own: u64,
    /// Of stacks that it is in; of recursion, more.
    pub total: u64,
}

/// What of an image was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Where.
    pub at: Vec<u64>,
    /// Of all of it together.
    pub heft: u64,
    /// Some processes that executed it, by their places in the recording.
    pub processes: Vec<u32>,
}

/// Places, and images.
#[derive(Debug, Default)]
pub struct Weights {
    /// By place.
    pub places: HashMap<Place, Heft>,
    /// By image, the heaviest first.
    pub images: Vec<(ImageId, Used)>,
    /// Of all samples.
    pub all: u64,
}

/// One process may have ended, and another still be there.
const MOST_PROCESSES: usize = 3;

impl Weights {
    /// Of a recording.
    pub fn of(recording: &Recording) -> Self {
        let mut hefts = vec![Heft::default(); recording.nodes.len()];
        let mut threads = vec![None; recording.nodes.len()];
        let mut all: u64 = 0;
        for (thread, node, weight) in &recording.weights {
            all = all.saturating_add(weight.events);
            if let Some(heft) = hefts.get_mut(index(*node)) {
                heft.own = heft.own.saturating_add(weight.events);
                heft.total = heft.total.saturating_add(weight.events);
            }
            if let Some(of) = threads.get_mut(index(*node)) {
                *of = Some(*thread);
            }
        }
        // A call stands behind what called it.
        for (at, node) in recording.nodes.iter().enumerate().rev() {
            let Some(parent) = node.parent.map(index) else { continue };
            let total = hefts.get(at).map_or(0, |heft| heft.total);
            let thread = threads.get(at).copied().flatten();
            if let Some(heft) = hefts.get_mut(parent) {
                heft.total = heft.total.saturating_add(total);
            }
            if let Some(of) = threads.get_mut(parent) {
                *of = of.or(thread);
            }
        }
        let mut places: HashMap<Place, Heft> = HashMap::new();
        let mut images: BTreeMap<ImageId, Used> = BTreeMap::new();
        for ((node, heft), thread) in recording.nodes.iter().zip(&hefts).zip(&threads) {
            let known = places.len();
            let sum = places.entry(node.place).or_default();
            sum.own = sum.own.saturating_add(heft.own);
            sum.total = sum.total.saturating_add(heft.total);
            let is_new = places.len() > known;
            if let Place::Code { image, at } = node.place {
                let used = images.entry(image).or_default();
                used.heft = used.heft.saturating_add(heft.total);
                if is_new {
                    used.at.push(at);
                }
                let thread = thread.and_then(|thread| recording.threads.get(index(thread)));
                if let Some(process) = thread.map(|thread| thread.process)
                    && used.processes.len() < MOST_PROCESSES
                    && !used.processes.contains(&process)
                {
                    used.processes.push(process);
                }
            }
        }
        let mut images: Vec<_> = images.into_iter().collect();
        crate::order::by_key(&mut images, |(_, used)| std::cmp::Reverse(used.heft));
        Self { places, images, all }
    }

    /// The weight of a place.
    pub fn at(&self, place: Place) -> Heft {
        self.places.get(&place).copied().unwrap_or_default()
    }
}

/// An index into a list of the recording.
pub const fn index(number: u32) -> usize {
    // The agent is built for 64 bits only.
    number as usize
}
