//! Input and output of a process, by calls and by storage.
//!
//! Source: `/proc/PID/io`, Linux 2.6.20 and later.
//! Kernel reference: `do_io_accounting` in `fs/proc/base.c`, `Documentation/filesystems/proc.rst`.
//! Missing without `CONFIG_TASK_IO_ACCOUNTING`. Mode 0400: refused for other users' processes.
//!
//! `/proc/PID/io` counts all threads of the process, ended ones included, and the whole life of
//! every child that it waited for (`wait_task_zombie` in `kernel/exit.c` adds the child's count to
//! the parent's). `/proc/PID/task/TID/io` counts one thread and nothing else.

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

impl PidIo {
    /// What happened since an earlier read; `None` when a counter is smaller than it was.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            read_calls_bytes: self.read_calls_bytes.checked_sub(earlier.read_calls_bytes)?,
            write_calls_bytes: self.write_calls_bytes.checked_sub(earlier.write_calls_bytes)?,
            read_calls: self.read_calls.checked_sub(earlier.read_calls)?,
            write_calls: self.write_calls.checked_sub(earlier.write_calls)?,
            storage_read_bytes: self.storage_read_bytes.checked_sub(earlier.storage_read_bytes)?,
            storage_write_bytes: self
                .storage_write_bytes
                .checked_sub(earlier.storage_write_bytes)?,
        })
    }

    /// Adds another thread's.
    pub const fn add(&mut self, other: &Self) {
        self.read_calls_bytes = self.read_calls_bytes.saturating_add(other.read_calls_bytes);
        self.write_calls_bytes = self.write_calls_bytes.saturating_add(other.write_calls_bytes);
        self.read_calls = self.read_calls.saturating_add(other.read_calls);
        self.write_calls = self.write_calls.saturating_add(other.write_calls);
        self.storage_read_bytes = self.storage_read_bytes.saturating_add(other.storage_read_bytes);
        self.storage_write_bytes =
            self.storage_write_bytes.saturating_add(other.storage_write_bytes);
    }
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
