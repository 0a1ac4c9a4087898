//! How often things happened in a window: counted by the kernel, each time, with no sample taken.
//!
//! Counters of the processor are few. Those whose quotient is asked for are opened as one group, which
//! counts at the same time or not at all; groups take turns where there are more than fit, and then a
//! count is what was counted in its part of the time, and the rest as if it had been the same.
//!
//! Kernel reference: `man 2 perf_event_open`, `perf_event_read_value` in `kernel/events/core.c`,
//! `enum perf_sw_ids` and `enum perf_hw_id` in `include/uapi/linux/perf_event.h`.

mod counter;

use super::{
    attr::{Attributes, FORMAT_TIMES, flag},
    core_pmus::{self, CorePmu},
    event::{self, Of, OpenEvent},
    sampler::{SamplerError, Scope, refused, targets},
};
use crate::{
    order,
    proc::{Root, open_files_limit},
};
use protocol::instruments::perf_record::Counter;
use rustix::{
    fd::{AsFd as _, OwnedFd},
    io::Errno,
};
use std::sync::Arc;

/// What is counted together: the first of each leads.
const GROUPS: [&[Counter]; 8] = [
    &[Counter::TaskClock],
    &[Counter::ContextSwitches],
    &[Counter::CpuMigrations],
    &[Counter::MinorFaults],
    &[Counter::MajorFaults],
    &[Counter::Cycles, Counter::Instructions],
    &[Counter::CacheReferences, Counter::CacheMisses],
    &[Counter::Branches, Counter::BranchMisses],
];

/// A counter, and what it came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Count {
    /// What was counted.
    pub counter: Counter,
    /// On which kind of core, where there are several; each has a count of its own.
    pub on: Option<String>,
    /// How often, or why nobody knows.
    pub value: Result<Value, NotCounted>,
}

/// How often something happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Value {
    /// How often, as far as that is known; what the counter said where it counted all the time.
    pub count: u64,
    /// For how long it was to be counted, in nanoseconds, over all threads or processors.
    pub enabled_ns: u64,
    /// For how long it was.
    pub running_ns: u64,
    /// Whether what the kernel does is in it.
    pub with_kernel: bool,
}

impl Value {
    /// Whether it was counted in a part of the time only, so that `count` is reckoned.
    pub const fn is_reckoned(&self) -> bool {
        self.running_ns < self.enabled_ns
    }
}

/// Why something was not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCounted {
    /// This machine shows no counter of the processor for it.
    NoCounter(Errno),
    /// This login may not.
    NotPermitted(Errno),
    /// Of a whole machine there is no such thing.
    NotOfTheHost,
    /// All counters were another's all the time.
    CountersInUse,
    /// What no kernel should answer.
    Failed(Errno),
}

/// Events that are open.
#[derive(Debug)]
pub struct Counters {
    opened: Vec<Opened>,
    /// Threads or processors that are counted at.
    targets: usize,
}

#[derive(Debug)]
struct Opened {
    counter: Counter,
    on: Option<String>,
    with_kernel: bool,
    /// Whether it leads a group, and so has to be told to begin.
    leads: bool,
    /// Whether a thread that is on another kind of core counts as not counted, so that there is nothing
    /// to reckon from.
    has_turns_by_core: bool,
    events: Result<Vec<Option<OpenEvent>>, NotCounted>,
}

/// What an event is opened for.
enum Targets {
    Threads(Vec<u32>),
    Cgroup(Arc<OwnedFd>, Vec<u32>),
    Host(Vec<u32>),
}

/// Threads come and go: all is opened anew so often at most.
const MOST_TRIES: usize = 3;

/// Descriptors that are left for everything else.
const NEVER_USED: u64 = 64;

impl Counters {
    /// Opens all that can be had. Nothing counts before [`Counters::start`].
    ///
    /// # Errors
    ///
    /// When nothing at all could be counted, as for sampling; that a single counter is not to be had is no
    /// error.
    pub fn open(root: &Root, scope: &Scope) -> Result<Self, SamplerError> {
        let pmus = core_pmus::of_hybrid(root);
        let mut tries = 1;
        let mut targets = Targets::of(root, scope)?;
        loop {
            targets.check_room(pmus.len().max(1))?;
            let opened = open_all(&targets, &pmus);
            // A thread born before its parent's event was there is not counted; one born after is.
            let again = Targets::of(root, scope)?;
            if tries < MOST_TRIES && !again.are_all_in(&targets) {
                (targets, tries) = (again, tries + 1);
                continue;
            }
            let counters = Self { opened, targets: targets.len() };
            return counters.unless_nothing(root, scope);
        }
    }

