//! What does not work on a target is named with the layer that refuses it and the command that
//! lifts it: each lever that can be pulled on this machine is pulled, the command that was printed
//! is run as it was printed, and then it works. All is put back.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use scenarios::{
    client::Client,
    not_run::{not_here, not_run},
    programs,
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// A program and its arguments.
fn command(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]);
    command
}

/// Settings of the kernel are the whole machine's: one test at a time.
static MACHINE: Mutex<()> = Mutex::new(());

/// The machine, for a test that changes it. `None` where that is not allowed.
fn machine(check: &str) -> Option<MutexGuard<'static, ()>> {
    if !rustix::process::geteuid().is_root() {
        not_run(check, "root");
        return None;
    }
    Some(MACHINE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// A setting of the kernel, put back when the test ends, however it ends.
struct Sysctl {
    path: PathBuf,
    before: String,
}

impl Sysctl {
    /// Sets it. `None` where this kernel has no such setting, or lets nobody change it.
    fn set(name: &str, value: i64) -> Option<Self> {
        let path = PathBuf::from("/proc/sys").join(name.replace('.', "/"));
        let before = fs::read_to_string(&path).ok()?;
        let sysctl = Self { path, before };
        fs::write(&sysctl.path, value.to_string()).ok()?;
        Some(sysctl)
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, &self.before);
    }
}

/// The agent, where everybody may run it.
struct Agent {
    folder: tempfile::TempDir,
}

impl Agent {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        fs::copy(programs::agent(), folder.path().join("agent")).unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("agent")
    }

    /// Asks it, behind some words that change what it may do.
    fn probe(&self, wrapper: &[&str]) -> Probe {
        let path = self.path();
        let path = path.to_str().unwrap();
        let question = ["--local", "capabilities", "--params", "{\"all\":true}", "--json"];
        let words = [wrapper, &[path], &question].concat();
        let output = command(&words).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let answer = serde_json::from_slice(&output.stdout);
        Probe(answer.unwrap_or_else(|error| panic!("{words:?}: {error}: {said}")))
    }
}

/// An answer.
struct Probe(Value);

impl Probe {
    fn check(&self, id: &str) -> &Value {
        let rows = self.0["checks"].as_array().unwrap();
        let row = rows.iter().find(|row| row["ids"] == json!([id]));
        row.unwrap_or_else(|| panic!("no check {id}: {}", self.0))
    }

    fn state(&self, id: &str) -> &str {
        self.check(id)["state"].as_str().unwrap()
    }

    /// Asserts that it is refused, or does not work, by these layers. Gives the commands.
    fn refused(&self, id: &str, by: &[&str]) -> Vec<String> {
        let check = self.check(id);
        assert_ne!(check["state"], "works", "{check}");
        assert_eq!(check["by"], json!(by), "{check}");
        let run = check["remedy"]["run"].as_array().cloned().unwrap_or_default();
        run.iter().map(|command| command.as_str().unwrap().to_owned()).collect()
    }

    /// The same, where there is a sentence and no command.
    fn refused_for(&self, id: &str, by: &[&str], advice: &str) {
        assert!(self.refused(id, by).is_empty(), "{}", self.check(id));
        let sentence = self.check(id)["remedy"]["do"].as_str().unwrap_or_default();
        assert!(sentence.contains(advice), "{}", self.check(id));
    }

    fn works(&self, id: &str) {
        assert_eq!(self.state(id), "works", "{}", self.check(id));
    }
}

/// Runs a command as it was printed, and asserts that it was the one expected.
fn run_as_printed(wrapper: &[&str], printed: &[String], expected: &[&str]) {
    assert_eq!(printed, expected);
    for printed in printed {
        let words = [wrapper, &["sh", "-c", printed]].concat();
        let status = command(&words).stdout(Stdio::null()).status();
        assert!(status.unwrap().success(), "{printed}");
    }
}

/// Becomes a user without rights.
const NOBODY: [&str; 6] =
    ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--"];

/// A mount namespace of its own, for as long as it lasts. What is mounted there is seen by nobody
/// else, and gone with it.
struct Mounts {
    holder: Child,
    pid: String,
}

