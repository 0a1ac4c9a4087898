//! Performance events of the kernel: opening them, and taking what they write into memory.
//!
//! Kernel reference: `include/uapi/linux/perf_event.h`, `man 2 perf_event_open`,
//! `tools/perf/design.txt`. Events close with the process: nothing stays attached after any end.

pub mod attr;
pub mod core_pmus;
pub mod counters;
pub mod event;
pub mod records;
pub mod ring;
pub mod sampler;
pub mod trial;
