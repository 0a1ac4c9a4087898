//! What events are opened for.

use super::{Basis, SamplerError, Scope, refused};
use crate::{
    order,
    perf::{
        attr::{Attributes, flag},
        core_pmus::{self, CorePmu},
        event::{self, Of, OpenEvent},
    },
    proc::{Root, open_files_limit, topology},
};
use rustix::{
    fd::{AsFd as _, OwnedFd},
    io::Errno,
};
use std::{collections::HashSet, sync::Arc};

/// What is reached, and with how much.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// Processors that are sampled.
    pub processors: u32,
    /// Threads that there were at the start; 0 where everything or a cgroup is sampled.
    pub threads: u32,
    /// Whether everything that runs is sampled to find the processes among it, because there are too
    /// many threads to follow each.
    pub is_by_host: bool,
    /// Room for samples of each processor.
    pub ring_kib: u32,
    /// The room that was wanted; more than there is where the limit of locked memory does not allow it.
    pub wanted_ring_kib: u32,
}

/// Opening more events than this takes longer than a window should wait.
const MOST_EVENTS: u64 = 2_000;

/// Descriptors that are left for everything else.
const NEVER_USED: u64 = 64;

pub(super) struct Targets<'r> {
    root: &'r Root,
    what: What,
    /// Counters of each kind of core, where there are several: a processor is sampled by its own.
    pmus: Vec<CorePmu>,
}

enum What {
    Threads(Vec<u32>),
    Among(Vec<u32>, u32),
    Cgroup(Arc<OwnedFd>),
    Host,
}

/// The processors that are online.
pub(in crate::perf) fn processors(root: &Root) -> Result<Vec<u32>, SamplerError> {
    let mut text = Vec::new();
    let failed = |why: String| SamplerError::Processors { why };
    root.read("sys/devices/system/cpu/online", &mut text)
        .map_err(|error| failed(error.to_string()))?;
    let numbers = topology::parse_list(&text).map_err(|error| failed(error.to_string()))?;
    Ok(numbers.into_iter().filter_map(|number| u32::try_from(number).ok()).collect())
}

impl<'r> Targets<'r> {
    pub(super) fn of(
        root: &'r Root,
        scope: &Scope,
        (processors, events): (usize, usize),
        basis: &Basis,
    ) -> Result<Self, SamplerError> {
        let pmus = core_pmus::of_hybrid(root);
        let pids = match scope {
            Scope::Process(pid) => std::slice::from_ref(pid),
            Scope::Processes(pids) => pids.as_slice(),
            Scope::Cgroup(folder) => {
                return Ok(Self { root, what: What::Cgroup(Arc::clone(folder)), pmus });
            }
            Scope::Host => return Ok(Self { root, what: What::Host, pmus }),
        };
        let threads = threads_of(root, pids);
        if threads.is_empty() {
            return Err(SamplerError::NoSuchProcess { pid: scope.first_pid() });
        }
        let each = u64::try_from(processors.saturating_mul(events)).unwrap_or(u64::MAX);
        let needed = u64::try_from(threads.len()).unwrap_or(u64::MAX).saturating_mul(each);
        let limit = open_files_limit();
        if needed <= MOST_EVENTS.min(limit.saturating_sub(NEVER_USED)) {
            return Ok(Self { root, what: What::Threads(threads), pmus });
        }
        let count = u32::try_from(threads.len()).unwrap_or(u32::MAX);
        let among = Self { root, what: What::Among(pids.to_vec(), count), pmus };
        // Whether this login may see everything shows at the first event.
        match event::open(among.attributes(basis, 0), Of::Processor(0)) {
            Err(Errno::ACCESS | Errno::PERM) if needed <= limit.saturating_sub(NEVER_USED) => {
                Ok(Self { what: What::Threads(threads), ..among })
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                Err(SamplerError::OpenFiles { errno: Errno::MFILE, limit, needed })
            }
            Ok(_) | Err(_) => Ok(among),
        }
    }

