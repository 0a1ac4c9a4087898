//! Sessions that live through new keys, idle and under load, and carry much.

use super::{assert_nothing_left, at_each, one_by_one, run, sysmcp};
use scenarios::{
    client::Client,
    servers::{
        Kind, Server, Settings,
        login::{Way, identity, write_config},
    },
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    fs,
    io::{Read as _, Write as _},
    path::Path,
    process::Command,
    sync::OnceLock,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// How many bytes the heavy agent has more than the real one.
const PADDING: u64 = 21 << 20;

/// A folder with an agent that runs as the real one does and is much longer: a program's file may go
/// on behind its end. The bytes are random, so that they do not shrink on the way.
fn heavy_agents() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/agents");
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["x86_64.json", "x86_64.gz", "aarch64.json", "aarch64.gz"] {
            fs::copy(original.join(name), at(name)).unwrap();
        }
        let arch = std::env::consts::ARCH;
        let packed = at(&format!("{arch}.gz"));
        let file = run(Command::new("gzip").arg("-dc").arg(&packed)).stdout;
        fs::write(at("heavy"), file).unwrap();
        let mut heavy = fs::OpenOptions::new().append(true).open(at("heavy")).unwrap();
        let mut padding = fs::File::open("/dev/urandom").unwrap().take(PADDING);
        std::io::copy(&mut padding, &mut heavy).unwrap();
        heavy.flush().unwrap();
        let repacked = run(Command::new("gzip").args(["-1", "-c"]).arg(at("heavy"))).stdout;
        fs::write(&packed, repacked).unwrap();
        let sum = run(Command::new("sha256sum").arg(at("heavy"))).stdout;
        let sum = String::from_utf8(sum).unwrap();
        let manifest = at(&format!("{arch}.json"));
        let mut described: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
        described["sha256"] = sum.split(' ').next().unwrap().into();
        described["bytes"] = heavy.metadata().unwrap().len().into();
        fs::write(&manifest, described.to_string()).unwrap();
        folder
    });
    folder.path()
}

/// How often a server has taken new keys into use.
fn new_keys(server: &Server) -> usize {
    server.log().matches("SSH2_MSG_NEWKEYS received").count()
}

fn with_key(server: &Server, way: Way, lines: &[&str]) -> Sysmcp {
    let lines: Vec<String> =
        lines.iter().map(ToString::to_string).chain([identity(server, "id")]).collect();
    let config = write_config(server, "config", &lines).unwrap();
    sysmcp(&way.target(server), config).with(&["--toolsets", "diagnose,selftest"])
}

/// Fetches a result of several megabytes that was left on the target.
fn fetch_much(client: &mut Client, way: Way) {
    let left = json!({"count": 1, "artifact_bytes": 8_000_000});
    let first = client.call("self_test", &left, 30 * SECOND).unwrap();
    let handle = first.pointer("/structuredContent/meta/artifact").unwrap();
    let again = client.call("self_test", &json!({"artifact": handle}), 60 * SECOND).unwrap();
    let answer = again.get("structuredContent").unwrap();
    assert_eq!(answer.get("class"), Some(&json!("line_works")), "{}: {again}", way.name());
    assert_eq!(answer.get("artifact_bytes"), Some(&json!(8_000_000)), "{}", way.name());
}

#[test]
fn much_is_sent_and_fetched_over_one_channel() {
    one_by_one("much", &Kind::ALL, |kind| {
        let server = Server::with_key(kind, &Settings::default()).unwrap();
        for way in Way::ALL {
            let started = Instant::now();
            let sysmcp = with_key(&server, way, &[]);
            let sysmcp = sysmcp.with(&["--agents", heavy_agents().to_str().unwrap()]);
            let mut client = Client::start(sysmcp.command()).unwrap();
            fetch_much(&mut client, way);
            client.close();
            assert!(client.ended(20 * SECOND).unwrap().is_some(), "{}", way.name());
            let took = started.elapsed().as_millis();
            println!("{} by {}: 23 MB sent and 8 MB fetched in {took} ms", kind.name(), way.name());
            assert_nothing_left(&server);
        }
    });
}

#[test]
fn new_keys_under_load_are_no_obstacle() {
    at_each("new keys under load", &Kind::OPENSSH, |kind| {
        let server = Server::with_key(kind, &Settings::lines(&["RekeyLimit 1M"])).unwrap();
        for way in Way::ALL {
            let before = new_keys(&server);
            let sysmcp = with_key(&server, way, &[]);
            let sysmcp = sysmcp.with(&["--agents", heavy_agents().to_str().unwrap()]);
            let mut client = Client::start(sysmcp.command()).unwrap();
            client.call("self_test", &json!({"count": 1}), 60 * SECOND).unwrap();
            let sent = new_keys(&server) - before;
            fetch_much(&mut client, way);
            let fetched = new_keys(&server) - before - sent;
            let (kind, way) = (kind.name(), way.name());
            println!("{kind} by {way}: new keys {sent} times in 23 MB, {fetched} in 8 MB");
            assert!(sent > 5 && fetched > 3, "{kind} by {way}: {sent}, {fetched}");
        }
    });
}

