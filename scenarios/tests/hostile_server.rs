//! sysmcp's own SSH against hosts that mean harm: whatever one sends, it ends in time in one sentence
//! that can do nothing, and nothing grows or is left.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "hostile_server/given_up.rs"]
mod given_up;
#[path = "hostile_server/let_in.rs"]
mod let_in;
#[path = "hostile_server/little_room.rs"]
mod little_room;
#[path = "hostile_server/raw.rs"]
mod raw;

use controller::{
    reporter::Silent,
    target::Target,
    transport::{self, Channel, Login, NotOpened, Prompts, Timings},
};
use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tokio::sync::{Mutex, MutexGuard};

const SECOND: Duration = Duration::from_secs(1);

/// What a host gets for each answer in these tests.
const ANSWER: Duration = Duration::from_secs(2);

/// Held by whoever counts what this process has open.
static ALONE: Mutex<()> = Mutex::const_new(());

/// What this process has open, and how much memory it uses.
struct Before {
    sockets: usize,
    tasks: usize,
    children: usize,
    bytes: usize,
    _alone: MutexGuard<'static, ()>,
}

impl Before {
    async fn now() -> Self {
        let alone = ALONE.lock().await;
        transport::process::settle().await;
        let (tasks, children) = (tasks(), children());
        Self { sockets: sockets(), tasks, children, bytes: memory(), _alone: alone }
    }

    /// Waits until all of it is gone; asserts that memory did not grow by more than that.
    async fn assert_nothing_left(&self, case: &str, growth: usize) {
        transport::process::settle().await;
        let started = Instant::now();
        loop {
            let now = (sockets(), tasks(), children());
            if now.0 <= self.sockets && now.1 <= self.tasks && now.2 <= self.children {
                break;
            }
            let before = (self.sockets, self.tasks, self.children);
            assert!(
                started.elapsed() < 5 * SECOND,
                "{case}: sockets, tasks and children are {now:?}, and were {before:?}"
            );
            tokio::time::sleep(SECOND / 50).await;
        }
        let grown = memory().saturating_sub(self.bytes);
        assert!(grown < growth, "{case}: it grew by {} KiB", grown >> 10);
    }
}

/// Sockets of TCP. The runtime of each test that runs at the same time has others.
fn sockets() -> usize {
    let all = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(std::fs::read_to_string);
    let all: String = all.into_iter().filter_map(Result::ok).collect();
    let of_tcp: Vec<String> = all
        .lines()
        .filter_map(|line| line.split_whitespace().nth(9))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let open = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let links = open.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    links.filter(|link| of_tcp.iter().any(|socket| **socket == *link.to_string_lossy())).count()
}

fn tasks() -> usize {
    tokio::runtime::Handle::current().metrics().num_alive_tasks()
}

/// Processes of ours, but for those that tests start beside a connection.
fn children() -> usize {
    const OF_TESTS: [&str; 2] = ["sshd", "ssh-keygen"];
    let threads = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
    let of_thread = |thread: std::fs::DirEntry| {
        std::fs::read_to_string(thread.path().join("children")).unwrap_or_default()
    };
    let all: String = threads.map(of_thread).collect();
    let names = all
        .split_whitespace()
        .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default());
    names.filter(|name| !OF_TESTS.contains(&name.trim())).count()
}

fn memory() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// A folder with a configuration and the keys that it names.
struct Client {
    folder: tempfile::TempDir,
}

impl Client {
    /// `known` is the public key of the only host that is known, in the format of OpenSSH.
    fn new(port: u16, known: &str, further: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("known"), format!("[127.0.0.1]:{port} {known}\n")).unwrap();
        let config = format!(
            "Host *\n  GlobalKnownHostsFile /dev/null\n  UserKnownHostsFile {}\n  \
             IdentityFile {}\n  IdentityAgent none\n  {further}\n",
            at("known").display(),
            at("id").display()
        );
        std::fs::write(at("config"), config).unwrap();
        Self { folder }
    }

    fn config(&self) -> PathBuf {
        self.folder.path().join("config")
    }

    async fn open(&self, port: u16, script: &str) -> Result<Channel, NotOpened> {
        open(&format!("russh:me@127.0.0.1:{port}"), &self.config(), Prompts::Forbidden, script)
            .await
    }
}

async fn open(
    target: &str,
    config: &Path,
    prompts: Prompts,
    script: &str,
) -> Result<Channel, NotOpened> {
    let target: Target = target.parse().unwrap();
    let login = Login {
        prompts,
        answer_limit: ANSWER,
        ..Login::without_questions(Some(config.to_owned()))
    };
    transport::open(&target, script, &login, &mut Timings::start(), &Silent).await
}

/// The sentence with which it ended, which can do nothing to a terminal.
fn sentence(case: &str, result: Result<Channel, NotOpened>) -> String {
    let Err(NotOpened::Login(failure)) = result else { panic!("{case}: it was let in") };
    let said = failure.to_string();
    assert!(said.len() < 700, "{case}: {} bytes: {said}", said.len());
    assert!(!said.chars().any(char::is_control), "{case}: {said:?}");
    assert!(!said.contains('\u{202e}'), "{case}: {said:?}");
    said
}
