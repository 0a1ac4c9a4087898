//! A record of system calls as `strace -ff` writes it: a file for each thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs,
    path::Path,
};

/// Where programs are looked for.
const FOLDERS: [&str; 6] =
    ["/usr/bin", "/usr/local/bin", "/bin", "/usr/sbin", "/usr/local/sbin", "/sbin"];

/// What is started, with all its arguments; the last is what others are observed with.
const PROGRAMS: [&str; 7] = [
    r#"/perf", "--version"], "#,
    r#"/perf", "stat", "-x", ",", "-e", "task-clock", "true"], "#,
    r#"/strace", "-V"], "#,
    r#"/strace", "-o", "/dev/null", "-e", "trace=exit_group", "true"], "#,
    r#"/bpftrace", "--version"], "#,
    r#"/bpftrace", "-e", "BEGIN { exit(); }"], "#,
    r#"["true"], "#,
];

/// One system call.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// The whole line.
    pub text: String,
}

impl Call {
    /// Reads a line; `None` for one that is no call.
    pub fn parse(line: &str) -> Option<Self> {
        let (name, _) = line.split_once('(')?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        is_name.then(|| Self { name: name.to_owned(), text: line.to_owned() })
    }

    /// Whether it was done.
    pub fn is_done(&self) -> bool {
        !self.text.contains(" = -1 ")
    }

    /// Whether it opens something so that it may be changed, done or refused.
    pub fn opens_for_writing(&self) -> bool {
        let opens = matches!(self.name.as_str(), "open" | "openat" | "openat2" | "creat");
        let words = ["O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_TMPFILE"];
        opens && words.iter().any(|word| self.text.contains(word))
    }

    /// Whether it starts a program that is not on the list, or with other arguments.
    pub fn starts_another_program(&self) -> bool {
        if self.name != "execve" {
            return self.name == "execveat";
        }
        let program = self.first_string().unwrap_or_default();
        let folder = program.rsplit_once('/').map(|(folder, _)| folder).unwrap_or_default();
        let is_in_its_place = FOLDERS.contains(&folder);
        !is_in_its_place || !PROGRAMS.iter().any(|words| self.text.contains(words))
    }

    /// Its first string.
    pub fn first_string(&self) -> Option<&str> {
        self.text.split('"').nth(1)
    }

    /// Its first argument, where that is a number.
    pub fn first_number(&self) -> Option<i64> {
        let (_, rest) = self.text.split_once('(')?;
        rest.split([',', ')']).next()?.trim().parse().ok()
    }

    /// The process or thread that it started.
    fn started(&self) -> Option<u64> {
        let starts = matches!(self.name.as_str(), "clone" | "clone3" | "fork" | "vfork");
        let (_, answer) = self.text.rsplit_once(" = ")?;
        answer.split(' ').next()?.parse().ok().filter(|_| starts)
    }

    /// Whether it is the one by which the start-up script becomes the agent.
    fn becomes_the_agent(&self) -> bool {
        self.name == "execve" && self.text.contains("\"serve\", \"") && self.is_done()
    }

