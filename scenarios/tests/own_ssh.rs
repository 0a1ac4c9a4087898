//! sysmcp's own SSH against hosts that stop answering, at each point where they can: nothing waits
//! for ever, nothing grows without end, and what is given up is gone.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use controller::{
    reporter::Silent,
    target::Target,
    transport::{self, Channel, Failure, Login, NotOpened, Timings},
};
use rustix::process::Signal;
use scenarios::{
    second_way::{serving, signal_all},
    sshd::{Settings, Sshd},
};
use std::{
    net::TcpListener,
    path::Path,
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

const SECOND: Duration = Duration::from_secs(1);

fn login(config: &Path) -> Login {
    Login { answer_limit: 2 * SECOND, ..Login::without_questions(Some(config.to_owned())) }
}

async fn open(target: &str, config: &Path, script: &str) -> Result<Channel, NotOpened> {
    let target: Target = target.parse().unwrap();
    let mut timings = Timings::start();
    transport::open(&target, script, &login(config), &mut timings, &Silent).await
}

/// A server, and a command on it over sysmcp's own SSH.
async fn command(script: &str) -> (Sshd, Channel) {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let target = sshd.target_by("russh");
    let channel = open(&target, &sshd.client_config(), script).await.unwrap();
    (sshd, channel)
}

/// Descriptors of this process that are sockets.
fn sockets() -> usize {
    let all = std::fs::read_dir("/proc/self/fd").unwrap();
    let is_socket = |entry: &std::fs::DirEntry| {
        std::fs::read_link(entry.path())
            .is_ok_and(|link| link.to_string_lossy().starts_with("socket:"))
    };
    all.filter_map(Result::ok).filter(is_socket).count()
}

/// Waits until this process has no more sockets than before.
async fn assert_sockets(before: usize) {
    let started = Instant::now();
    while sockets() > before {
        assert!(started.elapsed() < 5 * SECOND, "{} sockets, {before} before", sockets());
        tokio::time::sleep(SECOND / 50).await;
    }
}

#[tokio::test]
async fn a_host_that_accepts_and_says_nothing_is_given_up() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = silent.local_addr().unwrap().port();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, "Host *\n  GlobalKnownHostsFile /dev/null\n").unwrap();
    let before = sockets();
    let started = Instant::now();
    let result = open(&format!("russh:me@127.0.0.1:{port}"), &config, "true").await;
    let Err(NotOpened::Login(failure)) = result else { panic!("it answered") };
    assert!(matches!(failure, Failure::TimedOut { step: "the key exchange", .. }), "{failure}");
    assert!(started.elapsed() < 4 * SECOND, "{:?}", started.elapsed());
    assert_sockets(before).await;
}

#[tokio::test]
async fn a_host_that_stops_answering_during_the_login_is_given_up() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let before = sockets();
    // A command in the place of TCP, which carries the key exchange and then nothing more.
    let config = sshd.file("stalling_config");
    let plain = std::fs::read_to_string(sshd.client_config()).unwrap();
    let relay = scenarios::programs::scenarios();
    let mut steps = Vec::new();
    for bytes in [500, 1_300, 1_650, 1_700, 1_750, 1_800] {
        let proxy =
            format!("  ProxyCommand {} relay {} --stall {bytes}\n", relay.display(), sshd.port);
        std::fs::write(&config, format!("{plain}{proxy}")).unwrap();
        let started = Instant::now();
        let result = open(&sshd.target_by("russh"), &config, "true").await;
        let Err(NotOpened::Login(failure)) = result else { panic!("it answered") };
        let Failure::TimedOut { step, .. } = failure else { panic!("{bytes}: {failure}") };
        steps.push(step);
        assert!(started.elapsed() < 6 * SECOND, "{bytes}: {:?}", started.elapsed());
    }
    assert!(steps.contains(&"the key exchange") && steps.contains(&"logging in"), "{steps:?}");
    assert_sockets(before).await;
}

#[tokio::test]
async fn a_write_that_waits_for_room_ends_with_the_session() {
    let before = sockets();
    let (sshd, channel) = command("exec sleep 1000").await;
    let sessions = serving(&sshd).unwrap();
    let mut writer = channel.writer;
    let blocked = tokio::spawn(async move {
        let piece = vec![0; 1 << 20];
        let mut written = 0;
        while writer.write_all(&piece).await.is_ok() {
            written += piece.len();
        }
        written
    });
    // The host takes what its window has room for, and no more: the command reads nothing.
    tokio::time::sleep(SECOND).await;
    assert!(!blocked.is_finished(), "nothing blocks a write to a command that reads nothing");
    signal_all(&sessions, Signal::KILL);
    let started = Instant::now();
    let written = tokio::time::timeout(5 * SECOND, blocked).await.unwrap().unwrap();
    assert!(started.elapsed() < 3 * SECOND, "{:?}", started.elapsed());
    assert!(written < 64 << 20, "{written} bytes were taken for a command that reads nothing");
    channel.carrier.unwrap().end(SECOND).await;
    assert_sockets(before).await;
}

