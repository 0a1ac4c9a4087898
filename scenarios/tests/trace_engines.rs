//! Which engine answers a question about system calls, by what a login may: for each login the engine, what
//! is known no more, and what would lift that. And what a tracer does to those it traces: nothing that
//! stays.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use rustix::process::{Signal, geteuid};
use scenarios::{
    not_run::{not_here, not_run},
    programs,
    second_way::signal,
    victim::Victim,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::{Duration, Instant},
};

/// Becomes a user without rights.
const NOBODY: [&str; 5] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];

/// The same, with the two capabilities that measuring takes.
const CAPABLE: [&str; 7] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
    "--inh-caps=+perfmon,+bpf",
    "--ambient-caps=+perfmon,+bpf",
    "--",
];

/// Without tracefs, for itself alone.
const NO_TRACEFS: [&str; 6] =
    ["unshare", "--mount", "--", "sh", "-c", "umount -l /sys/kernel/tracing; exec \"$0\" \"$@\""];

/// Puts a filter on itself that refuses system calls, and runs the rest of its words.
fn without(calls: &[Refused]) -> Vec<String> {
    let tests: Vec<String> = calls
        .iter()
        .map(|call| format!("[0x15,0,1,{}], [6,0,0,0x50000+1]", call.number()))
        .collect();
    let prctl = if cfg!(target_arch = "x86_64") { 157 } else { 167 };
    let script = format!(
        "my @f = ([0x20,0,0,0], {}, [6,0,0,0x7fff0000]); \
         my $f = join '', map {{ pack 'SCCL', @$_ }} @f; \
         my $p = pack 'S x6 P', scalar(@f), $f; \
         syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die; \
         syscall({prctl}, 22, 2, $p) == 0 or die; exec @ARGV or die",
        tests.join(", ")
    );
    ["perl", "-e", &script, "--"].map(str::to_owned).to_vec()
}

/// A call that a filter refuses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Refused {
    Bpf,
    PerfEventOpen,
}

impl Refused {
    fn number(self) -> u32 {
        match (self, cfg!(target_arch = "x86_64")) {
            (Self::Bpf, true) => 321,
            (Self::Bpf, false) => 280,
            (Self::PerfEventOpen, true) => 298,
            (Self::PerfEventOpen, false) => 241,
        }
    }
}

/// What is the machine's is changed by one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The agent and programs, where everybody may run them.
struct Place {
    folder: tempfile::TempDir,
    agent: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = programs::agent_for_all(folder.path()).unwrap();
        Self { folder, agent }
    }

    /// A program of a C source; nothing where it cannot be made here.
    fn program(&self, name: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
        let path = self.folder.path().join(name);
        let text = path.with_extension("c");
        fs::write(&text, source).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O1", "-pthread"]).args(flags).arg("-o").arg(&path).arg(&text);
        if !compiler.stderr(Stdio::null()).status().unwrap().success() {
            return None;
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Some(path)
    }

    fn ask(&self, before: &[String], parameters: &Value) -> Result<Value, String> {
        let agent = self.agent.to_str().unwrap().to_owned();
        let words: Vec<String> = before.iter().cloned().chain([agent]).collect();
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).args(["--local", "syscall_trace", "--json", "--params"]);
        let output = command.arg(parameters.to_string()).output().unwrap();
        let said = || String::from_utf8_lossy(&output.stderr).into_owned();
        serde_json::from_slice(&output.stdout).map_err(|_| said())
    }
}

/// Opens a file that is there and one that is not, and sleeps a little, for good.
const OPENS: &str = r#"
#include <fcntl.h>
#include <unistd.h>
int main(void)
{
	char text[64];
	for (;;) {
		int file = open("/etc/passwd", O_RDONLY);
		if (read(file, text, sizeof text) < 0)
			return 1;
		close(file);
		open("/nowhere/at/all", O_RDONLY);
		usleep(2000);
	}
}
"#;

fn words(parts: &[&[&str]]) -> Vec<String> {
    parts.concat().iter().map(ToString::to_string).collect()
}

/// What is expected of a login.
struct Login {
    name: &'static str,
    before: Vec<String>,
    /// Whether the process is the user's own; it is root's else.
    is_own: bool,
    paranoid: Option<&'static str>,
    engine: &'static str,
    /// Better engines that were refused: the check, a part of why, and a part of the remedy.
    refused: &'static [(&'static str, &'static str, &'static str)],
}

const EBPF: &str = "eBPF";
const TRACEPOINTS: &str = "tracepoints";
const LOOKS: &str = "looks at threads";

