//! What is asked of the sampler.

use super::{LEAST_RING_KIB, MOST_RINGS_KIB, negotiate::Basis};
use crate::{perf::attr::Event, proc::Root};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Of what.
    pub scope: Scope,
    /// What is sampled.
    pub measure: Measure,
    /// Samples in a second for each processor that is busy; or one for each so many events, for what
    /// is counted.
    pub hertz: u64,
    /// How user space is walked.
    pub stack: UserStack,
    /// Whether what the kernel does is wanted too.
    pub with_kernel: bool,
    /// Room for samples of each processor in place of what is worked out; for tests of what is lost.
    pub ring_kib: Option<u32>,
}

impl Settings {
    /// The rate that costs nothing that can be measured.
    pub const DEFAULT_HERTZ: u64 = 99;

    /// More than this costs what is sampled several percent.
    pub const MOST_HERTZ: u64 = 4_999;

    /// Bytes of stack that are enough for nearly all programs.
    pub const DEFAULT_DUMP_BYTES: u32 = 8 << 10;

    /// As much as fits into a record with the rest.
    pub const MOST_DUMP_BYTES: u32 = 32 << 10;

    /// Processor time with stacks by unwind tables, kernel included.
    pub const fn cpu(scope: Scope) -> Self {
        Self {
            scope,
            measure: Measure::Cpu,
            hertz: Self::DEFAULT_HERTZ,
            stack: UserStack::UnwindTables { dump_bytes: Self::DEFAULT_DUMP_BYTES },
            with_kernel: true,
            ring_kib: None,
        }
    }

    /// A power of two that holds half a second of samples; all of them have an upper limit.
    pub(super) fn ring_kib(&self, basis: &Basis, processors: usize) -> u32 {
        if let Some(kib) = self.ring_kib {
            return kib;
        }
        let each = MOST_RINGS_KIB / u32::try_from(processors.max(1)).unwrap_or(u32::MAX);
        let most = if each.is_power_of_two() { each } else { each.next_power_of_two() / 2 };
        let kib = u32::try_from(basis.bytes_per_s() / 2048).unwrap_or(u32::MAX);
        let kib = kib.min(1 << 20).next_power_of_two();
        kib.clamp(128, 4096).min(most).max(LEAST_RING_KIB)
    }

    pub(super) fn least_ring_kib(&self) -> u32 {
        self.ring_kib.map_or(LEAST_RING_KIB, |kib| kib.min(LEAST_RING_KIB))
    }
}

/// Of what samples are taken.
#[derive(Clone, Debug)]
pub enum Scope {
    /// A process with its threads, and the threads and children born later.
    Process(u32),
    /// Several.
    Processes(Vec<u32>),
    /// A cgroup with those below it, by its open folder in the hierarchy that has `perf_event`.
    Cgroup(Arc<OwnedFd>),
    /// Everything.
    Host,
}

impl Scope {
    pub(in crate::perf) fn first_pid(&self) -> u32 {
        match self {
            Self::Process(pid) => *pid,
            Self::Processes(pids) => pids.first().copied().unwrap_or_default(),
            Self::Cgroup(_) | Self::Host => 0,
        }
    }
}

/// What is sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// Processor time.
    Cpu,
    /// Page faults.
    PageFaults,
    /// Context switches.
    ContextSwitches,
    /// Misses of the last cache.
    CacheMisses,
    /// Every context switch, and when the thread runs again.
    Waits,
}

impl Measure {
    /// What is counted for it, best first.
    pub(super) const fn events(self) -> &'static [Event] {
        match self {
            Self::Cpu => &[Event::Cycles, Event::CpuClock],
            Self::PageFaults => &[Event::PageFaults],
            Self::ContextSwitches | Self::Waits => &[Event::ContextSwitches],
            Self::CacheMisses => &[Event::CacheMisses],
        }
    }

    /// Whether it is only seen where the kernel may be looked at.
    pub(super) const fn is_of_the_kernel(self) -> bool {
        matches!(self, Self::ContextSwitches | Self::Waits)
    }
}

/// How the stack in user space is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UserStack {
    /// By the tables that compilers make for exceptions, over a copy of the top of the stack; by frame
    /// pointers where code has no tables.
    UnwindTables {
        /// Bytes of stack in each sample; a multiple of 8.
        dump_bytes: u32,
    },
    /// By frame pointers, in the kernel. Cheap, and only right where everything was compiled for it.
    FramePointers,
}

impl UserStack {
    /// Bytes of stack in each sample.
    pub const fn dump_bytes(self) -> u32 {
        match self {
            Self::UnwindTables { dump_bytes } => {
                let most = Settings::MOST_DUMP_BYTES;
                if dump_bytes > most { most } else { dump_bytes & !7 }
            }
            Self::FramePointers => 0,
        }
    }
}

/// A setting of the kernel, where it can be read.
pub(super) fn sysctl(root: &Root, name: &str) -> Option<i64> {
    let mut room = [0; 64];
    let text = root.read_proc_once(&format!("sys/{name}"), &mut room).ok()?;
    std::str::from_utf8(text.trim_ascii()).ok()?.parse().ok()
}