impl Mounts {
    /// Makes one, and runs a script in it.
    fn new(script: &str) -> Self {
        let ready = tempfile::NamedTempFile::new().unwrap();
        let path = ready.path().to_str().unwrap();
        let script = format!("{script}\necho ready > {path}; exec sleep 300");
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        let holder = command.stdout(Stdio::null()).spawn().unwrap();
        let mounts = Self { pid: holder.id().to_string(), holder };
        let started = Instant::now();
        while fs::read_to_string(ready.path()).unwrap().is_empty() {
            assert!(started.elapsed() < Duration::from_secs(20), "{script}");
            std::thread::sleep(Duration::from_millis(5));
        }
        mounts
    }

    /// The words that enter it.
    fn enter(&self) -> [&str; 5] {
        ["nsenter", "--target", &self.pid, "--mount", "--"]
    }
}

impl Drop for Mounts {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

#[test]
fn a_user_is_let_by_each_level_of_perf_event_paranoid() {
    let Some(_machine) = machine("perf_event_paranoid") else { return };
    let Some(_paranoid) = Sysctl::set("kernel.perf_event_paranoid", 2) else {
        not_here("perf_event_paranoid", "a kernel with performance events");
        return;
    };
    let agent = Agent::new();
    let found = agent.probe(&NOBODY);
    found.works("perf_own_user");
    found.refused_for("perf_others", &["capability"], "connect as root");
    let printed = found.refused("perf_own_kernel", &["perf_event_paranoid"]);
    run_as_printed(&[], &printed, &["sysctl kernel.perf_event_paranoid=1"]);

    let found = agent.probe(&NOBODY);
    found.works("perf_own_kernel");
    found.works("context_switches");
    let printed = found.refused("perf_system_wide", &["perf_event_paranoid"]);
    run_as_printed(&[], &printed, &["sysctl kernel.perf_event_paranoid=0"]);

    let found = agent.probe(&NOBODY);
    found.works("perf_system_wide");
    // No level lets one user look into another's processes.
    found.refused_for("perf_others", &["capability"], "connect as root");
    agent.probe(&[]).works("perf_others");
}

#[test]
fn fields_of_a_tracepoint_take_tracefs_and_the_lowest_level() {
    let Some(_machine) = machine("fields of tracepoints") else { return };
    let Some(_paranoid) = Sysctl::set("kernel.perf_event_paranoid", 2) else {
        not_here("fields of tracepoints", "a kernel with performance events");
        return;
    };
    let agent = Agent::new();
    let mounts = Mounts::new("umount -R /sys/kernel/tracing 2>/dev/null; true");
    let reader = [
        &mounts.enter()[..],
        &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
        &["--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--"],
    ]
    .concat();
    let found = agent.probe(&reader);
    if found.state("tracefs") == "not_in_kernel" {
        not_here("fields of tracepoints", "a kernel with tracefs");
        return;
    }
    found.refused("tracefs", &["not_mounted"]);
    let printed = found.refused("perf_tracepoint", &["not_mounted", "perf_event_paranoid"]);
    let expected =
        ["mount -t tracefs tracefs /sys/kernel/tracing", "sysctl kernel.perf_event_paranoid=-1"];
    run_as_printed(&mounts.enter(), &printed, &expected);
    let found = agent.probe(&reader);
    found.works("tracefs");
    found.works("perf_tracepoint");
}

#[test]
fn tracefs_is_mounted_for_root_and_is_not_for_a_user() {
    let Some(_machine) = machine("tracefs") else { return };
    let agent = Agent::new();
    let mounts = Mounts::new("umount -R /sys/kernel/tracing 2>/dev/null; true");
    let user = [&mounts.enter()[..], &NOBODY].concat();
    let found = agent.probe(&user);
    if found.state("tracefs") == "not_in_kernel" {
        not_here("tracefs", "a kernel with tracefs");
        return;
    }
    found.refused("tracefs", &["not_mounted", "file_mode"]);
    let printed = agent.probe(&mounts.enter()).refused("tracefs", &["not_mounted"]);
    run_as_printed(&mounts.enter(), &printed, &["mount -t tracefs tracefs /sys/kernel/tracing"]);
    agent.probe(&mounts.enter()).works("tracefs");
    agent.probe(&user).refused_for("tracefs", &["file_mode"], "connect as root");
}

#[test]
fn addresses_of_the_kernel_by_kptr_restrict_and_perf_event_paranoid() {
    let Some(_machine) = machine("kptr_restrict") else { return };
    let agent = Agent::new();
    let (Some(_kptr), Some(_paranoid)) =
        (Sysctl::set("kernel.kptr_restrict", 2), Sysctl::set("kernel.perf_event_paranoid", 2))
    else {
        not_here("kptr_restrict", "a kernel with performance events");
        return;
    };
    let printed = agent.probe(&[]).refused("kernel_symbols", &["kptr_restrict"]);
    run_as_printed(&[], &printed, &["sysctl kernel.kptr_restrict=1"]);
    agent.probe(&[]).works("kernel_symbols");

    let found = agent.probe(&NOBODY);
    let printed = found.refused("kernel_symbols", &["kptr_restrict", "perf_event_paranoid"]);
    let expected = ["sysctl kernel.kptr_restrict=0", "sysctl kernel.perf_event_paranoid=1"];
    run_as_printed(&[], &printed, &expected);
    agent.probe(&NOBODY).works("kernel_symbols");
}

#[test]
fn delay_accounting_is_switched_on() {
    let Some(_machine) = machine("delay accounting") else { return };
    let Some(_delays) = Sysctl::set("kernel.task_delayacct", 0) else {
        not_here("delay accounting", "a kernel with kernel.task_delayacct (5.14)");
        return;
    };
    let agent = Agent::new();
    let found = agent.probe(&NOBODY);
    assert_eq!(found.state("delay_accounting"), "switched_off");
    let printed = found.refused("delay_accounting", &["switch"]);
    run_as_printed(&[], &printed, &["sysctl kernel.task_delayacct=1"]);
    agent.probe(&NOBODY).works("delay_accounting");
}

#[test]
fn processes_that_hidepid_hides_are_counted_and_shown_by_a_remount() {
    let Some(_machine) = machine("hidepid") else { return };
    let agent = Agent::new();
    // A mount of its own, so that remounting it touches no other.
    let mounts = Mounts::new("mount -t proc -o hidepid=2 proc /proc");
    let user = [&mounts.enter()[..], &NOBODY].concat();
    agent.probe(&mounts.enter()).works("processes_visible");
    let found = agent.probe(&user);
    assert_eq!(found.state("processes_visible"), "in_part");
    let why = found.check("processes_visible")["why"].as_str().unwrap();
    let counts: Vec<u64> = why.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    assert!(counts.len() == 2 && counts[0] < counts[1], "{why}");
    let printed = found.refused("processes_visible", &["hidepid"]);
    run_as_printed(&mounts.enter(), &printed, &["mount -o remount,hidepid=0 /proc"]);
    agent.probe(&user).works("processes_visible");
}

#[test]
fn a_pid_namespace_hides_what_is_outside_of_it() {
    let Some(_machine) = machine("a pid namespace") else { return };
    let agent = Agent::new();
    let found = agent.probe(&["unshare", "--pid", "--fork", "--mount-proc", "--"]);
    assert_eq!(found.state("processes_visible"), "in_part");
    found.refused("processes_visible", &["pid_namespace"]);
    assert_eq!(found.0["surroundings"]["namespaces"], json!(["pid"]));
}

#[test]
fn root_without_a_capability_is_told_which() {
    let Some(_machine) = machine("capabilities") else { return };
    let agent = Agent::new();
    let without = ["setpriv", "--bounding-set=-perfmon,-bpf,-sys_admin,-sys_ptrace", "--"];
    let found = agent.probe(&without);
    if agent.probe(&[]).state("bpf_raw_tracepoint") == "works" {
        found.refused_for("bpf_raw_tracepoint", &["capability"], "CapabilityBoundingSet=");
        let why = found.check("bpf_raw_tracepoint")["why"].as_str().unwrap();
        assert!(why.contains("CAP_BPF and CAP_PERFMON"), "{why}");
    } else {
        not_here("eBPF without its capabilities", "a kernel with eBPF");
    }
    found.refused_for("perf_others", &["capability"], "CapabilityBoundingSet=");
    found.refused_for("ptrace_others", &["capability"], "CapabilityBoundingSet=");
    let missing = found.0["surroundings"]["missing_capabilities"].to_string();
    for name in ["CAP_PERFMON", "CAP_BPF", "CAP_SYS_ADMIN", "CAP_SYS_PTRACE"] {
        assert!(missing.contains(name), "{missing}");
    }
}

#[test]
fn a_user_with_the_capabilities_needs_no_setting() {
    let Some(_machine) = machine("capabilities of a user") else { return };
    let Some(_paranoid) = Sysctl::set("kernel.perf_event_paranoid", 2) else {
        not_here("capabilities of a user", "a kernel with performance events");
        return;
    };
    let agent = Agent::new();
    let with = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--inh-caps=+bpf,+perfmon",
        "--ambient-caps=+bpf,+perfmon",
        "--",
    ];
    let (found, of_root) = (agent.probe(&with), agent.probe(&[]));
    found.works("perf_system_wide");
    found.works("perf_others");
    for id in ["bpf_map", "bpf_raw_tracepoint", "bpf_tp_btf", "bpf_perf_event"] {
        assert_eq!(found.state(id), of_root.state(id), "{id}");
    }
}

