//! Engine: records of `raw_syscalls:sys_enter` and `sys_exit`, one for each end of each call.
//!
//! Kernel reference: `include/trace/events/syscalls.h`. Each record goes through memory that the kernel
//! writes and the agent reads, so a rate that is too high for it is lost in part, and counted as such.
//! The kernel keeps calls back that were not asked for.

use super::{
    call::Call,
    cost::Trial,
    engine::{Asked, NoTrace},
    naming::Sees,
    pairing::{Begins, Ends, Paired, Pairing},
    seen::{Knows, Trace},
    threads,
};
use crate::{
    call::Context,
    instruments::{
        capabilities::refusals,
        sampling::{Passing, refusal_of_tracepoints},
    },
    perf::{
        records::{Record, Sample, User},
        sampler::{Sampler, SamplerError, Scope, Tracepoint},
    },
    proc::Root,
    stack::record::Window as _,
};
use protocol::{
    error::AgentError,
    instruments::syscall_trace::LostOn,
    message::Engine,
    observed::{Observed, Reason},
    units::Micros,
};
use std::{
    collections::{BTreeSet, HashMap},
    ffi::CString,
    time::Duration,
};

/// How often the memory is emptied.
const BEAT: Duration = Duration::from_millis(4);

/// A filter longer than a page is refused by the kernel; with more calls than this there is none.
const MOST_FILTERED: usize = 100;

/// Records of a tracepoint at their fields: `id` and six arguments, or `id` and `ret`.
struct Ids {
    enter: u64,
    exit: u64,
}

/// Watches by tracepoints.
///
/// # Errors
///
/// Why not.
pub(super) fn run(asked: &Asked<'_>, context: &Context<'_>) -> Result<Trace, NoTrace> {
    let root = context.root;
    let ids = ids(root)?;
    let scope = threads::scope(asked, root);
    let added_per_call = added_per_call(&ids, root);
    let sampler = open(asked, &scope, &ids, context)?;
    let only: Option<BTreeSet<u32>> = match &scope {
        Scope::Process(pid) if !asked.request.descendants => Some(BTreeSet::from([*pid])),
        Scope::Process(_) | Scope::Processes(_) | Scope::Cgroup(_) | Scope::Host => None,
    };
    let sees = if asked.calls.is_empty() { Sees::All } else { Sees::Some };
    let watched = Watched {
        added_per_call,
        ids: &ids,
        only,
        apart: threads::apart(asked, root),
        pairing: Pairing::new(asked, root, sees),
        on_processors: HashMap::new(),
        malformed: 0,
    };
    watch(sampler, watched, (asked, &scope), context)
}

struct Watched<'a> {
    added_per_call: Observed<Micros>,
    ids: &'a Ids,
    only: Option<BTreeSet<u32>>,
    /// Processes that are not shown: the agent's own, and what carries its channel.
    apart: Vec<u32>,
    pairing: Pairing<'a>,
    /// Records by processor, to tell how much of what there was is lost.
    on_processors: HashMap<u32, u64>,
    malformed: u64,
}

fn watch(
    mut sampler: Sampler,
    mut watched: Watched<'_>,
    (asked, scope): (&Asked<'_>, &Scope),
    context: &Context<'_>,
) -> Result<Trace, NoTrace> {
    let mut window = Passing::new(context, asked.window());
    sampler.start().map_err(|error| refused(error, asked, context))?;
    loop {
        let goes_on = window.pass(BEAT)?;
        if !goes_on {
            break;
        }
        sampler.drain(&mut |record| watched.take(record));
        watched.pairing.look(nanos(context.root.monotonic()));
    }
    let ended = nanos(context.root.monotonic());
    let (losses, by_processor) = sampler.finish_each(&mut |record| watched.take(record));
    let took = window.passed();
    let threads = threads::list(asked, scope, context.root);
    let Watched { pairing, malformed, added_per_call, .. } = watched;
    let paired = pairing.finish(context.root, ended, &threads);
    let Paired { seen, subjects, names, begun_before, pending, incomplete, .. } = paired;
    let lost_on = by_processor.into_iter().map(|(processor, calls)| LostOn { processor, calls });
    Ok(Trace {
        engine: Engine::Tracepoints,
        took,
        knows: Knows::ALL,
        seen,
        subjects,
        names,
        begun_before: Observed::Known(begun_before),
        pending,
        lost_on: lost_on.collect(),
        lost_elsewhere: 0,
        // Where nothing was lost, the other end of these was written by nobody.
        malformed: malformed + losses.malformed + if losses.lost == 0 { incomplete } else { 0 },
        added_per_call,
        pause_us_max: 0,
    })
}

impl Watched<'_> {
    fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(sample),
            Record::Named(named) if named.is_exec => self.pairing.ran(named.pid, None),
            Record::Ended(family) => self.pairing.ended(family.tid),
            Record::Named(_)
            | Record::Mapped(_)
            | Record::Born(_)
            | Record::Switched(_)
            | Record::Lost(_)
            | Record::LostSamples(_)
            | Record::Throttled
            | Record::Unthrottled
            | Record::Other(_) => {}
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let Sample { pid, tid, time_ns, cpu, fields, user, .. } = sample;
        let (pid, tid, time_ns) = (*pid, *tid, *time_ns);
        if self.apart.contains(&pid) || self.only.as_ref().is_some_and(|only| !only.contains(&pid))
        {
            return;
        }
        *self.on_processors.entry(*cpu).or_default() += 1;
        let Some(fields) = Fields::of(fields) else {
            self.malformed += 1;
            return;
        };
        if fields.kind == self.ids.enter {
            let is_32_bit = matches!(user, User::Is32Bit) || fields.number & X32 != 0;
            let Ok(number) = u32::try_from(fields.number & !X32) else { return };
            let (call, arguments) = (Call { number, is_32_bit }, &fields.arguments);
            self.pairing.begins(Begins { pid, tid, time_ns, call, arguments, memory: None });
        } else if fields.kind == self.ids.exit {
            let [answer, ..] = fields.arguments;
            // What a call has no number for after it is a return from a signal. Whether it is one of 32
            // bits, its beginning tells.
            let number = u32::try_from(fields.number & !X32).ok();
            self.pairing.ends(Ends { tid, time_ns, number, answer: answer.cast_signed() });
        } else {
            self.malformed += 1;
        }
    }
}

