//! Files that a login shell runs before anything else.

use super::Host;

/// In the order of the page.
pub const HOSTS: &[Host] = &[];
