//! The MCP front door, from a client that is well-behaved and from one that is not.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::{client::Client, sysmcp::Sysmcp};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const SECOND: Duration = Duration::from_secs(1);

/// A target that never answers: what happens before a connection is needed happens anyway.
fn unreachable() -> Sysmcp {
    Sysmcp::local().unwrap().at("ssh:me@192.0.2.1")
}

/// The tools of the default toolset.
const OFFERED: [&str; 12] = [
    "process_list",
    "process_inspect",
    "host_snapshot",
    "capabilities",
    "perf_record",
    "perf_report",
    "memory_profile",
    "flamegraph",
    "flamegraph_from_folded",
    "inspect_source",
    "syscall_trace",
    "latency",
];

fn assert_is_what_is_offered(list: &Value) {
    let names: Vec<&Value> =
        list["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, OFFERED, "{list}");
}

#[test]
fn it_shakes_hands_at_once_and_connects_later() {
    let started = Instant::now();
    let sysmcp = unreachable();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let took = started.elapsed();
    assert!(took < SECOND, "it took {took:?}");
    let list = client.request("tools/list", &json!({}), SECOND).unwrap();
    assert_is_what_is_offered(&list);
    let tools = list["tools"].as_array().unwrap();
    for tool in tools {
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{hint} of {tool}");
        }
        assert!(
            tool["outputSchema"]["type"] == "object" && tool["inputSchema"]["type"] == "object"
        );
    }
    // Every client passes all of it to its model.
    const MOST_BYTES_EACH: usize = 8_000;
    let bytes = list.to_string().len();
    assert!(bytes < MOST_BYTES_EACH * tools.len(), "{bytes} bytes");
}

#[test]
fn the_list_is_the_one_that_is_documented() {
    let sysmcp = unreachable().with(&["--toolsets", "diagnose,selftest,capture,export"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    let list = client.request("tools/list", &json!({}), SECOND).unwrap();
    let golden = include_str!("../../fixtures/golden/tools.json");
    let golden: Vec<Value> = serde_json::from_str(golden).unwrap();
    let listed = list["tools"].as_array().unwrap();
    assert_eq!(listed.len(), golden.len());
    for (listed, golden) in listed.iter().zip(&golden) {
        for field in ["name", "title", "description", "inputSchema", "outputSchema"] {
            assert_eq!(listed[field], golden[field], "{field} of {}", golden["name"]);
        }
    }
}

#[test]
fn structure_and_text_say_the_same() {
    let sysmcp = Sysmcp::local().unwrap();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let result = client.call("process_list", &json!({"window_ms": 200}), 20 * SECOND).unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), result["structuredContent"]);
}

#[test]
fn progress_grows_and_ends_with_the_answer() {
    let sysmcp = Sysmcp::local().unwrap();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let parameters = json!({
        "name": "process_list", "arguments": {"window_ms": 1500}, "_meta": {"progressToken": "p"},
    });
    let id = client.ask("tools/call", &parameters).unwrap();
    let mut last = 0.0;
    let mut messages = Vec::new();
    loop {
        let message = client.wait_for(20 * SECOND, |_| true).unwrap().unwrap();
        if message["id"] == json!(id) {
            break;
        }
        let progress = message["params"]["progress"].as_f64().unwrap();
        assert!(progress > last, "{message}");
        last = progress;
        messages.push(message["params"]["message"].as_str().unwrap().to_owned());
    }
    assert!(messages.iter().any(|message| message.contains("measuring: ")), "{messages:?}");
    assert!(messages.iter().any(|message| message.contains("connected: ")), "{messages:?}");
}

#[test]
fn what_is_wrong_is_an_error_a_model_can_act_on() {
    let sysmcp = Sysmcp::local().unwrap();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let cases = [
        ("process_list", json!({"limit": 1000}), "limit is 1000: expected 1 to 200"),
        ("process_list", json!({"limt": 3}), "unknown field `limt`, expected one of"),
        ("process_inspect", json!({}), "missing field `pid`"),
        ("process_inspect", json!({"pid": 4_000_000}), "call process_list"),
        ("process_inspect", json!({"pid": 1, "start_ticks": 1}), "was reused"),
        ("process_inspect", json!({"pid": 1, "window_ms": "long"}), "invalid type"),
    ];
    for (tool, arguments, want) in cases {
        let result = client.call(tool, &arguments, 20 * SECOND).unwrap();
        assert_eq!(result["isError"], true, "{tool} {arguments}");
        assert!(result.get("structuredContent").is_none());
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(want), "{tool} {arguments}: {text}");
    }
    let id = client.ask("tools/call", &json!({"name": "bash_execute", "arguments": {}})).unwrap();
    let reply = client.reply(id, 5 * SECOND).unwrap().unwrap();
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("process_list"));
}

