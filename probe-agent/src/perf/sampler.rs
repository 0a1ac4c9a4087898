//! Samples of what processes execute, or of what happens to them.
//!
//! An event that its threads and children inherit can only write into memory of one processor
//! (`perf_mmap` in `kernel/events/core.c`). So there is one for each thread and processor, and all of a
//! processor write with the first. A process with too many threads for that is found among everything
//! that runs. Records of all processors are taken in the order of their time.

mod negotiate;
mod settings;
pub(super) mod targets;
mod tracepoints;

pub use negotiate::{Basis, KernelPart};
pub use settings::{Measure, Scope, Settings, UserStack};
pub use targets::Reach;
pub use tracepoints::Tracepoint;

use super::{
    attr::FORMAT_LOST,
    event::{self, OpenEvent},
    records::{self, Layout, Record},
    ring::Ring,
};
use crate::{os::clock, proc::Root};
use rustix::io::Errno;
use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashSet},
    ffi::CString,
    time::Duration,
};
use targets::Targets;

/// Why nothing can be sampled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplerError {
    /// The kernel, or a filter before it, does not let this login.
    #[error("perf_event_open was refused: {errno}")]
    NotPermitted {
        /// What was answered.
        errno: Errno,
        /// `kernel.perf_event_paranoid`, where it can be read.
        paranoid: Option<i64>,
    },
    /// The processor has no counter for it, or the machine shows none, as most virtual ones.
    #[error("there is no hardware counter for it: {errno}")]
    NoCounter {
        /// What was answered.
        errno: Errno,
    },
    /// There is no such process, or it has ended.
    #[error("there is no process {pid}")]
    NoSuchProcess {
        /// Which, the first where several were asked for.
        pid: u32,
    },
    /// So many files may not be open at once.
    #[error("{needed} open files are needed, and {limit} may be open: {errno}")]
    OpenFiles {
        /// What was answered.
        errno: Errno,
        /// The limit, `RLIMIT_NOFILE`.
        limit: u64,
        /// For this alone.
        needed: u64,
    },
    /// So much memory may not be locked, not even the least that holds samples.
    #[error("{kib} KiB for samples of each processor cannot be had: {errno}")]
    LockedMemory {
        /// What was answered.
        errno: Errno,
        /// For each processor.
        kib: u32,
    },
    /// The kernel has no performance events.
    #[error("this kernel has no performance events")]
    NotInKernel,
    /// Which processors there are could not be read.
    #[error("/sys/devices/system/cpu/online cannot be read: {why}")]
    Processors {
        /// Why.
        why: String,
    },
    /// The folder of the cgroup could not be opened.
    #[error("the folder of the cgroup cannot be opened: {errno}")]
    Cgroup {
        /// What was answered.
        errno: Errno,
    },
    /// What no kernel should answer.
    #[error("perf_event_open failed: {errno}")]
    Failed {
        /// What was answered.
        errno: Errno,
    },
}

/// What is missing of a recording because of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records that there was no room for, by what the kernel wrote of it or counted, whichever is
    /// more.
    pub lost: u64,
    /// Of those, in the ring that lost most.
    pub lost_of_worst_ring: u64,
    /// How often the kernel stopped sampling for a while.
    pub throttled: u64,
    /// Records that were not understood, and rings that had to be given up until where they were.
    pub malformed: u64,
}

/// Events that are open, and the memory that they write to.
#[derive(Debug)]
pub struct Sampler {
    /// For each processor, events that write into its ring; the ring is the first's.
    processors: Vec<Processor>,
    basis: Basis,
    reach: Reach,
    /// Which processes count, where everything that runs is sampled for some.
    followed: Option<HashSet<u32>>,
    layout: Layout,
    malformed: u64,
    throttled: u64,
}

#[derive(Debug)]
struct Processor {
    cpu: u32,
    ring: Ring,
    events: Vec<OpenEvent>,
    lost: u64,
}

/// An event that is opened for everything that is sampled.
struct Wanted {
    basis: Basis,
    /// Which events of a tracepoint are taken.
    filter: Option<CString>,
}

/// How much room each processor gets.
struct Rings {
    kib: u32,
    wanted_kib: u32,
    least_kib: u32,
}

impl Rings {
    fn of(settings: &Settings, basis: &Basis, processors: usize) -> Self {
        let kib = settings.ring_kib(basis, processors);
        Self { kib, wanted_kib: kib, least_kib: settings.least_ring_kib() }
    }

