//! From records to a recording, as they come: processes are followed through births, new programs and
//! new mappings, and each sample's stack is walked and added at once.

use super::{
    images::Images,
    maps::{Mapping, Maps},
    recording::{Counts, Cut, Limits, Place, Process, Recording, Thread, Tree, Weight},
    unwind::{Caches, Start, Walker, place_of},
};
use crate::{
    perf::{
        records::{Family, Mapped, Mode, Named, Record, Sample, User},
        sampler::{Losses, Sampler, UserStack},
    },
    proc::{Root, parse},
};
use std::{collections::HashMap, sync::Arc, time::Duration};

/// A recording while it is made.
pub struct Fold<'r> {
    root: &'r Root,
    own_pid: u32,
    stack: UserStack,
    limits: Limits,
    images: Images,
    caches: Caches,
    live: HashMap<u32, Live>,
    tree: Tree,
    counts: Counts,
    processes: Vec<Process>,
    threads: Vec<Thread>,
    threads_known: HashMap<(u32, u32), u32>,
    /// Names of threads that were told before their first sample.
    names: HashMap<u32, Vec<u8>>,
    places: Vec<Place>,
}

/// A process as it is now.
struct Live {
    /// Its place in the recording, once it was sampled.
    process: Option<u32>,
    parent: u32,
    maps: Option<Arc<Maps>>,
    walker: Walker,
}

/// The most names that are kept of threads without a sample.
const MOST_NAMES: usize = 65_536;

/// The number of the process, and of the thread, that stand for all that are too many. No sample is
/// of it: the processors' idle tasks have it.
const OTHERS: u32 = 0;

impl<'r> Fold<'r> {
    /// Nothing yet.
    pub fn new(root: &'r Root, stack: UserStack, limits: Limits) -> Self {
        Self {
            root,
            own_pid: std::process::id(),
            stack,
            limits,
            images: Images::new(root),
            caches: Caches::default(),
            live: HashMap::new(),
            tree: Tree::new(limits),
            counts: Counts::default(),
            processes: Vec::new(),
            threads: Vec::new(),
            threads_known: HashMap::new(),
            names: HashMap::new(),
            places: Vec::new(),
        }
    }

    /// Takes a process's mappings as they are before anything is sampled.
    pub fn meet(&mut self, pid: u32) {
        let maps = self.read_maps(pid);
        self.live(pid, 0).maps = maps;
    }

    /// Takes a record.
    pub fn take(&mut self, record: &Record<'_>) {
        match record {
            Record::Sample(sample) => self.sample(sample),
            Record::Mapped(mapped) => self.mapped(mapped),
            Record::Named(named) => self.named(named),
            Record::Born(family) => self.born(family),
            Record::Ended(family) => {
                // Its number may be another's soon.
                self.names.remove(&family.tid);
                if family.pid == family.tid {
                    self.live.remove(&family.pid);
                }
            }
            Record::Switched(_)
            | Record::Lost(_)
            | Record::LostSamples(_)
            | Record::Throttled
            | Record::Unthrottled
            | Record::Other(_) => {}
        }
    }

    /// Processor time of other threads that read for this.
    pub const fn cpu_elsewhere(&self) -> Duration {
        self.images.cpu()
    }

    /// Samples so far.
    pub const fn samples(&self) -> u64 {
        self.counts.all.samples
    }

    /// Ends the sampling, and gives what came of it.
    pub fn finish(mut self, sampler: Sampler) -> Recording {
        let (basis, reach) = (*sampler.basis(), *sampler.reach());
        let losses = sampler.finish(&mut |record| self.take(record));
        self.into_recording((basis, reach, losses))
    }

    fn into_recording(
        self,
        (basis, reach, losses): (crate::perf::sampler::Basis, crate::perf::sampler::Reach, Losses),
    ) -> Recording {
        let (nodes, weights) = self.tree.into_parts();
        Recording {
            basis,
            reach,
            losses,
            counts: self.counts,
            images: self.images.into_all(),
            processes: self.processes,
            threads: self.threads,
            nodes,
            weights,
        }
    }

    fn sample(&mut self, sample: &Sample<'_>) {
        let weight = Weight { samples: 1, events: sample.period };
        if sample.pid == 0 {
            return self.counts.idle.add(weight);
        }
        if sample.pid == self.own_pid {
            return self.counts.own.add(weight);
        }
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        kernel_part(sample, &mut places);
        let cut = self.user_part(sample, &mut places);
        if places.is_empty() {
            // A thread that is neither here nor there, at its end.
            places.push(Place::Unmapped(sample.ip));
        }
        if let Some(cut) = cut {
            places.push(Place::Cut(cut));
        }
        let thread = self.thread_of(sample.pid, sample.tid, sample.time_ns);
        if let Some(thread) =
            usize::try_from(thread).ok().and_then(|thread| self.threads.get_mut(thread))
        {
            thread.weight.add(weight);
            thread.first_ns = thread.first_ns.min(sample.time_ns);
            thread.last_ns = thread.last_ns.max(sample.time_ns);
        }
        let fits = self.tree.add(thread, &places, weight);
        self.places = places;
        self.counts.all.add(weight);
        match (fits, cut) {
            (false, _) => self.counts.add_cut(Cut::ByMemory, weight),
            (true, Some(cut)) => self.counts.add_cut(cut, weight),
            (true, None) if self.stack == UserStack::FramePointers => {
                self.counts.by_frame_pointers.add(weight);
            }
            (true, None) => self.counts.complete.add(weight),
        }
    }

