//! What block devices did since boot.
//!
//! Source: `/proc/diskstats`, Linux 2.6 and later. Kernel reference:
//! `Documentation/admin-guide/iostats.rst`, `block/genhd.c`. Before 2.6.25 a partition has four
//! fields only; it is passed over, as all partitions are by the caller.
//!
//! The counters are 32 bits wide on some kernels and wrap around; a difference then is taken over
//! the wrap where that is the only way it could have gone.

use super::{
    Root,
    parse::{ParseError, fields, lines, number},
};

/// Bytes of a sector in this file, whatever the device's own are.
pub const SECTOR_BYTES: u64 = 512;

/// One device's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStat {
    /// Reads that completed.
    pub reads: u64,
    /// Sectors read.
    pub read_sectors: u64,
    /// Time that reads took, in milliseconds, summed over reads.
    pub read_ms: u64,
    /// Writes that completed.
    pub writes: u64,
    /// Sectors written.
    pub write_sectors: u64,
    /// Time that writes took, in milliseconds, summed over writes.
    pub write_ms: u64,
    /// Time that requests were under way, in milliseconds, summed over requests.
    pub queue_ms: u64,
}

impl DiskStat {
    /// What happened since an earlier read.
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            reads: growth(self.reads, earlier.reads),
            read_sectors: growth(self.read_sectors, earlier.read_sectors),
            read_ms: growth(self.read_ms, earlier.read_ms),
            writes: growth(self.writes, earlier.writes),
            write_sectors: growth(self.write_sectors, earlier.write_sectors),
            write_ms: growth(self.write_ms, earlier.write_ms),
            queue_ms: growth(self.queue_ms, earlier.queue_ms),
        }
    }
}

/// The growth of a counter that may be 32 bits wide. One that stepped back further than a wrap
/// explains began anew with its device: then it grew by what it is now.
const fn growth(now: u64, before: u64) -> u64 {
    const WRAP: u64 = 1 << 32;
    /// A second of the fastest devices stays far below this.
    const MOST: u64 = 1 << 30;
    if now >= before {
        return now - before;
    }
    let over_the_wrap = now.wrapping_add(WRAP).wrapping_sub(before);
    if before < WRAP && over_the_wrap < MOST { over_the_wrap } else { now }
}

/// The devices and partitions with their names, in the kernel's order. Lines with too few fields
/// are passed over.
///
/// # Errors
///
/// When a field is not a number.
pub fn parse(text: &[u8]) -> Result<Vec<(Vec<u8>, DiskStat)>, ParseError> {
    lines(text)
        .filter_map(|(line_number, line)| parse_line(line, line_number).transpose())
        .collect()
}

/// The block devices that are disks and not parts of one. `/sys` has a folder for each disk; where it
/// is not there, a name that continues another's tells.
pub fn disks<'n>(names: impl Iterator<Item = &'n [u8]> + Clone, root: &Root) -> Vec<&'n [u8]> {
    let has_folder = |name: &&[u8]| {
        // In a file's name a slash is written as an exclamation mark.
        let name = String::from_utf8_lossy(name).replace('/', "!");
        let mut text = Vec::new();
        !name.contains("..") && root.read(&format!("sys/block/{name}/size"), &mut text).is_ok()
    };
    let found: Vec<&[u8]> = names.clone().filter(has_folder).collect();
    if !found.is_empty() {
        return found;
    }
    let is_part = |name: &&[u8]| names.clone().any(|disk| is_part_of(name, disk));
    names.clone().filter(|name| !is_part(name)).collect()
}

/// `sda1` of `sda`, `nvme0n1p2` of `nvme0n1`; not `dm-10` of `dm-1`.
fn is_part_of(name: &[u8], disk: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(disk) else { return false };
    let number = match disk.last() {
        Some(last) if last.is_ascii_digit() => rest.strip_prefix(b"p").unwrap_or_default(),
        Some(_) | None => rest,
    };
    !number.is_empty() && number.iter().all(u8::is_ascii_digit)
}

