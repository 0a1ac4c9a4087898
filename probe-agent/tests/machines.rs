//! Every reader and every instrument that reads files, over the files of machines that nobody here
//! set up: kernels from 2.6.32 on, other processors, files that were broken on purpose.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "machines/asking.rs"]
mod asking;
#[path = "machines/captured.rs"]
mod captured;
#[path = "../../fixtures/golden.rs"]
mod golden;
#[path = "machines/known.rs"]
mod known;
#[path = "../../scenarios/src/not_run.rs"]
#[expect(dead_code, clippy::print_stderr, reason = "it is for the tests of another crate, too")]
mod not_run;
#[path = "machines/pairs.rs"]
mod pairs;
#[path = "machines/sources.rs"]
mod sources;

use asking::{ask, nulls, numbers};
use probe_agent::proc::Root;
use protocol::{
    Request,
    error::AgentError,
    instruments::{host_snapshot, memory_profile, process_inspect, process_list},
};
use serde_json::Value;
use sources::{Machine, machines};
use std::path::PathBuf;

/// The files of others; without them, what a check needs is said.
fn data(check: &str) -> Option<PathBuf> {
    let found = sources::data();
    if found.is_none() {
        not_run::not_here(check, "../shared/data, the files of other machines");
    }
    found
}

const COLUMNS: [process_list::Column; 14] = [
    process_list::Column::Cpu,
    process_list::Column::User,
    process_list::Column::System,
    process_list::Column::ChildrenCpu,
    process_list::Column::RunDelay,
    process_list::Column::Rss,
    process_list::Column::Threads,
    process_list::Column::OpenFiles,
    process_list::Column::MinorFaults,
    process_list::Column::MajorFaults,
    process_list::Column::Read,
    process_list::Column::Write,
    process_list::Column::Switches,
    process_list::Column::Youngest,
];

const GROUPS: [process_list::GroupBy; 3] =
    [process_list::GroupBy::Service, process_list::GroupBy::Container, process_list::GroupBy::User];

/// What holds for every answer of every machine.
fn check(machine: &Machine, answer: &Value) {
    check_answer(&machine.name, answer);
}

/// The same, of the machine of that name.
fn check_answer(name: &str, answer: &Value) {
    for (path, number) in numbers(answer) {
        assert!(number.is_finite(), "{name}: {path} is {number}");
        // A difference that was taken the wrong way round is a number close to 2^64.
        let is_limit = path.ends_with("memory_limit_bytes");
        assert!(is_limit || number < 1e18, "{name}: {path} is {number}");
        let is_share = path.ends_with("_pct");
        assert!(!is_share || (0.0..=1e6).contains(&number), "{name}: {path} is {number}");
    }
    let meta = &answer["meta"];
    let explained =
        |path: &String| !meta["not_measured"][path].is_null() || !meta["absent"][path].is_null();
    // Without a limit for the details there is no number, and the schema says so.
    let nulls = nulls(answer);
    let silent: Vec<_> = nulls
        .iter()
        .filter(|path| !explained(path) && !MAY_BE_NULL.contains(&path.as_str()))
        .collect();
    assert!(silent.is_empty(), "{name}: nobody says why {silent:?} is not known");
}

/// Fields that say by being `null` what their description says.
const MAY_BE_NULL: [&str; 3] = ["unranked", "detail_window_ms", "processes[].open_files"];

/// One test for all instruments: to unpack the machines takes longer than to look at them.
#[test]
fn every_machine_is_answered_for() {
    let Some(data) = data("every_machine_is_answered_for") else { return };
    let (mut listed, mut looked_into, mut in_snapshots) = (0, 0, 0);
    for machine in machines(&data) {
        let root = Root::at(&machine.root).unwrap();
        the_whole_machine_has_an_answer(&machine, &root);
        listed += every_process_is_listed_or_counted(&machine, &root);
        looked_into += every_process_can_be_looked_into(&machine, &root);
        in_snapshots += a_plain_copy_says_what_was_and_not_what_happened(&machine);
    }
    assert_eq!(in_snapshots, looked_into);
    assert!(listed > 600 * COLUMNS.len(), "only {listed} processes were listed");
    assert!(looked_into > 600, "only {looked_into} processes were looked into");
}

/// The answer, which there has to be.
fn answer(machine: &Machine, root: &Root, request: impl Into<Request>) -> Value {
    let answer = ask(root, request).unwrap_or_else(|error| panic!("{}: {error}", machine.name));
    check(machine, &answer);
    answer
}

fn the_whole_machine_has_an_answer(machine: &Machine, root: &Root) {
    answer(
        machine,
        root,
        host_snapshot::Request { window_ms: 1, limit: 100, detail: host_snapshot::Detail::Full },
    );
}

