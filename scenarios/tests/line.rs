//! The line between controller and agent, over every transport there is: handshake, answer,
//! progress, streaming, a stored result, cancel, a large answer, the receipt.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::{
    client::Client,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// Runs a check over every transport.
fn over_each(check: impl Fn(&Sysmcp, &str)) {
    let selftest = ["--toolsets", "diagnose,selftest"];
    check(&Sysmcp::local().unwrap().with(&selftest), "local");
    let sshd = Sshd::start(&Settings::default()).unwrap();
    check(&Sysmcp::over(&sshd).unwrap().with(&selftest), "ssh");
}

#[test]
fn a_call_answers_and_leaves_a_receipt() {
    over_each(|sysmcp, transport| {
        let output = sysmcp.call("self_test", &json!({"count": 4, "interval_ms": 300})).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{transport}: {said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["class"], "line_works", "{transport}: {answer}");
        for stage in ["sending the agent", "connected: host", "counting: 1 of 4"] {
            assert!(said.contains(stage), "{transport}: {stage} is not told: {said}");
        }
        assert!(said.contains("0 processes left, 0 files left, 0 bytes left"), "{said}");
    });
}

#[test]
fn everything_that_is_streamed_arrives() {
    over_each(|sysmcp, transport| {
        let parameters = json!({"count": 20_000, "interval_ms": 0});
        let answer = sysmcp.answer("self_test", &parameters).unwrap();
        assert_eq!(answer["class"], "line_works", "{transport}");
        assert_eq!(answer["because"], json!(["20000 of 20000 numbers arrived"]), "{transport}");
    });
}

#[test]
fn a_result_stays_on_the_target_and_comes_home_whole() {
    over_each(|sysmcp, transport| {
        let mut client = Client::start(sysmcp.command()).unwrap();
        let arguments = json!({"count": 1, "artifact_bytes": 3_000_000});
        let first = client.call("self_test", &arguments, 30 * SECOND).unwrap();
        let handle = &first["structuredContent"]["meta"]["artifact"];
        assert!(handle.as_str().unwrap().starts_with("art-"), "{transport}: {first}");
        let again = client.call("self_test", &json!({"artifact": handle}), 30 * SECOND).unwrap();
        let answer = &again["structuredContent"];
        assert_eq!(answer["class"], "line_works", "{transport}: {again}");
        assert_eq!(answer["artifact_bytes"], 3_000_000);
        assert_eq!(answer["meta"]["engine"], "stored result");
        // A handle that names nothing, and one of another tool.
        let arguments = json!({"artifact": "art-00000000"});
        let wrong = client.call("self_test", &arguments, 30 * SECOND).unwrap();
        assert_eq!(wrong["isError"], true);
        let text = wrong["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("no result is stored as art-00000000"), "{text}");
        let wrong = client.call("process_list", &json!({"artifact": handle}), 30 * SECOND).unwrap();
        let text = wrong["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("is not a result of this tool"), "{text}");
    });
}

#[test]
fn a_list_is_paged_without_measuring_again() {
    over_each(|sysmcp, transport| {
        let mut client = Client::start(sysmcp.command()).unwrap();
        let mut seen = Vec::new();
        let mut arguments = json!({"limit": 5, "window_ms": 300});
        for page in 0..3 {
            let result = client.call("process_list", &arguments, 30 * SECOND).unwrap();
            let answer = &result["structuredContent"];
            seen.extend(
                answer["processes"].as_array().unwrap().iter().map(|row| row["pid"].clone()),
            );
            let engine = if page == 0 { "procfs" } else { "stored result" };
            assert_eq!(answer["meta"]["engine"], engine, "{transport}: {answer}");
            // The answer names the call that shows the rest.
            let rest = answer["meta"]["rest"].as_str().unwrap();
            let (tool, parameters) = rest.split_once(' ').unwrap();
            assert_eq!(tool, "process_list");
            arguments = serde_json::from_str(parameters).unwrap();
        }
        let mut distinct = seen.clone();
        distinct.sort_by_key(Value::as_u64);
        distinct.dedup();
        assert_eq!((seen.len(), distinct.len()), (15, 15), "{transport}: {seen:?}");
    });
}

#[test]
fn calls_run_side_by_side_in_one_session() {
    over_each(|sysmcp, transport| {
        let mut client = Client::start(sysmcp.command()).unwrap();
        client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
        let started = Instant::now();
        let call = |count: u32| json!({"name": "self_test", "arguments": {"count": count, "interval_ms": 100}});
        let slow = client.ask("tools/call", &call(20)).unwrap();
        let quick = client.ask("tools/call", &call(1)).unwrap();
        assert!(client.reply(quick, SECOND).unwrap().is_some(), "{transport}: held up");
        assert!(client.reply(slow, 10 * SECOND).unwrap().is_some());
        assert!(started.elapsed() < 5 * SECOND, "{transport}");
    });
}

#[test]
fn the_agent_that_is_carried_cannot_misbehave() {
    over_each(|sysmcp, transport| {
        let output = sysmcp.call("self_test", &json!({"fault": "hang"})).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("built without fault injection"), "{transport}: {said}");
    });
}

#[test]
fn a_limit_of_processor_time_is_kept() {
    // 10 ms of processor time, and more numbers than fit into it.
    let parameters = json!({"count": 1_000_000, "interval_ms": 0, "max_cpu_ms": 10});
    over_each(|sysmcp, transport| {
        let output = sysmcp.call("self_test", &parameters).unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{transport}: {said}");
        assert!(said.contains("used its 10 ms of processor time"), "{transport}: {said}");
        assert!(said.contains("max_cpu_ms"), "{transport}: {said}");
    });
}

#[test]
fn an_agent_that_hangs_is_given_up() {
    let sysmcp = Sysmcp::local().unwrap().with_faulty_agents();
    let started = Instant::now();
    let parameters = json!({"fault": "hang", "timeout_s": 2});
    let output = sysmcp.call("self_test", &parameters).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(19), "{said}");
    assert!(said.contains("no answer within 4 s"), "{said}");
    assert!(said.contains("0 processes left"), "{said}");
    assert!(started.elapsed() < 15 * SECOND);
}

#[test]
fn calls_that_hang_do_not_take_all_places_for_ever() {
    let sysmcp = Sysmcp::local().unwrap().with_faulty_agents().with(&["--max-calls", "8"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    let hang = json!({"name": "self_test", "arguments": {"fault": "hang", "timeout_s": 1}});
    let ids: Vec<u64> = (0..8).map(|_| client.ask("tools/call", &hang).unwrap()).collect();
    for id in ids {
        assert!(client.reply(id, 20 * SECOND).unwrap().is_some());
    }
    let answer = client.call("self_test", &json!({"count": 1}), 20 * SECOND).unwrap();
    assert_eq!(answer["isError"], false, "{answer}");
}
