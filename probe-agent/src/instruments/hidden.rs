//! What the agent is not shown: processes that `/proc` hides, and how many threads there are in all.

use crate::{
    call::Context,
    proc::{loadavg, mountinfo},
};
use protocol::{
    instruments::process_list::HiddenBy,
    observed::{Feature, Observed, Reason},
};

/// What hides processes from a pass over all of them. Pid 1 is in every pid namespace, and threads of
/// the kernel are in the first one only: a `/proc` that shows them shows all.
pub(super) fn hidden_by(
    shows_first: bool,
    shows_kernel: bool,
    context: &Context<'_>,
) -> Vec<HiddenBy> {
    let mut hidden_by = Vec::new();
    if !shows_first {
        let mut mounts = Vec::new();
        let _ = context.root.read_proc("self/mountinfo", &mut mounts);
        if mountinfo::proc_hides_processes(&mounts) {
            hidden_by.push(HiddenBy::Hidepid);
        }
    }
    if !shows_kernel && context.root.is_in_pid_namespace() {
        hidden_by.push(HiddenBy::PidNamespace);
    }
    hidden_by
}

/// Threads of the whole machine, seen or not.
pub(super) fn host_threads(context: &Context<'_>) -> Observed<u64> {
    let mut text = Vec::new();
    let read = context.root.read_proc("loadavg", &mut text);
    let threads = read.map_err(|error| error.reason_of_file(Feature::Field)).and_then(|()| {
        loadavg::parse_threads(&text).map_err(|error| Reason::NotUnderstood(error.shown()))
    });
    threads.into()
}
