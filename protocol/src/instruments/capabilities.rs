//! `capabilities`: what works on this target for this login, tried for real.
//!
//! Each check does the thing itself, small and harmless, and never infers it from a version. Where
//! it does not work, the agent tells by the error and by the machine's settings which layers refuse,
//! in the order in which they have to be lifted; the words and the remedy are made here, on the
//! reader's side.

mod barrier;
mod check;
mod example;
mod refusal;
mod remedy;
mod sandbox;
mod table;

pub use barrier::{Barrier, Lacking, Lockdown, SecurityModule, Switch, Syscall};
pub use check::{CheckId, Measure, ReadableFiles, State};
pub use refusal::Refusal;
pub use remedy::{Container, Here, PackageManager, Remedy};
pub use sandbox::{Filtering, Sandbox};

use crate::{
    host_text::HostText,
    instruments::{Exchange, Instrument, NoItems},
    parameter::InvalidParameter,
    view::table::Table,
};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Marker for this instrument.
pub struct Capabilities;

impl Instrument for Capabilities {
    type Request = Request;
    type Item = NoItems;
    type Report = Report;

    fn check(_: &Request) -> Result<(), InvalidParameter> {
        Ok(())
    }

    fn window_ms(_: &Request) -> u32 {
        0
    }

    fn tables(report: &Report) -> Vec<Table> {
        table::tables(report)
    }

    fn example() -> Exchange<Self> {
        Exchange { request: Request::default(), item: None, report: example::report() }
    }
}

/// What is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Request {
    /// Give every check a row of its own, with what it serves and what was found, also those that
    /// work. Default: false, those with the same outcome share a row.
    pub all: bool,
    /// Try again, instead of giving what was found before in this session. Default: false.
    pub refresh: bool,
}

/// What is answered.
///
/// On the wire it is what was found; in JSON it is in words, see [`crate::view::capabilities`].
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// What was found.
    pub found: Found,
}

impl<'de> Deserialize<'de> for Report {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Found::deserialize(deserializer).map(|found| Self { found })
    }
}

/// What was found, before it is put into words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Whether every check gets a row of its own.
    pub shows_all: bool,
    /// How long ago it was tried, in milliseconds; 0 for this very call.
    pub age_ms: u64,
    /// How long the trying took, in milliseconds.
    pub took_ms: u64,
    /// Who asks, and from where.
    pub here: Here,
    /// What surrounds the agent.
    pub surroundings: Surroundings,
    /// Every check: those that do not work first, of these the most important first.
    pub checks: Vec<Check>,
}

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Which.
    pub id: CheckId,
    /// What became of it.
    pub state: State,
    /// The kernel's error number, where it gave one.
    pub errno: Option<i32>,
    /// How much of it works, where that is a number.
    pub measure: Option<Measure>,
    /// What stands in the way: all of it, in the order in which it has to be lifted.
    pub barriers: Vec<Barrier>,
    /// What an external program said when it did not work.
    pub said: Option<HostText>,
}

impl Check {
    /// A check of which nothing more is to be said.
    pub const fn new(id: CheckId, state: State) -> Self {
        Self { id, state, errno: None, measure: None, barriers: Vec::new(), said: None }
    }

    /// What was found, in words; `None` where there is nothing to say.
    pub fn why(&self) -> Option<String> {
        let mut parts = Vec::new();
        parts.extend(self.measure.as_ref().map(ToString::to_string));
        if let State::TimedOut { after_ms } = self.state {
            parts.push(format!("given up after {after_ms} ms"));
        }
        if !self.barriers.is_empty() {
            let barriers: Vec<String> = self.barriers.iter().map(ToString::to_string).collect();
            parts.push(barriers.join(", and "));
        }
        let is_said = matches!(self.barriers.as_slice(), [Barrier::Unexplained { .. }]);
        if let (Some(errno), false) = (self.errno, is_said) {
            parts.push(format!("({})", barrier::errno_name(errno)));
            return Some(parts.join("; ").replace("; (", " ("));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// What holds around the agent, as far as it decides what works.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Capabilities that would be of use and are not in effect.
    pub missing: Vec<Capability>,
    /// Whether the agent is in another pid namespace than the machine's own.
    pub in_pid_namespace: bool,
    /// Whether a filter of system calls is on the agent that is not its own.
    pub has_seccomp_filter: bool,
    /// The security context that the agent runs in; empty where there is none.
    pub security_label: HostText,
    /// How far the kernel is locked down, where it says so.
    pub lockdown: Option<Lockdown>,
    /// What the agent gave up by itself.
    pub sandbox: Sandbox,
    /// Settings that decide, as they were found; those that this kernel lacks are missing.
    pub settings: Vec<(Setting, i64)>,
}

/// A setting of the kernel, or a limit of the login.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Setting {
    /// `kernel.perf_event_paranoid`.
    PerfEventParanoid,
    /// `kernel.perf_event_mlock_kb`, per processor and user.
    PerfEventMlockKib,
    /// `kernel.kptr_restrict`.
    KptrRestrict,
    /// `kernel.unprivileged_bpf_disabled`.
    UnprivilegedBpfDisabled,
    /// `kernel.yama.ptrace_scope`.
    PtraceScope,
    /// `kernel.task_delayacct`.
    DelayAccounting,
    /// The limit of open files; missing where there is none.
    OpenFiles,
    /// The limit of locked memory in KiB; missing where there is none.
    MemlockKib,
}

impl Setting {
    /// Its name, as `sysctl` and `ulimit` have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PerfEventParanoid => "kernel.perf_event_paranoid",
            Self::PerfEventMlockKib => "kernel.perf_event_mlock_kb",
            Self::KptrRestrict => "kernel.kptr_restrict",
            Self::UnprivilegedBpfDisabled => "kernel.unprivileged_bpf_disabled",
            Self::PtraceScope => "kernel.yama.ptrace_scope",
            Self::DelayAccounting => "kernel.task_delayacct",
            Self::OpenFiles => "open_files",
            Self::MemlockKib => "memlock_kib",
        }
    }
}

