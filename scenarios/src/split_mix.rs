//! Numbers that look random and follow from the first, for cases that nobody thought of.

/// SplitMix64: the same seed gives the same numbers, everywhere.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    /// All that follow from a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next one.
    pub fn following(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
