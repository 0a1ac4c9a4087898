//! Sessions in which every tool that is offered is called, with a record of each system call that is
//! made for it on the target: on this machine and over SSH, as root and as an ordinary user. What a
//! tool of tomorrow does is in them too: the list is the one that a client gets.

use super::{
    PATIENCE,
    record::{Call, Record},
};
use rustix::process::geteuid;
use scenarios::{
    behind::behind,
    client::Client,
    not_run::not_run,
    programs,
    servers::{
        Draft, INSIDE, Kind, Settings as ServerSettings, USER,
        login::{Way, identity, make_key, write_config},
    },
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::json;
use std::{collections::BTreeSet, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

/// What a client may be offered, all of it.
const ALL_TOOLS: [&str; 2] = ["--toolsets", "diagnose,selftest"];

/// Writes a record of each thread to files that begin so.
fn strace(record: &str) -> Vec<String> {
    ["strace", "-ff", "-s", "200", "-o", record].map(str::to_owned).to_vec()
}

/// The same of a user's program, by root: nobody else sees the words of a process that lets nobody
/// look into it, as the agent does (`PR_SET_DUMPABLE`).
fn strace_as(user: &str, record: &str) -> Vec<String> {
    let mut words = strace(record);
    words.extend(["-u", user].map(str::to_owned));
    words
}

fn is_there(check: &str) -> bool {
    let is_there = Command::new("strace").arg("-V").output().is_ok();
    if !is_there {
        not_run(check, "strace (package strace)");
    }
    is_there
}

/// Calls every tool that a client is offered, with what it has to be given: a process that is there,
/// and what another one kept of it.
fn call_every_tool(client: &mut Client, pid: u32) {
    let list = client.request("tools/list", &json!({}), PATIENCE).unwrap();
    let tools = list["tools"].as_array().unwrap().clone();
    let mut recording = json!("art-00000001");
    for tool in &tools {
        let name = tool["name"].as_str().unwrap();
        let needs = tool["inputSchema"]["required"].to_string();
        let mut arguments = json!({});
        if needs.contains("pid") || ["perf_record", "syscall_trace"].contains(&name) {
            arguments["pid"] = json!(pid);
        }
        if needs.contains("artifact") || name == "inspect_source" {
            arguments["artifact"] = recording.clone();
        }
        if needs.contains("folded") {
            arguments["folded"] = json!("main;work;hash 12\n");
        }
        let answer = client.call(name, &arguments, PATIENCE).unwrap();
        // The calls of another's process are nobody's to see without rights; what was tried is in the
        // record all the same.
        let is_anothers = name == "syscall_trace" && answer.to_string().contains("CAP_SYS_PTRACE");
        assert_eq!(answer.get("isError"), Some(&json!(is_anothers)), "{name}: {answer}");
        if name == "perf_record" {
            recording = answer["structuredContent"]["meta"]["artifact"].clone();
        }
    }
    assert!(tools.len() >= 9, "{} tools", tools.len());
}

/// A session from its start to its receipt, and what its record holds.
fn assert_session_reads_only(row: &str, command: Command, pid: u32, folder: &Path) {
    let mut client = Client::start(command).unwrap();
    call_every_tool(&mut client, pid);
    client.close();
    let (status, _) = client.ended(PATIENCE).unwrap().unwrap();
    assert_eq!(status.code(), Some(0), "{row}: a recorded session ends as any other");
    assert_reads_only(row, &Record::read(folder));
}

#[test]
fn the_record_of_a_session_holds_nothing_that_changes_the_target() {
    if !is_there("the record of a session") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sysmcp = Sysmcp::local().unwrap().with(&ALL_TOOLS);
    let words = strace(&folder.path().join("record").display().to_string());
    let command = behind(&words, &sysmcp.command());
    assert_session_reads_only("this machine", command, std::process::id(), folder.path());
}

#[test]
fn the_record_of_an_ordinary_users_session_holds_nothing_that_changes_the_target() {
    const WHAT: &str = "the record of an ordinary user's session";
    if !is_there(WHAT) {
        return;
    }
    if !geteuid().is_root() {
        return not_run(WHAT, "root, to become another user");
    }
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("sysmcp");
    std::fs::copy(programs::sysmcp(), &program).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = scenarios::without_settings::without_settings(program);
    command.args(["--target", "local", "--audit-log"]).arg(folder.path().join("audit.jsonl"));
    command.args(ALL_TOOLS).env("HOME", folder.path()).env_remove("XDG_RUNTIME_DIR");
    let words = strace_as("nobody", &folder.path().join("record").display().to_string());
    let command = behind(&words, &command);
    assert_session_reads_only("this machine, a user", command, std::process::id(), folder.path());
}

/// The line of a server that records what it starts for a login, in a folder.
fn recorded_there(words: &[String]) -> String {
    let words = words.join(" ");
    format!("ForceCommand exec {words} /bin/sh -c \"$SSH_ORIGINAL_COMMAND\"")
}

#[test]
fn the_record_of_a_session_over_ssh_holds_nothing_that_changes_the_target() {
    if !is_there("the record of a session over SSH") {
        return;
    }
    for way in ["russh", "openssh"] {
        let folder = tempfile::tempdir().unwrap();
        let words = strace(&folder.path().join("record").display().to_string());
        let server = vec![recorded_there(&words)];
        let sshd = Sshd::start(&Settings { server, ..Settings::default() }).unwrap();
        let sysmcp = Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)).with(&ALL_TOOLS);
        let (row, pid) = (format!("over {way}"), std::process::id());
        assert_session_reads_only(&row, sysmcp.command(), pid, folder.path());
    }
}