    fn unless_nothing(self, root: &Root, scope: &Scope) -> Result<Self, SamplerError> {
        let is_any = |opened: &Opened| {
            opened.events.as_ref().is_ok_and(|events| events.iter().any(Option::is_some))
        };
        if self.opened.iter().any(is_any) {
            return Ok(self);
        }
        let of_kernel = self.opened.iter().filter(|one| !one.counter.is_of_the_processor());
        let why =
            of_kernel.filter_map(|opened| opened.events.as_ref().err()).find_map(|why| match why {
                NotCounted::NotPermitted(errno) | NotCounted::Failed(errno) => Some(*errno),
                NotCounted::NoCounter(_) | NotCounted::NotOfTheHost | NotCounted::CountersInUse => {
                    None
                }
            });
        Err(match why {
            Some(errno @ (Errno::BADF | Errno::INVAL)) if matches!(scope, Scope::Cgroup(_)) => {
                SamplerError::Cgroup { errno }
            }
            Some(errno) => refused(root, errno),
            None => SamplerError::NoSuchProcess { pid: scope.first_pid() },
        })
    }

    /// Threads or processors that are counted at.
    pub const fn targets(&self) -> usize {
        self.targets
    }

    /// Begins to count.
    ///
    /// # Errors
    ///
    /// [`SamplerError::Failed`].
    pub fn start(&self) -> Result<(), SamplerError> {
        let leaders = self.opened.iter().filter(|opened| opened.leads);
        let mut events =
            leaders.filter_map(|opened| opened.events.as_ref().ok()).flatten().flatten();
        events.try_for_each(OpenEvent::enable).map_err(|errno| SamplerError::Failed { errno })
    }

    /// Ends counting, and tells what came of it. Nothing is attached to any process after it.
    pub fn finish(self) -> Vec<Count> {
        let leaders = self.opened.iter().filter(|opened| opened.leads);
        for event in leaders.filter_map(|opened| opened.events.as_ref().ok()).flatten().flatten() {
            // What cannot be disabled is read in a moment.
            let _ = event.disable();
        }
        self.opened.into_iter().map(Opened::count).collect()
    }
}

impl Opened {
    fn count(self) -> Count {
        let Self { counter, on, with_kernel, has_turns_by_core, events, .. } = self;
        let value = events.and_then(|events| {
            let mut sum = Value { with_kernel, ..Value::default() };
            for event in events.iter().flatten() {
                let [count, enabled, running] =
                    event.read_with_times().map_err(NotCounted::Failed)?;
                if enabled > 0 && running == 0 && !has_turns_by_core {
                    return Err(NotCounted::CountersInUse);
                }
                let is_whole = has_turns_by_core || running == 0;
                let count = if is_whole { count } else { scaled(count, enabled, running) };
                sum.count = sum.count.saturating_add(count);
                sum.running_ns = sum.running_ns.saturating_add(running);
                let enabled = if has_turns_by_core { running } else { enabled };
                sum.enabled_ns = sum.enabled_ns.saturating_add(enabled);
            }
            Ok(sum)
        });
        Count { counter, on, value }
    }
}

