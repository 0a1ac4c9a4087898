//! The machines in `fixtures/machines`, each taken by `sysmcp capture`. One more folder there is one
//! more machine here: every instrument answers over it, and what it says is a golden.

use crate::{
    asking::{ask, read},
    check_answer, golden,
};
use probe_agent::proc::Root;
use protocol::instruments::{host_snapshot, process_inspect, process_list};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Bytes of one machine's files.
const MOST_BYTES: u64 = 256 << 10;

fn machines() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/machines");
    let entries = fs::read_dir(folder).unwrap();
    let mut machines: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    machines.retain(|path| path.is_dir());
    machines.sort();
    machines
}

fn bytes_below(folder: &Path) -> u64 {
    let size = |entry: fs::DirEntry| {
        let status = entry.metadata().unwrap();
        if status.is_dir() { bytes_below(&entry.path()) } else { status.len() }
    };
    fs::read_dir(folder).unwrap().map(|entry| size(entry.unwrap())).sum()
}

#[test]
fn captured_machines_are_small_and_say_where_they_are_from() {
    let machines = machines();
    assert!(!machines.is_empty());
    for machine in machines {
        let name = machine.file_name().unwrap().to_str().unwrap();
        let bytes = bytes_below(&machine);
        assert!(bytes <= MOST_BYTES, "{name}: {bytes} bytes");
        let about = fs::read_to_string(machine.join("machine.toml")).unwrap();
        for line in ["why", "taken", "distribution", "kernel", "architecture", "window_ms"] {
            let found = about.lines().find_map(|text| text.strip_prefix(&format!("{line} = ")));
            assert!(found.is_some_and(|value| value != "\"\""), "{name}: no {line}");
        }
    }
}

#[test]
fn captured_machines_answer_as_they_did() {
    for machine in machines() {
        let name = machine.file_name().unwrap().to_str().unwrap();
        let root = Root::snapshot(&machine).unwrap();
        let golden = |what: &str, text: &str| {
            golden::assert_golden(&format!("fixtures/golden/machines/{name}/{what}.txt"), text);
        };
        let whole = host_snapshot::Request {
            limit: 5,
            detail: host_snapshot::Detail::Full,
            ..Default::default()
        };
        check_answer(name, &ask(&root.for_call(), whole.clone()).unwrap());
        golden("host_snapshot", &read(&root.for_call(), whole).unwrap());
        let list = process_list::Request { limit: 10, ..Default::default() };
        let answer = ask(&root.for_call(), list.clone()).unwrap();
        check_answer(name, &answer);
        golden("process_list", &read(&root.for_call(), list).unwrap());
        let pid = answer["processes"][0]["pid"].as_u64().unwrap().try_into().unwrap();
        let inspect = process_inspect::Request { pid, start_ticks: 0, window_ms: 1000, threads: 5 };
        check_answer(name, &ask(&root.for_call(), inspect.clone()).unwrap());
        golden("process_inspect", &read(&root.for_call(), inspect).unwrap());
        every_other_question_has_an_answer(name, &root);
    }
}

fn every_other_question_has_an_answer(name: &str, root: &Root) {
    for sort in crate::COLUMNS {
        let request = process_list::Request { sort, limit: 100_000, ..Default::default() };
        check_answer(name, &ask(&root.for_call(), request).unwrap());
    }
    for group_by in crate::GROUPS {
        let request = process_list::Request { group_by, limit: 100_000, ..Default::default() };
        check_answer(name, &ask(&root.for_call(), request).unwrap());
    }
}
