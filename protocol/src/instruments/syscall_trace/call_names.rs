//! Names of system calls, as a caller writes them.

use crate::parameter::InvalidParameter;
use serde::{Deserialize, Serialize};

/// Names in one question.
pub const MOST_NAMES: usize = 64;

/// The name of a system call. [`CallName::check`] tells whether there is one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CallName(String);

impl CallName {
    /// The name as it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Checks that some Linux has a call of this name. Which processor the target has is not known
    /// here.
    ///
    /// # Errors
    ///
    /// That none has.
    pub fn check(&self) -> Result<(), InvalidParameter> {
        let is_known = self.0.parse::<syscalls::x86_64::Sysno>().is_ok()
            || self.0.parse::<syscalls::aarch64::Sysno>().is_ok()
            || self.0.parse::<syscalls::x86::Sysno>().is_ok();
        if is_known {
            return Ok(());
        }
        Err(InvalidParameter {
            name: "calls".into(),
            value: self.0.clone().into(),
            expected: "names of system calls, as in syscalls(2)".into(),
        })
    }
}

impl From<&str> for CallName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}
