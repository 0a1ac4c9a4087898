//! What can be counted.

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Processor time, in nanoseconds. Of a whole machine there is none: it would be the time that
    /// passed.
    TaskClock,
    /// Context switches.
    ContextSwitches,
    /// How often a thread went to another processor.
    Migrations,
    /// Page faults for which nothing had to be read.
    MinorFaults,
    /// Page faults for which something had to be read.
    MajorFaults,
    /// Cycles.
    Cycles,
    /// Instructions that were completed.
    Instructions,
    /// Uses of the last cache.
    CacheReferences,
    /// Those in vain.
    CacheMisses,
    /// Branches.
    Branches,
    /// Those that were guessed wrongly.
    BranchMisses,
}

impl Counter {
    /// All of them: those of the kernel, then those of the processor.
    pub const ALL: [Self; 11] = [
        Self::TaskClock,
        Self::ContextSwitches,
        Self::Migrations,
        Self::MinorFaults,
        Self::MajorFaults,
        Self::Cycles,
        Self::Instructions,
        Self::CacheReferences,
        Self::CacheMisses,
        Self::Branches,
        Self::BranchMisses,
    ];

    /// `type` and `config`.
    pub(super) const fn kind(self) -> (u32, u64) {
        match self {
            Self::TaskClock => (1, 1),
            Self::ContextSwitches => (1, 3),
            Self::Migrations => (1, 4),
            Self::MinorFaults => (1, 5),
            Self::MajorFaults => (1, 6),
            Self::Cycles => (0, 0),
            Self::Instructions => (0, 1),
            Self::CacheReferences => (0, 2),
            Self::CacheMisses => (0, 3),
            Self::Branches => (0, 4),
            Self::BranchMisses => (0, 5),
        }
    }

    /// Whether the processor counts it.
    pub const fn is_of_the_processor(self) -> bool {
        matches!(self.kind(), (0, _))
    }

    /// Whether it happens in the kernel: without that part nothing of it is seen.
    pub(super) const fn is_of_the_kernel(self) -> bool {
        matches!(self, Self::ContextSwitches | Self::Migrations)
    }
}
