//! What watching adds to a call, measured: the agent's own thread makes the same call before the programs
//! are attached and after, and is watched like any other for that.

use protocol::{
    observed::{Observed, Reason},
    units::Micros,
};
use std::{io, time::Instant};

/// Calls that are timed together.
const TOGETHER: u32 = 100;

/// How often. The quickest counts: what is slower was disturbed.
const ROUNDS: u32 = 12;

/// A trial that has begun.
pub(super) struct Trial {
    without_ns: u64,
}

impl Trial {
    /// Before anything is attached.
    pub(super) fn before() -> Self {
        Self { without_ns: quickest() }
    }

    /// After everything is.
    pub(super) fn measured(self) -> Observed<Micros> {
        let with = quickest();
        // On a machine that is busy enough nothing can be told.
        match with.checked_sub(self.without_ns) {
            Some(added) => Observed::Known(Micros::from_ns(added)),
            None => Observed::Unknown(Reason::NoSamples),
        }
    }
}

/// Nanoseconds of one call in the quickest round: `fstat`, which engines that are told the calls that they watch are told of.
fn quickest() -> u64 {
    let stdin = io::stdin();
    let round = || {
        let start = Instant::now();
        for _ in 0..TOGETHER {
            let _ = rustix::fs::fstat(&stdin);
        }
        let nanos = start.elapsed().as_nanos() / u128::from(TOGETHER);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or_default()
}
