//! What a tracer has on a machine, as it is seen from outside: programs and maps of BPF by their
//! numbers, threads that are traced or stopped.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// A program, a map or a link of BPF, by what bpftool calls its kind and by its number. The kernel gives
/// numbers in order, and to no other before it has been round (`idr_alloc_cyclic` in
/// kernel/bpf/syscall.c).
pub type Id = (&'static str, u64);

/// The kinds, and the words before the numbers in `/proc/PID/fdinfo` (`bpf_prog_show_fdinfo`,
/// `bpf_map_show_fdinfo` and `bpf_link_show_fdinfo` in kernel/bpf/syscall.c).
const KINDS: [(&str, &str); 3] = [("prog", "prog_id:"), ("map", "map_id:"), ("link", "link_id:")];

/// What some processes have open of it, and what that leads to.
pub fn held_by(pids: &[u32]) -> BTreeSet<Id> {
    pids.iter().flat_map(|pid| entries(format!("/proc/{pid}/fdinfo"))).flat_map(ids_in).collect()
}

/// Those of some that are still there, whoever holds them.
pub fn still_there(ids: &BTreeSet<Id>) -> Vec<String> {
    if ids.is_empty() {
        return Vec::new();
    }
    let there = listed().unwrap_or_else(held_by_anybody);
    ids.intersection(&there).map(|(kind, id)| format!("BPF {kind} {id}")).collect()
}

/// All there are, as bpftool lists them; `None` where there is no bpftool.
fn listed() -> Option<BTreeSet<Id>> {
    let mut all = BTreeSet::new();
    for (kind, _) in KINDS {
        let output = Command::new("bpftool").args(["--json", kind, "list"]).output().ok()?;
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).ok()?;
        all.extend(rows.iter().filter_map(|row| Some((kind, row.get("id")?.as_u64()?))));
    }
    Some(all)
}

fn held_by_anybody() -> BTreeSet<Id> {
    let pids: Vec<u32> = entries("/proc".to_owned())
        .into_iter()
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .collect();
    held_by(&pids)
}

/// A folder's entries; none where it is gone by now.
fn entries(folder: String) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn ids_in(file: PathBuf) -> Vec<Id> {
    let text = fs::read_to_string(file).unwrap_or_default();
    let id = |line: &str| {
        let (kind, number) = KINDS.iter().find_map(|(kind, word)| {
            Some((*kind, line.strip_prefix(word)?.trim().parse().ok()?))
        })?;
        Some((kind, number))
    };
    text.lines().filter_map(id).collect()
}

/// Whether a process holds events of the kernel's perf.
pub fn has_events(pid: u32) -> bool {
    let links =
        entries(format!("/proc/{pid}/fd")).into_iter().filter_map(|fd| fs::read_link(fd).ok());
    links.into_iter().any(|link| link.as_os_str() == "anon_inode:[perf_event]")
}

/// Whether some processes hold programs of BPF that run: by a link, or at events of the kernel's perf.
/// What is only loaded does not.
pub fn runs_programs(pids: &[u32]) -> bool {
    let held = held_by(pids);
    let has = |kind| held.iter().any(|(other, _)| *other == kind);
    has("link") || (has("prog") && pids.iter().any(|pid| has_events(*pid)))
}

/// A thread that is not left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    tid: String,
    /// As proc_pid_status(5) has it: `T (stopped)`, `t (tracing stop)`, or what a traced thread does.
    state: String,
    tracer: u32,
}

impl Touched {
    /// Whether somebody traces it.
    pub const fn is_traced(&self) -> bool {
        self.tracer != 0
    }
}

impl std::fmt::Display for Touched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "thread {} is {}, traced by {}", self.tid, self.state, self.tracer)
    }
}

/// The threads of a process group that are traced or stopped.
pub fn touched(group: u32) -> Vec<Touched> {
    let of_group = |path: &PathBuf| group_of(path).is_some_and(|other| other == group);
    let threads = entries("/proc".to_owned())
        .into_iter()
        .filter(of_group)
        .flat_map(|path| entries(path.join("task").display().to_string()));
    threads.filter_map(touched_thread).collect()
}

/// The process group, the fifth field of `stat` (proc_pid_stat(5)).
fn group_of(process: &Path) -> Option<u32> {
    process.file_name()?.to_str()?.parse::<u32>().ok()?;
    let stat = fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(2)?.parse().ok()
}

fn touched_thread(folder: PathBuf) -> Option<Touched> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let (state, tracer) = (field("State:")?.to_owned(), field("TracerPid:")?.parse().ok()?);
    let tid = folder.file_name()?.to_str()?.to_owned();
    (tracer != 0 || state.starts_with(['T', 't'])).then_some(Touched { tid, state, tracer })
}

/// Reads that a process has made so far, in system calls: `syscr` in proc_pid_io(5).
pub fn reads(pid: u32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("syscr:")?.trim().parse().ok())
}
