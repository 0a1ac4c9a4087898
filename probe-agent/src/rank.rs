//! The largest entries of a list, and an account of those left out.

use protocol::{
    loss::{CutBy, Truncation},
    observed::{Observed, Reason},
    units::Percent,
};
use std::cmp::Ordering;

/// A page of a ranked list.
#[derive(Debug)]
pub struct Page<T> {
    /// The entries, largest first.
    pub rows: Vec<T>,
    /// How many there were, and what the others weigh.
    pub truncation: Truncation,
}

/// An entry as it counts in a ranking.
#[derive(Clone, Copy, Debug)]
pub struct Weighed {
    /// `None` where it is unknown: it comes last then, because it may weigh anything.
    weight: Option<f64>,
    /// Of entries that weigh the same, the one with more of this comes first.
    tie: u64,
}

impl Weighed {
    /// One that weighs so much.
    pub const fn new(weight: &Observed<f64>, tie: u64) -> Self {
        Self { weight: weight.known().copied(), tie }
    }
}

/// Ranks entries by weight and takes a page of them: their places among all, the largest first. Entries
/// that are alike keep their order.
pub fn places(
    weighed: impl Iterator<Item = Weighed>,
    offset: usize,
    limit: usize,
) -> (Vec<usize>, Truncation) {
    /// So many more are kept than are asked for, before those that are too small are let go.
    const SPARE: usize = 256;
    let end = offset.saturating_add(limit);
    let mut entries: Vec<(usize, Weighed)> = Vec::new();
    let (mut total, mut all) = (0, Some(0.0));
    for entry in weighed {
        all = all.zip(entry.weight).map(|(all, weight)| all + weight);
        entries.push((total, entry));
        total += 1;
        // There may be very many, of which few are asked for.
        if entries.len() > end.saturating_mul(2).saturating_add(SPARE) {
            keep_largest(&mut entries, end);
        }
    }
    keep_largest(&mut entries, end);
    entries.sort_unstable_by(larger_first);
    let page = entries.get(offset..).unwrap_or_default();
    let shown = page.iter().map(|(_, entry)| entry.weight).sum::<Option<f64>>();
    let cut = total - page.len();
    let share = all.zip(shown).and_then(|(all, shown)| Percent::of(all - shown, all));
    let truncation = Truncation {
        shown: page.len() as u64,
        total: total as u64,
        weight_cut_pct: if cut > 0 { share } else { None },
        cut_by: if cut > 0 { CutBy::Limit } else { CutBy::Nothing },
    };
    (page.iter().map(|(place, _)| *place).collect(), truncation)
}

fn larger_first(left: &(usize, Weighed), right: &(usize, Weighed)) -> Ordering {
    let rank = |entry: &Weighed| entry.weight.unwrap_or(f64::NEG_INFINITY);
    let by_weight = rank(&right.1).total_cmp(&rank(&left.1));
    by_weight.then(right.1.tie.cmp(&left.1.tie)).then(left.0.cmp(&right.0))
}

/// Lets go of all but so many, in no order.
fn keep_largest(entries: &mut Vec<(usize, Weighed)>, many: usize) {
    if many < entries.len() {
        entries.select_nth_unstable_by(many, larger_first);
        entries.truncate(many);
    }
}

/// Ranks entries by weight and takes a page of them, as [`places`].
pub fn page<T>(
    entries: Vec<T>,
    weight: impl Fn(&T) -> Observed<f64>,
    offset: usize,
    limit: usize,
) -> Page<T> {
    let weighed = entries.iter().map(|entry| Weighed::new(&weight(entry), 0));
    let (places, truncation) = places(weighed, offset, limit);
    let mut entries: Vec<Option<T>> = entries.into_iter().map(Some).collect();
    let take = |place: usize| entries.get_mut(place).and_then(Option::take);
    Page { rows: places.into_iter().filter_map(take).collect(), truncation }
}

/// What entries weigh together; `None` when the weight of one is unknown.
fn sum<T>(entries: &[T], weight: impl Fn(&T) -> Observed<f64>) -> Option<f64> {
    entries.iter().map(|entry| weight(entry).known().copied()).sum()
}

/// How many entries have no known weight, and why most of them have none; `None` where all have.
pub fn unranked(weights: impl Iterator<Item = Observed<f64>>) -> Option<(usize, Reason)> {
    /// Reasons differ by the user whose process it is; there are not many more.
    const MOST_REASONS: usize = 64;
    let mut reasons: Vec<(Reason, usize)> = Vec::new();
    let mut all = 0;
    for weight in weights {
        let Observed::Unknown(reason) = weight else { continue };
        all += 1;
        if let Some((_, count)) = reasons.iter_mut().find(|(known, _)| *known == reason) {
            *count += 1;
        } else if reasons.len() < MOST_REASONS {
            reasons.push((reason, 1));
        }
    }
    let (reason, _) = reasons.into_iter().max_by_key(|(_, count)| *count)?;
    Some((all, reason))
}

