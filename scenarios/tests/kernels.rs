//! Other kernels than the one this runs on: the agent inside a guest, as root and as nobody.
//!
//! Every check boots a guest of its own, so that none has to put anything back. `cargo xtask
//! kernels` runs them; without it there is nothing to boot.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "kernels/capabilities.rs"]
mod capabilities;
#[path = "../../fixtures/golden.rs"]
mod golden;
#[path = "kernels/meanwhile.rs"]
mod meanwhile;
#[path = "kernels/programs.rs"]
mod programs;

use capabilities::{
    all_processes_are_counted, every_command_of_a_remedy_lifts_what_it_is_for,
    lockdown_takes_what_it_says, pressure_works_after_its_remedy, the_sandbox_is_in_force,
    what_refuses_is_named,
};
use meanwhile::{
    a_clock_that_is_set_is_named_and_moves_no_other_number,
    a_processor_that_goes_and_comes_back_is_no_wild_number,
};
use programs::{programs_load_and_count, what_programs_count_is_right};
use scenarios::vm::{Boot, Guest, NOBODY};
use serde_json::{Value, json};
use std::time::Duration;

const ROOT: u32 = 0;

/// Each check for each kernel.
macro_rules! checks {
    ($($check:ident)*) => {
        checks! { @on linux_6_1 "6.1" $($check)* }
        checks! { @on linux_6_12 "6.12" $($check)* }
    };
    (@on $module:ident $kernel:literal $($check:ident)*) => {
        mod $module {
            $(
                #[test]
                #[ignore = "boots another kernel; `cargo xtask kernels` does"]
                fn $check() {
                    super::$check($kernel);
                }
            )*
        }
    };
}
checks! {
    it_is_as_debian_ships_it
    a_panic_and_silence_are_noticed
    a_busy_process_comes_first
    a_quota_is_seen_in_the_kernels_numbers
    a_memory_limit_is_seen_in_the_kernels_numbers
    a_cgroup_that_memory_high_slows_is_named
    a_process_in_the_root_cgroup_has_no_limit
    a_clock_that_is_set_is_named_and_moves_no_other_number
    a_processor_that_goes_and_comes_back_is_no_wild_number
    pressure_that_is_off_is_not_zero
    processors_are_counted_as_they_are_wired
    a_hidden_process_is_said_to_be_hidden
    what_is_not_measured_is_listed
    yama_is_named_where_it_refuses
    delay_accounting_works_after_its_remedy
    lockdown_takes_nothing_from_an_answer
    capabilities_of_a_file_do_not_end_the_agent
    over_ssh_a_quota_is_a_diagnosis
    all_processes_are_counted
    every_command_of_a_remedy_lifts_what_it_is_for
    what_refuses_is_named
    lockdown_takes_what_it_says
    pressure_works_after_its_remedy
    the_sandbox_is_in_force
    programs_load_and_count
    what_programs_count_is_right
}

fn boot(kernel: &str, boot: &Boot<'_>) -> Guest {
    let guest = Guest::boot(kernel, boot).unwrap();
    println!("{} is up after {} ms", guest.release, guest.boot_time.as_millis());
    guest
}

fn booted(kernel: &str) -> Guest {
    boot(kernel, &Boot::default())
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is not a number"))
}

/// Why a field has no value, in the agent's words.
fn why<'a>(answer: &'a Value, list: &str, field: &str) -> &'a str {
    answer["meta"][list][field].as_str().unwrap_or_else(|| panic!("{field} is known: {answer:#}"))
}

/// A program that computes, in a cgroup with a limit, if any.
fn burn(guest: &mut Guest, limit: Option<(&str, &str)>) -> u32 {
    let Some((file, value)) = limit else {
        return guest.start(ROOT, &["/scenarios", "burn"]).unwrap();
    };
    let folder = "/sys/fs/cgroup/limited";
    guest.sh(&format!("mkdir {folder} && echo '{value}' > {folder}/{file}")).unwrap();
    let line = format!("echo $$ > {folder}/cgroup.procs && exec /scenarios burn");
    guest.start(ROOT, &["sh", "-c", &line]).unwrap()
}

