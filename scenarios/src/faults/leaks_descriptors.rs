//! Each request leaves a file open. At the limit, every further one fails at once.

use super::{Behaviour, Needs, Truth, Worker, compute};
use std::fs::File;

pub(super) struct Fault;

impl Behaviour for Fault {
    const TRUTH: Truth = Truth {
        class: "out_of_descriptors",
        never: &["throttled", "blocked_on_io", "blocked_on_lock", "memory_bound"],
        needs: Needs::Nothing,
    };

    fn request(worker: &mut Worker<'_>) {
        if let Ok(file) = File::open(worker.folder) {
            worker.open.push(file);
        }
        compute(20);
    }
}