#[test]
fn capabilities_of_a_user_namespace_do_not_count() {
    let Some(_machine) = machine("a user namespace") else { return };
    let wrapper = ["unshare", "--user", "--map-root-user", "--"];
    let words = [&wrapper[..], &["true"]].concat();
    let allowed = command(&words).stderr(Stdio::null()).status();
    if !allowed.unwrap().success() {
        not_here("a user namespace", "a kernel that lets one be made");
        return;
    }
    let Some(_paranoid) = Sysctl::set("kernel.perf_event_paranoid", 2) else { return };
    let agent = Agent::new();
    let found = agent.probe(&wrapper);
    assert_eq!(found.0["surroundings"]["namespaces"], json!(["user"]));
    found.refused_for("perf_others", &["user_namespace"], "connect to the machine itself");
    found.refused_for("bpf_raw_tracepoint", &["user_namespace"], "connect to the machine itself");
    let printed = found.refused("perf_own_kernel", &["perf_event_paranoid"]);
    run_as_printed(&[], &printed, &["sysctl kernel.perf_event_paranoid=1"]);
    agent.probe(&wrapper).works("perf_own_kernel");
}

/// Puts a filter on itself that answers `perf_event_open` and `bpf` with `EPERM`, as container
/// engines do, and runs the rest of its words.
fn filter() -> String {
    // prctl, perf_event_open, bpf.
    let [prctl, perf, bpf] =
        if cfg!(target_arch = "x86_64") { [157, 298, 321] } else { [167, 241, 280] };
    format!(
        "my @f = ([0x20,0,0,0], [0x15,2,0,{perf}], [0x15,1,0,{bpf}], [6,0,0,0x7fff0000], \
         [6,0,0,0x00050001]); \
         my $f = join '', map {{ pack 'SCCL', @$_ }} @f; \
         my $p = pack 'S x6 P', scalar(@f), $f; \
         syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die; \
         syscall({prctl}, 22, 2, $p) == 0 or die; exec @ARGV or die"
    )
}

