//! Source lines of functions: shown where the source is, as the process sees it; with what a recording
//! has on each; and never a file that is no source of the process.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rustix::process::geteuid;
use scenarios::{client::Client, not_run::not_run, programs, sysmcp::Sysmcp, victim::Victim};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant, SystemTime},
};

const PATIENCE: Duration = Duration::from_secs(60);

/// Lines of `spin` in its source: the function, its loop, what the loop does.
const FIRST: u64 = 7;
const WORK: u64 = 9;
const LAST: u64 = 11;

/// Where the source is.
fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/source/spin.c")
}

/// Compiles it in a folder, next to a copy of the source. None without a compiler.
fn built(check: &str, folder: &Path, options: &[&str]) -> Option<PathBuf> {
    fs::copy(source(), folder.join("spin.c")).unwrap();
    let mut compiler = Command::new("gcc");
    compiler.args(options).args(["-o", "spin", "spin.c"]).current_dir(folder);
    match compiler.status() {
        Ok(status) => assert!(status.success()),
        Err(_) => {
            not_run(check, "a compiler (package gcc)");
            return None;
        }
    }
    Some(folder.join("spin"))
}

fn started(command: &mut Command) -> Victim {
    Victim::start_and_wait(command).unwrap().0
}

fn lines(answer: &Value) -> Vec<(u64, &str)> {
    let rows = answer["lines"].as_array().unwrap_or_else(|| panic!("no lines: {answer:#}"));
    let line = |row: &Value| row["line"].as_u64().unwrap();
    rows.iter().map(|row| (line(row), row["text"].as_str().unwrap_or("?"))).collect()
}

fn line(answer: &Value, number: u64) -> &Value {
    let rows = answer["lines"].as_array().unwrap();
    let row = rows.iter().find(|row| row["line"] == number);
    row.unwrap_or_else(|| panic!("no line {number}: {answer:#}"))
}

fn cannot_tell(answer: &Value) -> String {
    answer["cannot_tell"].to_string()
}

#[test]
fn the_lines_of_a_function_are_shown_with_those_that_became_code_and_without_secrets() {
    let folder = tempfile::tempdir().unwrap();
    let check = "source lines of a process";
    let Some(program) = built(check, folder.path(), &["-g", "-O1"]) else { return };
    let victim = started(&mut Command::new(&program));
    let sysmcp = Sysmcp::local().unwrap();
    let ask = |more: Value| {
        let mut parameters = json!({"pid": victim.pid(), "function": "spin"});
        parameters.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        sysmcp.answer("inspect_source", &parameters).unwrap()
    };
    let answer = ask(json!({}));
    assert_eq!(answer["function"]["name"], "spin", "{answer:#}");
    assert_eq!(answer["function"]["module"], "spin", "{answer:#}");
    assert_eq!(answer["text"], "shown", "{answer:#}");
    let path = folder.path().canonicalize().unwrap().join("spin.c");
    assert_eq!(answer["path"], path.to_str().unwrap());
    assert_eq!((&answer["is_newer"], &answer["pid"]), (&json!(false), &json!(victim.pid())));
    let all = fs::read_to_string(source()).unwrap().lines().count();
    assert_eq!(answer["file_lines"], all);
    let (first, last) = (&answer["first_line"], &answer["last_line"]);
    assert!(first.as_u64().unwrap() >= FIRST && last.as_u64().unwrap() <= LAST, "{answer:#}");
    let work = line(&answer, WORK);
    assert!(work["text"].as_str().unwrap().starts_with("        state = state *"), "{work}");
    assert_eq!(work["has_code"], true, "{work}");
    assert_eq!(line(&answer, LAST + 1)["has_code"], false);
    assert_eq!(answer["next"][0]["tool"], "perf_record", "{answer:#}");
    // The secret is in a line that is shown.
    assert!(lines(&answer).iter().any(|(_, text)| text.contains("password")), "{answer:#}");
    assert!(!answer.to_string().contains("hunter2"), "{answer:#}");
    assert!(answer["meta"]["redacted"].as_u64().unwrap() > 0, "{answer:#}");
    // What is cut is stated, and the lines that matter stay.
    let cut = ask(json!({"limit": 2, "context": 100}));
    assert_eq!(cut["meta"]["truncation"]["cut_by"], "limit", "{cut:#}");
    assert_eq!((&cut["meta"]["truncation"]["shown"], lines(&cut).len()), (&json!(2), 2));
    assert!(cut["meta"]["rest"].as_str().unwrap().contains("\"limit\":100"), "{cut:#}");
    // A part of a name is enough.
    let part = sysmcp.answer("inspect_source", &json!({"pid": victim.pid(), "function": "spi"}));
    assert_eq!(part.unwrap()["function"]["name"], "spin");
    let output = sysmcp
        .call("inspect_source", &json!({"pid": victim.pid(), "function": "no_such_function"}))
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let said = format!("{said}{}", String::from_utf8_lossy(&output.stdout));
    assert!(said.contains("functions that have a name in pid"), "{said}");
    assert!(said.contains("perf_report"), "{said}");
}

