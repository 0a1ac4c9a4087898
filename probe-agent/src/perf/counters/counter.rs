//! What can be counted, as the kernel calls it.

use protocol::instruments::perf_record::Counter;

/// `type` and `config`. Kernel reference: `enum perf_sw_ids` and `enum perf_hw_id` in
/// `include/uapi/linux/perf_event.h`.
pub(super) const fn kind(counter: Counter) -> (u32, u64) {
    match counter {
        Counter::TaskClock => (1, 1),
        Counter::ContextSwitches => (1, 3),
        Counter::CpuMigrations => (1, 4),
        Counter::MinorFaults => (1, 5),
        Counter::MajorFaults => (1, 6),
        Counter::Cycles => (0, 0),
        Counter::Instructions => (0, 1),
        Counter::CacheReferences => (0, 2),
        Counter::CacheMisses => (0, 3),
        Counter::Branches => (0, 4),
        Counter::BranchMisses => (0, 5),
    }
}

/// Whether it happens in the kernel: without that part nothing of it is seen.
pub(super) const fn is_of_the_kernel(counter: Counter) -> bool {
    matches!(counter, Counter::ContextSwitches | Counter::CpuMigrations)
}
