//! Commands that a person launches to see their system calls: the numbers are exact from the first call on,
//! and nothing of a command is left, whatever ends it.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal, geteuid, kill_process_group};
use scenarios::{not_run::not_run, programs, second_way::signal, terminal, victim::built};
use serde_json::{Value, json};
use std::{
    fs,
    io::BufReader,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Becomes a user without rights.
const NOBODY: [&str; 5] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"];

/// What marks the processes of one test.
const MARK: &str = "LAUNCHED_BY";

/// An agent and a command of one test alone, in a folder of their own.
struct Place {
    folder: TempDir,
    agent: PathBuf,
    command: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let agent = programs::agent_for_all(folder.path()).unwrap();
        let command = built("launched/command.c", folder.path()).unwrap();
        fs::set_permissions(&command, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, agent, command }
    }

    /// The agent, asked about a command; behind other words, where there are some.
    fn agent(&self, before: &[&str], parameters: &Value, launched: &[&str]) -> Command {
        let agent = self.agent.to_str().unwrap();
        let mut words = before.iter().copied().chain([agent]);
        let mut command = Command::new(words.next().unwrap());
        // Where cargo sets it, every program looks for its libraries there first.
        command.env_remove("LD_LIBRARY_PATH").env(MARK, self.folder.path());
        command.args(words).args(["--local", "syscall_trace", "--json", "--params"]);
        command.arg(parameters.to_string()).arg("--").args(launched);
        command
    }

    fn ask(&self, before: &[&str], parameters: &Value, words: &[&str]) -> (Value, String) {
        let launched = [&[self.command.to_str().unwrap()], words].concat();
        answer(&self.agent(before, parameters, &launched).output().unwrap())
    }

    /// Lets a command run that never ends, until it says that it is ready.
    fn forever(&self, parameters: &Value) -> (Child, BufReader<std::process::ChildStderr>) {
        let launched = [self.command.to_str().unwrap(), "forever"];
        let mut agent = self.agent(&[], parameters, &launched);
        agent.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut agent = agent.spawn().unwrap();
        let words = BufReader::new(agent.stderr.take().unwrap());
        (agent, words)
    }

    /// Processes of the agent, of the command, and of all that it started: they have the folder's name in
    /// their environment.
    fn left(&self) -> Vec<PathBuf> {
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        let mark = format!("{MARK}={}", self.folder.path().display());
        let is_ours = |folder: &PathBuf| {
            // One that has ended and was not waited for yet has none.
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())
        };
        all.filter(is_ours).collect()
    }

    fn assert_nothing_left(&self, when: &str) {
        let began = Instant::now();
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(began.elapsed() < Duration::from_secs(10), "{when}: {left:?}");
            sleep(Duration::from_millis(5));
        }
    }
}

fn answer(output: &Output) -> (Value, String) {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match serde_json::from_slice(&output.stdout) {
        Ok(answer) => (answer, said),
        Err(error) => panic!("{error}: {said}"),
    }
}

/// How often a call was made.
fn count(answer: &Value, call: &str) -> u64 {
    let rows = ["calls", "waits"].into_iter().flat_map(|list| answer[list].as_array().unwrap());
    rows.filter(|row| row["call"] == call).map(|row| row["count"].as_u64().unwrap()).sum()
}

fn until_ready(words: &mut impl std::io::BufRead) {
    let mut line = String::new();
    words.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
}

fn is_root(check: &str) -> bool {
    if !geteuid().is_root() {
        not_run(check, "root");
    }
    geteuid().is_root()
}

