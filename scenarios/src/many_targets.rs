//! One MCP server with many targets, some of them dead: what it costs that the others are there, and
//! whether every call gets its answer, or its error, and no other's.

use crate::{client::Client, fleet::Fleet, sysmcp::Sysmcp};
use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    net::TcpListener,
    thread::sleep,
    time::{Duration, Instant},
};

/// How long an answer may take, where all share two processors; a dead host is given up before.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long sessions may take to be gone from the targets, once they were stopped.
const UNTIL_GONE: Duration = Duration::from_secs(10);
/// What is asked: a measurement over a second, and one row of it.
const TOOL: &str = "process_list";

/// What came of it. Times are in seconds, as the client sees them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Account {
    /// Targets of the server.
    pub targets: u32,
    /// How many of them are dead: half accept a connection and say nothing, the others refuse it.
    pub dead: u32,
    /// Answers, each about the target that was asked.
    pub answers: u32,
    /// Errors, each about a dead target.
    pub errors: u32,
    /// What was not as it must be, in sentences.
    pub problems: Vec<String>,
    /// A first answer from a server with one target, connecting included.
    pub one_first_s: f64,
    /// A second answer from it.
    pub one_again_s: f64,
    /// Until every live target has answered, all asked at once and connected to for it.
    pub all_first_s: f64,
    /// Until every live target has answered once more, while the dead ones are still asked.
    pub all_again_s: f64,
    /// Until the last of the dead ones was given up.
    pub dead_s: f64,
    /// Until a server with one target had ended, its session stopped.
    pub one_stop_s: f64,
    /// Until the server with all had ended, all their sessions stopped.
    pub all_stop_s: f64,
    /// Bytes of the list of tools that the client gets, with one target.
    pub one_list_bytes: u64,
    /// The same with all targets.
    pub all_list_bytes: u64,
}

/// Asks so many targets, of which so many are dead.
///
/// # Errors
///
/// When the servers or sysmcp cannot be started, or a call has no reply.
pub fn run(targets: u8, dead: u8) -> Result<Account> {
    let live = targets.checked_sub(dead).context("more are dead than there are")?;
    let fleet = Fleet::start(live)?;
    let live = fleet.targets("ssh");
    let silent = TcpListener::bind(("127.0.0.1", 0))?;
    let dead: Vec<String> =
        (0..dead).map(|index| dead_target(index, &silent)).collect::<Result<_>>()?;
    let mut account = Account {
        targets: u32::from(targets),
        dead: u32::try_from(dead.len())?,
        ..Account::default()
    };
    one(&fleet, live.first().context("no target is alive")?, &mut account)?;
    // The dead ones come first: whatever happens in turn happens to them before.
    let all = Sysmcp::local()?
        .at_each(&[dead.as_slice(), live.as_slice()].concat())
        .with_ssh_config(fleet.client_config());
    let mut client = Client::start(all.command())?;
    account.all_list_bytes = list_bytes(&mut client)?;
    let mut asked = Asked::default();
    asked.ask_each(&mut client, &dead)?;
    let dead_asked = Instant::now();
    asked.ask_each(&mut client, &live)?;
    account.all_first_s = asked.until_answered(&mut client, &live, &mut account)?;
    asked.ask_each(&mut client, &live)?;
    account.all_again_s = asked.until_answered(&mut client, &live, &mut account)?;
    asked.until_answered(&mut client, &dead, &mut account)?;
    account.dead_s = dead_asked.elapsed().as_secs_f64();
    account.all_stop_s = stop(client)?;
    account.problems.extend(left(&fleet, &all, live.len())?);
    Ok(account)
}

/// A target at which nobody answers: in turn one that accepts and says nothing, and one that
/// refuses. Each has a user of its own, as two targets of one name cannot be told apart.
fn dead_target(index: u8, silent: &TcpListener) -> Result<String> {
    let port = if index.is_multiple_of(2) { silent.local_addr()?.port() } else { 1 };
    Ok(format!("ssh:dead{index}@127.0.0.1:{port}"))
}

