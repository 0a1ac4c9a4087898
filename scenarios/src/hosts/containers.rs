//! Containers, with a shell and without.

use super::Host;

/// In the order of the page.
pub const HOSTS: &[Host] = &[];
