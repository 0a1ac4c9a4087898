//! How many files the agent may have open at once.

use rustix::process::{Resource, Rlimit};

/// Raises the limit as far as it may be without asking anybody.
///
/// A login's own limit may be as low as 64, and is made for what people start, which this is not.
/// Where it cannot be raised it stays as it is, and what depends on it says so.
pub fn raise_limit() {
    let Rlimit { maximum, .. } = rustix::process::getrlimit(Resource::Nofile);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
