//! One kill: a session comes about, something of it is killed, and the second way looks at what is
//! there before and after.

use super::{
    draw::{Case, Sent, Usage, Victim},
    site::Site,
};
use rustix::process::Signal;
use scenarios::{
    behind::behind,
    client::Client,
    second_way::{
        self, Seen,
        standing::{Look, Mark, here},
    },
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// What need not end a session is waited for no longer; then the session is ended in order.
const GRACE: Duration = Duration::from_secs(2);

const SECOND: Duration = Duration::from_secs(1);

/// How far a session had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing is on the target yet.
    Connecting,
    /// The start-up script looks for a place.
    Script,
    /// The script waits for the agent.
    Receiving,
    /// The agent runs.
    Agent,
    /// And has started what would stay.
    Planted,
}

impl Phase {
    fn of(session: &[Seen]) -> Self {
        // The script's own text names all of them.
        let waits = |seen: &Seen| {
            let is_it = ["head -c ", "dd bs=1 "].iter().any(|words| seen.command.contains(words));
            is_it && !seen.command.contains("token=")
        };
        if session.iter().any(|seen| seen.command.starts_with("sleep 3600")) {
            Self::Planted
        } else if session.iter().any(is_agent) {
            Self::Agent
        } else if session.iter().any(waits) {
            Self::Receiving
        } else if session.is_empty() {
            Self::Connecting
        } else {
            Self::Script
        }
    }
}

/// The start-up script names the agent too.
fn is_agent(seen: &Seen) -> bool {
    seen.command.contains(" serve ") && !seen.command.contains("token=")
}

/// What came of a kill.
#[derive(Debug)]
pub struct Outcome {
    pub phase: Phase,
    /// What was killed, which is another than was drawn where that was not there.
    pub victim: Victim,
    /// After how long.
    pub moment: Duration,
    /// Processes of the session that the second way saw right before.
    pub alive: usize,
    /// Whether the session went on, as it may after some signals, and was ended in order.
    pub went_on: bool,
    /// Whether the start-up script was killed in the moment in which its folder has a name.
    pub is_beyond_reach: bool,
    /// How long after the kill nothing was left any more.
    pub gone_after: Duration,
    /// What was still left when the patience ended, and whatever else is wrong.
    pub wrong: Vec<String>,
}

/// sysmcp at work.
enum Work {
    Call(Child),
    Serve(Box<Client>),
}

impl Work {
    fn pid(&self) -> u32 {
        match self {
            Self::Call(child) => child.id(),
            Self::Serve(client) => client.pid(),
        }
    }

    /// Asks it to end in order, as a person or a client does.
    fn end(&mut self) {
        match self {
            Self::Call(child) => {
                let _ = second_way::signal(child.id(), Signal::INT);
            }
            Self::Serve(client) => client.close(),
        }
    }

    /// Whether it is a call that has not ended; a server goes on in any case.
    fn goes_on(&mut self) -> bool {
        match self {
            Self::Call(child) => child.try_wait().unwrap().is_none(),
            Self::Serve(_) => false,
        }
    }

