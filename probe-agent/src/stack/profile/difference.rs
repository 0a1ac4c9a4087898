//! What changed from one profile to another.

use super::{Profile, Share};
use crate::order;
use std::collections::BTreeMap;

/// A function in two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its name and its module, as in [`Profile::shown`].
    pub function: String,
    /// Its part of the first profile's weight, own and total, between 0 and 1.
    pub before: [f64; 2],
    /// Its part of the second one's.
    pub after: [f64; 2],
    /// Whether chance would hardly make its total part differ so much.
    pub is_significant: bool,
}

/// All functions of two profiles.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Those whose total part changed most come first, significant ones before the others.
    pub changes: Vec<Change>,
    /// The part that would have to change for it to be significant, for a function with half of all
    /// samples; it is less for all others. Between 0 and 1, or more where there are too few samples.
    pub least_significant: f64,
}

/// The chance that is allowed of calling even one change significant where nothing changed.
const FALSE_ALARM: f64 = 0.01;

impl Profile {
    /// What changed in `after`. Its stacks, and ours, were made from so many samples.
    ///
    /// Profiles may be of different length: parts are compared, not weights. Whether a change is
    /// significant is a test of two proportions (pooled variance), at a chance of false alarm of 1 %
    /// for all functions together (Bonferroni). Samples taken at even intervals vary less than the
    /// test assumes, so it errs towards calling a change chance.
    pub fn difference(&self, samples: u64, after: &Self, samples_after: u64) -> Difference {
        let mut functions: BTreeMap<String, [Share; 2]> = BTreeMap::new();
        for (which, profile) in [self, after].into_iter().enumerate() {
            for (index, share) in (0_u32..).zip(profile.function_shares()) {
                if share.total == 0 {
                    continue;
                }
                let both = functions.entry(profile.shown(index)).or_default();
                if let Some(found) = both.get_mut(which) {
                    found.own += share.own;
                    found.total += share.total;
                }
            }
        }
        let limit = normal_quantile(FALSE_ALARM / 2.0 / (functions.len().max(1) as f64));
        let counts = [samples as f64, samples_after as f64];
        let weights = [self.weight(), after.weight()];
        let mut changes: Vec<Change> = functions
            .into_iter()
            .map(|(function, [before, after])| {
                let [before, after] = [part(before, weights[0]), part(after, weights[1])];
                let is_significant = deviation([before[1], after[1]], counts) > limit;
                Change { function, before, after, is_significant }
            })
            .collect();
        let moved = |change: &Change| (change.after[1] - change.before[1]).abs();
        order::by(&mut changes, |left, right| {
            let by_moved = moved(right).total_cmp(&moved(left));
            right.is_significant.cmp(&left.is_significant).then(by_moved)
        });
        Difference { changes, least_significant: limit * error_of(0.5, counts) }
    }
}

fn part(share: Share, weight: u64) -> [f64; 2] {
    let all = weight.max(1) as f64;
    [share.own as f64 / all, share.total as f64 / all]
}

/// By how many standard errors two proportions differ.
fn deviation(parts: [f64; 2], counts: [f64; 2]) -> f64 {
    let all = counts[0] + counts[1];
    if all <= 0.0 {
        return 0.0;
    }
    let pooled = (parts[0] * counts[0] + parts[1] * counts[1]) / all;
    let error = error_of(pooled, counts);
    if error > 0.0 { (parts[1] - parts[0]).abs() / error } else { 0.0 }
}

/// The standard error of the difference of two proportions that are the same.
fn error_of(proportion: f64, counts: [f64; 2]) -> f64 {
    let each = 1.0 / counts[0].max(1.0) + 1.0 / counts[1].max(1.0);
    (proportion * (1.0 - proportion) * each).sqrt()
}

/// The value that a standard normal variable exceeds with this chance, for chances up to a half.
///
/// Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.23; the error is below 4.5e-4.
fn normal_quantile(chance: f64) -> f64 {
    let chance = chance.clamp(1e-12, 0.5);
    let t = (-2.0 * chance.ln()).sqrt();
    let above = 0.010_328_f64.mul_add(t, 0.802_853).mul_add(t, 2.515_517);
    let below = 0.001_308_f64.mul_add(t, 0.189_269).mul_add(t, 1.432_788).mul_add(t, 1.0);
    t - above / below
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::profile::tests::profile;

    #[test]
    fn the_quantile_is_that_of_the_tables() {
        for (chance, want) in [(0.5, 0.0), (0.025, 1.960), (0.005, 2.576), (0.000_5, 3.291)] {
            assert!((normal_quantile(chance) - want).abs() < 1e-3, "{chance}");
        }
    }

    #[test]
    fn a_change_is_told_from_chance() {
        let before = profile(&[("main;work;hash", 500), ("main;work;copy", 500)]);
        for (hash, copy, is_significant) in
            [(500, 500, false), (520, 480, false), (700, 300, true), (1400, 600, true)]
        {
            let after = profile(&[("main;work;hash", hash), ("main;work;copy", copy)]);
            let difference = before.difference(1000, &after, hash + copy);
            let found = difference.changes.iter().find(|change| change.function == "hash").unwrap();
            assert_eq!(found.is_significant, is_significant, "{hash} of {}", hash + copy);
            let same = difference.changes.iter().find(|change| change.function == "main").unwrap();
            assert!(!same.is_significant && same.before[1] == 1.0 && same.after[1] == 1.0);
        }
    }

    #[test]
    fn what_is_new_and_what_is_gone_come_first() {
        let before = profile(&[("main;old", 400), ("main;same", 600)]);
        let after = profile(&[("main;new", 400), ("main;same", 600)]);
        let difference = before.difference(1000, &after, 1000);
        let first: Vec<&str> =
            difference.changes.iter().take(2).map(|change| change.function.as_str()).collect();
        assert_eq!(first, ["new", "old"]);
        assert_eq!(difference.changes[0].before, [0.0, 0.0]);
        assert!((difference.changes[0].after[1] - 0.4).abs() < 1e-9);
    }

    #[test]
    fn ten_samples_prove_nothing() {
        let before = profile(&[("main;a", 5), ("main;b", 5)]);
        let after = profile(&[("main;a", 8), ("main;b", 2)]);
        let difference = before.difference(10, &after, 10);
        assert!(difference.changes.iter().all(|change| !change.is_significant));
        assert!(difference.least_significant > 0.5);
    }
}
