//! Every request takes one lock and keeps it while something slow is awaited: the others line up.

use super::{Behaviour, Needs, Truth, Worker};
use std::{sync::PoisonError, time::Duration};

pub(super) struct Fault;

impl Behaviour for Fault {
    const TRUTH: Truth = Truth {
        class: "blocked_on_lock",
        never: &["throttled", "blocked_on_io", "user_cpu", "memory_bound"],
        needs: Needs::Nothing,
    };

    fn request(worker: &mut Worker<'_>) {
        let mut orders = worker.lock.lock().unwrap_or_else(PoisonError::into_inner);
        *orders += 1;
        std::thread::sleep(Duration::from_millis(4));
    }
}