#[test]
fn calls_are_counted_from_the_first_on_over_threads_and_children() {
    const THREADS: u64 = 4;
    const ROUNDS: u64 = 250;
    let place = Place::new();
    let users: &[&[&str]] =
        if is_root("calls of a command as nobody") { &[&[], &NOBODY] } else { &[&[]] };
    let all = json!({"limit": 100});
    let some = json!({"limit": 100, "calls": ["execve", "openat", "read", "close", "getsid"]});
    for (before, parameters) in users.iter().flat_map(|user| [(user, &all), (user, &some)]) {
        let threads = THREADS.to_string();
        let asked = |rounds: u64| {
            let words = ["calls", &threads, &rounds.to_string()];
            let (answer, said) = place.ask(before, parameters, &words);
            assert_eq!((&answer["command"]["exit_code"], said.as_str()), (&json!(0), ""));
            assert_eq!(answer["meta"]["engine"], "ptrace");
            assert_eq!(
                (&answer["begun_before"], &answer["unfinished_total"]),
                (&json!(0), &json!(0))
            );
            assert_eq!(answer["meta"]["lost"]["events"], 0);
            answer
        };
        // What the loader and the library do is the same in both.
        let (none, many) = (asked(0), asked(ROUNDS));
        let want = 2 * THREADS * ROUNDS;
        for call in ["openat", "read", "close"] {
            let found = count(&many, call) - count(&none, call);
            assert_eq!(found, want, "{call} {before:?} {parameters}");
        }
        assert_eq!((count(&many, "getsid"), count(&none, "getsid")), (want, 0));
        // The one by which it is run, and that of its child.
        assert_eq!((count(&many, "execve"), &many["processes"]), (2, &json!(2)));
        let is_filtered = parameters["calls"].is_array();
        assert_eq!(count(&many, "mmap") == 0, is_filtered);
        assert_eq!(many["name"], "command");
        let notes = many["command"]["notes"].to_string();
        assert_eq!(notes.contains("seccomp filter: the calls that were asked for"), is_filtered);
    }
    place.assert_nothing_left("at the end");
}

#[test]
fn what_some_calls_are_about_is_known_by_those_that_open() {
    let place = Place::new();
    let parameters = json!({"mode": "detailed", "calls": ["read"]});
    let (answer, _) = place.ask(&[], &parameters, &["calls", "1", "100"]);
    let rows = answer["subjects"].as_array().unwrap();
    let read = rows.iter().find(|row| row["subject"]["name"] == "/etc/passwd").unwrap();
    assert_eq!((&read["count"], &read["processes"]), (&json!(200), &json!(2)), "{answer}");
    let calls: Vec<&Value> =
        answer["calls"].as_array().unwrap().iter().map(|row| &row["call"]).collect();
    assert_eq!(calls, ["read"]);
}