#[tokio::test]
async fn a_connection_whose_host_is_gone_without_a_word_can_be_cut() {
    let before = sockets();
    let (sshd, channel) = command("exec sleep 1000").await;
    let sessions = serving(&sshd).unwrap();
    signal_all(&sessions, Signal::STOP);
    let mut writer = channel.writer;
    let blocked = tokio::spawn(async move {
        let piece = vec![0; 1 << 20];
        while writer.write_all(&piece).await.is_ok() {}
    });
    tokio::time::sleep(SECOND).await;
    assert!(!blocked.is_finished());
    let started = Instant::now();
    let ended = channel.carrier.unwrap().end(Duration::ZERO).await;
    assert_eq!(ended.code, None);
    tokio::time::timeout(5 * SECOND, blocked).await.unwrap().unwrap();
    assert!(started.elapsed() < 3 * SECOND, "{:?}", started.elapsed());
    signal_all(&sessions, Signal::CONT);
    assert_sockets(before).await;
}

#[tokio::test]
async fn a_command_that_nobody_reads_waits_and_the_connection_stays() {
    let (_sshd, channel) = command("exec cat /dev/zero").await;
    let memory = || {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
        statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
    };
    tokio::time::sleep(SECOND / 2).await;
    let before = memory();
    tokio::time::sleep(2 * SECOND).await;
    assert!(memory() < before + (16 << 20), "it grew by {} bytes", memory() - before);
    // It was not lost, either: what it wrote comes once it is read, and more of it.
    let mut reader = channel.reader;
    let mut bytes = vec![1; 64 << 20];
    let reading = tokio::time::timeout(30 * SECOND, reader.read_exact(&mut bytes)).await;
    reading.unwrap().unwrap();
    assert!(bytes.iter().all(|byte| *byte == 0));
    let started = Instant::now();
    channel.carrier.unwrap().end(Duration::ZERO).await;
    assert!(started.elapsed() < SECOND, "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_dropped_channel_takes_its_connection_along() {
    let before = sockets();
    let (sshd, channel) = command("exec sleep 1000").await;
    let sessions = serving(&sshd).unwrap();
    assert!(!sessions.is_empty());
    drop(channel);
    assert_sockets(before).await;
    let started = Instant::now();
    while sessions.iter().any(|pid| rustix::process::test_kill_process(*pid).is_ok()) {
        assert!(started.elapsed() < 5 * SECOND, "the host still has the session");
        tokio::time::sleep(SECOND / 20).await;
    }
}

#[tokio::test]
async fn what_a_command_says_and_how_it_ends_comes_through() {
    let (_sshd, mut channel) = command("cat; echo sorry >&2; exit 7").await;
    channel.writer.write_all(b"one line\n").await.unwrap();
    channel.writer.shutdown().await.unwrap();
    let mut said = Vec::new();
    channel.reader.read_to_end(&mut said).await.unwrap();
    assert_eq!(said, b"one line\n");
    let ended = channel.carrier.unwrap().end(5 * SECOND).await;
    assert_eq!(ended.code, Some(7));
    assert_eq!(ended.stderr, b"sorry\n");
    let under = ended.under.unwrap();
    assert!(under.sent() > 1_000 && under.received() > 1_000, "{under}");
}

#[tokio::test]
async fn a_host_that_wants_two_keys_gets_two() {
    let settings = Settings {
        server: vec!["AuthenticationMethods publickey,publickey".to_owned()],
        ..Settings::default()
    };
    let sshd = Sshd::start(&settings).unwrap();
    let mut keygen = std::process::Command::new("ssh-keygen");
    keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(sshd.file("second"));
    assert!(keygen.stdin(std::process::Stdio::null()).status().unwrap().success());
    let keys = ["authorized_keys", "second.pub"]
        .map(|name| std::fs::read_to_string(sshd.file(name)).unwrap());
    std::fs::write(sshd.file("authorized_keys"), keys.concat()).unwrap();
    let target = sshd.target_by("russh");
    let one = open(&target, &sshd.client_config(), "true").await;
    let Err(NotOpened::Login(Failure::LoginRefused { .. })) = one else {
        panic!("one key was enough")
    };
    let second = format!("IdentityFile {}", sshd.file("second").display());
    sshd.write_client_config(&[second]).unwrap();
    let channel = open(&target, &sshd.client_config(), "exit 3").await.unwrap();
    assert_eq!(channel.carrier.unwrap().end(5 * SECOND).await.code, Some(3));
}