    fn attributes(&self, basis: &Basis, cpu: u32) -> Attributes {
        let is_inherited = matches!(self.what, What::Threads(_));
        let mut attributes = match core_pmus::kind_of(&self.pmus, cpu) {
            Some(kind) => basis.attributes.on_counters(kind),
            None => basis.attributes,
        };
        if is_inherited {
            attributes.flags |= flag::INHERIT;
        }
        attributes
    }

    /// Opens what there is to open on a processor. Without any where all threads have ended.
    pub(super) fn open(&self, cpu: u32, basis: &Basis) -> Result<Vec<OpenEvent>, SamplerError> {
        let attributes = self.attributes(basis, cpu);
        let one = |of| match event::open(attributes, of) {
            Ok(event) => Ok(vec![event]),
            // A processor that went offline meanwhile.
            Err(Errno::NODEV) => Ok(Vec::new()),
            Err(errno) => Err(self.refused(errno, 1)),
        };
        match &self.what {
            What::Host | What::Among(..) => one(Of::Processor(cpu)),
            What::Cgroup(folder) => one(Of::Cgroup(folder.as_fd(), cpu)),
            What::Threads(threads) => {
                let mut events = Vec::with_capacity(threads.len());
                for tid in threads {
                    match event::open(attributes, Of::Thread(*tid, Some(cpu))) {
                        Ok(event) => events.push(event),
                        // A thread that ended, a processor that went offline.
                        Err(Errno::SRCH | Errno::NODEV) => {}
                        Err(errno) => return Err(self.refused(errno, threads.len())),
                    }
                }
                Ok(events)
            }
        }
    }

    fn refused(&self, errno: Errno, needed: usize) -> SamplerError {
        match errno {
            Errno::MFILE | Errno::NFILE => SamplerError::OpenFiles {
                errno,
                limit: open_files_limit(),
                needed: u64::try_from(needed).unwrap_or(u64::MAX),
            },
            Errno::BADF | Errno::INVAL if matches!(self.what, What::Cgroup(_)) => {
                SamplerError::Cgroup { errno }
            }
            errno => refused(self.root, errno),
        }
    }

    pub(super) fn reach(&self, processors: usize) -> Reach {
        let (threads, is_by_host) = match &self.what {
            What::Threads(threads) => (u32::try_from(threads.len()).unwrap_or(u32::MAX), false),
            What::Among(_, threads) => (*threads, true),
            What::Cgroup(_) | What::Host => (0, false),
        };
        let processors = u32::try_from(processors).unwrap_or(u32::MAX);
        Reach { processors, threads, is_by_host, ..Reach::default() }
    }

    /// Whether there is no thread that was not there before.
    pub(super) fn are_all_in(&self, before: &Self) -> bool {
        match (&self.what, &before.what) {
            (What::Threads(now), What::Threads(before)) => {
                now.iter().all(|tid| before.binary_search(tid).is_ok())
            }
            (What::Threads(_) | What::Among(..) | What::Cgroup(_) | What::Host, _) => true,
        }
    }

    /// Which processes count, where everything that runs is sampled for some.
    pub(super) fn followed(&self) -> Option<HashSet<u32>> {
        match &self.what {
            What::Among(pids, _) => Some(pids.iter().copied().collect()),
            What::Threads(_) | What::Cgroup(_) | What::Host => None,
        }
    }
}

/// All threads of processes, each once.
pub(in crate::perf) fn threads_of(root: &Root, pids: &[u32]) -> Vec<u32> {
    let (mut threads, mut ids) = (Vec::new(), Vec::new());
    for pid in pids {
        // One that ended has none.
        if root.list_ids(&format!("{pid}/task"), &mut ids).is_ok() {
            threads.extend_from_slice(&ids);
        }
    }
    order::ascending(&mut threads);
    threads.dedup();
    threads
}