#[test]
fn a_recording_gives_each_line_its_share_and_is_asked_again_without_another() {
    let folder = tempfile::tempdir().unwrap();
    let check = "source lines of a recording";
    let Some(program) = built(check, folder.path(), &["-g", "-O1"]) else { return };
    let victim = started(&mut Command::new(&program));
    let mut client = Client::start(Sysmcp::local().unwrap().command()).unwrap();
    let mut ask = |tool: &str, parameters: Value| {
        let answer = client.call(tool, &parameters, PATIENCE).unwrap();
        assert_eq!(answer["isError"], false, "{tool}: {answer:#}");
        answer["structuredContent"].clone()
    };
    let pid = victim.pid();
    let recorded = ask("perf_record", json!({"pid": pid, "window_ms": 1500, "hertz": 499}));
    let artifact = recorded["meta"]["artifact"].clone();
    // The heaviest, where none is named.
    let answer = ask("inspect_source", json!({"artifact": artifact}));
    assert_eq!(answer["function"]["name"], "spin", "{answer:#}");
    assert_eq!(answer["text"], "shown", "{answer:#}");
    assert_eq!(answer["meta"]["engine"], "stored result", "{answer:#}");
    assert_eq!(answer["recording"]["samples"], recorded["recording"]["samples"]);
    let share = |row: &Value| row["weight_pct"].as_f64().unwrap();
    let rows = answer["lines"].as_array().unwrap();
    let inside = |row: &&Value| (FIRST..=LAST).contains(&row["line"].as_u64().unwrap());
    let on_lines: f64 = rows.iter().filter(inside).map(share).sum();
    let all: f64 = rows.iter().map(share).sum();
    assert!(on_lines > 80.0 && (all - on_lines).abs() < 1.0, "{on_lines} of {all}: {answer:#}");
    assert!(share(line(&answer, WORK)) > 10.0, "{answer:#}");
    assert!((share(&answer) - on_lines).abs() < 5.0, "{answer:#}");
    assert_eq!(line(&answer, WORK)["has_code"], true);
    assert_eq!(answer["is_newer"], false, "{answer:#}");

    // Changed since it was compiled.
    let copy = folder.path().join("spin.c");
    let file = fs::File::options().append(true).open(&copy).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(60)).unwrap();
    let answer = ask("inspect_source", json!({"artifact": artifact, "function": "spin"}));
    assert_eq!(answer["is_newer"], true, "{answer:#}");
    assert!(cannot_tell(&answer).contains("changed after the program was built"), "{answer:#}");

    // Elsewhere, as usual: lines and shares are there all the same.
    fs::remove_file(&copy).unwrap();
    let answer = ask("inspect_source", json!({"artifact": artifact, "function": "spin"}));
    assert_eq!(answer["text"], "not_there", "{answer:#}");
    let path = folder.path().canonicalize().unwrap().join("spin.c");
    assert_eq!(answer["file"], path.to_str().unwrap());
    assert!(share(line(&answer, WORK)) > 10.0, "{answer:#}");
    assert!(lines(&answer).iter().all(|(_, text)| *text == "?"), "{answer:#}");
    assert!(cannot_tell(&answer).contains("not on the target"), "{answer:#}");
    assert!(cannot_tell(&answer).contains("where the program was built"), "{answer:#}");

    // After the process: in the root of the agent, which is said.
    drop(victim);
    fs::copy(source(), &copy).unwrap();
    let answer = ask("inspect_source", json!({"artifact": artifact, "function": "spin"}));
    assert_eq!((&answer["text"], &answer["is_of_agent"]), (&json!("shown"), &json!(true)));
    assert!(cannot_tell(&answer).contains("the process has ended"), "{answer:#}");
    client.close();
}

