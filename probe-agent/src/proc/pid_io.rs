//! Input and output of a process, by calls and by storage.
//!
//! Source: `/proc/PID/io`, Linux 2.6.20 and later.
//! Kernel reference: `do_io_accounting` in `fs/proc/base.c`, `Documentation/filesystems/proc.rst`.
//! Missing without `CONFIG_TASK_IO_ACCOUNTING`. Mode 0400: refused for other users' processes.
//! Counts all threads of the process, ended ones included.

use super::parse::{ParseError, number_of};

/// One file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PidIo {
    /// Bytes that read calls returned, from anywhere.
    #[doc(alias = "rchar")]
    pub read_calls_bytes: u64,
    /// Bytes that write calls took, to anywhere.
    #[doc(alias = "wchar")]
    pub write_calls_bytes: u64,
    /// Read calls.
    #[doc(alias = "syscr")]
    pub read_calls: u64,
    /// Write calls.
    #[doc(alias = "syscw")]
    pub write_calls: u64,
    /// Bytes that storage delivered.
    #[doc(alias = "read_bytes")]
    pub storage_read_bytes: u64,
    /// Bytes made dirty on their way to storage; counted when written to the cache, not to a disk.
    #[doc(alias = "write_bytes")]
    pub storage_write_bytes: u64,
}

/// Parses the file.
///
/// # Errors
///
/// Without one of its lines, or with one that is not a number.
pub fn parse(text: &[u8]) -> Result<PidIo, ParseError> {
    Ok(PidIo {
        read_calls_bytes: number_of(text, "rchar")?,
        write_calls_bytes: number_of(text, "wchar")?,
        read_calls: number_of(text, "syscr")?,
        write_calls: number_of(text, "syscw")?,
        storage_read_bytes: number_of(text, "read_bytes")?,
        storage_write_bytes: number_of(text, "write_bytes")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cancelled_writes_are_not_taken_for_writes() {
        let text = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                     cancelled_write_bytes: 7\n";
        let io = parse(text).unwrap();
        assert_eq!((io.storage_read_bytes, io.storage_write_bytes), (5, 6));
        let error = parse(b"rchar: 1\n").unwrap_err();
        assert_eq!(error.to_string(), "no `wchar` line");
    }
}
