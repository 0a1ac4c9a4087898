//! Sorting, written once.
//!
//! The standard library's sorts are generated anew for every type and every key, 5 kB each time;
//! forty of them were a tenth of the file that has to reach a target. Here one sort orders places,
//! and what is specific to a type is only the comparison and the moving.

use std::{cmp::Ordering, collections::BTreeMap};

/// Sorts by a comparison. What is equal keeps its order.
pub fn by<T>(items: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    // Much comes in its order.
    if items.is_sorted_by(|left, right| compare(left, right) != Ordering::Greater) {
        return;
    }
    let mut places: Vec<usize> = (0..items.len()).collect();
    sort(&mut places, &mut |left, right| match (items.get(left), items.get(right)) {
        (Some(left), Some(right)) => compare(left, right),
        // Places are those of the items.
        _ => Ordering::Equal,
    });
    arrange(items, &mut places);
}

/// Sorts by a key. What has the same key keeps its order.
pub fn by_key<T, K: Ord>(items: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(items, |left, right| key(left).cmp(&key(right)));
}

/// Sorts what has an order of its own.
pub fn ascending<T: Ord>(items: &mut [T]) {
    by(items, T::cmp);
}

/// A map of pairs; of equal keys the last counts. Collecting into a map sorts them first, for which
/// the standard library has a sort for each type, too.
pub fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        map.insert(key, value);
    }
    map
}

/// The one sort.
#[inline(never)]
fn sort(places: &mut [usize], compare: &mut dyn FnMut(usize, usize) -> Ordering) {
    places.sort_by(|left, right| compare(*left, *right));
}

/// Brings every item to its place: at each of `places` stands where its item is now.
fn arrange<T>(items: &mut [T], places: &mut [usize]) {
    for start in 0..places.len() {
        let mut at = start;
        // Along one circle of items that take each other's places; what is done points to itself.
        while let Some(from) = places.get(at).copied() {
            if let Some(place) = places.get_mut(at) {
                *place = at;
            }
            if from == start || from == at {
                break;
            }
            items.swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_equal_keeps_its_order() {
        let mut items = [(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd')];
        by_key(&mut items, |(key, _)| *key);
        assert_eq!(items, [(1, 'b'), (1, 'd'), (2, 'a'), (2, 'c')]);
    }

    #[test]
    fn of_equal_keys_the_last_counts() {
        assert_eq!(map([(1, 'a'), (1, 'b')]), [(1, 'a'), (1, 'b')].into_iter().collect());
    }

    proptest! {
        #[test]
        fn it_sorts_as_the_standard_library_does(
            items in proptest::collection::vec((0_u8..8, any::<u16>()), 0..200),
        ) {
            let (mut ours, mut theirs) = (items.clone(), items);
            by_key(&mut ours, |(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(ours, theirs);
        }
    }
}
