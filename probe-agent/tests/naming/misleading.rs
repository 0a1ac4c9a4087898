//! Threads whose names look like something else.

use super::{
    busy::{Busy, Seconds},
    named,
    shown::stacks,
};
use probe_agent::{
    perf::sampler::Settings,
    proc::Root,
    stack::{record::record, recording::Limits},
};
use protocol::host_text::HostText;
use std::collections::{BTreeMap, BTreeSet};

/// As `fixtures/binaries/busy.c` has them; the kernel keeps 15 bytes.
const NAMES: [&[u8]; 8] = [
    b"a) R 1 1 (b",
    b"x\ny",
    b"worker 1",
    b"a;b",
    b"\xff\xfe\xfdz",
    b"a 11/22 b",
    b"   lead",
    b"tab\tx",
];

#[test]
fn names_of_threads_forge_no_frame_and_no_number() {
    let mut busy = Busy::start(&["names"]);
    let settings = Settings { hertz: 999, ..Settings::cpu(busy.scope()) };
    let mut window = Seconds::with_word(3.0, busy.word());
    let root = Root::live().unwrap();
    let recording = record(&root, &settings, Limits::default(), &mut window).unwrap();
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", busy.pid()));
    let children: Vec<u32> =
        children.unwrap().split_whitespace().map(|pid| pid.parse().unwrap()).collect();
    let names = named(&recording);

    // Each under its own number and its own name, escaped.
    let found: BTreeMap<u32, &str> = names
        .profile
        .threads()
        .iter()
        .filter(|thread| thread.pid != busy.pid())
        .map(|thread| {
            assert_eq!(thread.pid, thread.tid);
            (thread.pid, thread.name.as_str())
        })
        .collect();
    let texts = NAMES.map(|name| HostText::new(name).as_str().to_owned());
    let wanted: BTreeMap<u32, &str> =
        children.iter().copied().zip(texts.iter().map(String::as_str)).collect();
    assert_eq!(found, wanted);
    assert!(found.values().all(|name| !name.contains(['\n', '\t', '\x1b'])));

    // As text each is one frame at the root, and no line is more than one.
    let roots: BTreeSet<String> = stacks(&names)
        .iter()
        .filter(|stack| stack.contains("in_late_child"))
        .map(|stack| stack.split(';').next().unwrap().to_owned())
        .collect();
    let wanted: BTreeSet<String> = texts.iter().map(|name| name.replace(';', "\\x3b")).collect();
    assert_eq!(roots, wanted);
    assert!(names.profile.folded().all(|line| !line.contains('\n')));
}
