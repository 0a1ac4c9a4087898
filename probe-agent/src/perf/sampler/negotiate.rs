//! What this kernel, this processor and this login can have of what is asked for.
//!
//! All is tried on the agent's own thread: what is refused there is refused everywhere. Software events
//! come first, so that what an old kernel does not know is told from what a processor does not have.

use super::{Measure, SamplerError, Settings, UserStack, refused, settings::sysctl};
use crate::{
    perf::{
        attr::{Attributes, Event, FORMAT_LOST, USER_REGISTERS, flag, sample},
        event::{self, Of},
    },
    proc::Root,
};
use rustix::io::Errno;

/// What samples are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Basis {
    /// What is counted.
    pub event: Event,
    /// What the better event was refused with, where there is one: the processor shows no counters.
    pub no_counter: Option<Errno>,
    /// Whether what the kernel does is in it.
    pub kernel: KernelPart,
    /// Samples in a second, or one for each so many events. Less than asked for where the kernel's own
    /// limit is lower.
    pub hertz: u64,
    /// How user space is walked.
    pub stack: UserStack,
    /// Whether times are of the monotonic clock. Without, before Linux 4.1, they only tell how much
    /// time passed.
    pub has_monotonic_times: bool,
    /// The description that works.
    pub(super) attributes: Attributes,
}

/// Whether what the kernel does is in a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelPart {
    /// It is.
    Included,
    /// It was not asked for.
    NotAsked,
    /// It may not be looked at.
    NotPermitted {
        /// What was answered.
        errno: Errno,
        /// `kernel.perf_event_paranoid`, where it can be read.
        paranoid: Option<i64>,
    },
}

impl Basis {
    /// Of looks at threads, which no event makes: a sample is a look at one thread.
    pub(crate) const fn of_looks(hertz: u64, dump_bytes: u32) -> Self {
        Self {
            event: Event::CpuClock,
            no_counter: None,
            kernel: KernelPart::NotAsked,
            hertz,
            stack: UserStack::UnwindTables { dump_bytes },
            has_monotonic_times: true,
            attributes: Attributes::of(Event::CpuClock),
        }
    }

    /// Of waits, which are followed one by one: an event is a nanosecond of one.
    pub(crate) const fn of_waits(dump_bytes: u32) -> Self {
        Self {
            event: Event::ContextSwitches,
            kernel: KernelPart::Included,
            ..Self::of_looks(1, dump_bytes)
        }
    }

    /// Of a tracepoint, each event of which is a sample.
    pub(super) const fn of_tracepoint(event: Event, attributes: Attributes) -> Self {
        Self {
            event,
            no_counter: None,
            kernel: KernelPart::Included,
            hertz: 1,
            stack: UserStack::FramePointers,
            has_monotonic_times: attributes.has(flag::USE_CLOCKID),
            attributes,
        }
    }

    /// Whether what is counted has a rate, rather than being counted one by one.
    pub const fn has_rate(&self) -> bool {
        self.attributes.has(flag::FREQUENCY)
    }

    /// Bytes of samples in a second that one processor may make.
    pub(super) fn bytes_per_s(&self) -> u64 {
        let each = u64::from(self.stack.dump_bytes()) + 512;
        // What is counted one by one comes in bursts.
        let hertz = if self.has_rate() { self.hertz } else { 10_000 };
        hertz.saturating_mul(each)
    }
}

/// What the kernel may not know, newest first. Without the last, mappings have no inode.
const LADDER: [fn(&mut Attributes); 3] = [
    |attributes| attributes.read_format &= !FORMAT_LOST,
    |attributes| {
        attributes.flags &= !flag::USE_CLOCKID;
        attributes.clock = 0;
    },
    |attributes| attributes.flags &= !flag::COMM_EXEC,
];

pub(super) fn negotiate(root: &Root, settings: &Settings) -> Result<Basis, SamplerError> {
    let most = sysctl(root, "kernel/perf_event_max_sample_rate");
    let most = most.and_then(|most| u64::try_from(most).ok()).filter(|most| *most > 0);
    let hertz = settings.hertz.clamp(1, Settings::MOST_HERTZ).min(most.unwrap_or(u64::MAX));
    let mut with = Attributes::of(Event::CpuClock);
    describe(&mut with, settings, hertz);
    let kernel = adapt(root, settings, &mut with)?;
    let (mut no_counter, mut last) = (None, None);
    for event in settings.measure.events() {
        let attributes = with.counting(*event);
        match event::open(attributes, Of::ThisThread) {
            Ok(_) => {
                return Ok(Basis {
                    event: *event,
                    no_counter,
                    kernel,
                    hertz,
                    stack: settings.stack,
                    has_monotonic_times: attributes.has(flag::USE_CLOCKID),
                    attributes,
                });
            }
            Err(errno) => {
                last = Some(errno);
                if is_of_hardware(*event) {
                    no_counter = Some(errno);
                }
            }
        }
    }
    match (last, no_counter) {
        (Some(errno), Some(_)) if !matches!(errno, Errno::ACCESS | Errno::PERM) => {
            Err(SamplerError::NoCounter { errno })
        }
        (errno, _) => Err(refused(root, errno.unwrap_or(Errno::NOENT))),
    }
}

