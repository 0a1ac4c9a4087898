//! Why no program could be loaded or attached.

use protocol::host_text::HostText;
use rustix::io::Errno;

/// Why an engine of eBPF is not there. In words and with a remedy it is
/// [`protocol::instruments::capabilities::Refusal`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoBpf {
    /// What is looked at is no running machine's files, or another machine's.
    NotThisMachine,
    /// The agent is in another pid namespace: programs see the machine's numbers of processes, and the
    /// agent knows others.
    PidNamespace,
    /// The kernel, or a filter before it, refused.
    NotPermitted {
        /// What it answered.
        errno: Errno,
    },
    /// The kernel has no `bpf`.
    NotInKernel,
    /// The kernel does not show its types.
    NoTypes {
        /// What it answered.
        errno: Errno,
    },
    /// The kernel's types are written in a way that is not understood.
    TypesNotUnderstood,
    /// The kernel has no such place for programs.
    NoHook {
        /// The place, as `tp_btf/NAME` or `iter/NAME`.
        hook: String,
    },
    /// The kernel's verifier did not take a program.
    Verifier {
        /// The program.
        program: String,
        /// What it answered.
        errno: Errno,
        /// The end of what it said.
        said: HostText,
    },
    /// The limit of locked memory, which counted for maps until Linux 5.11.
    LockedMemory {
        /// It, in KiB.
        limit_kib: Option<u64>,
    },
    /// The kernel has no memory for it.
    NoMemory,
    /// The object that the agent brings along does not fit to this kernel.
    Object {
        /// What is wrong with it.
        why: String,
    },
    /// Something else went wrong.
    Failed {
        /// The errno.
        errno: Errno,
    },
}

impl NoBpf {
    /// What an error means that is not the verifier's.
    pub(super) const fn of(errno: Errno) -> Self {
        match errno {
            Errno::PERM | Errno::ACCESS => Self::NotPermitted { errno },
            Errno::NOSYS => Self::NotInKernel,
            Errno::NOMEM => Self::NoMemory,
            errno => Self::Failed { errno },
        }
    }
}

impl From<std::io::Error> for NoBpf {
    fn from(error: std::io::Error) -> Self {
        Self::of(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl From<Errno> for NoBpf {
    fn from(errno: Errno) -> Self {
        Self::of(errno)
    }
}