/// A capability by its number, `include/uapi/linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Capability(pub u8);

impl Capability {
    /// Reads any file.
    pub const DAC_READ_SEARCH: Self = Self(2);
    /// Task statistics over netlink.
    pub const NET_ADMIN: Self = Self(12);
    /// Locks any amount of memory.
    pub const IPC_LOCK: Self = Self(14);
    /// Inspects any process.
    pub const SYS_PTRACE: Self = Self(19);
    /// Nearly everything.
    pub const SYS_ADMIN: Self = Self(21);
    /// Goes beyond limits.
    pub const SYS_RESOURCE: Self = Self(24);
    /// Sees the kernel's addresses.
    pub const SYSLOG: Self = Self(34);
    /// Measures any process, since Linux 5.8.
    pub const PERFMON: Self = Self(38);
    /// Loads programs into the kernel, since Linux 5.8.
    pub const BPF: Self = Self(39);
    /// Reads what any process has mapped, since Linux 5.9.
    pub const CHECKPOINT_RESTORE: Self = Self(40);

    /// Those that are of use here, in the order in which they matter.
    pub const WANTED: [Self; 8] = [
        Self::SYS_PTRACE,
        Self::DAC_READ_SEARCH,
        Self::PERFMON,
        Self::BPF,
        Self::SYSLOG,
        Self::SYS_ADMIN,
        Self::NET_ADMIN,
        Self::CHECKPOINT_RESTORE,
    ];

    /// Whether it is in a set, as `/proc/PID/status` writes them.
    pub const fn is_in(self, set: u64) -> bool {
        self.0 < 64 && set >> self.0 & 1 == 1
    }

    /// Its name without `CAP_`, as container engines take it.
    pub fn short_name(self) -> String {
        const NAMES: [&str; 41] = [
            "CHOWN",
            "DAC_OVERRIDE",
            "DAC_READ_SEARCH",
            "FOWNER",
            "FSETID",
            "KILL",
            "SETGID",
            "SETUID",
            "SETPCAP",
            "LINUX_IMMUTABLE",
            "NET_BIND_SERVICE",
            "NET_BROADCAST",
            "NET_ADMIN",
            "NET_RAW",
            "IPC_LOCK",
            "IPC_OWNER",
            "SYS_MODULE",
            "SYS_RAWIO",
            "SYS_CHROOT",
            "SYS_PTRACE",
            "SYS_PACCT",
            "SYS_ADMIN",
            "SYS_BOOT",
            "SYS_NICE",
            "SYS_RESOURCE",
            "SYS_TIME",
            "SYS_TTY_CONFIG",
            "MKNOD",
            "LEASE",
            "AUDIT_WRITE",
            "AUDIT_CONTROL",
            "SETFCAP",
            "MAC_OVERRIDE",
            "MAC_ADMIN",
            "SYSLOG",
            "WAKE_ALARM",
            "BLOCK_SUSPEND",
            "AUDIT_READ",
            "PERFMON",
            "BPF",
            "CHECKPOINT_RESTORE",
        ];
        let known = NAMES.get(usize::from(self.0));
        known.map_or_else(|| self.0.to_string(), ToString::to_string)
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CAP_{}", self.short_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_required_and_nothing_else_is_taken() {
        let request = |json| serde_json::from_value::<Request>(json);
        assert_eq!(request(serde_json::json!({})).unwrap(), Request::default());
        assert!(request(serde_json::json!({"al": true})).is_err());
    }

    #[test]
    fn capabilities_have_the_names_of_the_kernel() {
        for (capability, name) in [
            (Capability::SYS_PTRACE, "CAP_SYS_PTRACE"),
            (Capability::SYS_RESOURCE, "CAP_SYS_RESOURCE"),
            (Capability::SYSLOG, "CAP_SYSLOG"),
            (Capability::CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE"),
            (Capability(77), "CAP_77"),
        ] {
            assert_eq!(capability.to_string(), name);
        }
        assert!(Capability(24).is_in(0x1ff_ffff_ffff) && !Capability(24).is_in(0x1ff_feff_ffff));
        assert!(!Capability(200).is_in(u64::MAX));
    }
}