/// On x86_64, calls of programs with 32-bit pointers have this bit.
const X32: u64 = 0x4000_0000;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields {
    /// The tracepoint.
    kind: u64,
    number: u64,
    /// Six arguments, or what was answered.
    arguments: [u64; 6],
}

impl Fields {
    /// The common fields are 8 bytes, the first two of them the tracepoint's number.
    fn of(bytes: &[u8]) -> Option<Self> {
        let (common, rest) = bytes.split_first_chunk::<8>()?;
        let [low, high, ..] = *common;
        let mut numbers = rest.as_chunks::<8>().0.iter().map(|bytes| u64::from_ne_bytes(*bytes));
        let number = numbers.next()?;
        let mut arguments = [0; 6];
        let mut count = 0;
        for (place, value) in arguments.iter_mut().zip(numbers) {
            *place = value;
            count += 1;
        }
        let kind = u16::from_ne_bytes([low, high]).into();
        (count > 0).then_some(Self { kind, number, arguments })
    }
}

/// The tracepoints' numbers, from tracefs.
fn ids(root: &Root) -> Result<Ids, NoTrace> {
    let id = |name: &str| refusals::tracepoint(root, "raw_syscalls", name);
    let enter = id("sys_enter").map_err(|refusal| NoTrace::Refused(Box::new(refusal)))?;
    let exit = id("sys_exit").map_err(|refusal| NoTrace::Refused(Box::new(refusal)))?;
    Ok(Ids { enter, exit })
}

fn open(
    asked: &Asked<'_>,
    scope: &Scope,
    ids: &Ids,
    context: &Context<'_>,
) -> Result<Sampler, NoTrace> {
    let filter = filter(&asked.calls);
    let tracepoints = [
        Tracepoint { id: ids.enter, filter: filter.clone(), with_registers: true },
        Tracepoint { id: ids.exit, filter, with_registers: false },
    ];
    let opened = Sampler::open_tracepoints(context.root, scope, &tracepoints);
    opened.map_err(|error| refused(error, asked, context))
}

/// An expression for the calls that were asked for. A number that is 32-bit programs' is another call of
/// others, which is dropped later.
fn filter(calls: &[Call]) -> Option<CString> {
    if calls.is_empty() || calls.len() > MOST_FILTERED {
        return None;
    }
    let numbers: BTreeSet<u32> = calls.iter().map(|call| call.number).collect();
    let each: Vec<String> = numbers.iter().map(|number| format!("id == {number}")).collect();
    CString::new(each.join(" || ")).ok()
}

/// What two records add to a call: the agent's own calls, watched for that alone.
fn added_per_call(ids: &Ids, root: &Root) -> Observed<Micros> {
    let tracepoint = |id, with_registers| Tracepoint { id, filter: None, with_registers };
    let both = [tracepoint(ids.enter, true), tracepoint(ids.exit, false)];
    let own = Scope::Process(std::process::id());
    let trial = Trial::before();
    match Sampler::open_tracepoints(root, &own, &both) {
        Ok(sampler) if sampler.start().is_ok() => trial.measured(),
        Ok(_) | Err(_) => Observed::Unknown(Reason::NoSamples),
    }
}

fn refused(error: SamplerError, asked: &Asked<'_>, context: &Context<'_>) -> NoTrace {
    if let SamplerError::NoSuchProcess { pid } = error {
        let agent_uid = rustix::process::geteuid().as_raw();
        return NoTrace::Ended(AgentError::NoSuchProcess { pid, agent_uid });
    }
    let refusal = refusal_of_tracepoints(error, asked.subject, context.root);
    NoTrace::Refused(Box::new(refusal))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_by_their_length() {
        let bytes = |words: &[u64]| -> Vec<u8> {
            words.iter().flat_map(|word| word.to_ne_bytes()).collect()
        };
        let enter = bytes(&[0x0500_0000_0000_0019, 257, 1, 2, 3, 4, 5, 6]);
        let want = Fields { kind: 0x19, number: 257, arguments: [1, 2, 3, 4, 5, 6] };
        assert_eq!(Fields::of(&enter), Some(want));
        // As perf pads it.
        assert_eq!(Fields::of(&[enter, vec![0; 4]].concat()), Some(want));
        let exit = bytes(&[0x18, 257, u64::MAX - 1]);
        assert_eq!(Fields::of(&exit).unwrap().arguments[0].cast_signed(), -2);
        assert_eq!(Fields::of(&bytes(&[0x18, 257])), None);
    }

    #[test]
    fn the_kernel_is_told_the_calls_by_number() {
        let call = |number| Call { number, is_32_bit: false };
        assert_eq!(filter(&[]), None);
        let found = filter(&[call(257), call(3), Call { number: 3, is_32_bit: true }]).unwrap();
        assert_eq!(found.to_str(), Ok("id == 3 || id == 257"));
        let many: Vec<Call> = (0..101).map(call).collect();
        assert_eq!(filter(&many), None);
    }
}
