//! Accounts: what a user has, lacks and may do.

use super::Host;

/// In the order of the page.
pub const HOSTS: &[Host] = &[];
