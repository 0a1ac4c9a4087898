//! A recording of a worker that hashes.

use super::Report;
use crate::{
    host_text::HostText,
    instruments::capabilities::{Barrier, CheckId, Here, Refusal},
    observed::Observed,
    recording::{self, FunctionRow, Kind, ProcessRow, StackRow},
    units::Percent,
};

pub(super) fn report() -> Report {
    let percent = |part| Percent::of(part, 100.0).unwrap_or_default();
    let text = |text: &str| HostText::new(text.as_bytes());
    Report {
        recording: recording::example(),
        cpu_pct: Observed::Known(percent(100.2)),
        kernel_pct: Observed::Known(percent(2.2)),
        has_ended: false,
        functions: vec![
            FunctionRow {
                name: text("hash_block"),
                module: Some(text("worker")),
                kind: Kind::User,
                self_pct: percent(71.3),
                total_pct: percent(71.3),
                line: Some(text("hash.c:118")),
            },
            FunctionRow {
                name: text("copy_user_generic"),
                module: Some(text("[kernel]")),
                kind: Kind::Kernel,
                self_pct: percent(2.2),
                total_pct: percent(2.2),
                line: None,
            },
        ],
        stacks: vec![StackRow {
            pct: percent(50.1),
            calls_left_out: 0,
            calls: ["_start (worker)", "main (worker)", "serve (worker)", "hash_block (worker)"]
                .map(text)
                .to_vec(),
        }],
        processes: vec![ProcessRow { pid: 4711, name: text("worker 1"), pct: percent(100.0) }],
        refused: vec![Refusal {
            id: CheckId::HardwareCounters,
            errno: Some(2),
            barriers: vec![Barrier::NoCounters { is_guest: true }],
            here: Here::default(),
        }],
    }
}
