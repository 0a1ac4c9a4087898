//! Sizes by mapping, or their sums: read where that does not keep the process waiting for long.
//!
//! The kernel walks the page tables of a process with its `mmap_lock` held. Meanwhile no thread of the
//! process maps or unmaps memory, and on kernels before 6.4 none gets a new page either. It lets go
//! between pieces of `smaps`, and since 5.10 of `smaps_rollup` where somebody waits, but never within a
//! mapping. What is estimated is the time of the whole walk, which the pause cannot exceed by much.

use crate::{
    call::millis,
    instruments::{one_process::alive, process_files::ProcessFiles},
    proc::pid_smaps::{self, Amounts, Region},
};
use protocol::{
    instruments::memory_profile::{Smaps, WithSmaps},
    observed::{Feature, Observed, Reason},
};
use std::time::{Duration, Instant};

/// The longest that is risked unasked, in milliseconds: a tenth of what a person notices as a hang.
const MOST_UNASKED_MS: u32 = 50;

/// What a page costs, as measured on Linux 6.18: 15 to 19 ms for the 262,144 pages of 1 GiB.
const PAGE_NS: u64 = 70;

/// What a mapping costs in `smaps`, where each is 20 lines of text: 67 ms for 20,000.
const MAPPING_NS: u64 = 4_000;

/// What a mapping costs in the sums: 5 ms for 20,000.
const SUMMED_MAPPING_NS: u64 = 300;

/// What was read.
#[derive(Debug)]
pub(super) struct Sizes {
    /// Of all mappings together.
    pub(super) sums: Result<Amounts, Reason>,
    /// Of each.
    pub(super) regions: Result<Vec<Region>, Reason>,
    /// What it took.
    pub(super) smaps: Smaps,
}

/// Reads as much as may be. `held` is the memory of the process, resident or swapped, in bytes.
pub(super) fn read(
    files: &ProcessFiles<'_, '_>,
    held: &Observed<u64>,
    with_smaps: WithSmaps,
) -> Sizes {
    if with_smaps == WithSmaps::Never {
        return Sizes::unknown(&Reason::NotAskedFor);
    }
    let files = alive(files);
    let mappings = count(&files);
    let pages = held.clone().map(|held| held / files.context.root.page_bytes().max(1));
    let estimate = |each_ns: u64| {
        let both = pages.clone().zip(mappings.clone().into());
        both.map(|(pages, mappings)| estimated_ms(pages, mappings, each_ns))
    };
    let whole = estimate(MAPPING_NS);
    let is_snapshot = files.context.root.is_snapshot();
    let is_risked = |estimated: &Observed<u32>| {
        // Nobody waits in a snapshot.
        if with_smaps == WithSmaps::Always || is_snapshot {
            return Ok(());
        }
        match estimated {
            Observed::Known(ms) if *ms <= MOST_UNASKED_MS => Ok(()),
            Observed::Known(ms) => {
                Err(Reason::WouldPause { estimated_ms: *ms, limit_ms: MOST_UNASKED_MS })
            }
            Observed::Unknown(reason) => Err(reason.clone()),
        }
    };
    let started = Instant::now();
    let mut smaps = Smaps {
        mappings: mappings.clone().into(),
        estimated_ms: whole.clone(),
        took_ms: Observed::Unknown(Reason::NotAskedFor),
    };
    let took = |since: Instant| match is_snapshot {
        true => Observed::Unknown(Reason::NotInSnapshot),
        false => Observed::Known(millis(since.elapsed())),
    };
    match is_risked(&whole) {
        Ok(()) => {
            let regions = files.parsed("smaps", Feature::MappingSizes, pid_smaps::parse);
            smaps.took_ms =
                regions.clone().map(|_| ()).map_or_else(Observed::Unknown, |()| took(started));
            let sums = match &regions {
                Ok(regions) => Ok(pid_smaps::sum(regions)),
                // Too long for one, and not for the other.
                Err(Reason::TooLong | Reason::NotInSnapshot) => rollup(&files),
                Err(reason) => Err(reason.clone()),
            };
            Sizes { sums, regions, smaps }
        }
        Err(reason) => {
            let sums = is_risked(&estimate(SUMMED_MAPPING_NS)).and_then(|()| rollup(&files));
            // A kernel without sums would have to be asked for all.
            let lacks = Reason::KernelLacks(Feature::MappingSizes);
            let sums = sums.map_err(|why| if why == lacks { reason.clone() } else { why });
            smaps.took_ms = match &sums {
                Ok(_) => took(started),
                Err(why) => Observed::Unknown(why.clone()),
            };
            Sizes { sums, regions: Err(reason), smaps }
        }
    }
}

fn rollup(files: &ProcessFiles<'_, '_>) -> Result<Amounts, Reason> {
    files.parsed("smaps_rollup", Feature::MappingSizes, pid_smaps::parse_rollup)
}

/// How many mappings there are. The list of them takes the same lock, and is cheap: the kernel lets go
/// after each page of text.
fn count(files: &ProcessFiles<'_, '_>) -> Result<u64, Reason> {
    let text = files.whole("maps", Feature::MappingSizes)?;
    Ok(text.iter().filter(|byte| **byte == b'\n').count() as u64)
}

