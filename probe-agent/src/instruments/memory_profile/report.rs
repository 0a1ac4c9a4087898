//! The report, out of what was watched and read.

use super::{
    sites::{self, NotRecorded, Recorded},
    sizes::Sizes,
    trend::difference,
    watch::Watch,
};
use crate::{
    call::Context,
    instruments::{
        cgroup_levels::MemoryEnd,
        one_process::{self, Line},
        process_files::ProcessFiles,
        window::{Window, growth},
    },
    proc::{
        Root, host_stat, memory,
        pid_smaps::{Amounts, Region},
        pid_status::{self, MemoryLines, SizeLines},
    },
    rank::{self, Page},
};
use protocol::{
    Report as AnyReport,
    error::AgentError,
    host_text::HostText,
    instruments::memory_profile::{
        Cgroup, Composition, Growth, Host, Mapping, Report, Request, Totals, Trend,
    },
    loss::{Lost, Truncation},
    message::{Engine, Meta},
    observed::{Feature, Observed, Reason},
    units::Bytes,
    view::json,
};
use std::collections::BTreeMap;

/// The longest name of a mapping, in bytes of its end.
const NAME_BYTES: usize = 100;

/// Everything that was found.
pub(super) struct Found<'w, 'l, 'c, 's> {
    pub(super) first: Line,
    pub(super) last: Line,
    /// Whose files say what the process has.
    pub(super) via: u32,
    pub(super) watch: &'w Watch<'l, 'c, 's>,
    pub(super) has_memory: Result<(), Reason>,
    pub(super) sizes: Sizes,
    /// At both ends.
    pub(super) cgroup: [MemoryEnd; 2],
    pub(super) recorded: Result<Recorded, NotRecorded>,
}

/// Puts the report together.
///
/// # Errors
///
/// When the call reached a limit.
pub(super) fn assemble(
    request: &Request,
    mut found: Found<'_, '_, '_, '_>,
    context: &Context<'_>,
) -> Result<(Report, Meta), AgentError> {
    context.check()?;
    let (process, redacted) = one_process::identity((request.pid, found.via), &found.last, context);
    let not_asked = Err(NotRecorded::Because(Reason::NotAskedFor));
    let recorded = std::mem::replace(&mut found.recorded, not_asked);
    let has_sampled = recorded.is_ok();
    let (sites, refused, artifact) = match recorded {
        Ok(recorded) => {
            let (sites, refused, artifact) = sites::report(recorded, context);
            (Observed::Known(sites), refused, artifact)
        }
        Err(NotRecorded::Refused(refusal)) => {
            (Observed::Unknown(Reason::NotSampling), vec![refusal], None)
        }
        Err(NotRecorded::Because(reason)) => {
            let reason = found.has_memory.clone().err().unwrap_or(reason);
            (Observed::Unknown(reason), Vec::new(), None)
        }
    };
    let window = Window::between(found.first.at, found.last.at);
    let rows = found.sizes.regions.clone().map(|regions| mappings(&regions));
    let mut page = rows.map(|rows| rank::page(rows, held, 0, request.mappings as usize));
    let lines = found.sizes(context);
    let mut report = Report {
        process,
        growth: Box::new(found.growth(context)),
        totals: found.totals(&lines),
        composition: found.composition(&lines),
        smaps: found.sizes.smaps.clone(),
        mappings: page.as_ref().map(|_| Vec::new()).map_err(Clone::clone).into(),
        cgroup: found.cgroup(window, context.root),
        host: host(context.root),
        sites,
        refused,
    };
    let mut meta = Meta {
        engine: if has_sampled { Engine::PerfEvents } else { Engine::Procfs },
        window_ms: Some(window.millis()),
        truncation: page.as_ref().map_or(Truncation::none(0), |page| page.truncation),
        artifact,
        lost: Lost::default(),
        overhead: context.overhead(),
        redacted,
    };
    if let Observed::Known(sites) = &report.sites {
        meta.lost.samples = sites.lost_samples;
    }
    if let Ok(page) = &mut page {
        fit(page, &mut report, &mut meta, context);
        if request.mappings == 0 {
            // None was asked for: then none was cut either.
            meta.truncation = Truncation::none(0);
        }
    }
    meta.overhead = context.overhead();
    Ok((report, meta))
}