#[test]
fn a_program_without_lines_says_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let check = "a function without source lines";
    let Some(program) = built(check, folder.path(), &["-g0", "-O1"]) else { return };
    let victim = started(&mut Command::new(&program));
    let parameters = json!({"pid": victim.pid(), "function": "spin"});
    let answer = Sysmcp::local().unwrap().answer("inspect_source", &parameters).unwrap();
    assert_eq!((&answer["text"], &answer["file"]), (&json!("no_lines"), &json!(null)));
    assert_eq!(answer["function"]["name"], "spin", "{answer:#}");
    assert_eq!(answer["lines"], json!([]));
    assert!(cannot_tell(&answer).contains("-dbgsym"), "{answer:#}");
}

/// A process in a root of its own, with a source that it was compiled from at `/srv/code/spin.c`.
struct Jail {
    top: tempfile::TempDir,
    victim: Option<Victim>,
}

impl Jail {
    /// None where that is not possible.
    fn new(check: &str) -> Option<Self> {
        if !geteuid().is_root() {
            not_run(check, "root, for a root folder of its own");
            return None;
        }
        let top = tempfile::tempdir().unwrap();
        let folder = top.path().join("build");
        fs::create_dir(&folder).unwrap();
        let map =
            format!("-ffile-prefix-map={}=/srv/code", folder.canonicalize().unwrap().display());
        let program = built(check, &folder, &["-g", "-O1", "-static", &map])?;
        let root = top.path().join("root");
        for inside in ["srv/code", "etc", "mounted"] {
            fs::create_dir_all(root.join(inside)).unwrap();
        }
        fs::copy(&program, root.join("spin")).unwrap();
        fs::write(top.path().join("outside.c"), "outside\n").unwrap();
        fs::write(root.join("etc/shadow"), "inside, and nobody's business\n").unwrap();
        let mut jail = Self { top, victim: None };
        // In a mount namespace of its own, where a folder is mounted that nobody else sees.
        let (build, mounted) = (folder.display().to_string(), jail.path("mounted"));
        let script = format!(
            "mount --bind '{build}' '{}' && exec chroot '{}' /spin",
            mounted.display(),
            root.display()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script]);
        jail.victim = Some(started(&mut command));
        Some(jail)
    }

    fn path(&self, inside: &str) -> PathBuf {
        self.top.path().join("root").join(inside)
    }

    fn pid(&self) -> u32 {
        self.victim.as_ref().unwrap().pid()
    }

    /// What is at the path of the source.
    fn put(&self, make: impl FnOnce(&Path)) {
        let at = self.path("srv/code/spin.c");
        let _ = fs::remove_file(&at);
        make(&at);
    }

    fn ask(&self, parameters: &Value) -> Value {
        let mut all = json!({"pid": self.pid()});
        all.as_object_mut().unwrap().extend(parameters.as_object().unwrap().clone());
        Sysmcp::local().unwrap().answer("inspect_source", &all).unwrap()
    }
}

