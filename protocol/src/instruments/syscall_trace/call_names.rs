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
        if is_known(&self.0) {
            return Ok(());
        }
        Err(InvalidParameter {
            name: "calls".into(),
            value: self.0.clone().into(),
            expected: "names of system calls, as in syscalls(2)".into(),
        })
    }
}

#[cfg(target_os = "linux")]
fn is_known(name: &str) -> bool {
    name.parse::<syscalls::x86_64::Sysno>().is_ok()
        || name.parse::<syscalls::aarch64::Sysno>().is_ok()
        || name.parse::<syscalls::x86::Sysno>().is_ok()
}

/// Whether it looks like one. The tables are built for Linux only; the agent has them, and checks again.
#[cfg(not(target_os = "linux"))]
fn is_known(name: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (1..=40).contains(&name.len()) && name.bytes().all(is_part)
}

impl From<&str> for CallName {
    fn from(name: &str) -> Self {
        Self(name.to_owned())
    }
}
