//! Files that somebody made to end whoever reads them: none makes it panic, or takes long.

use crate::binaries::build;
use probe_agent::stack::{
    debug_files::{Files, shared_with, split_from},
    elf::ElfFile,
    lines::DebugSections,
    symbols::Symbols,
    vdso::VdsoNames,
};

/// Numbers that look random and are the same each time: SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        number ^ number >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(end).unwrap()).unwrap()
    }
}

/// Every path holds the same file.
struct Everywhere<'d>(&'d [u8]);

impl<'d> Files for Everywhere<'d> {
    type Bytes = &'d [u8];

    fn open(&self, _: &[u8]) -> Option<&'d [u8]> {
        Some(self.0)
    }
}

/// Overwrites some of the bytes: with any, or with numbers at which sums overflow.
fn change(bytes: &mut [u8], numbers: &mut Numbers) {
    for _ in 0..1 + numbers.below(8) {
        // Headers are the most interesting bytes, and the fewest.
        let end = if numbers.below(2) == 0 { bytes.len() } else { 1024.min(bytes.len()) };
        let at = numbers.below(end - 8);
        match numbers.below(4) {
            0 => bytes[at] = numbers.next().to_le_bytes()[0],
            1 => bytes[at..at + 8].fill(0xff),
            2 => bytes[at..at + 8].copy_from_slice(&(u64::MAX >> numbers.below(64)).to_le_bytes()),
            _ => bytes[at..at + 4].copy_from_slice(&numbers.next().to_le_bytes()[..4]),
        }
    }
}

/// Asks everything that can be asked.
fn ask(bytes: &[u8], numbers: &mut Numbers) {
    let Ok(image) = ElfFile::parse(bytes) else { return };
    let files = Everywhere(bytes);
    let _ = split_from(&image, b"/a/b", &files);
    let _ = shared_with(&image, b"/a/b", &files);
    let symbols = Symbols::of(&image, Some(&image));
    let mut addresses = vec![0, 1, u64::MAX, i64::MAX.cast_unsigned()];
    addresses.extend(image.sections().map(|section| section.svma.wrapping_add(5)));
    addresses.extend(image.loads().iter().map(|load| load.svma.start));
    addresses.extend((0..20).map(|_| numbers.next() % 0x8000));
    for svma in &addresses {
        let _ = symbols.find(*svma);
    }
    if let Ok(sections) = DebugSections::of(&image, Some(&image), 1 << 20) {
        assert_eq!(sections.places(&addresses, || true).0.len(), addresses.len());
    }
    let _ = VdsoNames::parse(bytes).map(|names| names.find(numbers.next() % 0x2000));
}

#[test]
fn no_change_of_a_file_makes_it_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(6);
    for recipe in ["c", "c-second-linkage-table", "c-packed", "c-dwarf-4", "c-split"] {
        let whole = std::fs::read(build(folder.path(), recipe)).unwrap();
        for _ in 0..400 {
            let mut bytes = whole.clone();
            change(&mut bytes, &mut numbers);
            if numbers.below(8) == 0 {
                bytes.truncate(numbers.below(whole.len()).max(64));
            }
            ask(&bytes, &mut numbers);
        }
    }
}

/// Overwrites bytes of the information for debuggers only: headers stay as they are.
#[test]
fn no_change_of_what_is_for_debuggers_makes_it_panic() {
    let folder = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(7);
    for recipe in ["c", "c-dwarf-4"] {
        let whole = std::fs::read(build(folder.path(), recipe)).unwrap();
        let image = ElfFile::parse(&whole).unwrap();
        let places: Vec<_> = image
            .sections()
            .filter(|section| section.name.starts_with(b".debug_") || section.name == b".eh_frame")
            .map(|section| {
                let start = section.bytes().as_ptr().addr() - whole.as_ptr().addr();
                (start, section.bytes().len())
            })
            .filter(|(_, length)| *length > 16)
            .collect();
        for _ in 0..1500 {
            let mut bytes = whole.clone();
            for _ in 0..1 + numbers.below(3) {
                let (start, length) = places[numbers.below(places.len())];
                change(&mut bytes[start..start + length], &mut numbers);
            }
            ask(&bytes, &mut numbers);
        }
    }
}
