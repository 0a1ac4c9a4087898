//! From where a thread left user space to the calls that led there.

use super::sight::UserPart;
use crate::{
    os::stopper::Moment,
    perf::records::REGISTERS,
    proc::Root,
    stack::{
        images::{Image, Images},
        maps::Maps,
        recording::{Cut, Place},
        unwind::{Caches, Start, Walker},
    },
};
use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// Code of processes, and how it is walked.
pub(in crate::stack) struct Walks<'r> {
    root: &'r Root,
    images: Images,
    caches: Caches,
    processes: HashMap<u32, Known>,
}

/// What a process had in its memory.
struct Known {
    maps: Option<Maps>,
    read_at: Instant,
    walker: Walker,
}

/// A process that maps more all the time is read again so often at most.
const READ_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Stands for a frame pointer that nobody told: no stack is there, and it is not the 0 that outermost
/// calls have.
pub(in crate::stack) const NOT_KNOWN: u64 = 8;

impl<'r> Walks<'r> {
    pub(in crate::stack) fn new(root: &'r Root) -> Self {
        let (images, caches) = (Images::new(root), Caches::default());
        Self { root, images, caches, processes: HashMap::new() }
    }

    /// Processor time of other threads that opened and read files.
    pub(in crate::stack) const fn cpu(&self) -> Duration {
        self.images.cpu()
    }

    pub(in crate::stack) fn into_images(self) -> Vec<Image> {
        self.images.into_all()
    }

    /// Of a thread that waits, which was not stopped. Says why not to the outermost call, if so.
    pub(super) fn of_waiting(
        &mut self,
        pid: u32,
        user: &UserPart,
        places: &mut Vec<Place>,
    ) -> Option<Cut> {
        let registers = registers_of(user);
        self.walk(pid, Start { registers, stack: &user.stack, is_full: user.is_full }, places)
    }

    /// Of a thread that was stopped.
    pub(super) fn of_stopped(
        &mut self,
        pid: u32,
        moment: &Moment,
        places: &mut Vec<Place>,
    ) -> Option<Cut> {
        let Moment { registers, stack, is_full, .. } = moment;
        self.walk(pid, Start { registers: *registers, stack, is_full: *is_full }, places)
    }

    /// From any start. Says why not to the outermost call, if so.
    pub(in crate::stack) fn walk(
        &mut self,
        pid: u32,
        start: Start<'_>,
        places: &mut Vec<Place>,
    ) -> Option<Cut> {
        let first = places.len();
        loop {
            let is_new = self.know(pid);
            let Some(known) = self.processes.get_mut(&pid) else { return Some(Cut::NoMaps) };
            let Some(maps) = &known.maps else { return Some(Cut::NoMaps) };
            let code = (maps, &mut self.images, [pid, 0]);
            let cut = known.walker.walk(start, code, &mut self.caches, places);
            let is_unknown = matches!(places.get(first), Some(Place::Unmapped(_)));
            if !is_unknown || is_new || known.read_at.elapsed() < READ_AGAIN_AFTER {
                return cut;
            }
            // Something was mapped since, or another program runs.
            places.truncate(first);
            self.processes.remove(&pid);
        }
    }

    /// Reads what a process has in its memory, if that is not known. Whether it was not.
    fn know(&mut self, pid: u32) -> bool {
        if self.processes.contains_key(&pid) {
            return false;
        }
        let maps = self.images.maps_of(self.root, pid);
        let known = Known { maps, read_at: Instant::now(), walker: self.caches.walker() };
        self.processes.insert(pid, known);
        true
    }
}

#[cfg(target_arch = "x86_64")]
const fn registers_of(user: &UserPart) -> [u64; REGISTERS] {
    [NOT_KNOWN, user.stack_pointer, user.instruction_pointer]
}

/// Nobody tells the link register either.
#[cfg(target_arch = "aarch64")]
const fn registers_of(user: &UserPart) -> [u64; REGISTERS] {
    [NOT_KNOWN, 0, user.stack_pointer, user.instruction_pointer]
}
