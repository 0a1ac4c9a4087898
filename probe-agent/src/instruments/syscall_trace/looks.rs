//! Engine: looks at what threads are in, again and again, in `/proc/PID/task/TID/syscall`.
//!
//! Any login may look at its own processes so, and nothing is attached. What is told is the share of looks
//! that met a call, which is its share of the time on the wall; how many calls there were is not known, nor
//! how they ended. Calls that are short are met too seldom to be told from one another.

use super::{
    call::Call,
    engine::{Asked, NoTrace},
    naming::{Naming, Sees, Token},
    pairing,
    seen::{Knows, Pending, Seen, Subjects, Tally, Trace},
    threads,
};
use crate::{
    call::Context,
    instruments::{capabilities::refusals, sampling::Passing},
    proc::{self, ReadError, waiting::SyscallLine},
    stack::{looks, record::Window as _},
};
use protocol::{
    error::AgentError,
    message::Engine,
    observed::{Observed, Reason},
};
use rustix::io::Errno;
use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

/// Rounds in a second.
const HERTZ: u64 = 20;

/// Threads that are looked at in one round; of more, others in the next.
const MOST_AT_ONCE: usize = 128;

/// A round takes no more than one of so many parts of the time.
const PART: u32 = 5;

type Id = (u32, u32);
type Key = (u32, Call, Option<Token>);

/// A thread in a call.
#[derive(Clone, Copy, Debug)]
struct In {
    call: Call,
    arguments: [u64; 6],
    about: Option<Token>,
    /// How often it had been put on a processor: as long as that stays, it is the same call.
    slices: Option<u64>,
    /// When it was first met; `None` where that was the first look.
    since: Option<Instant>,
}

struct Looker<'a, 's> {
    asked: &'a Asked<'a>,
    context: &'a Context<'s>,
    naming: Option<Naming>,
    rows: BTreeMap<Key, u64>,
    inside: HashMap<Id, In>,
    rounds: u64,
    turn: usize,
    /// Looks that met anything.
    seen: u64,
    refused: Option<(u32, Errno)>,
}

/// Looks through the window.
///
/// # Errors
///
/// Why not.
pub(super) fn run(asked: &Asked<'_>, context: &Context<'_>) -> Result<Trace, NoTrace> {
    let root = context.root;
    let proc = root.live_proc().filter(|_| asked.wants_subjects());
    let mut looker = Looker {
        asked,
        context,
        naming: proc.map(|proc| Naming::new(proc, Sees::Some)),
        rows: BTreeMap::new(),
        inside: HashMap::new(),
        rounds: 0,
        turn: 0,
        seen: 0,
        refused: None,
    };
    let mut window = Passing::new(context, asked.window());
    loop {
        let round = Instant::now();
        if !looker.round() && looker.rounds == 0 {
            let agent_uid = rustix::process::geteuid().as_raw();
            let pid = asked.subject.pid.unwrap_or_default();
            return Err(NoTrace::Ended(AgentError::NoSuchProcess { pid, agent_uid }));
        }
        if let (Some((pid, errno)), 0) = (looker.refused, looker.seen) {
            return Err(NoTrace::Refused(Box::new(refusals::of_looking(root, pid, errno))));
        }
        let took = round.elapsed();
        let pause = Duration::from_nanos(1_000_000_000 / HERTZ);
        let rest = pause.saturating_sub(took).max(took.saturating_mul(PART - 1));
        if !window.pass(rest)? {
            let took = window.passed();
            return Ok(looker.finish(took));
        }
    }
}

