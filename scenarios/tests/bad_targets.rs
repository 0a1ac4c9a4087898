//! Targets that will not do: one clear line each, an exit code of its own, and nothing left.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use scenarios::{
    not_run::{is_full, not_run},
    second_way,
    sshd::{Places, Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Output},
};

fn server_lines(lines: &[&str]) -> Settings {
    Settings { server: lines.iter().map(ToString::to_string).collect(), ..Settings::default() }
}

/// Calls a tool with no terminal anywhere, and checks the exit code and what was said.
fn check(sysmcp: &Sysmcp, code: i32, says: &[&str]) -> String {
    let mut command = sysmcp.without_a_terminal();
    let output: Output =
        command.args(["call", "process_list", "--params", "{\"limit\":1}"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    let is_stage = |line: &str| line.contains(": connecting to ") || line.contains("sending the");
    let lines: Vec<&str> = said.lines().filter(|line| !is_stage(line)).collect();
    assert_eq!(lines.len(), 1, "one line says what is wrong: {said}");
    for words in says {
        assert!(said.contains(words), "{words:?} is not in: {said}");
    }
    assert!(output.stdout.is_empty());
    said
}

fn assert_nothing_left(sshd: &Sshd) {
    let left = second_way::left_on(sshd).unwrap();
    assert!(left.is_empty(), "left on the target: {left:#?}");
}

#[test]
fn a_target_that_is_none() {
    let sysmcp = Sysmcp::local().unwrap();
    for target in ["web-1", "ssh:-oProxyCommand=id@x", "ssh:a:hunter2@b", "lxc:x"] {
        let sysmcp = Sysmcp::local().unwrap().at(target);
        let said = check(&sysmcp, 10, &["target"]);
        assert!(!said.contains("hunter2"), "{said}");
    }
    drop(sysmcp);
}

#[test]
fn a_target_that_does_not_answer() {
    let sysmcp = Sysmcp::local().unwrap().at("ssh:me@127.0.0.1:1");
    check(&sysmcp, 11, &["Connection refused"]);
    // It accepts, and says nothing.
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let target = format!("ssh:me@127.0.0.1:{}", silent.local_addr().unwrap().port());
    let sysmcp = Sysmcp::local().unwrap().at(&target).with(&["--connect-timeout", "2"]);
    check(&sysmcp, 11, &["connecting took longer than 2 s", "--connect-timeout"]);
}

#[test]
fn a_host_key_that_is_unknown_or_has_changed() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let known_hosts = sshd.file("known_hosts");
    fs::write(&known_hosts, "").unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap();
    let by_hand = format!(" -p {} root@127.0.0.1", sshd.port);
    check(&sysmcp, 12, &["is not known", &by_hand]);
    let other = fs::read_to_string(sshd.file("id.pub")).unwrap();
    fs::write(&known_hosts, format!("[127.0.0.1]:{} {other}", sshd.port)).unwrap();
    let host = format!("'[127.0.0.1]:{}'", sshd.port);
    let file = known_hosts.display();
    let forget = format!("ssh-keygen -f {file} -R {host}");
    for way in ["russh", "openssh"] {
        let sysmcp = Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way));
        check(&sysmcp, 12, &["has changed", &forget]);
    }
}

#[test]
fn a_login_that_is_refused() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    fs::write(sshd.file("authorized_keys"), "").unwrap();
    check(&Sysmcp::over(&sshd).unwrap(), 13, &["does not let", "Permission denied"]);
}

#[test]
fn a_passphrase_and_no_terminal() {
    let settings = Settings { passphrase: Some("hunter2".to_owned()), ..Settings::default() };
    let sshd = Sshd::start(&settings).unwrap();
    let key = sshd.file("id").display().to_string();
    check(&Sysmcp::over(&sshd).unwrap(), 14, &["wants a passphrase", &format!("ssh-add {key}")]);
}

#[test]
fn disks_that_are_full_and_places_that_run_nothing() {
    if !rustix::process::geteuid().is_root() {
        not_run("full disks and noexec places", "root, to mount them");
        return;
    }
    let cases =
        [(Places::Full, 15, "/tmp is full"), (Places::NoExec, 17, "/tmp forbids running files")];
    for (places, code, words) in cases {
        let sshd = Sshd::start(&Settings { places, ..Settings::default() }).unwrap();
        check(&Sysmcp::over(&sshd).unwrap(), code, &[words, "bytes in a folder"]);
        assert_nothing_left(&sshd);
    }
}

#[test]
fn busybox_alone_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let mut install = Command::new("busybox");
    install.args(["--install", "-s"]).arg(folder.path());
    if !install.status().is_ok_and(|status| status.success()) {
        return not_run("a target with the programs of busybox", "busybox");
    }
    let path = folder.path().display();
    let through = format!("ForceCommand PATH={path} exec sh -c \"$SSH_ORIGINAL_COMMAND\"");
    let sshd = Sshd::start(&server_lines(&[&through])).unwrap();
    let answer = Sysmcp::over(&sshd).unwrap().answer("process_list", &json!({"limit": 1}));
    assert!(answer.unwrap().get("processes").is_some_and(Value::is_array));
    // Its ps cannot tell what else there is.
    assert!(second_way::files(&sshd).unwrap().is_empty());
}

/// A folder with agents of which one byte, or all of them, differ from what their digest says.
struct Altered {
    folder: tempfile::TempDir,
    original: PathBuf,
}

impl Altered {
    fn new() -> Self {
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents");
        let folder = tempfile::tempdir().unwrap();
        for name in ["x86_64.json", "x86_64.gz", "aarch64.json", "aarch64.gz"] {
            fs::copy(original.join(name), folder.path().join(name)).unwrap();
        }
        Self { folder, original }
    }

    fn packed(&self) -> Vec<u8> {
        fs::read(self.original.join(format!("{}.gz", std::env::consts::ARCH))).unwrap()
    }

    fn write(&self, packed: &[u8]) {
        fs::write(self.folder.path().join(format!("{}.gz", std::env::consts::ARCH)), packed)
            .unwrap();
    }

    fn sysmcp(&self, sshd: &Sshd) -> Sysmcp {
        Sysmcp::over(sshd).unwrap().with(&["--agents", self.folder.path().to_str().unwrap()])
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    Command::new("gzip").arg("-c").arg(file.path()).output().unwrap().stdout
}

#[test]
fn an_agent_that_was_altered_on_the_way_never_runs() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let altered = Altered::new();
    let sysmcp = altered.sysmcp(&sshd);
    // Another program in its place: it would leave a mark if it ran.
    let mark = sshd.file("it-ran");
    altered.write(&gzip(format!("#!/bin/sh\n: > {}\n", mark.display()).as_bytes()));
    check(&sysmcp, 16, &["was altered", "it was not run"]);
    assert!(!mark.exists(), "what was not sent ran");
    assert_nothing_left(&sshd);
    // One byte of the packed file, wherever it is. Behind the ten bytes of gzip's own header,
    // which say nothing about the content.
    let packed = altered.packed();
    let places = if is_full() { 200 } else { 8 };
    for part in 0..places {
        let mut flipped = packed.clone();
        let place = 10 + (packed.len() - 11) * part / (places - 1);
        let byte = flipped.get_mut(place).unwrap();
        *byte ^= 0x10;
        altered.write(&flipped);
        check(&sysmcp, 16, &["was altered"]);
    }
    // Cut short, the other end waits for bytes that never come, and the channel is closed.
    altered.write(packed.get(..packed.len() / 2).unwrap());
    check(&sysmcp, 16, &["was altered"]);
    assert_nothing_left(&sshd);
}