#[test]
fn the_record_of_an_ordinary_users_session_over_ssh_holds_nothing_that_changes_the_target() {
    const WHAT: &str = "the record of an ordinary user's session over SSH";
    if !is_there(WHAT) || !Kind::OpenSshHere.is_there(WHAT) {
        return;
    }
    if !Path::new("/usr/bin/sudo").exists() {
        return not_run(WHAT, "sudo (package sudo)");
    }
    let draft = Draft::new(Kind::OpenSshHere).unwrap();
    make_key(&draft.file("id"), &["ed25519"], "").unwrap();
    draft.authorize("id").unwrap();
    let folder = draft.file("records");
    std::fs::create_dir(&folder).unwrap();
    let mut words = ["sudo", "-n"].map(str::to_owned).to_vec();
    words.extend(strace_as(USER, &format!("{INSIDE}/records/record")));
    let sudoers = format!("Defaults !lecture\n{USER} ALL=(root) NOPASSWD: ALL\n");
    let settings = ServerSettings {
        etc: vec![("sudoers", sudoers)],
        ..ServerSettings::lines(&[&recorded_there(&words)])
    };
    let server = draft.start(&settings).unwrap();
    let config = write_config(&server, "config", &[identity(&server, "id")]).unwrap();
    let sysmcp = Sysmcp::local().unwrap().at(&Way::Russh.target(&server));
    let sysmcp = sysmcp.with_ssh_config(config).with(&ALL_TOOLS);
    // The server is the first of its namespace's processes.
    assert_session_reads_only("over russh, a user", sysmcp.command(), 1, &folder);
}

#[test]
fn the_record_of_a_capture_holds_nothing_that_changes_the_target() {
    if !is_there("the record of a capture") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut command = Sysmcp::local().unwrap().command();
    command.arg("capture").arg(folder.path().join("capture")).args(["--why", "a record"]);
    let words = strace(&folder.path().join("record").display().to_string());
    let output = behind(&words, &command).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_reads_only("a capture", &Record::read(folder.path()));
}

/// Names of calls that may not even be tried by whoever reads the machine.
const NEVER: [&str; 38] = [
    "connect",
    "socket",
    "bind",
    "listen",
    "sendto",
    "sendmsg",
    "execve",
    "execveat",
    "kill",
    "tkill",
    "pidfd_send_signal",
    "rt_sigqueueinfo",
    "unlink",
    "unlinkat",
    "rename",
    "renameat",
    "renameat2",
    "mkdir",
    "mkdirat",
    "rmdir",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "chmod",
    "fchmodat",
    "chown",
    "fchownat",
    "truncate",
    "ftruncate",
    "mount",
    "umount2",
    "setuid",
    "setxattr",
    "mknod",
    "mknodat",
    "creat",
    "init_module",
];

/// Calls that the kernel itself may refuse to a login, or that are tried to see who answers.
const MAY_BE_REFUSED: [&str; 12] = [
    "ptrace",
    "bpf",
    "perf_event_open",
    "openat",
    "open",
    "read",
    "pread64",
    "readlinkat",
    "readlink",
    "statfs",
    "openat2",
    "mmap",
];

fn assert_reads_only(row: &str, record: &Record) {
    let worker = record.worker_after_its_filter();
    let spawner = record.spawner_after_its_filter();
    let (programs, script) = (record.spawner_and_its_programs(), record.script());
    for (whose, calls) in [
        ("worker", &worker),
        ("spawner and programs", &programs),
        ("supervisor", &record.supervisor_after_the_fork()),
        ("start-up script", &script),
    ] {
        println!("{row}: {whose}: {} calls of {} kinds", calls.len(), names(calls).len());
        println!("  {}", names(calls).join(" "));
    }
    assert!(worker.len() > 200 && !spawner.is_empty(), "{} calls", worker.len());
    assert_writes_the_agent_only(row, record, &script);
    for call in &worker {
        assert!(!call.opens_for_writing(), "{row}: the worker: {call}");
        assert!(!NEVER.contains(&call.name.as_str()), "{row}: the worker: {call}");
        let is_refused = call.text.contains("= -1 EPERM") || call.text.contains("= -1 ENOSYS");
        let name = call.name.as_str();
        assert!(!is_refused || MAY_BE_REFUSED.contains(&name), "{row}: not on the list: {call}");
    }
    for call in programs {
        assert_ne!(call.name, "connect", "{row}: a program: {call}");
        // perf looks for its program in a folder of its own first.
        let is_another = call.is_done() && call.starts_another_program();
        assert!(!is_another, "{row}: a program: {call}");
        if call.opens_for_writing() && call.is_done() {
            let path = call.first_string().unwrap_or_default();
            let is_listed = path == "/dev/null" || path.starts_with("/sys/kernel/");
            assert!(is_listed, "{row}: a program: {call}");
        }
        if let ("kill" | "tkill", Some(target)) = (call.name.as_str(), call.first_number()) {
            let is_own = target == 0 || record.is_of_the_spawner(target.unsigned_abs());
            assert!(is_own, "{row}: a program: {call}");
        }
    }
    for call in record.supervisor_after_the_fork() {
        assert!(!call.opens_for_writing(), "{row}: the supervisor: {call}");
        assert!(
            !matches!(call.name.as_str(), "execve" | "connect"),
            "{row}: the supervisor: {call}"
        );
        if let ("kill", Some(target)) = (call.name.as_str(), call.first_number()) {
            assert!(record.is_of_the_agent(target.unsigned_abs()), "{row}: the supervisor: {call}");
        }
    }
}

