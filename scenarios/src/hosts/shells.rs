//! Login shells of many kinds.

use super::Host;

/// In the order of the page.
pub const HOSTS: &[Host] = &[];
