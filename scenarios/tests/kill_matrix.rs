//! Every way a session can end, over a real sshd, and what is left of it on the target.
//!
//! Before each end, a child is planted in the agent, and a second way in (a plain ssh with `ps`)
//! has to see the supervisor, the worker and the child alive. After it, the same second way has to
//! see none of them, and no file with a name.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use rustix::process::{Pid, Signal};
use scenarios::{
    behind::behind,
    client::Client,
    not_run::is_full,
    programs,
    second_way::{self, Seen, signal},
    sshd::{Settings, Sshd},
    sysmcp::Sysmcp,
};
use serde_json::json;
use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// After which nothing may be left. The slowest end is a cut network: the agent's own silence
/// limit, 3 s here, and the time to notice.
const PATIENCE: Duration = Duration::from_secs(12);

const SECOND: Duration = Duration::from_secs(1);

/// A session under test: a target, a way past sysmcp, and how to run sysmcp.
struct Bench {
    sshd: Sshd,
    sysmcp: Sysmcp,
    cut: PathBuf,
}

impl Bench {
    /// Over one of the ways to a host.
    fn over(way: &str) -> Self {
        let sshd = Sshd::start(&Settings::default()).unwrap();
        let sysmcp = Sysmcp::over(&sshd).unwrap().at(&sshd.target_by(way)).with_faulty_agents();
        let cut = sshd.file("cut");
        Self { sshd, sysmcp, cut }
    }

    /// With a link of our own in between, that can be slow and can be cut.
    fn with_link(self, rate: Option<u64>) -> Self {
        let rate = rate.map(|rate| format!(" --rate {rate}")).unwrap_or_default();
        let (relay, port, cut) = (programs::scenarios(), self.sshd.port, self.cut.display());
        let proxy = format!("ProxyCommand {} relay {port}{rate} --cut {cut}", relay.display());
        // The way past sysmcp goes past the link too.
        let config = self.sshd.file("linked_config");
        let plain = std::fs::read_to_string(self.sshd.client_config()).unwrap();
        std::fs::write(&config, format!("{plain}  {proxy}\n")).unwrap();
        let sysmcp = self.sysmcp.with_ssh_config(config);
        Self { sysmcp, ..self }
    }

    /// A client whose session has a planted child, and what the second way sees of it.
    fn client(&self, fault: &str) -> (Client, Vec<Seen>) {
        let mut client = Client::start(self.sysmcp.command()).unwrap();
        let arguments = json!({"count": 1, "fault": fault});
        client.call("self_test", &arguments, 30 * SECOND).unwrap();
        let seen = self.planted();
        (client, seen)
    }

    /// What the second way sees of a session, once that is so.
    fn seen_when(&self, is_so: impl Fn(&[Seen]) -> bool) -> Vec<Seen> {
        let started = Instant::now();
        loop {
            let seen = second_way::session(&self.sshd).unwrap();
            if is_so(&seen) {
                return seen;
            }
            assert!(started.elapsed() < 3 * PATIENCE, "the second way sees only {seen:#?}");
            sleep(Duration::from_millis(50));
        }
    }

    /// What the second way sees of a session whose agent started a child, which comes last.
    fn planted(&self) -> Vec<Seen> {
        self.seen_when(|seen| seen.iter().any(|seen| seen.command.starts_with("sleep 3600")))
    }

    /// What the second way sees of a session; at least so many processes.
    fn alive(&self, at_least: usize) -> Vec<Seen> {
        self.seen_when(|seen| seen.len() >= at_least)
    }

    /// What the second way sees of a push: the script, waiting for the agent, which takes some
    /// seconds over the slow link.
    fn receiving(&self) -> Vec<Seen> {
        self.seen_when(|seen| seen.iter().any(|seen| seen.command.contains("head -c ")))
    }

    /// Asserts that nothing of a session is left.
    fn assert_clean(&self, before: &[Seen], row: &str) {
        let left = second_way::left_after(&self.sshd, before, PATIENCE).unwrap();
        assert!(left.is_empty(), "{row}: left on the target: {left:#?}");
    }

