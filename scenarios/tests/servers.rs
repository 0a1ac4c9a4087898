//! Every kind of login, at SSH servers of several makes and ages, by every way that sysmcp has.
//!
//! `cargo xtask servers` fetches the servers and shows what these checks print: which login was made
//! where, as the server itself logged it, and how long an answer took.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "servers/asked.rs"]
mod asked;
#[path = "servers/held.rs"]
mod held;
#[path = "servers/keys.rs"]
mod keys;
#[path = "servers/routes.rs"]
mod routes;

use scenarios::{
    second_way,
    servers::{
        Kind, Server, Settings,
        login::{Way, identity, write_config},
    },
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    process::{Command, Output},
    time::{Duration, Instant},
};

/// After which nothing of a session may be left.
const PATIENCE: Duration = Duration::from_secs(12);

/// Runs a check at each of some servers, where they are there: at the same time, for most of what a
/// login takes is waiting.
fn at_each(check: &str, kinds: &[Kind], run: impl Fn(Kind) + Sync) {
    let there: Vec<Kind> = kinds.iter().copied().filter(|kind| kind.is_there(check)).collect();
    std::thread::scope(|scope| {
        for kind in there {
            let run = &run;
            scope.spawn(move || run(kind));
        }
    });
}

/// The same, one after another, for what is timed.
fn one_by_one(check: &str, kinds: &[Kind], run: impl Fn(Kind)) {
    kinds.iter().copied().filter(|kind| kind.is_there(check)).for_each(run);
}

/// sysmcp for a target, with a configuration for its SSH.
fn sysmcp(target: &str, config: PathBuf) -> Sysmcp {
    Sysmcp::local().unwrap().at(target).with_ssh_config(config)
}

/// How a server logs a login, in words that are all on one line.
fn accepted(kind: Kind, method: &str, key: &str) -> [String; 2] {
    if kind.is_openssh() {
        [format!("Accepted {method} for deploy "), key.to_owned()]
    } else if method == "publickey" {
        // The older one logs a digest of the key, and not its type.
        let key = if kind == Kind::Dropbear2020 { "" } else { key };
        ["Pubkey auth succeeded for 'deploy' ".to_owned(), key.to_owned()]
    } else {
        ["Password auth succeeded for 'deploy' ".to_owned(), String::new()]
    }
}

/// How a server logs the type of a key.
const fn type_of(kind: Kind, key: Key) -> &'static str {
    match (kind.is_openssh(), key) {
        (true, Key::Ed25519) => "ED25519 ",
        (true, Key::Rsa) => "RSA ",
        (true, Key::Ecdsa) => "ECDSA ",
        (false, Key::Ed25519) => "ssh-ed25519 key ",
        (false, Key::Rsa) => "ssh-rsa key ",
        (false, Key::Ecdsa) => "ecdsa-sha2-nistp256 key ",
    }
}

/// Types of keys.
#[derive(Clone, Copy, Debug)]
enum Key {
    Ed25519,
    Rsa,
    Ecdsa,
}

/// The smallest question with a whole answer, which is measured in a tenth of a second.
fn question() -> Value {
    json!({"limit": 1, "window_ms": 100})
}

/// Logs in by a way, gets an answer, and asserts that the server logged this very login.
fn assert_logs_in(server: &Server, way: Way, sysmcp: &Sysmcp, method: &str, key: &str) {
    let before = server.log().len();
    let answer = sysmcp.answer("process_list", &question());
    let (kind, log) = (server.kind().name(), server.log());
    let log = log.get(before..).unwrap();
    let answer =
        answer.unwrap_or_else(|error| panic!("{} to {kind}: {error:#}\n{log}", way.name()));
    assert!(answer.get("processes").is_some_and(Value::is_array), "{answer}");
    assert_logged(server, way, log, method, key);
}

