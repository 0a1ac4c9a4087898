//! Programs with a known number of open files: the ranking says that number, whichever way it is read.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use rustix::process::geteuid;
use scenarios::{
    not_run::{not_here, not_run},
    programs,
    victim::{Victim, built},
};
use serde_json::{Value, json};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tempfile::TempDir;

/// From so many processes on the kernel is asked by a program, where it may be.
const CROWD: u64 = 1_000;

const WITHOUT_BPF: [&str; 2] = ["setpriv", "--bounding-set=-sys_admin,-bpf,-perfmon"];

const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// An agent, and programs to look at that it can see.
struct Place {
    agent: PathBuf,
    /// A process whose table of files is small, and one whose table is large.
    openers: [Victim; 2],
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = programs::agent_for_all(folder.path()).unwrap();
        let opener = built("open_files/opener.c", folder.path()).unwrap();
        let start = |counts: [&str; 4]| {
            let mut command = Command::new(&opener);
            Victim::start_and_wait(command.args(counts)).unwrap().0
        };
        let openers = [start(["70", "60", "50", "40"]), start(["700", "600", "500", "400"])];
        Self { agent, openers, folder }
    }

    fn crowd(&self) -> Victim {
        let crowd = built("scale/crowd.c", self.folder.path()).unwrap();
        let mut crowd = Command::new(crowd);
        Victim::start_and_wait(crowd.args(["processes", &CROWD.to_string()])).unwrap().0
    }

    /// Ranks by open files, with some words before the agent's. The answer, and the agent's pid.
    fn ask(&self, wrapper: &[&str]) -> (Value, u32) {
        let agent = self.agent.to_str().unwrap();
        let parameters = json!({"sort": "open_files", "window_ms": 300, "limit": 200}).to_string();
        let asked = ["--local", "process_list", "--json", "--params", &parameters];
        let words = [wrapper, &[agent], &asked].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let agent = child.id();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {said}");
        (serde_json::from_slice(&output.stdout).unwrap(), agent)
    }
}

fn row(answer: &Value, pid: u32) -> Option<&Value> {
    answer["processes"].as_array().unwrap().iter().find(|row| row["pid"] == pid)
}

/// What `ls /proc/PID/fd | wc -l` says.
fn listed(pid: u32) -> usize {
    fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd")).unwrap().count()
}

/// Checks that an answer has both programs with the number of files that each has open.
fn check(place: &Place, answer: &Value) {
    for (opener, least) in place.openers.iter().zip([270, 2700]) {
        let listed = listed(opener.pid());
        assert!(listed >= least, "{listed}");
        let row = row(answer, opener.pid()).unwrap_or_else(|| panic!("no row: {answer:#}"));
        assert_eq!(row["open_files"]["open"], listed, "{row:#}");
        let limit = row["open_files"]["limit"].as_u64();
        assert!(limit.is_none_or(|limit| limit >= listed as u64), "{row:#}");
    }
    let rows = answer["processes"].as_array().unwrap();
    let open = |row: &Value| row["open_files"]["open"].as_u64();
    assert!(rows.is_sorted_by(|left, right| open(left) >= open(right)), "{answer:#}");
}

#[test]
fn every_descriptor_counts_once_by_ebpf_and_by_files() {
    if !geteuid().is_root() {
        return not_run("open files by eBPF", "root, for eBPF and for a thousand processes");
    }
    let place = Place::new();
    let _crowd = place.crowd();
    let (refused, agent) = place.ask(&WITHOUT_BPF);
    assert_eq!(refused["meta"]["engine"], "procfs", "{refused:#}");
    assert!(!refused["refused"].as_array().unwrap().is_empty(), "{refused:#}");
    check(&place, &refused);
    // The files that it keeps open to look at the others are not the agent's own.
    let agent = row(&refused, agent).unwrap();
    assert!(agent["open_files"]["open"].as_u64().unwrap() < 100, "{agent:#}");
    let (answer, _) = place.ask(&[]);
    check(&place, &answer);
    if answer["meta"]["engine"] != "eBPF" {
        not_here("open files by eBPF", &answer["refused"].to_string());
    }
}

#[test]
fn another_users_files_are_counted_or_said_to_be_refused() {
    if !geteuid().is_root() {
        return not_run("open files of another user", "root, to be another user");
    }
    let place = Place::new();
    let (answer, _) = place.ask(&NOBODY);
    // Since Linux 6.2 everybody may ask how many there are; before, only who may list them.
    let is_told = fs::metadata("/proc/self/fd").unwrap().len() > 0;
    if is_told {
        check(&place, &answer);
    } else {
        assert!(answer["unranked"]["rows"].as_u64().unwrap() > 0, "{answer:#}");
        let why = answer["meta"]["not_measured"]["unranked.value"].as_str().unwrap();
        assert!(why.contains("not permitted"), "{why}");
    }
    let none = answer["processes"].as_array().unwrap().iter().filter(|row| {
        let open = row["open_files"]["open"].as_u64();
        let is_opener = place.openers.iter().any(|opener| row["pid"] == opener.pid());
        is_opener && open == Some(0)
    });
    assert_eq!(none.count(), 0, "what is not known is not none");
}
