//! The checks: what is tried, what it serves, and what can become of it.

use crate::host_text::HostText;
use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! define_checks {
    ($($id:ident, $name:literal, $what:literal, $serves:literal;)*) => {
        /// One thing that is tried. The order is that of importance: what comes first is told
        /// first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum CheckId {
            $(#[doc = concat!($what, ".")] $id,)*
        }

        impl CheckId {
            /// Every check, the most important first.
            pub const ALL: &[Self] = &[$(Self::$id),*];

            /// Its name in answers.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$id => $name,)* }
            }

            /// What it is, for a person.
            pub const fn what(self) -> &'static str {
                match self { $(Self::$id => $what,)* }
            }

            /// Which questions it serves.
            pub const fn serves(self) -> &'static str {
                match self { $(Self::$id => $serves,)* }
            }
        }
    };
}
define_checks! {
    ProcessesVisible, "processes_visible", "all processes are seen",
        "which process: a hidden one is in no list";
    ProcOfOthers, "proc_of_others", "/proc of other processes",
        "what a process waits for, reads and writes";
    PerfOwnUser, "perf_own_user", "own profile in user space",
        "where the login's own processes spend processor time";
    PerfOwnKernel, "perf_own_kernel", "own profile with the kernel",
        "processor time that the login's own processes spend in the kernel";
    PerfOthers, "perf_others", "profile of others",
        "where any process spends processor time";
    PerfSystemWide, "perf_system_wide", "profile of the machine",
        "where the machine spends processor time";
    PerfRing, "perf_ring", "memory for samples",
        "profiles with whole stacks, without losing samples";
    KernelSymbols, "kernel_symbols", "kernel symbols",
        "names of kernel functions in profiles";
    Btf, "btf", "the kernel's types (BTF)", "every eBPF program that reads the kernel";
    BpfMap, "bpf_map", "eBPF maps", "every eBPF program";
    BpfTpBtf, "bpf_tp_btf", "eBPF at typed tracepoints",
        "system calls, off-CPU time, run-queue and disk latency";
    BpfIter, "bpf_iter", "eBPF iterators", "cheap lists of very many processes and files";
    BpfPerfEvent, "bpf_perf_event", "eBPF at samples", "profiles that are added up in the kernel";
    Pressure, "pressure", "pressure stall information",
        "whether tasks wait for processors, memory or storage";
    Cgroups, "cgroups", "cgroups", "limits and use of containers and services";
    PtraceChild, "ptrace_child", "ptrace of an own child", "system calls of a program under test";
    PtraceSameUser, "ptrace_same_user", "ptrace of own processes",
        "stacks and system calls without eBPF, of the login's own processes";
    PtraceOthers, "ptrace_others", "ptrace of others",
        "stacks and system calls without eBPF";
    Tracefs, "tracefs", "tracefs", "what can be traced; tracepoints without eBPF";
    PerfTracepoint, "perf_tracepoint", "tracepoints with fields",
        "system calls and off-CPU time without eBPF";
    ContextSwitches, "context_switches", "context switches",
        "how often a process loses the processor, with the stack";
    HardwareCounters, "hardware_counters", "hardware counters",
        "instructions per cycle, cache and branch misses";
    DelayAccounting, "delay_accounting", "delay accounting",
        "how long a process waited for storage";
    OpenFiles, "open_files", "limit of open files", "profiles of very many threads";
    BpfRawTracepoint, "bpf_raw_tracepoint", "eBPF at raw tracepoints", "traces without BTF";
    BpfTracepoint, "bpf_tracepoint", "eBPF at tracepoints", "bpftrace scripts at tracepoints";
    BpfKprobe, "bpf_kprobe", "eBPF at functions (kprobe)", "bpftrace scripts at functions";
    BpfFentry, "bpf_fentry", "eBPF at functions (fentry)", "the same, cheaper";
    BpfLsm, "bpf_lsm", "eBPF at security hooks", "what a process is denied";
    BpfSocketFilter, "bpf_socket_filter", "eBPF socket filters", "packets of a socket";
    ToolPerf, "tool_perf", "perf", "the engine perf, where it is asked for by name";
    ToolStrace, "tool_strace", "strace", "the engine strace, where it is asked for by name";
    ToolBpftrace, "tool_bpftrace", "bpftrace", "scripts of one's own";
}

/// What became of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum State {
    /// It was done, and it worked.
    Works,
    /// It works for some, or less of it than is wanted.
    InPart,
    /// A layer refused it.
    Refused,
    /// This kernel, or this processor, has no such thing.
    NotInKernel,
    /// It is there, switched off.
    SwitchedOff,
    /// The program is not there.
    NotInstalled,
    /// It did not come to an end in time.
    TimedOut {
        /// After how many milliseconds it was given up.
        after_ms: u32,
    },
    /// There was nothing to try it on.
    NotTried,
}

