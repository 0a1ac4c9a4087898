//! How long things took: counts by powers of two of nanoseconds, and what can be said of them.
//!
//! A bucket holds what took from its lower bound to twice as much, so a count in it is exact and a
//! percentile is known to a factor of two: what is told is the bound that it does not exceed.

use crate::units::Micros;
use serde::{Deserialize, Serialize};

/// Buckets there are: the last holds all from 2^47 ns, which is 39 hours.
pub const BUCKETS: usize = 48;

/// Counts by powers of two of nanoseconds. In bucket `n` is what took from 2^n to 2^(n+1) ns; in the
/// first also what took no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log2 {
    counts: [u64; BUCKETS],
}

impl Default for Log2 {
    fn default() -> Self {
        Self { counts: [0; BUCKETS] }
    }
}

impl Log2 {
    /// Those counts, of the buckets from the first on. What is beyond the last is in the last.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut made = Self::default();
        for (bucket, count) in counts.into_iter().enumerate() {
            made.add_to(bucket, count);
        }
        made
    }

    /// The bucket of a time.
    pub fn bucket_of(ns: u64) -> usize {
        let bits = ns.checked_ilog2().unwrap_or(0);
        usize::try_from(bits).unwrap_or(BUCKETS).min(BUCKETS - 1)
    }

    /// Counts one that took so long.
    pub fn add(&mut self, ns: u64) {
        self.add_to(Self::bucket_of(ns), 1);
    }

    /// Counts so many more in a bucket.
    pub fn add_to(&mut self, bucket: usize, count: u64) {
        if let Some(place) = self.counts.get_mut(bucket.min(BUCKETS - 1)) {
            *place = place.saturating_add(count);
        }
    }

    /// Adds all counts of another.
    pub fn merge(&mut self, other: &Self) {
        for (place, count) in self.counts.iter_mut().zip(other.counts) {
            *place = place.saturating_add(count);
        }
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Nanoseconds that so many per mille do not exceed; `None` where nothing was counted. Never more
    /// than `max_ns`, the longest of all.
    pub fn at_most_ns(&self, per_mille: u64, max_ns: u64) -> Option<u64> {
        let all = self.count();
        if all == 0 {
            return None;
        }
        let wanted = u128::from(all) * u128::from(per_mille.min(1000));
        let mut passed: u128 = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            passed += u128::from(*count) * 1000;
            if *count > 0 && passed >= wanted {
                let last = bucket + 1 >= BUCKETS;
                let bound = if last { u64::MAX } else { (2_u64 << bucket) - 1 };
                return Some(bound.min(max_ns));
            }
        }
        Some(max_ns)
    }

    /// The percentiles that answers have; `None` where nothing was counted.
    pub fn percentiles(&self, max_ns: u64) -> Option<Percentiles> {
        let at = |per_mille| self.at_most_ns(per_mille, max_ns).map(Micros::from_ns);
        Some(Percentiles { p50_us: at(500)?, p90_us: at(900)?, p99_us: at(990)? })
    }

    /// The counts without what is empty at both ends.
    pub fn histogram(&self) -> Histogram {
        let first = self.counts.iter().position(|count| *count > 0).unwrap_or(0);
        let end = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        Histogram {
            from_ns: 1 << first,
            counts: self.counts.get(first..end).unwrap_or_default().to_vec(),
        }
    }
}

/// What so many percent of all did not exceed. Bounds are powers of two of nanoseconds, so the exact
/// value is within half of it; the longest bounds them too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Half of them took at most this, in microseconds.
    pub p50_us: Micros,
    /// 90 % of them did.
    pub p90_us: Micros,
    /// 99 % of them did.
    pub p99_us: Micros,
}

/// A histogram whose buckets double.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Histogram {
    /// Lower bound of the first bucket in nanoseconds; each further one is twice the one before.
    pub from_ns: u64,
    /// How many are in each bucket.
    pub counts: Vec<u64>,
}

impl Histogram {
    /// The same as it is counted with.
    pub fn log2(&self) -> Log2 {
        let first = Log2::bucket_of(self.from_ns);
        let mut made = Log2::default();
        for (bucket, count) in self.counts.iter().enumerate() {
            made.add_to(first.saturating_add(bucket), *count);
        }
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn times_fall_into_the_bucket_of_their_power_of_two() {
        for (ns, bucket) in
            [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (1023, 9), (1024, 10), (u64::MAX, 47)]
        {
            assert_eq!(Log2::bucket_of(ns), bucket, "{ns}");
        }
    }

    #[test]
    fn a_percentile_is_the_bound_that_so_many_do_not_exceed() {
        let mut taken = Log2::default();
        assert_eq!(taken.percentiles(0), None);
        for _ in 0..98 {
            taken.add(1_000);
        }
        taken.add(5_000_000);
        taken.add(70_000_000);
        let found = taken.percentiles(70_000_000).unwrap();
        let us = |micros: Micros| micros.get();
        assert_eq!((us(found.p50_us), us(found.p90_us)), (1.02, 1.02));
        assert_eq!(us(found.p99_us), 8_388.61);
        assert_eq!(taken.at_most_ns(1000, 70_000_000), Some(70_000_000));
    }

    #[test]
    fn what_is_empty_at_both_ends_is_left_out_and_comes_back() {
        let mut taken = Log2::default();
        assert_eq!(taken.histogram(), Histogram { from_ns: 1, counts: vec![] });
        taken.add(1_500);
        taken.add(9_000);
        let shown = taken.histogram();
        assert_eq!(shown, Histogram { from_ns: 1024, counts: vec![1, 0, 0, 1] });
        assert_eq!(shown.log2(), taken);
        assert_eq!(Log2::from_counts([0; 60].into_iter().chain([4])).count(), 4);
    }

    proptest! {
        #[test]
        fn a_percentile_is_never_exceeded_by_more_than_it_says(
            times in prop::collection::vec(any::<u64>(), 1..200),
            per_mille in 1_u64..=1000,
        ) {
            let mut taken = Log2::default();
            times.iter().for_each(|ns| taken.add(*ns));
            let max = times.iter().copied().max().unwrap();
            let bound = taken.at_most_ns(per_mille, max).unwrap();
            let within = times.iter().filter(|ns| **ns <= bound).count() as u64;
            prop_assert!(within * 1000 >= times.len() as u64 * per_mille);
        }
    }
}