const NO_CAPABILITIES: (&str, &str, &str) = ("bpf_tp_btf", "CAP_BPF", "as root");
const FILTERED_BPF: (&str, &str, &str) =
    ("bpf_tp_btf", "a seccomp filter answers bpf before the kernel does", "SystemCallFilter=");

fn logins() -> Vec<Login> {
    let nobody = words(&[&NOBODY]);
    let login = |name, before: Vec<String>, engine, refused| Login {
        name,
        before,
        is_own: false,
        paranoid: None,
        engine,
        refused,
    };
    let no_bpf = without(&[Refused::Bpf]);
    let neither = without(&[Refused::Bpf, Refused::PerfEventOpen]);
    let unmounted = words(&[&NO_TRACEFS]);
    vec![
        login("root", Vec::new(), EBPF, &[]),
        login("root without tracefs", unmounted.clone(), EBPF, &[]),
        Login {
            is_own: true,
            paranoid: Some("2"),
            ..login(
                "a user, perf_event_paranoid 2",
                nobody.clone(),
                LOOKS,
                &[NO_CAPABILITIES, ("tracefs", "only root may read it", "as root")],
            )
        },
        Login {
            is_own: true,
            paranoid: Some("1"),
            ..login(
                "a user, perf_event_paranoid 1",
                nobody,
                LOOKS,
                &[NO_CAPABILITIES, ("tracefs", "only root may read it", "as root")],
            )
        },
        Login {
            is_own: true,
            ..login("a user with CAP_PERFMON and CAP_BPF", words(&[&CAPABLE]), EBPF, &[])
        },
        login("root, bpf refused", no_bpf.clone(), TRACEPOINTS, &[FILTERED_BPF]),
        login(
            "root, bpf refused, without tracefs",
            [unmounted, no_bpf].concat(),
            LOOKS,
            &[
                FILTERED_BPF,
                (
                    "tracefs",
                    "tracefs is not mounted at /sys/kernel/tracing",
                    "mount -t tracefs tracefs /sys/kernel/tracing",
                ),
            ],
        ),
        login(
            "root, bpf and perf_event_open refused",
            neither,
            LOOKS,
            &[
                FILTERED_BPF,
                (
                    "perf_tracepoint",
                    "a seccomp filter answers perf_event_open before the kernel does",
                    "SystemCallFilter=",
                ),
            ],
        ),
    ]
}

/// A setting of the kernel, put back with this.
struct Paranoid(String);

impl Paranoid {
    const PATH: &str = "/proc/sys/kernel/perf_event_paranoid";

    fn set(value: &str) -> Option<Self> {
        let before = fs::read_to_string(Self::PATH).ok()?;
        fs::write(Self::PATH, value).ok()?;
        Some(Self(before))
    }
}

impl Drop for Paranoid {
    fn drop(&mut self) {
        let _ = fs::write(Self::PATH, &self.0);
    }
}

fn check(login: &Login, answer: &Value) {
    let Login { name, engine, refused, .. } = login;
    assert_eq!(answer["meta"]["engine"], *engine, "{name}: {answer}");
    let found = answer["refused"].as_array().unwrap();
    let ids: Vec<&str> = found.iter().map(|row| row["id"].as_str().unwrap()).collect();
    let wanted: Vec<&str> = refused.iter().map(|(id, ..)| *id).collect();
    assert_eq!(ids, wanted, "{name}: {answer}");
    for (row, (_, why, remedy)) in found.iter().zip(*refused) {
        assert!(row["why"].as_str().unwrap().contains(why), "{name}: {row}");
        assert!(row["remedy"].to_string().contains(remedy), "{name}: {row}");
    }
    if *engine == LOOKS {
        // What each thread is in is known, and what share of time that is; nothing else.
        assert!(answer["ended"].is_null() && answer["failed"].is_null(), "{name}: {answer}");
        let rows = answer["waits"].as_array().unwrap();
        assert!(rows.iter().all(|row| row["count"].is_null()), "{name}: {answer}");
        assert_eq!(rows[0]["share_pct"].as_f64(), Some(100.0), "{name}: {answer}");
        return;
    }
    let subjects = answer["subjects"].as_array().unwrap();
    let row = |path: &str| subjects.iter().find(|row| row["subject"]["name"] == path).unwrap();
    let (there, nowhere) = (row("/etc/passwd"), row("/nowhere/at/all"));
    assert!(there["count"].as_u64().unwrap() > 50, "{name}: {answer}");
    assert_eq!(nowhere["errors"][0]["error"], "ENOENT", "{name}: {answer}");
    assert_eq!(answer["meta"]["lost"]["events"], 0, "{name}: {answer}");
}