impl State {
    /// Its name in answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::InPart => "in_part",
            Self::Refused => "refused",
            Self::NotInKernel => "not_in_kernel",
            Self::SwitchedOff => "switched_off",
            Self::NotInstalled => "not_installed",
            Self::TimedOut { .. } => "timed_out",
            Self::NotTried => "not_tried",
        }
    }
}

/// How much of something works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measure {
    /// So many processes are seen of so many that there are.
    Processes {
        /// In `/proc`.
        seen: u64,
        /// By the kernel's own count of the whole machine; `None` where it does not tell.
        total: Option<u64>,
    },
    /// For how many of the processes that were tried each file could be read.
    Files(ReadableFiles),
    /// It worked with so many of the processes that were tried.
    Tried {
        /// With how many.
        worked: u32,
        /// Of how many.
        of: u32,
    },
    /// Memory that could be had at once.
    Memory {
        /// In KiB.
        kib: u32,
        /// What is wanted, in KiB.
        wanted_kib: u32,
    },
    /// A limit.
    Limit(u64),
    /// Which cgroups there are.
    Cgroups {
        /// Hierarchies of version 1 with a controller.
        v1: u32,
        /// Whether version 2 is mounted.
        v2: bool,
        /// Whether the processor time of the agent's own cgroup is counted and readable.
        cpu: bool,
        /// The same for memory.
        memory: bool,
    },
    /// A program's own name and version.
    Version(HostText),
}

/// For how many processes each file of `/proc/PID` could be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadableFiles {
    /// Processes that were tried.
    pub tried: u32,
    /// `stat`.
    pub stat: u32,
    /// `io`.
    pub io: u32,
    /// `syscall`.
    pub syscall: u32,
    /// `stack`.
    pub stack: u32,
    /// `maps`.
    pub maps: u32,
    /// `exe`.
    pub exe: u32,
}

impl ReadableFiles {
    /// Each file with its count.
    pub const fn counts(&self) -> [(&'static str, u32); 6] {
        [
            ("stat", self.stat),
            ("io", self.io),
            ("syscall", self.syscall),
            ("stack", self.stack),
            ("maps", self.maps),
            ("exe", self.exe),
        ]
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes { seen, total: Some(total) } => {
                write!(f, "{seen} of {total} processes are seen")
            }
            Self::Processes { seen, total: None } => {
                write!(f, "{seen} processes are seen, of how many the kernel does not tell")
            }
            Self::Files(files) => {
                write!(f, "of {} processes readable:", files.tried)?;
                for (index, (name, count)) in files.counts().iter().enumerate() {
                    write!(f, "{} {name} {count}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Tried { worked, of } => write!(f, "{worked} of {of} processes that were tried"),
            Self::Memory { kib, wanted_kib } => {
                write!(f, "{kib} KiB could be had of {wanted_kib} KiB")
            }
            Self::Limit(limit) => write!(f, "at most {limit}"),
            Self::Cgroups { v1, v2, cpu, memory } => {
                let version = match (*v1 > 0, *v2) {
                    (true, true) => "versions 1 and 2",
                    (true, false) => "version 1",
                    (false, true) => "version 2",
                    (false, false) => "none mounted",
                };
                let is = |there: &bool| if *there { "counted" } else { "not counted" };
                write!(f, "{version}; processor time {}, memory {}", is(cpu), is(memory))
            }
            Self::Version(version) => write!(f, "{version}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_of_one_check_each() {
        let names: BTreeSet<_> = CheckId::ALL.iter().map(|id| id.name()).collect();
        assert_eq!(names.len(), CheckId::ALL.len());
        assert!(CheckId::ALL.is_sorted());
    }

    #[test]
    fn a_number_is_said_with_what_it_is_of() {
        let files = ReadableFiles { tried: 4, stat: 4, exe: 1, ..ReadableFiles::default() };
        let cases = [
            (Measure::Processes { seen: 3, total: Some(80) }, "3 of 80 processes are seen"),
            (
                Measure::Files(files),
                "of 4 processes readable: stat 4, io 0, syscall 0, stack 0, maps 0, exe 1",
            ),
            (
                Measure::Cgroups { v1: 9, v2: true, cpu: true, memory: false },
                "versions 1 and 2; processor time counted, memory not counted",
            ),
        ];
        for (measure, want) in cases {
            assert_eq!(measure.to_string(), want);
        }
    }
}
