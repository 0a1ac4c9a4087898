//! Which lines are shown: those that matter, and what is around them.

use super::{Place, Target, text::Lines};
use std::collections::BTreeMap;

/// A line that may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// Counted from 1.
    pub line: u32,
    /// What was sampled there.
    pub weight: u64,
}

/// The most lines of one function that matter.
const MOST_TARGETS: usize = 4096;

/// Lines, those that matter first, then those nearest to them. Without the text there is nothing to be
/// seen around them.
pub fn around(
    place: &Place,
    span: Option<(u32, u32)>,
    text: Option<&Lines<'_>>,
    context: u32,
) -> Vec<Row> {
    let targets: Vec<u32> = match (&place.target, span) {
        (Target::Weights, _) => place.weights.keys().copied().take(MOST_TARGETS).collect(),
        (Target::Span(..) | Target::DefinitionOf(_), Some((first, last))) => {
            (first..=last).take(MOST_TARGETS).collect()
        }
        (Target::Span(..) | Target::DefinitionOf(_), None) => Vec::new(),
    };
    let last = text.map_or(0, |text| u32::try_from(text.count()).unwrap_or(u32::MAX));
    let mut distances: BTreeMap<u32, u32> = BTreeMap::new();
    for target in targets {
        distances.insert(target, 0);
        let from = target.saturating_sub(context).max(1);
        for line in from..=target.saturating_add(context).min(last) {
            let distance = distances.entry(line).or_insert(u32::MAX);
            *distance = (*distance).min(line.abs_diff(target));
        }
    }
    let mut lines: Vec<(u32, u32)> =
        distances.into_iter().map(|(line, distance)| (distance, line)).collect();
    lines.sort_unstable();
    let weight = |line| place.weights.get(&line).copied().unwrap_or_default();
    lines.into_iter().map(|(_, line)| Row { line, weight: weight(line) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(place: &Place, span: Option<(u32, u32)>, count: usize, context: u32) -> Vec<u32> {
        let text = b"\n".repeat(count);
        let text = Lines::of(&text);
        let text = Some(&text).filter(|_| count > 0);
        around(place, span, text, context).iter().map(|row| row.line).collect()
    }

    #[test]
    fn lines_that_matter_come_first_and_then_the_nearest() {
        let weights = BTreeMap::from([(3, 10), (8, 20)]);
        let place = Place { weights, ..Place::default() };
        assert_eq!(lines(&place, None, 9, 2), [3, 8, 2, 4, 7, 9, 1, 5, 6]);
        // Beyond the end of the file there is nothing, but for what was sampled there.
        assert_eq!(lines(&place, None, 4, 1), [3, 8, 2, 4]);
        assert_eq!(lines(&place, None, 0, 10), [3, 8]);
        let place = Place { target: Target::Span(2, 4), ..Place::default() };
        assert_eq!(lines(&place, Some((2, 4)), 9, 1), [2, 3, 4, 1, 5]);
        let place = Place { target: Target::DefinitionOf("f".to_owned()), ..Place::default() };
        assert_eq!(lines(&place, None, 9, 1), [0_u32; 0]);
        assert_eq!(lines(&Place::default(), None, 9, 1), [0_u32; 0]);
    }
}