#[test]
fn each_login_gets_the_best_engine_that_it_may_have_and_is_told_why_no_better_one() {
    let name = "engines of syscall_trace by login";
    if !geteuid().is_root() {
        return not_run(name, "root, to become others");
    }
    if !Path::new("/sys/kernel/tracing/events/raw_syscalls").exists() {
        return not_here(name, "tracefs with raw_syscalls");
    }
    let _alone = alone();
    let place = Place::new();
    let program = place.program("opens", OPENS, &[]).unwrap();
    let program = program.to_str().unwrap();
    for login in logins() {
        let _paranoid = login.paranoid.map(Paranoid::set);
        let user: &[&str] = if login.is_own { &NOBODY } else { &[] };
        let running = Victim::settled(&[user, &[program]].concat()).unwrap();
        let parameters = json!({"pid": running.pid(), "window_ms": 1000, "mode": "detailed"});
        let answer = place.ask(&login.before, &parameters);
        check(&login, &answer.unwrap_or_else(|said| panic!("{}: {said}", login.name)));
    }
}

#[test]
fn a_user_is_told_nothing_of_anothers_process_and_which_capabilities_that_takes() {
    if !geteuid().is_root() {
        return not_run("system calls of another user's process", "root, to become another");
    }
    let place = Place::new();
    let sleeper = Victim::settled(&["sleep", "1000"]).unwrap();
    let parameters = json!({"pid": sleeper.pid(), "window_ms": 300});
    let said = place.ask(&words(&[&NOBODY]), &parameters).unwrap_err();
    assert!(said.contains("nothing could be traced"), "{said}");
    assert!(said.contains("CAP_SYS_PTRACE"), "{said}");
}

/// State and tracer of a thread, as the kernel tells them; nothing where it is gone.
fn state(tid: &str) -> Option<(char, u32)> {
    let text = fs::read_to_string(format!("/proc/{tid}/status")).ok()?;
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_default().trim().to_owned()
    };
    Some((value("State:").chars().next()?, value("TracerPid:").parse().ok()?))
}

/// Of all threads of a process and of its children.
fn assert_nobody_is_held(pid: u32, what: &str) {
    let mut tids = Vec::new();
    let mut pids = vec![pid.to_string()];
    while let Some(pid) = pids.pop() {
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { continue };
        for thread in threads.flatten() {
            let tid = thread.file_name().into_string().unwrap();
            let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
            pids.extend(children.unwrap_or_default().split_whitespace().map(str::to_owned));
            tids.push(tid);
        }
    }
    for tid in tids {
        if let Some((state, tracer)) = state(&tid) {
            assert!(!matches!(state, 'T' | 't') && tracer == 0, "{what}: {tid} {state} {tracer}");
        }
    }
}

/// Threads that start programs by `vfork`, one after another.
const FORKS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>
static void *start(void *nothing)
{
	for (;;) {
		pid_t child = vfork();
		if (child == 0) {
			execl("/bin/true", "true", (char *)0);
			_exit(1);
		}
		waitpid(child, 0, 0);
	}
	return nothing;
}
int main(void)
{
	pthread_t thread;
	pthread_create(&thread, 0, start, 0);
	pthread_create(&thread, 0, start, 0);
	start(0);
}
"#;

#[test]
fn whoever_starts_a_program_by_vfork_while_it_is_let_go_goes_on() {
    let place = Place::new();
    let program = place.program("forks", FORKS, &[]).unwrap();
    let running = Victim::settled(&[program.to_str().unwrap()]).unwrap();
    for round in 0..15 {
        let parameters =
            json!({"pid": running.pid(), "window_ms": 100 + 7 * round, "engine": "ptrace"});
        let answer = place.ask(&[], &parameters).unwrap();
        assert_eq!(answer["meta"]["engine"], "ptrace", "{answer}");
        assert_nobody_is_held(running.pid(), &format!("round {round}"));
    }
    // It still does what it did.
    let parameters = json!({"pid": running.pid(), "window_ms": 500, "engine": "ptrace"});
    let answer = place.ask(&[], &parameters).unwrap();
    assert!(answer["processes"].as_u64().unwrap() > 1, "{answer}");
    assert_nobody_is_held(running.pid(), "at the end");
}

