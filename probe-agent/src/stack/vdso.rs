//! Functions of the library that the kernel maps into every process.
//!
//! Source: the mapping `[vdso]`, by the bytes in memory: there is no file. `vdso(7)`.

use super::{
    How, Named,
    elf::{ElfError, ElfFile},
    symbols::Symbols,
};

/// The names in its image.
#[derive(Debug)]
pub struct VdsoNames<'d> {
    image: ElfFile<'d>,
    symbols: Symbols<'d>,
}

impl<'d> VdsoNames<'d> {
    /// Reads the bytes of the mapping.
    ///
    /// # Errors
    ///
    /// Bytes that are no library.
    pub fn parse(bytes: &'d [u8]) -> Result<Self, ElfError> {
        let image = ElfFile::parse(bytes)?;
        Ok(Self { symbols: Symbols::of(&image, None), image })
    }

    /// The function that has an address, which is counted from the start of the mapping. So is the
    /// start in the answer.
    pub fn find(&self, offset: u64) -> Option<Named> {
        // What is in memory is laid out as the file was.
        let svma = self.image.svma_of_file_offset(offset)?;
        let named = self.symbols.find(svma)?;
        let start = offset.wrapping_sub(svma.wrapping_sub(named.start));
        let how = match named.how {
            How::SymbolTable | How::DebugFile => How::Vdso,
            how @ (How::FunctionStart | How::PerfMap | How::Kallsyms | How::Vdso) => how,
        };
        Some(Named { start, how, ..named })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Seek as _, SeekFrom};

    /// The bytes of this process's own.
    fn own() -> Vec<u8> {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let line = maps.lines().find(|line| line.ends_with("[vdso]")).unwrap();
        let (start, rest) = line.split_once('-').unwrap();
        let end = rest.split(' ').next().unwrap();
        let number = |text| u64::from_str_radix(text, 16).unwrap();
        let (start, end) = (number(start), number(end));
        let mut memory = std::fs::File::open("/proc/self/mem").unwrap();
        memory.seek(SeekFrom::Start(start)).unwrap();
        let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
        memory.read_exact(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn a_clock_read_without_a_system_call_has_its_name() {
        let bytes = own();
        let names = VdsoNames::parse(&bytes).unwrap();
        let found: Vec<Named> =
            (0..bytes.len()).filter_map(|at| names.find(u64::try_from(at).unwrap())).collect();
        let clock = found.iter().find(|name| name.text.as_str().contains("clock_gettime"));
        let clock = clock.unwrap();
        assert_eq!(clock.how, How::Vdso);
        assert_eq!(names.find(clock.start).unwrap().start, clock.start);
    }
}