/// Shortens the mappings until the answer fits.
fn fit(page: &mut Page<Mapping>, report: &mut Report, meta: &mut Meta, context: &Context<'_>) {
    let budget = context.budget.answer_bytes as usize;
    rank::fit(page, held, budget, |page, rows| {
        let shown: Vec<Mapping> = page.rows.iter().take(rows).cloned().collect();
        report.mappings = Observed::Known(shown);
        json::bytes(&AnyReport::MemoryProfile(report.clone()), meta)
    });
    report.mappings = Observed::Known(std::mem::take(&mut page.rows));
    meta.truncation = page.truncation;
}

/// What a mapping is ranked by.
fn held(row: &Mapping) -> Observed<f64> {
    Observed::Known(row.rss_bytes.0.saturating_add(row.swap_bytes.0) as f64)
}

/// A row for each file and each kind of rights.
fn mappings(regions: &[Region]) -> Vec<Mapping> {
    type Key<'r> = (&'r [u8], &'r [u8]);
    let mut rows: BTreeMap<Key<'_>, (u32, u64, Amounts)> = BTreeMap::new();
    for region in regions {
        let key = (region.name.as_slice(), region.rights.as_slice());
        let (count, size, amounts) = rows.entry(key).or_default();
        *count = count.saturating_add(1);
        *size = size.saturating_add(region.size);
        amounts.add(&region.amounts);
    }
    let row = |((name, rights), (count, size, amounts)): (Key<'_>, (u32, u64, Amounts))| Mapping {
        name: match name {
            [] => HostText::new(b"[anonymous]"),
            _ => HostText::new(name).end_of_path(NAME_BYTES),
        },
        rights: HostText::capped(rights, 8),
        mappings: count,
        size_bytes: Bytes(size),
        rss_bytes: Bytes(amounts.resident),
        pss_bytes: Bytes(amounts.proportional),
        private_dirty_bytes: Bytes(amounts.private_dirty),
        swap_bytes: Bytes(amounts.swap),
    };
    rows.into_iter().map(row).collect()
}

impl Found<'_, '_, '_, '_> {
    fn growth(&self, context: &Context<'_>) -> Growth {
        let trend = |kind: &dyn Fn(&MemoryLines) -> Option<Bytes>| -> Observed<Trend> {
            let two = self.has_memory.clone().and_then(|()| context.root.has_two_instants());
            match two {
                Ok(()) => self.watch.trend(kind),
                Err(reason) => Observed::Unknown(reason),
            }
        };
        Growth {
            samples: u32::try_from(self.watch.count()).unwrap_or(u32::MAX),
            resolution_bytes: resolution(context.root),
            own: trend(&|lines| {
                let swap = lines.swap.map_or(0, |swap| swap.0);
                Some(Bytes(lines.anonymous?.0.saturating_add(swap)))
            }),
            file: trend(&|lines| lines.file),
            shared: trend(&|lines| lines.shared),
            swap: trend(&|lines| lines.swap),
        }
    }

    /// What was resident at the last look.
    fn memory(&self) -> Observed<MemoryLines> {
        let has_memory = Observed::from(self.has_memory.clone());
        has_memory.zip(self.watch.last()).map(|((), lines)| lines)
    }

    fn sizes(&self, context: &Context<'_>) -> Observed<SizeLines> {
        let files = ProcessFiles { pid: self.via, context };
        let read =
            || files.parsed("status", Feature::Field, |text| Ok(pid_status::parse_sizes(text)));
        self.has_memory.clone().and_then(|()| read()).into()
    }

    fn totals(&self, lines: &Observed<SizeLines>) -> Totals {
        let memory = self.memory();
        let sums = || Observed::from(self.sizes.sums.clone());
        Totals {
            rss_bytes: memory.clone().map(|lines| lines.resident),
            pss_bytes: sums().map(|sums| Bytes(sums.proportional)),
            uss_bytes: sums().map(|sums| Bytes(sums.unique())),
            swap_bytes: memory.and_then(|lines| lines.swap.ok_or(LACKS)),
            peak_bytes: lines.clone().and_then(|sizes| sizes.peak.ok_or(LACKS)),
        }
    }

