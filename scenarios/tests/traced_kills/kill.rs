//! One kill: a session is asked, and while its engine is at work something is killed. What is there is
//! looked at from outside, right before and afterwards.

use super::{
    PATIENCE,
    attached::{self, Id},
    questions::{Question, Sign},
};
use rustix::process::{Pid, Signal, kill_process_group};
use scenarios::{
    client::Client,
    second_way::{
        self, Seen,
        standing::{Look, Mark, here},
    },
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::json;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread::sleep,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Victim {
    Worker,
    Spawner,
    Supervisor,
    /// The server's process that carries the connection.
    Connection,
    Controller,
    /// The program that is looked at.
    Program,
    /// What the spawner has started: `strace`, `perf`, `bpftrace`; where there is none, the worker.
    Tool,
}

impl Victim {
    pub const ALL: [Self; 7] = [
        Self::Worker,
        Self::Spawner,
        Self::Supervisor,
        Self::Connection,
        Self::Controller,
        Self::Program,
        Self::Tool,
    ];

    /// Whether the session has to end with it.
    const fn ends_session(self) -> bool {
        match self {
            Self::Worker | Self::Supervisor | Self::Connection | Self::Controller => true,
            Self::Spawner | Self::Program | Self::Tool => false,
        }
    }
}

/// What came of a kill.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether the engine was seen at work right before.
    pub was_at_work: bool,
    /// How long after the kill nothing was left any more.
    pub gone_after: Duration,
    /// What was left, and whatever else is wrong.
    pub wrong: Vec<String>,
}

/// A host, and the program on it.
pub struct Site {
    sshd: Sshd,
    mark: Mark,
    /// Where sessions put their file.
    runtime: PathBuf,
}

impl Site {
    pub fn new() -> Self {
        /// What is left at one is none of the next one's.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let value = format!("{}-{number}", std::process::id());
        let mark = Mark { name: "SYSMCP_TEST_TRACED", value };
        let runtime = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&mark.value);
        fs::create_dir_all(&runtime).unwrap();
        let places = runtime.display();
        let server = vec![format!("SetEnv {mark} XDG_RUNTIME_DIR={places} HOME={places}")];
        let sshd = Sshd::start(&Settings { server, ..Settings::default() }).unwrap();
        Self { sshd, mark, runtime }
    }

    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.runtime).unwrap().flatten();
        entries.map(|entry| format!("file {}", entry.path().display())).collect()
    }

    /// Processes of sessions here, and what carries the mark of one of them: what an agent starts has
    /// nothing else of its environment.
    fn session(&self, own: Option<&Mark>) -> Look {
        let mut look = here(&self.mark).unwrap();
        if let Some(own) = own {
            let started = here(own).unwrap();
            let is_new = |seen: &Seen| !look.marked.contains_key(&seen.pid);
            let new: Vec<Seen> = started.all.into_iter().filter(is_new).collect();
            look.all.extend(new);
            look.marked.extend(started.marked);
        }
        look
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.runtime);
    }
}

/// The program that is looked at, with its children, in a process group of its own.
pub struct Program(Child);