    /// Adds the calls in user space. Says why not all of them, if so.
    fn user_part(&mut self, sample: &Sample<'_>, places: &mut Vec<Place>) -> Option<Cut> {
        let is_of_user = sample.mode == Mode::User;
        match &sample.user {
            // Threads of the kernel have no registers of user space, and no calls there.
            User::None if is_of_user => Some(Cut::StackNotReadable),
            User::None => None,
            User::Is32Bit => {
                if is_of_user {
                    places.push(Place::Unmapped(sample.ip));
                }
                Some(Cut::Is32Bit)
            }
            User::NotAsked => self.chain_of_user(sample, places),
            User::Known { registers, stack, is_full } => {
                let start = Start { registers: *registers, stack, is_full: *is_full };
                let Some((maps, parent)) = self.maps_of(sample.pid) else {
                    if is_of_user {
                        places.push(Place::Unmapped(sample.ip));
                    }
                    return Some(Cut::NoMaps);
                };
                let live = self.live.get_mut(&sample.pid)?;
                let known = (&*maps, &mut self.images, [sample.pid, parent]);
                live.walker.walk(start, known, &mut self.caches, places)
            }
        }
    }

    /// What the kernel walked in user space by frame pointers.
    fn chain_of_user(&mut self, sample: &Sample<'_>, places: &mut Vec<Place>) -> Option<Cut> {
        let mut frames = sample.chain.frames().filter(|(mode, _)| *mode == Mode::User).peekable();
        frames.peek()?;
        let Some((maps, parent)) = self.maps_of(sample.pid) else {
            places.extend(frames.map(|(_, address)| Place::Unmapped(address)));
            return Some(Cut::NoMaps);
        };
        for (index, (_, address)) in frames.enumerate() {
            let address = if index == 0 { address } else { address.saturating_sub(1) };
            let Some(mapping) = maps.find(address) else {
                // The word beside something that was taken for a frame pointer.
                if index == 0 {
                    places.push(Place::Unmapped(address));
                    continue;
                }
                return Some(Cut::NoUnwindInfo);
            };
            let pids = [sample.pid, parent];
            // Opened while the process is there: names are asked for later.
            let _ = self.images.code(mapping.image, pids, (mapping.start, mapping.end));
            places.push(place_of(mapping, address, &self.images));
        }
        None
    }

    /// What a process has in its memory, and its parent.
    fn maps_of(&mut self, pid: u32) -> Option<(Arc<Maps>, u32)> {
        let parent = self.live(pid, 0).parent;
        if self.live(pid, 0).maps.is_none() {
            let mut maps = self.read_maps(pid);
            // It may have ended; until it ran another program it had its parent's.
            if maps.is_none() && parent != 0 {
                maps = self.read_maps(parent);
            }
            self.live(pid, 0).maps = Some(maps.unwrap_or_default());
        }
        let maps = Arc::clone(self.live(pid, 0).maps.as_ref()?);
        (!maps.is_empty()).then_some((maps, parent))
    }

    fn read_maps(&mut self, pid: u32) -> Option<Arc<Maps>> {
        self.images.maps_of(self.root, pid).map(Arc::new)
    }

    fn mapped(&mut self, mapped: &Mapped<'_>) {
        let Mapped { pid, start, length, file_offset, file, name, .. } = *mapped;
        // Of a process whose mappings were not read, all are read at its first sample.
        let Some(end) = start.checked_add(length) else { return };
        if self.live.get(&pid).is_none_or(|live| live.maps.is_none()) {
            return;
        }
        let image = self.images.of(pid, file, name);
        let live = self.live(pid, 0);
        if let Some(maps) = &mut live.maps {
            Arc::make_mut(maps).insert(Mapping { start, end, file_offset, image });
            live.walker.forget();
        }
    }

    fn named(&mut self, named: &Named<'_>) {
        if named.is_exec {
            let walker = self.caches.walker();
            let live = self.live(named.pid, 0);
            // What follows are the mappings of the new program.
            live.maps = Some(Arc::default());
            live.walker = walker;
        }
        let name = named.name.to_vec();
        if named.pid == named.tid
            && let Some(process) = self.live.get(&named.pid).and_then(|live| live.process)
            && let Some(process) =
                usize::try_from(process).ok().and_then(|at| self.processes.get_mut(at))
        {
            process.name.clone_from(&name);
        }
        let process = self.live.get(&named.pid).and_then(|live| live.process);
        let known = process.and_then(|process| self.threads_known.get(&(process, named.tid)));
        if let Some(thread) = known
            && let Some(thread) =
                usize::try_from(*thread).ok().and_then(|at| self.threads.get_mut(at))
        {
            thread.name = name;
        } else if self.names.len() < MOST_NAMES {
            self.names.insert(named.tid, name);
        }
    }

