//! Networks: what is between here and a host.

use super::Host;

/// In the order of the page.
pub const HOSTS: &[Host] = &[];
