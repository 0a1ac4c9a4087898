//! How much of each mapping of a process is in memory, and whose.
//!
//! Source: `/proc/PID/smaps` (Linux 2.6.14), and the sums of all mappings, `/proc/PID/smaps_rollup`
//! (Linux 4.14); both with `CONFIG_PROC_PAGE_MONITOR`. Kernel reference: `show_smap`,
//! `show_smaps_rollup` in `fs/proc/task_mmu.c`, `Documentation/filesystems/proc.rst`. Both walk the page
//! tables with the process's `mmap_lock` held, and need the right to look into the process. Fields came
//! with time, `SwapPss` in 4.3, the huge pages of files in 4.8; what is not there counts as 0.

use super::{
    parse::{ParseError, fields, lines, number},
    pid_maps,
};

/// What mappings have in memory, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// `Rss`.
    pub resident: u64,
    /// `Pss`: of shared pages its part.
    pub proportional: u64,
    /// `Private_Clean`.
    pub private_clean: u64,
    /// `Private_Dirty`.
    pub private_dirty: u64,
    /// `Anonymous`.
    pub anonymous: u64,
    /// `AnonHugePages`, `ShmemPmdMapped`, `FilePmdMapped`.
    pub huge: u64,
    /// `Swap`.
    pub swap: u64,
}

impl Amounts {
    /// Pages that nobody else has.
    pub const fn unique(&self) -> u64 {
        self.private_clean.saturating_add(self.private_dirty)
    }

    /// Adds another's.
    pub const fn add(&mut self, other: &Self) {
        self.resident = self.resident.saturating_add(other.resident);
        self.proportional = self.proportional.saturating_add(other.proportional);
        self.private_clean = self.private_clean.saturating_add(other.private_clean);
        self.private_dirty = self.private_dirty.saturating_add(other.private_dirty);
        self.anonymous = self.anonymous.saturating_add(other.anonymous);
        self.huge = self.huge.saturating_add(other.huge);
        self.swap = self.swap.saturating_add(other.swap);
    }

    /// Takes a line of the form `Name: number kB`. Names that do not count here are passed over.
    fn take(&mut self, line: &[u8], line_number: usize) -> Result<(), ParseError> {
        let mut words = fields(line);
        let field = match words.next() {
            Some(b"Rss:") => &mut self.resident,
            Some(b"Pss:") => &mut self.proportional,
            Some(b"Private_Clean:") => &mut self.private_clean,
            Some(b"Private_Dirty:") => &mut self.private_dirty,
            Some(b"Anonymous:") => &mut self.anonymous,
            Some(b"AnonHugePages:" | b"ShmemPmdMapped:" | b"FilePmdMapped:") => &mut self.huge,
            Some(b"Swap:") => &mut self.swap,
            Some(_) | None => return Ok(()),
        };
        let value =
            words.next().ok_or(ParseError::MissingField { line_number, expected: "number" })?;
        *field = field.saturating_add(number(value, line_number)?.saturating_mul(1024));
        Ok(())
    }
}

/// One mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// Address space, in bytes.
    pub size: u64,
    /// `rw-p`, as it stands there.
    pub rights: Vec<u8>,
    /// Path, with ` (deleted)` after it where it is; or a name in brackets; or empty.
    pub name: Vec<u8>,
    /// What of it is in memory.
    pub amounts: Amounts,
}

/// Reads the sums.
///
/// # Errors
///
/// Without the line `Rss`, or where one holds no number.
pub fn parse_rollup(text: &[u8]) -> Result<Amounts, ParseError> {
    let mut amounts = Amounts::default();
    let mut has_any = false;
    for (line_number, line) in lines(text) {
        has_any |= line.starts_with(b"Rss:");
        amounts.take(line, line_number)?;
    }
    if has_any { Ok(amounts) } else { Err(ParseError::MissingLine { expected: "Rss" }) }
}