fn every_process_is_listed_or_counted(machine: &Machine, root: &Root) -> usize {
    let all = || process_list::Request { window_ms: 1, limit: 100_000, ..Default::default() };
    let pids = machine.pids();
    let mut listed = 0;
    for sort in COLUMNS {
        let answer = answer(machine, root, process_list::Request { sort, ..all() });
        listed += accounted_for(machine, &pids, &answer);
    }
    for group_by in GROUPS {
        let answer = answer(machine, root, process_list::Request { group_by, ..all() });
        let groups = answer["groups"].as_array().unwrap();
        let members: u64 = groups.iter().map(|group| group["processes"].as_u64().unwrap()).sum();
        assert_eq!(Some(members), answer["census"]["processes"].as_u64(), "{}", machine.name);
    }
    listed
}

/// Every process that has a line is a row, and what has none is counted. Gives the rows.
fn accounted_for(machine: &Machine, pids: &[u32], answer: &Value) -> usize {
    let name = &machine.name;
    let rows = answer["processes"].as_array().unwrap();
    let lost = |why: &str| usize::try_from(answer["meta"]["lost"][why].as_u64().unwrap()).unwrap();
    let without_row = lost("vanished") + lost("refused") + lost("malformed");
    assert_eq!(rows.len() + without_row, pids.len(), "{name}");
    for pid in pids {
        let is_listed = rows.iter().any(|row| row["pid"] == *pid);
        assert_eq!(is_listed, machine.has_line(*pid), "{name}: process {pid}");
    }
    rows.len()
}

fn memory_of(pid: u32) -> memory_profile::Request {
    let with_smaps = memory_profile::WithSmaps::Always;
    let (start_ticks, window_ms, mappings) = (0, 1, 100);
    memory_profile::Request { pid, start_ticks, window_ms, mappings, with_smaps, sites: false }
}

fn every_process_can_be_looked_into(machine: &Machine, root: &Root) -> usize {
    let mut looked_into = 0;
    for pid in machine.pids() {
        let has_line = machine.has_line(pid);
        let request = process_inspect::Request { pid, start_ticks: 0, window_ms: 1, threads: 100 };
        match ask(root, request) {
            Ok(looked) => {
                assert!(has_line, "{}: process {pid} has no line", machine.name);
                check(machine, &looked);
                answer(machine, root, memory_of(pid));
                looked_into += 1;
            }
            // Some of these trees have a folder for a thread beside those for processes.
            Err(AgentError::IsThread { pid: leader, .. }) if leader != pid => {}
            Err(AgentError::NoSuchProcess { .. } | AgentError::Unreadable { .. }) if !has_line => {}
            Err(error) => panic!("{}: process {pid}: {error}", machine.name),
        }
    }
    looked_into
}

/// The same files as a snapshot of one instant: what takes two instants is not known, and nothing of
/// the machine that runs the test is in an answer.
fn a_plain_copy_says_what_was_and_not_what_happened(machine: &Machine) -> usize {
    let root = Root::snapshot(&machine.root).unwrap();
    let without_time = |answer: Value| {
        // Whoever runs is not blocked, and that takes no time.
        let is_share = |path: &str| path.ends_with("_pct") && !path.starts_with("waits.groups");
        let numbers = numbers(&answer);
        let rate = numbers.iter().find(|(path, _)| path.ends_with("_per_s") || is_share(path));
        assert_eq!(rate, None, "{}", machine.name);
        assert_eq!(answer["meta"]["window_ms"], Value::Null, "{}", machine.name);
        assert_eq!(answer["meta"]["engine"], "snapshot", "{}", machine.name);
    };
    let request =
        host_snapshot::Request { window_ms: 1, limit: 100, detail: host_snapshot::Detail::Full };
    without_time(answer(machine, &root.for_call(), request));
    let all = || process_list::Request { window_ms: 1, limit: 100_000, ..Default::default() };
    let pids = machine.pids();
    if pids.is_empty() {
        let error = ask(&root.for_call(), all()).unwrap_err();
        assert!(matches!(error, AgentError::Unreadable { .. }), "{}: {error}", machine.name);
        return 0;
    }
    let list = answer(machine, &root.for_call(), all());
    accounted_for(machine, &pids, &list);
    without_time(list);
    for group_by in GROUPS {
        let request = process_list::Request { group_by, ..all() };
        without_time(answer(machine, &root.for_call(), request));
    }
    let mut looked_into = 0;
    for pid in pids.into_iter().filter(|pid| machine.has_line(*pid)) {
        let request = process_inspect::Request { pid, start_ticks: 0, window_ms: 1, threads: 100 };
        match ask(&root.for_call(), request) {
            Ok(looked) => {
                check(machine, &looked);
                without_time(looked);
                without_time(answer(machine, &root.for_call(), memory_of(pid)));
                looked_into += 1;
            }
            Err(AgentError::IsThread { .. }) => {}
            Err(error) => panic!("{}: process {pid}: {error}", machine.name),
        }
    }
    looked_into
}
