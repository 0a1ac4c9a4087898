//! What the agent asks of the operating system beside reading files: processes of its own, clocks,
//! limits, what the kernel lets it measure, and giving up what it does not need.

pub(crate) mod answer;
pub mod argv;
pub mod child;
pub mod clock;
pub mod harden;
pub mod launcher;
pub mod mapped_file;
pub mod observer;
pub mod open_files;
pub mod ptrace;
pub mod sandbox;
pub mod spawner;
pub mod stdout;
pub mod stopper;
pub mod supervisor;
pub mod sysconf;
pub mod tracer;
#[cfg(any(test, feature = "fault-injection"))]
pub mod trespass;
