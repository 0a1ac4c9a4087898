//! Connections that are lost, and hosts that turn logins away: the next call connects anew or says
//! what happened, and neither takes until the silence limit is over. Over both ways to a host, on a
//! real sshd, and where the network has to fail, over a link of our own.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use rustix::process::Signal;
use scenarios::{
    client::{Client, Told},
    delayed_link::{DelayedLink, Lack, SERVER},
    not_run::{not_here, not_run},
    second_way::{self, Seen, signal},
    sshd::{Network, Settings, Sshd, user_name},
    sysmcp::Sysmcp,
};
use serde_json::{Value, json};
use std::{
    fs,
    net::TcpStream,
    path::PathBuf,
    thread::sleep,
    time::{Duration, Instant},
};

const SECOND: Duration = Duration::from_secs(1);

/// What the first call after a loss may take, connecting and all; the silence limit is 30 s.
const SOON: Duration = Duration::from_secs(10);

/// Within which anything else is over.
const PATIENCE: Duration = Duration::from_secs(60);

/// Every case, over both ways to a host.
macro_rules! over_both {
    ($($case:ident)*) => {
        mod own_ssh {
            $(#[test] fn $case() { super::$case("russh"); })*
        }
        mod users_ssh {
            $(#[test] fn $case() { super::$case("openssh"); })*
        }
    };
}

over_both! {
    a_connection_that_was_forgotten_on_the_way_is_found_out_by_the_first_call
    a_machine_that_slept_answers_its_first_call_by_a_new_session
    a_call_that_runs_when_the_link_dies_says_so_and_the_next_connects_anew
    a_server_that_is_restarted_ends_no_session
    a_server_that_is_gone_for_good_is_told_in_one_sentence
    a_host_that_turns_a_login_away_is_asked_again
    a_host_that_turns_every_login_away_is_told_in_one_sentence
    many_targets_on_one_host_are_not_turned_away
}

fn selftest(sysmcp: Sysmcp) -> Sysmcp {
    sysmcp.with(&["--toolsets", "diagnose,selftest"])
}

/// One call, which has to be answered; what was told meanwhile, and what it took.
fn answered(client: &mut Client) -> (Vec<Told>, Duration) {
    let started = Instant::now();
    let arguments = json!({"count": 1, "interval_ms": 0});
    let (result, told) = client.call_with_progress("self_test", &arguments, PATIENCE).unwrap();
    let took = started.elapsed();
    assert_eq!(result["isError"], false, "{result}; {told:?}");
    (told, took)
}

/// One call, which has to fail: what is said.
fn failed(client: &mut Client, arguments: &Value) -> String {
    let (result, told) = client.call_with_progress("self_test", arguments, PATIENCE).unwrap();
    assert_eq!(result["isError"], true, "{result}; {told:?}");
    result["content"][0]["text"].as_str().unwrap().to_owned()
}

/// Ends a client in order, while the link is there: an `ssh` whose network is gone waits for long.
fn end(mut client: Client) {
    client.close();
    assert!(client.ended(PATIENCE).unwrap().is_some(), "it does not end");
}

fn is_told(told: &[Told], words: &str) -> bool {
    told.iter().any(|told| told.message.contains(words))
}

/// The events of the audit log that are about sessions, in their order.
fn sessions(sysmcp: &Sysmcp) -> Vec<String> {
    let log = fs::read_to_string(sysmcp.audit_log()).unwrap();
    let events = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let events = events.map(|event| event["event"].as_str().unwrap().to_owned());
    events.filter(|event| ["connected", "stopped", "not_connected"].contains(&&**event)).collect()
}

/// A server behind a link, and how to reach it from the link's other end.
struct Behind {
    link: DelayedLink,
    _sshd: Sshd,
    sysmcp: Sysmcp,
}

impl Behind {
    /// `None`, which is then said, where there can be no link.
    fn a_link(way: &str, check: &str) -> Option<Self> {
        match DelayedLink::lacks() {
            Some(lack @ Lack::Root) => not_run(check, lack.name()),
            Some(lack @ Lack::Device) => not_here(check, lack.name()),
            None => {
                let link = DelayedLink::start(Duration::from_millis(20)).unwrap();
                let network = Network { address: SERVER, enter: link.server_words() };
                let settings = Settings { network: Some(network), ..Settings::default() };
                let sshd = Sshd::start(&settings).unwrap();
                let sysmcp = Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way));
                let sysmcp = selftest(sysmcp.in_network(link.client_words()));
                return Some(Self { link, _sshd: sshd, sysmcp });
            }
        }
        None
    }
}

