//! The link that takes its time: that it does, that sysmcp works over it, and that nothing of it
//! outlives the process that made it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use scenarios::{
    client::{Client, Told},
    delayed_link::{Conditions, DelayedLink, Lack, SERVER},
    not_run::{not_here, not_run},
    programs,
    sshd::{Network, Settings, Sshd},
    sysmcp::Sysmcp,
    victim::Victim,
};
use serde_json::{Value, json};
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

/// Connects over a link, and gives what was told of how far the agent was: when, and how many percent.
fn told_while_sending(conditions: Conditions, way: &str) -> (Vec<Told>, Vec<(Duration, f64)>) {
    let link = DelayedLink::under(conditions).unwrap();
    let network = Network { address: SERVER, enter: link.server_words() };
    let settings = Settings { network: Some(network), ..Settings::default() };
    let sshd = Sshd::start(&settings).unwrap();
    let sysmcp = Sysmcp::over(&sshd).unwrap().with(&["--toolsets", "selftest"]);
    let sysmcp = sysmcp.at(&sshd.target_by(way)).in_network(link.client_words());
    let mut client = Client::start(sysmcp.command()).unwrap();
    let patience = Duration::from_secs(120);
    let called = client.call_with_progress("self_test", &json!({"count": 1}), patience);
    let (result, told) = called.unwrap();
    assert_eq!(result["isError"], false, "{way}: {result}");
    // While the link is there: an `ssh` whose network is gone waits for long.
    client.close();
    assert!(client.ended(patience).unwrap().is_some(), "{way}: it does not end");
    println!("{way}, {conditions:?}:");
    told.iter().for_each(|told| println!("  {:6.2} s  {}", told.after.as_secs_f64(), told.message));
    let percent = |told: &Told| {
        let (percent, _) =
            told.message.strip_prefix("sending the agent: ")?.split_once(" % of ")?;
        Some((told.after, percent.parse().unwrap()))
    };
    let sending = told.iter().filter_map(percent).collect();
    (told, sending)
}

/// When something was first told.
fn first(told: &[Told], begins: &str) -> Duration {
    told.iter().find(|told| told.message.starts_with(begins)).unwrap().after
}

#[test]
fn progress_on_a_slow_line_says_what_has_arrived() {
    if lacks("progress on a slow line") {
        return;
    }
    // A queue that takes two seconds, as slow lines have them.
    let slow = Conditions::delayed(ROUND_TRIP).at_rate(50_000);
    let slow = Conditions { queue_bytes: 100_000, ..slow };
    for way in ["russh", "openssh"] {
        let (told, sending) = told_while_sending(slow, way);
        let (began, ended) = (first(&told, "sending the agent"), first(&told, "connected: "));
        let middle = began + (ended - began) / 2;
        let (_, percent) = *sending.iter().rfind(|(after, _)| *after <= middle).unwrap();
        assert!((25.0..=75.0).contains(&percent), "{way}: {percent} % at half of the time");
        let pairs = || told.iter().zip(told.iter().skip(1));
        assert!(pairs().all(|(one, next)| one.progress < next.progress), "{way}: {told:?}");
        let pause = pairs().map(|(one, next)| next.after - one.after).max().unwrap();
        assert!(pause < Duration::from_secs(4), "{way}: for {pause:?} nothing was told");
        let steps = sending.iter().zip(sending.iter().skip(1));
        assert!(steps.clone().all(|(one, next)| one.1 <= next.1), "{way}: {sending:?}");
        let leap = steps.map(|(one, next)| next.1 - one.1).fold(0.0, f64::max);
        assert!(leap < 40.0, "{way}: a leap of {leap} %");
        assert!(told.iter().any(|told| told.message.contains(" s left")), "{way}: {told:?}");
    }
}

#[test]
fn the_agent_is_sent_over_10_mbit_s_with_its_progress() {
    if lacks("a line of 10 Mbit/s") {
        return;
    }
    let conditions = Conditions::delayed(ROUND_TRIP).at_rate(1_250_000);
    for way in ["russh", "openssh"] {
        let (told, sending) = told_while_sending(conditions, way);
        let took = first(&told, "connected: ") - first(&told, "sending the agent");
        println!("{way}: {:.2} s", took.as_secs_f64());
        assert!(!sending.is_empty(), "{way}: {told:?}");
    }
}

#[test]
fn a_link_that_is_stalled_goes_on_once_it_is_healed_and_one_that_is_cut_carries_nothing() {
    if lacks("a link that is stalled and cut") {
        return;
    }
    let link = DelayedLink::start(ROUND_TRIP).unwrap();
    link.stall();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| link.measured_round_trip().unwrap());
        sleep(5 * ROUND_TRIP);
        link.heal();
        assert!(asked.join().unwrap() >= 5 * ROUND_TRIP);
    });
    link.cut();
    let dropped = link.dropped();
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| link.measured_round_trip().unwrap());
        sleep(5 * ROUND_TRIP);
        assert!(link.dropped() > dropped && !asked.is_finished());
        // The kernel asks again, after a second.
        link.heal();
        assert!(asked.join().unwrap() >= 5 * ROUND_TRIP);
    });
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
