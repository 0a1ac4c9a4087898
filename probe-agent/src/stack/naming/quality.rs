//! How far a recording and its names can be relied on, as every answer says it.

use super::Names;
use crate::stack::recording::{Recording, Weight};
use protocol::{
    observed::{Observed, Reason},
    recording::{Cut, Incomplete, Quality},
    units::Percent,
};

/// What is said of a recording and its names.
pub fn quality(recording: &Recording, names: &Names) -> Quality {
    let counts = &recording.counts;
    let share = |part: u64| {
        let percent = Percent::of(part as f64, counts.all.events as f64);
        Observed::from(percent.ok_or(Reason::NoSamples))
    };
    let mut cuts: Vec<(Cut, Weight)> =
        Cut::ALL.iter().map(|why| (*why, counts.cut_by(*why))).collect();
    cuts.retain(|(_, weight)| weight.samples > 0);
    crate::order::by_key(&mut cuts, |(_, weight)| std::cmp::Reverse(weight.events));
    let incomplete = cuts
        .into_iter()
        .filter_map(|(why, weight)| Some(Incomplete { why, pct: *share(weight.events).known()? }));
    Quality {
        complete_pct: share(counts.complete.events),
        by_frame_pointers_pct: share(counts.by_frame_pointers.events),
        incomplete: incomplete.collect(),
        unnamed_pct: share(names.profile.unnamed_weight()),
        unnamed: names.unnamed.clone(),
        kernel: names.kernel,
        is_without_counter: recording.basis.no_counter.is_some(),
        lost_samples: recording.losses.lost,
        throttled: recording.losses.throttled,
        own_samples: counts.own.samples,
    }
}
