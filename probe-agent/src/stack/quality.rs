//! How far a recording can be relied on, as every answer about it says.

use super::{
    fold::{Recording, Weight},
    naming::Names,
};
use crate::order;
use protocol::{
    observed::{Observed, Reason},
    recording::{Cut, Incomplete, Quality},
    units::Percent,
};
use std::cmp::Reverse;

/// Judges it. Shares are of the weight of all samples.
pub fn of(recording: &Recording, names: &Names) -> Quality {
    let counts = &recording.counts;
    let share = |part: Weight| part_of(part.events, counts.all.events);
    let mut incomplete: Vec<Incomplete> = Cut::ALL
        .into_iter()
        .filter_map(|why| {
            let weight = counts.cut_by(why);
            let pct = share(weight).known().copied()?;
            (weight.events > 0).then_some(Incomplete { why, pct })
        })
        .collect();
    order::by_key(&mut incomplete, |incomplete| Reverse(incomplete.pct));
    let mut unnamed = names.unnamed.clone();
    unnamed.truncate(MOST_UNNAMED);
    Quality {
        complete_pct: share(counts.complete),
        by_frame_pointers_pct: share(counts.by_frame_pointers),
        incomplete,
        unnamed_pct: part_of(names.profile.unnamed_weight(), names.profile.weight()),
        unnamed,
        kernel: names.kernel,
        is_without_counter: recording.basis.no_counter.is_some(),
        lost_samples: recording.losses.lost,
        throttled: recording.losses.throttled,
        own_samples: counts.own.samples,
    }
}

/// Files with code that has no name, in an answer.
const MOST_UNNAMED: usize = 5;

/// A part of all weight; unknown where there is none.
pub fn part_of(part: u64, all: u64) -> Observed<Percent> {
    Percent::of(part as f64, all as f64).ok_or(Reason::NoSamples).into()
}