/// The same with one target, for comparison.
fn one(fleet: &Fleet, target: &str, account: &mut Account) -> Result<()> {
    let one = Sysmcp::local()?.at(target).with_ssh_config(fleet.client_config());
    let mut client = Client::start(one.command())?;
    account.one_list_bytes = list_bytes(&mut client)?;
    for took in [&mut account.one_first_s, &mut account.one_again_s] {
        let started = Instant::now();
        let result = client.call(TOOL, &json!({"limit": 1}), PATIENCE)?;
        ensure!(result.get("isError") == Some(&json!(false)), "no answer from one: {result}");
        *took = started.elapsed().as_secs_f64();
    }
    account.one_stop_s = stop(client)?;
    Ok(())
}

fn list_bytes(client: &mut Client) -> Result<u64> {
    let list = client.request("tools/list", &json!({}), PATIENCE)?;
    Ok(u64::try_from(list.to_string().len())?)
}

/// Ends a server by closing its stdin. Returns how long that took.
fn stop(mut client: Client) -> Result<f64> {
    client.close();
    let (_, took) = client.ended(PATIENCE)?.context("sysmcp does not end")?;
    Ok(took.as_secs_f64())
}

/// Calls that wait for a reply, by the id of their request.
#[derive(Default)]
struct Asked(BTreeMap<u64, (String, Instant)>);

impl Asked {
    fn ask_each(&mut self, client: &mut Client, targets: &[String]) -> Result<()> {
        for target in targets {
            let arguments = json!({"limit": 1, "target": target});
            let id = client.ask("tools/call", &json!({"name": TOOL, "arguments": arguments}))?;
            self.0.insert(id, (target.clone(), Instant::now()));
        }
        Ok(())
    }

    /// Reads replies until none of these targets is waited for. Returns how long the slowest took.
    fn until_answered(
        &mut self,
        client: &mut Client,
        targets: &[String],
        account: &mut Account,
    ) -> Result<f64> {
        let mut slowest = Duration::ZERO;
        while self.0.values().any(|(target, _)| targets.contains(target)) {
            let reply = client.wait_for(PATIENCE, |message| message.get("id").is_some())?;
            let reply = reply.context("some calls have no reply")?;
            let id = reply.get("id").and_then(Value::as_u64).unwrap_or_default();
            let (target, asked) = self.0.remove(&id).context("a reply that nobody waits for")?;
            account.note(&target, &reply);
            if targets.contains(&target) {
                slowest = slowest.max(asked.elapsed());
            }
        }
        Ok(slowest.as_secs_f64())
    }
}

impl Account {
    fn note(&mut self, target: &str, reply: &Value) {
        let is_dead = target.starts_with("ssh:dead");
        let is_error = reply.pointer("/result/isError") == Some(&json!(true));
        let about = reply.pointer("/result/structuredContent/meta/target").and_then(Value::as_str);
        match (is_dead, is_error, about) {
            (true, true, _) => self.errors += 1,
            (false, false, Some(about)) if about == target => self.answers += 1,
            _ => self.problems.push(format!("asked {target}: {reply}")),
        }
    }
}

/// What is left on the targets, or was not stopped as it should be.
fn left(fleet: &Fleet, sysmcp: &Sysmcp, live: usize) -> Result<Vec<String>> {
    let stopped = sysmcp.audited("stopped")?;
    let is_clean = |event: &&Value| event.get("clean") == Some(&json!(true));
    let clean = stopped.iter().filter(is_clean).count();
    let mut problems = Vec::new();
    if clean != live {
        problems.push(format!("{clean} of {live} sessions have a receipt: {stopped:?}"));
    }
    let stopped = Instant::now();
    loop {
        let sessions = fleet.sessions()?;
        if sessions.is_empty() {
            return Ok(problems);
        }
        if stopped.elapsed() > UNTIL_GONE {
            problems.push(format!("left are the sessions {sessions:?}"));
            return Ok(problems);
        }
        sleep(Duration::from_millis(20));
    }
}