#[test]
fn what_a_command_has_from_the_person_is_named_however_short_it_lives() {
    let place = Place::new();
    fs::write(place.folder.path().join("input"), "text\n").unwrap();
    for calls in [&["read", "write"][..], &["openat", "read", "write"]] {
        let parameters = json!({"mode": "detailed", "limit": 100, "calls": calls});
        let mut agent = place.agent(&[], &parameters, &["cat", "input", "-"]);
        agent.current_dir(place.folder.path()).stdin(fs::File::open("/etc/passwd").unwrap());
        let (answer, _) = answer(&agent.output().unwrap());
        let lists = ["subjects", "waited_for"].into_iter();
        let rows = lists.flat_map(|list| answer[list].as_array().unwrap());
        let names: Vec<&str> = rows.map(|row| row["subject"]["name"].as_str().unwrap()).collect();
        let input = place.folder.path().join("input");
        for want in [input.to_str().unwrap(), "/etc/passwd"] {
            assert!(names.contains(&want), "{want}: {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("closed since")), "{names:?}");
    }
}

#[test]
fn what_a_command_says_goes_to_stderr_and_how_it_ended_is_told() {
    let place = Place::new();
    for (script, code, killed_by, want) in [
        ("echo out; echo err >&2; exit 3", json!(3), json!(null), "out\nerr\n"),
        ("kill -9 $$", json!(null), json!(9), ""),
        ("cat", json!(0), json!(null), "from stdin\n"),
        ("sleep 0.3 & exit 7", json!(7), json!(null), ""),
    ] {
        let input = place.folder.path().join("input");
        fs::write(&input, "from stdin\n").unwrap();
        let mut agent = place.agent(&[], &json!({}), &["sh", "-c", script]);
        agent.stdin(fs::File::open(&input).unwrap());
        let (answer, said) = answer(&agent.output().unwrap());
        let command = &answer["command"];
        assert_eq!((&command["exit_code"], &command["signal"]), (&code, &killed_by), "{script}");
        assert_eq!(
            (command["ended_by"].as_str(), said.as_str()),
            (Some("itself"), want),
            "{script}"
        );
        assert_eq!(command["words"], json!(["sh", "-c", script]));
    }
}

#[test]
fn a_command_has_what_the_persons_shell_would_give_it() {
    let place = Place::new();
    let script = "ulimit -n; pwd; echo $MINE; grep -E 'Sig(Ign|Blk)' /proc/self/status; ls /proc/self/fd | wc -l";
    let outer = |rest: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -S -n 64; {rest}"), "sh", script]);
        command.env("MINE", "my own").current_dir(place.folder.path());
        command.output().unwrap()
    };
    let alone = outer("exec sh -c \"$1\"");
    let agent = place.agent.display();
    let launched = outer(&format!("exec {agent} --local syscall_trace -- sh -c \"$1\""));
    let alone = String::from_utf8(alone.stdout).unwrap();
    assert!(alone.starts_with("64\n"), "{alone}");
    assert_eq!(String::from_utf8(launched.stderr).unwrap(), alone);
}

#[test]
fn a_command_that_never_ends_is_ended_with_the_window() {
    /// Long enough for what is started to be there, on a machine that is busy too.
    const WINDOW_MS: u64 = 3_000;
    let place = Place::new();
    for parameters in [
        json!({"window_ms": WINDOW_MS}),
        json!({"window_ms": WINDOW_MS, "calls": ["getsid", "openat"]}),
    ] {
        let began = Instant::now();
        let (answer, said) = place.ask(&[], &parameters, &["forever"]);
        assert!(began.elapsed() < Duration::from_secs(15), "{:?}", began.elapsed());
        place.assert_nothing_left("after the window");
        assert_eq!(said, "ready\n");
        let command = &answer["command"];
        assert_eq!((&command["signal"], &command["ended_by"]), (&json!(15), &json!("window")));
        assert!(command["notes"].to_string().contains("the window was over"), "{command}");
        assert!(count(&answer, "getsid") > 10, "{answer}");
        let window_ms = answer["meta"]["window_ms"].as_u64().unwrap();
        assert!((WINDOW_MS - 100..2 * WINDOW_MS).contains(&window_ms), "{window_ms}");
    }
}

#[test]
fn an_interrupt_ends_both_and_what_was_counted_is_told() {
    let place = Place::new();
    for with in [Signal::INT, Signal::TERM, Signal::HUP] {
        let (agent, mut words) = place.forever(&json!({}));
        until_ready(&mut words);
        sleep(Duration::from_millis(100));
        // A terminal sends it to all that it runs.
        let group = Pid::from_raw(agent.id().cast_signed()).unwrap();
        kill_process_group(group, with).unwrap();
        let (answer, _) = answer(&agent.wait_with_output().unwrap());
        place.assert_nothing_left("after an interrupt");
        assert_eq!(answer["command"]["ended_by"], "interrupt", "{with:?}");
        assert!(count(&answer, "getsid") > 10, "{answer}");
    }
}

#[test]
fn at_a_terminal_a_command_ends_by_itself_if_it_can_and_is_told_of_all_the_same() {
    let place = Place::new();
    let path = place.folder.path().join("cleans");
    let agent = place.agent.display();
    for (trap, wants) in [
        ("trap 'echo cleaned up; exit 9' INT", ["cleaned up", "exited with 9"]),
        ("trap '' INT TERM", ["ended by signal 9", "the agent was asked to end"]),
    ] {
        fs::write(&path, format!("{trap}\necho at work\nwhile :; do sleep 0.05; done\n")).unwrap();
        let folder = place.folder.path().display();
        let line = format!("{MARK}={folder} {agent} --local syscall_trace -- sh {folder}/cleans");
        let screen = terminal::run(&line, &[("at work", b"\x03")]).unwrap();
        for want in wants.iter().chain(&["calls that work", "code 0"]) {
            assert!(screen.contains(*want), "{want}: {screen}");
        }
        place.assert_nothing_left(trap);
    }
}

#[test]
fn nothing_of_a_command_outlives_an_agent_that_is_killed() {
    let place = Place::new();
    let all = [json!({}), json!({"calls": ["getsid"]})];
    for round in 0..20 {
        let (mut agent, mut words) = place.forever(&all[round % 2]);
        if round % 4 < 2 {
            until_ready(&mut words);
        }
        sleep(Duration::from_millis(u64::try_from(round).unwrap() * 2));
        agent.kill().unwrap();
        agent.wait().unwrap();
        place.assert_nothing_left(&format!("round {round}"));
    }
}

#[test]
fn nothing_of_a_command_outlives_its_tracer() {
    let place = Place::new();
    for parameters in [json!({}), json!({"calls": ["getsid"]})] {
        let (agent, mut words) = place.forever(&parameters);
        until_ready(&mut words);
        let all = fs::read_to_string(format!("/proc/{0}/task/{0}/children", agent.id())).unwrap();
        let spawner = all.split_whitespace().next().unwrap().parse().unwrap();
        signal(spawner, Signal::KILL).unwrap();
        let output = agent.wait_with_output().unwrap();
        place.assert_nothing_left("without its tracer");
        let mut said = String::new();
        std::io::Read::read_to_string(&mut words, &mut said).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(said.contains("the process of the agent that traces went away"), "{said}");
    }
}

#[test]
fn what_cannot_be_launched_is_named_with_what_helps() {
    let place = Place::new();
    let file = |name: &str, text: &str, mode: u32| {
        let path = place.folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let text = file("text", "echo\n", 0o755);
    let orphan = file("orphan", "#!/no/such/shell\n", 0o755);
    let none = json!({});
    let cases: [(&Value, &[&str], i32, &str); 6] = [
        (&none, &["no-such-command"], 1, "`no-such-command` is not found in any folder of PATH"),
        (&none, &["/no/such"], 1, "`/no/such` is not there"),
        (&none, &[&text], 1, "name what runs it first, as in `sh "),
        (&none, &[&orphan], 1, "what it names to run it with is not there"),
        (&none, &[], 64, "no command after `--`"),
        (&json!({"pid": 1}), &["ls"], 64, "`pid` does not go with a command"),
    ];
    for (parameters, launched, code, want) in cases {
        let output = place.agent(&[], parameters, launched).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(want) && output.stdout.is_empty(), "{launched:?}: {said}");
        assert_eq!(output.status.code(), Some(code), "{launched:?}");
        place.assert_nothing_left("after an error");
    }
}

/// Puts a filter on itself that refuses `ptrace`, and runs the rest of its words.
fn without_ptrace() -> Vec<String> {
    let (ptrace, prctl) = if cfg!(target_arch = "x86_64") { (101, 157) } else { (117, 167) };
    let script = format!(
        "my @f = ([0x20,0,0,0], [0x15,0,1,{ptrace}], [6,0,0,0x50000+1], [6,0,0,0x7fff0000]); \
         my $f = join '', map {{ pack 'SCCL', @$_ }} @f; \
         my $p = pack 'S x6 P', scalar(@f), $f; \
         syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die; \
         syscall({prctl}, 22, 2, $p) == 0 or die; exec @ARGV or die"
    );
    ["perl", "-e", &script, "--"].map(str::to_owned).to_vec()
}

#[test]
fn where_ptrace_is_refused_the_command_does_not_run_and_who_refuses_is_named() {
    let place = Place::new();
    let mark = place.folder.path().join("ran");
    let before = without_ptrace();
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    let mut agent = place.agent(&before, &json!({}), &["touch", mark.to_str().unwrap()]);
    let output = agent.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("ptrace of an own child") && said.contains("seccomp"), "{said}");
    assert!(!mark.exists());
    place.assert_nothing_left("after a refusal");
}