/// What a counter would have said, had it counted all the time.
fn scaled(count: u64, enabled: u64, running: u64) -> u64 {
    if running == 0 || running >= enabled {
        return count;
    }
    let scaled = u128::from(count) * u128::from(enabled) / u128::from(running);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

impl Targets {
    fn of(root: &Root, scope: &Scope) -> Result<Self, SamplerError> {
        let pids = match scope {
            Scope::Process(pid) => std::slice::from_ref(pid),
            Scope::Processes(pids) => pids.as_slice(),
            Scope::Cgroup(folder) => {
                return Ok(Self::Cgroup(Arc::clone(folder), targets::processors(root)?));
            }
            Scope::Host => return Ok(Self::Host(targets::processors(root)?)),
        };
        let threads = targets::threads_of(root, pids);
        if threads.is_empty() {
            return Err(SamplerError::NoSuchProcess { pid: scope.first_pid() });
        }
        Ok(Self::Threads(threads))
    }

    fn len(&self) -> usize {
        let (Self::Threads(all) | Self::Cgroup(_, all) | Self::Host(all)) = self;
        all.len()
    }

    /// Each event is an open file.
    fn check_room(&self, kinds_of_cores: usize) -> Result<(), SamplerError> {
        let counters = Counter::ALL.iter();
        let each: usize = counters
            .map(|counter| if counter.is_of_the_processor() { kinds_of_cores } else { 1 })
            .sum();
        let needed = u64::try_from(self.len().saturating_mul(each)).unwrap_or(u64::MAX);
        let limit = open_files_limit();
        if needed > limit.saturating_sub(NEVER_USED) {
            return Err(SamplerError::OpenFiles { errno: Errno::MFILE, limit, needed });
        }
        Ok(())
    }

    fn are_all_in(&self, before: &Self) -> bool {
        match (self, before) {
            (Self::Threads(now), Self::Threads(before)) => {
                now.iter().all(|tid| before.binary_search(tid).is_ok())
            }
            (Self::Threads(_) | Self::Cgroup(..) | Self::Host(_), _) => true,
        }
    }

    /// Opens an event for each, or with each of the leaders. `None` for a thread that ended, a processor
    /// that went offline, and one that has other counters.
    fn open_each(
        &self,
        attributes: Attributes,
        pmu: Option<&CorePmu>,
        leaders: Option<&[Option<OpenEvent>]>,
    ) -> Result<Vec<Option<OpenEvent>>, Errno> {
        let has_it = |cpu: u32| pmu.is_none_or(|pmu| pmu.cpus.contains(&cpu));
        let (Self::Threads(all) | Self::Cgroup(_, all) | Self::Host(all)) = self;
        let mut events = Vec::with_capacity(all.len());
        for (index, number) in all.iter().enumerate() {
            let of = match self {
                Self::Threads(_) => Some(Of::Thread(*number, None)),
                Self::Cgroup(folder, _) if has_it(*number) => {
                    Some(Of::Cgroup(folder.as_fd(), *number))
                }
                Self::Host(_) if has_it(*number) => Some(Of::Processor(*number)),
                Self::Cgroup(..) | Self::Host(_) => None,
            };
            // Without its leader there is none.
            let leader = leaders.map(|leaders| leaders.get(index).and_then(Option::as_ref));
            let event = match (of, leader) {
                (Some(of), None) => Some((of, None)),
                (Some(of), Some(Some(leader))) => Some((of, Some(leader))),
                (None, _) | (Some(_), Some(None)) => None,
            };
            let Some((of, leader)) = event else {
                events.push(None);
                continue;
            };
            match event::open_in_group(attributes, of, leader) {
                Ok(event) => events.push(Some(event)),
                Err(Errno::SRCH | Errno::NODEV) => events.push(None),
                Err(errno) => return Err(errno),
            }
        }
        Ok(events)
    }
}

fn open_all(targets: &Targets, pmus: &[CorePmu]) -> Vec<Opened> {
    let mut opened = Vec::new();
    for group in GROUPS {
        let is_hardware = group.iter().any(|counter| counter.is_of_the_processor());
        let on: Vec<Option<&CorePmu>> = if is_hardware && !pmus.is_empty() {
            pmus.iter().map(Some).collect()
        } else {
            vec![None]
        };
        for pmu in on {
            open_group(targets, group, pmu, &mut opened);
        }
    }
    opened
}

fn open_group(
    targets: &Targets,
    group: &[Counter],
    pmu: Option<&CorePmu>,
    opened: &mut Vec<Opened>,
) {
    let first = opened.len();
    for counter in group {
        let leads = opened.len() == first;
        let (leaders, with_kernel) = match opened.get(first) {
            None => (None, None),
            Some(leader) => {
                (leader.events.as_ref().ok().map(Vec::as_slice), Some(leader.with_kernel))
            }
        };
        let (events, with_kernel) = match opened.get(first).map(|leader| &leader.events) {
            Some(Err(why)) => (Err(*why), false),
            Some(Ok(_)) | None => open_one(targets, *counter, pmu, (leaders, with_kernel)),
        };
        let has_turns_by_core = pmu.is_some() && matches!(targets, Targets::Threads(_));
        opened.push(Opened {
            counter: *counter,
            on: pmu.map(|pmu| pmu.name.clone()),
            with_kernel,
            leads,
            has_turns_by_core,
            events,
        });
    }
}

type Events = Result<Vec<Option<OpenEvent>>, NotCounted>;

/// Opens one, without the kernel's part where that is not permitted.
fn open_one(
    targets: &Targets,
    counter: Counter,
    pmu: Option<&CorePmu>,
    (leaders, with_kernel): (Option<&[Option<OpenEvent>]>, Option<bool>),
) -> (Events, bool) {
    if counter == Counter::TaskClock && matches!(targets, Targets::Host(_)) {
        return (Err(NotCounted::NotOfTheHost), false);
    }
    let (kind, config) = counter::kind(counter);
    let mut attributes = Attributes::of_kind(kind, config);
    attributes.read_format = FORMAT_TIMES;
    if leaders.is_none() {
        attributes.flags |= flag::DISABLED;
    }
    if matches!(targets, Targets::Threads(_)) {
        attributes.flags |= flag::INHERIT;
    }
    if let Some(pmu) = pmu {
        attributes = attributes.on_counters(pmu.kind);
    }
    let mut without_kernel = attributes;
    without_kernel.flags |= flag::EXCLUDE_KERNEL;
    // All of a group are of the same part.
    let order: &[(Attributes, bool)] = match with_kernel {
        None if counter::is_of_the_kernel(counter) => &[(attributes, true)],
        None => &[(attributes, true), (without_kernel, false)],
        Some(true) => &[(attributes, true)],
        Some(false) => &[(without_kernel, false)],
    };
    let mut why = NotCounted::Failed(Errno::INVAL);
    for (attributes, with_kernel) in order {
        match targets.open_each(*attributes, pmu, leaders) {
            Ok(events) => return (Ok(events), *with_kernel),
            Err(errno @ (Errno::ACCESS | Errno::PERM)) => why = NotCounted::NotPermitted(errno),
            Err(errno) if counter.is_of_the_processor() && is_no_counter(errno) => {
                return (Err(NotCounted::NoCounter(errno)), false);
            }
            Err(errno) => return (Err(NotCounted::Failed(errno)), false),
        }
    }
    (Err(why), false)
}

/// The kernel's answers where a processor has no such counter, or shows none.
const fn is_no_counter(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::INVAL)
}

