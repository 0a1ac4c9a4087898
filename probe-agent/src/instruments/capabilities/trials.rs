//! The trials, in groups that run side by side: one that hangs costs its own group and no other.

mod bpf;
mod kernel;
mod perf;
mod processes;
pub(super) mod programs;

use super::situation::Situation;
use crate::{
    os::{clock, observer::Observer},
    proc::Root,
};
use protocol::instruments::capabilities::{Barrier, Check, CheckId, State};
use rustix::io::Errno;
use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

/// How long everything together may take. A trial that is not over by then has timed out.
pub(super) const PATIENCE: Duration = Duration::from_millis(2500);

/// How long a foreign program may take, its version and its trial together.
const PATIENCE_WITH_PROGRAMS: Duration = Duration::from_millis(2000);

/// What a group of trials came to.
#[derive(Debug)]
pub(super) struct Tried {
    pub(super) checks: Vec<Check>,
    /// Processor time of the agent's own threads.
    pub(super) cpu: Duration,
}

/// A group: which checks it makes, and how.
struct Group {
    ids: &'static [CheckId],
    run: fn(&Root, &Situation, &mut Vec<Check>),
}

const GROUPS: [Group; 8] = [
    Group { ids: perf::IDS, run: perf::run },
    Group { ids: bpf::IDS, run: bpf::run },
    Group { ids: processes::VISIBLE, run: processes::visible },
    Group { ids: processes::FILES, run: processes::files },
    Group { ids: kernel::IDS, run: kernel::run },
    Group {
        ids: &[CheckId::ToolPerf],
        run: |root, s, c| programs::run(Observer::Perf, root, s, c),
    },
    Group {
        ids: &[CheckId::ToolStrace],
        run: |root, s, c| programs::run(Observer::Strace, root, s, c),
    },
    Group {
        ids: &[CheckId::ToolBpftrace],
        run: |root, s, c| programs::run(Observer::Bpftrace, root, s, c),
    },
];

/// Tries everything, for no longer than [`PATIENCE`].
pub(super) fn run(root: &Root, situation: &Arc<Situation>) -> Tried {
    let started = Instant::now();
    let mut tried = Tried { checks: Vec::new(), cpu: Duration::ZERO };
    let (sender, results) = mpsc::channel();
    let mut running = Vec::new();
    for (index, group) in GROUPS.iter().enumerate() {
        let (root, sender, situation) = (root.for_call(), sender.clone(), Arc::clone(situation));
        let work = move || {
            let mut checks = Vec::new();
            (group.run)(&root, &situation, &mut checks);
            // Nobody may be waiting any more.
            let _ = sender.send((index, checks, clock::thread_cpu()));
        };
        let thread = std::thread::Builder::new().name("trial".to_owned()).spawn(work);
        if thread.is_ok() {
            running.push(index);
        }
    }
    drop(sender);
    let mut done = Vec::new();
    while done.len() < running.len() {
        let left = PATIENCE.saturating_sub(started.elapsed());
        let Ok((index, checks, cpu)) = results.recv_timeout(left) else { break };
        tried.checks.extend(checks);
        tried.cpu += cpu;
        done.push(index);
    }
    for (index, group) in GROUPS.iter().enumerate().filter(|(index, _)| !done.contains(index)) {
        let state = if running.contains(&index) {
            State::TimedOut { after_ms: crate::call::millis(PATIENCE) }
        } else {
            State::NotTried
        };
        tried.checks.extend(group.ids.iter().map(|id| Check::new(*id, state)));
    }
    tried
}

/// A check that was refused.
fn refused(id: CheckId, errno: Errno, barriers: Vec<Barrier>) -> Check {
    let errno = Some(errno.raw_os_error());
    Check { errno, barriers, ..Check::new(id, State::Refused) }
}

/// A check of something that this kernel has not.
fn lacking(id: CheckId, errno: Option<Errno>, barrier: Barrier) -> Check {
    let errno = errno.map(Errno::raw_os_error);
    Check { errno, barriers: vec![barrier], ..Check::new(id, State::NotInKernel) }
}

/// Whether an error says that something is not allowed, and not that it does not exist.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::PERM | Errno::ACCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_is_in_one_group() {
        let mut ids: Vec<CheckId> = GROUPS.iter().flat_map(|group| group.ids).copied().collect();
        ids.sort_unstable();
        assert_eq!(ids, CheckId::ALL);
    }

    #[test]
    fn every_trial_comes_to_an_end_and_gives_what_it_promises() {
        let root = Root::live().unwrap();
        let situation = Arc::new(Situation::read(&root));
        for group in &GROUPS {
            let mut checks = Vec::new();
            (group.run)(&root, &situation, &mut checks);
            let mut ids: Vec<CheckId> = checks.iter().map(|check| check.id).collect();
            ids.sort_unstable();
            assert_eq!(ids, group.ids);
            for check in &checks {
                let is_whole = matches!(check.state, State::Works | State::NotTried);
                assert!(is_whole || check.why().is_some(), "{check:?}");
            }
        }
    }
}
