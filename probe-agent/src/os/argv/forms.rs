//! How each program that observes may be called.

use super::{Form, Opt, Rest, Takes, opt};
use crate::external::bpftrace;

/// What is observed in a trial.
pub(super) const IDLER: &str = "true";

const fn observer(
    program: &'static str,
    verbs: &'static [&'static str],
    options: &'static [Opt],
    rest: Rest,
) -> Form {
    Form { program, verbs, options, rest, changes_who: false }
}

/// All forms. The first that fits by its verbs is meant.
pub(super) const OBSERVERS: &[Form] = &[
    observer("strace", &["-V"], &[], Rest::Nothing),
    observer(
        "strace",
        &[],
        &[
            opt("-f", Takes::Nothing),
            opt("-ttt", Takes::Nothing),
            opt("-T", Takes::Nothing),
            opt("-yy", Takes::Nothing),
            opt("-q", Takes::Nothing),
            // Nothing of what is read or written, only how much.
            opt("-s", Takes::Number(0, 0)),
            // A pipe to a shell, `|command`, and a file are other values.
            opt("-o", Takes::OneOf(&["/dev/stdout", "/dev/null"])),
            opt("-e", Takes::Calls("trace=")),
            opt("-p", Takes::Number(1, 4_194_304)),
        ],
        Rest::Idler,
    ),
    observer("perf", &["--version"], &[], Rest::Nothing),
    observer(
        "perf",
        &["stat"],
        &[opt("-x", Takes::OneOf(&[","])), opt("-e", Takes::OneOf(&["task-clock"]))],
        Rest::Idler,
    ),
    observer(
        "perf",
        &["trace"],
        &[
            opt("-s", Takes::Nothing),
            opt("--errno-summary", Takes::Nothing),
            opt("-a", Takes::Nothing),
            opt("-p", Takes::Pids),
            opt("--filter-pids", Takes::Pids),
            opt("-e", Takes::Calls("")),
        ],
        Rest::Nothing,
    ),
    observer("bpftrace", &["--version"], &[], Rest::Nothing),
    observer(
        "bpftrace",
        &[],
        &[
            opt("-f", Takes::OneOf(&["json"])),
            // Texts of ours, each as a whole.
            opt("-e", Takes::OneOf(&[bpftrace::NOTHING, bpftrace::OF_PROCESSES, bpftrace::OF_ALL])),
        ],
        Rest::Numbers(bpftrace::MOST_NUMBERS),
    ),
];
