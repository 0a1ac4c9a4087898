//! A recording at home: put together from what a target sent, and written in formats that other
//! programs read.
//!
//! Whoever controls the target chose what is in it. So each number is checked before it is followed,
//! and what all of it may come to is limited: what passes cannot make a writer go on for ever.

mod arriving;
mod destination;
mod firefox;
mod folded;
mod format;
mod picture;
mod pprof;
mod protobuf;
mod speedscope;
pub mod svg;

pub use arriving::{Arriving, ProfileError};
pub use destination::{Destination, DestinationError, Limited};
pub use format::{Document, Format};

use protocol::{
    host_text::HostText,
    instruments::export::{Call, Function, Line, Stack, Thread},
    recording::{Counted, Recording},
};

/// Stacks with their weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    recording: Recording,
    modules: Vec<HostText>,
    functions: Vec<Function>,
    threads: Vec<Thread>,
    /// A call's parent stands before it.
    calls: Vec<Call>,
    stacks: Vec<Stack>,
    lines: Vec<Line>,
}

/// What stands in the place of a stack without any frame.
const NO_STACK: &str = "[no stack]";

impl Profile {
    /// Of what it is, and how far it can be relied on.
    pub const fn recording(&self) -> &Recording {
        &self.recording
    }

    /// What it holds, and how good it is, in a sentence.
    pub fn summary(&self) -> String {
        let Recording { samples, quality, .. } = &self.recording;
        let share = |share: &protocol::observed::Observed<protocol::units::Percent>, what: &str| {
            share.known().map(|pct| format!("; {what}: {} %", pct.get())).unwrap_or_default()
        };
        format!(
            "{samples} samples of {}{}{}{}",
            match self.threads.len() {
                1 => "1 thread".to_owned(),
                threads => format!("{threads} threads"),
            },
            share(&quality.complete_pct, "stacks known to their end"),
            share(&quality.unnamed_pct, "samples in code without a name"),
            match quality.lost_samples {
                0 => String::new(),
                lost => format!("; {lost} samples were lost"),
            }
        )
    }

    /// The functions from a call's own outwards to that which nobody called.
    fn outwards(&self, call: Option<u32>) -> impl Iterator<Item = u32> {
        let mut at = call;
        std::iter::from_fn(move || {
            let found = self.calls.get(place(at?))?;
            at = found.parent;
            Some(found.function)
        })
    }

    /// The same inwards, for formats that begin with the outermost.
    fn inwards(&self, call: Option<u32>) -> Vec<u32> {
        let mut functions: Vec<u32> = self.outwards(call).collect();
        functions.reverse();
        functions
    }

    fn function(&self, index: u32) -> Option<&Function> {
        self.functions.get(place(index))
    }

    fn module_of(&self, function: &Function) -> Option<&HostText> {
        function.module.and_then(|module| self.modules.get(place(module)))
    }

    /// The source file of a function, where one is known.
    fn sources(&self) -> Vec<Option<&Line>> {
        let mut sources = vec![None; self.functions.len()];
        for line in &self.lines {
            if let Some(source) = sources.get_mut(place(line.function)) {
                source.get_or_insert(line);
            }
        }
        sources
    }

    /// How many samples a weight stands for: at least one.
    fn samples_of(&self, weight: u64) -> u64 {
        let Recording { samples, events, .. } = self.recording;
        if events == 0 {
            return weight.max(1);
        }
        let exact = u128::from(weight) * u128::from(samples);
        let rounded = (exact + u128::from(events) / 2) / u128::from(events);
        u64::try_from(rounded).unwrap_or(u64::MAX).max(1)
    }

    /// What weights are of, and their unit: as pprof names them.
    const fn unit(&self) -> (&'static str, &'static str) {
        match self.recording.counted {
            Counted::Cycles => ("cycles", "count"),
            Counted::CpuClock => ("cpu", "nanoseconds"),
            Counted::PageFaults => ("page-faults", "count"),
            Counted::ContextSwitches => ("context-switches", "count"),
            Counted::CacheMisses => ("cache-misses", "count"),
            Counted::Looks => ("looks", "count"),
            Counted::OffCpu => ("off-cpu", "nanoseconds"),
            Counted::Given | Counted::Nothing => ("weight", "count"),
        }
    }

    /// Of what it is, for a title.
    fn title(&self) -> String {
        let Recording { name, pid, .. } = &self.recording;
        match (name, pid) {
            (Some(name), Some(pid)) => format!("{name} ({pid})"),
            (Some(name), None) => name.to_string(),
            (None, _) => "the whole host".to_owned(),
        }
    }
}

/// A thread's name and number as one text: `worker 1 (4712)`.
fn thread_title(thread: &Thread) -> String {
    match thread.tid {
        0 => thread.name.to_string(),
        tid => format!("{} ({tid})", thread.name),
    }
}

/// An index into a list. On machines of 16 bits, on which nothing of this runs, it would be none.
fn place(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