    /// Opens all events, with half the room for each where there is not so much.
    fn open_all(
        &mut self,
        cpus: &[u32],
        targets: &Targets<'_>,
        wanted: &[Wanted],
    ) -> Result<Vec<Processor>, SamplerError> {
        let mut processors = Vec::with_capacity(cpus.len());
        for cpu in cpus {
            let mut events = Vec::new();
            for Wanted { basis, filter } in wanted {
                let opened = targets.open(*cpu, basis)?;
                if let Some(filter) = filter {
                    let kept = opened.iter().try_for_each(|event| event.keep_only(filter));
                    kept.map_err(|errno| SamplerError::Failed { errno })?;
                }
                events.extend(opened);
            }
            let Some((first, others)) = events.split_first() else { continue };
            let ring = loop {
                match Ring::map(first, self.kib) {
                    Ok(ring) => break ring,
                    Err(Errno::PERM | Errno::NOMEM) if self.kib > self.least_kib => self.kib /= 2,
                    Err(errno) => {
                        return Err(SamplerError::LockedMemory { errno, kib: self.kib });
                    }
                }
            };
            for event in others {
                event.write_with(first).map_err(|errno| SamplerError::Failed { errno })?;
            }
            processors.push(Processor { cpu: *cpu, ring, events, lost: 0 });
        }
        Ok(processors)
    }
}

/// A process whose threads come and go is opened anew so often at most.
const MOST_TRIES: usize = 3;

/// The least room for samples, in KiB.
const LEAST_RING_KIB: u32 = 32;

/// All rings together, in KiB.
const MOST_RINGS_KIB: u32 = 128 << 10;

/// A record may be written a little after its time was taken.
const SLACK: Duration = Duration::from_millis(1);

impl Sampler {
    /// Opens the events. They do not count before [`Sampler::start`].
    ///
    /// # Errors
    ///
    /// As for the variants.
    pub fn open(root: &Root, settings: &Settings) -> Result<Self, SamplerError> {
        let cpus = targets::processors(root)?;
        let basis = negotiate::negotiate(root, settings)?;
        let rings = Rings::of(settings, &basis, cpus.len());
        let layout = Layout {
            with_chain: true,
            with_fields: false,
            with_user_stack: settings.stack.dump_bytes() > 0,
            fixed_period: (!basis.has_rate()).then_some(basis.hertz),
        };
        let wanted = [Wanted { basis, filter: None }];
        Self::open_each(root, &settings.scope, (&cpus, &wanted), rings, layout)
    }

    fn open_each(
        root: &Root,
        scope: &Scope,
        (cpus, wanted): (&[u32], &[Wanted]),
        mut rings: Rings,
        layout: Layout,
    ) -> Result<Self, SamplerError> {
        let Some(Wanted { basis, .. }) = wanted.first() else {
            return Err(SamplerError::Failed { errno: Errno::INVAL });
        };
        let (basis, needed) = (*basis, (cpus.len(), wanted.len()));
        let mut targets = Targets::of(root, scope, needed, &basis)?;
        let mut tries = 1;
        let processors = loop {
            let processors = rings.open_all(cpus, &targets, wanted)?;
            // A thread born before its parent's event was there is not followed; one born after is.
            // Nobody tells which, so all is opened anew.
            let again = Targets::of(root, scope, needed, &basis)?;
            if tries >= MOST_TRIES || again.are_all_in(&targets) {
                break processors;
            }
            drop(processors);
            (targets, tries) = (again, tries + 1);
        };
        if processors.is_empty() {
            return Err(SamplerError::NoSuchProcess { pid: scope.first_pid() });
        }
        let reach = Reach {
            ring_kib: rings.kib,
            wanted_ring_kib: rings.wanted_kib,
            ..targets.reach(processors.len())
        };
        let followed = targets.followed();
        Ok(Self { processors, basis, reach, followed, layout, malformed: 0, throttled: 0 })
    }

    /// What is counted, and what could not be had.
    pub const fn basis(&self) -> &Basis {
        &self.basis
    }

    /// What is reached by how much.
    pub const fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Begins to count.
    ///
    /// # Errors
    ///
    /// [`SamplerError::Failed`].
    pub fn start(&self) -> Result<(), SamplerError> {
        let mut events = self.processors.iter().flat_map(|processor| &processor.events);
        events.try_for_each(OpenEvent::enable).map_err(|errno| SamplerError::Failed { errno })
    }

    /// How often to take what was written, so that a quarter of the room is used at most.
    pub fn pace(&self) -> Duration {
        let bytes = self.processors.first().map_or(0, |processor| processor.ring.bytes());
        let per_second = self.basis.bytes_per_s().max(1);
        let quarter = u64::try_from(bytes / 4).unwrap_or(u64::MAX);
        let millis = quarter.saturating_mul(1000) / per_second;
        Duration::from_millis(millis.clamp(5, 100))
    }