#[test]
fn a_seccomp_filter_is_told_from_what_the_kernel_refuses() {
    let Some(_machine) = machine("a seccomp filter") else { return };
    let script = filter();
    let filtered = ["perl", "-e", &script, "--"];
    let words = [&filtered[..], &["true"]].concat();
    let status = command(&words).status();
    if !status.is_ok_and(|status| status.success()) {
        not_run("a seccomp filter", "perl, and a kernel with seccomp filters");
        return;
    }
    let Some(_paranoid) = Sysctl::set("kernel.perf_event_paranoid", 2) else { return };
    let agent = Agent::new();
    let found = agent.probe(&filtered);
    assert_eq!(found.0["surroundings"]["seccomp_filter"], true);
    // The agent's own comes on top.
    assert_eq!(found.0["surroundings"]["sandbox"]["seccomp"], "enforced");
    for id in ["perf_own_user", "perf_own_kernel", "perf_system_wide", "bpf_map", "bpf_tp_btf"] {
        // The sysctl would change nothing for root.
        found.refused_for(id, &["seccomp"], "SystemCallFilter=");
    }
    found.works("ptrace_child");
    // For a user the sysctl is behind the filter.
    let user = [&filtered[..], &NOBODY].concat();
    let found = agent.probe(&user);
    let printed = found.refused("perf_own_kernel", &["seccomp", "perf_event_paranoid"]);
    assert_eq!(printed, ["sysctl kernel.perf_event_paranoid=1"]);
    let sentence = found.check("perf_own_kernel")["remedy"]["do"].as_str().unwrap();
    assert!(sentence.contains("SystemCallFilter=") && sentence.contains("; then "), "{sentence}");
    found.refused("bpf_tp_btf", &["seccomp", "capability"]);
    found.refused("perf_own_user", &["seccomp"]);
    // Without the filter, it works.
    agent.probe(&[]).works("perf_own_kernel");
}

