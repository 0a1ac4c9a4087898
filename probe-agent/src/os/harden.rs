//! What the agent gives up before it reads its first request.

use super::clock;
use rustix::process::{DumpableBehavior, Resource, Rlimit};

/// Gives up dumping core, gaining privileges, and the folder it was started in.
///
/// A core file is a file left on the target, and would hold what the agent read there. Each step
/// may fail without harm: an old kernel, or a limit that is lower already.
pub fn harden() {
    // rustix looks up how to read clocks without a system call when it reads one first. On kernels
    // before 6.4 that is in a file that only root can open after this.
    let _ = clock::monotonic();
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = rustix::process::setrlimit(Resource::Core, none);
    let _ = rustix::thread::set_no_new_privs(true);
    let _ = rustix::process::chdir("/");
}