/// Two counts of one kind of core that were counted at the same time, as by one group.
///
/// # Errors
///
/// Why one of them is not known; nothing where they are, and are of different times, or the second is 0.
pub fn of_one_time(
    counts: &[Count],
    on: Option<&str>,
    (part, whole): (Counter, Counter),
) -> Result<(u64, u64), Option<NotCounted>> {
    let value = |counter: Counter| {
        let of = |count: &&Count| count.counter == counter && count.on.as_deref() == on;
        counts.iter().find(of).ok_or(None)?.value.map_err(Some)
    };
    let (part, whole) = (value(part)?, value(whole)?);
    let is_one_time = part.running_ns == whole.running_ns && whole.count > 0;
    if is_one_time { Ok((part.count, whole.count)) } else { Err(None) }
}

/// The kinds of core that counts are of, `None` for a machine with one.
pub fn kinds_of_cores(counts: &[Count]) -> Vec<Option<String>> {
    let hardware = counts.iter().filter(|count| count.counter.is_of_the_processor());
    let mut kinds: Vec<Option<String>> = hardware.map(|count| count.on.clone()).collect();
    order::ascending(&mut kinds);
    kinds.dedup();
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(counter: Counter, on: Option<&str>, count: u64, running_ns: u64) -> Count {
        let value = Value { count, enabled_ns: 100, running_ns, with_kernel: true };
        Count { counter, on: on.map(str::to_owned), value: Ok(value) }
    }

    #[test]
    fn a_count_of_part_of_the_time_is_reckoned_to_all_of_it() {
        let cases = [
            ("all the time", (1000, 50, 50), 1000),
            ("half of it", (1000, 100, 50), 2000),
            ("never", (0, 100, 0), 0),
            ("more than fits", (u64::MAX, 100, 50), u64::MAX),
        ];
        for (name, (count, enabled, running), want) in cases {
            assert_eq!(scaled(count, enabled, running), want, "{name}");
        }
    }

    #[test]
    fn a_quotient_is_of_one_kind_of_core_and_one_time_only() {
        use Counter::{Cycles, Instructions};
        let of = |counts: &[Count], on| of_one_time(counts, on, (Instructions, Cycles));
        let of_cores = [
            count(Cycles, Some("cpu_atom"), 1000, 50),
            count(Instructions, Some("cpu_atom"), 500, 50),
            count(Cycles, Some("cpu_core"), 1000, 50),
            count(Instructions, Some("cpu_core"), 3000, 50),
        ];
        assert_eq!(of(&of_cores, Some("cpu_core")), Ok((3000, 1000)));
        assert_eq!(of(&of_cores, Some("cpu_atom")), Ok((500, 1000)));
        assert_eq!(of(&of_cores, None), Err(None));
        let kinds = [Some("cpu_atom".to_owned()), Some("cpu_core".to_owned())];
        assert_eq!(kinds_of_cores(&of_cores), kinds);
        // By two groups, at two times.
        let apart = [count(Cycles, None, 1000, 50), count(Instructions, None, 1000, 49)];
        assert_eq!(of(&apart, None), Err(None));
        let idle = [count(Cycles, None, 0, 50), count(Instructions, None, 0, 50)];
        assert_eq!(of(&idle, None), Err(None));
        let why = NotCounted::NoCounter(Errno::NOENT);
        let none = Count { value: Err(why), ..count(Cycles, None, 0, 0) };
        let instructions = count(Instructions, None, 1, 50);
        assert_eq!(of(&[none, instructions], None), Err(Some(why)));
    }

    #[test]
    fn each_counter_is_in_one_group() {
        let grouped: Vec<Counter> = GROUPS.iter().flat_map(|group| group.iter().copied()).collect();
        assert_eq!(grouped, Counter::ALL);
    }
}