    /// Starts a long call in the background, in a process group of its own.
    fn long_call(&self) -> Child {
        use std::os::unix::process::CommandExt as _;
        let parameters = json!({"count": 60, "interval_ms": 1000, "fault": "plant_child"});
        self.sysmcp
            .command()
            .args(["call", "self_test", "--params", &parameters.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap()
    }
}

/// The agent's own two processes among those seen: the supervisor is the worker's parent.
fn agent_pids(seen: &[Seen]) -> (u32, u32) {
    let agents: Vec<&Seen> = seen.iter().filter(|seen| seen.command.contains(" serve ")).collect();
    let worker = agents
        .iter()
        .find(|worker| agents.iter().any(|supervisor| supervisor.pid == worker.parent))
        .unwrap_or_else(|| panic!("no pair of supervisor and worker: {seen:#?}"));
    (worker.parent, worker.pid)
}

fn wait(child: &mut Child) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code().unwrap_or_else(|| 128 + status.signal().unwrap());
        }
        assert!(started.elapsed() < 30 * SECOND, "sysmcp did not end");
        sleep(Duration::from_millis(20));
    }
}

/// Every end, over both ways to a host.
macro_rules! over_both {
    ($($end:ident)*) => {
        mod own_ssh {
            $(#[test] fn $end() { super::$end("russh"); })*
        }
        mod users_ssh {
            $(#[test] fn $end() { super::$end("openssh"); })*
        }
    };
}

over_both! {
    normal_exit
    end_of_file_in_the_middle_of_a_call
    terminate_and_interrupt_during_a_call
    kill_of_the_controller
    interrupt_and_kill_during_the_push
    cancel_by_the_client
    kill_of_the_servers_session
    kill_of_the_worker_and_of_the_supervisor
    panic_of_the_agent
    a_network_that_is_cut_without_a_word
    an_interrupt_at_any_moment
}

fn normal_exit(way: &str) {
    let bench = Bench::over(way);
    let (mut client, seen) = bench.client("plant_child");
    client.close();
    let (status, _) = client.ended(20 * SECOND).unwrap().unwrap();
    assert_eq!(status.code(), Some(0), "a session that ends in order ends with a receipt");
    bench.assert_clean(&seen, "normal exit");
    let audit = std::fs::read_to_string(bench.sysmcp.audit_log()).unwrap();
    assert!(audit.contains("0 processes left") && audit.contains("ended 1 that it had"), "{audit}");
}

fn end_of_file_in_the_middle_of_a_call(way: &str) {
    let bench = Bench::over(way);
    let (mut client, seen) = bench.client("plant_grandchild");
    let arguments = json!({"count": 60, "interval_ms": 1000});
    client.ask("tools/call", &json!({"name": "self_test", "arguments": arguments})).unwrap();
    sleep(SECOND);
    client.close();
    let (status, took) = client.ended(20 * SECOND).unwrap().unwrap();
    assert_eq!(status.code(), Some(0));
    assert!(took < 5 * SECOND, "it took {took:?} to end");
    bench.assert_clean(&seen, "end of file");
}

fn terminate_and_interrupt_during_a_call(way: &str) {
    for (name, what) in [("TERM", Signal::TERM), ("INT", Signal::INT), ("HUP", Signal::HUP)] {
        let bench = Bench::over(way);
        let mut call = bench.long_call();
        let seen = bench.planted();
        if what == Signal::INT {
            // Ctrl-C at a terminal reaches the whole group: sysmcp, and the ssh that it runs.
            let group = Pid::from_raw(i32::try_from(call.id()).unwrap()).unwrap();
            rustix::process::kill_process_group(group, what).unwrap();
        } else {
            signal(call.id(), what).unwrap();
        }
        assert_eq!(wait(&mut call), 130, "{name}");
        bench.assert_clean(&seen, name);
        let audit = std::fs::read_to_string(bench.sysmcp.audit_log()).unwrap();
        assert!(audit.contains("\"clean\":true"), "{name}: no receipt: {audit}");
        assert!(audit.contains("\"error\":\"cancelled\""), "{name}: {audit}");
    }
}

fn kill_of_the_controller(way: &str) {
    let bench = Bench::over(way);
    let mut call = bench.long_call();
    let seen = bench.planted();
    signal(call.id(), Signal::KILL).unwrap();
    assert_eq!(wait(&mut call), 137);
    bench.assert_clean(&seen, "KILL of the controller");
}

fn interrupt_and_kill_during_the_push(way: &str) {
    for (name, what, code) in [("INT", Signal::INT, 130), ("KILL", Signal::KILL, 137)] {
        // When sysmcp is killed, its ssh still sends what it was given: that must be over in time.
        let bench = Bench::over(way).with_link(Some(200_000));
        let mut call = bench.long_call();
        let script = bench.receiving();
        let files = second_way::files(&bench.sshd).unwrap();
        assert!(files.is_empty(), "files have a name during the push: {files:?}");
        signal(call.id(), what).unwrap();
        assert_eq!(wait(&mut call), code, "{name} during the push");
        bench.assert_clean(&script, name);
    }
}

fn cancel_by_the_client(way: &str) {
    /// Calls that the agent runs at the same time.
    const PLACES: u32 = 8;
    let bench = Bench::over(way);
    let bench = Bench { sysmcp: bench.sysmcp.with(&["--max-calls", "8"]), ..bench };
    let (mut client, seen) = bench.client("plant_child");
    let arguments = json!({"count": 60, "interval_ms": 1000});
    let call = json!({"name": "self_test", "arguments": arguments});
    let ids: Vec<u64> = (0..PLACES).map(|_| client.ask("tools/call", &call).unwrap()).collect();
    sleep(SECOND);
    for id in &ids {
        client.notify("notifications/cancelled", &json!({"requestId": id})).unwrap();
    }
    // The work stops on the target: the places that the calls held there are free again.
    let started = Instant::now();
    let answer = loop {
        let answer = client.call("self_test", &json!({"count": 1}), 10 * SECOND).unwrap();
        if answer.get("isError") != Some(&json!(true)) || started.elapsed() > 3 * SECOND {
            break answer;
        }
    };
    assert_eq!(answer.get("isError"), Some(&json!(false)), "{answer}");
    for id in ids {
        assert_eq!(client.reply(id, SECOND / 10).unwrap(), None, "a withdrawn call was answered");
    }
    let audit = std::fs::read_to_string(bench.sysmcp.audit_log()).unwrap();
    assert!(audit.contains("\"error\":\"cancelled\""), "{audit}");
    client.close();
    client.ended(20 * SECOND).unwrap().unwrap();
    bench.assert_clean(&seen, "cancel");
}

fn kill_of_the_servers_session(way: &str) {
    let bench = Bench::over(way);
    let (mut client, seen) = bench.client("plant_child");
    let (supervisor, _) = agent_pids(&seen);
    signal(second_way::carrier(&bench.sshd, supervisor).unwrap(), Signal::KILL).unwrap();
    bench.assert_clean(&seen, "KILL of the sshd session");
    // The next call connects anew.
    let answer = client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
    assert_eq!(answer.get("isError"), Some(&json!(false)), "{answer}");
    let again = bench.alive(2);
    client.close();
    client.ended(20 * SECOND).unwrap().unwrap();
    bench.assert_clean(&again, "the session after");
}

fn kill_of_the_worker_and_of_the_supervisor(way: &str) {
    let bench = Bench::over(way);
    let (client, seen) = bench.client("plant_grandchild");
    let (_, worker) = agent_pids(&seen);
    signal(worker, Signal::KILL).unwrap();
    bench.assert_clean(&seen, "KILL of the worker");
    drop(client);

    // Of the supervisor: the worker goes with it. What the worker had started would stay, so
    // nothing is planted here; `docs/safety.md` says so.
    let mut client = Client::start(bench.sysmcp.command()).unwrap();
    client.call("self_test", &json!({"count": 1}), 30 * SECOND).unwrap();
    let seen = bench.alive(2);
    let (supervisor, _) = agent_pids(&seen);
    signal(supervisor, Signal::KILL).unwrap();
    bench.assert_clean(&seen, "KILL of the supervisor");
}

fn panic_of_the_agent(way: &str) {
    let bench = Bench::over(way);
    let (mut client, seen) = bench.client("plant_child");
    let answer = client.call("self_test", &json!({"fault": "panic"}), 30 * SECOND).unwrap();
    assert_eq!(answer.get("isError"), Some(&json!(true)));
    let text = answer.to_string();
    assert!(text.contains("the connection to the target closed"), "{text}");
    bench.assert_clean(&seen, "panic");
}

fn a_network_that_is_cut_without_a_word(way: &str) {
    let bench = Bench::over(way).with_link(None);
    let bench = Bench { sysmcp: bench.sysmcp.with(&["--silence-limit", "3"]), ..bench };
    let (mut client, seen) = bench.client("plant_child");
    let id = client
        .ask(
            "tools/call",
            &json!({"name": "self_test", "arguments": {"count": 60, "interval_ms": 1000}}),
        )
        .unwrap();
    sleep(SECOND);
    std::fs::write(&bench.cut, "").unwrap();
    bench.assert_clean(&seen, "cut network");
    let reply = client.reply(id, 10 * SECOND).unwrap().unwrap().to_string();
    assert!(reply.contains("nothing came from the target for 3 s"), "{reply}");
}

/// Over both ways at once: nearly all of it is waiting.
#[test]
fn a_network_that_is_cut_during_the_push() {
    std::thread::scope(|scope| {
        for way in ["russh", "openssh"] {
            scope.spawn(move || cut_during_the_push(way));
        }
    });
}

/// Nobody closes anything then: the script has to give up by itself.
fn cut_during_the_push(way: &str) {
    // The script gives up by itself: after what 20 kB/s need for the agent, and some more.
    const PATIENCE: Duration = Duration::from_secs(260);
    let bench = Bench::over(way).with_link(Some(60_000));
    let bench = Bench { sysmcp: bench.sysmcp.with(&["--connect-timeout", "5"]), ..bench };
    let mut call = bench.long_call();
    let script = bench.receiving();
    std::fs::write(&bench.cut, "").unwrap();
    let left = second_way::left_after(&bench.sshd, &script, PATIENCE).unwrap();
    assert!(left.is_empty(), "left on the target: {left:#?}");
    assert_eq!(wait(&mut call), 11);
}

/// sysmcp as a person would start it, whoever runs the tests: what a shell starts in the background
/// ignores interrupts, until it says otherwise.
fn interruptible(sysmcp: &Sysmcp) -> Command {
    behind(&["env", "--default-signal=INT"], &sysmcp.command())
}

/// Waits until it is sysmcp that runs, and no longer what starts it.
fn await_start(call: &mut Child) {
    let name = format!("/proc/{}/comm", call.id());
    while std::fs::read_to_string(&name).unwrap() != "sysmcp\n" {
        assert!(call.try_wait().unwrap().is_none(), "it never started");
        sleep(Duration::from_micros(100));
    }
}

/// The start-up script names a folder for a moment. An interrupt in that moment is not to leave it.
#[test]
fn an_interrupt_at_any_moment_on_this_machine() {
    let rounds: u64 = if is_full() { 400 } else { 60 };
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let sysmcp = Sysmcp::local().unwrap().with(&["--quiet"]);
    for round in 0..rounds {
        let mut call = interruptible(&sysmcp)
            .args(["call", "process_list"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        await_start(&mut call);
        sleep(Duration::from_micros(round * 40_000 / rounds));
        signal(call.id(), Signal::INT).unwrap();
        let code = wait(&mut call);
        assert_eq!(code, 130, "round {round}");
        let files = second_way::files(&sshd).unwrap();
        assert!(files.is_empty(), "round {round}: {files:?}");
    }
}

/// The same over a connection: nothing is left, whatever had come about by then.
fn an_interrupt_at_any_moment(way: &str) {
    let rounds: u64 = if is_full() { 100 } else { 10 };
    let bench = Bench::over(way);
    for round in 0..rounds {
        let mut call = interruptible(&bench.sysmcp)
            .args(["--quiet", "call", "process_list"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        await_start(&mut call);
        sleep(Duration::from_micros(round * 400_000 / rounds));
        signal(call.id(), Signal::INT).unwrap();
        assert_eq!(wait(&mut call), 130, "round {round}");
        let left = second_way::still_left(PATIENCE, || second_way::left_on(&bench.sshd)).unwrap();
        assert!(left.is_empty(), "round {round}: {left:#?}");
    }
}

/// The check itself: a survivor and a file must turn it red.
#[test]
fn a_survivor_is_seen() {
    let sshd = Sshd::start(&Settings::default()).unwrap();
    let mut survivor = Command::new("sleep").arg("3600").spawn().unwrap();
    let before: Vec<Seen> = second_way::processes(&sshd)
        .unwrap()
        .into_iter()
        .filter(|seen| seen.pid == survivor.id())
        .collect();
    assert_eq!(before.len(), 1);
    let file = PathBuf::from("/dev/shm/.sysmcp-planted-by-a-test");
    std::fs::write(&file, "").unwrap();
    let left = second_way::left(&sshd, &before).unwrap();
    std::fs::remove_file(&file).unwrap();
    survivor.kill().unwrap();
    survivor.wait().unwrap();
    assert!(left.iter().any(|line| line.contains("sleep 3600")), "{left:?}");
    assert!(left.iter().any(|line| line.contains("planted-by-a-test")), "{left:?}");
    assert!(second_way::left(&sshd, &before).unwrap().is_empty());
}