/// Asserts that a server logged a login.
fn assert_logged(server: &Server, way: Way, log: &str, method: &str, key: &str) {
    let words = accepted(server.kind(), method, key);
    let line = log.lines().find(|line| words.iter().all(|word| line.contains(word)));
    let line = line.unwrap_or_else(|| panic!("{}: {words:?} is not logged: {log}", way.name()));
    println!("{} by {}: {line}", server.kind().name(), way.name());
}

/// Calls a tool with no terminal anywhere. Gives back the exit code and what was said.
fn without_a_terminal(sysmcp: &Sysmcp) -> (Option<i32>, String) {
    let output: Output = sysmcp
        .without_a_terminal()
        .args(["call", "process_list", "--params", &question().to_string()])
        .output()
        .unwrap();
    assert!(output.stdout.is_empty());
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Asserts that nothing is left of sessions, by another login than theirs.
fn assert_nothing_left(server: &Server) {
    let left = second_way::still_left(PATIENCE, || second_way::left_on(server)).unwrap();
    assert!(left.is_empty(), "left on {}: {left:#?}", server.kind().name());
}

#[test]
fn a_session_answers_and_leaves_nothing() {
    at_each("a session", &Kind::ALL, |kind| {
        let server = Server::with_key(kind, &Settings::default()).unwrap();
        let config = write_config(&server, "config", &[identity(&server, "id")]).unwrap();
        for way in Way::ALL {
            let sysmcp = sysmcp(&way.target(&server), config.clone())
                .with(&["--toolsets", "diagnose,selftest"]);
            // While it runs, the other login has to see it: else it would see nothing left either.
            let mut running = sysmcp
                .command()
                .args(["call", "self_test", "--params", "{\"count\":10,\"interval_ms\":100}"])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .spawn()
                .unwrap();
            let started = Instant::now();
            while second_way::session(&server).unwrap().len() < 2 {
                assert!(started.elapsed() < PATIENCE, "{}: no session is seen", way.name());
            }
            assert!(running.wait().unwrap().success(), "{}", way.name());
            assert_nothing_left(&server);
        }
    });
}

#[test]
fn what_a_first_answer_costs() {
    one_by_one("a first answer", &Kind::ALL, |kind| {
        let server = Server::with_key(kind, &Settings::default()).unwrap();
        let config = write_config(&server, "config", &[identity(&server, "id")]).unwrap();
        for way in Way::ALL {
            let sysmcp = sysmcp(&way.target(&server), config.clone());
            let mut times: Vec<u128> = Vec::new();
            for _ in 0..3 {
                let started = Instant::now();
                assert_logs_in(&server, way, &sysmcp, "publickey", type_of(kind, Key::Ed25519));
                times.push(started.elapsed().as_millis());
            }
            times.sort_unstable();
            // Which client it was, as OpenSSH logs it.
            let log = server.log();
            let client = log.rsplit_once("remote software version ").map(|(_, rest)| rest);
            let client = client.and_then(|rest| rest.lines().next());
            assert_eq!(client.is_some(), kind.is_openssh(), "{log}");
            let own = concat!("sysmcp_", env!("CARGO_PKG_VERSION"));
            let is_way = client.is_none_or(|client| match way {
                Way::OpenSsh => client.starts_with("OpenSSH_"),
                Way::Russh => client.trim() == own,
            });
            assert!(is_way, "{} was by {client:?}", way.name());
            let client = client.unwrap_or("a client");
            println!(
                "{} by {}: connected, sent, answered and gone in {times:?} ms, of which 100 \
                 measured; by {client}",
                kind.name(),
                way.name()
            );
        }
    });
}

#[test]
fn the_documents_name_every_server() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/targets.md");
    let text = std::fs::read_to_string(path).unwrap();
    for kind in Kind::ALL {
        let name = match kind {
            Kind::OpenSshHere => "OpenSSH of the machine that tests",
            Kind::OpenSsh8 | Kind::OpenSsh10 | Kind::Dropbear2020 | Kind::Dropbear2025 => {
                kind.name()
            }
        };
        assert!(text.contains(name), "docs/targets.md does not name {name}");
    }
}

/// Asserts that a plain command succeeds.
fn run(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}