#[test]
fn a_program_of_anothers_rights_runs_without_them_and_the_answer_says_so() {
    if !is_root("a set-user-id command") {
        return;
    }
    let place = Place::new();
    let (plain, said) = place.ask(&NOBODY, &json!({}), &["user"]);
    assert_eq!(
        (said.as_str(), plain["command"]["notes"].as_array().unwrap().len()),
        ("user 65534\n", 1)
    );
    fs::set_permissions(&place.command, fs::Permissions::from_mode(0o4755)).unwrap();
    for parameters in [json!({}), json!({"calls": ["openat"]})] {
        let (answer, said) = place.ask(&NOBODY, &parameters, &["user"]);
        assert_eq!(said, "user 65534\n");
        let notes = answer["command"]["notes"].to_string();
        assert!(notes.contains("set-user-id") && notes.contains("had no effect"), "{notes}");
    }
}

#[test]
fn no_session_launches_a_command() {
    let place = Place::new();
    let mark = place.folder.path().join("ran");
    let touch = ["touch", mark.to_str().unwrap()];
    // A request has no field for one.
    for field in ["command", "launch", "argv", "words", "exec", "--"] {
        let parameters = json!({ field: touch });
        let mut agent = Command::new(&place.agent);
        agent.args(["--local", "syscall_trace", "--params", &parameters.to_string()]);
        let output = agent.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains("unknown field"), "{field}: {said}");
    }
    // Nor has the command line of a session.
    let (token, folder) = ("a".repeat(32), Path::new("/no/such/folder").to_str().unwrap());
    for words in
        [&["serve", &token, folder, "--"][..], &["serve", &token, "--local", "syscall_trace", "--"]]
    {
        let mut agent = Command::new(&place.agent);
        let output = agent.args(words).args(touch).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(64), "{output:?}");
    }
    assert!(!mark.exists());
}
