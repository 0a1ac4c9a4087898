//! Connections that are given up at any moment, and hosts that vanish: nothing stays behind.

use super::{Before, SECOND, open};
use controller::transport::Prompts;
use rustix::process::Signal;
use scenarios::{
    second_way::{serving, signal_all},
    sshd::{Settings, Sshd, user_name},
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// A configuration of a server's client with further lines in its only section.
fn config(sshd: &Sshd, name: &str, lines: &str) -> PathBuf {
    let file = sshd.file(name);
    let plain = std::fs::read_to_string(sshd.client_config()).unwrap();
    std::fs::write(&file, format!("{plain}{lines}")).unwrap();
    file
}

/// A host that is reached through another, which is the first of the two.
struct Behind {
    jump: Sshd,
    host: Sshd,
    config: PathBuf,
}

impl Behind {
    fn start() -> Self {
        let jump = Sshd::start(&Settings::default()).unwrap();
        let host = Sshd::start(&Settings::default()).unwrap();
        let known = [&jump, &host]
            .map(|sshd| std::fs::read_to_string(sshd.file("known_hosts")).unwrap())
            .concat();
        std::fs::write(host.file("all_known"), known).unwrap();
        let (user, port) = (user_name(), jump.port);
        let text = format!(
            "Match originalhost behind\n  HostName 127.0.0.1\n  Port {}\n  IdentityFile {}\n  \
             ProxyJump {user}@127.0.0.1:{port}\n\
             Match originalhost 127.0.0.1\n  IdentityFile {}\n\
             Match all\n  User {user}\n  IdentitiesOnly yes\n  IdentityAgent none\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n",
            host.port,
            host.file("id").display(),
            jump.file("id").display(),
            host.file("all_known").display(),
        );
        let config = host.file("jump_config");
        std::fs::write(&config, text).unwrap();
        Self { jump, host, config }
    }
}

#[tokio::test]
async fn a_connection_that_is_given_up_at_any_moment_leaves_nothing() {
    const TIMES: u64 = 210;
    let Behind { jump: _jump, host, config: through } = Behind::start();
    let relay = scenarios::programs::scenarios();
    let proxy = format!("  ProxyCommand {} relay {}\n", relay.display(), host.port);
    let proxied = config(&host, "proxy_config", &proxy);
    let direct = host.client_config();
    let target = host.target_by("russh");
    let routes =
        [(&*target, &direct, 60), (&*target, &proxied, 90), ("russh:behind", &through, 110)];
    let before = Before::now().await;
    let (mut seed, mut opened) = (1_u64, 0);
    for (time, (target, config, most)) in (0..TIMES).zip(routes.into_iter().cycle()) {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let patience = Duration::from_micros((seed >> 33) % (most * 1_500));
        let opening = open(target, config, Prompts::Forbidden, "exec sleep 1000");
        if let Ok(channel) = tokio::time::timeout(patience, opening).await {
            // Now and then it was fast enough; then the channel is given up instead.
            channel.unwrap_or_else(|error| panic!("{time} at {target}: {error}"));
            opened += 1;
        }
    }
    assert!((5..TIMES - 20).contains(&opened), "{opened} of {TIMES} were opened: no mixture");
    before.assert_nothing_left("given up", usize::MAX).await;
}

#[tokio::test]
async fn a_host_that_stops_is_noticed_as_the_configuration_says() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let lines = "  ServerAliveInterval 1\n  ServerAliveCountMax 2\n";
    let config = config(&sshd, "alive_config", lines);
    let before = Before::now().await;
    let target = sshd.target_by("russh");
    let mut channel = open(&target, &config, Prompts::Forbidden, "exec sleep 1000").await.unwrap();
    let sessions = serving(&sshd).unwrap();
    // As long as it answers, it stays.
    let mut byte = [0];
    let reading = tokio::time::timeout(4 * SECOND, channel.reader.read(&mut byte)).await;
    assert!(reading.is_err(), "it ended under a host that answers");
    signal_all(&sessions, Signal::STOP);
    let started = Instant::now();
    let reading = tokio::time::timeout(10 * SECOND, channel.reader.read(&mut byte)).await;
    assert!(matches!(reading, Ok(Ok(0) | Err(_))), "it goes on");
    let took = started.elapsed();
    assert!((2 * SECOND..6 * SECOND).contains(&took), "{took:?}");
    let ended = channel.carrier.unwrap().end(SECOND).await;
    let lost = ended.lost.unwrap().to_string();
    assert!(lost.contains("the connection was lost: Keepalive timeout"), "{lost}");
    signal_all(&sessions, Signal::CONT);
    before.assert_nothing_left("stopped", usize::MAX).await;
}

#[tokio::test]
async fn a_write_ends_when_a_host_on_the_way_is_gone() {
    let behind = Behind::start();
    let before = Before::now().await;
    let script = "exec sleep 1000";
    let channel = open("russh:behind", &behind.config, Prompts::Forbidden, script).await.unwrap();
    let on_the_way = serving(&behind.jump).unwrap();
    // The way takes nothing more, so that its window fills up.
    signal_all(&on_the_way, Signal::STOP);
    let mut writer = channel.writer;
    let blocked = tokio::spawn(async move {
        let piece = vec![0; 1 << 20];
        while writer.write_all(&piece).await.is_ok() {}
    });
    tokio::time::sleep(2 * SECOND).await;
    assert!(!blocked.is_finished(), "nothing blocks a write to a way that stands still");
    signal_all(&on_the_way, Signal::KILL);
    let started = Instant::now();
    tokio::time::timeout(5 * SECOND, blocked).await.unwrap().unwrap();
    assert!(started.elapsed() < 3 * SECOND, "{:?}", started.elapsed());
    channel.carrier.unwrap().end(SECOND).await;
    before.assert_nothing_left("on the way", usize::MAX).await;
}
