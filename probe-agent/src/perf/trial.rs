//! Events that are opened to see whether they may be: it is the right that counts.

use super::{
    attr::{Attributes, Event, flag, sample},
    event::{self, OpenEvent},
};
use rustix::io::Errno;

/// Of what it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// The calling thread.
    ThisThread,
    /// Another process's first thread.
    Process(u32),
    /// Everything that runs on the first processor.
    FirstProcessor,
}

/// How it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// What.
    pub event: Event,
    /// Of what.
    pub of: Of,
    /// Whether what the kernel does counts too.
    pub with_kernel: bool,
    /// Whether samples hold the fields of a tracepoint.
    pub with_fields: bool,
}

/// Opens an event. It counts from then on.
///
/// # Errors
///
/// What the kernel, or a filter before it, answered.
pub fn open(ask: Ask) -> Result<OpenEvent, Errno> {
    let samples = ask.with_fields || matches!(ask.event, Event::CpuClock);
    let mut attributes = Attributes::of(ask.event);
    // A sample each 100 ms, or for each event. Nobody reads them.
    attributes.period = match (samples, ask.event) {
        (false, _) => 0,
        (true, Event::CpuClock) => 100_000_000,
        (
            true,
            Event::PageFaults
            | Event::ContextSwitches
            | Event::Cycles
            | Event::CacheMisses
            | Event::Tracepoint(_),
        ) => 1,
    };
    attributes.sample_type = sample::IP | if ask.with_fields { sample::RAW } else { 0 };
    attributes.flags |= if ask.with_kernel { 0 } else { flag::EXCLUDE_KERNEL };
    let of = match ask.of {
        Of::ThisThread => event::Of::ThisThread,
        Of::Process(pid) => event::Of::Thread(pid, None),
        Of::FirstProcessor => event::Of::Processor(0),
    };
    event::open(attributes, of)
}
