//! Events of the kernel's tracepoints, each with its fields, in the order in which they happened.
//!
//! Kernel reference: `Documentation/trace/events.rst`, `perf_trace_run_bpf_submit` in
//! `include/trace/perf.h`. Which fields there are is in the tracepoint's `format` in tracefs; the numbers
//! of system calls are the same on every kernel.

use super::{
    Basis, LEAST_RING_KIB, Layout, MOST_RINGS_KIB, Rings, Sampler, SamplerError, Scope, Wanted,
    negotiate, targets,
};
use crate::{
    perf::attr::{Attributes, Event, FORMAT_LOST, USER_REGISTERS, flag, sample},
    proc::Root,
};
use std::ffi::CString;

/// A tracepoint whose events are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// Its number in tracefs.
    pub id: u64,
    /// Which of its events, by an expression over its fields; all without.
    pub filter: Option<CString>,
    /// Whether each event tells of a program of 32 bits.
    pub with_registers: bool,
}

/// Room for each processor: a tenth of a second of 400,000 events a second.
const RING_KIB: u32 = 4096;

impl Sampler {
    /// Opens tracepoints, the first of which also tells who is born and who runs another program. They do
    /// not count before [`Sampler::start`]. The rings fill fast: they are to be drained at every
    /// opportunity.
    ///
    /// # Errors
    ///
    /// As for the variants.
    pub fn open_tracepoints(
        root: &Root,
        scope: &Scope,
        tracepoints: &[Tracepoint],
    ) -> Result<Self, SamplerError> {
        let cpus = targets::processors(root)?;
        let mut wanted = Vec::with_capacity(tracepoints.len());
        for (place, tracepoint) in tracepoints.iter().enumerate() {
            let event = Event::Tracepoint(tracepoint.id);
            let mut attributes = describe(event, tracepoint.with_registers, place == 0);
            negotiate::adapt_tracepoint(root, &mut attributes)?;
            let basis = Basis::of_tracepoint(event, attributes);
            wanted.push(Wanted { basis, filter: tracepoint.filter.clone() });
        }
        let each = MOST_RINGS_KIB / u32::try_from(cpus.len().max(1)).unwrap_or(u32::MAX);
        let each = 1 << each.max(LEAST_RING_KIB).ilog2();
        let kib = RING_KIB.min(each);
        let rings = Rings { kib, wanted_kib: RING_KIB, least_kib: LEAST_RING_KIB };
        let layout = Layout {
            with_chain: false,
            with_fields: true,
            with_user_stack: false,
            fixed_period: Some(1),
        };
        Self::open_each(root, scope, (&cpus, &wanted), rings, layout)
    }
}

fn describe(event: Event, with_registers: bool, tells_of_tasks: bool) -> Attributes {
    const MONOTONIC: i32 = 1;
    let mut attributes = Attributes::of(event);
    attributes.period = 1;
    attributes.sample_type = sample::IP | sample::TID | sample::TIME | sample::CPU | sample::RAW;
    attributes.flags |= flag::DISABLED | flag::WATERMARK | flag::SAMPLE_ID_ALL | flag::USE_CLOCKID;
    if tells_of_tasks {
        attributes.flags |= flag::TASK | flag::COMM | flag::COMM_EXEC;
    }
    if with_registers {
        attributes.sample_type |= sample::REGS_USER;
        attributes.user_registers = USER_REGISTERS;
    }
    attributes.read_format = FORMAT_LOST;
    attributes.clock = MONOTONIC;
    // Nobody is woken: the rings are looked at often enough.
    attributes.wakeup = u32::MAX >> 1;
    attributes
}