    /// Whether it has ended, or does in time.
    fn has_ended(&mut self, patience: Duration) -> bool {
        match self {
            Self::Call(child) => {
                let started = Instant::now();
                while child.try_wait().unwrap().is_none() {
                    if started.elapsed() >= patience {
                        return false;
                    }
                    sleep(Duration::from_millis(10));
                }
                true
            }
            Self::Serve(client) => client.ended(patience).unwrap().is_some(),
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Self::Call(child) = self {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// sysmcp in a process group of its own, as a shell starts it, and as one that may be interrupted
/// whoever runs the tests.
fn command(sysmcp: &Sysmcp) -> Command {
    let mut command = behind(&["env", "--default-signal=INT"], &sysmcp.command());
    command.stdin(Stdio::null()).process_group(0);
    command
}

fn start(case: &Case, sysmcp: &Sysmcp) -> Work {
    let fault = case.planted.fault();
    let long = json!({"count": 60, "interval_ms": 1000, "fault": fault});
    let mut command = command(sysmcp);
    if case.usage == Usage::Call {
        command.args(["call", "self_test", "--params", &long.to_string()]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        return Work::Call(command.spawn().unwrap());
    }
    let mut client = Client::start(command).unwrap();
    let answer = client.call("self_test", &json!({"count": 1, "fault": fault}), 60 * SECOND);
    assert_answered(&answer.unwrap());
    if case.usage == Usage::Busy {
        let call = json!({"name": "self_test", "arguments": {"count": 60, "interval_ms": 1000}});
        client.ask("tools/call", &call).unwrap();
    }
    Work::Serve(Box::new(client))
}

fn assert_answered(answer: &Value) {
    assert_eq!(answer.get("isError"), Some(&json!(false)), "{answer}");
}

/// Whether a process that is killed so has to take the session with it. Before anything is on the
/// target, sysmcp may get there by another way.
fn must_end(victim: Victim, pid: u32, kill: Sent, look: &Look) -> bool {
    // The one with the rights: the one without them has the connection, and goes on.
    let is_monitor = |seen: &Seen| seen.pid == pid && seen.command.contains("[priv]");
    match victim {
        Victim::Controller | Victim::ControllersGroup => true,
        // The agent goes on without it.
        Victim::Spawner => false,
        Victim::Session | Victim::Jump if look.all.iter().any(is_monitor) => false,
        Victim::Client
        | Victim::Master
        | Victim::Session
        | Victim::Jump
        | Victim::Script
        | Victim::Supervisor
        | Victim::Worker
        | Victim::AgentsGroup => kill == Sent::Kill,
    }
}

/// Does one kill at a target. After the patience nothing may be left.
pub fn run(case: &Case, site: &mut Site, patience: Duration) -> Outcome {
    let client = site.client_mark(case.index);
    let sysmcp = site.sysmcp(&client);
    let mut work = start(case, &sysmcp);
    let whole = if case.usage == Usage::Call { site.typical.mul_f64(1.6) } else { SECOND / 4 };
    let moment = whole.mul_f64(case.moment as f64 / 1000.0);
    sleep(moment);
    let is_connected = !sysmcp.audited("connected").unwrap_or_default().is_empty();
    let look = site.look();
    let pid = work.pid();
    let before = of_session(&look, pid);
    let mut wrong = Vec::new();
    if is_connected && !before.iter().any(is_agent) {
        wrong.push(format!("the second way does not see the agent: {before:?}"));
    }
    let (victim, victim_pid) = choose(case, site, pid, &client, &look);
    site.kill(victim, victim_pid, case.kill);
    let killed = Instant::now();
    let mut went_on = false;
    let left = loop {
        let left = left(site, &before, pid);
        // Before anything was there, a call may go on by another way.
        let is_over = left.is_empty() && (went_on || !work.goes_on() || killed.elapsed() > GRACE);
        if is_over || killed.elapsed() > patience {
            break left;
        }
        let is_controller = matches!(victim, Victim::Controller | Victim::ControllersGroup);
        let is_there = is_controller || !before.is_empty();
        let must_end = is_there && must_end(victim, victim_pid, case.kill, &look);
        if !must_end && !went_on && killed.elapsed() > GRACE {
            went_on = true;
            work.end();
        }
        sleep(Duration::from_millis(30));
    };
    if !went_on && work.goes_on() {
        went_on = true;
        work.end();
    }
    let gone_after = killed.elapsed();
    // Only the script itself could end that; `docs/safety.md` says what it is.
    let is_script = (victim, case.kill) == (Victim::Script, Sent::Kill);
    let may_stay = |line: &String| is_file(line) || line.contains(" timeout ");
    let is_beyond_reach = is_script && !left.is_empty() && left.iter().all(may_stay);
    if is_beyond_reach {
        site.clear();
    } else {
        wrong.extend(left);
    }
    if wrong.is_empty() {
        wrong = end_of(work, case, victim, went_on, site, &client);
    }
    let alive = before.len();
    let phase = Phase::of(&before);
    Outcome { phase, victim, moment, alive, went_on, is_beyond_reach, gone_after, wrong }
}

/// The session's processes on the target: on this machine sysmcp itself carries the mark too.
fn of_session(look: &Look, sysmcp: u32) -> Vec<Seen> {
    look.session().into_iter().filter(|seen| seen.pid != sysmcp).collect()
}

/// What is left on the target: of what was seen before, of what was started since, and of files.
pub fn left(site: &mut Site, before: &[Seen], sysmcp: u32) -> Vec<String> {
    let look = site.look();
    let now = of_session(&look, sysmcp);
    let survivors = second_way::survivors(before, &look.all);
    let processes = survivors.into_iter().chain(&now);
    let mut left: Vec<String> =
        processes.map(|seen| format!("process {} {}", seen.pid, short(&seen.command))).collect();
    left.sort();
    left.dedup();
    if left.is_empty() {
        left.extend(site.further_files().into_iter().map(|file| format!("file {file}")));
    }
    left.extend(look.files.into_iter().map(|file| format!("file {file}")));
    left
}

fn is_file(line: &str) -> bool {
    line.starts_with("file ")
}

/// The script is long.
fn short(command: &str) -> &str {
    command.get(..160).unwrap_or(command)
}

/// What was drawn, or what is there instead of it.
fn choose(case: &Case, site: &Site, pid: u32, client: &Mark, look: &Look) -> (Victim, u32) {
    let instead = [Victim::Script, Victim::Client, Victim::Session, Victim::Controller];
    let may_be = |victim: &Victim| case.kill != Sent::Kill || victim.may_be_killed(case.planted);
    for victim in std::iter::once(case.victim).chain(instead).filter(may_be) {
        let candidates = site.candidates(victim, pid, client, look);
        if !candidates.is_empty() {
            return (victim, candidates[case.which % candidates.len()]);
        }
    }
    (Victim::Controller, pid)
}

/// The end of sysmcp itself, which is to leave nothing either: a server that lives connects anew
/// first.
fn end_of(
    mut work: Work,
    case: &Case,
    victim: Victim,
    went_on: bool,
    site: &mut Site,
    client: &Mark,
) -> Vec<String> {
    let pid = work.pid();
    let is_victim = matches!(victim, Victim::Controller | Victim::ControllersGroup);
    if let (Work::Serve(server), false, false) = (&mut work, is_victim, went_on) {
        // The first may be told that the agent was lost.
        let mut ask = || server.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
        let answers = [ask(), ask()];
        if answers[1].get("isError") != Some(&json!(false)) {
            return vec![format!("the next call does not connect: {answers:?}")];
        }
    }
    if !matches!(work, Work::Call(_)) {
        work.end();
    }
    if !work.has_ended(30 * SECOND) {
        return vec![format!("sysmcp does not end: {case:?}")];
    }
    let started = Instant::now();
    loop {
        let mut left = left(site, &[], pid);
        let beside = here(client).unwrap();
        left.extend(
            beside.all.iter().map(|seen| format!("beside sysmcp: {}", short(&seen.command))),
        );
        if left.is_empty() || started.elapsed() > 12 * SECOND {
            return left;
        }
        sleep(Duration::from_millis(30));
    }
}