/// The numbers of the devices and partitions, with their names: what is no such line is passed over.
pub fn numbers(text: &[u8]) -> Vec<((u32, u32), Vec<u8>)> {
    let one = |(line_number, line)| {
        let mut parts = fields(line);
        let mut next = || u32::try_from(number(parts.next()?, line_number).ok()?).ok();
        let numbers = (next()?, next()?);
        Some((numbers, parts.next()?.to_vec()))
    };
    lines(text).filter_map(one).collect()
}

fn parse_line(line: &[u8], line_number: usize) -> Result<Option<(Vec<u8>, DiskStat)>, ParseError> {
    const COUNTERS: usize = 11;
    let mut parts = fields(line).skip(2);
    let Some(name) = parts.next() else { return Ok(None) };
    let mut counters = [0; COUNTERS];
    let mut found = 0;
    for (place, field) in counters.iter_mut().zip(parts) {
        *place = number(field, line_number)?;
        found += 1;
    }
    if found < COUNTERS {
        return Ok(None);
    }
    let [reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, _, _, queue_ms] =
        counters;
    let stat = DiskStat { reads, read_sectors, read_ms, writes, write_sectors, write_ms, queue_ms };
    Ok(Some((name.to_vec(), stat)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn devices_of_old_and_new_kernels() {
        // Linux 6 has seventeen counters, 2.6 eleven, and its partitions four.
        let text = b" 254       0 vda 10 1 80 5 20 2 160 9 3 12 14 1 0 8 2 3 4\n\
                     \x20  8       1 sda1 1 8 2 16\n   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n\n";
        let found = parse(text).unwrap();
        let names: Vec<&[u8]> = found.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names, [b"vda".as_slice(), b"sda"]);
        let want = DiskStat {
            reads: 10,
            read_sectors: 80,
            read_ms: 5,
            writes: 20,
            write_sectors: 160,
            write_ms: 9,
            queue_ms: 14,
        };
        assert_eq!(found[0].1, want);
        assert!(parse(b"8 0 sda 1 2 x 4 5 6 7 8 9 10 11\n").is_err());
    }

    #[test]
    fn counters_wrap_and_begin_anew() {
        let cases = [
            ("grew", 7, 5, 2),
            ("the same", 5, 5, 0),
            ("wrapped", 100, (1 << 32) - 50, 150),
            ("the device was replaced", 3, 4_000_000, 3),
            ("a counter of 64 bits began anew", 3, 1 << 40, 3),
        ];
        for (name, now, before, want) in cases {
            assert_eq!(growth(now, before), want, "{name}");
        }
    }

    #[test]
    fn partitions_are_told_from_disks_without_sys() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("proc")).unwrap();
        let root = Root::at(folder.path()).unwrap();
        let names = ["sda", "sda1", "nvme0n1", "nvme0n1p2", "dm-1", "dm-10", "md127"];
        let disks = || {
            let disks = super::disks(names.iter().map(|name| name.as_bytes()), &root);
            disks.into_iter().map(|name| str::from_utf8(name).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(disks(), ["sda", "nvme0n1", "dm-1", "dm-10", "md127"]);
        // With it, only what it lists.
        std::fs::create_dir_all(folder.path().join("sys/block/sda")).unwrap();
        std::fs::write(folder.path().join("sys/block/sda/size"), "8\n").unwrap();
        assert_eq!(disks(), ["sda"]);
    }

    #[test]
    fn devices_have_numbers_and_names() {
        let text = b" 254       0 vda 10 1 80\n   7       3 loop3\nx 1 y\n\n";
        let found = numbers(text);
        assert_eq!(found, [((254, 0), b"vda".to_vec()), ((7, 3), b"loop3".to_vec())]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_file_or_an_error(text in prop::collection::vec(any::<u8>(), 0..400)) {
            let _ = parse(&text);
        }

        #[test]
        fn no_growth_is_larger_than_the_counter(now: u64, before: u64) {
            prop_assert!(growth(now, before) <= now.max(1 << 30));
        }
    }
}
