//! What an agent lets the kernel take from it before it reads its first request.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What is enforced on the agent by its own wish. None of it is a limit of the login, and what
/// `capabilities` tries works as far as it would without.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sandbox {
    /// What came of its filter of system calls.
    pub filtering: Filtering,
    /// How many capabilities it gave up: those that measuring does not take.
    pub capabilities_dropped: u32,
    /// Whether no program can give it new privileges.
    pub no_new_privileges: bool,
}

/// What came of a filter of system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Filtering {
    /// Nobody asked for one.
    #[default]
    NotAsked,
    /// It is in force.
    Enforced,
    /// This kernel has no such filters.
    NotInKernel,
    /// The kernel has them, and refused this one.
    Refused,
}

impl Filtering {
    /// In one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotAsked => "not_asked",
            Self::Enforced => "enforced",
            Self::NotInKernel => "not_in_kernel",
            Self::Refused => "refused",
        }
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.filtering {
            Filtering::NotAsked => "no filter of system calls",
            Filtering::Enforced => "a filter of system calls is in force",
            Filtering::NotInKernel => "no filter of system calls: this kernel has none",
            Filtering::Refused => "no filter of system calls: it was refused",
        })?;
        if self.no_new_privileges {
            f.write_str(", no new privileges")?;
        }
        if self.capabilities_dropped > 0 {
            write!(f, ", {} capabilities given up", self.capabilities_dropped)?;
        }
        Ok(())
    }
}
