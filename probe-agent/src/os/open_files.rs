//! How many files the agent may have open at once.

use rustix::process::{Resource, Rlimit};
use std::sync::OnceLock;

/// What it was before it was raised.
static FORMER: OnceLock<Rlimit> = OnceLock::new();

/// Raises the limit as far as it may be without asking anybody.
///
/// A login's own limit may be as low as 64, and is made for what people start, which this is not.
/// Where it cannot be raised it stays as it is, and what depends on it says so.
pub fn raise_limit() {
    let former = rustix::process::getrlimit(Resource::Nofile);
    let Rlimit { maximum, .. } = former;
    let _ = FORMER.set(former);
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Gives a command of the person's own the limit that the person has. Between fork and exec: it calls the
/// kernel and nothing else.
pub(super) fn restore_limit() {
    if let Some(former) = FORMER.get() {
        let _ = rustix::process::setrlimit(Resource::Nofile, *former);
    }
}
