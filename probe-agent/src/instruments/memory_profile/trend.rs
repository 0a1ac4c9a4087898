//! How one kind of memory went, out of samples of its level.
//!
//! A level remembers: what is allocated at one sample is still there at the next. So samples are not
//! independent, and a line fitted through them, be it by least squares or by the median of slopes,
//! comes with an interval that is far too narrow; after a single step it would claim that growth goes
//! on. The rate here is what was gained in the whole window, and its interval that of the mean of what
//! was gained in each of ten parts of it (batch means; Student's t with nine degrees of freedom). One
//! step is one part of ten, and the interval then has 0 in it.

use protocol::{
    instruments::memory_profile::{Rate, Trend},
    observed::{Observed, Reason},
    units::{Bytes, Percent},
};
use std::time::Duration;

/// A level, and when it was.
pub(super) type Sample = (Duration, u64);

/// Parts of the window.
const PARTS: u32 = 10;

/// Samples in each part, on average, without which nothing is said of parts.
const LEAST_SAMPLES: usize = 2 * PARTS as usize;

/// The quantile of 97.5 % of Student's t with nine degrees of freedom.
const T_9: f64 = 2.262;

/// Puts a trend together. `too_few` is why there is no rate, where there are too few samples for one.
pub(super) fn trend(samples: &[Sample], too_few: &Reason) -> Option<Trend> {
    let (first, last) = (samples.first()?, samples.last()?);
    let levels = || samples.iter().map(|(_, level)| *level);
    let (least, most) = (levels().min()?, levels().max()?);
    let span = most - least;
    let gains = gains(samples);
    // A part in which it changed by less was one of little noise.
    let worth = i128::from(span / 20).max(1);
    let count = |holds: &dyn Fn(i128) -> bool| {
        let found = gains.iter().flatten().filter(|gain| holds(**gain)).count();
        u32::try_from(found).unwrap_or_default()
    };
    let turns = Turns::of(samples, span / 10);
    Some(Trend {
        first_bytes: Bytes(first.1),
        last_bytes: Bytes(last.1),
        least_bytes: Bytes(least),
        most_bytes: Bytes(most),
        rate: gains
            .as_ref()
            .and_then(|gains| rate(gains, last.0.saturating_sub(first.0)))
            .ok_or_else(|| too_few.clone())
            .into(),
        parts_grown: count(&|gain| gain >= worth),
        parts_shrunk: count(&|gain| gain <= -worth),
        falls: turns.falls,
        rising_pct: turns.rising_share(),
        floor_growth_bytes: floor_growth(samples),
    })
}

/// What was gained in each part of the window; `None` with too few samples.
fn gains(samples: &[Sample]) -> Option<Vec<i128>> {
    if samples.len() < LEAST_SAMPLES {
        return None;
    }
    let (start, end) = (samples.first()?.0, samples.last()?.0);
    let length = end.checked_sub(start)?;
    if length.is_zero() {
        return None;
    }
    // The level at the end of each part is that of the last sample in it.
    let mut levels = Vec::with_capacity(PARTS as usize + 1);
    levels.push(samples.first()?.1);
    for part in 1..=PARTS {
        let until = start + length * part / PARTS;
        let before = samples.iter().take_while(|(at, _)| *at <= until).last()?;
        levels.push(if part == PARTS { samples.last()?.1 } else { before.1 });
    }
    let gained = |pair: &[u64]| match pair {
        [before, now] => i128::from(*now) - i128::from(*before),
        _ => 0,
    };
    Some(levels.windows(2).map(gained).collect())
}