    fn sets_a_filter(&self) -> bool {
        self.name == "seccomp"
            && self.text.contains("SECCOMP_SET_MODE_FILTER")
            && self.text.ends_with("= 0")
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The calls of each thread, in order.
#[derive(Debug)]
pub struct Record {
    threads: BTreeMap<u64, Vec<Call>>,
    worker: u64,
    spawner: u64,
    supervisor: u64,
}

const SPAWNER: &str = "\"sysmcp-spawn\"";

impl Record {
    /// Reads all files of a folder that are one's, and finds the agent's processes in it.
    pub fn read(folder: &Path) -> Self {
        let mut threads = BTreeMap::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let Some(tid) = name.strip_prefix("record.").and_then(|tid| tid.parse().ok()) else {
                continue;
            };
            let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            let _: Option<Vec<Call>> =
                threads.insert(tid, text.lines().filter_map(Call::parse).collect());
        }
        let is_filtered = |calls: &[Call]| calls.iter().any(Call::sets_a_filter);
        let is_spawner = |calls: &[Call]| calls.iter().any(|call| call.text.contains(SPAWNER));
        let find = |is_wanted: bool| {
            let mut found = threads
                .iter()
                .filter(|(_, calls)| is_filtered(calls) && is_spawner(calls) == is_wanted)
                .map(|(tid, _)| *tid);
            let first = found.next().unwrap_or_else(|| panic!("no filter in {:?}", threads.keys()));
            assert_eq!(found.next(), None, "one agent only");
            first
        };
        let (worker, spawner) = (find(false), find(true));
        let starts = |calls: &[Call]| calls.iter().any(|call| call.started() == Some(worker));
        let supervisor = threads.iter().find(|(_, calls)| starts(calls)).map(|(tid, _)| *tid);
        Self { worker, spawner, supervisor: supervisor.unwrap(), threads }
    }

    /// The worker's calls once its filter is in force, and those of all that it starts.
    pub fn worker_after_its_filter(&self) -> Vec<&Call> {
        self.from(self.worker, Call::sets_a_filter)
    }

    /// The spawner's own calls once its filter is in force, and those of all that it starts.
    pub fn spawner_after_its_filter(&self) -> Vec<&Call> {
        self.from(self.spawner, Call::sets_a_filter)
    }

    /// All calls of the spawner, and of its programs.
    pub fn spawner_and_its_programs(&self) -> Vec<&Call> {
        self.from(self.spawner, |call| call.text.contains(SPAWNER))
    }

    /// The supervisor's calls once it has forked.
    pub fn supervisor_after_the_fork(&self) -> Vec<&Call> {
        let calls = &self.threads[&self.supervisor];
        let at = calls.iter().position(|call| call.started() == Some(self.worker)).unwrap();
        calls[at + 1..].iter().collect()
    }

    /// The calls of the start-up script and of all that it starts, up to the one by which it becomes
    /// the agent.
    pub fn script(&self) -> Vec<&Call> {
        let own = &self.threads[&self.supervisor];
        let at = own.iter().position(Call::becomes_the_agent).unwrap();
        let mut calls: Vec<&Call> = own[..=at].iter().collect();
        let mut next: Vec<u64> = own[..at].iter().filter_map(Call::started).collect();
        while let Some(tid) = next.pop() {
            let other = self.threads.get(&tid).map(Vec::as_slice).unwrap_or_default();
            calls.extend(other);
            next.extend(other.iter().filter_map(Call::started));
        }
        calls
    }

    /// The session's token, by which its file is named.
    pub fn token(&self) -> &str {
        let own = &self.threads[&self.supervisor];
        let becomes = own.iter().find(|call| call.becomes_the_agent()).unwrap();
        becomes.text.split("\"serve\", \"").nth(1).unwrap().split('"').next().unwrap()
    }

    /// Whether a process, or a group of them, descends from the spawner.
    pub fn is_of_the_spawner(&self, pid: u64) -> bool {
        self.below(self.spawner, 0).contains(&pid)
    }

    /// Whether a process descends from the supervisor.
    pub fn is_of_the_agent(&self, pid: u64) -> bool {
        self.below(self.supervisor, 0).contains(&pid)
    }

    fn from(&self, tid: u64, is_start: impl Fn(&Call) -> bool) -> Vec<&Call> {
        let own = &self.threads[&tid];
        let at = own.iter().position(is_start).unwrap() + 1;
        let mut calls: Vec<&Call> = own[at..].iter().collect();
        for other in self.below(tid, at).iter().filter(|other| **other != tid) {
            calls.extend(self.threads.get(other).into_iter().flatten());
        }
        calls
    }

    /// A thread, and all threads that it started from a place in its record on.
    fn below(&self, tid: u64, at: usize) -> BTreeSet<u64> {
        let mut found = BTreeSet::from([tid]);
        let mut next: Vec<u64> =
            self.threads[&tid][at..].iter().filter_map(Call::started).collect();
        while let Some(tid) = next.pop() {
            if found.insert(tid) {
                let calls = self.threads.get(&tid).map(Vec::as_slice).unwrap_or_default();
                next.extend(calls.iter().filter_map(Call::started));
            }
        }
        found
    }
}
