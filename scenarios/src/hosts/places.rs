//! Places where a session could put its file, and what is wrong with them.

use super::Host;

/// In the order of the page.
pub const HOSTS: &[Host] = &[];