impl Looker<'_, '_> {
    /// Looks at every thread once, or at the next of too many. False when there is none.
    fn round(&mut self) -> bool {
        let root = self.context.root;
        let scope = threads::scope(self.asked, root);
        let mut ids = threads::list(self.asked, &scope, root);
        if ids.is_empty() {
            return false;
        }
        if ids.len() > MOST_AT_ONCE {
            let start = self.turn % ids.len();
            ids.rotate_left(start);
            ids.truncate(MOST_AT_ONCE);
            self.turn = start + MOST_AT_ONCE;
        }
        let slices: Vec<_> = ids.iter().map(|id| looks::slices_of(root, *id)).collect();
        let paths = ids.iter().map(|(pid, tid)| format!("{pid}/task/{tid}/syscall")).collect();
        let patient = root.read_each_patiently(paths);
        self.context.add_cpu(patient.cpu);
        for ((id, slices), text) in ids.into_iter().zip(slices).zip(patient.texts) {
            self.met(id, slices, text);
        }
        self.rounds += 1;
        true
    }

    fn met(&mut self, id: Id, slices: Option<u64>, text: Result<proc::Text, ReadError>) {
        let line = match text {
            Ok(text) => proc::waiting::parse_syscall(&text.bytes),
            Err(error) => {
                if matches!(error.errno, Errno::ACCESS | Errno::PERM) {
                    self.refused = self.refused.or(Some((id.0, error.errno)));
                }
                return;
            }
        };
        self.seen += 1;
        let SyscallLine::In(line) = line else {
            self.inside.remove(&id);
            return;
        };
        let Ok(number) = u32::try_from(line.number.id()) else { return };
        let (call, arguments) = (Call::new(number), line.arguments);
        if !self.asked.wants(call) {
            self.inside.remove(&id);
            return;
        }
        let is_first_look = self.rounds == 0;
        let same = self.inside.get(&id).copied().filter(|was| {
            (was.call, was.arguments, was.slices) == (call, arguments, slices) && slices.is_some()
        });
        let now = same.unwrap_or_else(|| {
            let naming = self.naming.as_mut();
            let about = naming.and_then(|naming| naming.now(id.0, (call, &arguments)));
            let since = (!is_first_look).then(Instant::now);
            In { call, arguments, about, slices, since }
        });
        self.inside.insert(id, now);
        *self.rows.entry((id.0, call, now.about)).or_default() += 1;
    }

    fn finish(self, took: Duration) -> Trace {
        let root = self.context.root;
        let mut subjects = Subjects::default();
        let named = self.naming.map(|naming| naming.finish(&mut subjects)).unwrap_or_default();
        let mut seen = Vec::with_capacity(self.rows.len());
        for ((pid, call, about), looks) in self.rows {
            let about = named.get(about);
            // Weighed by looks; as nothing else is known, these are told as shares alone.
            let tally = Tally { count: looks, total_ns: looks, ..Tally::default() };
            seen.push(Seen {
                pid,
                call,
                subject: about.map(|(id, _)| id),
                is_wait: call.is_wait(about.map(|(_, kind)| kind)),
                errno: 0,
                tally,
            });
        }
        let mut pending = Vec::new();
        for ((pid, tid), inside) in self.inside {
            let about = named.get(inside.about);
            let Some(name) = pairing::comm(root, &format!("{pid}/task/{tid}")) else { continue };
            pending.push(Pending {
                call: inside.call,
                is_wait: inside.call.is_wait(about.map(|(_, kind)| kind)),
                pid,
                tid,
                name: Observed::Known(name),
                subject: about.map(|(id, _)| id),
                since: inside.since.map(|since| since.elapsed()),
            });
        }
        let pids = seen.iter().map(|row| row.pid);
        let names = pids.filter_map(|pid| Some((pid, pairing::comm(root, &pid.to_string())?)));
        Trace {
            engine: Engine::Looks,
            took,
            knows: Knows {
                times_apart: true,
                subjects: true,
                counts: false,
                errors: false,
                totals: false,
                maxima: false,
                latency: false,
            },
            names: names.collect(),
            seen,
            subjects,
            begun_before: Observed::Unknown(Reason::NotByEngine),
            pending,
            lost_on: Vec::new(),
            lost_elsewhere: 0,
            malformed: 0,
            added_per_call: Observed::Unknown(Reason::NotByEngine),
            pause_us_max: 0,
        }
    }
}