/// What the start-up script starts, whatever folder it is in. Its own file it tries while that is
/// empty, and becomes it at the end.
const SCRIPTS_PROGRAMS: [&str; 13] = [
    "sh",
    "cat",
    "rmdir",
    "uname",
    "timeout",
    "mkdir",
    "chmod",
    "rm",
    "head",
    "dd",
    "gzip",
    "sha256sum",
    "/proc/self/fd/4",
];

/// The script may make one folder with one file, whose name says whose it is, and remove both.
fn assert_writes_the_agent_only(row: &str, record: &Record, script: &[&Call]) {
    let token = record.token();
    let folder = format!("/.sysmcp-{token}");
    let file = format!("{folder}/a");
    // The script goes into its folder, and nowhere else that it could change.
    let is_file = |path: &str| path.ends_with(&file) || ["a", "./a"].contains(&path);
    let mut written = BTreeSet::new();
    for call in script.iter().filter(|call| call.is_done()) {
        let path = call.first_string().unwrap_or_default();
        if call.opens_for_writing() && path != "/dev/null" {
            assert!(is_file(path) || path == "/proc/self/fd/4", "{row}: script: {call}");
            let _ = written.insert(path);
        }
        match call.name.as_str() {
            "execve" => {
                let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
                let is_listed = SCRIPTS_PROGRAMS.iter().any(|own| *own == name || *own == path);
                assert!(is_listed, "{row}: script: {call}");
            }
            "mkdir" | "mkdirat" => assert!(path.ends_with(&folder), "{row}: script: {call}"),
            "chmod" | "fchmodat" | "fchmodat2" => {
                assert!(is_file(path), "{row}: script: {call}");
            }
            "chdir" => {
                assert!(path.ends_with(&folder) || path == "/", "{row}: script: {call}");
            }
            "unlink" | "unlinkat" | "rmdir" => {
                assert!(path.ends_with(&folder) || is_file(path), "{row}: script: {call}");
            }
            other => assert!(!NEVER.contains(&other), "{row}: script: {call}"),
        }
    }
    assert!(!written.is_empty(), "{row}: the script wrote nothing");
}

fn names(calls: &[&Call]) -> Vec<String> {
    let names: BTreeSet<&String> = calls.iter().map(|call| &call.name).collect();
    names.into_iter().cloned().collect()
}

/// The readers of records have to see what they look for.
#[test]
fn a_call_that_changes_something_is_seen_in_a_record() {
    let call = |line: &str| Call::parse(line).unwrap();
    for line in [
        "openat(AT_FDCWD, \"/etc/x\", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3",
        "open(\"/etc/x\", O_RDWR|O_CLOEXEC) = -1 EPERM (Operation not permitted)",
    ] {
        assert!(call(line).opens_for_writing(), "{line}");
    }
    assert!(!call("openat(4, \"1/stat\", O_RDONLY|O_NOCTTY) = 5").opens_for_writing());
    for (line, is_another) in [
        (
            r#"execve("/usr/bin/perf", ["/usr/bin/perf", "--version"], 0x7f /* 2 vars */) = 0"#,
            false,
        ),
        (r#"execve("/usr/bin/perf", ["/usr/bin/perf", "record"], 0x7f /* 2 vars */) = 0"#, true),
        (r#"execve("/bin/sh", ["sh", "-c", "x"], 0x7f /* 2 vars */) = 0"#, true),
        (r#"execve("/usr/bin/true", ["true"], 0x7f /* 2 vars */) = 0"#, false),
        (r#"execve("/tmp/perf", ["/tmp/perf", "--version"], 0x7f /* 2 vars */) = 0"#, true),
    ] {
        assert_eq!(call(line).starts_another_program(), is_another, "{line}");
    }
    assert_eq!(call("kill(-77, SIGKILL) = 0").first_number(), Some(-77));
}