fn estimated_ms(pages: u64, mappings: u64, each_ns: u64) -> u32 {
    let nanos = pages.saturating_mul(PAGE_NS).saturating_add(mappings.saturating_mul(each_ns));
    millis(Duration::from_nanos(nanos))
}

impl Sizes {
    /// Nothing, and why.
    pub(super) fn unknown(reason: &Reason) -> Self {
        Self {
            sums: Err(reason.clone()),
            regions: Err(reason.clone()),
            smaps: Smaps {
                mappings: Observed::Unknown(reason.clone()),
                estimated_ms: Observed::Unknown(reason.clone()),
                took_ms: Observed::Unknown(reason.clone()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instruments::fake::FakeMachine;

    const MAPS: &str = "1000-2000 r-xp 0 8:1 1 /a\n2000-3000 rw-p 0 0:0 0 [heap]\n";
    const SMAPS: &str = "1000-2000 r-xp 0 8:1 1 /a\nRss: 4 kB\nPss: 2 kB\n\
                         2000-3000 rw-p 0 0:0 0 [heap]\nRss: 4 kB\nPss: 4 kB\nPrivate_Dirty: 4 kB\n";
    const ROLLUP: &str = "1000-3000 ---p 0 0:0 0 [rollup]\nRss: 8 kB\nPss: 6 kB\n";
    const GIB: u64 = 1 << 30;

    fn read_of(maps: &str, held: u64, with_smaps: WithSmaps, rollup: Option<&str>) -> Sizes {
        let machine = FakeMachine::new();
        machine.write("7/stat", "");
        machine.write("7/maps", maps);
        machine.write("7/smaps", SMAPS);
        if let Some(rollup) = rollup {
            machine.write("7/smaps_rollup", rollup);
        }
        let context = machine.context();
        read(&ProcessFiles { pid: 7, context: &context }, &Observed::Known(held), with_smaps)
    }

    fn would_pause(sizes: &Result<Vec<Region>, Reason>) -> u32 {
        match sizes {
            Err(Reason::WouldPause { estimated_ms, limit_ms: 50 }) => *estimated_ms,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_small_process_is_read_whole() {
        let found = read_of(MAPS, 8192, WithSmaps::Auto, Some(ROLLUP));
        assert_eq!(found.smaps.mappings, Observed::Known(2));
        assert_eq!(found.smaps.estimated_ms, Observed::Known(0));
        assert!(found.smaps.took_ms.known().is_some());
        assert_eq!(found.sums.unwrap().proportional, 6144);
        assert_eq!(found.regions.unwrap().len(), 2);
    }

    #[test]
    fn one_with_many_mappings_is_only_summed_up_unasked() {
        let many = "1000-2000 rw-p 0 0:0 0\n".repeat(20_000);
        let found = read_of(&many, GIB / 8, WithSmaps::Auto, Some(ROLLUP));
        assert_eq!(would_pause(&found.regions), 82);
        assert_eq!(found.sums.unwrap().proportional, 6144);
        // Without sums in the kernel there is nothing less to read.
        let found = read_of(&many, GIB / 8, WithSmaps::Auto, None);
        assert!(matches!(found.sums, Err(Reason::WouldPause { estimated_ms: 82, .. })));
        let found = read_of(&many, GIB / 8, WithSmaps::Always, None);
        assert_eq!(
            (found.smaps.estimated_ms, found.regions.unwrap().len()),
            (Observed::Known(82), 2)
        );
    }

    #[test]
    fn a_huge_one_is_not_even_summed_up_unasked() {
        let found = read_of(MAPS, 200 * GIB, WithSmaps::Auto, Some(ROLLUP));
        assert!((3_000..5_000).contains(&would_pause(&found.regions)), "{found:?}");
        assert!(matches!(found.sums, Err(Reason::WouldPause { .. })), "{found:?}");
        assert!(matches!(found.smaps.took_ms, Observed::Unknown(Reason::WouldPause { .. })));
        let found = read_of(MAPS, 200 * GIB, WithSmaps::Always, Some(ROLLUP));
        assert!(found.sums.is_ok() && found.regions.is_ok());
    }

    #[test]
    fn what_is_not_asked_for_is_not_read() {
        let machine = FakeMachine::new();
        machine.hang("7/maps");
        machine.hang("7/smaps");
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let found = read(&files, &Observed::Known(1), WithSmaps::Never);
        assert_eq!(found.sums, Err(Reason::NotAskedFor));
        assert_eq!(found.smaps.mappings, Observed::Unknown(Reason::NotAskedFor));
    }

    #[test]
    fn a_process_that_lets_no_reader_go_is_waited_for_once() {
        let machine = FakeMachine::new();
        machine.write("7/stat", "");
        machine.hang("7/maps");
        let context = machine.context();
        let files = ProcessFiles { pid: 7, context: &context };
        let found = read(&files, &Observed::Known(1), WithSmaps::Auto);
        assert!(matches!(found.regions, Err(Reason::DidNotReturn { .. })), "{found:?}");
        assert!(matches!(found.sums, Err(Reason::DidNotReturn { .. })), "{found:?}");
    }
}