#[test]
fn a_small_limit_of_locked_memory_leaves_less_for_samples() {
    let Some(_machine) = machine("the limit of locked memory") else { return };
    let (Some(_kib), Some(_paranoid)) = (
        Sysctl::set("kernel.perf_event_mlock_kb", 516),
        Sysctl::set("kernel.perf_event_paranoid", 2),
    ) else {
        not_here("the limit of locked memory", "a kernel with performance events");
        return;
    };
    let agent = Agent::new();
    let limited = [&["prlimit", "--memlock=65536:65536"], &NOBODY[..]].concat();
    let found = agent.probe(&limited);
    assert_eq!(found.state("perf_ring"), "in_part");
    let why = found.check("perf_ring")["why"].as_str().unwrap();
    assert!(why.contains("of 4096 KiB") && why.contains("is 64 KiB"), "{why}");
    let printed = found.refused("perf_ring", &["rlimit"]);
    run_as_printed(&[], &printed, &["sysctl kernel.perf_event_mlock_kb=4160"]);
    agent.probe(&limited).works("perf_ring");
}

#[test]
fn a_small_limit_of_open_files_is_named_with_its_number() {
    let agent = Agent::new();
    let found = agent.probe(&["prlimit", "--nofile=256:256", "--"]);
    assert_eq!(found.state("open_files"), "in_part");
    found.refused_for("open_files", &["rlimit"], "* hard nofile 4096");
    assert_eq!(found.0["surroundings"]["settings"]["open_files"], 256);
    agent.probe(&["prlimit", "--nofile=4096:4096", "--"]).works("open_files");
}

/// A program that is installed here, of those that are tried.
fn installed() -> Option<(&'static str, String, &'static str)> {
    [("tool_strace", "strace"), ("tool_perf", "perf"), ("tool_bpftrace", "bpftrace")]
        .into_iter()
        .map(|(id, name)| (id, format!("/usr/bin/{name}"), name))
        .find(|(_, path, _)| Path::new(path).is_file())
}

#[test]
fn a_program_is_not_there_hangs_fails_and_works() {
    let Some(_machine) = machine("foreign programs") else { return };
    let Some((id, path, name)) = installed() else {
        not_run("foreign programs", "strace, perf or bpftrace in /usr/bin");
        return;
    };
    let agent = Agent::new();
    let stage = tempfile::tempdir().unwrap();
    let stand_in = |file: &str, script: &str| {
        let place = stage.path().join(file);
        fs::write(&place, script).unwrap();
        fs::set_permissions(&place, fs::Permissions::from_mode(0o755)).unwrap();
        format!("mount --bind {} {path}", place.display())
    };
    let absent = Mounts::new(&stand_in("absent", ""));
    let found = agent.probe(&absent.enter());
    assert_eq!(found.state(id), "not_installed");
    let printed = found.refused(id, &["not_installed"]);
    let is_debian = fs::read_to_string("/etc/os-release").unwrap().contains("ID=debian");
    if is_debian && name != "perf" {
        assert_eq!(printed, [format!("apt-get install {name}")]);
    }

    let hanging = Mounts::new(&stand_in("hanging", "#!/bin/sh\nsleep 61 & sleep 61\n"));
    let started = Instant::now();
    let found = agent.probe(&hanging.enter());
    let took = started.elapsed();
    assert_eq!(found.state(id), "timed_out", "{}", found.check(id));
    assert!(took < Duration::from_secs(6), "{took:?}");
    let left = Command::new("pgrep").args(["-f", "^sleep 61$"]).output().unwrap();
    assert!(left.stdout.is_empty(), "{}", String::from_utf8_lossy(&left.stdout));

    let script = "#!/bin/sh\nprintf 'no \\033[31mluck\\n' >&2; exit 3\n";
    let failing = Mounts::new(&stand_in("failing", script));
    let found = agent.probe(&failing.enter());
    found.refused(id, &["program"]);
    assert_eq!(found.check(id)["said"], "no \\x1b[31mluck");

    // As it is installed. Too slow is an answer of its own.
    let state = agent.probe(&[]).state(id).to_owned();
    assert!(state == "works" || state == "timed_out", "{state}");
}

