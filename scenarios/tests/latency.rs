//! Programs that wait for something that is known: it must be named, with who is behind it; and a
//! service that is well must not be called anything.
//!
//! Numbers here are counts, orders and names: times are of the machine that the test runs on.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

use scenarios::{
    faults::Fault,
    not_run::{not_here, not_run},
    programs,
    service::Scenario,
    sysmcp::Sysmcp,
    victim::Victim,
};
use serde_json::{Value, json};
use std::{
    path::PathBuf,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    thread::sleep,
    time::Duration,
};

/// One at a time: processors are waited for by all.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Looks that a program gets on a machine that others use too.
const ATTEMPTS: usize = 3;

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Asks; root is answered by eBPF, where this kernel has it.
fn ask(parameters: &Value) -> Value {
    Sysmcp::local().unwrap().answer("latency", parameters).unwrap()
}

/// Whether a check that takes eBPF can be done.
fn is_traced(check: &str, answer: &Value, kind: &str) -> bool {
    if answer[kind]["measured_by"] == "ebpf" {
        return true;
    }
    if is_root() {
        not_here(check, &answer["refused"].to_string());
    } else {
        not_run(check, "root, for eBPF");
    }
    false
}

/// A perl program, which says a line once it does what it is for.
fn perl(wrapper: &[&str], script: &str) -> Victim {
    let words = [wrapper, &["perl", "-e", script]].concat();
    let mut command = Command::new(words[0]);
    Victim::start_and_wait(command.args(&words[1..])).unwrap().0
}

/// A busy process on the first processor; as root ahead of what else runs there.
fn spinner() -> Victim {
    let script = "$| = 1; print qq(ready\\n); 1 while 1;";
    let nice = if is_root() { "-15" } else { "0" };
    let words = ["-n", nice, "taskset", "-c", "0", "perl", "-e", script];
    Victim::start_and_wait(Command::new("nice").args(words)).unwrap().0
}

fn rows<'a>(answer: &'a Value, kind: &str, list: &str) -> &'a Vec<Value> {
    answer[kind][list].as_array().unwrap_or_else(|| panic!("no {kind}.{list}: {answer:#}"))
}

/// A program that ends only when it is killed.
fn kill(mut victim: Victim) {
    let _ = victim.0.kill();
}

#[test]
fn who_waits_for_a_processor_is_found_and_who_had_it() {
    let _guard = alone();
    let (waiting, hog, other) = (spinner(), spinner(), spinner());
    let mut last = Value::Null;
    let is_found = (0..ATTEMPTS).any(|_| {
        let of =
            json!({"pid": waiting.pid(), "kinds": ["run_queue"], "window_ms": 3000, "limit": 50});
        let answer = ask(&of);
        let first = &rows(&answer, "run_queue", "processes")[0];
        assert_eq!(first["pid"], waiting.pid(), "{answer:#}");
        assert!(first["waits"]["count"].as_u64().unwrap() > 0, "{answer:#}");
        assert_eq!(answer["class"], "waits_for_processor", "{answer:#}");
        assert_eq!(answer["next"][0]["tool"], "perf_record", "{answer:#}");
        if answer["run_queue"]["measured_by"] == "ebpf" {
            let counts = answer["run_queue"]["all"]["latency"]["counts"].as_array().unwrap();
            let all: u64 = counts.iter().filter_map(Value::as_u64).sum();
            assert_eq!(answer["run_queue"]["all"]["count"], all, "{answer:#}");
        }
        let ran = rows(&answer, "run_queue", "ran");
        let had: Vec<u64> = ran.iter().filter_map(|row| row["pid"].as_u64()).collect();
        last = answer.clone();
        // Others that the machine runs may have had the other processors.
        [&hog, &other, &waiting].iter().any(|hog| had.contains(&u64::from(hog.pid())))
    });
    for victim in [waiting, hog, other] {
        kill(victim);
    }
    assert!(is_found, "{last:#}");
}

#[test]
fn a_connect_without_an_answer_is_named_by_peer_and_outcome() {
    let _guard = alone();
    // Nobody accepts: the queue of the listener has room for one, and whatever comes then is dropped.
    let script = "use IO::Socket::INET; $| = 1; \
        my $l = IO::Socket::INET->new(Listen => 0, LocalAddr => '127.0.0.1') or die; \
        my @full = map { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $l->sockport, \
            Timeout => 1) } 1..2; \
        print $l->sockport, qq(\\n); \
        while (1) { \
            my $s = IO::Socket::INET->new(Proto => 'tcp', Blocking => 0, PeerAddr => '127.0.0.1', \
                PeerPort => $l->sockport); \
            push @full, $s; \
            IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => 1); \
            last if @full > 40; select(undef, undef, undef, 0.3) } <STDIN>";
    let mut command = Command::new("perl");
    let (victim, port) = Victim::start_and_wait(command.args(["-e", script])).unwrap();
    let answer =
        ask(&json!({"pid": victim.pid(), "kinds": ["tcp"], "window_ms": 3000, "limit": 50}));
    let pid = victim.pid();
    kill(victim);
    if !is_traced("a connect without an answer, by process", &answer, "tcp") {
        return;
    }
    let peer = format!("127.0.0.1:{port}");
    let connects = rows(&answer, "tcp", "connects");
    let pending = connects.iter().find(|row| row["outcome"] == "pending" && row["peer"] == *peer);
    let pending = pending.unwrap_or_else(|| panic!("nothing pending: {answer:#}"));
    assert_eq!((&pending["pid"], &pending["name"]), (&json!(pid), &json!("perl")), "{answer:#}");
    // Nobody listens at port 1.
    let refused = connects.iter().find(|row| row["outcome"] == "refused");
    let refused = refused.unwrap_or_else(|| panic!("nothing refused: {answer:#}"));
    assert_eq!(refused["peer"], "127.0.0.1:1", "{answer:#}");
    assert_eq!(answer["class"], "connects_unanswered", "{answer:#}");
    // The kernel asks again after a second.
    let resent = rows(&answer, "tcp", "resent");
    assert!(
        resent.iter().any(|row| row["peer"] == *peer && row["is_handshake"] == true),
        "{answer:#}"
    );
}