/// Reads all mappings, of which there may be none.
///
/// # Errors
///
/// Where a line is none of the kernel's.
pub fn parse(text: &[u8]) -> Result<Vec<Region>, ParseError> {
    let mut regions: Vec<Region> = Vec::new();
    for (line_number, line) in lines(text).filter(|(_, line)| !line.is_empty()) {
        // Names of amounts begin with a capital, addresses have none.
        if !line.first().is_some_and(u8::is_ascii_uppercase) {
            let found = pid_maps::parse_line(line, line_number)?;
            regions.push(Region {
                size: found.end.saturating_sub(found.start),
                rights: fields(line).nth(1).unwrap_or_default().to_vec(),
                name: found.name,
                amounts: Amounts::default(),
            });
        } else if let Some(region) = regions.last_mut() {
            region.amounts.take(line, line_number)?;
        } else {
            return Err(ParseError::MissingField { line_number, expected: "mapping before it" });
        }
    }
    Ok(regions)
}

/// What all of them have together.
pub fn sum(regions: &[Region]) -> Amounts {
    let mut all = Amounts::default();
    for region in regions {
        all.add(&region.amounts);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIB: u64 = 1024;

    #[test]
    fn amounts_of_each_mapping_are_its_own() {
        let text = b"\
00400000-00401000 r-xp 00000000 08:01 131    /opt/my app (deleted)\n\
Size:                  4 kB\nRss:                   4 kB\nPss:                   2 kB\n\
Private_Clean:         1 kB\nPrivate_Dirty:         3 kB\nVmFlags: rd ex mr mw me\n\
7f0000000000-7f0000200000 rw-p 00000000 00:00 0 \n\
Rss:                2048 kB\nPss:                2048 kB\nAnonymous:          2048 kB\n\
AnonHugePages:      2048 kB\nShmemPmdMapped:        0 kB\nSwap:                  8 kB\n\
SwapPss:               8 kB\nProtectionKey:         0\n";
        let regions = parse(text).unwrap();
        let told: Vec<_> = regions
            .iter()
            .map(|region| (region.size, region.rights.as_slice(), region.name.as_slice()))
            .collect();
        let want: [(u64, &[u8], &[u8]); 2] =
            [(4 * KIB, b"r-xp", b"/opt/my app (deleted)"), (2048 * KIB, b"rw-p", b"")];
        assert_eq!(told, want);
        let first = regions[0].amounts;
        assert_eq!((first.resident, first.proportional, first.unique()), (4096, 2048, 4096));
        let all = sum(&regions);
        assert_eq!((all.resident, all.huge), (2052 * KIB, 2048 * KIB));
        assert_eq!((all.swap, all.anonymous), (8 * KIB, 2048 * KIB));
    }

    #[test]
    fn the_sums_of_old_and_new_kernels() {
        let new = b"00400000-7fff rollup 00000000 00:00 0    [rollup]\nRss: 8 kB\nPss: 3 kB\n\
                    Pss_Anon: 1 kB\nPss_Dirty: 1 kB\nPrivate_Dirty: 2 kB\nSwap: 0 kB\nLocked: 0 kB\n";
        let found = parse_rollup(new).unwrap();
        assert_eq!((found.resident, found.proportional, found.unique()), (8192, 3072, 2048));
        for (name, text) in [
            ("empty", ""),
            ("no resident memory", "Pss: 1 kB\n"),
            ("no number", "Rss: x kB\n"),
            ("cut", "Rss:"),
        ] {
            assert!(parse_rollup(text.as_bytes()).is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_no_mapping_is_an_error() {
        assert_eq!(parse(b""), Ok(Vec::new()));
        for text in ["Rss: 4 kB\n", "no mapping\n", "1-2 r--p 0 8:1 1 /a\nRss: -4 kB\n"] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_name_cannot_forge_an_amount() {
        // The kernel writes a newline in a path as `\012`.
        let text = b"1000-2000 r--p 0 8:1 1 /a\\012Rss: 9 kB\nRss: 4 kB\n";
        assert_eq!(sum(&parse(text).unwrap()).resident, 4096);
    }

    #[test]
    fn the_own_mappings_make_the_own_sums() {
        let read = |file| std::fs::read(format!("/proc/self/{file}")).unwrap();
        let regions = parse(&read("smaps")).unwrap();
        let (sum, rollup) = (sum(&regions), parse_rollup(&read("smaps_rollup")).unwrap());
        assert!(sum.resident > 0 && regions.iter().any(|region| region.name == b"[stack]"));
        // The reading itself takes some.
        assert!(sum.resident.abs_diff(rollup.resident) < 4 << 20, "{sum:?} {rollup:?}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_rollup(&text);
            let _ = parse(&text).map(|regions| sum(&regions).unique());
        }
    }
}