#[test]
fn new_keys_while_idle_are_no_obstacle() {
    // Where nothing at all was sent under the last keys, there are no new ones
    // (`ssh_packet_need_rekeying` in OpenSSH's packet.c), so signs of life come every second.
    let settings = Settings::lines(&["RekeyLimit default 2"]);
    let kinds = Kind::OPENSSH.into_iter().filter(|kind| kind.is_there("new keys while idle"));
    let mut sessions: Vec<(Server, Way, Client, usize)> = Vec::new();
    for kind in kinds {
        for way in Way::ALL {
            let server = Server::with_key(kind, &settings).unwrap();
            let sysmcp = with_key(&server, way, &[]).with(&["--silence-limit", "3"]);
            let mut client = Client::start(sysmcp.command()).unwrap();
            client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
            let before = new_keys(&server);
            sessions.push((server, way, client, before));
        }
    }
    std::thread::sleep(8 * SECOND);
    for (server, way, client, before) in &mut sessions {
        let (kind, way) = (server.kind().name(), way.name());
        let count = new_keys(server) - *before;
        println!("{kind} by {way}: new keys {count} times while idle");
        assert!(count >= 3, "{way} to {kind}: {count}\n{}", server.log());
        let answer = client.call("self_test", &json!({"count": 1}), 20 * SECOND).unwrap();
        assert_eq!(answer.get("isError"), Some(&json!(false)), "{way} to {kind}: {answer}");
    }
    // It was the same session all along.
    for (server, way, _, _) in &sessions {
        let log = server.log();
        let logins = log.matches("Accepted publickey").count();
        assert_eq!(logins, 1, "{} to {}", way.name(), server.kind().name());
    }
}

/// Dropbear asks for new keys after a gigabyte or eight hours, so here the client does. It logs none of
/// them; OpenSSH logs each.
#[test]
fn new_keys_that_the_client_asks_for_are_no_obstacle() {
    const LIMIT: &str = "RekeyLimit 1M 2";
    at_each("new keys by the client", &Kind::ALL, |kind| {
        let server = Server::with_key(kind, &Settings::default()).unwrap();
        // ssh does with this server: a plain one says so.
        drop(with_key(&server, Way::OpenSsh, &[LIMIT]));
        let mut plain = Command::new("ssh");
        plain.arg("-vF").arg(server.file("config")).args(["-p", &server.port.to_string()]);
        plain.args(["deploy@127.0.0.1", "head -c 20000000 /dev/zero"]);
        let said = String::from_utf8(run(&mut plain).stderr).unwrap();
        let count = said.matches("SSH2_MSG_NEWKEYS received").count();
        assert!(count > 3, "{count} at {}: {said}", kind.name());
        for way in Way::ALL {
            let sysmcp = with_key(&server, way, &[LIMIT]);
            let sysmcp = sysmcp.with(&["--agents", heavy_agents().to_str().unwrap()]);
            let before = new_keys(&server);
            let mut client = Client::start(sysmcp.command()).unwrap();
            client.call("self_test", &json!({"count": 1}), 60 * SECOND).unwrap();
            let sent = new_keys(&server) - before;
            std::thread::sleep(3 * SECOND);
            fetch_much(&mut client, way);
            let fetched = new_keys(&server) - before - sent;
            let (kind_name, way) = (kind.name(), way.name());
            println!("{kind_name} by {way}: new keys {sent} times in 23 MB, {fetched} in 8 MB");
            let is_seen = sent > 5 && fetched > 2;
            assert_eq!(is_seen, kind.is_openssh(), "{kind_name} by {way}: {sent}, {fetched}");
        }
    });
}

#[test]
fn new_keys_that_the_client_asks_for_while_idle_are_no_obstacle() {
    const SIGNS_OF_LIFE: [&str; 2] = ["--silence-limit", "3"];
    at_each("new keys by the client while idle", &Kind::OPENSSH, |kind| {
        let server = Server::with_key(kind, &Settings::default()).unwrap();
        let start = |way| {
            let sysmcp = with_key(&server, way, &["RekeyLimit default 2s"]).with(&SIGNS_OF_LIFE);
            let mut client = Client::start(sysmcp.command()).unwrap();
            client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
            client
        };
        // One is idle after the other, since the log does not say whose keys are new.
        for way in Way::ALL {
            let mut client = start(way);
            let before = new_keys(&server);
            std::thread::sleep(6 * SECOND);
            let count = new_keys(&server) - before;
            println!("{} by {}: new keys {count} times while idle", kind.name(), way.name());
            assert!(count >= 2, "{} to {}: {count}", way.name(), kind.name());
            let answer = client.call("self_test", &json!({"count": 1}), 20 * SECOND).unwrap();
            assert_eq!(answer.get("isError"), Some(&json!(false)), "{}: {answer}", way.name());
        }
        let logins = server.log().matches("Accepted publickey").count();
        assert_eq!(logins, 2, "{}", kind.name());
    });
}