/// A loop device over a file, gone with this.
struct LoopDevice {
    path: PathBuf,
    _file: tempfile::NamedTempFile,
}

impl LoopDevice {
    fn new() -> Result<Self, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(16 << 20).unwrap();
        let mut losetup = Command::new("losetup");
        let made = losetup.args(["--find", "--show"]).arg(file.path()).output();
        let made = made.map_err(|error| format!("losetup: {error}"))?;
        if !made.status.success() {
            return Err(String::from_utf8_lossy(&made.stderr).into_owned());
        }
        let path = PathBuf::from(String::from_utf8_lossy(&made.stdout).trim());
        Ok(Self { path, _file: file })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

#[test]
fn who_writes_to_which_device_is_named_with_the_operation() {
    if !is_root() {
        return not_run("requests to a device, by process", "root, for a loop device");
    }
    let _guard = alone();
    let device = match LoopDevice::new() {
        Ok(device) => device,
        Err(why) => return not_here("requests to a device, by process", &why),
    };
    let path = device.path.to_str().unwrap();
    let script = "use IO::Handle; $| = 1; open(my $d, '+<', $ARGV[0]) or die; print qq(ready\\n); \
        while (1) { seek($d, 4096 * int(rand(4000)), 0); print $d 'x' x 4096; $d->flush; $d->sync; \
        select(undef, undef, undef, 0.005) }";
    let mut command = Command::new("perl");
    let (victim, _) = Victim::start_and_wait(command.args(["-e", script, path])).unwrap();
    let of_it = json!({"pid": victim.pid(), "kinds": ["block", "off_cpu"], "window_ms": 2000});
    let answer = ask(&of_it);
    let of_all = ask(&json!({"kinds": ["block"], "window_ms": 2000, "limit": 50}));
    let pid = victim.pid();
    kill(victim);
    if !is_traced("requests to a device, by process", &answer, "block") {
        return;
    }
    let name = path.strip_prefix("/dev/").unwrap();
    for answer in [&answer, &of_all] {
        let is_it = |row: &&Value| {
            row["device"] == name && row["operation"] == "write" && row["pid"] == pid
        };
        let row = rows(answer, "block", "submitters").iter().find(is_it);
        let row = row.unwrap_or_else(|| panic!("not named: {answer:#}"));
        assert_eq!((&row["kind"], &row["name"]), (&json!("process"), &json!("perl")), "{answer:#}");
        let count = row["waits"]["count"].as_u64().unwrap();
        assert!(count > 0 && row["bytes"].as_u64().unwrap() >= 4096 * count, "{answer:#}");
        let devices = rows(answer, "block", "devices");
        let found = devices.iter().find(|row| row["device"] == name && row["operation"] == "write");
        let found = found.unwrap_or_else(|| panic!("no such device: {answer:#}"));
        let both = [&found["queue"]["count"], &found["device_time"]["count"]];
        assert!(both.iter().all(|count| count.as_u64() >= Some(1)), "{answer:#}");
    }
    // It waits deaf to signals, for its own device and for nothing else.
    let sleeper = &rows(&answer, "off_cpu", "processes")[0];
    assert_eq!(sleeper["pid"], pid, "{answer:#}");
    assert!(sleeper["uninterruptible"]["count"].as_u64().unwrap() > 0, "{answer:#}");
}

#[test]
fn segments_that_are_sent_again_are_told_with_their_connection() {
    if !is_root() {
        return not_run("segments that are sent again", "root, for a network of its own");
    }
    let _guard = alone();
    let enter = ["unshare", "--net"];
    // What is sent to this port is dropped once the connection is there.
    let script = "use IO::Socket::INET; $| = 1; system('ip link set lo up') == 0 or die; \
        my $l = IO::Socket::INET->new(Listen => 5, LocalAddr => '127.0.0.1', LocalPort => 7007) or die; \
        my $c = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => 7007) or die; \
        my $dropped = system('iptables -I INPUT -p tcp --dport 7007 -j DROP') == 0; \
        print $dropped ? qq(ready\\n) : qq(no iptables\\n); \
        while (1) { syswrite($c, 'x'); select(undef, undef, undef, 0.2) }";
    let mut command = Command::new(enter[0]);
    let command = command.args([enter[1], "perl", "-e", script]);
    let (victim, line) = Victim::start_and_wait(command).unwrap();
    if line != "ready" {
        kill(victim);
        return not_here("segments that are sent again", "iptables in a network of its own");
    }
    let answer = ask(&json!({"pid": victim.pid(), "kinds": ["tcp"], "window_ms": 4000}));
    kill(victim);
    if !is_traced("segments that are sent again", &answer, "tcp") {
        return;
    }
    let resent = &rows(&answer, "tcp", "resent")[0];
    assert_eq!(
        (&resent["peer"], &resent["is_handshake"]),
        (&json!("127.0.0.1:7007"), &json!(false))
    );
    assert_eq!(answer["tcp"]["resent_total"], resent["count"], "{answer:#}");
}

#[test]
fn a_service_that_is_well_waits_for_nothing_but_its_turn() {
    let _guard = alone();
    let healthy = Scenario::start(Fault::Healthy).unwrap();
    sleep(Duration::from_millis(500));
    let answer = ask(&json!({"pid": healthy.pid(), "window_ms": 2000}));
    for list in [("tcp", "resent"), ("tcp", "connects")] {
        assert_eq!(answer[list.0][list.1], json!([]), "{answer:#}");
    }
    // A loaded machine may keep it waiting for a processor, and nothing else may be said of it.
    let class = answer["class"].as_str().unwrap_or_default();
    assert!(["quiet", "waits_for_processor", ""].contains(&class), "{answer:#}");
    assert_eq!(answer["meta"]["lost"]["events"], 0, "{answer:#}");
}

#[test]
fn a_sleeper_is_no_row_of_the_host() {
    let _guard = alone();
    let sleeper =
        perl(&[], "$| = 1; print qq(ready\\n); select(undef, undef, undef, 0.01) while 1;");
    let answer = ask(&json!({"kinds": ["off_cpu"], "window_ms": 1500, "limit": 50}));
    let pid = sleeper.pid();
    kill(sleeper);
    let is_row = rows(&answer, "off_cpu", "processes").iter().any(|row| row["pid"] == pid);
    assert!(!is_row, "{answer:#}");
}

/// Puts a filter on itself that answers `bpf` with `EPERM`, and runs the rest of its words.
fn filter() -> String {
    let [prctl, bpf] = if cfg!(target_arch = "x86_64") { [157, 321] } else { [167, 280] };
    format!(
        "my @f = ([0x20,0,0,0], [0x15,1,0,{bpf}], [6,0,0,0x7fff0000], [6,0,0,0x00050001]); \
         my $f = join '', map {{ pack 'SCCL', @$_ }} @f; \
         my $p = pack 'S x6 P', scalar(@f), $f; \
         syscall({prctl}, 38, 1, 0, 0, 0) == 0 or die; \
         syscall({prctl}, 22, 2, $p) == 0 or die; exec @ARGV or die"
    )
}

/// Who asks, by which mechanism each kind is told, and what the refusal says.
#[test]
fn whoever_asks_gets_what_is_permitted_and_is_told_what_is_not() {
    if !is_root() {
        return not_run("who may ask for waits", "root, to become others");
    }
    let _guard = alone();
    let folder = tempfile::tempdir().unwrap();
    let agent = programs::agent_for_all(folder.path()).unwrap();
    let agent = agent.to_str().unwrap();
    let filter = filter();
    let traced = ["ebpf"; 4];
    let summed = ["thread_accounts", "device_counters", "thread_accounts", "protocol_counters"];
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let without = ["setpriv", "--bounding-set=-bpf,-perfmon,-sys_admin"];
    /// Who asks, what makes one of them, how each kind is told, and what the refusal says.
    type Case<'a> = (&'a str, &'a [&'a str], [&'a str; 4], &'a [&'a str]);
    let cases: [Case<'_>; 4] = [
        ("root", &[], traced, &[]),
        ("an ordinary user", &nobody, summed, &["bpf_tp_btf", "root"]),
        ("root without the capabilities", &without, summed, &["bpf_tp_btf", "CAP_BPF"]),
        ("bpf answered by a filter", &["perl", "-e", &filter, "--"], summed, &["seccomp"]),
    ];
    for (who, wrapper, by, said) in cases {
        let question = ["--local", "latency", "--json", "--params", "{\"window_ms\":300}"];
        let words = [wrapper, &[agent], &question].concat();
        let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let answer: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{who}: {errors}"));
        let kinds = ["run_queue", "block", "off_cpu", "tcp"];
        for (kind, by) in kinds.iter().zip(by) {
            assert_eq!(answer[kind]["measured_by"], by, "{who}, {kind}: {answer:#}");
        }
        let refused = answer["refused"].to_string();
        assert_eq!(answer["refused"] == json!([]), said.is_empty(), "{who}: {refused}");
        for said in said {
            assert!(refused.contains(said), "{who}, {said}: {refused}");
        }
    }
}
