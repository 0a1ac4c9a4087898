//! The largest entries of a list, and an account of those left out.

use protocol::{
    loss::{CutBy, Truncation},
    units::Percent,
};

/// A page of a ranked list.
#[derive(Debug)]
pub struct Page<T> {
    /// The entries, largest first.
    pub rows: Vec<T>,
    /// How many there were, and what the others weigh.
    pub truncation: Truncation,
}

/// Ranks entries by weight and takes a page of them. Entries of equal weight keep their order.
pub fn page<T>(
    mut entries: Vec<T>,
    weight: impl Fn(&T) -> f64,
    offset: usize,
    limit: usize,
) -> Page<T> {
    entries.sort_by(|left, right| weight(right).total_cmp(&weight(left)));
    let total = entries.len();
    let sum: f64 = entries.iter().map(&weight).sum();
    let rows: Vec<T> = entries.into_iter().skip(offset).take(limit).collect();
    let shown: f64 = rows.iter().map(&weight).sum();
    let cut = total - rows.len();
    Page {
        truncation: Truncation {
            shown: rows.len() as u64,
            total: total as u64,
            weight_cut_pct: if cut > 0 { Percent::of(sum - shown, sum) } else { None },
            cut_by: if cut > 0 { CutBy::Limit } else { CutBy::Nothing },
        },
        rows,
    }
}

/// Shortens a page until its answer fits, and says so.
///
/// `size` gives the bytes of the answer with so many rows; it must not shrink as rows are added.
/// The first row always stays: an answer without it would say nothing.
pub fn fit<T>(
    page: &mut Page<T>,
    weight: impl Fn(&T) -> f64,
    budget: usize,
    mut size: impl FnMut(&Page<T>, usize) -> usize,
) {
    if size(page, page.rows.len()) <= budget {
        return;
    }
    let (mut fits, mut too_many) = (1, page.rows.len());
    while fits + 1 < too_many {
        let middle = usize::midpoint(fits, too_many);
        if size(page, middle) <= budget {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    let all: f64 = page.rows.iter().map(&weight).sum();
    page.rows.truncate(fits);
    let kept: f64 = page.rows.iter().map(&weight).sum();
    let truncation = &mut page.truncation;
    let cut_before = truncation.weight_cut_pct.map_or(0.0, Percent::get) / 100.0;
    // What was shown before held the share that was not cut before; part of it goes now.
    let lost_share = if all > 0.0 { (1.0 - cut_before) * (all - kept) / all } else { 0.0 };
    truncation.weight_cut_pct =
        if all > 0.0 { Percent::of(cut_before + lost_share, 1.0) } else { None };
    truncation.shown = page.rows.len() as u64;
    truncation.cut_by = CutBy::AnswerBytes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_cut_is_weighed() {
        let found = page(vec![1.0, 6.0, 3.0], |weight| *weight, 0, 2);
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
        let found = page(vec![0.0, 0.0], |weight| *weight, 0, 5);
        assert_eq!(found.truncation, Truncation::none(2));
    }

    #[test]
    fn an_answer_that_is_too_long_loses_its_last_rows_and_says_their_weight() {
        let mut found = page(vec![4.0, 3.0, 2.0, 1.0], |weight| *weight, 0, 4);
        fit(&mut found, |weight| *weight, 25, |_, rows| rows * 10);
        assert_eq!(found.rows, [4.0, 3.0]);
        assert_eq!(found.truncation.cut_by, CutBy::AnswerBytes);
        assert_eq!(found.truncation.weight_cut_pct, Percent::of(3.0, 10.0));
        fit(&mut found, |weight| *weight, 1, |_, rows| rows * 10);
        assert_eq!(found.rows, [4.0]);
    }

    proptest! {
        #[test]
        fn shown_and_cut_make_the_whole(
            weights in prop::collection::vec(0_u32..1000, 0..60),
            offset in 0_usize..70,
            limit in 1_usize..70,
        ) {
            let sum: u32 = weights.iter().sum();
            let found = page(weights, |weight| f64::from(*weight), offset, limit);
            prop_assert!(found.rows.is_sorted_by(|left, right| left >= right));
            let shown: u32 = found.rows.iter().sum();
            if let Some(cut) = found.truncation.weight_cut_pct {
                let total = f64::from(shown) + cut.get() / 100.0 * f64::from(sum);
                prop_assert!((total - f64::from(sum)).abs() <= f64::from(sum) / 1000.0);
            }
        }
    }
}