#[test]
fn what_another_tracer_holds_is_refused_and_that_one_is_named() {
    let sleeper = Victim::settled(&["sleep", "1000"]).unwrap();
    let pid = sleeper.pid().to_string();
    let mut strace = Command::new("strace");
    strace.args(["-qq", "-o", "/dev/null", "-p", &pid]).stdin(Stdio::null());
    let Ok(tracer) = strace.spawn() else {
        return not_run("a process that another tracer holds", "strace");
    };
    let tracer = Victim(tracer);
    let started = Instant::now();
    while state(&pid).unwrap().1 != tracer.pid() {
        assert!(started.elapsed() < Duration::from_secs(20), "strace does not trace");
        sleep(Duration::from_millis(10));
    }
    let place = Place::new();
    let ask = |pid: u32| place.ask(&[], &json!({"pid": pid, "window_ms": 300, "engine": "ptrace"}));
    let said = ask(sleeper.pid()).unwrap_err();
    assert!(said.contains(&format!("process {} (`strace`) traces it", tracer.pid())), "{said}");
    assert_eq!(state(&pid).unwrap().1, tracer.pid());
    // The tracer itself is nobody's, and what it traces is left to it.
    let answer = ask(tracer.pid()).unwrap();
    assert_eq!(answer["meta"]["engine"], "ptrace", "{answer}");
    assert_eq!(state(&pid).unwrap().1, tracer.pid());
    assert_nobody_is_held(tracer.pid(), "a tracer that was traced");
}

#[test]
fn one_that_was_stopped_stays_so_and_goes_on_when_it_is_continued() {
    let sleeper = Victim::settled(&["sleep", "1000"]).unwrap();
    let pid = sleeper.pid().to_string();
    signal(sleeper.pid(), Signal::STOP).unwrap();
    let place = Place::new();
    let parameters = json!({"pid": sleeper.pid(), "window_ms": 300, "engine": "ptrace"});
    let answer = place.ask(&[], &parameters).unwrap();
    assert_eq!(answer["meta"]["engine"], "ptrace", "{answer}");
    let waits_for = |wanted: char| {
        let started = Instant::now();
        while state(&pid).unwrap() != (wanted, 0) {
            let found = state(&pid);
            assert!(started.elapsed() < Duration::from_secs(20), "{found:?}, not {wanted}");
            sleep(Duration::from_millis(10));
        }
    };
    waits_for('T');
    signal(sleeper.pid(), Signal::CONT).unwrap();
    waits_for('S');
}

/// A program of 32 bits, which needs no library: `getpid` is 20 there, and `nanosleep` 162.
const OF_32_BITS: &str = r#"
static int call(int number, void *first)
{
	int answer;
	__asm__ volatile("int $0x80" : "=a"(answer) : "a"(number), "b"(first), "c"(0), "d"(0) : "memory");
	return answer;
}
void _start(void)
{
	int time[2] = {0, 1000000};
	for (;;) {
		call(20, 0);
		call(162, time);
	}
}
"#;

#[test]
fn calls_of_a_program_of_32_bits_have_its_names_and_are_marked() {
    let name = "system calls of a program of 32 bits";
    if cfg!(not(target_arch = "x86_64")) {
        return not_here(name, "programs of 32 bits");
    }
    let place = Place::new();
    let flags = ["-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pic", "-no-pie"];
    let Some(program) = place.program("narrow", OF_32_BITS, &flags) else {
        return not_here(name, "a compiler for 32 bits");
    };
    let mut running = Victim::settled(&[program.to_str().unwrap()]).unwrap();
    if running.0.try_wait().unwrap().is_some() {
        return not_here(name, "a kernel that runs programs of 32 bits");
    }
    let engines: &[&str] =
        if geteuid().is_root() { &["ptrace", "tracepoints"] } else { &["ptrace"] };
    for engine in engines {
        let parameters = json!({"pid": running.pid(), "window_ms": 500, "engine": engine});
        let answer = place.ask(&[], &parameters).unwrap();
        let row = |list: &str, call: &str| {
            let rows = answer[list].as_array().unwrap();
            rows.iter().find(|row| row["call"] == call).cloned().unwrap_or_default()
        };
        for (list, call) in [("calls", "getpid"), ("waits", "nanosleep")] {
            let row = row(list, call);
            assert_eq!(row["is_32_bit"], true, "{engine} {call}: {answer}");
            assert!(row["count"].as_u64().unwrap() > 10, "{engine} {call}: {answer}");
        }
    }
    assert_nobody_is_held(running.pid(), "a program of 32 bits");
}
