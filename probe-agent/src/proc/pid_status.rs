//! Memory by kind, and context switches, of a process or a thread.
//!
//! Source: `/proc/PID/status`, `/proc/PID/task/TID/status`.
//! Kernel reference: `proc_pid_status` in `fs/proc/array.c`, `man 5 proc_pid_status`.
//! Kernel threads and zombies have no `Vm` lines. The split of resident memory (`RssAnon` and the
//! next two) is there since Linux 4.5.
//!
//! The context switches are those of one thread: of the first one, for `/proc/PID/status`.

use super::parse::{ParseError, number_of};
use protocol::units::Bytes;

/// Memory of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLines {
    /// `VmRSS`.
    pub resident: Bytes,
    /// `RssAnon`.
    pub anonymous: Option<Bytes>,
    /// `RssFile`.
    pub file: Option<Bytes>,
    /// `RssShmem`.
    pub shared: Option<Bytes>,
    /// `VmSwap`.
    pub swap: Option<Bytes>,
}

/// Sizes of a process's memory, beside what is resident.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SizeLines {
    /// `VmHWM`, the most that was ever resident.
    pub peak: Option<Bytes>,
    /// `VmLck`, kept from being swapped.
    pub locked: Option<Bytes>,
    /// `VmPTE`, page tables.
    pub page_tables: Option<Bytes>,
    /// `HugetlbPages`, Linux 4.4.
    pub hugetlb: Option<Bytes>,
}

/// Who traces a process, `TracerPid`; `None` where nobody does.
pub fn tracer(text: &[u8]) -> Option<u32> {
    let tracer = number_of(text, "TracerPid").ok()?;
    u32::try_from(tracer).ok().filter(|tracer| *tracer != 0)
}

/// Context switches of a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchLines {
    /// `voluntary_ctxt_switches`.
    pub voluntary: u64,
    /// `nonvoluntary_ctxt_switches`.
    pub involuntary: u64,
}

impl SwitchLines {
    /// Adds another thread's.
    pub const fn add(&mut self, other: &Self) {
        self.voluntary = self.voluntary.saturating_add(other.voluntary);
        self.involuntary = self.involuntary.saturating_add(other.involuntary);
    }

    /// Of both kinds.
    pub const fn all(&self) -> u64 {
        self.voluntary.saturating_add(self.involuntary)
    }

    /// What happened since an earlier read; `None` when a counter is smaller than it was.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        Some(Self {
            voluntary: self.voluntary.checked_sub(earlier.voluntary)?,
            involuntary: self.involuntary.checked_sub(earlier.involuntary)?,
        })
    }
}

/// Reads the memory lines.
///
/// # Errors
///
/// Without `VmRSS`: a kernel thread or a zombie.
pub fn parse_memory(text: &[u8]) -> Result<MemoryLines, ParseError> {
    let kib = |name| number_of(text, name).map(|kib| Bytes(kib.saturating_mul(1024)));
    Ok(MemoryLines {
        resident: kib("VmRSS")?,
        anonymous: kib("RssAnon").ok(),
        file: kib("RssFile").ok(),
        shared: kib("RssShmem").ok(),
        swap: kib("VmSwap").ok(),
    })
}

/// Reads the lines with other sizes, as far as they are there.
pub fn parse_sizes(text: &[u8]) -> SizeLines {
    let kib = |name| number_of(text, name).map(|kib| Bytes(kib.saturating_mul(1024))).ok();
    SizeLines {
        peak: kib("VmHWM"),
        locked: kib("VmLck"),
        page_tables: kib("VmPTE"),
        hugetlb: kib("HugetlbPages"),
    }
}

/// Reads the lines with the context switches.
///
/// # Errors
///
/// Without them, before Linux 2.6.23.
pub fn parse_switches(text: &[u8]) -> Result<SwitchLines, ParseError> {
    Ok(SwitchLines {
        voluntary: number_of(text, "voluntary_ctxt_switches")?,
        involuntary: number_of(text, "nonvoluntary_ctxt_switches")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"Name:\tx\nVmRSS:\t     512 kB\nRssAnon:\t     100 kB\n\
                          voluntary_ctxt_switches:\t8\nnonvoluntary_ctxt_switches:\t9\n";

    #[test]
    fn kibibytes_become_bytes_and_missing_lines_stay_missing() {
        let memory = parse_memory(TEXT).unwrap();
        assert_eq!(memory.resident, Bytes(524_288));
        assert_eq!((memory.anonymous, memory.swap), (Some(Bytes(102_400)), None));
        assert!(parse_memory(b"Name:\tkthreadd\n").is_err());
    }

    #[test]
    fn sizes_are_those_that_are_there() {
        let text = b"VmHWM:\t 7 kB\nVmLck:\t 0 kB\nVmPTE:\t 4 kB\n";
        let found = parse_sizes(text);
        assert_eq!((found.peak, found.locked), (Some(Bytes(7168)), Some(Bytes(0))));
        assert_eq!((found.page_tables, found.hugetlb), (Some(Bytes(4096)), None));
    }

    #[test]
    fn voluntary_and_involuntary_switches_are_not_mixed_up() {
        let switches = parse_switches(TEXT).unwrap();
        assert_eq!((switches.voluntary, switches.involuntary), (8, 9));
    }

    #[test]
    fn a_name_cannot_forge_a_line() {
        // The kernel escapes newlines in `Name:`, so a forged line cannot start one.
        let text = b"Name:\tVmRSS:\\nVmRSS: 7\nVmRSS:\t 1 kB\n";
        assert_eq!(parse_memory(text).unwrap().resident, Bytes(1024));
    }
}
