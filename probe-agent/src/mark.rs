//! Telling whether something is as it was, without keeping what it was.

use crate::order;
use std::hash::{BuildHasher as _, RandomState};

/// Makes numbers that differ where what they were made of differs. It begins with one that nobody
/// knows: a process that chooses its own name cannot choose to look as it did before.
#[derive(Clone, Copy, Debug)]
pub struct Marker {
    start: u64,
}

impl Default for Marker {
    fn default() -> Self {
        Self { start: RandomState::new().hash_one(0_u8) }
    }
}

impl Marker {
    /// The mark of some numbers.
    pub fn of(&self, numbers: impl IntoIterator<Item = u64>) -> u64 {
        numbers.into_iter().fold(self.start, |mark, number| {
            let mark = (mark ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            mark ^ mark >> 32
        })
    }

    /// The mark of some bytes.
    pub fn of_bytes(&self, bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks();
        let mut last = [0; 8];
        last.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
        let words = words.iter().map(|word| u64::from_ne_bytes(*word));
        self.of(words.chain([u64::from_ne_bytes(last), bytes.len() as u64]))
    }
}

/// What processes were marked with, to be asked for mostly in the order in which they came.
#[derive(Debug, Default)]
pub struct Marks {
    /// By ascending pid.
    all: Vec<(u32, u64)>,
    /// Behind the one that was asked for last.
    next: usize,
}

impl Marks {
    /// Those of all of them.
    pub fn new(mut all: Vec<(u32, u64)>) -> Self {
        order::by_key(&mut all, |(pid, _)| *pid);
        Self { all, next: 0 }
    }

    /// Adds that of a process whose number is above those of all others; others are left out.
    pub fn push(&mut self, pid: u32, mark: u64) {
        if self.all.last().is_none_or(|(last, _)| *last < pid) {
            self.all.push((pid, mark));
        }
    }

    /// Whether a process has this mark.
    pub fn is(&mut self, pid: u32, mark: u64) -> bool {
        let is_next = self.all.get(self.next).is_some_and(|(next, _)| *next == pid);
        if !is_next {
            self.next = self.all.partition_point(|(other, _)| *other < pid);
        }
        let is = self.all.get(self.next) == Some(&(pid, mark));
        self.next += 1;
        is
    }

    /// Whether a process has one.
    pub fn has(&self, pid: u32) -> bool {
        self.all.binary_search_by_key(&pid, |(other, _)| *other).is_ok()
    }

    /// How many have.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether none has.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_has_another_mark() {
        let marker = Marker::default();
        let texts: [&[u8]; 8] = [
            b"",
            b"\0",
            b"7 (sleep) S 1",
            b"7 (sleep) S 2",
            b"7 (sleep) S 1\0",
            b"12345678",
            b"1234567812345678",
            b"1234567",
        ];
        for (at, one) in texts.iter().enumerate() {
            for (other_at, other) in texts.iter().enumerate() {
                let is_same = marker.of_bytes(one) == marker.of_bytes(other);
                assert_eq!(is_same, at == other_at, "{one:?} {other:?}");
            }
        }
        assert_ne!(marker.of([1, 2]), marker.of([2, 1]));
        assert_ne!(marker.of([1, 2]), Marker::default().of([1, 2]));
    }
}