#[test]
fn a_call_that_cannot_be_read_is_told_what_is_wrong_and_written_down() {
    let sysmcp = unreachable();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let cases = [
        (json!({"name": "process_list", "arguments": "{\"limit\":5}"}), "text of a JSON object"),
        (json!({"name": "process_list", "arguments": ["apiKey=planted"]}), "is a list: expected"),
        (json!({"name": "nope", "arguments": 7}), "is a number: expected an object"),
        (json!({"arguments": {}}), "has no `name`"),
        (json!({"name": 7}), "`name` is a number"),
        (json!(null), "has no `params`"),
    ];
    for (parameters, want) in cases {
        let id = client.ask("tools/call", &parameters).unwrap();
        let error = &client.reply(id, 5 * SECOND).unwrap().unwrap()["error"];
        assert_eq!(error["code"], -32602, "{parameters}: {error}");
        assert!(error["message"].as_str().unwrap().contains(want), "{parameters}: {error}");
    }
    let log = std::fs::read_to_string(sysmcp.audit_log()).unwrap();
    let refused: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let tools: Vec<&str> = refused.iter().map(|line| line["tool"].as_str().unwrap()).collect();
    assert_eq!(tools, ["process_list", "process_list", "nope"], "{log}");
    assert!(refused.iter().all(|line| line["event"] == "refused"), "{log}");
    assert!(!log.contains("planted"), "{log}");
    // A method that is none stays one.
    let id = client.ask("tools/cal", &json!({})).unwrap();
    assert_eq!(client.reply(id, 5 * SECOND).unwrap().unwrap()["error"]["code"], -32601);
}

#[test]
fn a_thread_is_not_taken_for_a_process() {
    let own = std::process::id();
    let other = std::thread::spawn(|| {
        let tid = rustix::thread::gettid().as_raw_nonzero().get();
        std::thread::sleep(5 * SECOND);
        tid
    });
    let tid = std::fs::read_dir(format!("/proc/{own}/task"))
        .unwrap()
        .filter_map(|task| task.unwrap().file_name().to_string_lossy().parse::<u32>().ok())
        .find(|tid| *tid != own)
        .unwrap();
    let sysmcp = Sysmcp::local().unwrap();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let result = client.call("process_inspect", &json!({"pid": tid}), 20 * SECOND).unwrap();
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.contains(&format!("a thread of process {own}. ask about pid {own}")), "{text}");
    other.join().unwrap();
}

#[test]
fn it_ends_within_a_tenth_of_a_second_when_no_target_is_connected() {
    let sysmcp = unreachable();
    let mut client = Client::start(sysmcp.command()).unwrap();
    client.close();
    let (status, took) = client.ended(5 * SECOND).unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(took < SECOND / 10, "it took {took:?}");
    // Also before the hands were shaken.
    let sysmcp = unreachable();
    let mut client = Client::start_silent(sysmcp.command()).unwrap();
    client.close();
    let (status, _) = client.ended(5 * SECOND).unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
}

#[test]
fn it_ends_while_it_still_connects() {
    let sysmcp = unreachable();
    let mut client = Client::start(sysmcp.command()).unwrap();
    client.ask("tools/call", &json!({"name": "process_list", "arguments": {}})).unwrap();
    std::thread::sleep(SECOND / 2);
    client.close();
    let (status, took) = client.ended(10 * SECOND).unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(took < SECOND, "it took {took:?}");
}

#[test]
fn garbage_is_survived() {
    let sysmcp = unreachable();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let garbage: [&[u8]; 6] = [
        b"\x00\xff\xfe garbage\n",
        b"{\"jsonrpc\":\"2.0\",\n",
        b"[]\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":7}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":77,\"method\":\"tools/call\",\"params\":[1]}\n",
        b"\n\n\n",
    ];
    for bytes in garbage {
        client.send_bytes(bytes).unwrap();
    }
    let nested = format!("{}{}\n", "[".repeat(100_000), "]".repeat(100_000));
    client.send_bytes(nested.as_bytes()).unwrap();
    let list = client.request("tools/list", &json!({}), 5 * SECOND).unwrap();
    assert_is_what_is_offered(&list);
}

#[test]
fn a_line_of_a_hundred_megabytes_is_survived() {
    let sysmcp = unreachable();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let piece = vec![b'x'; 1 << 20];
    let mut refused = false;
    for _ in 0..100 {
        // A server that closes is an answer too, as long as it ends in order.
        if client.send_bytes(&piece).is_err() {
            refused = true;
            break;
        }
    }
    let pid = client.pid();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kib: u64 = peak
        .and_then(|line| line.split_whitespace().next())
        .and_then(|kib| kib.parse().ok())
        .unwrap_or_default();
    println!("peak memory {peak_kib} KiB, closed: {refused}");
    assert!(peak_kib < 64 << 10, "{peak_kib} KiB for one line");
    if !refused {
        client.send_bytes(b"\n").unwrap();
        let list = client.request("tools/list", &json!({}), 10 * SECOND).unwrap();
        assert_is_what_is_offered(&list);
    }
    client.close();
    let (status, _) = client.ended(5 * SECOND).unwrap().unwrap();
    assert!(status.code().is_some(), "it did not end in order: {status}");
}

#[test]
fn both_eras_of_the_protocol_are_spoken() {
    let sysmcp = unreachable();
    let mut client = Client::start_silent(sysmcp.command()).unwrap();
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "scenario", "version": "1"},
    });
    let discovered =
        client.request("server/discover", &json!({"_meta": meta}), 5 * SECOND).unwrap();
    assert!(discovered.to_string().contains("2026-07-28"), "{discovered}");
    let list = client.request("tools/list", &json!({"_meta": meta}), 5 * SECOND).unwrap();
    assert_is_what_is_offered(&list);
    assert_eq!(list["cacheScope"], "private");
}
