//! Who calls the function that hashes.

use super::{ChainRow, Chains, Mode, Report};
use crate::{host_text::HostText, recording, units::Percent};

pub(super) fn report() -> Report {
    let percent = |part| Percent::of(part, 100.0).unwrap_or_default();
    let row = |of_function, of_all, calls: &[&str]| ChainRow {
        of_function_pct: percent(of_function),
        pct: percent(of_all),
        calls: calls.iter().map(|call| HostText::new(call.as_bytes())).collect(),
        goes_on: false,
    };
    Report {
        recording: recording::example(),
        mode: Mode::Callers,
        functions: Vec::new(),
        threads: Vec::new(),
        modules: Vec::new(),
        chains: Some(Chains {
            functions: vec![HostText::new(b"hash_block (worker)")],
            total_pct: percent(71.3),
            rows: vec![
                row(70.3, 50.1, &["serve (worker)", "main (worker)", "_start (worker)"]),
                row(29.7, 21.2, &["warm_up (worker)", "main (worker)", "_start (worker)"]),
            ],
        }),
        lines: Vec::new(),
        difference: None,
    }
}