/// Shortens a page until its answer fits, and says so.
///
/// `size` gives the bytes of the answer with so many rows; it must not shrink as rows are added.
/// The first row always stays: an answer without it would say nothing.
pub fn fit<T>(
    page: &mut Page<T>,
    weight: impl Fn(&T) -> Observed<f64>,
    budget: usize,
    mut size: impl FnMut(&Page<T>, usize) -> usize,
) {
    let all = page.rows.len();
    let fits = most_that_fit(1, all, budget, |rows| size(page, rows));
    if fits >= all {
        return;
    }
    let before = sum(&page.rows, &weight);
    page.rows.truncate(fits);
    let kept = sum(&page.rows, &weight);
    let truncation = &mut page.truncation;
    let cut_before = match truncation.cut_by {
        CutBy::Nothing => Some(0.0),
        CutBy::Limit | CutBy::AnswerBytes => truncation.weight_cut_pct.map(|cut| cut.get() / 100.0),
    };
    // What was shown before held the share that was not cut before; part of it goes now.
    let share = before.zip(kept).zip(cut_before).and_then(|((before, kept), cut_before)| {
        let lost = Percent::of(before - kept, before)?.get() / 100.0;
        Percent::of(cut_before + (1.0 - cut_before) * lost, 1.0)
    });
    truncation.weight_cut_pct = share;
    truncation.shown = page.rows.len() as u64;
    truncation.cut_by = CutBy::AnswerBytes;
}

/// The largest number of rows, from `least` to `all`, whose answer fits; `least` where none does.
pub fn most_that_fit(
    least: usize,
    all: usize,
    budget: usize,
    mut size: impl FnMut(usize) -> usize,
) -> usize {
    if all <= least || size(all) <= budget {
        return all;
    }
    let (mut fits, mut too_many) = (least, all);
    while fits + 1 < too_many {
        let middle = usize::midpoint(fits, too_many);
        if size(middle) <= budget {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_cut_is_weighed() {
        let found = page(vec![1.0, 6.0, 3.0], |weight| Observed::Known(*weight), 0, 2);
        assert_eq!(found.rows, [6.0, 3.0]);
        let want = Truncation {
            shown: 2,
            total: 3,
            weight_cut_pct: Percent::of(1.0, 10.0),
            cut_by: CutBy::Limit,
        };
        assert_eq!(found.truncation, want);
    }

    #[test]
    fn a_list_shown_whole_has_nothing_cut() {
        let found = page(vec![0.0, 0.0], |weight| Observed::Known(*weight), 0, 5);
        assert_eq!(found.truncation, Truncation::none(2));
    }

    #[test]
    fn an_answer_that_is_too_long_loses_its_last_rows_and_says_their_weight() {
        let mut found = page(vec![4.0, 3.0, 2.0, 1.0], |weight| Observed::Known(*weight), 0, 4);
        fit(&mut found, |weight| Observed::Known(*weight), 25, |_, rows| rows * 10);
        assert_eq!(found.rows, [4.0, 3.0]);
        assert_eq!(found.truncation.cut_by, CutBy::AnswerBytes);
        assert_eq!(found.truncation.weight_cut_pct, Percent::of(3.0, 10.0));
        fit(&mut found, |weight| Observed::Known(*weight), 1, |_, rows| rows * 10);
        assert_eq!(found.rows, [4.0]);
    }

    fn observed(weight: &Option<f64>) -> Observed<f64> {
        weight.ok_or(Reason::Gone).into()
    }

    #[test]
    fn what_is_unknown_comes_last_and_leaves_the_share_of_the_rest_unknown() {
        let entries = vec![None, Some(0.0), Some(2.0), None];
        assert_eq!(unranked(entries.iter().map(observed)), Some((2, Reason::Gone)));
        let mut found = page(entries, observed, 0, 3);
        assert_eq!(found.rows, [Some(2.0), Some(0.0), None]);
        assert_eq!(
            (found.truncation.cut_by, found.truncation.weight_cut_pct),
            (CutBy::Limit, None)
        );
        fit(&mut found, observed, 1, |_, rows| rows * 10);
        assert_eq!((found.rows, found.truncation.weight_cut_pct), (vec![Some(2.0)], None));
        assert_eq!(unranked([Some(1.0)].iter().map(observed)), None);
    }

    #[test]
    fn an_answer_that_is_too_long_without_a_row_to_lose_has_lost_none() {
        for rows in [vec![], vec![4.0]] {
            let mut found = page(rows.clone(), |weight| Observed::Known(*weight), 0, 4);
            fit(&mut found, |weight| Observed::Known(*weight), 1, |_, rows| 10 + rows);
            assert_eq!(found.truncation, Truncation::none(rows.len() as u64));
        }
    }

    proptest! {
        #[test]
        fn shown_and_cut_make_the_whole(
            weights in prop::collection::vec(0_u32..1000, 0..60),
            offset in 0_usize..70,
            limit in 1_usize..70,
        ) {
            let sum: u32 = weights.iter().sum();
            let found = page(weights, |weight| Observed::Known(f64::from(*weight)), offset, limit);
            prop_assert!(found.rows.is_sorted_by(|left, right| left >= right));
            let shown: u32 = found.rows.iter().sum();
            if let Some(cut) = found.truncation.weight_cut_pct {
                let total = f64::from(shown) + cut.get() / 100.0 * f64::from(sum);
                prop_assert!((total - f64::from(sum)).abs() <= f64::from(sum) / 1000.0);
            }
        }
    }
}
