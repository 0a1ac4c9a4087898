//! The registry of faults: what the service does wrong, and the truth about it.

mod fsync_per_request;
mod healthy;
mod leaks_descriptors;
mod lock_held_while_waiting;
mod noisy_neighbour;
mod quota_too_small;
mod work_doubled;

use anyhow::Result;
use std::process::Child;

/// A fault of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Fault {
    /// None: the right answer is that nothing is wrong.
    Healthy,
    /// Each request is computed far more often than it must be.
    WorkDoubled,
    /// Each request waits until it is on the disk.
    FsyncPerRequest,
    /// A lock is held while something slow is awaited.
    LockHeldWhileWaiting,
    /// A file stays open for each request.
    LeaksDescriptors,
    /// The cgroup's quota is smaller than the work.
    QuotaTooSmall,
    /// Another program has the processor.
    NoisyNeighbour,
}

/// The truth about a fault, and what it needs.
#[derive(Clone, Copy, Debug)]
pub struct Truth {
    /// The class that process_inspect must name, as the main one.
    pub class: &'static str,
    /// Classes that it must not name at all.
    pub never: &'static [&'static str],
    /// What is needed to bring the fault about.
    pub needs: Needs,
}

/// What a fault needs to be brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Nothing special.
    Nothing,
    /// Root, and a cgroup hierarchy with the CPU controller.
    CpuCgroup,
}

/// What a fault does in the service, and around it.
pub(crate) trait Behaviour {
    /// The truth.
    const TRUTH: Truth;

    /// What the service's workers do for one request. Runs on each worker's thread.
    fn request(worker: &mut Worker<'_>);

    /// What is done to the service's process from outside, once it runs. Children are ended with
    /// the scenario.
    fn surround(_service: &Child) -> Result<Surroundings> {
        Ok(Surroundings::default())
    }
}

/// What a request may use.
pub(crate) struct Worker<'s> {
    /// The service's folder.
    pub folder: &'s std::path::Path,
    /// The worker's number.
    pub index: usize,
    /// Held by one worker at a time.
    pub lock: &'s std::sync::Mutex<u64>,
    /// Files that a request leaves open.
    pub open: Vec<std::fs::File>,
    /// The worker's log, where it has one.
    pub log: Option<std::fs::File>,
}

/// What stands around a service for as long as the scenario lasts.
#[derive(Debug, Default)]
pub struct Surroundings {
    /// Programs beside it.
    pub children: Vec<Child>,
    /// The cgroup it was put in.
    pub cgroup: Option<std::path::PathBuf>,
}

impl Drop for Surroundings {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        if let Some(cgroup) = &self.cgroup {
            // Its processes are gone when the service's handle was dropped first; the kernel takes
            // a moment.
            for _ in 0..50 {
                if std::fs::remove_dir(cgroup).is_ok() {
                    break;
                }
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
    }
}

macro_rules! define_faults {
    ($($fault:ident, $module:ident;)*) => {
        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$fault),*];

            /// The truth about it.
            pub const fn truth(self) -> Truth {
                match self { $(Self::$fault => <$module::Fault as Behaviour>::TRUTH,)* }
            }

            pub(crate) fn request(self, worker: &mut Worker<'_>) {
                match self { $(Self::$fault => <$module::Fault as Behaviour>::request(worker),)* }
            }

            pub(crate) fn surround(self, service: &Child) -> Result<Surroundings> {
                match self { $(Self::$fault => <$module::Fault as Behaviour>::surround(service),)* }
            }
        }
    };
}
define_faults! {
    Healthy, healthy;
    WorkDoubled, work_doubled;
    FsyncPerRequest, fsync_per_request;
    LockHeldWhileWaiting, lock_held_while_waiting;
    LeaksDescriptors, leaks_descriptors;
    QuotaTooSmall, quota_too_small;
    NoisyNeighbour, noisy_neighbour;
}

/// Work that one worker does without a pause, so that how much it gets done is up to the processor.
fn compute_in_one(worker: &Worker<'_>) {
    if worker.index > 0 {
        std::thread::sleep(std::time::Duration::from_millis(200));
    } else {
        compute(500);
    }
}

/// Computes for about so long on a processor that is free.
pub(crate) fn compute(micros: u64) {
    let mut value = 1_u64;
    for _ in 0..micros * 300 {
        value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
