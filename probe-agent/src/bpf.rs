//! Programs of our own in the kernel: loading them, attaching them for a window, and reading what they
//! found.
//!
//! The programs are in `probe-agent/bpf/`, in C, and adapt themselves to the running kernel by its BTF.
//! They are attached to tracepoints of known types (`tp_btf`) and run as iterators (`iter`), and
//! nowhere else. Nothing gets a name outside of this process: whatever ends the agent closes its
//! descriptors, and with the last of them a program, a map or an attachment is gone.
//!
//! Kernel reference: `Documentation/bpf/`.

mod call;
mod called;
mod kernel_types;
mod load;
mod map;
mod mapped;
mod no_bpf;
mod ring;
mod scope;
pub mod tasks;
#[cfg(test)]
pub(crate) mod tests;
pub mod trial;

pub use call::Command;
pub use load::{Attached, Constants, Loaded, Loan, Rooms};
pub use map::{Entries, Map};
pub use no_bpf::NoBpf;
pub use ring::Ring;
pub use scope::{Scope, apart};

/// What is loaded together. Each is one source in `probe-agent/bpf/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    /// Every thread of the machine, with what it used, one by one.
    Tasks,
    /// Every process, by one call, where the kernel has that.
    AllTasks,
    /// System calls, added up.
    Syscalls,
    /// Where threads wait.
    OffCpu,
    /// How long is waited: for processors, block devices and TCP.
    Latency,
}

/// An object's bytes, at an address that suits them.
#[repr(C, align(8))]
struct Aligned<B: ?Sized>(B);

macro_rules! object {
    ($name:literal) => {{
        static BYTES: &Aligned<[u8]> =
            &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o")));
        &BYTES.0
    }};
}

impl Object {
    /// All of them.
    pub const ALL: &'static [Self] =
        &[Self::Tasks, Self::AllTasks, Self::Syscalls, Self::OffCpu, Self::Latency];

    fn bytes(self) -> &'static [u8] {
        match self {
            Self::Tasks => object!("tasks"),
            Self::AllTasks => object!("all_tasks"),
            Self::Syscalls => object!("syscalls"),
            Self::OffCpu => object!("off_cpu"),
            Self::Latency => object!("latency"),
        }
    }
}
