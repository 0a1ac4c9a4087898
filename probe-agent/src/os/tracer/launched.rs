//! What is different where the agent launched what it follows: it is seen from the call by which it is run,
//! and nothing of it is left at the end.
//!
//! Where it has a filter, calls that nobody asked for do not stop at all: a thread goes on by `PTRACE_CONT`,
//! stops where the filter says so, and goes on by `PTRACE_SYSCALL` until it is back from that call.

use super::{
    Ended, Launched, Sight,
    following::{Left, Tracer},
    requests::{self, Ending, Tid},
};
use crate::os::{
    clock,
    launcher::{self, Failed},
};
use rustix::{fd::OwnedFd, io::Errno};
use std::{
    collections::{BTreeSet, HashSet},
    time::{Duration, Instant},
};
use syscalls::Sysno;

/// For how long a command may end by itself that was asked to, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// For how long those are waited for that were killed: in an uninterruptible sleep they do not end. They are
/// the kernel's to end then, at the end of the tracer.
const PATIENCE: Duration = Duration::from_secs(1);

/// The command.
#[derive(Debug)]
pub(super) struct Launch {
    root: Tid,
    /// Its word, until it has it.
    go: Option<OwnedFd>,
    failed: Failed,
    is_filtered: bool,
    /// Threads that are in a call that their filter stopped.
    in_call: HashSet<Tid>,
    /// Since when it is to be seen: what its process does before it is run is the agent's.
    began_ns: Option<u64>,
    /// The window is over: it is seen no longer.
    is_over: bool,
    told: Launched,
}

impl Tracer<'_> {
    /// Lets it run, and sees it until its end.
    pub(super) fn follow_launched(&mut self) {
        let Some(held) = launcher::take() else {
            return self.end.refused.push((0, Errno::SRCH.raw_os_error()));
        };
        let root = held.pid.cast_signed();
        if let Err(errno) = requests::seize_launched(root) {
            // Without its word it ends and was never run.
            return self.end.refused.push((held.pid, errno.raw_os_error()));
        }
        self.threads.insert(root, held.pid);
        self.launch = Some(Launch {
            root,
            go: Some(held.go),
            failed: held.failed,
            is_filtered: held.is_filtered,
            in_call: HashSet::new(),
            began_ns: None,
            is_over: false,
            told: Launched::default(),
        });
        // It has to stand still once, to go on to its next call from there.
        let _ = requests::interrupt(root);
        let left = self.watch();
        let over_ns = now();
        if let Some(launch) = &mut self.launch {
            launch.is_over = true;
            launch.told.ended = match left {
                Left::Nobody => Ended::Itself,
                Left::Some if self.outbox.is_closed() => Ended::Asked,
                Left::Some => Ended::Window,
            };
        }
        if left == Left::Some {
            self.end_all();
        }
        if let Some(launch) = self.launch.take() {
            let not_run = launch.failed.read();
            let watched_ns = (launch.began_ns.unwrap_or(over_ns), over_ns);
            let left = self.end.left_to_the_kernel;
            self.end.launched = Some(Launched { not_run, watched_ns, left, ..launch.told });
        }
    }

    /// Ends all of it. It is traced meanwhile, so that what it starts yet is ended too, and nothing stands
    /// still. `threads` knows of nobody who was born a moment ago: only the kernel says that nobody is left.
    fn end_all(&mut self) {
        let began = Instant::now();
        let mut asked = BTreeSet::new();
        loop {
            let is_patient = began.elapsed() < GRACE;
            for pid in self.threads.values().copied().collect::<BTreeSet<u32>>() {
                if !is_patient {
                    requests::end(pid, Ending::Killed);
                } else if asked.insert(pid) {
                    requests::end(pid, Ending::Asked);
                }
            }
            if self.take_one() == Left::Nobody {
                return self.threads.clear();
            }
            if began.elapsed() > GRACE + PATIENCE {
                self.end.left_to_the_kernel = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
                return;
            }
        }
    }

    /// Tells the worker, unless it is of what nobody asked for.
    pub(super) fn see(&mut self, sight: &Sight) {
        let is_wanted = |launch: &Launch| launch.began_ns.is_some() && !launch.is_over;
        if self.launch.as_ref().is_none_or(is_wanted) {
            self.outbox.put(sight);
        }
    }

    /// Tells the name of a process, which stands still.
    pub(super) fn tell_name(&mut self, pid: u32) {
        if self.launch.is_none() {
            return;
        }
        if let Ok(mut name) = std::fs::read(format!("/proc/{pid}/comm")) {
            name.truncate(name.trim_ascii_end().len());
            self.see(&Sight::Named { pid, name });
        }
    }

    /// A thread stands still because it was asked to, or was just born. The command gets its word.
    pub(super) fn let_run(&mut self, tid: Tid) {
        let Some(launch) = self.launch.as_mut().filter(|launch| launch.root == tid) else { return };
        if let Some(go) = launch.go.take() {
            // It reads, or has ended.
            let _ = rustix::io::write(&go, &[1]);
        }
    }

    /// A call begins.
    pub(super) fn begins(&mut self, tid: Tid, number: u64) {
        let Some(launch) = &mut self.launch else { return };
        if launch.is_filtered {
            launch.in_call.insert(tid);
        }
        if number == u64::from(Sysno::execve as u32) {
            launch.began_ns.get_or_insert_with(now);
        }
    }

    /// A thread is back from its call.
    pub(super) fn is_back(&mut self, tid: Tid) {
        if let Some(launch) = &mut self.launch {
            launch.in_call.remove(&tid);
        }
    }

    /// A process runs another program: its thread has the process's number now.
    pub(super) fn note_run(&mut self, tid: Tid, former: Tid) {
        let Some(launch) = &mut self.launch else { return };
        launch.began_ns.get_or_insert_with(now);
        if launch.in_call.remove(&former) {
            launch.in_call.insert(tid);
        }
    }

    /// A thread has ended.
    pub(super) fn note_end(&mut self, tid: Tid, status: i32) {
        let Some(launch) = &mut self.launch else { return };
        launch.in_call.remove(&tid);
        if launch.root == tid {
            launch.told.outcome = Some(requests::outcome(status));
        }
    }

    /// Whether a thread is to stop at its next call that its filter stops.
    pub(super) fn is_in_no_call_to_see(&self, tid: Tid) -> bool {
        let is_in_none = |launch: &Launch| launch.is_filtered && !launch.in_call.contains(&tid);
        self.launch.as_ref().is_some_and(is_in_none)
    }
}

fn now() -> u64 {
    u64::try_from(clock::monotonic().as_nanos()).unwrap_or(u64::MAX)
}