const fn is_of_hardware(event: Event) -> bool {
    matches!(event, Event::Cycles | Event::CacheMisses)
}

fn describe(attributes: &mut Attributes, settings: &Settings, hertz: u64) {
    const MONOTONIC: i32 = 1;
    attributes.sample_type =
        sample::IP | sample::TID | sample::TIME | sample::CPU | sample::PERIOD | sample::CALLCHAIN;
    attributes.flags |= flag::DISABLED
        | flag::EXCLUDE_IDLE
        | flag::MMAP
        | flag::MMAP2
        | flag::COMM
        | flag::COMM_EXEC
        | flag::TASK
        | flag::WATERMARK
        | flag::SAMPLE_ID_ALL
        | flag::USE_CLOCKID;
    attributes.read_format = FORMAT_LOST;
    attributes.clock = MONOTONIC;
    attributes.period = hertz;
    // Nobody is woken: the rings are looked at often enough.
    attributes.wakeup = u32::MAX >> 1;
    if settings
        .measure
        .events()
        .iter()
        .any(|event| matches!(event, Event::Cycles | Event::CpuClock | Event::CacheMisses))
    {
        attributes.flags |= flag::FREQUENCY;
    } else {
        // With it in the sample, a software event is sampled each time whatever the period
        // (`perf_swevent_event` in `kernel/events/core.c`).
        attributes.sample_type &= !sample::PERIOD;
    }
    if settings.measure == Measure::Waits {
        attributes.flags |= flag::CONTEXT_SWITCH;
    }
    if !settings.with_kernel && !settings.measure.is_of_the_kernel() {
        without_kernel(attributes);
    }
    if settings.stack.dump_bytes() > 0 {
        attributes.sample_type |= sample::REGS_USER | sample::STACK_USER;
        attributes.user_registers = USER_REGISTERS;
        attributes.user_stack = settings.stack.dump_bytes();
        attributes.flags |= flag::EXCLUDE_CALLCHAIN_USER;
    }
}

const fn without_kernel(attributes: &mut Attributes) {
    attributes.flags |= flag::EXCLUDE_KERNEL | flag::EXCLUDE_CALLCHAIN_KERNEL;
}

/// Takes from a description of a tracepoint what this kernel does not know.
pub(super) fn adapt_tracepoint(
    root: &Root,
    attributes: &mut Attributes,
) -> Result<(), SamplerError> {
    let mut steps = LADDER.iter();
    loop {
        match event::open(*attributes, Of::ThisThread) {
            Ok(_) => return Ok(()),
            Err(errno @ (Errno::INVAL | Errno::TOOBIG)) => match steps.next() {
                Some(step) => step(attributes),
                None => return Err(SamplerError::Failed { errno }),
            },
            Err(errno) => return Err(refused(root, errno)),
        }
    }
}

/// Takes from a description what this kernel does not know and this login may not have.
fn adapt(
    root: &Root,
    settings: &Settings,
    attributes: &mut Attributes,
) -> Result<KernelPart, SamplerError> {
    let mut kernel = if attributes.has(flag::EXCLUDE_KERNEL) {
        KernelPart::NotAsked
    } else {
        KernelPart::Included
    };
    let mut steps = LADDER.iter();
    loop {
        match event::open(*attributes, Of::ThisThread) {
            Ok(_) => return Ok(kernel),
            Err(errno @ (Errno::ACCESS | Errno::PERM))
                if kernel == KernelPart::Included && !settings.measure.is_of_the_kernel() =>
            {
                let paranoid = sysctl(root, "kernel/perf_event_paranoid");
                kernel = KernelPart::NotPermitted { errno, paranoid };
                without_kernel(attributes);
            }
            Err(errno @ (Errno::INVAL | Errno::TOOBIG)) => match steps.next() {
                Some(step) => step(attributes),
                None => return Err(SamplerError::Failed { errno }),
            },
            Err(errno) => return Err(refused(root, errno)),
        }
    }
}