#[test]
fn a_source_is_read_inside_of_the_processs_root_and_mounts_and_never_outside() {
    let Some(jail) = Jail::new("sources in a root of its own") else { return };
    let function = json!({"function": "spin"});
    let of_source = "state = state * 6364136223846793005u";
    let shows = |answer: &Value| lines(answer).iter().any(|(_, text)| text.contains(of_source));

    jail.put(|at| assert!(fs::copy(source(), at).unwrap() > 0));
    let answer = jail.ask(&function);
    assert_eq!((&answer["text"], &answer["path"]), (&json!("shown"), &json!("/srv/code/spin.c")));
    assert!(shows(&answer), "{answer:#}");
    // The program's file is found too, which is shown to us by its path outside.
    assert!(answer["is_newer"].is_boolean(), "{answer:#}");
    // What only this process has mounted there.
    let answer = jail.ask(&json!({"file": "/mounted/spin.c", "line": WORK}));
    assert!(shows(&answer), "{answer:#}");
    assert!(!jail.path("mounted/spin.c").exists(), "others see what is mounted");
    jail.put(|at| symlink("../.././../../mounted/./spin.c", at).unwrap());
    let answer = jail.ask(&function);
    assert_eq!(answer["path"], "/mounted/spin.c", "{answer:#}");

    let outside = jail.top.path().join("outside.c");
    let up = format!("{}{}", "../".repeat(30), outside.display());
    let root = format!("/proc/self/root{}", outside.display());
    let host = format!("/proc/{}/root{}", std::process::id(), outside.display());
    let links = [
        (outside.to_str().unwrap(), "not_there"),
        (&up, "not_there"),
        (&root, "not_there"),
        (&host, "not_there"),
        ("spin.c", "too_far"),
        ("/etc/shadow", "not_a_source"),
        ("/etc", "not_a_file"),
        ("/spin/spin.c", "not_there"),
    ];
    for (target, want) in links {
        jail.put(|at| symlink(target, at).unwrap());
        let answer = jail.ask(&function);
        assert_eq!(answer["text"], want, "{target}: {answer:#}");
        assert!(!answer.to_string().contains("\"outside"), "{target}: {answer:#}");
        assert!(!answer.to_string().contains("nobody's business"), "{target}: {answer:#}");
    }
    // A pipe holds whoever opens it.
    jail.put(|at| {
        let mode = rustix::fs::Mode::from_raw_mode(0o644);
        rustix::fs::mkfifoat(rustix::fs::CWD, at, mode).unwrap();
    });
    let started = Instant::now();
    assert_eq!(jail.ask(&function)["text"], "not_a_file");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn only_sources_are_read_of_a_process_by_path_and_none_with_secrets() {
    if Command::new("python3").arg("-V").stdout(Stdio::null()).status().is_err() {
        return not_run("the source of a script", "python3 (package python3-venv)");
    }
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("app.py");
    let text = "import time\n\n\ndef work():\n\ttime.sleep(60)\n\n\nprint(flush=True)\nwork()\n";
    fs::write(&script, text).unwrap();
    for name in [".env", "key.pem", "plain"] {
        fs::write(folder.path().join(name), "nobody's business").unwrap();
    }
    let victim = started(Command::new("python3").arg(&script));
    let sysmcp = Sysmcp::local().unwrap();
    let ask = |file: &str| {
        let parameters = json!({"pid": victim.pid(), "file": file, "line": 5, "context": 2});
        sysmcp.answer("inspect_source", &parameters).unwrap()
    };
    let answer = ask(script.to_str().unwrap());
    let want = [(3, ""), (4, "def work():"), (5, "    time.sleep(60)"), (6, ""), (7, "")];
    assert_eq!(lines(&answer), want, "{answer:#}");
    assert_eq!((&answer["file_lines"], &answer["recording"]), (&json!(9), &json!(null)));
    let here = |name: &str| folder.path().join(name).display().to_string();
    let pid = victim.pid();
    let refused = [
        (here(".env"), "secret"),
        (here("key.pem"), "not_a_source"),
        (here("plain"), "not_a_source"),
        (here("missing.py"), "not_there"),
        ("/etc/shadow".to_owned(), "not_a_source"),
        ("/srv/.ssh/config.py".to_owned(), "secret"),
        (format!("/proc/{pid}/environ"), "of_the_kernel"),
        (format!("/proc/{pid}/cwd/x.py"), "of_the_kernel"),
        (format!("/tmp/../proc/{pid}/x.py"), "of_the_kernel"),
        ("/dev/stdin.py".to_owned(), "of_the_kernel"),
    ];
    for (path, want) in refused {
        let answer = ask(&path);
        assert_eq!(answer["text"], want, "{path}: {answer:#}");
        assert!(cannot_tell(&answer).contains("what stands on the lines"), "{answer:#}");
        assert!(!answer.to_string().contains("nobody's business"), "{path}: {answer:#}");
    }
}

#[test]
fn an_ordinary_user_is_told_what_it_takes_to_see_anothers_source() {
    if !geteuid().is_root() {
        return not_run("another user's source", "root, to be two users");
    }
    let folder = tempfile::tempdir().unwrap();
    let check = "another user's source";
    let Some(program) = built(check, folder.path(), &["-g", "-O1"]) else { return };
    let victim = started(&mut Command::new(&program));
    let place = tempfile::tempdir().unwrap();
    let agent = programs::agent_for_all(place.path()).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ask = |parameters: Value| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&agent);
        command.args(["--local", "inspect_source", "--json", "--params"]);
        let output = command.arg(parameters.to_string()).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}{}", text(&output.stdout), text(&output.stderr))
    };
    let said = ask(json!({"pid": victim.pid(), "function": "spin"}));
    assert!(said.contains("/maps") && said.contains("connect as root"), "{said}");
    let file = folder.path().join("spin.c");
    let said = ask(json!({"pid": victim.pid(), "file": file, "line": WORK}));
    assert!(said.contains("\"not_permitted\""), "{said}");
    assert!(!said.contains("6364136223846793005u"), "{said}");
}
