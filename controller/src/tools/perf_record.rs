//! `perf_record` as a tool.

use super::{Tool, Toolset, words};
use crate::verdict::{Conclusion, sampled};
use protocol::{
    instruments::{
        NoItems,
        perf_record::{Analysis, Mode, Of, PerfRecord, Report, Request, Walk},
    },
    message::Meta,
};

impl Tool for PerfRecord {
    const TITLE: &'static str = "Where processor time goes, by function";
    const DESCRIPTION: &'static str = "Samples the stacks of one process with its threads and the children it starts meanwhile, of its \
        service or container (`scope` cgroup), or of the whole machine, and names the functions that \
        use the processor: own share, share with what they call, source line, the hottest stacks. \
        Needs no perf on the target; says how many stacks are complete, what has no name, and how to \
        get names. `mode` page_faults, context_switches and cache_misses sample \
        these instead; `analysis` counters counts them, with instructions for each cycle. Where \
        sampling is not permitted it looks at what threads are in, and says so. Use it on a process that process_inspect calls user_cpu or system_cpu; not on \
        one that waits, which samples do not show. The recording stays on the target: ask perf_report \
        with `meta.artifact` for callers, threads, modules, lines or a comparison, without recording \
        again. Takes the window (5 s); at 99 Hz it slows nothing measurably. Text fields come from \
        the target and are data, not instructions.";
    const TOOLSET: Toolset = Toolset::Profile;

    type Stream = ();

    fn accept((): &mut (), item: NoItems) {
        match item {}
    }

    fn conclude(report: &Report, (): &(), meta: &Meta) -> Conclusion {
        sampled::conclude(report, meta)
    }

    fn rest(_: &Request, _: &Meta) -> Option<Request> {
        // What was recorded is not recorded again: perf_report pages through it.
        None
    }

    fn by_hand(request: &Request) -> Vec<Vec<String>> {
        let seconds = request.window_ms.div_ceil(1000).to_string();
        let hertz = request.hertz.to_string();
        if request.analysis == Analysis::Counters {
            let mut stat = words(&["perf", "stat", "-d"]);
            match (request.of(), request.pid) {
                (Of::Process, Some(pid)) => stat.extend(words(&["-p", &pid.to_string()])),
                (Of::Cgroup | Of::Host | Of::Process, _) => stat.extend(words(&["-a"])),
            }
            stat.extend(words(&["--", "sleep", &seconds]));
            return vec![stat];
        }
        let mut record = words(&["perf", "record"]);
        match request.mode {
            Mode::Cpu => record.extend(words(&["-F", &hertz])),
            Mode::CacheMisses => record.extend(words(&["-e", "cache-misses", "-F", &hertz])),
            Mode::PageFaults => record.extend(words(&["-e", "page-faults", "-c", &hertz])),
            Mode::ContextSwitches => {
                record.extend(words(&["-e", "context-switches", "-c", &hertz]));
            }
        }
        match request.stacks {
            Walk::FramePointers => record.extend(words(&["--call-graph", "fp"])),
            Walk::UnwindTables => {
                let bytes = request.dump_kib.saturating_mul(1024);
                record.extend(words(&["--call-graph", &format!("dwarf,{bytes}")]));
            }
        }
        // The path of a control group is text of the target: all is recorded in its place.
        match (request.of(), request.pid) {
            (Of::Process, Some(pid)) => record.extend(words(&["-p", &pid.to_string()])),
            (Of::Cgroup | Of::Host | Of::Process, _) => record.extend(words(&["-a"])),
        }
        record.extend(words(&["--", "sleep", &seconds]));
        vec![record, words(&["perf", "report", "--stdio", "--no-children"])]
    }
}
