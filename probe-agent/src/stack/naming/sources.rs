//! Of the heaviest places only: the calls that a compiler put in place, and source lines.
//!
//! What is for debuggers is several times the code, and is read through to find anything in it. So
//! it has a budget of its own, and whatever is not found in it goes without.

use super::weights::Weights;
use crate::{
    os::clock,
    stack::{
        elf::ElfFile,
        images::Kind,
        lines::{DebugSections, SourceFrame},
        recording::{Place, Recording},
    },
};
use std::{cmp::Reverse, collections::HashMap, time::Duration};

/// Places where stacks end, the heaviest first.
const MOST_LEAVES: usize = 400;

/// Places that stacks lead through.
const MOST_CALLS: usize = 100;

/// Processor time for all of it.
const MOST_CPU: Duration = Duration::from_millis(150);

/// What is unpacked at most: about 50 ms of processor time, which nobody is asked about meanwhile. The
/// C library's takes half of that.
const MOST_UNPACKED_BYTES: usize = 16 << 20;

/// The part of all weight that must end in a file for anything of it to be unpacked: one of so many.
const LEAST_UNPACKED: u64 = 20;

/// What is known of heavy places.
#[derive(Debug, Default)]
pub struct Sources {
    /// With what of all weight ends there.
    wanted: HashMap<Place, u64>,
    all: u64,
    spent: Duration,
    /// From the innermost to the function that was really called.
    pub frames: HashMap<Place, Vec<SourceFrame>>,
}

impl Sources {
    /// Chooses places.
    pub fn of(recording: &Recording, weights: &Weights) -> Self {
        let is_of_file = |place: &Place| match place {
            Place::Code { image, .. } => {
                let image = recording.images.get(super::weights::index(image.0));
                image.is_some_and(|image| matches!(image.kind, Kind::File { .. }))
            }
            Place::Kernel(_) | Place::RunQueue | Place::Unmapped(_) | Place::Cut(_) => false,
        };
        let mut places: Vec<_> =
            weights.places.iter().filter(|(place, _)| is_of_file(place)).collect();
        let mut wanted = HashMap::new();
        crate::order::by_key(&mut places, |(place, heft)| (Reverse(heft.own), **place));
        let ends = places.iter().filter(|(_, heft)| heft.own > 0).take(MOST_LEAVES);
        wanted.extend(ends.map(|(place, heft)| (**place, heft.own)));
        crate::order::by_key(&mut places, |(place, heft)| (Reverse(heft.total), **place));
        let calls = places.iter().take(MOST_CALLS);
        wanted.extend(calls.map(|(place, heft)| (**place, heft.own)));
        Self { wanted, all: weights.all, ..Self::default() }
    }

    /// Whether anything is asked about a place.
    pub fn wants(&self, place: Place) -> bool {
        self.wanted.contains_key(&place)
    }

    /// Looks up what is wanted of one image, each with its svma.
    pub fn look_up(
        &mut self,
        places: &[(Place, u64)],
        file: &ElfFile<'_>,
        shared: Option<&ElfFile<'_>>,
        go_on: &mut dyn FnMut() -> bool,
    ) {
        if places.is_empty() || self.spent >= MOST_CPU || !go_on() {
            return;
        }
        let before = clock::thread_cpu();
        let left = MOST_CPU.saturating_sub(self.spent);
        let ends: u64 = places.iter().filter_map(|(place, _)| self.wanted.get(place)).sum();
        let is_heavy = ends >= self.all / LEAST_UNPACKED;
        let most_bytes = if is_heavy { MOST_UNPACKED_BYTES } else { 0 };
        if let Ok(sections) = DebugSections::of(file, shared, most_bytes) {
            let svmas: Vec<u64> = places.iter().map(|(_, svma)| *svma).collect();
            let is_in_time = || clock::thread_cpu().saturating_sub(before) < left;
            let (found, _) = sections.places(&svmas, || is_in_time() && go_on());
            for ((place, _), found) in places.iter().zip(found) {
                if !found.frames.is_empty() {
                    self.frames.insert(*place, found.frames);
                }
            }
        }
        self.spent += clock::thread_cpu().saturating_sub(before);
    }
}
