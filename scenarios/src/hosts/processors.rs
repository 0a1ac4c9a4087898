//! Other processors than this machine's.

use super::Host;

/// In the order of the page.
pub const HOSTS: &[Host] = &[];
