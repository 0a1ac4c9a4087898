//! Engine: the agent as a tracer, which stops each thread at both ends of each call.
//!
//! It slows what it watches down by more than ten times, so it is taken only where it is asked for, for
//! two seconds at most, and of one process with what it starts. Who is traced already is left alone. What
//! traces is [`crate::os::tracer`]; this asks it, and looks afterwards that nobody was left stopped.

use super::{
    call::Call,
    engine::{Asked, NoTrace},
    naming::Sees,
    pairing::{Begins, Ends, Paired, Pairing},
    seen::{Knows, Trace},
    threads,
};
use crate::{
    call::Context,
    instruments::{capabilities::refusals, sampling::Passing},
    os::tracer::{self, End, Entered, Sight},
    perf::sampler::Scope,
    proc::{Root, pid_stat, pid_status},
    stack::record::Window as _,
};
use protocol::{
    error::AgentError,
    host_text::HostText,
    instruments::syscall_trace::LostOn,
    message::Engine,
    observed::{Observed, Reason},
    units::Micros,
};
use rustix::io::Errno;
use std::{
    collections::{BTreeSet, HashSet},
    time::{Duration, Instant},
};

/// How often is looked up what calls are about.
const LOOK_EVERY_NS: u64 = 4_000_000;

/// For how long a thread may be on its way out of a stop after it was let go.
const SETTLING: Duration = Duration::from_millis(500);

/// Traces.
///
/// # Errors
///
/// Why not.
pub(super) fn run(asked: &Asked<'_>, context: &Context<'_>) -> Result<Trace, NoTrace> {
    let root = context.root;
    let scope = threads::scope(asked, root);
    let pids = match &scope {
        Scope::Process(pid) => vec![*pid],
        Scope::Processes(pids) => pids.clone(),
        Scope::Cgroup(_) | Scope::Host => Vec::new(),
    };
    let Some(first) = pids.first().copied() else {
        return Err(NoTrace::Ended(AgentError::ParametersRefused));
    };
    refuse_tracers(first, asked, root)?;
    // Descendants that another holds are left to it.
    let pids: Vec<u32> =
        pids.into_iter().filter(|pid| *pid == first || tracer_of(root, *pid).is_none()).collect();
    let threads = threads::list(asked, &scope, root);
    let stopped_before: HashSet<u32> =
        threads.iter().map(|(_, tid)| *tid).filter(|tid| is_stopped(root, *tid)).collect();
    let mut traced = Traced::new(first, asked, root);
    traced.pairing.note_calls(root, &threads);
    let mut window = Passing::new(context, asked.window());
    let mut withdrawn = None;
    let began = root.monotonic();
    let mut goes_on = || match window.pass(Duration::ZERO) {
        Ok(goes_on) => goes_on,
        Err(error) => {
            withdrawn = Some(error);
            false
        }
    };
    let end = tracer::follow(&pids, asked.window(), &mut |sight| traced.take(sight), &mut goes_on);
    let ended = root.monotonic();
    let end = end.map_err(|why| NoTrace::Ended(AgentError::NoTracer(why)))?;
    check_let_go(root, &end.tids, &stopped_before)?;
    if let Some(error) = withdrawn {
        return Err(NoTrace::Ended(error));
    }
    if end.tids.is_empty() {
        return Err(refused(first, &end, root));
    }
    let threads = threads::list(asked, &scope, root);
    let paired = traced.pairing.finish(root, nanos(ended), &threads);
    Ok(trace(paired, &end, ended.saturating_sub(began)))
}

/// What the tracer sees, as it comes.
pub(super) struct Traced<'a> {
    root: &'a Root,
    pub(super) pairing: Pairing<'a>,
    only: Option<BTreeSet<u32>>,
    foreign: u64,
    looked_ns: u64,
}

impl<'a> Traced<'a> {
    /// Of a process, with its descendants where these are asked for.
    pub(super) fn new(pid: u32, asked: &'a Asked<'a>, root: &'a Root) -> Self {
        let only = (!asked.request.descendants).then(|| BTreeSet::from([pid]));
        let pairing = Pairing::new(asked, root, Sees::All);
        Self { root, pairing, only, foreign: 0, looked_ns: 0 }
    }

    pub(super) fn take(&mut self, sight: Sight) {
        match sight {
            Sight::Entered(entered) => self.entered(&entered),
            Sight::Returned { tid, time_ns, answer } => {
                self.pairing.ends(Ends { tid, time_ns, number: None, answer });
                if time_ns.saturating_sub(self.looked_ns) > LOOK_EVERY_NS {
                    self.looked_ns = time_ns;
                    self.pairing.look(nanos(self.root.monotonic()));
                }
            }
            Sight::Named { pid, name } => self.pairing.named(pid, HostText::new(&name)),
            Sight::Ran { pid, former_tid } => self.pairing.ran(pid, Some(former_tid)),
            Sight::Ended { tid } => self.pairing.ended(tid),
            Sight::End(_) => {}
        }
    }