impl Program {
    pub fn start() -> Self {
        static COMPILED: OnceLock<PathBuf> = OnceLock::new();
        let program = COMPILED.get_or_init(|| {
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traced_kills/busy.c");
            let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("busy");
            let words = ["-O1", "-pthread", "-o"];
            let status = Command::new("cc").args(words).args([&program, &source]).status().unwrap();
            assert!(status.success(), "cc");
            program
        });
        let mut command = Command::new(program);
        command.arg("/etc/hostname").stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// What a tracer has left of it.
    pub fn touched(&self) -> Vec<String> {
        attached::touched(self.pid()).iter().map(ToString::to_string).collect()
    }

    /// Whether it goes on: threads that nobody lets go make no calls.
    pub fn goes_on(&self) -> bool {
        let before = attached::reads(self.pid());
        let started = Instant::now();
        while started.elapsed() < PATIENCE {
            if attached::reads(self.pid()) > before {
                return true;
            }
            sleep(SECOND / 100);
        }
        false
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.pid()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// The mark of its own that a session has.
fn own_mark(look: &Look) -> Option<Mark> {
    const NAME: &str = "SYSMCP_SESSION";
    look.marked.keys().find_map(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        let of_session = |part: &[u8]| {
            let value = part.strip_prefix(NAME.as_bytes())?.strip_prefix(b"=")?;
            Some(Mark { name: NAME, value: String::from_utf8(value.to_vec()).ok()? })
        };
        environment.split(|byte| *byte == 0).find_map(of_session)
    })
}

/// What there is before a kill.
struct Before {
    own: Option<Mark>,
    look: Look,
    ids: BTreeSet<Id>,
    is_at_work: bool,
}

impl Before {
    fn now(site: &Site, question: &Question, program: &Program) -> Self {
        let own = own_mark(&site.session(None));
        let look = site.session(own.as_ref());
        let pids: Vec<u32> = look.marked.keys().copied().collect();
        let ids = attached::held_by(&pids);
        let has_agent = look.marked.values().any(|name| name == SUPERVISOR);
        let is_at_work = has_agent
            && match question.sign {
                Sign::Bpf => attached::runs_programs(&pids),
                Sign::Traced => {
                    attached::touched(program.pid()).iter().any(attached::Touched::is_traced)
                }
                Sign::Events => pids.iter().any(|pid| attached::has_events(*pid)),
                Sign::None => true,
            };
        Self { own, look, ids, is_at_work }
    }

    /// The process that a victim is, of those that are there.
    fn find(&self, victim: Victim, site: &Site, client: &Client, program: &Program) -> Option<u32> {
        let named = |name: &str| {
            let mut marked = self.look.marked.iter();
            marked.find(|(_, own)| *own == name).map(|(pid, _)| *pid)
        };
        let child = |parent: u32, is_it: &dyn Fn(u32) -> bool| {
            let is_child = |seen: &&Seen| seen.parent == parent && is_it(seen.pid);
            self.look.all.iter().find(is_child).map(|seen| seen.pid)
        };
        let (supervisor, spawner) = (named(SUPERVISOR)?, named(SPAWNER));
        match victim {
            Victim::Supervisor => Some(supervisor),
            Victim::Spawner => spawner,
            Victim::Worker => child(supervisor, &|pid| Some(pid) != spawner),
            Victim::Tool => child(spawner?, &|_| true),
            Victim::Connection => second_way::carrier(&site.sshd, supervisor).ok(),
            Victim::Controller => Some(client.pid()),
            Victim::Program => Some(program.pid()),
        }
    }
}

/// The names of two of the agent's processes.
const SUPERVISOR: &str = "sysmcp-super";
const SPAWNER: &str = "sysmcp-spawn";

/// Does one kill, so long after the engine is seen at work.
pub fn run(site: &Site, question: &Question, victim: Victim, moment: Duration) -> Outcome {
    let program = Program::start();
    let sysmcp = Sysmcp::over(&site.sshd).unwrap().at(&site.sshd.target_by("russh"));
    let mut client = Client::start(sysmcp.command()).unwrap();
    client.call("process_list", &json!({"limit": 1, "window_ms": 100}), 60 * SECOND).unwrap();
    let id = client.ask("tools/call", &question.call(program.pid())).unwrap();
    let mut outcome = Outcome::default();
    let asked = Instant::now();
    while !Before::now(site, question, &program).is_at_work {
        if let Some(reply) = client.reply(id, SECOND / 50).unwrap() {
            outcome.wrong.push(format!("it was answered before it was at work: {reply}"));
            return outcome;
        }
        if asked.elapsed() > 2 * PATIENCE {
            outcome.wrong.push("it is never at work".to_owned());
            return outcome;
        }
    }
    sleep(moment);
    let before = Before::now(site, question, &program);
    outcome.was_at_work = before.is_at_work;
    let found = before.find(victim, site, &client, &program);
    // Not every engine starts something, and a process may be on its way.
    let Some(pid) = found.or_else(|| before.find(Victim::Worker, site, &client, &program)) else {
        outcome.wrong.push(format!("no {victim:?} among {:?}", before.look.marked));
        return outcome;
    };
    let _ = second_way::signal(pid, Signal::KILL);
    let killed = Instant::now();
    if found.is_none() || victim.ends_session() {
        outcome.wrong = until_clean(site, &before, &program, victim);
        outcome.gone_after = killed.elapsed();
    } else {
        // The session goes on, or sysmcp connects anew: it is ended in order.
        sleep(SECOND / 2);
    }
    client.close();
    if victim != Victim::Controller && client.ended(30 * SECOND).unwrap().is_none() {
        outcome.wrong.push("sysmcp does not end".to_owned());
    }
    outcome.wrong.extend(until_clean(site, &before, &program, victim));
    outcome
}

/// Waits until nothing is left of a session and of what it had done to the program. Gives what is.
fn until_clean(site: &Site, before: &Before, program: &Program, victim: Victim) -> Vec<String> {
    let left = second_way::still_left(PATIENCE, || {
        let look = site.session(before.own.as_ref());
        // The scripts of a session are long.
        let short = |seen: &Seen| seen.to_string().chars().take(200).collect::<String>();
        let mut left: Vec<String> = look.session().iter().map(short).collect();
        left.extend(attached::still_there(&before.ids));
        left.extend(site.files());
        if victim != Victim::Program {
            left.extend(program.touched());
        }
        Ok(left)
    });
    let mut left = left.unwrap();
    if left.is_empty() && victim != Victim::Program && !program.goes_on() {
        left.push("the program does not go on".to_owned());
    }
    left
}
