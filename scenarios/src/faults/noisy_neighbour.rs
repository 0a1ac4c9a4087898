//! Other programs have the processor that the service needs.

use super::{Behaviour, Needs, Surroundings, Truth, Worker, compute_in_one};
use anyhow::{Context as _, Result};
use rustix::{
    process::Pid,
    thread::{CpuSet, sched_setaffinity},
};
use std::process::{Child, Command};

pub(super) struct Fault;

/// Programs beside the service on its processor: it gets a quarter.
const NEIGHBOURS: usize = 3;

impl Behaviour for Fault {
    const TRUTH: Truth = Truth {
        class: "starved_of_cpu",
        never: &["throttled", "blocked_on_io", "blocked_on_lock", "memory_bound", "idle"],
        needs: Needs::Nothing,
    };

    fn request(worker: &mut Worker<'_>) {
        compute_in_one(worker);
    }

    fn surround(service: &Child) -> Result<Surroundings> {
        let mut surroundings = Surroundings::default();
        for _ in 0..NEIGHBOURS {
            let burn = Command::new(crate::programs::scenarios())
                .args(["burn", "--seconds", "60", "--cpu", "0"])
                .spawn()
                .context("could not start a neighbour")?;
            surroundings.children.push(burn);
        }
        pin_all_threads(service.id())?;
        Ok(surroundings)
    }
}

/// Keeps every thread of a process on the first processor.
fn pin_all_threads(pid: u32) -> Result<()> {
    let mut first = CpuSet::new();
    first.set(0);
    for task in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let tid = task?.file_name().to_string_lossy().parse().ok().and_then(Pid::from_raw);
        sched_setaffinity(tid, &first).context("could not pin a thread")?;
    }
    Ok(())
}