/// A laptop that slept, or a router that was: neither end is told that the connection is gone.
fn a_connection_that_was_forgotten_on_the_way_is_found_out_by_the_first_call(way: &str) {
    // Heartbeats go out every third of the silence limit, which is 30 s: after this, one was missed.
    const SILENCE: Duration = Duration::from_secs(14);
    let Some(behind) = Behind::a_link(way, "a connection that was forgotten on the way") else {
        return;
    };
    let mut client = Client::start(behind.sysmcp.command()).unwrap();
    answered(&mut client);
    behind.link.forget_connections();
    sleep(SILENCE);
    let (told, took) = answered(&mut client);
    println!("{way}: the first call after it took {:.1} s", took.as_secs_f64());
    assert!(took < SOON, "{way}: {took:?}; {told:?}");
    assert!(is_told(&told, "nor within 3 s of asking: this machine slept"), "{way}: {told:?}");
    assert_eq!(sessions(&behind.sysmcp), ["connected", "stopped", "connected"], "{way}");
    let lost = behind.sysmcp.audited("stopped").unwrap();
    assert_eq!(lost[0]["clean"], false, "{way}: {lost:?}");
    assert!(lost[0]["receipt"].as_str().unwrap().starts_with("no receipt: "), "{way}: {lost:?}");
    end(client);
}

fn a_machine_that_slept_answers_its_first_call_by_a_new_session(way: &str) {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let sysmcp = selftest(Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)));
    let sysmcp = sysmcp.with(&["--silence-limit", "3"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    answered(&mut client);
    let before: Vec<Seen> = second_way::session(&sshd).unwrap();
    assert!(!before.is_empty());
    signal(client.pid(), Signal::STOP).unwrap();
    // The agent has ended itself meanwhile.
    let left = second_way::left_after(&sshd, &before, 20 * SECOND).unwrap();
    assert!(left.is_empty(), "{way}: {left:?}");
    // The call is there before anything can be noticed.
    let arguments = json!({"name": "self_test", "arguments": {"count": 1}});
    let id = client.ask("tools/call", &arguments).unwrap();
    let woken = Instant::now();
    signal(client.pid(), Signal::CONT).unwrap();
    let reply = client.reply(id, PATIENCE).unwrap().unwrap();
    let took = woken.elapsed();
    println!("{way}: the first call after a sleep took {:.1} s", took.as_secs_f64());
    assert_eq!(reply["result"]["isError"], false, "{way}: {reply}");
    assert!(took < SOON, "{way}: {took:?}");
    assert_eq!(sessions(&sysmcp), ["connected", "stopped", "connected"], "{way}");
}

fn a_call_that_runs_when_the_link_dies_says_so_and_the_next_connects_anew(way: &str) {
    let Some(behind) = Behind::a_link(way, "a call that runs when the link dies") else { return };
    let sysmcp = behind.sysmcp.with(&["--silence-limit", "3"]);
    let mut client = Client::start(sysmcp.command()).unwrap();
    answered(&mut client);
    let arguments = json!({"count": 60, "interval_ms": 1000});
    let call = json!({"name": "self_test", "arguments": arguments});
    let id = client.ask("tools/call", &call).unwrap();
    sleep(SECOND);
    behind.link.cut();
    let reply = client.reply(id, PATIENCE).unwrap().unwrap()["result"].clone();
    let text = reply["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("nothing came from the target for 3 s"), "{way}: {text}");
    assert!(text.contains("call again: the next call connects anew"), "{way}: {text}");
    assert_eq!(reply["_meta"]["io.github.sysmcp/error"]["exit_code"], 19, "{way}: {reply}");
    behind.link.heal();
    let (told, took) = answered(&mut client);
    assert!(took < SOON, "{way}: {took:?}");
    assert!(is_told(&told, "connecting anew to "), "{way}: {told:?}");
    assert!(is_told(&told, "nothing came from the target for 3 s"), "{way}: {told:?}");
    assert_eq!(sessions(&sysmcp), ["connected", "stopped", "connected"], "{way}");
    end(client);
}

fn a_server_that_is_restarted_ends_no_session(way: &str) {
    let mut sshd = Sshd::start(&Settings::default()).unwrap();
    let sysmcp = selftest(Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)));
    let mut client = Client::start(sysmcp.command()).unwrap();
    answered(&mut client);
    sshd.end_listener().unwrap();
    let (told, _) = answered(&mut client);
    assert!(!is_told(&told, "connecting"), "{way}: {told:?}");
    sshd.listen_again().unwrap();
    let (told, _) = answered(&mut client);
    assert!(!is_told(&told, "connecting"), "{way}: {told:?}");
    let other = selftest(Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)));
    answered(&mut Client::start(other.command()).unwrap());
}