/// A number from a file with a name and a number in each line.
fn counter(guest: &mut Guest, file: &str, name: &str) -> u64 {
    let text = guest.sh(&format!("cat {file}")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {name} in {file}: {text}")).parse().unwrap()
}

/// What the other checks rely on, and what no kernel of a developer's machine need have.
fn it_is_as_debian_ships_it(kernel: &str) {
    let mut guest = booted(kernel);
    assert!(guest.release.starts_with(&format!("{kernel}.")), "{}", guest.release);
    assert!(guest.release.ends_with("-cloud-amd64"), "{}", guest.release);
    let cases = [
        ("cat /proc/sys/kernel/yama/ptrace_scope", "0"),
        ("cat /proc/sys/kernel/perf_event_paranoid", "3"),
        ("cat /proc/sys/kernel/unprivileged_bpf_disabled", "2"),
        ("cat /proc/sys/kernel/kptr_restrict", "0"),
        ("cat /sys/kernel/security/lockdown", "[none] integrity confidentiality"),
        (
            "cat /sys/fs/cgroup/cgroup.subtree_control",
            "cpuset cpu io memory hugetlb pids rdma misc",
        ),
        ("test -e /sys/kernel/btf/vmlinux && echo yes", "yes"),
        ("test -e /sys/kernel/tracing/kprobe_events && echo yes", "yes"),
        ("grep -c ^some /proc/pressure/cpu", "1"),
    ];
    for (line, want) in cases {
        assert_eq!(guest.sh(line).unwrap(), want, "{line}");
    }
    // What runs as nobody has nothing of root.
    let outcome = guest.run(NOBODY, &["sh", "-c", "id; grep CapEff /proc/self/status"]).unwrap();
    let want = "uid=65534(nobody) gid=65534(nogroup)\n\
                CapEff:\t0000000000000000\n";
    assert_eq!(outcome.stdout, want);
}

fn a_panic_and_silence_are_noticed(kernel: &str) {
    let mut guest = booted(kernel);
    guest.patience = Duration::from_secs(2);
    let error = format!("{:#}", guest.run(ROOT, &["sleep", "100"]).unwrap_err());
    assert!(error.contains("no answer in 2s"), "{error}");
    drop(guest);
    let mut guest = booted(kernel);
    let error = format!("{:#}", guest.sh("echo c > /proc/sysrq-trigger").unwrap_err());
    assert!(error.contains("the guest has ended"), "{error}");
    assert!(error.contains("Kernel panic - not syncing"), "{error}");
}

fn a_busy_process_comes_first(kernel: &str) {
    let mut guest = booted(kernel);
    let pid = burn(&mut guest, None);
    for uid in [ROOT, NOBODY] {
        let answer = guest.ask(uid, "process_list", &json!({"limit": 3})).unwrap();
        let first = &answer["processes"][0];
        println!("uid {uid}: {} % of a processor", first["cpu_pct"]);
        assert_eq!(first["pid"], pid, "{answer:#}");
        assert_eq!(first["user"], "root", "{answer:#}");
        // It alone is busy, and there are two processors.
        assert!((70.0..=105.0).contains(&number(&first["cpu_pct"])), "{answer:#}");
        assert!((30.0..=90.0).contains(&number(&answer["host"]["cpu_busy_pct"])), "{answer:#}");
    }
}

fn a_quota_is_seen_in_the_kernels_numbers(kernel: &str) {
    const FILE: &str = "/sys/fs/cgroup/limited/cpu.stat";
    let mut guest = booted(kernel);
    let pid = burn(&mut guest, Some(("cpu.max", "20000 100000")));
    for uid in [ROOT, NOBODY] {
        let names = ["nr_periods", "nr_throttled", "throttled_usec"];
        let before = names.map(|name| counter(&mut guest, FILE, name));
        let parameters = json!({"pid": pid, "window_ms": 2000});
        let answer = guest.ask(uid, "process_inspect", &parameters).unwrap();
        let after = names.map(|name| counter(&mut guest, FILE, name));
        let cgroup = &answer["cgroup"];
        println!("uid {uid}: {cgroup}");
        assert_eq!(cgroup["path"], "/limited");
        assert_eq!(cgroup["cpu_quota_cores"], 0.2);
        let found = ["periods", "throttled_periods", "throttled_ms"]
            .map(|name| number(&cgroup["throttling"][name]));
        let around = [0, 1, 2].map(|index| (after[index] - before[index]) as f64);
        let around = [around[0], around[1], around[2] / 1000.0];
        for (found, around) in found.into_iter().zip(around) {
            // The window lies within the two looks at the file, and is most of the time between.
            assert!(found <= around, "{cgroup}: {around:?}");
            assert!(found > 0.5 * around, "{cgroup}: {around:?}");
        }
        assert!((12.0..=28.0).contains(&number(&answer["cpu"]["running_pct"])), "{answer:#}");
    }
}

fn a_memory_limit_is_seen_in_the_kernels_numbers(kernel: &str) {
    const FOLDER: &str = "/sys/fs/cgroup/limited";
    let mut guest = booted(kernel);
    guest.sh(&format!("mkdir {FOLDER} && echo 24M > {FOLDER}/memory.max")).unwrap();
    let start = format!("echo $$ > {FOLDER}/cgroup.procs && exec");
    let line = format!("{start} sleep 1000");
    let pid = guest.start(ROOT, &["sh", "-c", &line]).unwrap();
    for uid in [ROOT, NOBODY] {
        let events = format!("{FOLDER}/memory.events");
        let kills = counter(&mut guest, &events, "oom_kill");
        // In the middle of the window, another one in the cgroup wants more than there is.
        let line = format!("sleep 1; {start} awk 'BEGIN {{ s = \"x\"; while (1) s = s s }}'");
        guest.start(ROOT, &["sh", "-c", &line]).unwrap();
        let parameters = json!({"pid": pid, "window_ms": 5000});
        let answer = guest.ask(uid, "process_inspect", &parameters).unwrap();
        let cgroup = &answer["cgroup"];
        println!("uid {uid}: {cgroup}");
        assert_eq!(cgroup["memory_limit_bytes"], 24 << 20);
        assert_eq!(cgroup["oom_kills"], 1, "{answer:#}");
        assert_eq!(counter(&mut guest, &events, "oom_kill"), kills + 1);
        assert!(number(&cgroup["memory_limit_hits"]) >= 1.0, "{answer:#}");
        let bytes = guest.sh(&format!("cat {FOLDER}/memory.current")).unwrap();
        let bytes: f64 = bytes.parse().unwrap();
        // What the ended one left behind goes bit by bit.
        assert!((number(&cgroup["memory_bytes"]) - bytes).abs() < 4e6, "{bytes}: {answer:#}");
    }
}

fn a_process_in_the_root_cgroup_has_no_limit(kernel: &str) {
    let mut guest = booted(kernel);
    for uid in [ROOT, NOBODY] {
        let answer =
            guest.ask(uid, "process_inspect", &json!({"pid": 1, "window_ms": 200})).unwrap();
        assert_eq!(answer["cgroup"]["path"], "/", "{answer:#}");
        for field in ["cgroup.cpu_quota_cores", "cgroup.memory_limit_bytes"] {
            let why = why(&answer, "absent", field);
            assert!(why.contains("root cgroup"), "{field}: {why}");
        }
    }
}

fn pressure_that_is_off_is_not_zero(kernel: &str) {
    let fields = ["cpu_some_pct", "io_some_pct", "io_full_pct", "memory_some_pct"];
    for (command_line, is_on) in [("psi=1", true), ("psi=0", false)] {
        let mut guest = boot(kernel, &Boot { command_line, ..Boot::default() });
        for uid in [ROOT, NOBODY] {
            let parameters = json!({"window_ms": 200, "detail": "full"});
            let answer = guest.ask(uid, "host_snapshot", &parameters).unwrap();
            for field in fields {
                if is_on {
                    number(&answer["pressure"][field]);
                } else {
                    assert_eq!(answer["pressure"][field], Value::Null);
                    let why = why(&answer, "not_measured", &format!("pressure.{field}"));
                    assert!(why.contains("switched off"), "{why}");
                    assert!(why.contains("psi=1"), "the remedy: {why}");
                }
            }
        }
    }
}

fn processors_are_counted_as_they_are_wired(kernel: &str) {
    let cases = [
        ("2,sockets=2,cores=1,threads=1", [2, 2, 2]),
        ("2,sockets=1,cores=2,threads=1", [2, 2, 1]),
        ("2,sockets=1,cores=1,threads=2", [2, 1, 1]),
    ];
    for (processors, want) in cases {
        let mut guest = boot(kernel, &Boot { processors, ..Boot::default() });
        let cpu = &guest.ask(NOBODY, "host_snapshot", &json!({"window_ms": 200})).unwrap()["cpu"];
        assert_eq!(
            json!([cpu["online"], cpu["cores"], cpu["sockets"]]),
            json!(want),
            "{processors}"
        );
    }
}

fn a_hidden_process_is_said_to_be_hidden(kernel: &str) {
    let mut guest = booted(kernel);
    guest.sh("mount -o remount,hidepid=2 /proc").unwrap();
    let words = ["/probe-agent", "--local", "process_inspect", "--params", "{\"pid\":1}"];
    let outcome = guest.run(NOBODY, &words).unwrap();
    assert_ne!(outcome.code, Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("hidepid"), "{outcome:?}");
    // Root is not kept from anything.
    let answer = guest.ask(ROOT, "process_list", &json!({"limit": 3})).unwrap();
    assert!(number(&answer["census"]["processes"]) > 20.0, "{answer:#}");
}

/// `memory.high` stops nobody and kills nothing; it slows what goes above it.
fn a_cgroup_that_memory_high_slows_is_named(kernel: &str) {
    const FOLDER: &str = "/sys/fs/cgroup/slowed";
    let mut guest = booted(kernel);
    guest.sh(&format!("mkdir {FOLDER} && echo 16M > {FOLDER}/memory.high")).unwrap();
    let hungry = "while :; do head -c 67108864 /dev/zero | tail -c 33554432 > /dev/null; done";
    let line = format!("echo $$ > {FOLDER}/cgroup.procs; {hungry}");
    guest.start(ROOT, &["sh", "-c", &line]).unwrap();
    for uid in [ROOT, NOBODY] {
        let events = format!("{FOLDER}/memory.events");
        let before = counter(&mut guest, &events, "high");
        let parameters = json!({"detail": "full", "window_ms": 4000, "limit": 10});
        let answer = guest.ask(uid, "host_snapshot", &parameters).unwrap();
        let around = counter(&mut guest, &events, "high") - before;
        let rows = answer["cgroups"]["limited"].as_array().unwrap();
        let row = rows.iter().find(|row| row["path"] == "/slowed").unwrap();
        println!("uid {uid}: {row}, {around} around the window");
        assert_eq!(row["high_bytes"], 16 << 20);
        let hits = number(&row["high_hits"]);
        assert!(hits >= 1.0 && hits <= around as f64, "{around}: {row:#}");
        assert!(row["limit_bytes"].is_null() && row["oom_kills"] == 0, "{row:#}");
    }
}

/// Everything that has no value, and why: as root, the limits of a kernel; as nobody, those of the
/// user.
fn what_is_not_measured_is_listed(kernel: &str) {
    let mut guest = booted(kernel);
    let pid = burn(&mut guest, Some(("cpu.max", "50000 100000")));
    let mut text = String::new();
    for (uid, name) in [(ROOT, "root"), (NOBODY, "nobody")] {
        for (tool, parameters) in [
            ("host_snapshot", json!({"detail": "full"})),
            ("process_list", json!({"limit": 1})),
            ("process_inspect", json!({"pid": pid})),
        ] {
            let answer = guest.ask(uid, tool, &parameters).unwrap();
            text.push_str(&format!("{tool} as {name}\n"));
            for list in ["not_measured", "absent"] {
                for (field, why) in answer["meta"][list].as_object().unwrap() {
                    // Which rows there are is up to the moment.
                    let why = why.as_str().unwrap();
                    let why = why.rsplit(" rows: ").next().unwrap();
                    text.push_str(&format!("  {list}: {field}: {why}\n"));
                }
            }
        }
    }
    golden::assert_golden(&format!("fixtures/golden/kernels/{kernel}.txt"), &text);
}

/// The command in a remedy.
fn command_in(remedy: &str) -> &str {
    remedy.split('`').nth(1).unwrap_or_else(|| panic!("no command in: {remedy}"))
}

fn yama_is_named_where_it_refuses(kernel: &str) {
    const FIELD: &str = "waits.groups[].syscall";
    let mut guest = booted(kernel);
    let pid = guest.start(NOBODY, &["sleep", "1000"]).unwrap();
    let parameters = json!({"pid": pid, "window_ms": 300});
    // Where each user is refused what a process of nobody waits in.
    for (scope, refused) in [(1, [NOBODY].as_slice()), (2, &[NOBODY]), (3, &[NOBODY, ROOT])] {
        guest.sh(&format!("echo {scope} > /proc/sys/kernel/yama/ptrace_scope")).unwrap();
        for uid in [ROOT, NOBODY] {
            let answer = guest.ask(uid, "process_inspect", &parameters).unwrap();
            if !refused.contains(&uid) {
                assert_eq!(answer["waits"]["groups"][0]["syscall"], "clock_nanosleep");
                continue;
            }
            let why = why(&answer, "not_measured", FIELD);
            assert!(why.contains(&format!("kernel.yama.ptrace_scope is {scope}")), "{why}");
            if scope == 3 {
                assert!(why.contains("reboot"), "{why}");
                let lower = "echo 0 > /proc/sys/kernel/yama/ptrace_scope";
                assert!(guest.sh(lower).is_err(), "it can be lowered");
                continue;
            }
            guest.sh(command_in(why)).unwrap();
            let answer = guest.ask(uid, "process_inspect", &parameters).unwrap();
            assert_eq!(answer["waits"]["groups"][0]["syscall"], "clock_nanosleep");
        }
    }
}

fn delay_accounting_works_after_its_remedy(kernel: &str) {
    let mut guest = booted(kernel);
    let ask = |guest: &mut Guest| {
        let pid = burn(guest, None);
        let parameters = json!({"pid": pid, "window_ms": 300});
        guest.ask(NOBODY, "process_inspect", &parameters).unwrap()
    };
    let answer = ask(&mut guest);
    assert_eq!(answer["cpu"]["block_delay_pct"], Value::Null);
    guest.sh(command_in(why(&answer, "not_measured", "cpu.block_delay_pct"))).unwrap();
    assert_eq!(number(&ask(&mut guest)["cpu"]["block_delay_pct"]), 0.0);
}

fn lockdown_takes_nothing_from_an_answer(kernel: &str) {
    let command_line = "lockdown=confidentiality";
    let mut guest = boot(kernel, &Boot { command_line, ..Boot::default() });
    let level = guest.sh("cat /sys/kernel/security/lockdown").unwrap();
    assert_eq!(level, "none integrity [confidentiality]");
    let pid = guest.start(NOBODY, &["sleep", "1000"]).unwrap();
    let parameters = json!({"pid": pid, "window_ms": 300});
    let answer = guest.ask(ROOT, "process_inspect", &parameters).unwrap();
    let group = &answer["waits"]["groups"][0];
    assert_eq!(group["syscall"], "clock_nanosleep", "{answer:#}");
    assert_eq!(group["channel"], "hrtimer_nanosleep", "{answer:#}");
}

/// The kernel keeps a program that got capabilities from its file from much of what is its own.
fn capabilities_of_a_file_do_not_end_the_agent(kernel: &str) {
    let mut guest = booted(kernel);
    // One that does not open what is closed by that.
    guest.sh("setcap cap_perfmon+ep /probe-agent").unwrap();
    let answer = guest.ask(NOBODY, "process_list", &json!({})).unwrap();
    assert!(number(&answer["processes"][0]["rss_bytes"]) > 0.0, "{answer:#}");
    // These open everything.
    guest.sh("setcap cap_sys_ptrace,cap_dac_read_search+ep /probe-agent").unwrap();
    let answer = guest.ask(NOBODY, "process_inspect", &json!({"pid": 1})).unwrap();
    assert!(number(&answer["descriptors"]["open"]) > 0.0, "{answer:#}");
}

/// The real line, to a real other kernel, with another SSH server than OpenSSH's.
fn over_ssh_a_quota_is_a_diagnosis(kernel: &str) {
    let mut guest = boot(kernel, &Boot { has_network: true, ..Boot::default() });
    let pid = burn(&mut guest, Some(("cpu.max", "20000 100000")));
    let login = guest.serve_ssh().unwrap();
    for user in ["root", "nobody"] {
        let sysmcp = login.sysmcp(user).unwrap();
        let parameters = json!({"pid": pid, "window_ms": 2000});
        let answer = sysmcp.answer("process_inspect", &parameters).unwrap();
        println!("{user}: {} because {}", answer["class"], answer["because"]);
        assert_eq!(answer["class"], "throttled", "{answer:#}");
    }
    let left = guest.sh("ps | grep '[p]robe-agent\\|[s]ysmcp'; ls -A /tmp /dev/shm").unwrap();
    assert_eq!(left, "/dev/shm:\n\n/tmp:");
}