/// The rate, and its interval of 95 %.
fn rate(gains: &[i128], length: Duration) -> Option<Rate> {
    let parts = f64::from(PARTS);
    let part_s = length.as_secs_f64() / parts;
    let mean = gains.iter().sum::<i128>() as f64 / parts;
    let squares: f64 = gains.iter().map(|gain| (*gain as f64 - mean).powi(2)).sum();
    let error = (squares / (parts - 1.0)).sqrt() / parts.sqrt();
    let half = T_9 * error;
    (part_s > 0.0).then(|| Rate {
        bytes_per_s: whole(mean / part_s),
        low_bytes_per_s: whole((mean - half) / part_s),
        high_bytes_per_s: whole((mean + half) / part_s),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a cast from floating point saturates")]
const fn whole(value: f64) -> i64 {
    value.round() as i64
}

/// The least in the last third of the time, without the least in the first.
fn floor_growth(samples: &[Sample]) -> i64 {
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else { return 0 };
    let third = last.0.saturating_sub(first.0) / 3;
    let least = |is_in: &dyn Fn(Duration) -> bool| {
        samples.iter().filter(|(at, _)| is_in(*at)).map(|(_, level)| *level).min()
    };
    let early = least(&|at| at <= first.0 + third).unwrap_or(first.1);
    let late = least(&|at| at + third >= last.0).unwrap_or(last.1);
    difference(late, early)
}

/// A difference of two levels.
pub(super) fn difference(now: u64, before: u64) -> i64 {
    let difference = i128::from(now) - i128::from(before);
    i64::try_from(difference).unwrap_or(if difference < 0 { i64::MIN } else { i64::MAX })
}

/// Where a level turned: from rising to falling or back, by more than what counts as none.
#[derive(Debug, Default)]
struct Turns {
    falls: u32,
    /// Between two turns each.
    rising: Duration,
    falling: Duration,
}

/// Which way a level goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Up,
    Down,
}

impl Turns {
    /// A way back of less than `least` is none.
    fn of(samples: &[Sample], least: u64) -> Self {
        let mut turns = Self::default();
        let Some(first) = samples.first() else { return turns };
        let least = least.max(1);
        let mut way: Option<Way> = None;
        // The furthest on the way so far, both ways while there is none yet.
        let (mut highest, mut lowest) = (*first, *first);
        let mut turned_at: Option<Duration> = None;
        for sample in samples {
            if sample.1 > highest.1 {
                highest = *sample;
            }
            if sample.1 < lowest.1 {
                lowest = *sample;
            }
            let falls = highest.1.saturating_sub(sample.1) >= least;
            let rises = sample.1.saturating_sub(lowest.1) >= least;
            let next = match way {
                Some(Way::Up) | None if falls => (Way::Down, highest.0),
                Some(Way::Down) | None if rises => (Way::Up, lowest.0),
                Some(_) | None => continue,
            };
            let (new_way, at) = next;
            if new_way == Way::Down {
                turns.falls += 1;
            }
            if let Some(before) = turned_at {
                let passed = at.saturating_sub(before);
                match new_way {
                    Way::Down => turns.rising += passed,
                    Way::Up => turns.falling += passed,
                }
            }
            // The first way that is found begins nowhere in particular.
            if way.is_some() {
                turned_at = Some(at);
            }
            way = Some(new_way);
            (highest, lowest) = (*sample, *sample);
        }
        turns
    }

    fn rising_share(&self) -> Observed<Percent> {
        let all = self.rising + self.falling;
        Percent::of_time(self.rising, all).ok_or(Reason::NoTurns).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A hundred samples in five seconds.
    fn series(level: impl Fn(u32) -> u64) -> Trend {
        let sample = |number| (Duration::from_millis(u64::from(number) * 50), level(number));
        let samples: Vec<Sample> = (0..=100).map(sample).collect();
        trend(&samples, &Reason::EmptyWindow).unwrap()
    }

    fn rate_of(trend: &Trend) -> Rate {
        *trend.rate.known().unwrap()
    }

    /// A noise that repeats: whole numbers of 0 to 1023.
    fn noise(number: u32) -> u64 {
        let mut value = number.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        value ^= value >> 15;
        value = value.wrapping_mul(0x85eb_ca6b);
        u64::from((value ^ value >> 13) % 1024)
    }

    #[test]
    fn steady_growth_has_its_rate_and_a_narrow_interval() {
        let found = series(|number| 50 * MIB + u64::from(number) * MIB / 10 + noise(number) * 64);
        let rate = rate_of(&found);
        let want = 2 * MIB.cast_signed();
        assert!((rate.bytes_per_s - want).abs() < want / 50, "{rate:?}");
        assert!(rate.low_bytes_per_s > want * 9 / 10 && rate.high_bytes_per_s < want * 11 / 10);
        assert_eq!((found.parts_grown, found.parts_shrunk, found.falls), (10, 0, 0));
        assert_eq!(found.rising_pct, Observed::Unknown(Reason::NoTurns));
        assert!(found.floor_growth_bytes > 6 * MIB.cast_signed(), "{found:?}");
    }

    #[test]
    fn what_does_not_change_has_a_rate_of_nothing() {
        let found = series(|_| 50 * MIB);
        let nothing = Rate { bytes_per_s: 0, low_bytes_per_s: 0, high_bytes_per_s: 0 };
        assert_eq!(rate_of(&found), nothing);
        assert_eq!((found.parts_grown, found.parts_shrunk, found.falls), (0, 0, 0));
        assert_eq!(found.floor_growth_bytes, 0);
    }

    #[test]
    fn a_noise_is_no_growth_and_rises_for_as_long_as_it_falls() {
        let found = series(|number| 50 * MIB + noise(number) * 1024);
        let rate = rate_of(&found);
        assert!(rate.low_bytes_per_s < 0 && rate.high_bytes_per_s > 0, "{rate:?}");
        let rising = found.rising_pct.known().unwrap().get();
        assert!((30.0..70.0).contains(&rising) && found.falls > 10, "{found:?}");
    }

    #[test]
    fn one_step_is_no_growth_that_goes_on_wherever_it_is() {
        for at in [1, 30, 55, 99] {
            let found = series(|number| if number >= at { 80 * MIB } else { 50 * MIB });
            let rate = rate_of(&found);
            assert!(rate.low_bytes_per_s < 0, "at {at}: {rate:?}");
            assert_eq!((found.parts_grown, found.falls), (1, 0), "at {at}");
        }
    }

    #[test]
    fn a_saw_is_told_by_its_falls_and_by_how_long_it_rises() {
        let found = series(|number| 50 * MIB + u64::from(number % 20) * MIB);
        let rising = found.rising_pct.known().unwrap().get();
        assert!(found.falls == 5 && rising > 90.0, "{found:?}");
        assert!(rate_of(&found).low_bytes_per_s < 0, "{found:?}");
        assert_eq!(found.floor_growth_bytes, 0);
        // One that stands on a floor which rises.
        let found = series(|number| {
            50 * MIB + u64::from(number % 20) * MIB + u64::from(number / 20) * 4 * MIB
        });
        assert_eq!(found.falls, 5);
        assert!(found.floor_growth_bytes >= 8 * MIB.cast_signed(), "{found:?}");
    }

    #[test]
    fn steps_and_shrinking_are_counted_in_parts() {
        let steps = series(|number| 50 * MIB + u64::from(number / 20) * 8 * MIB);
        assert_eq!((steps.parts_grown, steps.parts_shrunk, steps.falls), (5, 0, 0));
        assert!(rate_of(&steps).bytes_per_s > 0);
        let shrinks = series(|number| 500 * MIB - u64::from(number) * MIB);
        assert_eq!((shrinks.parts_grown, shrinks.parts_shrunk), (0, 10));
        assert!(rate_of(&shrinks).high_bytes_per_s < 0);
        assert_eq!(shrinks.falls, 1);
    }

    #[test]
    fn few_samples_have_no_rate() {
        let few: Vec<Sample> =
            (0..19).map(|number| (Duration::from_millis(number * 50), number)).collect();
        let found = trend(&few, &Reason::EmptyWindow).unwrap();
        assert_eq!(found.rate, Observed::Unknown(Reason::EmptyWindow));
        assert_eq!((found.parts_grown, found.last_bytes), (0, Bytes(18)));
        assert_eq!(trend(&[], &Reason::EmptyWindow), None);
        let at_once = [(Duration::ZERO, 5); 30];
        let found = trend(&at_once, &Reason::EmptyWindow).unwrap();
        assert_eq!(found.rate, Observed::Unknown(Reason::EmptyWindow));
    }

    #[test]
    fn levels_of_any_size_make_no_trouble() {
        let found = series(|number| if number % 2 == 0 { 0 } else { u64::MAX });
        assert_eq!(found.most_bytes, Bytes(u64::MAX));
        let found = series(|number| if number == 100 { u64::MAX } else { 0 });
        assert!(rate_of(&found).bytes_per_s > 0);
        assert_eq!(difference(0, u64::MAX), i64::MIN);
    }
}
