//! What the sampler sees of programs whose time is known.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "sampling/busy.rs"]
mod busy;

use busy::{Busy, Seconds, shares};
use probe_agent::{
    perf::sampler::{Settings, UserStack},
    proc::Root,
    stack::{
        record::record,
        recording::{Cut, Limits, Recording},
    },
};

fn recorded(settings: &Settings, seconds: f64) -> Recording {
    let root = Root::live().unwrap();
    record(&root, settings, Limits::default(), &mut Seconds::from_now(seconds)).unwrap()
}

#[test]
fn shares_are_those_that_the_program_has() {
    let busy = Busy::start(&["shares"]);
    let settings = Settings { hertz: 499, ..Settings::cpu(busy.scope()) };
    let recording = recorded(&settings, 2.0);
    eprintln!("{:?} {:?} {:?}", recording.counts, recording.losses, recording.reach);
    let all = shares(&recording);
    eprintln!("{all:?}");
}