    fn composition(&self, lines: &Observed<SizeLines>) -> Composition {
        let part = |part: fn(&MemoryLines) -> Option<Bytes>| {
            self.memory().and_then(|lines| part(&lines).ok_or(LACKS))
        };
        let size = |part: fn(&SizeLines) -> Option<Bytes>| {
            lines.clone().and_then(|sizes| part(&sizes).ok_or(LACKS))
        };
        let regions = &self.sizes.regions;
        let named = |name: &[u8]| {
            let of = |regions: &Vec<Region>| {
                let found = regions.iter().filter(|region| region.name == name);
                Bytes(found.map(|region| region.amounts.resident).sum())
            };
            Observed::from(regions.as_ref().map(of).map_err(Clone::clone))
        };
        Composition {
            anonymous_bytes: part(|lines| lines.anonymous),
            heap_bytes: named(b"[heap]"),
            stack_bytes: named(b"[stack]"),
            file_bytes: part(|lines| lines.file),
            shared_bytes: part(|lines| lines.shared),
            huge_pages_bytes: Observed::from(self.sizes.sums.clone()).map(|sums| Bytes(sums.huge)),
            hugetlb_bytes: size(|sizes| sizes.hugetlb),
            page_tables_bytes: size(|sizes| sizes.page_tables),
            locked_bytes: size(|sizes| sizes.locked),
        }
    }

    fn cgroup(&self, window: Window, root: &Root) -> Cgroup {
        let [before, now] = &self.cgroup;
        let two_instants = || Observed::from(root.has_two_instants());
        let in_window = |count: Observed<u64>| two_instants().zip(count).map(|((), count)| count);
        let both = two_instants().zip(now.working_set.clone()).zip(before.working_set.clone());
        Cgroup {
            memory_bytes: now.memory.clone(),
            working_set_bytes: now.working_set.clone(),
            working_set_growth_bytes_per_s: both.and_then(|(((), now), before)| {
                let millis = i64::try_from(window.millis()).unwrap_or(i64::MAX);
                let grown = difference(now.0, before.0).saturating_mul(1000);
                grown.checked_div(millis).ok_or(Reason::EmptyWindow)
            }),
            limit_bytes: now.limit.clone(),
            left_bytes: now.left.clone(),
            limit_hits: in_window(now.limit_hits_since(before)),
            oom_kills: in_window(growth(&now.oom_kills, &before.oom_kills)),
            swap_bytes: now.swap.clone(),
        }
    }
}

/// A line that this kernel does not have.
const LACKS: Reason = Reason::KernelLacks(Feature::Field);

/// How far the kernel's counts of resident pages may be behind. Since Linux 6.2 each processor keeps up to
/// `percpu_counter_batch` of its own, which is 32 pages, or twice as many as there are processors; before,
/// each thread kept up to 64 (`mm/memory.c`, `lib/percpu_counter.c`).
fn resolution(root: &Root) -> Bytes {
    let cpus = host_stat::read(root).map_or(1, |stat| u64::from(stat.cpus.max(1)));
    let batch = (2 * cpus).max(32);
    Bytes(cpus.saturating_mul(batch).max(64).saturating_mul(root.page_bytes()))
}

fn host(root: &Root) -> Host {
    let mut text = Vec::new();
    let read = root.read_proc("meminfo", &mut text);
    let read = read.map_err(|error| error.reason_of_file(Feature::Field));
    let amount = |name| -> Observed<Bytes> {
        let parse = || memory::amount(&text, name).map_err(|_| LACKS);
        read.clone().and_then(|()| parse()).into()
    };
    Host {
        memory_bytes: amount("MemTotal"),
        available_bytes: amount("MemAvailable"),
        swap_free_bytes: amount("SwapFree"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn region(name: &str, rights: &str, resident: u64) -> Region {
        Region {
            size: 4096,
            rights: rights.as_bytes().to_vec(),
            name: name.as_bytes().to_vec(),
            amounts: Amounts { resident, ..Amounts::default() },
        }
    }

    #[test]
    fn mappings_of_one_file_with_the_same_rights_are_one_row() {
        let found = mappings(&[
            region("/lib/a", "r-xp", 1),
            region("/lib/a", "r--p", 2),
            region("/lib/a", "r--p", 4),
            region("", "rw-p", 8),
        ]);
        let told: Vec<_> = found
            .iter()
            .map(|row| (row.name.as_str(), row.rights.as_str(), row.mappings, row.rss_bytes.0))
            .collect();
        let want =
            [("[anonymous]", "rw-p", 1, 8), ("/lib/a", "r--p", 2, 6), ("/lib/a", "r-xp", 1, 1)];
        assert_eq!(told, want);
    }

    #[test]
    fn a_name_that_no_terminal_should_obey_is_escaped_and_cut() {
        let name = format!("/tmp/{}/\u{1b}[2J", "x".repeat(300));
        let found = mappings(&[region(&name, "rw-p", 1)]);
        assert_eq!(found[0].name.as_str(), "…/\\x1b[2J");
    }
}
