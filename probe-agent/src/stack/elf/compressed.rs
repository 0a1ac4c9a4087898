//! Sections that are packed, as distributions pack what only debuggers read.
//!
//! Format: the System V ABI, "Section Compression": `Elf64_Chdr`, then a stream of zlib or zstd.

use super::{ElfError, Reader};
use miniz_oxide::inflate::{TINFLStatus, decompress_to_vec_zlib_with_limit};

/// Unpacks a section's bytes into at most `most_bytes`.
pub fn unpack(packed: &[u8], most_bytes: usize) -> Result<Vec<u8>, ElfError> {
    const ZLIB: u32 = 1;
    const ZSTD: u32 = 2;
    let refused = |why| Err(ElfError::Packed { why });
    let mut fields = Reader::new(packed);
    let header = (|| {
        let (method, _reserved) = (fields.u32()?, fields.u32()?);
        let (size, _align) = (fields.u64()?, fields.u64()?);
        Some((method, size))
    })();
    let Some((method, size)) = header else { return refused("it ends before its header does") };
    match method {
        ZLIB => {}
        ZSTD => return refused("zstd is not read here"),
        _ => return refused("by a method that is not known"),
    }
    let size = match usize::try_from(size) {
        Ok(size) if size <= most_bytes => size,
        Ok(_) | Err(_) => return refused("it is larger than what is read"),
    };
    match decompress_to_vec_zlib_with_limit(fields.rest(), size) {
        Ok(bytes) if bytes.len() == size => Ok(bytes),
        Ok(_) => refused("it is not as long as its header says"),
        Err(failure) if failure.status == TINFLStatus::HasMoreOutput => {
            refused("it is longer than its header says")
        }
        Err(_) => refused("its bytes are not those of zlib"),
    }
}