    /// Takes what was written so far, but for what is so new that another processor may still write
    /// something older.
    pub fn drain(&mut self, take: &mut dyn FnMut(&Record<'_>)) {
        let horizon = if self.basis.has_monotonic_times {
            nanos(clock::monotonic().saturating_sub(SLACK))
        } else {
            u64::MAX
        };
        self.drain_until(horizon, take);
    }

    /// Ends counting, takes what is left, and closes everything.
    pub fn finish(self, take: &mut dyn FnMut(&Record<'_>)) -> Losses {
        self.finish_each(take).0
    }

    /// The same, with what was lost on each processor.
    pub fn finish_each(mut self, take: &mut dyn FnMut(&Record<'_>)) -> (Losses, Vec<(u32, u64)>) {
        for event in self.processors.iter().flat_map(|processor| &processor.events) {
            // What cannot be disabled is closed in a moment.
            let _ = event.disable();
        }
        self.drain_until(u64::MAX, take);
        let mut losses =
            Losses { throttled: self.throttled, malformed: self.malformed, ..Losses::default() };
        let mut each = Vec::with_capacity(self.processors.len());
        let tells = self.basis.attributes.read_format & FORMAT_LOST != 0;
        for processor in &self.processors {
            let counted: u64 = if tells {
                let read = |event: &OpenEvent| event.read_lost().unwrap_or_default();
                processor.events.iter().map(read).sum()
            } else {
                0
            };
            let lost = processor.lost.max(counted);
            each.push((processor.cpu, lost));
            losses.lost = losses.lost.saturating_add(lost);
            losses.lost_of_worst_ring = losses.lost_of_worst_ring.max(lost);
            losses.malformed = losses.malformed.saturating_add(processor.ring.broken());
        }
        (losses, each)
    }

    fn drain_until(&mut self, horizon: u64, take: &mut dyn FnMut(&Record<'_>)) {
        // The earliest record of each ring.
        let mut next = BinaryHeap::with_capacity(self.processors.len());
        for (index, processor) in self.processors.iter_mut().enumerate() {
            processor.ring.look();
            next.extend(processor.time_of_next().map(|time| Reverse((time, index))));
        }
        while let Some(Reverse((time, index))) = next.pop() {
            if time > horizon {
                break;
            }
            let Some(processor) = self.processors.get_mut(index) else { break };
            if let Some(raw) = processor.ring.peek() {
                match records::parse(raw.kind, raw.misc, raw.body, self.layout) {
                    Ok(Record::Lost(count) | Record::LostSamples(count)) => {
                        processor.lost = processor.lost.saturating_add(count);
                    }
                    Ok(Record::Throttled) => self.throttled += 1,
                    Ok(record) if is_followed(&mut self.followed, &record) => take(&record),
                    Ok(_) => {}
                    Err(_) => self.malformed += 1,
                }
                processor.ring.advance();
            }
            next.extend(processor.time_of_next().map(|time| Reverse((time, index))));
        }
        for processor in &mut self.processors {
            processor.ring.release();
        }
    }
}

impl Processor {
    fn time_of_next(&mut self) -> Option<u64> {
        self.ring.peek().map(|raw| records::time_of(raw.kind, raw.body))
    }
}

/// Whether a record is of a process that counts. Children born later do.
fn is_followed(followed: &mut Option<HashSet<u32>>, record: &Record<'_>) -> bool {
    let Some(followed) = followed else { return true };
    match record {
        Record::Sample(sample) => followed.contains(&sample.pid),
        Record::Mapped(mapped) => followed.contains(&mapped.pid),
        Record::Named(named) => followed.contains(&named.pid),
        Record::Born(family) => {
            let is_child = followed.contains(&family.parent_pid);
            if is_child {
                followed.insert(family.pid);
            } else if family.pid != family.parent_pid {
                // The number of one that ended, used again.
                followed.remove(&family.pid);
            }
            is_child
        }
        Record::Ended(family) => followed.contains(&family.pid),
        Record::Switched(switched) => followed.contains(&switched.pid),
        Record::Lost(_)
        | Record::LostSamples(_)
        | Record::Throttled
        | Record::Unthrottled
        | Record::Other(_) => true,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What the kernel answered, as what it means for sampling.
pub(super) fn refused(root: &Root, errno: Errno) -> SamplerError {
    match errno {
        Errno::ACCESS | Errno::PERM => {
            let paranoid = settings::sysctl(root, "kernel/perf_event_paranoid");
            SamplerError::NotPermitted { errno, paranoid }
        }
        Errno::NOSYS if event::is_answered_by_the_kernel() => SamplerError::Failed { errno },
        Errno::NOSYS => SamplerError::NotInKernel,
        errno => SamplerError::Failed { errno },
    }
}
