//! Many connections from one process at once, each to a server of its own: what they cost in memory,
//! whether every answer comes back to the connection that asked, and whether all of it goes.

use crate::fleet::Fleet;
use anyhow::{Context as _, Result, anyhow, ensure};
use controller::{
    agents::Agents,
    push,
    reporter::Silent,
    session::Session,
    target::Target,
    transport::{Login, process},
};
use protocol::{Item, Report, Request, budget::Budget, instruments::self_test};
use serde::{Deserialize, Serialize};
use std::{
    fs,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};

/// How many logins are under way at the same time.
pub const LOGINS_AT_ONCE: usize = 20;
/// How many calls of one connection are under way at the same time; an agent takes eight.
const CALLS_AT_ONCE: usize = 4;
/// How long a login may take, where a hundred of them share two processors.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long sessions and agents may take to be gone from the target, once they were stopped.
const UNTIL_GONE: Duration = Duration::from_secs(10);

/// What came of it. Memory is in kB of 1024 bytes, as the kernel counts it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// The way of getting there: `russh`, `openssh` or `ssh`.
    pub way: String,
    /// Connections that stood at the same time.
    pub connections: u32,
    /// Answers that came back, to the connection and the call that they belong to.
    pub answers: u32,
    /// What was not as it must be, in sentences.
    pub problems: Vec<String>,
    /// Growth of this process's resident memory with the first connection, which also brings in what
    /// all of them share.
    pub first_kib: f64,
    /// Growth of this process's resident memory for each of the others.
    pub each_kib: f64,
    /// Memory of the programs that carry a connection, for each of them: shared pages are divided
    /// among those that share them. 0 where there are none.
    pub carrier_kib: f64,
    /// The most this process had, at any time.
    pub peak_kib: f64,
    /// Memory on the target for each agent, both processes, shared pages divided likewise.
    pub agent_kib: f64,
    /// Seconds until all stood.
    pub connecting_s: f64,
    /// Seconds that all calls took together.
    pub calling_s: f64,
    /// Seconds until all were stopped.
    pub stopping_s: f64,
}

/// Connects to as many servers, makes as many calls over each, and stops all.
///
/// # Errors
///
/// When a connection does not come about, or what it costs cannot be read.
pub fn run(way: &str, connections: u8, calls: u32) -> Result<Account> {
    let fleet = Fleet::start(connections)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(all(&fleet, way, calls))
}

async fn all(fleet: &Fleet, way: &str, calls: u32) -> Result<Account> {
    let settings = push::Settings {
        agents: Agents::Embedded,
        patience: PATIENCE,
        silence_limit: PATIENCE,
        login: Login::without_questions(Some(fleet.client_config())),
        in_memory: false,
    };
    let parsed = fleet.targets(way).into_iter().map(|target| target.parse());
    let mut targets = parsed.collect::<Result<Vec<Target>, _>>()?;
    let mut account = Account { way: way.to_owned(), ..Account::default() };
    let started = Instant::now();
    let before = own_kib("Rss:")?;
    let first = targets.pop().context("no connection was asked for")?;
    let mut sessions = vec![Session::connect(&first, &settings, &Silent).await?];
    let with_first = own_kib("Rss:")?;
    sessions.extend(connect(targets, settings).await?);
    account.connecting_s = started.elapsed().as_secs_f64();
    account.connections = u32::try_from(sessions.len())?;

    let started = Instant::now();
    let sessions: Vec<Arc<Session>> = sessions.into_iter().map(Arc::new).collect();
    let outcomes = call(&sessions, calls).await;
    account.calling_s = started.elapsed().as_secs_f64();
    account.answers = u32::try_from(outcomes.iter().filter(|outcome| outcome.is_ok()).count())?;
    account.problems.extend(outcomes.into_iter().filter_map(Result::err));

    let connections = f64::from(account.connections);
    account.first_kib = with_first - before;
    account.each_kib = (own_kib("Rss:")? - with_first) / (connections - 1.0).max(1.0);
    account.carrier_kib = carriers_kib()? / connections;
    account.peak_kib = status_kib("VmHWM:")?;
    let agents: Vec<u32> = sessions
        .iter()
        .flat_map(|session| [session.hello().supervisor_pid, session.hello().worker_pid])
        .collect();
    let agents_kib: Result<Vec<f64>> =
        agents.iter().map(|pid| kib(&pid.to_string(), "Pss:")).collect();
    account.agent_kib = agents_kib?.iter().sum::<f64>() / connections;

    let started = Instant::now();
    account.problems.extend(stop(sessions).await?);
    process::settle().await;
    account.stopping_s = started.elapsed().as_secs_f64();
    account.problems.extend(left(fleet, &agents).await?);
    Ok(account)
}

