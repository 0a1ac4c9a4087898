//! Telling whether something is as it was, without keeping what it was.

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
