//! Which processes and threads engines without eBPF watch.

use super::engine::Asked;
use crate::{
    bpf,
    perf::sampler::Scope,
    proc::{Root, descendants},
    stack::looks,
};

/// Processes with their descendants that are watched at most.
const MOST_PROCESSES: usize = 1024;

/// What was asked for, with the descendants that there are.
pub(super) fn scope(asked: &Asked<'_>, root: &Root) -> Scope {
    let asked_for = &asked.subject.sampled;
    let (Scope::Process(pid), true) = (asked_for, asked.request.descendants) else {
        return asked_for.clone();
    };
    let mut all = descendants::of(root, *pid);
    // The first is the one that was asked for.
    all.retain(|other| other != pid);
    all.insert(0, *pid);
    all.truncate(MOST_PROCESSES);
    if all.len() == 1 { Scope::Process(*pid) } else { Scope::Processes(all) }
}

/// All threads of it, by process and thread, without the agent's.
pub(super) fn list(asked: &Asked<'_>, scope: &Scope, root: &Root) -> Vec<(u32, u32)> {
    let apart = apart(asked, root);
    let mut threads = looks::threads_of(root, scope);
    threads.retain(|(pid, _)| !apart.contains(pid));
    threads
}

/// The agent's own processes, and what carries its channel: where everything is watched, it would see
/// itself. One that was asked for is seen.
pub(super) fn apart(asked: &Asked<'_>, root: &Root) -> Vec<u32> {
    let mut apart = bpf::apart(root);
    apart.retain(|pid| Some(*pid) != asked.subject.pid);
    apart
}
