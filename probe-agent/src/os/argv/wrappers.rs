//! Programs that run another one, and how they are called: what is inside is what is judged.

use super::{Form, Opt, Rest, Takes, opt};

const SECONDS: Takes = Takes::Number(0, 3600);

const SIGNALS: Takes = Takes::OneOf(&["INT", "TERM", "KILL", "2", "9", "15"]);

const BUFFERS: Takes = Takes::OneOf(&["0", "L"]);

const fn wrapper(program: &'static str, options: &'static [Opt], before: &'static [Takes]) -> Form {
    Form { program, verbs: &[], options, rest: Rest::Wrapped(before), changes_who: false }
}

/// One that gives what it runs another user, root, namespace or set of rights. It is unwrapped, and
/// refused all the same.
const fn changing(
    program: &'static str,
    options: &'static [Opt],
    before: &'static [Takes],
) -> Form {
    Form { program, verbs: &[], options, rest: Rest::Wrapped(before), changes_who: true }
}

pub(super) const WRAPPERS: &[Form] = &[
    wrapper(
        "timeout",
        &[
            opt("-k", SECONDS),
            opt("--kill-after", SECONDS),
            opt("-s", SIGNALS),
            opt("--signal", SIGNALS),
            opt("--foreground", Takes::Nothing),
            opt("--preserve-status", Takes::Nothing),
            opt("-v", Takes::Nothing),
            opt("--verbose", Takes::Nothing),
        ],
        &[SECONDS],
    ),
    wrapper(
        "nice",
        &[opt("-n", Takes::Number(0, 19)), opt("--adjustment", Takes::Number(0, 19))],
        &[],
    ),
    wrapper(
        "ionice",
        &[
            opt("-c", Takes::Number(0, 3)),
            opt("--class", Takes::Number(0, 3)),
            opt("-n", Takes::Number(0, 7)),
            opt("--classdata", Takes::Number(0, 7)),
            opt("-t", Takes::Nothing),
            opt("--ignore", Takes::Nothing),
        ],
        &[],
    ),
    // Variables can make any program do anything (`LD_PRELOAD`), and `-S` splits text into words.
    wrapper("env", &[opt("-i", Takes::Nothing), opt("--ignore-environment", Takes::Nothing)], &[]),
    wrapper(
        "stdbuf",
        &[
            opt("-i", BUFFERS),
            opt("--input", BUFFERS),
            opt("-o", BUFFERS),
            opt("--output", BUFFERS),
            opt("-e", BUFFERS),
            opt("--error", BUFFERS),
        ],
        &[],
    ),
    wrapper(
        "setsid",
        &[
            opt("-w", Takes::Nothing),
            opt("--wait", Takes::Nothing),
            opt("-f", Takes::Nothing),
            opt("--fork", Takes::Nothing),
        ],
        &[],
    ),
    wrapper("nohup", &[], &[]),
    wrapper("time", &[opt("-p", Takes::Nothing)], &[]),
    wrapper(
        "chrt",
        &[opt("-i", Takes::Nothing), opt("-b", Takes::Nothing)],
        &[Takes::Number(0, 0)],
    ),
    wrapper("taskset", &[], &[Takes::Number(0, u64::MAX)]),
    // Its applets are judged by their names, like any program.
    wrapper("busybox", &[], &[]),
    wrapper("toybox", &[], &[]),
    wrapper("command", &[], &[]),
    wrapper("exec", &[], &[]),
    changing(
        "sudo",
        &[
            opt("-n", Takes::Nothing),
            opt("--non-interactive", Takes::Nothing),
            opt("-u", Takes::OneOf(&["root"])),
            opt("--user", Takes::OneOf(&["root"])),
        ],
        &[],
    ),
    changing("doas", &[opt("-n", Takes::Nothing), opt("-u", Takes::OneOf(&["root"]))], &[]),
    changing("pkexec", &[], &[]),
    changing("setpriv", &[], &[]),
    changing("unshare", &[], &[]),
    changing("nsenter", &[], &[]),
    changing("prlimit", &[], &[]),
];
