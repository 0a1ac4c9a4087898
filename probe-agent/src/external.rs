//! Programs of others as engines, where a caller asks for one by name: what they write, read.

pub mod bpftrace;
pub mod perf_trace;
pub mod strace;
