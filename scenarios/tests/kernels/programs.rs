//! The agent's own programs on other kernels, whose verifiers and types differ.

use super::{ROOT, booted, burn, number};
use serde_json::json;

/// Runs the agent's tests of its programs inside: every object loads, its programs find their places,
/// maps give what is in them, and what is counted agrees with `/proc`.
pub fn programs_load_and_count(kernel: &str) {
    let mut guest = booted(kernel);
    let words =
        ["env", "CI=true", "/agent-tests", "--test-threads", "1", "--nocapture", "bpf", "iterator"];
    let outcome = guest.run(ROOT, &words).unwrap();
    println!("{}", outcome.stdout);
    assert_eq!(outcome.code, Some(0), "{}\n{}", outcome.stdout, outcome.stderr);
    assert!(outcome.stdout.contains("every_object_loads"), "{}", outcome.stdout);
    // Nothing is left: the processes that loaded them are gone.
    assert_eq!(guest.sh("ls /sys/fs/bpf").unwrap(), "");
}

/// What the instruments say by these programs is what happened: calls on a file, a wait for a full pipe,
/// waits for a processor.
pub fn what_programs_count_is_right(kernel: &str) {
    const CALLS: u64 = 20_000;
    let mut guest = booted(kernel);
    // When somebody watches: until then the programs are verified, which takes seconds here.
    let script = format!(
        "until ls -l /proc/[0-9]*/fd 2> /dev/null | grep -q bpf.link; do sleep 0.1; done; sleep 0.5; \
         dd if=/dev/zero of=/dev/null bs=1 count={CALLS} 2> /tmp/said; exec sleep 600"
    );
    let pid = guest.start(ROOT, &["sh", "-c", &script]).unwrap();
    let asked = json!({"pid": pid, "mode": "detailed", "calls": ["read", "write"],
        "window_ms": 9000, "limit": 50, "max_cpu_ms": 20_000});
    let answer = guest.ask(ROOT, "syscall_trace", &asked).unwrap();
    assert_eq!(answer["meta"]["engine"], "eBPF", "{answer:#}");
    assert_eq!(answer["meta"]["lost"]["events"], 0, "{answer:#}");
    let rows = answer["subjects"].as_array().unwrap();
    let row = rows.iter().find(|row| row["subject"]["name"] == "/dev/zero");
    assert_eq!(row.map(|row| &row["count"]), Some(&json!(CALLS)), "{answer:#}");
    guest.start(ROOT, &["sh", "-c", "yes | sleep 600"]).unwrap();
    let asked = json!({"mode": "off_cpu", "window_ms": 2000, "limit": 50});
    let answer = guest.ask(ROOT, "perf_record", &asked).unwrap();
    assert_eq!(answer["meta"]["engine"], "eBPF", "{answer:#}");
    let rows = answer["off_cpu"]["rows"].as_array().unwrap();
    let row =
        rows.iter().find(|row| row["process"] == "yes").unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!(
        (&row["call"], &row["subject"]["kind"]),
        (&json!("write"), &json!("pipe")),
        "{row:#}"
    );
    // One more than there are processors.
    (0..3).for_each(|_| _ = burn(&mut guest, None));
    let answer =
        guest.ask(ROOT, "latency", &json!({"window_ms": 2000, "max_cpu_ms": 20_000})).unwrap();
    for kind in ["run_queue", "block", "off_cpu", "tcp"] {
        assert_eq!(answer[kind]["measured_by"], "ebpf", "{kind}: {answer:#}");
    }
    let waits = number(&answer["run_queue"]["all"]["count"]);
    println!(
        "{CALLS} calls of dd, each counted; {waits} waits for a processor; {} ms of processor time",
        answer["meta"]["overhead"]["agent_cpu_ms"]
    );
    assert!(waits > 10.0, "{answer:#}");
}
