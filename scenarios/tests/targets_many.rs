//! Several targets in one server: each has a session of its own, and what happens to one happens to
//! no other.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal, kill_process};
use scenarios::{client::Client, fleet::Fleet, many_targets, sysmcp::Sysmcp};
use serde_json::{Value, json};
use std::{
    net::TcpListener,
    process::{Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// Live targets, and sysmcp with all of them.
fn alive(count: u8) -> (Fleet, Vec<String>, Sysmcp) {
    let fleet = Fleet::start(count).unwrap();
    let targets = fleet.targets("ssh");
    let sysmcp = Sysmcp::local()
        .unwrap()
        .at_each(&targets)
        .with_ssh_config(fleet.client_config())
        .with(&["--toolsets", "diagnose,selftest"]);
    (fleet, targets, sysmcp)
}

/// A port that accepts and says nothing, and a target there.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let target = format!("ssh:me@127.0.0.1:{}", listener.local_addr().unwrap().port());
    (listener, target)
}

/// A target that refuses every connection.
const REFUSING: &str = "ssh:me@127.0.0.1:1";

fn ask(client: &mut Client, target: &str) -> u64 {
    let arguments = json!({"target": target, "window_ms": 200, "limit": 1});
    client.ask("tools/call", &json!({"name": "process_list", "arguments": arguments})).unwrap()
}

fn call(client: &mut Client, tool: &str, arguments: &Value) -> Value {
    client.call(tool, arguments, 60 * SECOND).unwrap()
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

fn close(mut client: Client) {
    client.close();
    let (status, _) = client.ended(30 * SECOND).unwrap().unwrap();
    assert!(status.success(), "{status}");
}

fn assert_gone(fleet: &Fleet) {
    let since = Instant::now();
    while !fleet.sessions().unwrap().is_empty() {
        assert!(since.elapsed() < 10 * SECOND, "{:?}", fleet.sessions());
        sleep(SECOND / 20);
    }
}

fn targets_of(events: &[Value]) -> Vec<&str> {
    let mut targets: Vec<&str> =
        events.iter().map(|event| event["target"].as_str().unwrap()).collect();
    targets.sort_unstable();
    targets
}

/// The agent's processes at a target.
fn agent(sysmcp: &Sysmcp, target: &str) -> Vec<Pid> {
    let connected = sysmcp.audited("connected").unwrap();
    let event = connected.iter().rfind(|event| event["target"] == target).unwrap();
    let pids = event["pids"].as_array().unwrap().iter();
    pids.map(|pid| Pid::from_raw(pid.as_i64().unwrap().try_into().unwrap()).unwrap()).collect()
}

#[test]
fn the_live_answer_while_the_dead_are_being_connected_to() {
    let (fleet, live, sysmcp) = alive(3);
    let (_listener, dead) = silent();
    let all = [&[dead.clone(), REFUSING.to_owned()], live.as_slice()].concat();
    let sysmcp = sysmcp.at_each(&all).with(&["--connect-timeout", "20"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    // As many as may run on one target, and one more: none of them takes the place of another's.
    let waiting: Vec<u64> = (0..4).map(|_| ask(&mut client, &dead)).collect();
    let too_many = ask(&mut client, &dead);
    let refused = ask(&mut client, REFUSING);
    let asked: Vec<(u64, &String)> =
        live.iter().map(|target| (ask(&mut client, target), target)).collect();
    let mut replies = Vec::new();
    while replies.len() < waiting.len() + 2 + asked.len() {
        let reply = client.wait_for(60 * SECOND, |message| message.get("id").is_some());
        replies.push(reply.unwrap().unwrap());
    }
    let place = |id: u64| replies.iter().position(|reply| reply["id"] == json!(id)).unwrap();
    for (id, target) in &asked {
        let reply = &replies[place(*id)];
        assert_eq!(reply["result"]["structuredContent"]["meta"]["target"], **target, "{reply}");
        for dead in &waiting {
            assert!(place(*id) < place(*dead), "{target} waited for a dead one: {replies:?}");
        }
    }
    let busy = text(&replies[place(too_many)]["result"]);
    assert!(busy.contains("busy: 4 calls are running"), "{busy}");
    let refused = text(&replies[place(refused)]["result"]);
    assert!(refused.contains("Connection refused"), "{refused}");
    for id in waiting {
        assert_eq!(replies[place(id)]["result"]["isError"], true);
    }
    close(client);
    // A session, and a receipt, for each; and each call is written down with its target.
    let mut want: Vec<&str> = live.iter().map(String::as_str).collect();
    want.sort_unstable();
    for event in ["connected", "stopped"] {
        assert_eq!(targets_of(&sysmcp.audited(event).unwrap()), want, "{event}");
    }
    let stopped = sysmcp.audited("stopped").unwrap();
    assert!(stopped.iter().all(|event| event["clean"] == true), "{stopped:?}");
    let intents = sysmcp.audited("intent").unwrap();
    for target in &live {
        assert_eq!(intents.iter().filter(|intent| intent["target"] == **target).count(), 1);
    }
    assert_gone(&fleet);
}

#[test]
fn an_agent_that_is_lost_is_lost_for_its_target_only() {
    let (fleet, live, sysmcp) = alive(2);
    let mut client = Client::start(sysmcp.command()).unwrap();
    for target in &live {
        let result =
            call(&mut client, "process_list", &json!({"target": target, "window_ms": 200}));
        assert_eq!(result["isError"], false, "{result}");
    }
    for pid in agent(&sysmcp, &live[0]) {
        // The worker may have ended with its supervisor.
        let _ = kill_process(pid, Signal::KILL);
    }
    let result = call(&mut client, "process_list", &json!({"target": live[1], "window_ms": 200}));
    assert_eq!(result["isError"], false, "{result}");
    let again = json!({"target": live[0], "window_ms": 200});
    let answered = (0..2).any(|_| call(&mut client, "process_list", &again)["isError"] == false);
    assert!(answered, "the lost one is not connected to again");
    close(client);
    let mut want = vec![live[0].as_str(), live[0].as_str(), live[1].as_str()];
    want.sort_unstable();
    assert_eq!(targets_of(&sysmcp.audited("connected").unwrap()), want);
    assert_gone(&fleet);
}

#[test]
fn a_stored_result_is_asked_for_where_it_is() {
    let (_fleet, live, sysmcp) = alive(2);
    let mut client = Client::start(sysmcp.command()).unwrap();
    let first = json!({"target": live[0], "window_ms": 200, "limit": 1});
    let result = call(&mut client, "process_list", &first);
    let meta = &result["structuredContent"]["meta"];
    // The call for the rest, and the next step, name the target.
    let rest = meta["rest"].as_str().unwrap().strip_prefix("process_list ").unwrap();
    let rest: Value = serde_json::from_str(rest).unwrap();
    assert_eq!((&rest["target"], &rest["artifact"]), (&json!(live[0]), &meta["artifact"]));
    assert_eq!(result["structuredContent"]["next"][0]["parameters"]["target"], live[0]);
    let page = call(&mut client, "process_list", &rest);
    assert_eq!(page["structuredContent"]["meta"]["target"], live[0], "{page}");
    let mut astray = rest;
    astray["target"] = json!(live[1]);
    let error = call(&mut client, "process_list", &astray);
    assert_eq!(error["isError"], true);
    for words in [format!("is stored on {}, not on {}", live[0], live[1]), "call again".to_owned()]
    {
        assert!(text(&error).contains(&words), "{error}");
    }
    // One that nobody has made is nowhere.
    astray["artifact"] = json!("art-00000000");
    let error = call(&mut client, "process_list", &astray);
    assert!(text(&error).contains("no result is stored as art-00000000"), "{error}");
    close(client);
}

#[test]
fn a_call_that_names_no_target_or_another_is_told_which_there_are() {
    let targets = ["ssh:me@192.0.2.1".to_owned(), "local".to_owned()];
    let sysmcp = Sysmcp::local().unwrap().at_each(&targets);
    let mut client = Client::start(sysmcp.command()).unwrap();
    let choices = "expected one of ssh:me@192.0.2.1, local";
    let cases = [
        (json!({}), "process_list: target is missing"),
        (json!({"target": "web-1"}), "process_list: target is `web-1`"),
        (json!({"target": 1}), "process_list: target is `1`"),
    ];
    for (arguments, want) in cases {
        let result = call(&mut client, "process_list", &arguments);
        assert_eq!(result["isError"], true, "{result}");
        assert!(text(&result).contains(&format!("{want}: {choices}")), "{result}");
    }
    let result = call(&mut client, "process_list", &json!({"target": "local", "limit": 1}));
    assert_eq!(result["structuredContent"]["meta"]["target"], "local", "{result}");
    close(client);
    // The target stands in a field of its own, so that the command to repeat it is right.
    let intents = sysmcp.audited("intent").unwrap();
    assert_eq!((intents.len(), &intents[0]["parameters"]), (1, &json!({"limit": 1})));
    assert_eq!(sysmcp.audited("refused").unwrap().len(), 3);
}

#[test]
fn the_list_of_tools_is_the_one_that_is_documented() {
    let targets = ["ssh:deploy@web-1".to_owned(), "ssh:deploy@web-2".to_owned()];
    let sysmcp = Sysmcp::local().unwrap().at_each(&targets);
    let sysmcp = sysmcp.with(&["--toolsets", "diagnose,profile,selftest,capture"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    let list = client.request("tools/list", &json!({}), SECOND).unwrap();
    let golden = include_str!("../../fixtures/golden/tools_of_several_targets.json");
    let golden: Value = serde_json::from_str(golden).unwrap();
    let golden = golden.as_object().unwrap();
    let listed = list["tools"].as_array().unwrap();
    assert_eq!(listed.len(), golden.len());
    for tool in listed {
        assert_eq!(tool["inputSchema"], golden[tool["name"].as_str().unwrap()], "{tool}");
    }
}

fn output(mut command: Command, words: &[&str]) -> (Output, String, String) {
    let output = command.args(words).output().unwrap();
    let read = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let (said, told) = (read(&output.stdout), read(&output.stderr));
    (output, said, told)
}

#[test]
fn a_person_asks_all_and_gets_every_answer_under_its_name() {
    let (fleet, live, sysmcp) = alive(2);
    let all = [live.as_slice(), &[REFUSING.to_owned()]].concat();
    let sysmcp = sysmcp.at_each(&all);
    let words = ["call", "process_list", "--params", r#"{"window_ms":200,"limit":1}"#];
    let (output, said, told) = output(sysmcp.command(), &words);
    assert_eq!(output.status.code(), Some(11), "{told}");
    for target in &live {
        assert_eq!(said.matches(&format!("== {target} ==\n")).count(), 1, "{said}");
        assert_eq!(told.matches(&format!("receipt: {target}: agent gone")).count(), 1, "{told}");
        assert!(told.contains(&format!("sysmcp: {target}: connecting to ")), "{told}");
    }
    // The list of processes may name it: it is in the command line of whoever asks.
    assert!(!said.contains(&format!("== {REFUSING} ==")), "{said}");
    let error = format!("sysmcp: {REFUSING}: ");
    let is_error = |line: &&str| line.starts_with(&error) && line.contains("Connection refused");
    assert_eq!(told.lines().filter(is_error).count(), 1, "{told}");
    assert_gone(&fleet);
}

#[test]
fn a_script_gets_an_object_for_each_and_one_may_be_named() {
    let (_fleet, live, sysmcp) = alive(2);
    let words = ["--quiet", "probe", "--json"];
    let (status, said, told) = output(sysmcp.command(), &words);
    assert_eq!((status.status.code(), told.as_str()), (Some(0), ""));
    let mut answers: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    answers.sort_by_key(|answer| answer["meta"]["target"].to_string());
    let found: Vec<&Value> = answers.iter().map(|answer| &answer["meta"]["target"]).collect();
    assert_eq!(found, [&json!(live[0]), &json!(live[1])]);
    let one = json!({"target": live[1], "window_ms": 200}).to_string();
    let (status, said, _) = output(sysmcp.command(), &["call", "process_list", "--params", &one]);
    assert_eq!(status.status.code(), Some(0));
    assert!(!said.contains("=="), "{said}");
    let connected = sysmcp.audited("connected").unwrap();
    assert_eq!(connected.iter().filter(|event| event["target"] == live[1]).count(), 2);
    let (status, _, told) = output(sysmcp.command(), &["capture", "/nowhere/folder"]);
    assert_eq!(status.status.code(), Some(2));
    assert!(told.contains("there are 2 targets: a folder holds one machine"), "{told}");
}

#[test]
fn one_ctrl_c_stops_all() {
    let (fleet, live, sysmcp) = alive(3);
    let mut command = sysmcp.command();
    command.args(["call", "process_list", "--params", r#"{"window_ms":30000}"#]);
    let running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let since = Instant::now();
    // The log is made with the first line.
    while sysmcp.audited("connected").map_or(0, |connected| connected.len()) < live.len() {
        assert!(since.elapsed() < 60 * SECOND);
        sleep(SECOND / 20);
    }
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    let output = running.wait_with_output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(130), "{told}");
    for target in &live {
        assert!(told.contains(&format!("receipt: {target}: agent gone")), "{told}");
    }
    assert_gone(&fleet);
}

#[test]
fn several_that_do_not_answer_the_stop_are_waited_for_at_the_same_time() {
    let (fleet, live, sysmcp) = alive(4);
    let mut client = Client::start(sysmcp.command()).unwrap();
    for target in &live {
        let result =
            call(&mut client, "process_list", &json!({"target": target, "window_ms": 200}));
        assert_eq!(result["isError"], false, "{result}");
    }
    let frozen: Vec<Pid> = live[1..].iter().flat_map(|target| agent(&sysmcp, target)).collect();
    for pid in &frozen {
        kill_process(*pid, Signal::STOP).unwrap();
    }
    client.close();
    let (_, took) = client.ended(60 * SECOND).unwrap().unwrap();
    for pid in &frozen {
        let _ = kill_process(*pid, Signal::CONT);
    }
    let stopped = sysmcp.audited("stopped").unwrap();
    let clean: Vec<bool> = live
        .iter()
        .map(|target| stopped.iter().find(|event| event["target"] == **target).unwrap())
        .map(|event| event["clean"] == true)
        .collect();
    assert_eq!(clean, [true, false, false, false], "{stopped:?}");
    // One takes 8 s to be given up: three in turn would take 24.
    assert!(took < 16 * SECOND, "{took:?}");
    assert_gone(&fleet);
}

#[test]
fn fifty_targets_of_which_five_are_dead_lose_no_answer_and_leave_nothing() {
    let account = many_targets::run(50, 5).unwrap();
    println!("{account:#?}");
    assert_eq!(account.problems, [""; 0]);
    assert_eq!((account.answers, account.errors), (90, 5));
    // The last live one had answered, twice, before the first dead one was given up.
    assert!(account.all_first_s + account.all_again_s < account.dead_s, "{account:?}");
}
