//! What is promised of every answer, whatever is asked: secrets, cuts, refusals, budgets.

use scenarios::{
    client::Client,
    programs,
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
    without_settings::without_settings,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// S7: what was refused appears in no argument vector, and neither does any parameter.
#[test]
fn parameters_never_reach_a_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record");
    let fake = folder.path().join("ssh");
    let script = format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >> {}\nexit 255\n", record.display());
    fs::write(&fake, script).unwrap();
    fs::set_permissions(&fake, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let call = |target: &str, tool: &str, parameters: &str| {
        let sysmcp = Sysmcp::local().unwrap().at(target);
        let mut command = sysmcp.command();
        command.args(["call", tool, "--params", parameters]).env("PATH", &path);
        command.output().unwrap().status.code()
    };
    let refused = [
        ("ssh:web", "process_list", r#"{"limit":"$(touch /tmp/planted)"}"#),
        ("ssh:web", "process_list", r#"{"sort":"cpu; planted"}"#),
        ("ssh:web", "process_inspect", r#"{"pid":0,"planted":1}"#),
        ("ssh:web", "planted", "{}"),
        ("ssh:-oProxyCommand=planted", "process_list", "{}"),
        ("ssh:web`planted`", "process_list", "{}"),
    ];
    for (target, tool, parameters) in refused {
        assert!(matches!(call(target, tool, parameters), Some(2 | 10)), "{target} {tool}");
        assert!(!record.exists(), "ssh was started for {target} {tool} {parameters}");
    }
    // What is accepted does not travel in arguments either: only over the channel.
    assert_eq!(call("ssh:me@web:2222", "process_list", r#"{"sort":"major_faults"}"#), Some(11));
    let arguments = fs::read_to_string(&record).unwrap();
    assert!(arguments.contains("web") && arguments.contains("2222"), "{arguments}");
    assert!(!arguments.contains("major_faults") && !arguments.contains("process_list"));
}

/// S8: secrets appear in no answer, no audit log, no replay and no error.
#[test]
fn secrets_are_taken_out_everywhere() {
    let secrets = ["hunter2-a", "hunter2-b", "hunter2-c", "hunter2-d", "hunter2-e", "Hunter2-f"];
    let mut victim = Command::new(programs::scenarios());
    victim
        .arg0("worker")
        .args(["burn", "--seconds", "30"])
        .env("API_TOKEN", secrets[0])
        .stdin(Stdio::null());
    // Arguments that the program does not know would end it: they go behind `sh -c`.
    let script = format!("exec -a x {} burn --seconds 30", programs::scenarios().display());
    let mut victim_with_secrets = Command::new("bash");
    victim_with_secrets
        .args(["-c", &format!("{script} & wait"), "worker"])
        .arg(format!("--password={}", secrets[1]))
        .args(["--apiKey", secrets[2]])
        .arg(format!("DB_PASSWORD={}", secrets[3]))
        .arg(format!("postgres://app:{}@db/orders", secrets[4]))
        .arg(format!("-p{}", secrets[5]))
        .stdin(Stdio::null())
        .process_group(0);
    let mut victim = victim.spawn().unwrap();
    let mut talkative = victim_with_secrets.spawn().unwrap();
    sleep(SECOND / 2);
    let sysmcp = Sysmcp::local().unwrap();
    let list = sysmcp.call("process_list", &json!({"sort": "youngest", "limit": 30})).unwrap();
    let inspect = sysmcp.call("process_inspect", &json!({"pid": talkative.id()})).unwrap();
    let wrong = sysmcp
        .call(
            "process_list",
            &json!({"limit": "postgres://app:hunter2-b@db/", "password": "hunter2-c"}),
        )
        .unwrap();
    let group = rustix::process::Pid::from_raw(i32::try_from(talkative.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    victim.kill().unwrap();
    talkative.wait().unwrap();
    victim.wait().unwrap();
    let audit = fs::read_to_string(sysmcp.audit_log()).unwrap();
    let replay = sysmcp.command().args(["audit", "script"]).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let shown = [
        text(&list.stdout),
        text(&list.stderr),
        text(&inspect.stdout),
        text(&inspect.stderr),
        text(&wrong.stdout),
        text(&wrong.stderr),
        audit,
        text(&replay.stdout),
    ];
    for secret in secrets {
        for place in &shown {
            assert!(!place.contains(secret), "{secret} is in: {place}");
        }
    }
    // The names of the flags stay, and the answer says how many secrets went.
    let answer: Value = serde_json::from_slice(&inspect.stdout).unwrap();
    let command = answer["process"]["command"].as_str().unwrap();
    for flag in ["--password=[redacted]", "--apiKey [redacted]", "DB_PASSWORD=[redacted]"] {
        assert!(command.contains(flag), "{flag} is not in: {command}");
    }
    assert_eq!(answer["meta"]["redacted"], 5, "{command}");
}

/// S9: what was cut is said, with totals and weight.
#[test]
fn every_cut_is_stated() {
    let sysmcp = Sysmcp::local().unwrap();
    let by_limit = sysmcp.answer("process_list", &json!({"limit": 2, "window_ms": 300})).unwrap();
    let truncation = &by_limit["meta"]["truncation"];
    assert_eq!((&truncation["shown"], &truncation["cut_by"]), (&json!(2), &json!("limit")));
    assert!(truncation["total"].as_u64().unwrap() > 2);
    assert!(by_limit["meta"]["rest"].as_str().unwrap().contains("\"offset\":2"));
    let parameters = json!({"limit": 200, "window_ms": 300, "max_tokens": 800});
    let output = sysmcp.call("process_list", &parameters).unwrap();
    assert!(output.stdout.len() <= 800 * 4, "{} bytes", output.stdout.len());
    let by_size: Value = serde_json::from_slice(&output.stdout).unwrap();
    let truncation = &by_size["meta"]["truncation"];
    assert_eq!(truncation["cut_by"], "answer_bytes");
    let shown = by_size["processes"].as_array().unwrap().len();
    assert_eq!(truncation["shown"], shown);
    assert!(truncation["total"].as_u64().unwrap() > shown as u64);
}

/// A default answer on a crowded host stays under its budget, and says what it cut.
#[test]
fn a_default_answer_fits_its_budget_on_a_crowded_host() {
    let mut crowd: Vec<_> = (0..300)
        .map(|_| Command::new("sleep").arg("60").stdin(Stdio::null()).spawn().unwrap())
        .collect();
    let output = Sysmcp::local().unwrap().call("process_list", &json!({})).unwrap();
    for member in &mut crowd {
        let _ = member.kill();
        let _ = member.wait();
    }
    let tokens = output.stdout.len() / 4;
    assert!(tokens < 8000, "{tokens} tokens");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let truncation = &answer["meta"]["truncation"];
    assert_eq!(truncation["shown"], 15);
    assert!(truncation["total"].as_u64().unwrap() > 300, "{truncation}");
}

/// S15: a call beyond the limit is refused at once, with the time to come back.
#[test]
fn one_call_too_many_is_refused_at_once() {
    let sysmcp = Sysmcp::local().unwrap().with(&["--max-calls", "2", "--toolsets", "selftest"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
    let arguments = json!({"count": 30, "interval_ms": 100});
    let call = json!({"name": "self_test", "arguments": arguments});
    let mut running: Vec<u64> = (0..2).map(|_| client.ask("tools/call", &call).unwrap()).collect();
    sleep(SECOND / 2);
    let started = Instant::now();
    let refused = client.call("self_test", &arguments, 5 * SECOND).unwrap();
    let took = started.elapsed();
    assert!(took < SECOND / 5, "it took {took:?} to refuse");
    assert_eq!(refused["isError"], true);
    let text = refused["content"][0]["text"].as_str().unwrap();
    let wait: u64 =
        text.split("retry in ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    assert!((1_500..=3_000).contains(&wait), "{text}");
    assert_eq!(refused["_meta"]["io.github.sysmcp/error"]["retryable"], true);
    // They end at the same time, so either may be answered first.
    while !running.is_empty() {
        let id_of = |message: &Value| message.get("id").and_then(Value::as_u64);
        let is_one = |message: &Value| id_of(message).is_some_and(|id| running.contains(&id));
        let reply = client.wait_for(10 * SECOND, is_one).unwrap().unwrap();
        running.retain(|id| Some(*id) != id_of(&reply));
    }
    // The hint was right.
    let again = client.call("self_test", &arguments, 10 * SECOND).unwrap();
    assert_eq!(again["isError"], false);
}

/// Nothing is done that cannot be written down.
#[test]
fn without_an_audit_log_nothing_is_done() {
    let output = without_settings(programs::sysmcp())
        .args(["call", "process_list"])
        .env("SYSMCP_AUDIT_LOG", "/proc/nowhere/audit.jsonl")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(21), "{said}");
    assert!(said.contains("/proc/nowhere") && output.stdout.is_empty(), "{said}");
}

/// The intent stands in the log before the target is touched, the result after, and the chain
/// holds.
#[test]
fn the_audit_tells_the_story_and_shows_a_change() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap();
    sysmcp.answer("process_list", &json!({"limit": 1, "window_ms": 200})).unwrap();
    sysmcp.call("process_list", &json!({"limit": 0})).unwrap();
    let log = fs::read_to_string(sysmcp.audit_log()).unwrap();
    let events: Vec<String> = log
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["event"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(events, ["intent", "connecting", "connected", "outcome", "stopped", "refused"]);
    let verify = || sysmcp.command().args(["audit", "verify"]).output().unwrap();
    assert_eq!(verify().status.code(), Some(0));
    fs::write(sysmcp.audit_log(), log.replacen("\"limit\":1", "\"limit\":9", 1)).unwrap();
    let broken = verify();
    assert_eq!(broken.status.code(), Some(22));
    assert!(String::from_utf8_lossy(&broken.stderr).contains("line 1"));
}
