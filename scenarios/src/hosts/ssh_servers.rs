//! SSH servers that do less, or other things, than the usual one.

use super::Host;

/// In the order of the page.
pub const HOSTS: &[Host] = &[];
