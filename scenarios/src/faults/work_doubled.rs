//! Each request is computed a thousand times where once would do.

use super::{Behaviour, Needs, Truth, Worker, compute};

pub(super) struct Fault;

impl Behaviour for Fault {
    const TRUTH: Truth = Truth {
        class: "user_cpu",
        never: &["throttled", "blocked_on_io", "blocked_on_lock", "memory_bound"],
        needs: Needs::Nothing,
    };

    fn request(_: &mut Worker<'_>) {
        for _ in 0..1000 {
            compute(10);
        }
    }
}
