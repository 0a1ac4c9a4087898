//! Ten thousand processes, and a process of five thousand threads: the answers stay right, short and
//! within their limits. What they cost is printed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use rustix::process::geteuid;
use scenarios::{
    not_run::not_run,
    programs,
    sysmcp::Sysmcp,
    victim::{Victim, built},
};
use serde_json::{Value, json};
use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

const PROCESSES: u64 = 10_000;
const THREADS: u64 = 5_000;

/// Asks, prints what it cost, and checks what holds for any answer.
fn ask(tool: &str, parameters: &Value) -> Value {
    let sysmcp = Sysmcp::local().unwrap();
    let started = Instant::now();
    let output = sysmcp.call(tool, parameters).unwrap();
    let wall = started.elapsed();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {parameters}: {said}");
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let cpu_ms = answer.pointer("/meta/overhead/agent_cpu_ms").unwrap();
    let bytes = output.stdout.len();
    println!("{tool} {parameters}: {cpu_ms} ms of processor time, {wall:.2?}, {bytes} bytes");
    assert!(bytes <= 32_000, "{bytes} bytes");
    assert!(wall < Duration::from_secs(15), "{wall:?}");
    answer
}

/// User and system time of a process, or a thread, in milliseconds.
fn cpu_ms(stat: &str) -> f64 {
    let line = fs::read_to_string(stat).unwrap();
    let (_, rest) = line.rsplit_once(')').unwrap();
    let ticks = rest.split_whitespace().skip(11).take(2).map(|field| field.parse::<f64>().unwrap());
    ticks.sum::<f64>() * 10.0
}

/// What of a processor something used, in percent, while an answer was made.
fn while_used(stat: &str, answer: impl FnOnce() -> Value) -> (Value, f64) {
    let (started, before) = (Instant::now(), cpu_ms(stat));
    let answer = answer();
    let wall_ms = started.elapsed().as_secs_f64() * 1e3;
    (answer, 100.0 * (cpu_ms(stat) - before) / wall_ms)
}

#[test]
fn the_busy_one_of_ten_thousand_processes_comes_first() {
    if !geteuid().is_root() {
        return not_run("ten thousand processes", "root, for the limit on processes");
    }
    let folder = tempfile::tempdir().unwrap();
    let crowd = built("scale/crowd.c", folder.path()).unwrap();
    let mut crowd = Command::new(crowd);
    let (_crowd, _) =
        Victim::start_and_wait(crowd.args(["processes", &PROCESSES.to_string()])).unwrap();
    let burn = |arguments: &[&str]| {
        let mut command = Command::new(programs::scenarios());
        Victim::start(command.arg("burn").args(arguments)).unwrap()
    };
    let busy = burn(&["--seconds", "60", "--cpu", "0"]);
    // Others live for a tenth of a second each, one after another.
    let short = "while :; do timeout 0.1 \"$1\" burn --cpu 1; done";
    let mut shell = Command::new("sh");
    let _short = Victim::start(shell.args(["-c", short, "sh"]).arg(programs::scenarios())).unwrap();

    let stat = format!("/proc/{}/stat", busy.pid());
    let (answer, used) = while_used(&stat, || ask("process_list", &json!({"window_ms": 2000})));
    let rows = answer["processes"].as_array().unwrap();
    let share = |row: &Value| row["cpu_pct"].as_f64().unwrap();
    assert!(rows.is_sorted_by(|left, right| share(left) >= share(right)), "{answer}");
    let place = rows.iter().position(|row| row["pid"] == busy.pid()).unwrap();
    let (before, first) = (&rows[..place], &rows[place]);
    // On a shared machine something else may be as busy, but none of the crowd.
    assert!(before.iter().all(|row| row["name"] != "crowd"), "{answer}");
    let cpu = share(first);
    assert!((cpu - used).abs() < 15.0, "{cpu} %, and {used:.1} % by its own account");
    let (census, truncation) = (&answer["census"], &answer["meta"]["truncation"]);
    assert!(census["processes"].as_u64().unwrap() > PROCESSES, "{census}");
    assert!(census["ended_cpu_ms"].as_f64().unwrap() > 100.0, "{census}");
    assert_eq!((&truncation["shown"], &truncation["cut_by"]), (&json!(15), &json!("limit")));
    assert!(truncation["total"].as_u64().unwrap() > PROCESSES, "{truncation}");
    assert!(
        first["run_delay_pct"].is_number() && first["write_bytes_per_s"].is_number(),
        "{first}"
    );

    // A column that costs a file of each process, twice.
    let answer = ask("process_list", &json!({"sort": "write"}));
    assert_eq!(answer["sorted_by"], "write");
    let answer = ask("process_list", &json!({"group_by": "name", "sort": "threads"}));
    let group = &answer["groups"][0];
    assert_eq!(group["name"], "crowd", "{answer}");
    assert!(group["processes"].as_u64().unwrap() > PROCESSES, "{group}");
    let answer = ask("process_inspect", &json!({"pid": busy.pid()}));
    assert_eq!(answer["process"]["pid"], busy.pid());
    ask("host_snapshot", &json!({}));
}

#[test]
fn the_busy_one_of_five_thousand_threads_is_named() {
    if !geteuid().is_root() {
        return not_run("five thousand threads", "root, for the limit on processes");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut crowd = Command::new(built("scale/crowd.c", folder.path()).unwrap());
    let (crowd, busy) =
        Victim::start_and_wait(crowd.args(["threads", &THREADS.to_string()])).unwrap();
    let pid = crowd.pid();
    let stat = format!("/proc/{pid}/task/{busy}/stat");
    let (answer, used) = while_used(&stat, || ask("process_inspect", &json!({"pid": pid})));
    let first = &answer["threads"][0];
    assert_eq!(first["tid"].to_string(), busy, "{answer}");
    let running = first["running_pct"].as_f64().unwrap();
    assert!((running - used).abs() < 15.0, "{running} %, and {used:.1} % by its own account");
    let waits = &answer["waits"];
    assert!(waits["threads_total"].as_u64().unwrap() > THREADS, "{waits}");
    let unseen = waits["threads_never_sampled"].as_u64().unwrap();
    assert!((THREADS - 200..THREADS).contains(&unseen), "{waits}");
    assert!(answer["meta"]["not_measured"].to_string().contains("too costly"), "{answer}");

    let answer = ask("process_list", &json!({"limit": 3}));
    let row = answer["processes"].as_array().unwrap().iter().find(|row| row["pid"] == pid).unwrap();
    assert!(row["threads"].as_u64().unwrap() > THREADS, "{row}");
    let answer = ask("process_list", &json!({"sort": "run_delay"}));
    assert_eq!(answer["sorted_by"], "run_delay");
}