    fn entered(&mut self, entered: &Entered) {
        let Entered { pid, tid, time_ns, is_foreign, number, arguments, memory } = entered;
        if self.only.as_ref().is_some_and(|only| !only.contains(pid)) {
            return;
        }
        /// On x86_64, calls of programs with 32-bit pointers have this bit.
        const X32: u64 = 0x4000_0000;
        let Ok(number) = u32::try_from(number & !X32) else {
            self.foreign += 1;
            return;
        };
        let call = Call { number, is_32_bit: *is_foreign };
        let (pid, tid, time_ns) = (*pid, *tid, *time_ns);
        self.pairing.begins(Begins { pid, tid, time_ns, call, arguments, memory: Some(memory) });
    }
}

/// What was seen, as every engine tells it.
pub(super) fn trace(paired: Paired, end: &End, took: Duration) -> Trace {
    let Paired { seen, subjects, names, begun_before, pending, incomplete, calls } = paired;
    let lost_on =
        if end.lost > 0 { vec![LostOn { processor: 0, calls: end.lost }] } else { vec![] };
    let each_ns = end.pause_us_total.saturating_mul(1000).checked_div(calls);
    Trace {
        engine: Engine::Ptrace,
        took,
        knows: Knows::ALL,
        seen,
        subjects,
        names,
        begun_before: Observed::Known(begun_before),
        pending,
        lost_on,
        lost_elsewhere: 0,
        malformed: if end.lost == 0 { incomplete } else { 0 },
        added_per_call: each_ns.map_or(Observed::Unknown(Reason::NoSamples), |ns| {
            Observed::Known(Micros::from_ns(ns))
        }),
        pause_us_max: end.pause_us_max,
    }
}

/// Who holds a process, where somebody does.
pub(super) fn tracer_of(root: &Root, pid: u32) -> Option<u32> {
    let mut text = Vec::new();
    root.read_proc(&format!("{pid}/status"), &mut text).ok()?;
    pid_status::tracer(&text)
}

/// Refuses what another tracer holds, and what traces the agent: two tracers of each other wait for each
/// other for good.
pub(super) fn refuse_tracers(pid: u32, asked: &Asked<'_>, root: &Root) -> Result<(), NoTrace> {
    let held = tracer_of(root, pid);
    let of_ours = || {
        let mut own = threads::apart(asked, root).into_iter();
        own.find(|own| tracer_of(root, *own) == Some(pid)).map(|_| pid)
    };
    match held.or_else(of_ours) {
        Some(tracer) => Err(NoTrace::Refused(Box::new(refusals::of_held(root, tracer)))),
        None => Ok(()),
    }
}

fn refused(pid: u32, end: &End, root: &Root) -> NoTrace {
    let errno = end.refused.iter().find(|(of, _)| *of == pid).map(|(_, errno)| *errno);
    let errno = errno.map_or(Errno::SRCH, Errno::from_raw_os_error);
    if errno == Errno::SRCH {
        let agent_uid = rustix::process::geteuid().as_raw();
        return NoTrace::Ended(AgentError::NoSuchProcess { pid, agent_uid });
    }
    let refusal = match tracer_of(root, pid) {
        // Another was there first after all.
        Some(tracer) => refusals::of_held(root, tracer),
        None => refusals::of_tracing(root, pid, errno),
    };
    NoTrace::Refused(Box::new(refusal))
}

/// Looks that of those who were traced nobody stands still who did not before.
pub(super) fn check_let_go(
    root: &Root,
    tids: &[u32],
    before: &HashSet<u32>,
) -> Result<(), NoTrace> {
    let until = Instant::now() + SETTLING;
    let mut left: Vec<u32> = tids.iter().filter(|tid| !before.contains(tid)).copied().collect();
    loop {
        left.retain(|tid| is_stopped(root, *tid));
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() >= until {
            return Err(NoTrace::Ended(AgentError::LeftStopped { tids: left }));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a thread is stopped, by a signal or by a tracer. One that is gone is not.
pub(super) fn is_stopped(root: &Root, tid: u32) -> bool {
    let mut room = [0; 2048];
    let stat = root.read_proc_once(&format!("{tid}/stat"), &mut room).ok();
    let state = stat.and_then(|text| pid_stat::parse(text).ok()).map(|stat| stat.state);
    matches!(state, Some(b'T' | b't'))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
