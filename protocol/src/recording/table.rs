//! A recording as tables, for every answer about one.

use super::{
    Counted, Cut, FunctionRow, Incomplete, Kernel, NoNames, Recording, Scope, StackRow, Stacks,
};
use crate::{
    observed::Observed,
    parameter::spelled,
    view::{
        quantity::{or_unknown, percent},
        table::Table,
    },
};

/// Of what a recording is, and how far it can be relied on.
pub fn facts(title: &str, recording: &Recording) -> Table {
    let quality = &recording.quality;
    let of = match (recording.pid, recording.scope) {
        (_, Scope::Host) => "the whole machine".to_owned(),
        (_, Scope::Given) => "stacks that were given as text".to_owned(),
        (pid, Scope::Process | Scope::Cgroup) => {
            let what =
                if recording.scope == Scope::Process { "process" } else { "control group of" };
            let pid = pid.map_or_else(String::new, |pid| format!(" {pid}"));
            let name = recording.name.as_ref().map_or_else(String::new, |name| format!(" {name}"));
            format!("{what}{pid}{name}")
        }
    };
    let samples = if recording.scope == Scope::Given {
        format!("{}, by the counts of the text", recording.samples)
    } else {
        counts(recording)
    };
    let mut facts = vec![("of", of), ("samples", samples)];
    let known = |value: &Observed<_>| or_unknown(value, |value| percent(*value));
    let mut stacks = match recording.stacks {
        Stacks::FramePointers => {
            format!("by frame pointers {} %", known(&quality.by_frame_pointers_pct))
        }
        Stacks::UnwindTables => format!("complete {} %", known(&quality.complete_pct)),
        Stacks::Given => "as they were given".to_owned(),
    };
    for Incomplete { why, pct } in &quality.incomplete {
        stacks.push_str(&format!("; {} {} %", cut(*why), percent(*pct)));
    }
    facts.push(("stacks", stacks));
    let mut names = format!("unnamed {} %", known(&quality.unnamed_pct));
    for unnamed in &quality.unnamed {
        let (module, pct) = (&unnamed.module, percent(unnamed.pct));
        names.push_str(&format!("; {module} {pct} % ({})", no_names(unnamed.why)));
    }
    facts.push(("names", names));
    facts.push(("kernel", kernel(quality.kernel).to_owned()));
    let missed = [
        (quality.lost_samples, "samples lost"),
        (quality.throttled, "times throttled"),
        (quality.own_samples, "samples of the agent itself left out"),
    ];
    let missed: Vec<String> = missed
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    if !missed.is_empty() {
        facts.push(("missed", missed.join(", ")));
    }
    Table::facts(title, facts)
}

impl Counted {
    /// Whether it is sampled at a rate, rather than once for so many.
    pub const fn has_rate(self) -> bool {
        match self {
            Self::Cycles
            | Self::CpuClock
            | Self::CacheMisses
            | Self::Looks
            | Self::Given
            | Self::Nothing => true,
            Self::PageFaults | Self::ContextSwitches | Self::OffCpu => false,
        }
    }
}

const fn cut(why: Cut) -> &'static str {
    match why {
        Cut::ByDump => "cut by the dump",
        Cut::NoUnwindInfo => "no unwind tables",
        Cut::StackNotReadable => "stack not readable",
        Cut::NoMaps => "ended before it could be read",
        Cut::TooDeep => "too deep",
        Cut::Is32Bit => "32-bit program",
        Cut::ByMemory => "recording full",
    }
}

const fn no_names(why: NoNames) -> &'static str {
    match why {
        NoNames::Stripped => "stripped",
        NoNames::OtherDebugFile => "debug file of another build",
        NoNames::NoPerfMap => "no perf map",
        NoNames::NotOpened => "could not be opened",
        NoNames::KernelHidden => "names hidden",
        NoNames::NotMapped => "not mapped",
        NoNames::NoStack => "no stack",
    }
}

const fn kernel(kernel: Kernel) -> &'static str {
    match kernel {
        Kernel::Named => "included, with names",
        Kernel::NamesHidden => "included, names hidden",
        Kernel::NotAsked => "not asked for",
        Kernel::NotPermitted => "not permitted",
    }
}

/// Functions as a table.
pub fn function_table(rows: &[FunctionRow]) -> Table {
    let mut table =
        Table::with_columns("", &["%SELF", "%TOTAL", "<KIND", "<MODULE", "<LINE", "<FUNCTION"]);
    table.dispensable = vec!["LINE", "KIND", "MODULE"];
    for row in rows {
        table.rows.push(vec![
            percent(row.self_pct),
            percent(row.total_pct),
            row.kind.to_string(),
            row.module.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            row.line.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
            row.name.to_string(),
        ]);
    }
    table
}

/// A stack as a table: one call in a line, the outermost first.
pub fn stack_table(row: &StackRow) -> Table {
    let title = format!("{} % of samples have this stack", percent(row.pct));
    let mut table = Table::with_columns(title, &["<CALLS"]);
    for (index, call) in row.calls.iter().enumerate() {
        table.rows.push(vec![call.to_string()]);
        if index == 0 && row.calls_left_out > 0 {
            table.rows.push(vec![format!("… {} more calls", row.calls_left_out)]);
        }
    }
    table
}

/// Samples, what they count, and of how much.
fn counts(recording: &Recording) -> String {
    if recording.counted == Counted::OffCpu {
        return format!(
            "{} waits of {} ms together, {} processes, {} threads",
            recording.samples,
            recording.events / 1_000_000,
            recording.processes,
            recording.threads
        );
    }
    let unit = if recording.counted.has_rate() {
        format!("{} a second", recording.hertz)
    } else {
        format!("one for {} events", recording.hertz)
    };
    format!(
        "{} of {} ({unit}), {} processes, {} threads",
        recording.samples,
        spelled(&recording.counted),
        recording.processes,
        recording.threads
    )
}