#[test]
fn it_changes_nothing_and_takes_less_than_three_seconds() {
    let Some(_machine) = machine("what looking costs") else { return };
    let agent = Agent::new();
    let settings = || -> BTreeMap<PathBuf, String> {
        let files = fs::read_dir("/proc/sys/kernel").unwrap().map(|file| file.unwrap().path());
        files
            .filter(|path| !path.ends_with("random") && !path.ends_with("ns_last_pid"))
            .filter_map(|path| Some((path.clone(), fs::read_to_string(path).ok()?)))
            .collect()
    };
    let mounts = || fs::read_to_string("/proc/self/mountinfo").unwrap();
    let before = (settings(), mounts());
    for wrapper in [&[][..], &NOBODY] {
        let started = Instant::now();
        let found = agent.probe(wrapper);
        let (took, bytes) = (started.elapsed(), default_answer(&agent, wrapper).len());
        let tried_ms = found.0["took_ms"].as_u64().unwrap();
        let cost = &found.0["meta"]["overhead"]["agent_cpu_ms"];
        println!(
            "capabilities: {tried_ms} ms, {cost} ms of processor time, {bytes} bytes, {took:?}"
        );
        assert!(tried_ms < 3000, "{tried_ms} ms");
        assert!(bytes < 5000, "{bytes} bytes");
    }
    assert_eq!(before, (settings(), mounts()));
}

fn default_answer(agent: &Agent, wrapper: &[&str]) -> Vec<u8> {
    let path = agent.path();
    let words = [wrapper, &[path.to_str().unwrap(), "--local", "capabilities", "--json"]].concat();
    command(&words).output().unwrap().stdout
}

#[test]
fn within_a_session_it_is_remembered_until_it_is_tried_again() {
    let sysmcp = Sysmcp::local().unwrap();
    let mut client = Client::start(sysmcp.command()).unwrap();
    let mut ask = |parameters: Value| {
        let result = client.call("capabilities", &parameters, Duration::from_secs(60)).unwrap();
        let answer = &result["structuredContent"];
        let text = |path: &str| answer.pointer(path).unwrap().to_string();
        (text("/meta/engine"), answer["age_ms"].as_u64().unwrap(), text("/working"))
    };
    let (engine, age_ms, working) = ask(json!({}));
    assert_eq!((engine.as_str(), age_ms), ("\"trials\"", 0));
    std::thread::sleep(Duration::from_millis(30));
    let (engine, age_ms, again) = ask(json!({"all": true}));
    assert_eq!((engine.as_str(), again), ("\"stored result\"", working));
    assert!(age_ms >= 30, "{age_ms}");
    let (engine, age_ms, _) = ask(json!({"refresh": true}));
    assert_eq!((engine.as_str(), age_ms), ("\"trials\"", 0));
}

#[test]
fn a_person_is_shown_the_same() {
    let sysmcp = Sysmcp::local().unwrap();
    let run = |words: &[&str]| {
        let output = sysmcp.command().args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let answer: Value = serde_json::from_str(&run(&["probe", "--json"])).unwrap();
    let text = run(&["probe"]);
    assert!(text.contains("\nworks\n") && text.contains("engine trials"), "{text}");
    for row in answer["checks"].as_array().unwrap() {
        for command in row["remedy"]["run"].as_array().into_iter().flatten() {
            assert!(
                text.contains(&format!("# {}", command.as_str().unwrap())),
                "{command}: {text}"
            );
        }
    }
    assert!(run(&["probe", "--all"]).contains("for which process"), "--all says what it is for");
}
