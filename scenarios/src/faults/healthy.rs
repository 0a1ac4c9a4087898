//! Nothing is wrong: a little computing for each request, and time to breathe.

use super::{Behaviour, Needs, Truth, Worker, compute};
use std::time::Duration;

pub(super) struct Fault;

impl Behaviour for Fault {
    const TRUTH: Truth = Truth {
        class: "sleeping",
        never: &[
            "throttled",
            "starved_of_cpu",
            "blocked_on_io",
            "blocked_on_lock",
            "memory_bound",
            "out_of_descriptors",
            "user_cpu",
            "system_cpu",
        ],
        needs: Needs::Nothing,
    };

    fn request(_: &mut Worker<'_>) {
        compute(50);
        std::thread::sleep(Duration::from_millis(20));
    }
}