/// Ends the sshd that carries the one session there is, and no other.
fn end_session(sshd: &Sshd) {
    let session = second_way::session(sshd).unwrap();
    let carrier = second_way::carrier(sshd, session.first().unwrap().pid).unwrap();
    signal(carrier, Signal::KILL).unwrap();
}

fn a_server_that_is_gone_for_good_is_told_in_one_sentence(way: &str) {
    let mut sshd = Sshd::start(&Settings::default()).unwrap();
    let sysmcp = selftest(Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)));
    let mut client = Client::start(sysmcp.command()).unwrap();
    answered(&mut client);
    // One whose session alone is gone is there again with the next call.
    end_session(&sshd);
    sleep(SECOND / 2);
    let (told, took) = answered(&mut client);
    assert!(took < SOON, "{way}: {took:?}");
    assert!(is_told(&told, "the connection to the target closed"), "{way}: {told:?}");
    end_session(&sshd);
    sshd.end_listener().unwrap();
    sleep(SECOND / 2);
    for _ in 0..2 {
        let started = Instant::now();
        let said = failed(&mut client, &json!({"count": 1}));
        assert!(said.contains("does not answer") && said.contains("refused"), "{way}: {said}");
        assert!(started.elapsed() < SOON, "{way}: {:?}", started.elapsed());
    }
    sshd.listen_again().unwrap();
    answered(&mut client);
    let seen = sessions(&sysmcp);
    let (lost, none) = (["connected", "stopped"], ["not_connected"; 2]);
    assert_eq!(seen, [&lost[..], &lost, &none, &["connected"]].concat(), "{way}");
}

/// A server with room for one login, and somebody who takes it and says nothing.
fn crowded() -> (Sshd, TcpStream) {
    let settings = Settings { server: vec!["MaxStartups 1".to_owned()], ..Settings::default() };
    let sshd = Sshd::start(&settings).unwrap();
    let somebody = sshd.take_place().unwrap();
    (sshd, somebody)
}

fn a_host_that_turns_a_login_away_is_asked_again(way: &str) {
    let (sshd, somebody) = crowded();
    let sysmcp = selftest(Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)));
    let mut client = Client::start(sysmcp.command()).unwrap();
    let call = json!({
        "name": "self_test", "arguments": {"count": 1}, "_meta": {"progressToken": "wanted"},
    });
    let id = client.ask("tools/call", &call).unwrap();
    let again = client.wait_for(PATIENCE, |message| {
        let said = message["params"]["message"].as_str().unwrap_or_default();
        said.contains("trying again in ")
            && said.contains("(1 of 3)")
            && said.contains("MaxStartups")
    });
    let again = again.unwrap();
    println!("{way}: {}", again.unwrap()["params"]["message"]);
    drop(somebody);
    let reply = client.reply(id, PATIENCE).unwrap().unwrap();
    assert_eq!(reply["result"]["isError"], false, "{way}: {reply}");
    assert_eq!(sessions(&sysmcp), ["connected"], "{way}");
}

