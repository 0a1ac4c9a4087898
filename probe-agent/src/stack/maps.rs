//! Where code is in a process's memory.

use std::collections::BTreeMap;

/// A part of memory that can be executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// The first address after it.
    pub end: u64,
    /// Where in the file it begins, in bytes.
    pub file_offset: u64,
    /// Which image it is of.
    pub image: ImageId,
}

impl Mapping {
    /// The byte of the file that is at an address.
    pub const fn file_offset_of(&self, address: u64) -> u64 {
        address.wrapping_sub(self.start).wrapping_add(self.file_offset)
    }
}

/// An image of a recording, by its place in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ImageId(pub u32);

/// All of them, of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Maps(BTreeMap<u64, Mapping>);

/// More than any program has; code that is made at run time is in few large ones.
const MOST_MAPPINGS: usize = 65_536;

impl Maps {
    /// Adds one. What it covers of others is theirs no more: they were unmapped before, of which the
    /// kernel does not tell.
    pub fn insert(&mut self, new: Mapping) {
        if new.start >= new.end || self.0.len() >= MOST_MAPPINGS {
            return;
        }
        let covered = self.0.range(..new.end).rev().take_while(|(_, old)| old.end > new.start);
        let covered: Vec<Mapping> = covered.map(|(_, old)| *old).collect();
        for old in covered {
            self.0.remove(&old.start);
            if old.start < new.start {
                self.0.insert(old.start, Mapping { end: new.start, ..old });
            }
            if old.end > new.end {
                let file_offset = old.file_offset_of(new.end);
                self.0.insert(new.end, Mapping { start: new.end, file_offset, ..old });
            }
        }
        self.0.insert(new.start, new);
    }

    /// What is at an address.
    pub fn find(&self, address: u64) -> Option<&Mapping> {
        let (_, mapping) = self.0.range(..=address).next_back()?;
        (address < mapping.end).then_some(mapping)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn mapping(start: u64, end: u64, image: u32) -> Mapping {
        Mapping { start, end, file_offset: start * 10, image: ImageId(image) }
    }

    #[test]
    fn a_new_one_cuts_what_it_covers_and_the_rest_stays_at_its_place_in_the_file() {
        let mut maps = Maps::default();
        maps.insert(mapping(100, 200, 1));
        maps.insert(mapping(200, 300, 2));
        maps.insert(mapping(150, 160, 3));
        maps.insert(mapping(280, 400, 4));
        let at = |address| maps.find(address).map(|it| (it.image.0, it.file_offset_of(address)));
        assert_eq!(at(99), None);
        assert_eq!(at(149), Some((1, 1049)));
        assert_eq!(at(155), Some((3, 1505)));
        assert_eq!(at(199), Some((1, 1099)));
        assert_eq!(at(279), Some((2, 2079)));
        assert_eq!(at(280), Some((4, 2800)));
        assert_eq!(at(400), None);
    }

    proptest! {
        #[test]
        fn the_last_that_covers_an_address_is_found(
            all in prop::collection::vec((0_u64..50, 0_u64..50), 0..20)
        ) {
            let mut maps = Maps::default();
            for (image, (start, end)) in (0..).zip(&all) {
                maps.insert(mapping(*start, *end, image));
            }
            for address in 0..50 {
                let last = all.iter().rposition(|(start, end)| (*start..*end).contains(&address));
                let found = maps.find(address).map(|found| found.image.0 as usize);
                prop_assert_eq!(found, last);
            }
        }
    }
}