/// Connects to all, some at the same time.
async fn connect(targets: Vec<Target>, settings: push::Settings) -> Result<Vec<Session>> {
    let (settings, logins) = (Arc::new(settings), Arc::new(Semaphore::new(LOGINS_AT_ONCE)));
    let mut attempts = JoinSet::new();
    for target in targets {
        let (settings, logins) = (Arc::clone(&settings), Arc::clone(&logins));
        attempts.spawn(async move {
            let _turn = logins.acquire().await?;
            let session = Session::connect(&target, &settings, &Silent).await;
            session.map_err(|error| anyhow!("{target}: {error}"))
        });
    }
    attempts.join_all().await.into_iter().collect()
}

/// Makes calls over all sessions at the same time. Each says two numbers that no other says, so that
/// an answer that went astray is seen. Returns what was wrong with those that had no good answer.
async fn call(sessions: &[Arc<Session>], calls: u32) -> Vec<Result<(), String>> {
    let mut asked = JoinSet::new();
    for (index, session) in (1..).zip(sessions) {
        let turns = Arc::new(Semaphore::new(CALLS_AT_ONCE));
        for number in 1..=calls {
            let (session, turns) = (Arc::clone(session), Arc::clone(&turns));
            asked.spawn(async move {
                let _turn = turns.acquire().await;
                ask(&session, number, index)
                    .await
                    .map_err(|error| format!("call {number} of connection {index}: {error}"))
            });
        }
    }
    asked.join_all().await
}

async fn ask(session: &Session, count: u32, bytes: u32) -> Result<()> {
    let request =
        self_test::Request { count, interval_ms: 0, artifact_bytes: bytes, ..Default::default() };
    let mut streamed = Vec::new();
    let accept = |item| {
        if let Item::SelfTest(self_test::Item::Count(number)) = item {
            streamed.push(number);
        }
    };
    let request = Request::SelfTest(request);
    let answer = session.call(request, Budget::default(), &Silent, accept).await?;
    let Report::SelfTest(report) = *answer.report else {
        return Err(anyhow!("the answer is to another question"));
    };
    let got = (report.counted, report.artifact_bytes);
    ensure!(got == (count, bytes), "asked for {:?}, got {got:?}", (count, bytes));
    ensure!(streamed.iter().copied().eq(1..=count), "streamed were {streamed:?}");
    Ok(())
}

/// Stops all at the same time. Returns what was not clean.
async fn stop(sessions: Vec<Arc<Session>>) -> Result<Vec<String>> {
    let mut ends = JoinSet::new();
    for session in sessions {
        let session = Arc::into_inner(session).context("a call still holds its session")?;
        ends.spawn(async move { session.stop(&Silent).await });
    }
    let stopped = ends.join_all().await;
    let unclean = stopped.iter().filter(|end| end.receipt.is_none() || !end.is_clean());
    Ok(unclean.map(|end| end.sentence()).collect())
}

/// What is left on the target: sessions of the servers, and processes of the agents.
async fn left(fleet: &Fleet, agents: &[u32]) -> Result<Vec<String>> {
    let started = Instant::now();
    loop {
        let sessions = fleet.sessions()?;
        let is_there = |pid: &&u32| Path::new(&format!("/proc/{pid}")).exists();
        let agents: Vec<&u32> = agents.iter().filter(is_there).collect();
        if sessions.is_empty() && agents.is_empty() {
            return Ok(Vec::new());
        }
        if started.elapsed() > UNTIL_GONE {
            return Ok(vec![format!("left are the sessions {sessions:?} and agents {agents:?}")]);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Memory of the programs that this process started to carry connections.
fn carriers_kib() -> Result<f64> {
    let mut sum = 0.0;
    for task in fs::read_dir("/proc/self/task")? {
        let children = fs::read_to_string(task?.path().join("children"))?;
        for pid in children.split_whitespace() {
            let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if name.trim_end() == "ssh" {
                sum += kib(pid, "Pss:")?;
            }
        }
    }
    Ok(sum)
}

fn own_kib(field: &str) -> Result<f64> {
    kib("self", field)
}

/// A field of a process's memory as a whole (proc_pid_smaps(5)).
fn kib(pid: &str, field: &str) -> Result<f64> {
    field_kib(&format!("/proc/{pid}/smaps_rollup"), field)
}

fn status_kib(field: &str) -> Result<f64> {
    field_kib("/proc/self/status", field)
}

fn field_kib(path: &str, field: &str) -> Result<f64> {
    let text = fs::read_to_string(path).with_context(|| format!("could not read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let value = line.and_then(|rest| rest.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).with_context(|| format!("no {field} in {path}"))
}