fn a_host_that_turns_every_login_away_is_told_in_one_sentence(way: &str) {
    let (sshd, _somebody) = crowded();
    let sysmcp = selftest(Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)));
    let started = Instant::now();
    let output = sysmcp.call("self_test", &json!({"count": 1})).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    println!("{way}: {:.1} s: {said}", started.elapsed().as_secs_f64());
    assert_eq!(output.status.code(), Some(11), "{way}: {said}");
    assert!(started.elapsed() < 20 * SECOND, "{way}");
    let last = said.lines().last().unwrap();
    for words in ["4 times in a row", "MaxStartups", "try again in a minute"] {
        assert!(last.contains(words), "{way}: {said}");
    }
    assert_eq!(said.matches("trying again in ").count(), 3, "{way}: {said}");
    // Where there is no time for it, it is not tried again.
    let output = sysmcp.with(&["--connect-timeout", "1"]).call("self_test", &json!({})).unwrap();
    assert_eq!(output.status.code(), Some(11), "{way}");
}

fn many_targets_on_one_host_are_not_turned_away(way: &str) {
    // Fewer than there are names; more than log in at the same time, because the server counts a login
    // until it gets round to hear that it is done.
    let settings = Settings { server: vec!["MaxStartups 12".to_owned()], ..Settings::default() };
    let sshd = Sshd::start(&settings).unwrap();
    let (sysmcp, _) = under_many_names(way, &sshd, "");
    let said = each_answers(&sysmcp, way);
    if way == "russh" {
        // The names come to one place, and logins there wait for each other. Over the user's own ssh
        // only the names are known.
        assert!(!sshd.log().contains("past MaxStartups"), "{way}: {}", sshd.log());
        assert!(!said.contains("trying again in "), "{way}: {said}");
    }
}

#[test]
fn many_targets_behind_one_jump_host_do_not_crowd_it() {
    let settings = Settings { server: vec!["MaxStartups 8".to_owned()], ..Settings::default() };
    let (jump, sshd) =
        (Sshd::start(&settings).unwrap(), Sshd::start(&Settings::default()).unwrap());
    let through = format!("  ProxyJump {}@localhost:{}\n", user_name(), jump.port);
    let (sysmcp, config) = under_many_names("russh", &sshd, &through);
    let known = fs::read_to_string(jump.file("known_hosts")).unwrap();
    let known = known.replace("127.0.0.1", "localhost");
    fs::write(sshd.file("jump_known"), known).unwrap();
    let about_jump = format!(
        "Host localhost\n  IdentityFile {}\n  UserKnownHostsFile {}\n",
        jump.file("id").display(),
        sshd.file("jump_known").display()
    );
    let targets = fs::read_to_string(&config).unwrap();
    fs::write(&config, format!("{about_jump}{targets}")).unwrap();
    let said = each_answers(&sysmcp, "russh");
    assert_eq!(jump.log().matches("Accepted publickey").count(), usize::from(NAMES));
    assert!(!jump.log().contains("past MaxStartups"), "{}", jump.log());
    assert!(!said.contains("trying again in "), "{said}");
}

/// Names that one host has.
const NAMES: u8 = 16;

/// sysmcp, with one host under many names as its targets; and the configuration that names them, with
/// further lines for each.
fn under_many_names(way: &str, sshd: &Sshd, lines: &str) -> (Sysmcp, PathBuf) {
    let names: String = (0..NAMES).map(|index| format!("web-{index} ")).collect();
    // All are known by its address.
    let known = format!("[127.0.0.1]:{}", sshd.port);
    let alias = format!("Host {names}\n  HostName 127.0.0.1\n  HostKeyAlias {known}\n{lines}");
    let plain = fs::read_to_string(sshd.client_config()).unwrap();
    let plain = plain.replace("Host 127.0.0.1\n", "Host *\n");
    let config = sshd.file("many_config");
    fs::write(&config, format!("{alias}{plain}")).unwrap();
    let target = |index| format!("{way}:{}@web-{index}:{}", user_name(), sshd.port);
    let targets: Vec<String> = (0..NAMES).map(target).collect();
    let sysmcp = Sysmcp::over(sshd).unwrap().at_each(&targets).with_ssh_config(config.clone());
    (selftest(sysmcp), config)
}

/// Asks all targets at the same time, and gives what was said.
fn each_answers(sysmcp: &Sysmcp, way: &str) -> String {
    let output = sysmcp.call("self_test", &json!({"count": 1})).unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{way}: {said}");
    said
}
