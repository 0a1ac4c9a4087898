//! Ways there that lead through other servers, or through a program.

use super::{Key, assert_logs_in, at_each, sysmcp, type_of};
use controller::{
    reporter::Silent,
    target::Target,
    transport::{self, Login, Timings},
};
use scenarios::{
    not_run::is_full,
    programs,
    servers::{
        Kind, Server, Settings,
        login::{Way, host_lines, identity, write_config},
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    time::timeout,
};

/// The kind that comes so far behind another in the list of all, around its end.
fn behind(kind: Kind, distance: usize) -> Kind {
    let all = Kind::ALL;
    let at = all.iter().position(|other| *other == kind).unwrap();
    *all.iter().cycle().nth(at + distance).unwrap()
}

/// A server, and two others on the way there.
struct Jumps {
    last: Server,
    first: Server,
    second: Server,
    /// In which `one` is behind the first, and `two` behind both.
    config: PathBuf,
}

impl Jumps {
    /// None where one of them is not there.
    fn to(kind: Kind) -> Option<Self> {
        let start = |kind| Server::with_key(kind, &Settings::default()).unwrap();
        let (first, second) = (behind(kind, 2), behind(kind, 3));
        if !first.is_there("jump hosts") || !second.is_there("jump hosts") {
            return None;
        }
        let (last, first, second) = (start(kind), start(first), start(second));
        let lines = |host: &str, server: &Server, jump: Option<&str>| {
            let jump = jump.map(|jump| format!("ProxyJump {jump}"));
            let lines: Vec<String> = jump.into_iter().chain([identity(server, "id")]).collect();
            host_lines(host, server, &lines)
        };
        let config = last.file("config");
        let text = [
            lines("first", &first, None),
            lines("second", &second, None),
            lines("one", &last, Some("first")),
            lines("two", &last, Some("first,second")),
        ];
        fs::write(&config, text.concat()).unwrap();
        Some(Self { last, first, second, config })
    }
}

#[test]
fn jump_hosts_lead_there() {
    at_each("jump hosts", &Kind::ALL, |kind| {
        let Some(Jumps { last, first, second, config }) = Jumps::to(kind) else { return };
        let key = type_of(kind, Key::Ed25519);
        for (host, passes) in [("one", &[&first][..]), ("two", &[&first, &second])] {
            for way in Way::ALL {
                let before: Vec<usize> = passes.iter().map(|server| server.log().len()).collect();
                let sysmcp = sysmcp(&way.alias(host), config.clone());
                assert_logs_in(&last, way, &sysmcp, "publickey", key);
                for (server, before) in passes.iter().zip(before) {
                    let log = server.log();
                    let log = log.get(before..).unwrap();
                    let is_passed = log.contains("Accepted publickey for deploy")
                        || log.contains("Pubkey auth succeeded for 'deploy'");
                    let name = server.kind().name();
                    assert!(is_passed, "{}: not through {name}: {log}", way.name());
                    println!("  through {name}");
                }
            }
        }
    });
}

/// Each session on the way is a stream to the next, and a server may make room for little at a time.
#[test]
fn much_goes_through_jump_hosts() {
    let rounds = if is_full() { 20 } else { 3 };
    at_each("much through jump hosts", &Kind::ALL, |kind| {
        let Some(jumps) = Jumps::to(kind) else { return };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for host in ["one", "two"] {
            for round in 0..rounds {
                let sending = async { timeout(PATIENCE, send_much(host, &jumps.config)).await };
                let counted = runtime.block_on(sending);
                let place = format!("{host}, {}, round {round}", kind.name());
                let counted = counted.unwrap_or_else(|_| panic!("{place}: it does not end"));
                assert_eq!(counted, MUCH.to_string(), "{place}");
            }
        }
    });
}

/// More than the channels on the way have room for, in bytes.
const MUCH: usize = 6 << 20;

/// It takes a second or two.
const PATIENCE: Duration = Duration::from_secs(60);

/// Sends much to a host of a configuration, and gives what the host has counted.
async fn send_much(host: &str, config: &Path) -> String {
    let target: Target = Way::Russh.alias(host).parse().unwrap();
    let login = Login::without_questions(Some(config.to_owned()));
    let mut timings = Timings::start();
    let opening = transport::open(&target, "wc -c", &login, &mut timings, &Silent);
    let mut channel = opening.await.unwrap();
    channel.writer.write_all(&vec![b'x'; MUCH]).await.unwrap();
    channel.writer.shutdown().await.unwrap();
    let mut counted = String::new();
    channel.reader.read_to_string(&mut counted).await.unwrap();
    counted.trim().to_owned()
}

#[test]
fn a_program_leads_there() {
    at_each("a program as the way", &Kind::ALL, |kind| {
        let server = Server::with_key(kind, &Settings::default()).unwrap();
        let mark = server.file("ran");
        let relay = programs::scenarios().display().to_string();
        // The program notes what became of the tokens.
        let proxy =
            format!("ProxyCommand sh -c 'echo %r@%h >> {}; exec {relay} relay %p'", mark.display());
        let lines = [identity(&server, "id"), proxy];
        let config = write_config(&server, "config", &lines).unwrap();
        let key = type_of(kind, Key::Ed25519);
        for way in Way::ALL {
            let _ = fs::remove_file(&mark);
            let sysmcp = sysmcp(&way.target(&server), config.clone());
            assert_logs_in(&server, way, &sysmcp, "publickey", key);
            let noted = fs::read_to_string(&mark).unwrap();
            assert_eq!(noted, "deploy@127.0.0.1\n", "{}", way.name());
        }
    });
}
