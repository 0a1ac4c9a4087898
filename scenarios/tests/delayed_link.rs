//! The link that takes its time: that it does, that sysmcp works over it, and that nothing of it
//! outlives the process that made it.

use scenarios::{
    delayed_link::{DelayedLink, Lack, SERVER},
    not_run::{not_here, not_run},
    programs,
    sshd::{Network, Settings, Sshd},
    sysmcp::Sysmcp,
    victim::Victim,
};
use serde_json::Value;
use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const ROUND_TRIP: Duration = Duration::from_millis(100);

/// Whether a check cannot run here, which is then said.
fn lacks(check: &str) -> bool {
    match DelayedLink::lacks() {
        Some(lack @ Lack::Root) => not_run(check, lack.name()),
        Some(lack @ Lack::Device) => not_here(check, lack.name()),
        None => return false,
    }
    true
}

#[test]
fn no_packet_is_answered_before_its_round_trip_is_over() {
    if lacks("a link with a round trip of 100 ms") {
        return;
    }
    let link = DelayedLink::start(ROUND_TRIP).unwrap();
    let measured: Vec<Duration> = (0..5).map(|_| link.measured_round_trip().unwrap()).collect();
    println!("asked for {ROUND_TRIP:?}, measured {measured:.1?}");
    assert!(measured.iter().all(|measured| *measured >= ROUND_TRIP), "{measured:?}");
}

#[test]
fn sysmcp_answers_over_a_link_with_a_round_trip_of_100_ms() {
    if lacks("sysmcp over a link with a round trip of 100 ms") {
        return;
    }
    let link = DelayedLink::start(ROUND_TRIP).unwrap();
    let network = Network { address: SERVER, enter: link.server_words() };
    let settings = Settings { network: Some(network), ..Settings::default() };
    let sshd = Sshd::start(&settings).unwrap();
    for way in ["russh", "openssh"] {
        let sysmcp = Sysmcp::over(&sshd).unwrap().with(&["--toolsets", "selftest"]);
        let sysmcp = sysmcp.at(&sshd.target_by(way));
        let mut call = sysmcp.command();
        call.args(["call", "self_test", "--json", "--params", r#"{"count":3}"#]);
        let started = Instant::now();
        let output = link.client_side(&call).stdin(Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        println!("{way}: {:.1} round trips", started.elapsed().div_duration_f64(ROUND_TRIP));
        assert!(output.status.success(), "{way}: {said}");
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["counted"], 3, "{way}: {answer}");
        assert!(said.contains("agent gone"), "{way}: {said}");
    }
}

#[test]
fn the_networks_are_gone_with_the_process_that_made_them() {
    if lacks("the end of a link's networks") {
        return;
    }
    let mut keeper = Command::new(programs::scenarios());
    let keeper = keeper.arg("delayed-link").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut keeper = Victim(keeper.spawn().unwrap());
    let lines = BufReader::new(keeper.0.stdout.take().unwrap()).lines();
    let holders: Vec<String> = lines
        .take(2)
        .map(|line| {
            let line = line.unwrap();
            let (_, behind) = line.split_once("--net=").unwrap();
            behind.strip_suffix("/ns/net").unwrap().to_owned()
        })
        .collect();
    assert_eq!(holders.len(), 2);
    assert!(holders.iter().all(|holder| Path::new(holder).exists()), "{holders:?}");
    keeper.0.kill().unwrap();
    keeper.0.wait().unwrap();
    let started = Instant::now();
    while holders.iter().any(|holder| Path::new(holder).exists()) {
        assert!(started.elapsed() < Duration::from_secs(20), "{holders:?} are still there");
        sleep(Duration::from_millis(20));
    }
}
