//! The course of one kind of memory.

use protocol::{
    instruments::memory_profile::{Rate, Trend},
    observed::Observed,
};

/// How memory went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It grew in nearly every part of the window, at a rate that is not 0.
    Steadily,
    /// It grew in several parts of the window, and never fell.
    InSteps,
    /// It rose slowly and fell fast, more than once.
    Saw,
    /// It rose for as long as it fell, by much.
    Fluctuating,
    /// It stayed, but for a noise.
    Flat,
    /// It shrank.
    Shrinking,
    /// None of these can be told.
    Unclear,
}

/// Of ten parts of a window, those that it has to grow in, to grow steadily.
const NEARLY_ALL: u32 = 8;

/// The same, to grow in steps. One or two steps may be all.
const SEVERAL: u32 = 3;

/// A saw rises for more of the time than this, in percent; a noise for half of it.
const RISES_PCT: f64 = 65.0;

/// A change of less than this is none.
pub(super) fn unseen(trend: &Trend, resolution: u64) -> u64 {
    resolution.max(trend.most_bytes.0 / 100)
}

impl Course {
    /// The course that a trend shows. `resolution` is how far the counts may be off, in bytes.
    pub(super) fn of(trend: &Trend, resolution: u64) -> Self {
        let Observed::Known(rate) = &trend.rate else { return Self::Unclear };
        let Rate { low_bytes_per_s: low, high_bytes_per_s: high, .. } = *rate;
        let Trend { parts_grown, falls, .. } = *trend;
        let span = trend.most_bytes.0.saturating_sub(trend.least_bytes.0);
        let grown = trend.last_bytes.0.saturating_sub(trend.first_bytes.0);
        let has_turned = falls >= 2;
        if low > 0 && parts_grown >= NEARLY_ALL && grown > resolution {
            return Self::Steadily;
        }
        if span <= unseen(trend, resolution) {
            return Self::Flat;
        }
        if high < 0 {
            return Self::Shrinking;
        }
        let rises = trend.rising_pct.known().map(|share| share.get());
        if has_turned && rises.is_some_and(|share| share >= RISES_PCT) {
            return Self::Saw;
        }
        if falls == 0 && parts_grown >= SEVERAL {
            return Self::InSteps;
        }
        if has_turned && low <= 0 {
            let is_small = span <= trend.most_bytes.0 / 10;
            return if is_small { Self::Flat } else { Self::Fluctuating };
        }
        Self::Unclear
    }
}
