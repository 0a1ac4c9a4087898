//! Names of what is sampled in programs whose time is known.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a test fails by panicking"
)]

#[path = "../../fixtures/binaries.rs"]
#[expect(dead_code, reason = "it is for other tests, too")]
mod binaries;
#[path = "sampling/busy.rs"]
#[expect(dead_code, reason = "it is for the tests of sampling, too")]
mod busy;
#[path = "naming/elsewhere.rs"]
mod elsewhere;
#[path = "naming/hidden.rs"]
mod hidden;
#[path = "naming/made.rs"]
mod made;
#[path = "naming/misleading.rs"]
mod misleading;
#[path = "../../scenarios/src/not_run.rs"]
#[expect(dead_code, clippy::print_stderr, reason = "it is for the tests of another crate, too")]
mod not_run;
#[path = "naming/programs.rs"]
mod programs;
#[path = "naming/put_in_place.rs"]
mod put_in_place;
#[path = "naming/shown.rs"]
mod shown;

use busy::{Busy, Seconds};
use probe_agent::{
    perf::sampler::{Scope, Settings},
    proc::Root,
    stack::{
        naming::{self, Names},
        record::record,
        recording::{Limits, Recording},
    },
};

/// Records for longer and longer until there are so many samples: the machine may be busy.
fn recorded(scope: &Scope, least: u64) -> Recording {
    let root = Root::live().unwrap();
    let settings = Settings { hertz: 999, ..Settings::cpu(scope.clone()) };
    let mut seconds = 0.5;
    loop {
        let mut window = Seconds::from_now(seconds);
        let recording = record(&root, &settings, Limits::default(), &mut window).unwrap();
        if recording.counts.all.samples >= least || seconds > 30.0 {
            assert!(recording.counts.all.samples >= least, "{:?}", recording.counts);
            return recording;
        }
        seconds *= 2.0;
    }
}

fn named(recording: &Recording) -> Names {
    naming::name(recording, &Root::live().unwrap(), &mut || true)
}

fn names_of(busy: &Busy) -> Names {
    named(&recorded(&busy.scope(), 300))
}

/// Whether a share is what was expected, as far as 300 samples and a busy machine let it be.
#[track_caller]
fn assert_about(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 0.12, "{found} is not about {wanted}");
}
