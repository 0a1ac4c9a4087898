//! A process that leaks, as the example of its instrument.

use super::{
    Cgroup, Composition, Growth, Host, Mapping, Rate, Report, Site, Sites, Smaps, Totals, Trend,
};
use crate::{
    host_text::HostText,
    instruments::{Instrument as _, process_inspect::ProcessInspect},
    observed::{Observed, Reason},
    recording::{Function, Kind},
    units::{Bytes, Percent},
};

fn known(bytes: u64) -> Observed<Bytes> {
    Observed::Known(Bytes(bytes))
}

fn percent(part: f64) -> Percent {
    Percent::of(part, 100.0).unwrap_or_default()
}

pub(super) fn report() -> Report {
    Report {
        process: ProcessInspect::example().report.process,
        growth: Box::new(growth()),
        totals: Totals {
            rss_bytes: known(412_090_368),
            pss_bytes: known(409_337_856),
            uss_bytes: known(408_944_640),
            swap_bytes: known(0),
            peak_bytes: known(412_090_368),
        },
        composition: Composition {
            anonymous_bytes: known(408_420_352),
            heap_bytes: known(407_355_392),
            stack_bytes: known(135_168),
            file_bytes: known(3_670_016),
            shared_bytes: known(0),
            huge_pages_bytes: known(0),
            hugetlb_bytes: known(0),
            page_tables_bytes: known(872_448),
            locked_bytes: known(0),
        },
        smaps: Smaps {
            mappings: Observed::Known(41),
            estimated_ms: Observed::Known(7),
            took_ms: Observed::Known(6),
        },
        mappings: Observed::Known(mappings()),
        cgroup: Cgroup {
            memory_bytes: known(430_178_304),
            working_set_bytes: known(415_236_096),
            working_set_growth_bytes_per_s: Observed::Known(2_098_112),
            limit_bytes: known(536_870_912),
            left_bytes: known(121_634_816),
            limit_hits: Observed::Known(0),
            oom_kills: Observed::Known(0),
            swap_bytes: known(0),
        },
        host: Host {
            memory_bytes: known(8_254_390_272),
            available_bytes: known(5_120_000_000),
            swap_free_bytes: known(0),
        },
        sites: Observed::Known(sites()),
        refused: Vec::new(),
    }
}

fn growth() -> Growth {
    Growth {
        samples: 101,
        resolution_bytes: Bytes(524_288),
        own: Observed::Known(Trend {
            first_bytes: Bytes(397_934_592),
            last_bytes: Bytes(408_420_352),
            least_bytes: Bytes(397_934_592),
            most_bytes: Bytes(408_420_352),
            rate: Observed::Known(Rate {
                bytes_per_s: 2_097_152,
                low_bytes_per_s: 2_003_814,
                high_bytes_per_s: 2_190_490,
            }),
            parts_grown: 10,
            parts_shrunk: 0,
            falls: 0,
            rising_pct: Observed::Known(percent(100.0)),
            floor_growth_bytes: 6_990_506,
        }),
        file: Observed::Known(still(3_670_016)),
        shared: Observed::Known(still(0)),
        swap: Observed::Known(still(0)),
    }
}

/// What did not change.
fn still(bytes: u64) -> Trend {
    Trend {
        first_bytes: Bytes(bytes),
        last_bytes: Bytes(bytes),
        least_bytes: Bytes(bytes),
        most_bytes: Bytes(bytes),
        rate: Observed::Known(Rate { bytes_per_s: 0, low_bytes_per_s: 0, high_bytes_per_s: 0 }),
        parts_grown: 0,
        parts_shrunk: 0,
        falls: 0,
        rising_pct: Observed::Unknown(Reason::NoTurns),
        floor_growth_bytes: 0,
    }
}

fn mappings() -> Vec<Mapping> {
    let row = |name: &str, rights: &str, sizes: [u64; 4]| {
        let [size, rss, pss, private_dirty] = sizes;
        Mapping {
            name: HostText::new(name.as_bytes()),
            rights: HostText::new(rights.as_bytes()),
            mappings: 1,
            size_bytes: Bytes(size),
            rss_bytes: Bytes(rss),
            pss_bytes: Bytes(pss),
            private_dirty_bytes: Bytes(private_dirty),
            swap_bytes: Bytes(0),
        }
    };
    vec![
        row("[heap]", "rw-p", [407_486_464, 407_355_392, 407_355_392, 407_355_392]),
        row("/usr/lib/x86_64-linux-gnu/libc.so.6", "r-xp", [1_396_736, 1_155_072, 27_648, 0]),
    ]
}

fn sites() -> Sites {
    let function = |name: &str| Function {
        name: HostText::new(name.as_bytes()),
        module: Some(HostText::new(b"journal")),
        kind: Kind::User,
    };
    Sites {
        faults: 2_561,
        each: 1,
        sampled_ms: 4_803,
        lost_samples: 0,
        complete_pct: Observed::Known(percent(100.0)),
        functions: vec![Site {
            function: function("remember_request"),
            share_pct: percent(98.4),
            at_least_bytes: Bytes(10_321_920),
        }],
        functions_total: 3,
        called_by: vec![function("serve"), function("main")],
    }
}
