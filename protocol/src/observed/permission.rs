//! What a refused read needs, and who can grant it.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a refused read needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Permission {
    /// To be the process's user, or `CAP_SYS_PTRACE` with `CAP_DAC_READ_SEARCH`.
    InspectProcess {
        /// Who owns the process.
        owner_uid: u32,
        /// Who asked.
        agent_uid: u32,
    },
    /// To read a file that not everybody may read.
    ReadFile {
        /// Who asked.
        agent_uid: u32,
    },
    /// A lower `kernel.yama.ptrace_scope`, or, below 3, `CAP_SYS_PTRACE`.
    Yama {
        /// What it is.
        scope: u8,
    },
    /// To count events of the kernel's part, or of others: a lower `kernel.perf_event_paranoid`, or
    /// `CAP_PERFMON`.
    CountEvents {
        /// What it is, where that can be read.
        paranoid: Option<i64>,
    },
}

impl Permission {
    /// What the reader can do about it.
    pub(super) fn remedy(&self) -> String {
        match self {
            Self::InspectProcess { agent_uid: 0, .. } => {
                "in a container, connect to the host itself, or give the container CAP_SYS_PTRACE; on \
                 the host, the kernel's log names a security module that denies"
            }
            Self::ReadFile { agent_uid: 0 } => super::AT_THE_HOST,
            Self::InspectProcess { owner_uid, agent_uid }
                if *owner_uid == 0 || owner_uid == agent_uid =>
            {
                "connect as root"
            }
            Self::Yama { scope: 3.. } => {
                "reboot without it: it cannot be lowered while the machine runs"
            }
            Self::Yama { .. } => {
                "connect as root, or run `sysctl kernel.yama.ptrace_scope=0` as root"
            }
            Self::ReadFile { .. } => "connect as root",
            Self::CountEvents { .. } => {
                "connect as root, or run `sysctl kernel.perf_event_paranoid=1` as root for processes of \
                 your own"
            }
            Self::InspectProcess { owner_uid, .. } => {
                return format!("connect as root or as uid {owner_uid}");
            }
        }
        .to_owned()
    }
}

impl fmt::Display for Permission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InspectProcess { owner_uid, agent_uid: 0 } => write!(
                f,
                "the agent is root, and the kernel refused all the same: the process of uid \
                 {owner_uid} holds a capability that the agent lacks, or a security module denies it"
            ),
            Self::InspectProcess { owner_uid, agent_uid } if owner_uid == agent_uid => write!(
                f,
                "the process is of the agent's own uid {owner_uid}, but protected: it changed its \
                 user, or asked not to be inspected; needs CAP_SYS_PTRACE"
            ),
            Self::InspectProcess { owner_uid, agent_uid } => write!(
                f,
                "the process belongs to uid {owner_uid} and the agent runs as uid {agent_uid}; \
                 needs the same user, or CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"
            ),
            Self::ReadFile { agent_uid } => write!(
                f,
                "the agent runs as uid {agent_uid}; the file is not for everybody, and needs root \
                 or CAP_DAC_READ_SEARCH"
            ),
            Self::Yama { scope: scope @ 3.. } => write!(
                f,
                "kernel.yama.ptrace_scope is {scope}: nobody may look into a process that is not \
                 a child"
            ),
            Self::CountEvents { paranoid: Some(paranoid) } => write!(
                f,
                "kernel.perf_event_paranoid is {paranoid}, and the agent has no CAP_PERFMON"
            ),
            Self::CountEvents { paranoid: None } => f.write_str("counting takes CAP_PERFMON here"),
            Self::Yama { scope } => write!(
                f,
                "kernel.yama.ptrace_scope is {scope}: only root may look into a process that is \
                 not a child; needs CAP_SYS_PTRACE"
            ),
        }
    }
}
