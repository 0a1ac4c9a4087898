//! The mounted file systems of a machine: which do not answer, which are full.

use crate::{host_text::HostText, observed::Observed, units::Percent};
use serde::{Deserialize, Serialize};

/// The mounted file systems of a machine, each once, however often it is mounted.
///
/// Those that the kernel makes up (`proc`, `cgroup2`) and those that are full by nature (`squashfs`)
/// are not among them; an automounter is never asked, because that would mount something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mounts {
    /// How many there are. Only in a full answer.
    pub total: Observed<u32>,
    /// How many were asked and did not answer before the end of the window.
    pub no_answer_total: u32,
    /// How many were not asked, because too many others do not answer.
    pub not_asked: u32,
    /// Those that did not answer first, then those that failed, then the fullest.
    pub ranked: Vec<Mount>,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mount {
    /// Where it is mounted, escaped.
    pub path: HostText,
    /// The type of the file system, escaped.
    pub kind: HostText,
    /// What came of asking it how much space it has.
    pub answer: MountAnswer,
    /// The error number, where it failed; else 0.
    pub errno: u32,
    /// How long the answer took, or was waited for: since it was asked, which may be in an earlier
    /// call.
    pub waited_ms: u64,
    /// Share of its space that is used, of what is not reserved for root.
    pub used_pct: Observed<Percent>,
    /// Share of its inodes that is used.
    pub inodes_used_pct: Observed<Percent>,
}

/// What came of asking a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MountAnswer {
    /// Nothing, before the end of the window.
    None,
    /// That what was mounted is not there any more.
    #[doc(alias = "ESTALE")]
    Stale,
    /// Another error.
    Failed,
    /// It was refused, as by a user's own FUSE file system, also to root.
    Refused,
    /// An answer.
    Answered,
}
