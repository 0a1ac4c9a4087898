//! Numbers and texts out of a file's bytes, one after the other.

/// Reads from the start of some bytes on. Whatever would go past their end is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'d> {
    rest: &'d [u8],
}

impl<'d> Reader<'d> {
    /// Begins with the first of them.
    pub fn new(bytes: &'d [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'d [u8] {
        self.rest
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    /// One byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// That many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'d [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }

    /// The bytes before the next zero, which is read too.
    pub fn text(&mut self) -> Option<&'d [u8]> {
        let end = self.rest.iter().position(|byte| *byte == 0)?;
        let text = self.bytes(end)?;
        self.u8()?;
        Some(text)
    }
}

/// The text that begins at an offset in a table of texts, without the zero that ends it. None where it
/// has more than `most_bytes`: a table without zeros is not searched to its end for each text.
pub fn text_at(table: &[u8], offset: u32, most_bytes: usize) -> Option<&[u8]> {
    let from = table.get(usize::try_from(offset).ok()?..)?;
    let (nearest, _) = from.split_at_checked(most_bytes + 1).unwrap_or((from, &[]));
    Reader::new(nearest).text()
}