    fn born(&mut self, family: &Family) {
        let Family { pid, parent_pid, tid, .. } = *family;
        self.names.remove(&tid);
        if pid == parent_pid {
            return;
        }
        let maps = self.live.get(&parent_pid).and_then(|live| live.maps.clone());
        let walker = self.caches.walker();
        self.live.insert(pid, Live { process: None, parent: parent_pid, maps, walker });
    }

    fn live(&mut self, pid: u32, parent: u32) -> &mut Live {
        let caches = &mut self.caches;
        self.live.entry(pid).or_insert_with(|| Live {
            process: None,
            parent,
            maps: None,
            walker: caches.walker(),
        })
    }

    fn thread_of(&mut self, pid: u32, tid: u32, time_ns: u64) -> u32 {
        let process = self.process_of(pid);
        if let Some(thread) = self.threads_known.get(&(process, tid)) {
            return *thread;
        }
        if self.threads.len() >= self.limits.threads && tid != OTHERS {
            return self.thread_of(OTHERS, OTHERS, time_ns);
        }
        let name = self.names.remove(&tid);
        let name = name.unwrap_or_else(|| self.text(&format!("{pid}/task/{tid}/comm")));
        let thread = u32::try_from(self.threads.len()).unwrap_or(u32::MAX);
        let (weight, first_ns, last_ns) = (Weight::default(), time_ns, time_ns);
        self.threads.push(Thread { process, tid, name, weight, first_ns, last_ns });
        self.threads_known.insert((process, tid), thread);
        thread
    }

    fn process_of(&mut self, pid: u32) -> u32 {
        if let Some(process) = self.live(pid, 0).process {
            return process;
        }
        if self.processes.len() >= self.limits.threads && pid != OTHERS {
            return self.process_of(OTHERS);
        }
        let process = u32::try_from(self.processes.len()).unwrap_or(u32::MAX);
        let known = self.names.get(&pid).cloned();
        let name = known.unwrap_or_else(|| self.text(&format!("{pid}/comm")));
        let (inner_pid, parent) = kin(self.root, pid);
        let born_of = Some(self.live(pid, 0).parent).filter(|parent| *parent != 0);
        let parent = born_of.or(parent);
        self.processes.push(Process { pid, inner_pid, parent, name });
        self.live(pid, 0).process = Some(process);
        process
    }

    fn text(&self, path: &str) -> Vec<u8> {
        let mut room = [0; 64];
        let text = self.root.read_proc_once(path, &mut room).unwrap_or_default();
        text.strip_suffix(b"\n").unwrap_or(text).to_vec()
    }
}

/// A process's number in its innermost namespace, the last of `NSpid`, Linux 4.1; and its parent.
pub(super) fn kin(root: &Root, pid: u32) -> (Option<u32>, Option<u32>) {
    let mut text = Vec::new();
    if root.read_proc(&format!("{pid}/status"), &mut text).is_err() {
        return (None, None);
    }
    (inner_pid(&text).filter(|inner| *inner != pid), parent(&text))
}

/// The number of a process in its innermost namespace, by its `status`.
pub(super) fn inner_pid(status: &[u8]) -> Option<u32> {
    let (line_number, line) = parse::line_of(status, "NSpid")?;
    let last = parse::fields(line).last()?;
    u32::try_from(parse::number(last, line_number).ok()?).ok()
}

fn parent(status: &[u8]) -> Option<u32> {
    let parent = parse::number_of(status, "PPid").ok()?;
    u32::try_from(parent).ok().filter(|parent| *parent != 0)
}

/// Adds the calls in the kernel.
fn kernel_part(sample: &Sample<'_>, places: &mut Vec<Place>) {
    let before = places.len();
    for (mode, address) in sample.chain.frames() {
        if mode == Mode::Kernel {
            let is_return = places.len() > before;
            places.push(Place::Kernel(address.saturating_sub(u64::from(is_return))));
        }
    }
    if places.len() == before && sample.mode == Mode::Kernel {
        places.push(Place::Kernel(sample.ip));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_threads_that_are_too_many_are_nobody_elses() {
        let root = Root::live().unwrap();
        let limits = Limits { threads: 2, ..Limits::default() };
        let mut fold = Fold::new(&root, UserStack::FramePointers, limits);
        // Numbers that no process has.
        let [first, second, third] = [5_000_001, 5_000_002, 5_000_003];
        let asked = [(first, first), (second, second), (third, third), (first, third)];
        let found: Vec<u32> =
            asked.iter().map(|(pid, tid)| fold.thread_of(*pid, *tid, 1)).collect();
        assert_eq!(found, [0, 1, 2, 2]);
        assert_eq!(fold.thread_of(first, first, 2), 0);
        let numbers: Vec<u32> = fold.processes.iter().map(|process| process.pid).collect();
        assert_eq!(numbers, [first, second, OTHERS]);
        assert_eq!((fold.threads[2].process, fold.threads[2].tid), (2, OTHERS));
    }
}
